"""Leaves that are sharded over devices, in functions that jax.shard_map maps."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from tandem._param_planes import ParamPlanes
from tandem._plane import Granularity
from tandem.jax._launch import varying_axes


def axes_of(label: str, spec: object) -> tuple[str, ...]:
    """Returns the mesh axes that a leaf's first dimension is sharded over.

    Raises:
        TypeError, ValueError: the spec is invalid or shards another dimension.
    """
    if not isinstance(spec, PartitionSpec):
        raise TypeError(f"the spec of {label} is {spec!r}; pass a jax.sharding.PartitionSpec for "
                        "each leaf")
    first, *others = (*spec, None)
    if any(other not in (None, ()) for other in others):
        raise ValueError(f"the spec of {label} is {spec}, which spreads dimensions other than "
                         "the first; shards must be whole rows: P('axis')")
    return () if first is None else (first,) if isinstance(first, str) else tuple(first)


def check_spread(label: str, value: object, spec: PartitionSpec, axes: tuple[str, ...]) -> None:
    """Refuses a shard whose spec says that it is a whole leaf."""
    missing = sorted(varying_axes(value) - set(axes)) if isinstance(value, jax.Array) else []
    if missing:
        raise ValueError(
            f"{label} differs along the mesh axis {missing[0]!r}, but its spec is {spec}; say how "
            f"leaves are spread: specs=..., with P({missing[0]!r}) for shards of one leaf")


def whole_shape(shape: tuple[int, ...], axes: tuple[str, ...]) -> tuple[int, ...]:
    """Returns the shape of the whole leaf from the shape of each device's shard."""
    if not axes or not shape:
        return tuple(shape)
    return shape[0] * math.prod(map(jax.lax.axis_size, axes)), *shape[1:]


def number_of_shard(axes: tuple[str, ...]) -> jax.Array:
    """Returns the number of shards before this device's, as an i32."""
    return jax.lax.axis_index(axes) if axes else jnp.zeros((), jnp.int32)


def check_cut(label: str, planes: ParamPlanes, whole: tuple[int, ...],
              shard: tuple[int, ...]) -> None:
    """Refuses shards if the update needs the whole leaf, or if they split elements that share an
    entry."""
    kernel, fix = planes.kernel, "give it the spec P(), which keeps it whole on each device"
    if kernel.reductions or any(plane.is_whole_tensor or plane.per != Granularity.ELEMENT
                                for plane in kernel.planes):
        raise ValueError(f"{label} is spread over devices, but {kernel.name} under "
                         f"{kernel.strategy!r} computes values from all of it; {fix}, or take "
                         "another optimizer or strategy")
    rows, columns = planes.size_of_shape(whole)
    unit = planes.uncut_elements((rows, columns))
    joins = rows > 1 and planes.size_of_shape(shard)[1] != columns
    if any(plane.is_grouped for plane in kernel.planes) and (math.prod(shard) % unit or joins):
        raise ValueError(
            f"{label} of the shape {whole} is cut into shards of the shape {shard}, inside of "
            f"{unit} elements that share a scale under {kernel.strategy!r}; {fix}, or have "
            "shards of whole rows of groups")

