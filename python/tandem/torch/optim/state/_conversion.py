"""Conversions of tensors from one storage to another, over shards and on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

import torch

from tandem._convert import CPU, Executor, Tensor, conversion
from tandem._plan import Sharding
from tandem._plane import Plane
from tandem._storages import floats
from tandem.torch._exchange import Exchange
from tandem.torch._layout import WORKING, rows_and_columns, rows_in_memory
from tandem.torch._shards import Shard


def plain_storage(dtype: torch.dtype) -> str:
    """Returns the storage of a plain tensor of a type that modules compute in."""
    return floats(WORKING[dtype])


def plane_of(dtype: torch.dtype) -> Plane:
    """Returns the plane of a plain tensor of a type that modules compute in."""
    return Plane(type=WORKING[dtype], bits=dtype.itemsize * 8)


def numbered_groups(shards: Sequence[Shard | None], shardings: Sequence[Sharding | None]
                    ) -> tuple[list, list[Sharding | None]]:
    """Returns the process groups that tensors are sharded over, and the shardings with the
    groups' numbers. All ranks find the groups in the same order, that of the tensors."""
    groups: dict = {}
    numbered = [
        sharding and sharding._replace(group=groups.setdefault(shard.group, len(groups)))
        for shard, sharding in zip(shards, shardings)]
    return [*groups], numbered


def _planes_of(tensor: torch.Tensor | Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    return [tensor] if isinstance(tensor, torch.Tensor) else tensor


def _in_memory(tensor: torch.Tensor | Sequence[torch.Tensor], like: torch.Tensor,
               size_of: Callable[[torch.Tensor], int | tuple[int, int]],
               place: tuple[int, Sharding | None] = (0, None)) -> Tensor:
    planes = _planes_of(tensor)
    # Bytes that hold several codes are fewer than the elements.
    measure = like if like.numel() > planes[0].numel() else planes[0]
    return Tensor(size_of(measure), [plane.data_ptr() for plane in planes], *place)


def convert_tensors(sources: Sequence, source: str, targets: Sequence, target: str,
                    planes: Sequence[Plane], threads: int = 0, *, adds: bool = False,
                    fresh: bool = True, matrix: bool = False, floor: bool = False,
                    has_rows: bool = True, group: int = 1, joined_rows: int = 1,
                    executor: Executor = CPU,
                    places: Sequence[tuple[int, Sharding | None]] = (),
                    exchange: Exchange | None = None,
                    likes: Sequence[torch.Tensor] = ()) -> None:
    """Converts tensors, given by their planes, to another storage.

    `planes` describes the targets' planes. The first plane of each source or of its target has
    an entry for each element, unless `likes` has a tensor of each one's shape. `matrix` is whether
    the tensors belong to a graph of matrices, `floor` whether targets are second moments, and
    `has_rows` whether groups start anew in each row; `group` is the length up to which rows are
    joined, and `joined_rows` the number of rows that are one for a graph of matrices. All tensors
    are on one device. For shards, `places` has the first elements and the shardings, and
    `exchange` connects the ranks.
    """
    def size_of(tensor: torch.Tensor) -> int | tuple[int, int]:
        if matrix:
            return rows_and_columns(tensor, joined_rows)
        return rows_in_memory(tensor, group) if has_rows else tensor.numel()

    conversion(source, target, adds, fresh, matrix, floor, executor.target).run(
        [_in_memory(t, like, size_of)
         for t, like in zip(sources, likes or [_planes_of(t)[0] for t in targets])],
        [_in_memory(t, like, size_of, place) for t, like, place in zip(
            targets, likes or [_planes_of(t)[0] for t in sources],
            places or repeat((0, None)))], planes,
        threads or torch.get_num_threads(), executor, exchange)
