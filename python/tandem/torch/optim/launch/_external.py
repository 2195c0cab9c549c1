"""External steps: tensors that a launch exchanges with functions of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from tandem._plan import check_external
from tandem._plane import Plane, RoleKind
from tandem.torch._layout import DTYPES, empty_plane
from tandem.torch._shards import local_of, shard_of
from tandem.torch.optim.launch._bound import BoundParam
from tandem.torch.optim.launch._owners import Owners, Piece
from tandem.torch.optim.state._spec import StateSpec

#: Computes an external step for one parameter: takes the tensors that are sent, in the shape of the
#: parameter, and its param group, and returns what is received, one tensor or several. If external
#: steps keep tensors, it also takes these, which it may change, and under "step" the number of the
#: parameter's step, from 1.
External = Callable[..., torch.Tensor | Sequence[torch.Tensor]]


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
            shard = None if bound.gathers else bound.shard
            kept = self._kept(bound)
            owners.compute(
                shard,
                [Piece(tensors[plane.name], shard) for plane in sent] + kept,
                [Piece(tensors[plane.name], shard) for plane in received] + kept,
                lambda given, bound=bound, group=group: self._call(name, given, group, bound,
                                                                   len(sent), len(received)))
        owners.finish()

    def _kept(self, bound: BoundParam) -> list[Piece]:
        """Returns this rank's pieces of the tensors that external steps keep for a parameter."""
        names = self._spec.external_shapes(bound.whole_shape)
        return [Piece(local_of(bound.state[name]), shard_of(bound.state[name])) for name in names]

    def _call(self, name: str, given: list[torch.Tensor], group: Mapping, bound: BoundParam,
              sent: int, count: int) -> list[torch.Tensor]:
        """Returns the results of a step's function for one parameter, after checking them, and the
        tensors that external steps keep for it."""
        given, kept = given[:sent], given[sent:]
        if self._spec.keeps_external:
            states = dict(zip(self._spec.external_shapes(bound.whole_shape), kept))
            own = states | {"step": int(bound.state[self._spec.step]) + 1}
            found = self._functions[name](given, group, own)
            kept = [_checked(own.get(key), tensor, key, name, bound.label)
                    for key, tensor in states.items()]
        else:
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
                for result in found] + kept

    def end(self) -> None:
        """Releases the tensors of the step."""
        self._params, self._tensors = [], []


def _checked(found: object, before: torch.Tensor, key: str, name: str,
             label: str) -> torch.Tensor:
    """Returns a tensor that an external step keeps, after checking what its function has left."""
    if not isinstance(found, torch.Tensor) or found.shape != before.shape:
        left = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise ValueError(f"the external step {name!r} has left {key!r} of {label} as {left}; it keeps "
                         f"a tensor of the shape {tuple(before.shape)}")
    return found
