"""A layer's two passes, compiled: the part that needs no framework."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence

from tandem import _tandem
from tandem._arguments import directories
from tandem._kernel import Kernel
from tandem._plane import Granularity, Plane, RoleKind
from tandem._storages import described

LayerPass = _tandem.LayerPass


class PassPlanes:
    """A compiled pass of a layer, and what its planes are."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self._planes: dict[tuple, list[Plane]] = {}

    @functools.cached_property
    def storages(self) -> dict[str, str]:
        """The storage of each tensor by role, as a strategy spells it."""
        return self.kernel.storages

    def planes(self, *kinds: RoleKind) -> list[Plane]:
        """The planes of roles of some kinds."""
        if kinds not in self._planes:
            self._planes[kinds] = [p for p in self.kernel.planes if p.kind in kinds]
        return self._planes[kinds]

    @functools.cached_property
    def outputs(self) -> list[str]:
        """The names of the outputs, in order."""
        return list(dict.fromkeys(plane.role for plane in self.planes(RoleKind.OUTPUT)))

    @functools.cached_property
    def per(self) -> dict[str, Granularity]:
        """The granularity of each tensor's entries, by role."""
        return {plane.role: plane.per for plane in reversed(self.kernel.planes)}

    def is_plain(self, role: str) -> bool:
        """Whether a tensor is stored as one array of floats."""
        return described(self.storages[role]).is_plain


class Layer:
    """A layer of the library, or MLIR text of one, under a recipe, for the CPU or a chip.

    ``dtype`` and ``vector_dtype`` are the types of its tensors, "bf16" for instance.
    ``stored`` has the storages of the inputs that are not plain tensors, by name. If it
    ``keeps``, its forward pass also keeps what the linear layers after it would keep.
    """

    #: The class by which a framework runs a pass.
    _pass_type: type[PassPlanes] = PassPlanes

    def __init__(self, layer: str, recipe: str, dtype: str, vector_dtype: str,
                 path: Sequence[str | os.PathLike] = (),
                 stored: Sequence[tuple[str, str]] = (), target: str = "cpu",
                 keeps: bool = False):
        self._native = _tandem.Layer(layer, recipe, directories(path), dtype, vector_dtype,
                                     list(stored), keeps, target)
        self._recipe, self._target = recipe, target
        self._backward: dict[tuple, PassPlanes] = {}
        self.name = self._native.name
        self.forward = self._compile(LayerPass.FORWARD)
        self.backward = self.backward_of({}, flows=False)
        #: The planes that the backward pass needs of the forward pass, by name: what it
        #: has saved, and inputs that are kept as they are.
        self.restored = [plane.name for plane in self.saved]
        inputs = {plane.name for plane in self.forward.planes(RoleKind.INPUT)}
        #: The forward pass's inputs that the backward pass takes again, such as weights.
        self.again_read = [plane.name for plane in self.backward.planes(RoleKind.INPUT)
                           if plane.name in inputs]
        #: The planes of its outputs that the forward pass keeps for others.
        self.for_others = [plane for plane in self.forward.planes(RoleKind.SAVED)
                           if plane.name not in self.restored]
        #: The planes that a recipe keeps from step to step.
        self.remembered = [plane for plane in self.forward.kernel.planes if plane.persistent]

    def _compile(self, function: LayerPass, stored: Mapping[str, str] | None = None,
                 plain: bool = False) -> PassPlanes:
        """One function, whose outputs are ``plain`` or stored as the recipe says."""
        native = self._native.compile(function, list((stored or {}).items()), plain)
        return self._pass_type(Kernel(native, self._recipe, self._target))

    def backward_of(self, stored: Mapping[str, str], flows: bool) -> PassPlanes:
        """The backward pass for gradients some of which are stored; with ``flows`` it stores
        those of inputs as the recipe says."""
        flows = flows and self._native.stores_by_flow
        key = (*sorted(stored.items()), flows)
        if key not in self._backward:
            self._backward[key] = self._compile(LayerPass.BACKWARD, stored, not flows)
        return self._backward[key]

    @functools.cached_property
    def again(self) -> PassPlanes:
        """The output once more, of what the forward pass has saved."""
        return self._compile(LayerPass.RECOMPUTE)

    @property
    def saved(self) -> list[Plane]:
        """The planes that stay in memory between the passes."""
        return self.backward.planes(RoleKind.RESTORED)

    @property
    def is_function(self) -> bool:
        """Whether it maps plain tensors to plain tensors, and depends on nothing else."""
        steps = self.forward, self.backward
        return not self.remembered and all(
            step.is_plain(name) for step in steps for name in step.outputs) and not any(
            RoleKind.SEED in step.kernel.integers.values() for step in steps)


def check_vectors(what: str, x, **vectors) -> None:
    """Refuses vectors, arrays of any framework, that do not have a number of one type for each
    column of ``x``."""
    dtype = next(iter(vectors.values())).dtype
    for name, vector in vectors.items():
        if vector.shape != x.shape[-1:] or vector.dtype != dtype:
            raise ValueError(
                f"{name} of {what} is {tuple(vector.shape)} of {vector.dtype}; for x, which is "
                f"{tuple(x.shape)}, it must be {tuple(x.shape[-1:])} of {dtype}")


def check_alike(what: str, **pair) -> None:
    """Refuses two arrays of different shapes or types."""
    (name, x), (other, y) = pair.items()
    if x.shape != y.shape or x.dtype != y.dtype:
        raise ValueError(f"{name} of {what} is {tuple(x.shape)} of {x.dtype}, {other} is "
                         f"{tuple(y.shape)} of {y.dtype}; they must be alike")
