"""A kernel's binding to the parameters that it updates, and to their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter

import torch

from tandem import _tandem
from tandem._convert import CPU, Executor, Tensor, conversion
from tandem._finite_check import FiniteCheck
from tandem._kernel import Kernel
from tandem._param_planes import ParamPlanes
from tandem._plan import Plan, Sharding
from tandem._plane import Plane, RoleKind
from tandem._storages import floats
from tandem.torch._exchange import Exchange
from tandem.torch._executor import torch_device
from tandem.torch._shards import (Shard, is_dtensor, local_of, local_state, misplaced,
                                  shard_of)
from tandem.torch._versions import zeroed
from tandem.torch.optim._cuts import (GATHERED, cut_of, is_shared, reason_for_rows,
                                      rows_of_entry)
from tandem.torch._layout import (DTYPES, WORKING, empty_plane, is_placeholder, is_plane,
                                  laid_out, rows_and_columns, rows_in_memory)


#: The planes of a gradient that a state keeps for the scales of the next gradient, by name.
History = Mapping[str, torch.Tensor]


class ParamBinding:
    """A parameter bound to memory: the addresses of its planes.

    A binding stays valid until the memory of the parameter or of a plane of its state changes.
    """

    __slots__ = (
        "address", "contiguous", "copied", "dtype", "grad_dtype", "grad_strides",
        "first", "gathers", "group", "index", "key", "label", "binding", "like", "local", "numel",
        "ordered", "param", "planes", "pointers", "shape", "shard", "sharding", "size",
        "spec", "state", "strides",
    )

    def __init__(self, binding: KernelBinding, index: int, group: int, param: torch.Tensor,
                 state: dict | None, label: str):
        self.binding, self.index, self.label = binding, index, label
        #: The key for its random bits.
        self.key = index
        #: The index of the param group, which selects the binding.
        self.group = group
        self.param, self.state = param, state
        #: The sharding of a DTensor, and this rank's piece, which is the whole of a plain
        #: tensor.
        self.shard, self.spec = shard_of(param), getattr(param, "_spec", None)
        self.local = param = local_of(param)
        #: The index of its first element, and its sharding for the kernel.
        self.first, self.sharding = binding.place_of(self.shard)
        #: Whether each rank updates the whole parameter and keeps its piece.
        self.gathers = self.shard is not None and binding.gathers(self.shard)
        measure = self.shard.measure(param.dtype) if self.gathers else param
        state = state and local_state(state)
        #: The address of the weight, or None if only the state has it.
        self.address = None if binding.hidden else param.data_ptr()
        self.numel, self.size = measure.numel(), binding.size_of(measure)
        self.shape = param.shape
        self.dtype, self.grad_dtype = param.dtype, binding.grad_dtype
        self.strides, self.contiguous = param.stride(), param.is_contiguous()
        #: A tensor with the shape and the layout of the planes.
        self.like = plane = empty_plane(binding.like(measure, state), param.dtype, "meta")
        #: Whether the kernel updates a copy of the parameter, such as for one with gaps.
        self.copied = not binding.hidden and (self.gathers or not is_plane(param, plane))
        #: Whether planes and gradient are in C order, and their strides.
        self.ordered, self.grad_strides = plane.is_contiguous(), plane.stride()
        names = list(binding.state_planes)
        #: Gets the planes of a state in one call. itemgetter returns a tuple only for several
        #: names, so a single name is repeated.
        twice = names * 2 if len(names) == 1 else names
        self.planes = itemgetter(*twice) if names else None
        addresses = {name: state[name].data_ptr() for name in names}
        #: The addresses in the kernel's order; the caller fills in those of the gradient.
        self.pointers = [
            addresses.get(plane.name, self.address) for plane in binding.kernel.planes
        ]

    def watch(self, replay: _tandem.ReplayCache, launch: int, tensor: int,
              counts: bool) -> None:
        """Adds this parameter and its state to the replay cache. `counts` is whether its count
        of steps is a tensor."""
        binding, names = self.binding, list(self.binding.state_planes)
        if counts and binding.step:
            names.append(binding.step)
        replay.add(self.param, self.state, launch, tensor,
                   [(name, local_of(self.state[name]).data_ptr()) for name in names],
                   self.param.grad)

    def is_current(self, param: torch.Tensor) -> bool:
        """Returns whether the parameter still has the memory, type and layout that it was bound
        with. The caller has checked its state."""
        if param is not self.param or (getattr(param, "_spec", None) is not self.spec
                                       and shard_of(param) != self.shard):
            return False
        param = local_of(param)
        if param.shape != self.shape:
            return False
        if self.address is None:
            return is_placeholder(param) and param.dtype is self.dtype
        return (
            param.data_ptr() == self.address
            and param.dtype is self.dtype
            and (param.is_contiguous() if self.contiguous
                 else param.stride() == self.strides)
        )

    def staged(self) -> torch.Tensor:
        """Returns a copy of the parameter in the form that the kernel takes. If the parameter is
        gathered, all ranks must call this together."""
        whole = self.shard.gather(self.param.detach()) if self.gathers else self.local
        return laid_out(whole, self.like, self.dtype)

    def take(self, copy: torch.Tensor) -> None:
        """Updates the parameter from a copy that a kernel has written."""
        self.local.copy_(self.shard.piece_of(copy) if self.gathers else copy)

    def address_of(self, grad: torch.Tensor) -> int | None:
        """Returns the address at which the kernel can read the gradient; None if it must be
        copied."""
        if (
            grad.dtype is self.grad_dtype
            and grad.numel() == self.numel
            and grad.layout is torch.strided
            and (grad.is_contiguous() if self.ordered
                 else grad.stride() == self.grad_strides)
            and not grad.is_neg()
        ):
            return grad.data_ptr()
        return None

    def plane_of(self, grad: torch.Tensor) -> torch.Tensor:
        """Returns the gradient in the form that the kernel reads: the gradient itself, or a
        converted copy."""
        check_grad(grad, self.like, lambda: self.label)
        return laid_out(grad, self.like, self.grad_dtype)


def check_grad(grad: torch.Tensor, param: torch.Tensor,
               label: Callable[[], str]) -> None:
    """Refuses gradients that kernels cannot read."""
    if grad.layout is not torch.strided:
        raise RuntimeError(
            f"the gradient of {label()} is sparse ({grad.layout}), which "
            "Tandem's kernels do not read; use dense gradients (sparse=False) "
            "or p.grad = p.grad.to_dense()"
        )
    if grad.shape != param.shape:
        raise RuntimeError(
            f"the gradient of {label()} has shape {tuple(grad.shape)}, the "
            f"parameter {tuple(param.shape)}; compute it anew"
        )


class KernelBinding(ParamPlanes):
    """One kernel, its plan, and the data of the step in preparation.

    Args:
        kernel: the kernel.
        count: the state's key for its count of steps, if the kernel needs none.
        executor: the executor that runs the kernel.
        model: the same binding on the CPU, if that is a different one.
        codes: the binding without a copy of the weights, if this one's kernel writes one in
            addition to codes. It handles states.
    """

    def __init__(self, kernel: Kernel, count: str | None = None, executor: Executor = CPU,
                 model: KernelBinding | None = None, codes: KernelBinding | None = None):
        super().__init__(kernel, count)
        self.executor, self._model, self._codes = executor, model, codes
        self.device = torch_device(executor)
        self.plan = Plan(kernel, executor.device)
        #: The check of the gradients before anything is written, if enabled.
        self.check: FiniteCheck | None = None
        #: The types that parameters of this binding can have.
        self.dtypes = [DTYPES[type] for type in self.types]
        self.grad_dtype = None if self.encodes else DTYPES[self.grad_planes[0].type]
        self._grads_at = [kernel.planes.index(plane) for plane in self.grad_planes
                          if not plane.persistent]
        #: The names of all entries in a parameter's state.
        self.state_names = [*filter(None, [self.step]), *self.state_planes]
        #: The exchange of the step's reductions between ranks, if they share its parameters.
        self.exchange: Exchange | None = None
        self.shardings: list[Sharding | None] = []
        #: A description of the launch that ranks compare, in addition to scalars.
        self._launched = ""
        self._bound: tuple = ()
        self._probe: Plan | None = None
        self.clear()

    def clear(self) -> None:
        """Discards the step in preparation."""
        self.bound_params: list[ParamBinding] = []
        self.grads: list[tuple[int, ...]] = []
        self.rows: list[int] = []
        #: The rows of scalars: (param group, step, type of the weight).
        self.table: list[tuple[int, int, torch.dtype]] = []
        self._row_numbers: dict[tuple[int, int, torch.dtype], int] = {}
        #: Counts of steps in a GPU's memory, by their stand-ins in rows.
        self.counters: dict[int, torch.Tensor] = {}
        self._params: list[torch.Tensor] | None = None
        #: The gradients that the step has to encode, by the types in which they are read.
        self._enlisted: dict[torch.dtype, list[tuple]] = {}
        #: The states of gradients with delayed scaling, and their new histories.
        self._histories: list[tuple[Mapping, History]] = []

    @property
    def params(self) -> list[torch.Tensor]:
        """The parameters of the step."""
        if self._params is None:
            self._params = [bound.param for bound in self.bound_params]
        return self._params

    def row(self, group: int, step: int, dtype: torch.dtype) -> int:
        """Returns the index of a row of scalars, which is added if it is new."""
        key = group, step, dtype
        number = self._row_numbers.setdefault(key, len(self.table))
        if number == len(self.table):
            self.table.append(key)
        return number

    def size_of(self, tensor: torch.Tensor) -> tuple[int, int]:
        """Returns the kernel's rows and columns for a tensor."""
        return (rows_and_columns(tensor) if self.kernel.is_matrix
                else rows_in_memory(tensor, self.group))

    @property
    def has_copy(self) -> bool:
        """Whether the kernel writes a decoded copy of weights in codes."""
        return self._codes is not None

    @property
    def of_states(self) -> KernelBinding:
        """The binding that creates, checks and converts states."""
        return self._codes or self

    def bytes_per_parameter(self, releases: bool = False) -> float:
        """Returns the number of bytes per parameter for weight, gradient and states, from their
        storages, without the gradient if it is released."""
        return sum(plane.bytes_per_element for plane in self.kernel.planes
                   if plane.persistent or not (releases and plane.kind is RoleKind.GRAD))

    def is_weight(self, name: str) -> bool:
        """Returns whether a plane belongs to the weight."""
        return any(plane.name == name for plane in self.weight_planes)

    def _shape(self, plane: Plane, like: torch.Tensor) -> torch.Size:
        """Returns the shape of a plane for a tensor with the layout of its parameter's
        planes."""
        return torch.Size(self.shape_of(plane, like.shape, self.size_of(like)))

    def bytes_of(self, plane: Plane, like: torch.Tensor) -> int:
        """Returns the size of one plane of a parameter in bytes."""
        return self._shape(plane, like).numel() * DTYPES[plane.type].itemsize

    def empty(self, plane: Plane, like: torch.Tensor) -> torch.Tensor:
        """Allocates one plane of a parameter."""
        dtype = DTYPES[plane.type]
        if plane.sets_size:
            return empty_plane(like, dtype, self.device)
        return torch.empty(self._shape(plane, like), dtype=dtype, device=self.device)

    def _ordered(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a tensor in the layout of planes, in which a matrix is row-major."""
        if not self.kernel.is_matrix:
            return tensor
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

    def like(self, param: torch.Tensor, state: Mapping | None) -> torch.Tensor:
        """Returns a tensor with the layout of the parameter's planes: the parameter itself, its
        codes, or a matrix in C order."""
        if self._codes:
            return self._codes.like(param, state)
        has_codes = self.hidden and state
        return self._ordered(state[self.weight_planes[0].name] if has_codes else param)

    def place_of(self, shard: Shard | None) -> tuple[int, Sharding | None]:
        """Returns the index of this rank's first element and the sharding for a plan. A tensor
        that each rank has in full, or whose pieces are not rows, is treated as unsharded."""
        if (shard is None or shard.is_whole or shard.starts is None or not shard.is_in_c_order
                or self.gathers(shard)):
            return 0, None
        _, columns = self.size_of(torch.empty(shard.shape, device="meta"))
        return shard.first, Sharding(columns, shard.index,
                                     (*shard.starts, shard.shape.numel()))

    def _spread(self, state: Mapping, param: torch.Tensor) -> dict:
        """Returns a state with planes that are sharded like the parameter: DTensors if it is
        one, which divide the parameter's first dimension if they have entries for its rows."""
        if (shard := shard_of(param)) is None:
            return dict(state)
        return {name: self._beside(shard, self.state_planes[name], value)
                if name in self.state_planes and not is_dtensor(value) else value
                for name, value in state.items()}

    def _beside(self, shard: Shard, plane: Plane, local: torch.Tensor) -> torch.Tensor:
        if self.gathers(shard):
            return shard.replicated(local)
        if plane.sets_size:
            return shard.like(local)
        if is_shared(plane) or shard.bounds is None:
            return shard.replicated(local)
        return shard.beside(local, self._shape(plane, shard.measure(torch.float32)))

    def divided(self, state: Mapping, shard: Shard) -> dict:
        """Shards the state of a whole parameter, so that each rank keeps its piece."""
        return {name: self._piece(shard, self.state_planes[name], value)
                if name in self.state_planes else value for name, value in state.items()}

    def _piece(self, shard: Shard, plane: Plane, whole: torch.Tensor) -> torch.Tensor:
        """Returns the DTensor of a whole plane."""
        if self.gathers(shard):
            return shard.replicated(whole)
        if plane.sets_size:
            return shard.like(shard.piece_of(whole).contiguous())
        if is_shared(plane) or shard.bounds is None:
            return shard.replicated(whole)
        shape = self._shape(plane, shard.measure(torch.float32))
        unit = rows_of_entry(plane, shard.shape, shape)
        first, end = shard.first_row, shard.first_row + shard.rows
        own = whole.reshape(shape)[-(-first // unit):-(-end // unit)].clone()
        return self._beside(shard, plane, own)

    def gathers(self, shard: Shard) -> bool:
        """Returns whether each rank updates the whole of a small DTensor, since its pieces
        cannot be updated separately. Its state is then on all ranks."""
        reason = reason_for_rows(self) if not shard.is_whole else None
        return (reason is not None and shard.shape.numel() <= GATHERED
                and cut_of(shard, self) is not None)

    def updated(self, param: torch.Tensor) -> torch.Tensor:
        """Returns the tensor that this rank updates: its piece of the parameter, or the
        whole."""
        shard = shard_of(param)
        if shard is not None and self.gathers(shard):
            return shard.gather(param.detach())
        return local_of(param)

    def initial_state(self, param: torch.Tensor) -> dict:
        """Returns the initial state of a parameter.

        States and residuals are zero. Master weights hold the parameter's value, and so do
        codes, to their precision.
        """
        whole, param = param, self.updated(param)
        like = self.like(param, None)
        planes = {
            name: zeroed(self.empty(plane, like))
            for name, plane in self.state_planes.items()
        }
        if self.hidden:
            self.encode_weight(whole, planes)
        for plane in () if self.hidden else self.weight_planes:
            if plane.bits > self.visible.bits:
                planes[plane.name].copy_(param)
        return ({self.step: 0} if self.step else {}) | self._spread(planes, whole)

    def encode_weight(self, param: torch.Tensor, state: Mapping) -> None:
        """Writes a parameter's value to the planes of its state."""
        shard, param, state = shard_of(param), self.updated(param), local_state(state)
        dense = laid_out(param.detach(), self.like(param, state), param.dtype)
        self.convert([dense], _plain(param.dtype), [self._weight_of(state)],
                     self.weight_storage, self.weight_planes, shards=[shard])

    def decode_weights(self, states: Sequence[Mapping], dtype: torch.dtype,
                       threads: int = 0) -> list[torch.Tensor]:
        """Returns the weights in these states, on this rank."""
        states = list(map(local_state, states))
        likes = [self._ordered(state[self.weight_planes[0].name]) for state in states]
        weights = [empty_plane(like, dtype, self.device) for like in likes]
        self.convert([_dense(self.weight_planes, self._weight_of(state), like)
                      for state, like in zip(states, likes)],
                     self.weight_storage, weights, _plain(dtype), [_plane_of(dtype)],
                     threads)
        return weights

    def empty_grad(self, like: torch.Tensor) -> list[torch.Tensor]:
        """Allocates the planes of a gradient, except for those in the state."""
        return [self.empty(plane, like) for plane in self.grad_planes if not plane.persistent]

    def history_after(self, state: Mapping | None, like: torch.Tensor) -> History:
        """Returns copies of a gradient's planes in the state, for an encoding to write, or zeros
        without a state. The state is updated when the step is taken, so that a gradient that no
        step uses has no effect."""
        planes = [plane for plane in self.grad_planes if plane.persistent]
        after = {plane.name: self.empty(plane, like).zero_() for plane in planes}
        for name, plane in after.items() if state else ():
            self.executor.call(lambda to=plane, name=name: to.copy_(local_of(state[name])))
        return after

    def note_history(self, bound: ParamBinding, history: History | None) -> None:
        """Makes the step update a state with the history of its gradient."""
        if history:
            self._histories.append((bound.state, history))

    def keep_histories(self, skip: torch.Tensor | None = None) -> None:
        """Updates states with the histories of the step's gradients, unless the step is
        skipped."""
        pairs = [(local_of(state[name]), value) for state, history in self._histories
                 for name, value in history.items()]
        for to, value in pairs:
            self.executor.call(lambda to=to, value=value: to.copy_(
                value if skip is None else value.where(skip.reshape(()) == 0, to)))

    def encode_grads(self, grads: Sequence[torch.Tensor], likes: Sequence[torch.Tensor],
                     planes: Sequence[list[torch.Tensor]], histories: Sequence[History],
                     shards: Sequence[Shard | None] = (), adds: bool = False) -> None:
        """Writes gradients of one type to planes, or adds them to the planes' values.

        Args:
            planes: the planes of each gradient, except for its history.
            histories: the history of each gradient from :meth:`history_after`.
            shards: the sharding of each parameter over ranks, which encode all gradients
                together.
        """
        dtype = _encoded_from(grads[0])
        self.convert([laid_out(grad, like, dtype) for grad, like in zip(grads, likes)],
                     _plain(dtype), list(map(self._with_history, planes, histories)),
                     self.grad_storage, self.grad_planes, adds=adds, fresh=False,
                     shards=shards)

    def enlist_grad(self, bound: ParamBinding, grad: torch.Tensor) -> list[torch.Tensor]:
        """Adds a gradient for :meth:`encode_enlisted`, and returns the planes that it will
        write."""
        check_grad(grad, bound.like, lambda: bound.label)
        planes, history = self.empty_grad(bound.like), self.history_after(bound.state, bound.like)
        self._enlisted.setdefault(_encoded_from(grad), []).append(
            (grad, bound.like, planes, history, bound.shard))
        self.note_history(bound, history)
        return planes

    def encode_enlisted(self) -> None:
        """Encodes the gradients of a step in one launch for each type."""
        for listed in self._enlisted.values():
            self.encode_grads(*zip(*listed))
        self._enlisted = {}

    def asks_ranks(self, shard: Shard) -> bool:
        """Returns whether ranks communicate about a DTensor before they compare steps, because
        they gather it or encode it with one scale for the tensor."""
        encoded = [*(self.grad_planes if self.encodes else ()),
                   *(self.weight_planes if self.hidden else ())]
        return self.gathers(shard) or (
            self.place_of(shard)[1] is not None and any(map(is_shared, encoded)))

    def _with_history(self, planes: Sequence[torch.Tensor],
                      history: History) -> list[torch.Tensor]:
        """Returns all planes of a gradient."""
        rest = iter(planes)
        return [history[plane.name] if plane.persistent else next(rest)
                for plane in self.grad_planes]

    def decode_grad(self, planes: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        """Returns the gradient in these planes."""
        grad = torch.empty_like(planes[0], dtype=dtype)
        history = self.history_after(None, planes[0])  # no value depends on it
        self.convert([self._with_history(planes, history)], self.grad_storage, [grad],
                     _plain(dtype), [_plane_of(dtype)])
        return grad

    def convert(self, sources: Sequence, source: str, targets: Sequence, target: str,
                planes: Sequence[Plane], threads: int = 0,
                shards: Sequence[Shard | None] = (), **options) -> None:
        """Converts the binding's tensors as :func:`convert` does, on the device of its kernel.
        `shards` is the sharding of targets over ranks, which convert tensors with one scale
        together."""
        options.setdefault("matrix", self.kernel.is_matrix)
        if any(map(is_shared, planes)):
            places = [self.place_of(shard) for shard in shards]
            groups, shardings = _grouped(shards, [sharding for _, sharding in places])
            options |= {"exchange": Exchange(groups, self.device) if groups else None,
                        "places": [(first, own) for (first, _), own in zip(places, shardings)]}
        convert(sources, source, targets, target, planes, threads, executor=self.executor,
                group=self.group, **options)

    def _weight_of(self, state: Mapping) -> list[torch.Tensor]:
        return [state[plane.name] for plane in self.weight_planes]

    def check_state(self, state: Mapping, param: torch.Tensor, label: str,
                    moves: bool = False) -> None:
        """Refuses a state that does not match this kernel. `moves` is whether its planes are
        moved to the parameter's device first."""
        shard, own = shard_of(param), local_of(param)
        for name in self.state_planes:
            tensor = state.get(name)
            if isinstance(tensor, torch.Tensor) and (problem := misplaced(tensor, shard)):
                raise ValueError(f"{name!r} in the state of {label} {problem}")
        like = shard.measure(own.dtype) if shard and self.gathers(shard) else own
        if problem := self._problem(local_state(state), like, own.device, moves):
            raise ValueError(
                f"the state of {label} {problem}, as {self.kernel.name!r} under "
                f"{self.kernel.strategy!r} needs; load a state of that graph and "
                "strategy, or start anew with opt.state.pop(p)"
            )

    def _problem(self, state: Mapping, param: torch.Tensor, device: torch.device,
                 moves: bool) -> str | None:
        """Returns why a state does not match this kernel, or None if it does."""
        if self.step and self.step not in state:
            return f"lacks the count {self.step!r}"
        measures = self._measures(state, param)
        for name, plane in self.state_planes.items():
            tensor, dtype = state.get(name), DTYPES[plane.type]
            if not isinstance(tensor, torch.Tensor):
                return f"lacks the plane {name!r}"
            if tensor.dtype != dtype:
                return f"has {name!r} as {tensor.dtype}, not {dtype}"
            shape = self._shape(plane, measures[plane.role])
            # Older states have shared entries in one dimension.
            if tensor.shape != shape and (plane.sets_size or tensor.numel() != shape.numel()):
                return f"has {name!r} of shape {tuple(tensor.shape)}, not {tuple(shape)}"
            if not moves and tensor.device != device:
                return f"has {name!r} on {tensor.device}, not on {device}"
        role = self.weight_planes[0].role
        for name in state:
            # The state has planes of the weight that this kernel would not read, as after
            # p.data.float().
            if (name == role or name.startswith(f"{role}.")) and name not in self.state_planes:
                return f"has {name!r}, not the weight by itself"
        return None

    def _measures(self, state: Mapping, param: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns a tensor with the layout of each tensor's planes. If it differs from the
        parameter's layout, its rows differ too."""
        measures = {plane.role: param for plane in self.state_planes.values()}
        for name, plane in self.state_planes.items():
            tensor = state.get(name)
            if plane.sets_size and isinstance(tensor, torch.Tensor) and (
                    tensor.shape == param.shape):
                measures[plane.role] = tensor
        return measures

    def shaped(self, state: Mapping, param: torch.Tensor) -> dict:
        """Returns a checked state with entries for groups in their current shape. Older states
        have them in one dimension, except for DTensors."""
        if is_dtensor(param):
            return dict(state)
        measures = self._measures(state, param)
        return dict(state) | {
            name: _shaped(state[name].contiguous(), self._shape(plane, measures[plane.role]))
            for name, plane in self.state_planes.items() if not plane.sets_size}

    def bind(self, index: int, group: int, param: torch.Tensor, state: dict | None,
             label: str) -> ParamBinding:
        """Binds a parameter of a param group. Its planes get the parameter's layout."""
        if self.state_names:
            self.of_states.check_state(state, param, label)
            own, shard = local_state(state), shard_of(param)
            like = (shard.measure(param.dtype) if shard and self.gathers(shard)
                    else local_of(param))
            laid = self.of_states.laid_out_state(like, own)
            moved = {name: value for name, value in laid.items() if value is not own.get(name)}
            state.update(self.of_states._spread(moved, param))
        return ParamBinding(self, index, group, param, state, label)

    def laid_out_state(self, param: torch.Tensor, state: Mapping) -> dict:
        """Returns a state of this kernel with all planes in one layout."""
        state, like = dict(state), self.like(param, state)
        for role in dict.fromkeys(p.role for p in self.state_planes.values()):
            self._lay_out(role, state, like)
        return state

    def _lay_out(self, role: str, state: dict, like: torch.Tensor) -> None:
        """Changes the planes of one tensor to the layout of another.

        Elements that share a scale are neighbours in a row in memory. If the neighbours change,
        values are decoded and encoded again.
        """
        planes = [p for p in self.state_planes.values() if p.role == role]
        tensors = [state[p.name] for p in planes]
        regroups = any(p.is_grouped for p in planes) and not self.kernel.is_matrix
        if regroups and not is_plane(tensors[0], empty_plane(
                like, tensors[0].dtype, "meta")):
            tensors = self._encoded_anew(role, planes, tensors, like)
        for plane, tensor in zip(planes, tensors):
            state[plane.name] = (
                laid_out(tensor, like, DTYPES[plane.type]) if plane.sets_size
                else _shaped(tensor.contiguous(), self._shape(plane, like))
            )

    def _encoded_anew(self, role: str, planes: Sequence[Plane], tensors: Sequence,
                      like: torch.Tensor, has_rows: bool = True) -> list[torch.Tensor]:
        """Returns the planes of one tensor in another layout, converted through float32.
        `has_rows` is whether groups of the given planes start anew in each row."""
        wide, storage = (empty_plane(tensors[0], torch.float32, self.device),
                         self.kernel.storages[role])
        self.convert([_dense(planes, tensors, tensors[0])], storage, [wide],
                     _plain(torch.float32), [_plane_of(torch.float32)], matrix=False,
                     has_rows=has_rows)
        made = [self.empty(plane, like) for plane in planes]
        self.convert([laid_out(wide, like, torch.float32)], _plain(torch.float32), [made],
                     storage, planes, matrix=False,
                     floor=role in self.kernel.second_moments)
        return made

    def with_rows(self, state: Mapping, param: torch.Tensor) -> dict:
        """Converts a state from before version 3, in which groups that share a scale continue
        from row to row, to groups that start anew in each row."""
        state = dict(state)
        if self.kernel.is_matrix:
            return state
        for role in dict.fromkeys(p.role for p in self.state_planes.values()):
            planes = [p for p in self.state_planes.values() if p.role == role]
            tensors = [state.get(p.name) for p in planes]
            if _go_on_over_rows(planes, tensors, param, self.group):
                made = self._encoded_anew(role, planes, tensors, tensors[0], has_rows=False)
                state |= {p.name: tensor for p, tensor in zip(planes, made)}
        return state

    def _connect(self) -> None:
        """Determines the shardings of the step's parameters, with the groups of ranks, and the
        exchange of reductions between them, which is None if there is nothing to exchange."""
        self.exchange, shards = None, [bound.shard for bound in self.bound_params]
        self.shardings = [bound.sharding for bound in self.bound_params]
        if not (self.kernel.reductions or self.kernel.measures or self.check):
            return
        groups, self.shardings = _grouped(shards, self.shardings)
        if groups:
            self.exchange = Exchange(groups, self.device)
            self._launched = repr([
                (bound.index, row, (bound.shard.shape, str(bound.shard)) if bound.shard
                 else bound.shape, sharding and (sharding.starts, sharding.group))
                for bound, row, sharding in zip(self.bound_params, self.rows, self.shardings)])

    def check_ranks(self, scalars: object) -> None:
        """Raises an error on all ranks that reduce together if they disagree about a step."""
        if self.exchange:
            self.exchange.check(self.kernel.name, (self.kernel.name, self.kernel.strategy,
                                                   self._launched, scalars))

    def update_plan(self, staged: Mapping[int, int]) -> None:
        """Updates the plan if anything has changed since the last step."""
        wanted = (self.bound_params, self.grads, self.rows, staged)
        if wanted == self._bound:
            return
        self._bound = ()
        pointers = self._pointers(staged)
        self._connect()
        self.plan.set_exchange(self.exchange)
        self.plan.update(
            [bound.size for bound in self.bound_params], pointers, rows=self.rows,
            keys=[bound.key for bound in self.bound_params],
            firsts=[bound.first for bound in self.bound_params],
            shardings=self.shardings,
        )
        if self.check:
            self.check.update([bound.size for bound in self.bound_params], pointers)
        self._bound = wanted

    def _pointers(self, staged: Mapping[int, int]) -> list[list[int]]:
        """Returns the addresses of the planes of the step's parameters."""
        pointers = []
        for bound, grad in zip(self.bound_params, self.grads):
            addresses = bound.pointers.copy()
            if bound.index in staged:
                addresses[self._param_at] = staged[bound.index]
            for at, address in zip(self._grads_at, grad):
                addresses[at] = address
            pointers.append(addresses)
        return pointers

    def watch(self, replay: _tandem.ReplayCache) -> None:
        """Adds the step to the replay cache, which detects whether the next step repeats it."""
        shapes = [bound.size for bound in self.bound_params]
        replay.add_launch(
            [rows for rows, _ in shapes], [columns for _, columns in shapes],
            [bound.first for bound in self.bound_params],
            [bound.key for bound in self.bound_params], self.rows,
            [address for addresses in self._pointers({}) for address in addresses],
            self.shardings, self._grads_at[0])

    def repeat(self, replay: _tandem.ReplayCache, number: int, on_device: bool) -> None:
        """Repeats the last step with new gradients, and new counts if the host has them."""
        self._bound = ()
        self.plan._native.update_replay(replay, number)
        if self.check:
            self.check.plan.update_gradients(replay, number)
        if self.step and not on_device:
            self.table = [(group, step + 1, dtype) for (group, _, dtype), step
                          in zip(self.table, replay.steps(number), strict=True)]

    def find_non_finite(self, threads: int) -> bool:
        """Returns whether a gradient of the step is not finite; False if the optimizer does not
        check gradients."""
        found = bool(self.check and self.check.launch(threads))
        return self.exchange.any(found) if self.check and self.exchange else found

    def integers(self, step: int, seed: int) -> list[int]:
        """Returns the kernel's integer scalars in launch order."""
        return [seed if kind is RoleKind.SEED else step
                for kind in self.kernel.integers.values()]

    def check_scalars(self, hypers: Sequence[Sequence[float]],
                      integers: Sequence[Sequence[int]]) -> None:
        """Raises the errors that a launch would raise about its rows."""
        if self._model:
            return self._model.check_scalars(hypers, integers)
        if self._probe is None:
            self._probe = Plan(self.kernel)
            self._probe.update([], [])
        self._probe.launch(hypers, integers, threads=1)


def _go_on_over_rows(planes: Sequence[Plane], tensors: Sequence, param: torch.Tensor,
                     longest: int) -> bool:
    """Returns whether planes of a parameter's state are complete and have groups that, at full
    length, cross the ends of rows."""
    grouped = [plane for plane in planes if plane.is_grouped]
    if not grouped or not all(isinstance(t, torch.Tensor) and t.dtype == DTYPES[p.type]
                              and t.numel() == p.entries(param.numel())
                              for p, t in zip(planes, tensors)):
        return False
    rows, columns = rows_in_memory(tensors[0], longest)
    return (tensors[0].shape == param.shape and rows > 1
            and any(columns % plane.group for plane in grouped))


def _dense(planes: Sequence[Plane], tensors: Sequence[torch.Tensor], like: torch.Tensor):
    """Returns the planes of a tensor, dense and all in one layout."""
    return [laid_out(tensor, like, tensor.dtype) if plane.sets_size
            else tensor.contiguous() for plane, tensor in zip(planes, tensors)]


def _shaped(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Returns a view of a tensor in a shape, or the tensor itself if it has this shape."""
    return tensor if tensor.shape == shape else tensor.view(shape)


#===------------------------------------------------------------------------===#
# Conversions of tensors
#===------------------------------------------------------------------------===#


def _plain(dtype: torch.dtype) -> str:
    """Returns the storage of a plain tensor of a type that modules compute in."""
    return floats(WORKING[dtype])


def _plane_of(dtype: torch.dtype) -> Plane:
    return Plane(type=WORKING[dtype], bits=dtype.itemsize * 8)


def _encoded_from(grad: torch.Tensor) -> torch.dtype:
    """Returns the type that a gradient is encoded from."""
    return grad.dtype if grad.dtype in WORKING else torch.float32


def _grouped(shards: Sequence[Shard | None], shardings: Sequence[Sharding | None],
             ) -> tuple[list, list[Sharding | None]]:
    """Returns the process groups that tensors are sharded over, and the shardings with the
    groups' numbers. All ranks find the groups in the same order, that of the tensors."""
    groups: dict = {}
    numbered = [
        sharding and sharding._replace(group=groups.setdefault(shard.group, len(groups)))
        for shard, sharding in zip(shards, shardings)]
    return [*groups], numbered


def _in_memory(tensor: torch.Tensor | Sequence[torch.Tensor],
               size_of: Callable[[torch.Tensor], int | tuple[int, int]],
               place: tuple[int, Sharding | None] = (0, None)) -> Tensor:
    planes = [tensor] if isinstance(tensor, torch.Tensor) else tensor
    return Tensor(size_of(planes[0]), [plane.data_ptr() for plane in planes], *place)


def convert(sources: Sequence, source: str, targets: Sequence, target: str,
            planes: Sequence[Plane], threads: int = 0, *, adds: bool = False,
            fresh: bool = True, matrix: bool = False, floor: bool = False,
            has_rows: bool = True, group: int = 1, executor: Executor = CPU,
            places: Sequence[tuple[int, Sharding | None]] = (),
            exchange: Exchange | None = None) -> None:
    """Converts tensors, given by their planes, to another storage.

    `planes` describes the targets' planes. The first plane of each tensor has an entry for each
    element. `matrix` is whether the tensors belong to a graph of matrices, `floor` whether
    targets are second moments, and `has_rows` whether groups start anew in each row; `group` is
    the length up to which rows are joined. All tensors are on one device. For shards, `places`
    has the first elements and the shardings, and `exchange` connects the ranks.
    """
    def size_of(tensor: torch.Tensor) -> int | tuple[int, int]:
        if matrix:
            return rows_and_columns(tensor)
        return rows_in_memory(tensor, group) if has_rows else tensor.numel()

    conversion(source, target, adds, fresh, matrix, floor, executor.target).run(
        [_in_memory(t, size_of) for t in sources],
        [_in_memory(t, size_of, place)
         for t, place in zip(targets, places or repeat((0, None)))], planes,
        threads or torch.get_num_threads(), executor, exchange)
