"""States of sharded parameters: where pieces may be cut, and the planes of each piece.

Kernels can update pieces of whole rows, groups and blocks separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import torch

from tandem._plan import Sharding
from tandem._plane import Granularity, Plane, RoleKind
from tandem.torch._shards import Shard, is_dtensor, local_of, shard_of
from tandem.torch.optim.state._spec import StateSpec

#: The maximum number of elements of a parameter that ranks gather if its pieces cannot be
#: updated separately, such as a bias.
GATHERED = 1 << 18


def is_shared(plane: Plane) -> bool:
    """Returns whether all shards of a tensor have the same entries of a plane, if shards are
    rows."""
    return plane.is_whole_tensor or plane.per == Granularity.COLUMN


def rows_of_entry(plane: Plane, shape: torch.Size, entries: torch.Size,
                  joined_rows: int = 1) -> int:
    """Returns the number of rows of a tensor for each row of a plane's entries or, for a vector,
    the number of elements for each entry.

    Args:
        plane: a plane that is not shared by all rows.
        shape: the shape of the tensor.
        entries: the shape of the plane.
        joined_rows: the number of rows that are one for the kernel.
    """
    if plane.per == Granularity.ROW or len(shape) < 2:
        return plane.group * joined_rows
    return plane.rows if plane.rows > 1 else shape[0] // max(entries[0], 1)


def reason_for_rows(spec: StateSpec) -> str | None:
    """Returns which part of a step depends on an element's position or neighbours, or None."""
    kernel = spec.kernel
    if any(plane.is_grouped or plane.is_whole_tensor or plane.per != Granularity.ELEMENT
           for plane in kernel.planes):
        return f"strategy {kernel.strategy!r} has scales that elements of rows share"
    if any(kind is RoleKind.SEED for kind in kernel.integers.values()):
        return f"strategy {kernel.strategy!r} draws random bits by the number of an element"
    if kernel.is_matrix or kernel.reductions or kernel.measures:
        return f"{kernel.name} computes values from several elements"
    return None


@lru_cache(maxsize=4096)
def cut_of(shard: Shard, spec: StateSpec) -> str | None:
    """Returns why the pieces of a DTensor cannot be updated separately, as a phrase that follows
    the name of a parameter; None if they can.

    The result depends only on the whole tensor and its placements, so it is the same on all
    ranks.
    """
    if shard.bounds is None or not shard.is_in_c_order:
        return f"is spread as {shard}, in pieces that are not whole rows"
    unit = spec.uncut_elements(spec.size_of(torch.empty(shard.shape, device="meta")))
    if any(start % unit for start in shard.starts
           if start < shard.shape.numel() or not _ends_anywhere(spec)):
        return (f"of shape {tuple(shard.shape)} is cut inside of {unit} elements that belong "
                "together")
    if not _joins_alike(spec, shard):
        return (f"of shape {tuple(shard.shape)} has short rows, of which its pieces would join "
                "others into groups than the whole does")
    if (any(map(is_shared, (p for p in spec.kernel.planes if p.written)))
            and not all(rows for _, rows in shard.bounds)):
        return (f"of shape {tuple(shard.shape)} leaves a rank without rows, where scales of all "
                "of them would not be kept")
    return None


def _ends_anywhere(spec: StateSpec) -> bool:
    """Returns whether empty pieces may begin at the end of a tensor even if a group is
    incomplete there. If not, the incomplete group or block of rows counts as cut."""
    kernel = spec.kernel
    return kernel.is_matrix and not any(plane.rows > 1 for plane in kernel.planes)


def _joins_alike(spec: StateSpec, shard: Shard) -> bool:
    """Returns whether rows that are shorter than a group are joined in each piece as in the
    whole."""
    if not any(plane.is_grouped for plane in spec.kernel.planes):
        return True
    def columns_of(rows: int) -> int:
        return spec.size_of(torch.empty(rows, *shard.shape[1:], device="meta"))[1]
    return len(shard.shape) < 2 or all(
        columns_of(rows) == columns_of(shard.shape[0]) for _, rows in shard.bounds if rows)


def gathers(spec: StateSpec, shard: Shard) -> bool:
    """Returns whether each rank updates the whole of a small DTensor, since its pieces
    cannot be updated separately. Its state is then on all ranks."""
    reason = reason_for_rows(spec) if not shard.is_whole else None
    return (reason is not None and shard.shape.numel() <= GATHERED
            and cut_of(shard, spec) is not None)


