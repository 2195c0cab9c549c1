"""A layer's two compiled passes: the part that does not depend on a framework."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence

from tandem import _tandem
from tandem._arguments import directories
from tandem._kernel import Kernel
from tandem._plane import Granularity, Plane, RoleKind
from tandem._storages import described

LayerPass = _tandem.LayerPass


class PassPlanes:
    """A compiled pass of a layer, and queries about its planes."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self._planes: dict[tuple, list[Plane]] = {}

    @functools.cached_property
    def storages(self) -> dict[str, str]:
        """The storage of each tensor by role, in MLIR's notation."""
        return self.kernel.storages

    def planes(self, *kinds: RoleKind) -> list[Plane]:
        """Returns the planes of tensors of some kinds."""
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
        """Returns whether a tensor is stored as one array of floats."""
        return described(self.storages[role]).is_plain


class Layer:
    """A layer of the library, or the MLIR text of one, under a recipe, for the CPU or a chip.

    ``dtype`` and ``vector_dtype`` are the types of its tensors and vectors, such as "bf16".
    ``stored`` has the storages of inputs that are not plain tensors, by name. With ``keeps``,
    its forward pass also saves its output in the form that linear layers after it would save.
    """

    #: The class with which a framework runs a pass.
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
        #: The names of the planes that the backward pass needs from the forward pass: saved
        #: planes, and inputs that are kept unchanged.
        self.restored = [plane.name for plane in self.saved]
        inputs = {plane.name for plane in self.forward.planes(RoleKind.INPUT)}
        #: The forward pass's inputs that the backward pass also takes, such as weights.
        self.again_read = [plane.name for plane in self.backward.planes(RoleKind.INPUT)
                           if plane.name in inputs]
        #: The planes of its outputs that the forward pass saves for other layers.
        self.for_others = [plane for plane in self.forward.planes(RoleKind.SAVED)
                           if plane.name not in self.restored]
        #: The planes that a recipe keeps between steps.
        self.remembered = [plane for plane in self.forward.kernel.planes if plane.persistent]

    def _compile(self, function: LayerPass, stored: Mapping[str, str] | None = None,
                 plain: bool = False) -> PassPlanes:
        """Compiles one pass, whose outputs are ``plain`` or stored under the recipe."""
        native = self._native.compile(function, list((stored or {}).items()), plain)
        return self._pass_type(Kernel(native, self._recipe, self._target))

    def backward_of(self, stored: Mapping[str, str], flows: bool) -> PassPlanes:
        """Returns the backward pass for gradients, some of which are stored. With ``flows`` it
        stores the gradients of inputs under the recipe."""
        flows = flows and self._native.stores_by_flow
        key = (*sorted(stored.items()), flows)
        if key not in self._backward:
            self._backward[key] = self._compile(LayerPass.BACKWARD, stored, not flows)
        return self._backward[key]

    @functools.cached_property
    def again(self) -> PassPlanes:
        """The pass that recomputes the output from the saved planes."""
        return self._compile(LayerPass.RECOMPUTE)

    @property
    def saved(self) -> list[Plane]:
        """The planes that stay in memory between the passes."""
        return self.backward.planes(RoleKind.RESTORED)

    @property
    def is_function(self) -> bool:
        """Whether the layer maps plain tensors to plain tensors and has no other state."""
        steps = self.forward, self.backward
        return not self.remembered and all(
            step.is_plain(name) for step in steps for name in step.outputs) and not any(
            RoleKind.SEED in step.kernel.integers.values() for step in steps)


def _arguments(function: Callable) -> str:
    """Returns the end of a message about an argument of the wrong type."""
    parameters = inspect.signature(function).parameters.values()
    return "its arguments are " + ", ".join(
        p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def check_arrays(function: Callable, kind: str = "an array", **arrays) -> None:
    """Refuses arguments of a layer that are not arrays of any framework."""
    for name, array in arrays.items():
        if not (hasattr(array, "shape") and hasattr(array, "dtype")):
            raise TypeError(f"{name} of {function.__name__} must be {kind}, got "
                            f"{type(array).__name__}; {_arguments(function)}")


def check_number(function: Callable, **numbers) -> None:
    """Refuses arguments of a layer that are not numbers."""
    for name, number in numbers.items():
        if not hasattr(number, "__float__") or getattr(number, "shape", ()) != ():
            raise TypeError(f"{name} of {function.__name__} must be a number, got "
                            f"{type(number).__name__}; {_arguments(function)}")


def check_vectors(what: str, x, **vectors) -> None:
    """Refuses vectors, as arrays of any framework, unless they have the same type and one
    element for each column of ``x``."""
    dtype = next(iter(vectors.values())).dtype
    for name, vector in vectors.items():
        if vector.shape != x.shape[-1:] or vector.dtype != dtype:
            raise ValueError(
                f"{name} of {what} is {tuple(vector.shape)} of {vector.dtype}; for an input of "
                f"{tuple(x.shape)} it must be {tuple(x.shape[-1:])} of {dtype}")


def check_alike(what: str, **pair) -> None:
    """Refuses two arrays with different shapes or types."""
    (name, x), (other, y) = pair.items()
    if x.shape != y.shape or x.dtype != y.dtype:
        raise ValueError(f"{name} of {what} is {tuple(x.shape)} of {x.dtype}, {other} is "
                         f"{tuple(y.shape)} of {y.dtype}; they must be alike")
