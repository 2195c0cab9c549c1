"""Whole tensors of sharded parameters, each on the rank that computes with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from tandem.torch._exchange import greedy_partition
from tandem.torch._shards import Shard

#: Computes whole tensors from others.
Compute = Callable[[list[torch.Tensor]], list[torch.Tensor]]


class Piece(NamedTuple):
    """A rank's piece of a tensor."""

    local: torch.Tensor
    shard: Shard | None  #: None if the rank has the whole tensor

    def bytes_at(self, place: int) -> int:
        """Returns the number of bytes of the shard at a place among the shards."""
        return self.shard.bounds[place][1] * self.shard.row_length * self.local.element_size()

    def gathered(self) -> torch.Tensor:
        """Returns the whole tensor. All ranks must call this together."""
        return self.local if self.shard is None else self.shard.gather(self.shard.like(self.local))

    def take(self, whole: torch.Tensor) -> None:
        """Writes this rank's piece of a tensor."""
        self.local.copy_(whole if self.shard is None else self.shard.piece_of(whole))


class Job(NamedTuple):
    """Tensors of one parameter to compute from others. Ranks have shards of both."""

    shard: Shard
    sent: list[Piece]
    received: list[Piece]
    compute: Compute


class Owners:
    """Computes with the whole tensors of parameters that ranks may have shards of.

    If shards are rows, each parameter has an owner, to which the other ranks send their shards and
    from which they receive those of the results. FP8-LM's greedy partition balances the owners'
    work. Otherwise each rank gathers the whole and computes its own piece.
    """

    def __init__(self):
        #: The parameters whose shards are rows, by the process group that they are spread over.
        self._jobs: dict[object, list[Job]] = {}

    def compute(self, shard: Shard | None, sent: list[Piece], received: list[Piece],
                compute: Compute) -> None:
        """Computes tensors of a parameter, now or in :meth:`finish`. All ranks must call it for
        the same parameters in the same order.

        Args:
            shard: the sharding of the parameter; None if each rank has it whole.
            sent: this rank's pieces of the operands.
            received: those of the results, which are written.
            compute: computes the whole results.
        """
        if shard is None or shard.is_whole or shard.bounds is None:
            for piece, found in zip(received, compute([piece.gathered() for piece in sent])):
                piece.take(found)
        else:
            self._jobs.setdefault(shard.group, []).append(Job(shard, sent, received, compute))

    def finish(self) -> None:
        """Computes what :meth:`compute` has put off."""
        for group, jobs in self._jobs.items():
            _Round(group, jobs).run()
        self._jobs = {}


class _Round:
    """The exchange of shards over a process group: to their owners, and back."""

    def __init__(self, group, jobs: Sequence[Job]):
        ranks = jobs[0].shard.ranks
        self._group, self._device = group, jobs[0].sent[0].local.device
        #: The place of each rank of the group among the shards.
        self._places = [ranks.index(torch.distributed.get_global_rank(group, rank))
                        for rank in range(len(ranks))]
        self._own = torch.distributed.get_rank(group)
        costs = [job.shard.shape.numel() * min(job.shard.shape[0], job.shard.row_length)
                 for job in jobs]
        #: The parameters that each rank of the group computes with.
        self._owned = [[jobs[i] for i in part] for part in greedy_partition(costs, len(ranks))]

    def run(self) -> None:
        whole = self._to_owners()
        results = [_of_types(job.compute(tensors), job.received)
                   for job, tensors in zip(self._owned[self._own], whole)]
        self._to_shards(results)

    def _to_owners(self) -> list[list[torch.Tensor]]:
        """Returns the whole operands of this rank's parameters."""
        pieces = [[piece.local for job in jobs for piece in job.sent] for jobs in self._owned]
        mine = self._owned[self._own]
        sizes = [[piece.bytes_at(place) for job in mine for piece in job.sent]
                 for place in self._places]
        found = self._exchange(pieces, sizes)
        at, whole = 0, []
        for job in mine:
            whole.append([])
            for piece in job.sent:
                whole[-1].append(self._joined(piece, [part[at] for part in found]))
                at += 1
        return whole

    def _joined(self, piece: Piece, parts: list[torch.Tensor]) -> torch.Tensor:
        """Returns the whole of the shards that the group's ranks have sent."""
        ordered = sorted(zip(self._places, parts), key=lambda part: part[0])
        joined = torch.cat([part for _, part in ordered]).view(piece.local.dtype)
        return joined.reshape(piece.shard.shape)

    def _to_shards(self, results: list[list[torch.Tensor]]) -> None:
        """Sends the shards of this rank's results, and writes those that other ranks send."""
        mine = self._owned[self._own]
        pieces = [[tensor.narrow(0, *piece.shard.bounds[place])
                   for job, tensors in zip(mine, results)
                   for piece, tensor in zip(job.received, tensors)]
                  for place in self._places]
        sizes = [[piece.local.nbytes for job in jobs for piece in job.received]
                 for jobs in self._owned]
        for jobs, parts in zip(self._owned, self._exchange(pieces, sizes)):
            written = [piece.local for job in jobs for piece in job.received]
            for tensor, part in zip(written, parts):
                tensor.copy_(part.view(tensor.dtype).reshape(tensor.shape))

    def _exchange(self, pieces: list[list[torch.Tensor]],
                  sizes: list[list[int]]) -> list[list[torch.Tensor]]:
        """Sends tensors to each rank of the group, and returns those that each has sent, as bytes.

        Args:
            pieces: the tensors for each rank.
            sizes: the number of bytes of each tensor from each rank.
        """
        sent = [[_bytes(tensor) for tensor in of_rank] for of_rank in pieces]
        totals = [sum(of_rank) for of_rank in sizes]
        found = torch.empty(sum(totals), dtype=torch.uint8, device=self._device)
        flat = [part for of_rank in sent for part in of_rank]
        torch.distributed.all_to_all_single(
            found, torch.cat(flat) if flat else found.new_empty(0), totals,
            [sum(part.numel() for part in of_rank) for of_rank in sent], group=self._group)
        return [list(part.split(of_rank)) for part, of_rank in zip(found.split(totals), sizes)]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes of a tensor in C order."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _of_types(found: Sequence[torch.Tensor], like: Sequence[Piece]) -> list[torch.Tensor]:
    """Returns tensors in the types of pieces."""
    return [tensor.to(piece.local.dtype) for tensor, piece in zip(found, like)]
