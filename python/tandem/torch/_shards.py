"""The local piece of a DTensor parameter, and its position in the whole."""

from __future__ import annotations

import copy
import inspect
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import torch

from tandem.torch._versions import needed

#: The classes of most parameters, which are not DTensors.
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))

#: The classes of DTensors that have been seen.
_DTENSORS: set[type] = set()


def is_dtensor(tensor: object) -> bool:
    """Returns whether a tensor is a DTensor, such as from ``fully_shard`` (FSDP2) or
    ``parallelize_module``."""
    kind = type(tensor)
    return kind not in _PLAIN and (kind in _DTENSORS or _is_new(kind))


def _is_new(kind: type) -> bool:
    """Returns whether a class is a DTensor's, and remembers it if so."""
    if kind.__module__.startswith("torch.distributed._tensor"):
        raise needed("DTensors, as fully_shard makes them, need", "2.5")
    base = dtensor_class()
    found = base is not None and issubclass(kind, base)
    if found:
        _DTENSORS.add(kind)
    return found


def dtensor_class() -> type | None:
    """Returns the class of DTensors, or None while there are no DTensors."""
    # Importing the module is slow, and without it there are no DTensors.
    return getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a DTensor's piece on this rank, which shares its memory; returns any other tensor
    itself."""
    if not is_dtensor(tensor):
        return tensor
    local = tensor._local_tensor
    if type(local) in _PLAIN:
        return local
    wait = getattr(local, "trigger_wait", None)  # a collective may be in progress
    return wait() if wait else local


def shard_of(tensor: torch.Tensor) -> Shard | None:
    """Returns the sharding of a DTensor, or None for any other tensor."""
    if not is_dtensor(tensor):
        return None
    return _shard(tensor.shape, tensor.stride(), tuple(tensor.placements), tensor.device_mesh)


@lru_cache(maxsize=4096)
def _shard(shape, stride, placements, mesh) -> Shard:
    return Shard(shape, stride, placements, mesh)


@lru_cache(maxsize=None)
def _group_of(ranks: tuple[int, ...], _world) -> object:
    """Returns a process group of these ranks.

    A mesh could be flattened instead, but full_tensor() of PyTorch 2.13 then gathers uneven
    pieces of several dimensions at once and cuts them incorrectly.
    """
    return torch.distributed.new_group(ranks, use_local_synchronization=True)


@dataclass(frozen=True)
class Shard:
    """A tensor that is sharded over a device mesh, and this rank's piece.

    Everything except :attr:`index` and values derived from it is the same on every rank, so that
    all ranks make the same decisions.

    Attributes:
        shape: the shape of the whole tensor.
        stride: the strides of the whole tensor, in elements.
        placements: the placement of each mesh dimension.
        mesh: the DeviceMesh.
    """

    shape: torch.Size
    stride: tuple[int, ...]
    placements: tuple
    mesh: object

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """The mesh dimensions that divide the tensor: those with more than one rank and a
        placement other than Replicate."""
        return tuple(dim for dim, placement in enumerate(self.placements)
                     if self.mesh.size(dim) > 1 and not placement.is_replicate())

    @property
    def is_whole(self) -> bool:
        """Whether each rank has the whole tensor."""
        return not self.dims

    @cached_property
    def is_partial(self) -> bool:
        """Whether the tensor is a pending reduction of the ranks' tensors."""
        return any(placement.is_partial() for placement in self.placements)

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...] | None:
        """The first row and the number of rows of each piece, by ascending rows; None if pieces
        are not ranges of rows. A piece may be empty.

        Rows are along the first dimension; those of a vector have one element. A replicated
        tensor is one piece.
        """
        order = None if self.is_partial else self._order()
        rows = self.shape[0] if self.shape else 1
        return None if order is None else tuple(
            self._rows_at(rows, order, place) for place in self._places(order))

    @cached_property
    def ranks(self) -> tuple[int, ...] | None:
        """The global ranks of the pieces, in the order of :attr:`bounds`: the ranks that share a
        replica of the tensor with this one."""
        order, own = self._order(), self.mesh.get_coordinate()
        if order is None or own is None:
            return None
        places = (dict(zip(order, place)) for place in self._places(order))
        return tuple(int(self.mesh.mesh[tuple(place.get(dim, at) for dim, at in enumerate(own))])
                     for place in places)

    @cached_property
    def index(self) -> int | None:
        """This rank's index in :attr:`bounds`; None if there are no bounds or the rank is not in
        the mesh."""
        if self.bounds is None or (own := self.mesh.get_coordinate()) is None:
            return None
        order = self._order()
        return list(self._places(order)).index(tuple(own[dim] for dim in order))

    @property
    def first_row(self) -> int | None:
        """The first row of this rank's piece."""
        return None if self.index is None else self.bounds[self.index][0]

    @property
    def rows(self) -> int | None:
        """The number of rows of this rank's piece."""
        return None if self.index is None else self.bounds[self.index][1]

    @cached_property
    def row_length(self) -> int:
        """The number of elements of a row."""
        return math.prod(self.shape[1:])

    @cached_property
    def starts(self) -> tuple[int, ...] | None:
        """The index of each piece's first element in the whole tensor."""
        return self.bounds and tuple(row * self.row_length for row, _ in self.bounds)

    @property
    def first(self) -> int:
        """The index of this rank's first element in the whole tensor; 0 if pieces are not
        rows."""
        return 0 if self.index is None else self.starts[self.index]

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the whole of a DTensor with this sharding. All ranks must call it together."""
        return local_of(tensor) if self.is_whole else whole_of(tensor)

    def piece_of(self, whole: torch.Tensor) -> torch.Tensor:
        """Returns this rank's piece of a whole tensor."""
        from torch.distributed.tensor import distribute_tensor

        if self.is_whole:
            return whole
        if self.bounds is not None and self.shape:
            return whole.narrow(0, self.first_row, self.rows)
        if "src_data_rank" not in inspect.signature(distribute_tensor).parameters:
            raise needed(f"a tensor that is spread as {self}, in pieces that are not rows, needs",
                         "2.7")
        return local_of(distribute_tensor(whole, self.mesh, self.placements, src_data_rank=None))

    def measure(self, dtype: torch.dtype) -> torch.Tensor:
        """Returns a tensor with the whole's shape and layout on the meta device."""
        return torch.empty_strided(self.shape, self.stride, dtype=dtype, device="meta")

    @cached_property
    def is_in_c_order(self) -> bool:
        """Whether the whole tensor is contiguous in C order."""
        return torch.empty_strided(self.shape, self.stride, device="meta").is_contiguous()

    @cached_property
    def group(self):
        """The process group that the pieces are spread over; None if each rank has the whole
        tensor.

        If several mesh dimensions divide the tensor, the first access creates a group for them,
        so all of its ranks must access it.
        """
        if len(self.dims) < 2:
            return self.mesh.get_group(self.dims[0]) if self.dims else None
        return _group_of(self.ranks, torch.distributed.group.WORLD)

    def __str__(self) -> str:
        """Returns the placements for messages."""
        return f"({', '.join(map(str, self.placements))})"

    #===--------------------------------------------------------------------===#
    # The order in which the mesh divides rows
    #===--------------------------------------------------------------------===#

    def _order(self) -> tuple[int, ...] | None:
        """Returns the mesh dimensions that divide rows, in the order of division; None if one
        divides something else.

        A strided shard, such as FSDP over tensor parallelism, is applied after the dimensions
        that follow it in the mesh.
        """
        order: tuple[int, ...] = ()
        for dim in reversed(self.dims):
            placement = self.placements[dim]
            factor = getattr(placement, "split_factor", None)
            if getattr(placement, "dim", None) != 0:
                return None
            if factor is None:
                order = (dim, *order)
            elif factor == math.prod(map(self.mesh.size, order)):
                order = (*order, dim)
            else:
                return None
        return order

    def _places(self, order: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Returns the coordinates of the pieces, by ascending rows."""
        return product(*(range(self.mesh.size(dim)) for dim in order))

    def _rows_at(self, rows: int, order: Sequence[int], place: Sequence[int]) -> tuple[int, int]:
        """Returns the first row and the number of rows at these coordinates. Each dimension
        divides rows as torch.chunk does."""
        first = 0
        for dim, at in zip(order, place):
            length = -(-rows // self.mesh.size(dim))
            before = min(at * length, rows)
            first, rows = first + before, min(length, rows - before)
        return first, rows

    #===--------------------------------------------------------------------===#
    # Related tensors
    #===--------------------------------------------------------------------===#

    def like(self, local: torch.Tensor) -> torch.Tensor:
        """Returns the DTensor of a piece with the same shape as this rank's."""
        return self._joined(local, self.shape, self.stride, self.placements)

    def beside(self, local: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Returns the DTensor for this rank's piece of a tensor with fewer elements.

        Args:
            local: the piece.
            shape: the shape of the whole, whose first dimension is divided like the parameter's;
                if ranks have the whole parameter, the shape of `local`.
        """
        from torch.distributed.tensor import Replicate

        placements = (Replicate(),) * self.mesh.ndim if self.is_whole else self.placements
        local = local.reshape(-1 if local.numel() else 0, *shape[1:])
        stride = torch.empty(shape, device="meta").stride()
        return self._joined(local, shape, stride, placements)

    def of_shape(self, shape: torch.Size) -> Shard:
        """Returns the sharding of a tensor of another shape, with the same placements."""
        stride = torch.empty(shape, device="meta").stride()
        return _shard(shape, stride, self.placements, self.mesh)

    def replicated(self, local: torch.Tensor) -> torch.Tensor:
        """Returns the replicated DTensor of a tensor that each rank has in full."""
        from torch.distributed.tensor import DTensor, Replicate

        return DTensor.from_local(local, self.mesh, (Replicate(),) * self.mesh.ndim,
                                  run_check=False)

    def _joined(self, local, shape, stride, placements) -> torch.Tensor:
        from torch.distributed.tensor import DTensor

        return DTensor.from_local(local, self.mesh, placements, run_check=False,
                                  shape=shape, stride=stride)


#===------------------------------------------------------------------------===#
# Memory on this rank
#===------------------------------------------------------------------------===#


def local_state(state: Mapping) -> dict:
    """Returns a parameter's state with DTensors replaced by their local pieces."""
    return {name: local_of(value) for name, value in state.items()}


def misplaced(tensor: torch.Tensor, shard: Shard | None) -> str | None:
    """Returns why a plane of a state does not match a parameter, and what to do; None if it
    does.

    Args:
        tensor: the plane.
        shard: the sharding of the parameter; None if it is not a DTensor.
    """
    own, functions = shard_of(tensor), "torch.distributed.checkpoint.state_dict"
    if own is None and shard is None:
        return None
    if shard is None:
        return ("is a DTensor, but the parameter is none; join the state by get_optimizer_"
                f"state_dict of {functions} with full_state_dict=True")
    if own is None:
        return ("is a whole tensor, but the parameter is a DTensor; divide the state by set_"
                f"optimizer_state_dict of {functions} with full_state_dict=True")
    if own.mesh != shard.mesh or not (own.is_whole or own.placements == shard.placements):
        return (f"is spread as {own} over {own.mesh}, but the parameter as {shard} over "
                f"{shard.mesh}; save and load it by torch.distributed.checkpoint, which moves "
                "states to other ranks")
    return None


def whole_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the whole of a DTensor, for which all ranks must call it together; returns any
    other tensor itself.

    It is sent as bytes, because no backend supports all types of planes.
    """
    if not is_dtensor(tensor):
        return tensor
    from torch.distributed.tensor import DTensor

    local = local_of(tensor).contiguous()
    if all(placement.is_replicate() for placement in tensor.placements):
        return local
    shape = torch.Size([*tensor.shape, local.element_size()])
    bits = local.view(torch.uint8).reshape(*local.shape, local.element_size())
    stride = torch.empty(shape, device="meta").stride()
    whole = DTensor.from_local(bits, tensor.device_mesh, tensor.placements, run_check=False,
                               shape=shape, stride=stride).full_tensor()
    return whole.contiguous().view(tensor.dtype).reshape(tensor.shape)


def memorize_copies(tensors: Iterable[torch.Tensor], memo: dict) -> None:
    """Adds copies of DTensors and their gradients to the memo of :func:`copy.deepcopy`.
    PyTorch's own copies (2.13) fail if a piece does not start at the beginning of its storage,
    such as gradients under FSDP2.

    Args:
        memo: the memo from :func:`copy.deepcopy`.
    """
    for tensor in filter(is_dtensor, tensors):
        if id(tensor) in memo:
            continue
        memo[id(tensor)] = made = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        made.__dict__.update(copy.deepcopy(vars(tensor), memo))  # includes that it is a parameter
        if tensor.is_leaf and tensor.grad is not None:
            made.grad = tensor.grad.detach().clone()