def place_of(spec: StateSpec, shard: Shard | None) -> tuple[int, Sharding | None]:
    """Returns the index of this rank's first element and the sharding for a plan. A tensor
    that each rank has in full, or whose pieces are not rows, is treated as unsharded."""
    if (shard is None or shard.is_whole or shard.starts is None or not shard.is_in_c_order
            or gathers(spec, shard)):
        return 0, None
    _, columns = spec.size_of(torch.empty(shard.shape, device="meta"))
    return shard.first, Sharding(columns, shard.index,
                                 (*shard.starts, shard.shape.numel()))


def updated(spec: StateSpec, param: torch.Tensor) -> torch.Tensor:
    """Returns the tensor that this rank updates: its piece of the parameter, or the whole."""
    shard = shard_of(param)
    if shard is not None and gathers(spec, shard):
        return shard.gather(param.detach())
    return local_of(param)


def asks_ranks(spec: StateSpec, shard: Shard) -> bool:
    """Returns whether ranks communicate about a DTensor before they compare steps, because
    they gather it or encode it with one scale for the tensor."""
    encoded = [*(spec.grad_planes if spec.encodes else ()),
               *(spec.weight_planes if spec.hidden else ())]
    return gathers(spec, shard) or (
        place_of(spec, shard)[1] is not None and any(map(is_shared, encoded)))


#===------------------------------------------------------------------------===#
# Planes of shards
#===------------------------------------------------------------------------===#


def spread(spec: StateSpec, state: Mapping, param: torch.Tensor) -> dict:
    """Returns a state with planes that are sharded like the parameter: DTensors if it is
    one, which divide the parameter's first dimension if they have entries for its rows."""
    if (shard := shard_of(param)) is None:
        return dict(state)
    return {name: _beside(spec, shard, spec.state_planes[name], value)
            if name in spec.state_planes and not is_dtensor(value) else value
            for name, value in state.items()}


def _beside(spec: StateSpec, shard: Shard, plane: Plane, local: torch.Tensor) -> torch.Tensor:
    if gathers(spec, shard):
        return shard.replicated(local)
    if plane.sets_size:
        return shard.like(local)
    if is_shared(plane) or shard.bounds is None:
        return shard.replicated(local)
    return shard.beside(local, spec.shape(plane, shard.measure(torch.float32)))


def divided(spec: StateSpec, state: Mapping, shard: Shard) -> dict:
    """Shards the state of a whole parameter, so that each rank keeps its piece."""
    external = spec.external_names(state)
    return {name: _piece(spec, shard, spec.state_planes[name], value)
            if name in spec.state_planes else
            _rows_of(spec, shard, value.shape, value) if name in external else value
            for name, value in state.items()}


def begun_external(spec: StateSpec, param: torch.Tensor) -> dict[str, torch.Tensor]:
    """Returns zeros for the tensors that external steps keep for a parameter."""
    shard, shapes = shard_of(param), spec.external_shapes(param.shape)
    if shard is None:
        return {name: torch.zeros(shape, device=spec.device) for name, shape in shapes.items()}
    return {name: _rows_of(spec, shard, shape) for name, shape in shapes.items()}


def _rows_of(spec: StateSpec, shard: Shard, shape: torch.Size,
             whole: torch.Tensor | None = None) -> torch.Tensor:
    """Returns the DTensor of a tensor that external steps keep for a DTensor, or of zeros. Its rows
    are spread over the ranks that have rows of the parameter; otherwise each rank has it whole."""
    if gathers(spec, shard) or shard.bounds is None:
        return shard.replicated(torch.zeros(shape, device=spec.device) if whole is None else whole)
    own = shard.of_shape(shape)
    return own.like(torch.zeros(own.rows, *shape[1:], device=spec.device) if whole is None
                    else own.piece_of(whole).clone())


def _piece(spec: StateSpec, shard: Shard, plane: Plane, whole: torch.Tensor) -> torch.Tensor:
    """Returns the DTensor of a whole plane."""
    if gathers(spec, shard):
        return shard.replicated(whole)
    if plane.sets_size:
        return shard.like(shard.piece_of(whole).contiguous())
    if is_shared(plane) or shard.bounds is None:
        return shard.replicated(whole)
    shape = spec.shape(plane, shard.measure(torch.float32))
    unit = rows_of_entry(plane, shard.shape, shape, spec.joined_rows)
    first, end = shard.first_row, shard.first_row + shard.rows
    own = whole.reshape(shape)[-(-first // unit):-(-end // unit)].clone()
    return _beside(spec, shard, plane, own)
