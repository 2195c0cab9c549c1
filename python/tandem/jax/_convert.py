"""Conversions of arrays from one storage to another in functions that JAX traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from tandem._convert import conversion
from tandem._plane import Plane
from tandem.jax._launch import DTYPES, Tensor, launch


def zeros(plane: Plane, shape: Sequence[int]) -> jax.Array:
    """Returns a plane of zero bits. E8M0 cannot represent zero."""
    dtype = DTYPES[plane.type]
    bits = jnp.zeros(shape, f"uint{8 * dtype.itemsize}")
    return jax.lax.bitcast_convert_type(bits, dtype)


@dataclass(frozen=True)
class Job:
    """A tensor to convert.

    Attributes:
        name: its name in messages.
        size: the kernel's rows and columns for it.
        source: its planes.
        shapes: the shapes of the planes to create.
        begun: existing planes to continue with, by name, such as scales that are computed from
            the previous ones.
    """

    name: str
    size: tuple[int, int]
    source: Sequence[jax.Array]
    shapes: Sequence[tuple[int, ...]]
    begun: Mapping[str, jax.Array] = field(default_factory=dict)


def convert(jobs: Sequence[Job], source: str, target: str, planes: Sequence[Plane], *,
            fresh: bool, matrix: bool, threads: int, what: str,
            floor: bool = False) -> list[dict[str, jax.Array]]:
    """Returns the planes of tensors in another storage, by name.

    Args:
        jobs: the tensors.
        source: the storage of the tensors.
        target: the storage to convert to.
        planes: the planes of the target storage.
        fresh: as for :class:`tandem._convert.Conversion`.
        matrix: whether they are tensors of a graph of matrices.
        threads: the number of threads; 0 means one per core.
        what: the name of the launch in messages.
        floor: whether they are second moments, whose positive values must not become zero.
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
