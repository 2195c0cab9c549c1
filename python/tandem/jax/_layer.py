"""A layer's two passes as a function with a custom derivative."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tandem._layers import Layer, PassPlanes
from tandem._plane import Granularity, RoleKind
from tandem.jax._launch import DTYPES, Tensor, launch, summed_like, varying_axes
from tandem.jax._rules import TYPES


@functools.lru_cache(maxsize=None)
def compiled(name: str, recipe: str, dtype: str, vector_dtype: str,
              path: tuple[str, ...]) -> Layer:
    """Returns a layer, which is compiled once for all calls.

    Raises:
        ValueError: the layer is not a function of plain arrays under this recipe.
    """
    layer = Layer(name, recipe, dtype, vector_dtype, path)
    if not layer.is_function:
        raise ValueError(
            f"{'linear' if name == 'keep' else name} under recipe {recipe!r} dithers, remembers scales or stores what goes "
            "between layers, which tandem.jax.nn does not do; take 'coat', 'mxfp8' or 'bf16'")
    return layer


def check_types(layer: str, **inputs: jax.Array) -> None:
    """Refuses arrays of unsupported types."""
    for name, value in inputs.items():
        if jnp.dtype(value.dtype) not in TYPES:
            raise TypeError(f"{name} of {layer} is {value.dtype}; layers take bfloat16, float16 "
                            "or float32")


def run(name: str, recipe: str, path: Sequence[str | os.PathLike], hypers: tuple[float, ...],
        tensors: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array] | None = None,
        gradients: Mapping[str, str] | None = None):
    """Runs a layer and returns its output, or a tuple of several outputs.

    Args:
        name: the name of the layer.
        recipe: the recipe, which determines what the layer saves.
        path: directories that are searched for recipes.
        hypers: the layer's hyperparameters, in order.
        tensors: arrays [..., columns] of the same shape and type.
        vectors: arrays [columns] of the same type.
        gradients: the names of gradients that are not "d<input>". The gradient of an input is
            zero if the layer does not compute it.
    """
    inputs = {**tensors, **(vectors or {})}
    check_types(name, **inputs)
    dtype = TYPES[jnp.dtype(next(iter(tensors.values())).dtype)]
    vector_dtype = next((TYPES[jnp.dtype(v.dtype)] for v in (vectors or {}).values()), dtype)
    layer = compiled(name, recipe, dtype, vector_dtype, tuple(map(os.fspath, path)))
    names = tuple((key, (gradients or {}).get(key, f"d{key}")) for key in inputs)
    values = [jnp.asarray(value) for value in inputs.values()]
    types = tuple(_Type(value.shape, value.dtype, varying_axes(value)) for value in values)
    results = _function(layer, tuple(map(float, hypers)), names, types)(*values)
    return results if len(results) > 1 else results[0]


class _Type(NamedTuple):
    """The type of an input, and the mesh axes along which it varies."""

    shape: tuple[int, ...]
    dtype: jnp.dtype
    axes: frozenset[str]


@functools.lru_cache(maxsize=None)
def _function(layer: Layer, hypers: tuple[float, ...], names: tuple[tuple[str, str], ...],
              inputs: tuple[_Type, ...]):
    """Returns a layer as a function from its inputs to a tuple. `names` has (name, name of the
    gradient) for each input, and `inputs` has the types."""
    shape, needed = inputs[0].shape, (*layer.restored, *layer.again_read)

    def forward(*values):
        given = {name: value for (name, _), value in zip(names, values, strict=True)}
        planes = given | run_pass(layer.name, layer.forward, shape, given, hypers)
        outputs = tuple(planes[role].reshape(_shape(layer.forward, role, shape))
                        for role in layer.forward.outputs)
        return outputs, [planes[name] for name in needed]

    def backward(kept, cotangents):
        given = dict(zip(needed, kept, strict=True)) | {
            f"d{role}": dy for role, dy in zip(layer.forward.outputs, cotangents, strict=True)}
        planes = run_pass(layer.name, layer.backward, shape, given)
        return tuple(_gradient(planes.get(gradient), x)
                     for (_, gradient), x in zip(names, inputs, strict=True))

    function = jax.custom_vjp(lambda *values: forward(*values)[0])
    function.defvjp(forward, backward)
    return function


def _gradient(plane: jax.Array | None, x: _Type) -> jax.Array:
    """Returns the gradient of an input from a plane of the backward pass, or zeros if there is
    none."""
    value = (jnp.zeros(x.shape, x.dtype) if plane is None
             else plane.reshape(x.shape).astype(x.dtype))
    return summed_like(value, x.axes)


def _shape(step: PassPlanes, role: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of an output for an input of this shape."""
    return shape if step.per[role] is Granularity.ELEMENT else shape[:-1]


def run_pass(layer: str, step: PassPlanes, shape: tuple[int, ...],
             given: Mapping[str, jax.Array],
             hypers: tuple[float, ...] = ()) -> dict[str, jax.Array]:
    """Runs a pass of a layer and returns the planes that it writes, by name, as vectors."""
    columns = shape[-1] if shape else 1
    rows = math.prod(shape) // max(1, columns)
    made = {plane.name: jax.ShapeDtypeStruct((plane.entries(columns, rows),), DTYPES[plane.type])
            for plane in step.planes(RoleKind.OUTPUT, RoleKind.SAVED)}
    if 0 in (rows, columns):
        return {name: jnp.zeros(x.shape, x.dtype) for name, x in made.items()}
    scalars = dict(zip(step.kernel.hypers, hypers)) | dict.fromkeys(step.kernel.integers, 1)
    planes = {plane.name: made[plane.name] if plane.name in made else given[plane.name]
              for plane in step.kernel.planes}
    if not any(plane.written for plane in step.kernel.planes):
        return {}
    (written,) = launch(step.kernel, [Tensor(layer, (rows, columns), planes)], scalars,
                        what=f"the layer {layer}",
                        instead="call it outside, since it takes leading dimensions").planes
    return written
