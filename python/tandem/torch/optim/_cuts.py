"""Checks of whether kernels can update pieces of parameters separately: pieces of whole rows,
groups and blocks can."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from tandem._plane import Granularity, Plane, RoleKind
from tandem.torch._shards import Shard

if TYPE_CHECKING:
    from tandem.torch.optim._binding import KernelBinding

#: The maximum number of elements of a parameter that ranks gather if its pieces cannot be
#: updated separately, such as a bias.
GATHERED = 1 << 18


def is_shared(plane: Plane) -> bool:
    """Returns whether all shards of a tensor have the same entries of a plane, if shards are
    rows."""
    return plane.is_whole_tensor or plane.per == Granularity.COLUMN


def rows_of_entry(plane: Plane, shape: torch.Size, entries: torch.Size) -> int:
    """Returns the number of rows of a tensor for each row of a plane's entries or, for a vector,
    the number of elements for each entry.

    Args:
        plane: a plane that is not shared by all rows.
        shape: the shape of the tensor.
        entries: the shape of the plane.
    """
    if plane.per == Granularity.ROW or len(shape) < 2:
        return plane.group
    return plane.rows if plane.rows > 1 else shape[0] // max(entries[0], 1)


def reason_for_rows(binding: KernelBinding) -> str | None:
    """Returns which part of a step depends on an element's position or neighbours, or None."""
    kernel = binding.kernel
    if any(plane.is_grouped or plane.is_whole_tensor or plane.per != Granularity.ELEMENT
           for plane in kernel.planes):
        return f"strategy {kernel.strategy!r} has scales that elements of rows share"
    if any(kind is RoleKind.SEED for kind in kernel.integers.values()):
        return f"strategy {kernel.strategy!r} draws random bits by the number of an element"
    if kernel.is_matrix or kernel.reductions or kernel.measures:
        return f"{kernel.name} computes values from several elements"
    return None


@lru_cache(maxsize=4096)
def cut_of(shard: Shard, binding: KernelBinding) -> str | None:
    """Returns why the pieces of a DTensor cannot be updated separately, as a phrase that follows
    the name of a parameter; None if they can.

    The result depends only on the whole tensor and its placements, so it is the same on all
    ranks.
    """
    if shard.bounds is None or not shard.is_in_c_order:
        return f"is spread as {shard}, in pieces that are not whole rows"
    unit = binding.uncut_elements(binding.size_of(torch.empty(shard.shape, device="meta")))
    if any(start % unit for start in shard.starts
           if start < shard.shape.numel() or not _ends_anywhere(binding)):
        return (f"of shape {tuple(shard.shape)} is cut inside of {unit} elements that belong "
                "together")
    if not _joins_alike(binding, shard):
        return (f"of shape {tuple(shard.shape)} has short rows, of which its pieces would join "
                "others into groups than the whole does")
    if (any(map(is_shared, (p for p in binding.kernel.planes if p.written)))
            and not all(rows for _, rows in shard.bounds)):
        return (f"of shape {tuple(shard.shape)} leaves a rank without rows, where scales of all "
                "of them would not be kept")
    return None


def _ends_anywhere(binding: KernelBinding) -> bool:
    """Returns whether empty pieces may begin at the end of a tensor even if a group is
    incomplete there. If not, the incomplete group or block of rows counts as cut."""
    kernel = binding.kernel
    return kernel.is_matrix and not any(plane.rows > 1 for plane in kernel.planes)


def _joins_alike(binding: KernelBinding, shard: Shard) -> bool:
    """Returns whether rows that are shorter than a group are joined in each piece as in the
    whole."""
    if not any(plane.is_grouped for plane in binding.kernel.planes):
        return True
    def columns_of(rows: int) -> int:
        return binding.size_of(torch.empty(rows, *shard.shape[1:], device="meta"))[1]
    return len(shard.shape) < 2 or all(
        columns_of(rows) == columns_of(shard.shape[0]) for _, rows in shard.bounds if rows)
