"""The processes that train one model, and their collectives."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch


class Ranks:
    """The processes that train one model, with the collectives that :class:`GradientAllReduce`
    needs.

    Any object with these methods can replace it. All ranks must call them in the same order;
    tensors have one dimension.

    Args:
        group: a process group of torch.distributed; None for all processes.
        private: whether to create a new group of the same processes, so that calls may come from
            a different thread. All processes must do so together.

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
        """The index of this rank, from 0."""
        return torch.distributed.get_rank(self._group)

    def max(self, tensor: torch.Tensor) -> None:
        """Replaces every element with its maximum over the ranks.

        Elements are integers, since the maximum of NaN depends on the backend.
        """
        torch.distributed.all_reduce(
            tensor, torch.distributed.ReduceOp.MAX, self._group)

    def sum(self, tensor: torch.Tensor) -> None:
        """Replaces every element with its sum over the ranks."""
        torch.distributed.all_reduce(
            tensor, torch.distributed.ReduceOp.SUM, self._group)

    def all_to_all(self, tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        """Exchanges slices, so that each rank gets its slice of all ranks' tensors.

        Args:
            tensor: the slices for all ranks, concatenated.
            sizes: the number of elements that each rank gets of each tensor.

        Returns:
            This rank's slice of each tensor, concatenated in the order of the ranks.
        """
        own = [sizes[self.rank]] * self.size
        return self._exchange(tensor, list(sizes), own)

    def all_gather(self, tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        """Returns the tensors of all ranks, which have these sizes, concatenated in the order of
        the ranks.

        Not every backend's all_gather supports different sizes, so each rank sends its tensor to
        every other rank.
        """
        own = [len(tensor)] * self.size
        return self._exchange(tensor.repeat(self.size), own, list(sizes))

    def _exchange(self, tensor: torch.Tensor, sent: list[int], received: list[int]):
        result = tensor.new_empty(sum(received))
        torch.distributed.all_to_all_single(result, tensor, received, sent, self._group)
        return result


def _twin(group):
    """Creates a process group with the same ranks and backend."""
    return torch.distributed.new_group(
        torch.distributed.get_process_group_ranks(group or torch.distributed.group.WORLD),
        backend=torch.distributed.get_backend(group), use_local_synchronization=group is not None)


def is_transport(ranks) -> bool:
    """Returns whether an object has the methods of :class:`Ranks` rather than being a process
    group."""
    return hasattr(ranks, "all_to_all") and hasattr(ranks, "max")


def check_alike(ranks: Ranks, facts: Mapping[str, object], device: torch.device) -> None:
    """Checks that all ranks have the same facts; otherwise every rank raises an error.

    The exchange has the same length for all facts, so ranks with different facts cannot
    deadlock.

    Args:
        facts: the values that must be equal, by their names in the message.

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
    """Returns a 62-bit hash of a fact's representation."""
    digest = hashlib.sha256(repr(fact).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 2


def _shown(fact: object, most: int = 200) -> str:
    text = repr(fact)
    return text if len(text) <= most else text[:most] + "..."
