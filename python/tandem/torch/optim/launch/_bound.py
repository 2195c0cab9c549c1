"""A parameter bound to memory: the addresses of its planes."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import torch

from tandem import _tandem
from tandem.torch._layout import empty_plane, is_placeholder, is_plane, laid_out
from tandem.torch._shards import local_of, local_state, shard_of
from tandem.torch.optim._operand import Operand
from tandem.torch.optim._wrappers import is_flattened
from tandem.torch.optim.gradients._codec import check_grad
from tandem.torch.optim.state._check import check_state
from tandem.torch.optim.state._layouts import laid_out_state
from tandem.torch.optim.state._sharding import gathers, place_of, spread
from tandem.torch.optim.state._spec import StateSpec


class BoundParam:
    """A parameter bound to memory: the addresses of its planes.

    It stays valid until the memory of the parameter or of a plane of its state changes.
    """

    def __init__(self, spec: StateSpec, index: int, group: int, param: torch.Tensor,
                 state: dict | None, label: Callable[[int], object],
                 operand: Operand | None = None):
        self.spec, self.index, self._label = spec, index, label
        #: The operand that the kernel writes in addition to the weight, if it does.
        self.operand = operand
        #: The key for its random bits.
        self.key = index
        #: The index of the param group, which selects the spec.
        self.group = group
        self.param, self.state = param, state
        #: The sharding of a DTensor, and this rank's piece, which is the whole of a plain
        #: tensor.
        self.shard, self.dtensor_spec = shard_of(param), getattr(param, "_spec", None)
        self.local = param = local_of(param)
        #: The index of its first element, and its sharding for the kernel.
        self.first, self.sharding = place_of(spec, self.shard)
        #: Whether each rank updates the whole parameter and keeps its piece.
        self.gathers = self.shard is not None and gathers(spec, self.shard)
        measure = self.shard.measure(param.dtype) if self.gathers else param
        state = state and local_state(state)
        #: The address of the weight, or None if only the state has it.
        self.address = None if spec.hidden else param.data_ptr()
        self.numel, self.size = measure.numel(), spec.size_of(measure)
        self.shape = param.shape
        #: The shape of the whole parameter.
        self.whole_shape = tuple(param.shape if self.shard is None else self.shard.shape)
        self.dtype, self.grad_dtype = param.dtype, spec.grad_dtype
        self.strides, self.contiguous = param.stride(), param.is_contiguous()
        #: A tensor with the shape and the layout of the planes.
        self.like = plane = empty_plane(spec.like(measure, state), param.dtype, "meta")
        #: Whether the kernel updates a copy of the parameter, such as for one with gaps.
        self.copied = not spec.hidden and (self.gathers or not is_plane(param, plane))
        #: Whether planes and gradient are in C order, and their strides.
        self.ordered, self.grad_strides = plane.is_contiguous(), plane.stride()
        names = list(spec.state_planes)
        #: Gets the planes of a state in one call. itemgetter returns a tuple only for several
        #: names, so a single name is repeated.
        twice = names * 2 if len(names) == 1 else names
        self.planes = itemgetter(*twice) if names else None
        if operand:
            operand.allocate(spec, self.like)
        self._point(state)

    def _point(self, state: dict | None) -> None:
        """Sets the addresses in the kernel's order; the caller fills in those of the gradient."""
        addresses = {name: state[name].data_ptr() for name in self.spec.state_planes}
        if self.operand:
            addresses |= self.operand.addresses
        self.pointers = [addresses.get(plane.name, self.address)
                         for plane in self.spec.kernel.planes]

    @property
    def label(self) -> str:
        """The name of the parameter for messages."""
        return str(self._label(self.index))

    def again(self, index: int, param: torch.Tensor, state: dict | None) -> BoundParam:
        """Returns the binding of another plain parameter in the same group, of the same type and
        layout, whose state is new."""
        made = BoundParam.__new__(BoundParam)
        made.__dict__.update(self.__dict__)
        made.index = made.key = index
        made.param = made.local = param
        made.state = state
        made.address = None if self.spec.hidden else param.data_ptr()
        made._point(state)
        return made

    def watch(self, replay: _tandem.ReplayCache, launch: int, tensor: int,
              counts: bool) -> None:
        """Adds this parameter and its state to the replay cache. `counts` is whether its count
        of steps is a tensor."""
        spec, names = self.spec, list(self.spec.state_planes)
        if counts and spec.step:
            names.append(spec.step)
        replay.add(self.param, self.state, launch, tensor,
                   [(name, local_of(self.state[name]).data_ptr()) for name in names],
                   self.param.grad)

    def is_current(self, param: torch.Tensor) -> bool:
        """Returns whether the parameter still has the memory, type and layout that it was bound
        with. The caller has checked its state."""
        if param is not self.param or (
                getattr(param, "_spec", None) is not self.dtensor_spec
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


def bind(spec: StateSpec, index: int, group: int, param: torch.Tensor, state: dict | None,
         label: Callable[[int], object], operand: Operand | None = None) -> BoundParam:
    """Binds a parameter of a param group. Its planes get the parameter's layout.

    Args:
        label: returns the name of the parameter with an index, for messages.
        operand: the operand that the kernel writes, if it does.
    """
    if spec.state_names:
        of_states = spec.of_states
        check_state(of_states, state, param, label(index))
        own, shard = local_state(state), shard_of(param)
        like = (shard.measure(param.dtype) if shard and gathers(spec, shard)
                else local_of(param))
        laid = laid_out_state(of_states, like, own)
        moved = {name: value for name, value in laid.items() if value is not own.get(name)}
        state.update(spread(of_states, moved, param))
    return BoundParam(spec, index, group, param, state, label, operand)


def kind_of(param: torch.Tensor, group: int) -> tuple | None:
    """Returns what a plain parameter of a group shares with others that are bound alike; None for
    a parameter that must be bound by itself."""
    if (type(param) not in (torch.nn.Parameter, torch.Tensor) or is_placeholder(param)
            or is_flattened(param) or param.layout is not torch.strided
            or not param.numel() or not param.data_ptr()):
        return None
    return group, param.dtype, param.shape, param.stride(), param.device
