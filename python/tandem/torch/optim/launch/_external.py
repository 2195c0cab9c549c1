"""External steps: tensors that a launch exchanges with functions of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from tandem._plan import check_external
from tandem._plane import Plane, RoleKind
from tandem.torch._layout import DTYPES, empty_plane
from tandem.torch.optim.launch._bound import BoundParam
from tandem.torch.optim.launch._owners import Owners
from tandem.torch.optim.state._spec import StateSpec

#: Computes an external step for one parameter: takes the tensors that are sent, in the shape of the
#: parameter, and its param group, and returns what is received, one tensor or several.
External = Callable[[list[torch.Tensor], Mapping], torch.Tensor | Sequence[torch.Tensor]]


class Externals:
    """The external steps of a launch, and the tensors that it exchanges with them in a step.

    Args:
        spec: how the launch's kernel stores parameters.
        functions: the functions of the steps, by their names.

    Raises:
        ValueError: a step has no function, or a function no step.
    """

    def __init__(self, spec: StateSpec, functions: Mapping[str, External]):
        kernel = spec.kernel
        check_external(kernel, functions)
        self._spec, self._functions = spec, functions
        self._at = [kernel.planes.index(plane) for plane in spec.exchanged]
        #: The planes that are sent to each step and received from it, by its name.
        self._steps = {name: tuple([plane for plane in spec.exchanged if plane.external == name
                                    and plane.kind is kind]
                                   for kind in (RoleKind.SENT, RoleKind.RECEIVED))
                       for name in kernel.externals}
        self._params: list[tuple[BoundParam, Mapping]] = []
        #: The tensors of each parameter, by the name of their plane.
        self._tensors: list[dict[str, torch.Tensor]] = []

    def begin(self, params: Sequence[tuple[BoundParam, Mapping]]) -> None:
        """Allocates the tensors of a step of these parameters, each with its param group."""
        self._params = list(params)
        self._tensors = [self._allocate(bound.like) for bound, _ in params]

    def _allocate(self, like: torch.Tensor) -> dict[str, torch.Tensor]:
        """Allocates the tensors of one parameter. What is received overwrites what was sent to
        the same step, if the types are equal."""
        made: dict[str, torch.Tensor] = {}
        for sent, received in self._steps.values():
            made |= {plane.name: self._empty(plane, like) for plane in sent}
            free = [made[plane.name] for plane in sent]
            for plane in received:
                reused = next((t for t in free if t.dtype is DTYPES[plane.type]), None)
                free = [tensor for tensor in free if tensor is not reused]
                made[plane.name] = self._empty(plane, like) if reused is None else reused
        return made

    def _empty(self, plane: Plane, like: torch.Tensor) -> torch.Tensor:
        return empty_plane(like, DTYPES[plane.type], self._spec.device)

    def point(self, number: int, addresses: list[int]) -> None:
        """Fills in the addresses of a parameter's tensors, in the kernel's order of planes."""
        for at, plane in zip(self._at, self._spec.exchanged):
            addresses[at] = self._tensors[number][plane.name].data_ptr()

    def functions(self) -> dict[str, Callable[[int], None]]:
        """Returns the functions for :meth:`tandem.Plan.set_external`."""
        return {name: lambda stream, name=name: self._compute(name)
                for name in self._steps}

    @torch.no_grad()
    def _compute(self, name: str) -> None:
        """Computes a step for all parameters, on the current stream."""
        (sent, received), owners = self._steps[name], Owners()
        for (bound, group), tensors in zip(self._params, self._tensors):
            owners.compute(
                None if bound.gathers else bound.shard,
                [tensors[plane.name] for plane in sent],
                [tensors[plane.name] for plane in received],
                lambda given, bound=bound, group=group: self._call(name, given, group, bound,
                                                                   len(received)))
        owners.finish()

    def _call(self, name: str, given: list[torch.Tensor], group: Mapping, bound: BoundParam,
              count: int) -> list[torch.Tensor]:
        """Returns the results of a step's function for one parameter, after checking them."""
        found = self._functions[name](given, group)
        found = [found] if isinstance(found, torch.Tensor) else list(found)
        shapes = [tuple(result.shape) for result in found]
        if shapes != [tuple(given[0].shape)] * count:
            raise ValueError(
                f"the external step {name!r} returned tensors of the shapes {shapes} for "
                f"{bound.label}; return {count} of the shape {tuple(given[0].shape)}")
        # Results are written where the operands are, of which they may be views.
        taken = {tensor.untyped_storage().data_ptr() for tensor in given}
        return [result.clone() if result.untyped_storage().data_ptr() in taken else result
                for result in found]

    def end(self) -> None:
        """Releases the tensors of the step."""
        self._params, self._tensors = [], []
