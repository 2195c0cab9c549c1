"""Lanes and slots: the parameters that one kernel updates, and their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

import tandem
from tandem._kernel import Kernel, Plane, Plan, RoleKind
from tandem.torch._layout import DTYPES, empty_plane, is_dense, laid_out, layout


class Slot:
    """A parameter bound to memory: the addresses of its planes.

    A slot stays valid until the parameter, or a plane of its state, gets other
    memory; :meth:`is_current` notices.
    """

    __slots__ = (
        "address", "contiguous", "copied", "dtype", "grad_dtype", "index", "label",
        "numel", "ordered", "param", "planes", "pointers", "state", "strides",
    )

    def __init__(self, lane: Lane, index: int, param: torch.Tensor,
                 state: dict | None, label: str):
        self.index, self.label = index, label
        self.param, self.state = param, state
        self.address, self.numel = param.data_ptr(), param.numel()
        self.dtype, self.grad_dtype = param.dtype, lane.grad_dtype
        self.strides, self.contiguous = param.stride(), param.is_contiguous()
        #: Whether a parameter with gaps goes through a copy in C order.
        self.copied = not is_dense(param)
        #: Whether planes and gradient are in C order.
        self.ordered = self.contiguous or self.copied
        self.planes = [
            (name, state[name].data_ptr()) for name in lane.state_planes
        ]
        addresses = dict(self.planes)
        #: In the kernel's order; the caller fills in the gradient's.
        self.pointers = [
            addresses.get(plane.name, self.address) for plane in lane.kernel.planes
        ]

    def is_current(self, param: torch.Tensor, state: dict | None) -> bool:
        """Whether the parameter and its state are where they were."""
        if (
            param is not self.param
            or state is not self.state
            or param.data_ptr() != self.address
            or param.numel() != self.numel
            or param.dtype is not self.dtype
        ):
            return False
        if not (param.is_contiguous() if self.contiguous
                else param.stride() == self.strides):
            return False
        for name, address in self.planes:
            plane = state.get(name)
            if plane is None or plane.data_ptr() != address:
                return False
        return True

    def takes(self, grad: torch.Tensor) -> bool:
        """Whether the kernel can read the gradient where it is."""
        return (
            grad.layout is torch.strided
            and grad.dtype is self.grad_dtype
            and grad.numel() == self.numel
            and (grad.is_contiguous() if self.ordered
                 else grad.stride() == self.strides)
            and not grad.is_neg()
        )

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
        grad = _only(kernel, RoleKind.GRAD)
        self.grad_dtype = DTYPES[grad.type]
        self.grad_at = kernel.planes.index(grad)
        #: What parameters of this lane are: the visible plane's type.
        self.dtype = DTYPES[self._param.type]
        #: Planes that the optimizer keeps, by name.
        self.state_planes: dict[str, torch.dtype] = {
            plane.name: DTYPES[plane.type] for plane in kernel.planes
            if plane not in (self._param, grad)
        }
        self._bound: tuple = ()
        self.clear()

    def clear(self) -> None:
        """Forgets the step that was being prepared."""
        self.slots: list[Slot] = []
        self.grads: list[int] = []
        self.rows: list[int] = []

    def initial_state(self, param: torch.Tensor) -> dict[str, torch.Tensor]:
        """The planes of a parameter that has not taken a step.

        States and residuals are zero. Where the kernel only writes the visible
        plane, the first other plane of the parameter holds its value.
        """
        planes = {
            name: empty_plane(param, dtype).zero_()
            for name, dtype in self.state_planes.items()
        }
        if not self._param.read:
            value = next(p for p in self.kernel.planes
                         if p.kind is RoleKind.PARAM and not p.visible)
            planes[value.name].copy_(param)
        return planes

    def check_planes(self, state: Mapping, param: torch.Tensor, label: str) -> None:
        """Refuses a state whose planes are not those of this kernel."""
        for name, dtype in self.state_planes.items():
            plane = state.get(name)
            if not isinstance(plane, torch.Tensor):
                problem = f"lacks the plane {name!r}"
            elif plane.dtype != dtype:
                problem = f"has {name!r} as {plane.dtype}, not {dtype}"
            elif plane.shape != param.shape:
                problem = (f"has {name!r} of shape {tuple(plane.shape)}, not "
                           f"{tuple(param.shape)}")
            elif not plane.is_cpu:
                problem = f"has {name!r} on {plane.device}, not on the CPU"
            else:
                continue
            raise ValueError(
                f"the state of {label} {problem}, as {self.kernel.name!r} under "
                f"{self.kernel.strategy!r} needs; load a state of that graph and "
                "strategy, or clear opt.state to start anew"
            )

    def bind(self, index: int, param: torch.Tensor, state: dict | None,
             label: str) -> Slot:
        """A slot of the parameter; its planes take the parameter's layout."""
        if self.state_planes:
            self.check_planes(state, param, label)
        for name, dtype in self.state_planes.items():
            state[name] = laid_out(state[name], param, dtype)
        return Slot(self, index, param, state, label)

    def update_plan(self, staged: Mapping[int, int]) -> None:
        """Tells the plan what has moved since the last step, if anything has."""
        wanted = (self.slots, self.grads, self.rows, sorted(staged.values()))
        if wanted == self._bound:
            return
        self._bound = ()
        pointers = []
        for slot, grad in zip(self.slots, self.grads):
            addresses = slot.pointers.copy()
            if slot.index in staged:
                own = slot.address
                addresses = [staged[slot.index] if a == own else a for a in addresses]
            addresses[self.grad_at] = grad
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


def _only(kernel: Kernel, kind: RoleKind) -> Plane:
    """The parameter's visible plane, or the gradient's plane."""
    planes = [p for p in kernel.planes if p.kind is kind]
    roles = {p.role for p in planes}
    seen = [p for p in planes if p.visible] or planes[:1]
    if len(roles) != 1 or (kind is RoleKind.GRAD and len(planes) != 1):
        what = kind.name.lower()
        raise ValueError(
            f"graph {kernel.name!r} under {kernel.strategy!r} has "
            f"{len(planes)} planes of {len(roles)} {what} arguments; a PyTorch "
            f"optimizer needs one {what}, stored so that PyTorch can see it"
        )
    return seen[0]
