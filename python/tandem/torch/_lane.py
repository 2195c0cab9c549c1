"""Lanes and slots: the parameters that one kernel updates, and their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

import torch

from tandem._kernel import Kernel, Plane, Plan, RoleKind
from tandem.torch._layout import DTYPES, empty_plane, is_plane, laid_out


class Slot:
    """A parameter bound to memory: the addresses of its planes.

    A slot stays valid until the parameter, or a plane of its state, gets other
    memory.
    """

    __slots__ = (
        "address", "contiguous", "copied", "dtype", "grad_dtype", "grad_strides",
        "index", "label", "lane", "numel", "ordered", "param", "planes", "pointers",
        "state", "strides",
    )

    def __init__(self, lane: Lane, index: int, param: torch.Tensor,
                 state: dict | None, label: str):
        self.lane, self.index, self.label = lane, index, label
        self.param, self.state = param, state
        self.address, self.numel = param.data_ptr(), param.numel()
        self.dtype, self.grad_dtype = param.dtype, lane.grad_dtype
        self.strides, self.contiguous = param.stride(), param.is_contiguous()
        plane = empty_plane(param, param.dtype, "meta")
        #: Whether the parameter goes through a copy: one with gaps does.
        self.copied = not is_plane(param, plane)
        #: Whether planes and gradient are in C order, and else their strides.
        self.ordered, self.grad_strides = plane.is_contiguous(), plane.stride()
        names = list(lane.state_planes)
        #: The planes of a state, in one call; twice the same where it has but one.
        twice = names * 2 if len(names) == 1 else names
        self.planes = itemgetter(*twice) if names else None
        addresses = {name: state[name].data_ptr() for name in names}
        #: In the kernel's order; the caller fills in the gradient's.
        self.pointers = [
            addresses.get(plane.name, self.address) for plane in lane.kernel.planes
        ]

    def is_current(self, param: torch.Tensor) -> bool:
        """Whether the parameter is where it was; its state has been looked at."""
        return (
            param is self.param
            and param.data_ptr() == self.address
            and param.numel() == self.numel
            and param.dtype is self.dtype
            and (param.is_contiguous() if self.contiguous
                 else param.stride() == self.strides)
        )

    def address_of(self, grad: torch.Tensor) -> int | None:
        """Where the kernel can read the gradient; None if not as it is."""
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
        """The gradient as the kernel reads it: itself, or a converted copy."""
        if grad.layout is not torch.strided:
            raise RuntimeError(
                f"the gradient of {self.label} is sparse ({grad.layout}), which "
                "Tandem's kernels do not read; use dense gradients (sparse=False) "
                "or p.grad = p.grad.to_dense()"
            )
        if grad.shape != self.param.shape:
            raise RuntimeError(
                f"the gradient of {self.label} has shape {tuple(grad.shape)}, the "
                f"parameter {tuple(self.param.shape)}; compute it anew"
            )
        return laid_out(grad, self.param, self.grad_dtype)


class Lane:
    """One kernel, its plan, and what a step is about to run on it."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.plan = Plan(kernel)
        self._param = _only(kernel, RoleKind.PARAM)
        self._param_at = kernel.planes.index(self._param)
        grad = _only(kernel, RoleKind.GRAD)
        self.grad_dtype = DTYPES[grad.type]
        self._grad_at = kernel.planes.index(grad)
        #: What parameters of this lane are: the visible plane's type.
        self.dtype = DTYPES[self._param.type]
        #: Planes that the optimizer keeps, by name.
        self.state_planes: dict[str, Plane] = {
            plane.name: plane for plane in kernel.planes
            if plane not in (self._param, grad)
        }
        steps = [n for n, k in kernel.integers.items() if k is RoleKind.STEP]
        #: What the state calls its count of steps, if the kernel counts any.
        self.step = steps[0] if steps else None
        #: All that the state of a parameter holds.
        self.state_names = [*steps[:1], *self.state_planes]
        self._bound: tuple = ()
        self.clear()

    def clear(self) -> None:
        """Forgets the step that was being prepared."""
        self.slots: list[Slot] = []
        self.grads: list[int] = []
        self.rows: list[int] = []

    def initial_state(self, param: torch.Tensor) -> dict:
        """The state of a parameter that has not taken a step.

        States and residuals are zero. Where the kernel only writes the visible
        plane, the first other plane of the parameter holds its value.
        """
        planes = {
            name: _empty(plane, param).zero_()
            for name, plane in self.state_planes.items()
        }
        if not self._param.read:
            value = next(p for p in self.kernel.planes
                         if p.kind is RoleKind.PARAM and not p.visible)
            planes[value.name].copy_(param)
        return ({self.step: 0} if self.step else {}) | planes

    def check_state(self, state: Mapping, param: torch.Tensor, label: str) -> None:
        """Refuses a state that is not one of this kernel."""
        if problem := self._problem(state, param):
            raise ValueError(
                f"the state of {label} {problem}, as {self.kernel.name!r} under "
                f"{self.kernel.strategy!r} needs; load a state of that graph and "
                "strategy, or start anew with opt.state.pop(p)"
            )

    def _problem(self, state: Mapping, param: torch.Tensor) -> str | None:
        """What a state lacks to be one of this kernel."""
        if self.step and self.step not in state:
            return f"lacks the count {self.step!r}"
        for name, plane in self.state_planes.items():
            tensor, dtype = state.get(name), DTYPES[plane.type]
            if not isinstance(tensor, torch.Tensor):
                return f"lacks the plane {name!r}"
            if tensor.dtype != dtype:
                return f"has {name!r} as {tensor.dtype}, not {dtype}"
            if tensor.shape != _shape(plane, param):
                return (f"has {name!r} of shape {tuple(tensor.shape)}, not "
                        f"{tuple(_shape(plane, param))}")
            if not tensor.is_cpu:
                return f"has {name!r} on {tensor.device}, not on the CPU"
        return None

    def bind(self, index: int, param: torch.Tensor, state: dict | None,
             label: str) -> Slot:
        """A slot of the parameter; its planes take the parameter's layout."""
        if self.state_names:
            self.check_state(state, param, label)
        for name, plane in self.state_planes.items():
            state[name] = (
                laid_out(state[name], param, DTYPES[plane.type])
                if plane.group == 1 else state[name].contiguous()
            )
        return Slot(self, index, param, state, label)

    def update_plan(self, staged: Mapping[int, int]) -> None:
        """Tells the plan what has moved since the last step, if anything has."""
        wanted = (self.slots, self.grads, self.rows, staged)
        if wanted == self._bound:
            return
        self._bound = ()
        pointers = []
        for slot, grad in zip(self.slots, self.grads):
            addresses = slot.pointers.copy()
            if slot.index in staged:
                addresses[self._param_at] = staged[slot.index]
            addresses[self._grad_at] = grad
            pointers.append(addresses)
        self.plan.update(
            [slot.numel for slot in self.slots], pointers, rows=self.rows,
            keys=[slot.index for slot in self.slots],
        )
        self._bound = wanted

    def integers(self, step: int, seed: int) -> list[int]:
        """The kernel's integer scalars, in launch order."""
        return [seed if kind is RoleKind.SEED else step
                for kind in self.kernel.integers.values()]

    def check_hypers(self, row: Sequence[float]) -> None:
        """Raises what a launch would raise about the row."""
        probe = Plan(self.kernel)
        probe.update([], [])
        probe.launch([row], [self.integers(1, 0)], threads=1)


def _shape(plane: Plane, param: torch.Tensor) -> torch.Size:
    """The parameter's shape, or an entry for each group of its elements."""
    if plane.group == 1:
        return param.shape
    return torch.Size([plane.entries(param.numel())])


def _empty(plane: Plane, param: torch.Tensor) -> torch.Tensor:
    dtype = DTYPES[plane.type]
    if plane.group == 1:
        return empty_plane(param, dtype)
    return torch.empty(_shape(plane, param), dtype=dtype)


def _only(kernel: Kernel, kind: RoleKind) -> Plane:
    """The parameter's visible plane, or the gradient's plane."""
    planes = [p for p in kernel.planes if p.kind is kind]
    roles = {p.role for p in planes}
    seen = planes if kind is RoleKind.GRAD else [p for p in planes if p.visible]
    if len(roles) != 1 or len(seen) != 1:
        what = kind.name.lower()
        raise ValueError(
            f"graph {kernel.name!r} under {kernel.strategy!r} has "
            f"{len(planes)} planes of {len(roles)} {what} arguments; a PyTorch "
            f"optimizer needs one {what}, stored so that PyTorch can see it"
        )
    return seen[0]
