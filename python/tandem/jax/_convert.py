"""Conversions of arrays from one storage to another, in functions that JAX traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from tandem._convert import conversion
from tandem._plane import Plane
from tandem.jax._launch import DTYPES, Tensor, launch


def zeros(plane: Plane, shape: Sequence[int]) -> jax.Array:
    """A plane of zero bits; E8M0 has no number zero."""
    dtype = DTYPES[plane.type]
    bits = jnp.zeros(shape, f"uint{8 * dtype.itemsize}")
    return jax.lax.bitcast_convert_type(bits, dtype)


@dataclass(frozen=True)
class Job:
    """A tensor to convert.

    Attributes:
        name: what messages call it.
        size: its rows and columns, as the kernel takes them.
        source: its planes.
        shapes: the shapes of the planes that are made.
        begun: planes that are not made anew but go on, by name, such as scales that are made
            of those before.
    """

    name: str
    size: tuple[int, int]
    source: Sequence[jax.Array]
    shapes: Sequence[tuple[int, ...]]
    begun: Mapping[str, jax.Array] = field(default_factory=dict)


def convert(jobs: Sequence[Job], source: str, target: str, planes: Sequence[Plane], *,
            fresh: bool, matrix: bool, threads: int, what: str,
            floor: bool = False) -> list[dict[str, jax.Array]]:
    """The planes of tensors in another storage, by name.

    Args:
        jobs: the tensors.
        source: the storage that they have.
        target: that which they get.
        planes: the planes of that.
        fresh: as for :class:`tandem._convert.Conversion`.
        matrix: whether they are tensors of a graph of matrices.
        threads: 0 for one per core.
        what: what messages call the launch.
        floor: whether they are second moments, in which what is positive stays so.
    """
    known = conversion(source, target, fresh=fresh, matrix=matrix, floor=floor)
    made = [{plane.name: zeros(plane, shape) for plane, shape in zip(planes, job.shapes)}
            | job.begun for job in jobs]
    if known.kernel is None:
        return [zeroed | {plane.name: value for plane, value in zip(planes, job.source)}
                for zeroed, job in zip(made, jobs)]
    names = [plane.name for plane in known.kernel.planes]
    written = [plane.name for plane in planes][:known.written]
    tensors = [Tensor(job.name, job.size, dict(zip(names, (
        *(zeroed[name] for name in written), *job.source[:known.read]))))
        for job, zeroed in zip(jobs, made)]
    outcome = launch(known.kernel, tensors, what=what, launches=known.launches, threads=threads)
    return [zeroed | dict(zip(written, found.values()))
            for zeroed, found in zip(made, outcome.planes)]
