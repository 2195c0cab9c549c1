"""The processes that train one model, as sums over them need them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch


class Ranks:
    """The processes that train one model, as :class:`GradientAllReduce` needs them.

    Anything with these methods can take its place. All ranks call them in the same order;
    tensors have one dimension.

    Args:
        group: a process group of torch.distributed; None for all processes.
        private: whether a new group of the same processes is created, which all of them do
            together, so that calls may come from a different thread from those of others.

    Raises:
        ValueError: this process is not in the group.
    """

    def __init__(self, group=None, private: bool = False):
        if torch.distributed.get_rank(group) < 0:
            raise ValueError("this process is not one of the process group's ranks; pass a "
                             "group that it is in")
        self._group = _twin(group) if private else group

    @property
    def size(self) -> int:
        """The number of ranks."""
        return torch.distributed.get_world_size(self._group)

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return torch.distributed.get_rank(self._group)

    def max(self, tensor: torch.Tensor) -> None:
        """Gives every element the largest value that it has on any rank.

        Elements are integers: what a maximum of NaN is depends on the backend.
        """
        torch.distributed.all_reduce(
            tensor, torch.distributed.ReduceOp.MAX, self._group)

    def sum(self, tensor: torch.Tensor) -> None:
        """Adds up every element over the ranks."""
        torch.distributed.all_reduce(
            tensor, torch.distributed.ReduceOp.SUM, self._group)

    def all_to_all(self, tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        """Gives each rank its slice of all ranks' tensors.

        Args:
            tensor: the slices for all ranks, concatenated.
            sizes: how many elements each rank gets of each tensor.

        Returns:
            This rank's slice of each tensor, concatenated in the order of the ranks.
        """
        own = [sizes[self.rank]] * self.size
        return self._exchange(tensor, list(sizes), own)

    def all_gather(self, tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        """The tensors of all ranks, of these sizes, concatenated in the order of the ranks.

        Not every backend's all_gather takes tensors of several sizes, so that each rank
        sends its own to each other one.
        """
        own = [len(tensor)] * self.size
        return self._exchange(tensor.repeat(self.size), own, list(sizes))

    def _exchange(self, tensor: torch.Tensor, sent: list[int], received: list[int]):
        result = tensor.new_empty(sum(received))
        torch.distributed.all_to_all_single(result, tensor, received, sent, self._group)
        return result


def _twin(group):
    """A new process group of the same ranks and backend."""
    return torch.distributed.new_group(
        torch.distributed.get_process_group_ranks(group or torch.distributed.group.WORLD),
        backend=torch.distributed.get_backend(group), use_local_synchronization=group is not None)


def is_transport(ranks) -> bool:
    """Whether something has the methods of :class:`Ranks`, and is not a process group."""
    return hasattr(ranks, "all_to_all") and hasattr(ranks, "max")


def check_alike(ranks: Ranks, facts: Mapping[str, object], device: torch.device) -> None:
    """Refuses ranks that differ in one of these facts, on every one of them.

    The exchange has the same length whatever the facts are, so that no rank waits for
    another's.

    Args:
        facts: what has to be equal, by what it is called in the message.

    Raises:
        RuntimeError: ranks differ.
    """
    own = torch.tensor([_digest(fact) for fact in facts.values()], dtype=torch.int64)
    both = torch.cat([own, -own]).to(device)
    ranks.max(both)
    most, least = both.cpu().view(2, -1)
    if different := [name for name, high, low in zip(facts, most, -least) if high != low]:
        raise RuntimeError(
            "the ranks do not have the same " + ", ".join(different) + "; the "
            f"{different[0]} of rank {ranks.rank}: {_shown(facts[different[0]])}. Create the "
            "model, the optimizer and what sends its gradients with the same arguments on "
            "every rank")


def _digest(fact: object) -> int:
    """Returns 62 bits that tell facts apart by their representation."""
    digest = hashlib.sha256(repr(fact).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 2


def _shown(fact: object, most: int = 200) -> str:
    text = repr(fact)
    return text if len(text) <= most else text[:most] + "..."
