"""The exchange between ranks during a step, and the partition of its work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import torch

_MAX = torch.distributed.ReduceOp.MAX if torch.distributed.is_available() else None


class Exchange:
    """Sums words over the ranks that share tensors, in place, for
    :meth:`tandem.Plan.set_exchange`.

    This rank is in each of the groups, whose tensors differ. All ranks process the groups in
    this order, so that they cannot deadlock.

    Args:
        groups: the process groups, by the numbers in the sharding of a plan's tensors.
        device: the device from which the backends take tensors.
    """

    def __init__(self, groups: Sequence, device: torch.device | str = "cpu"):
        self.groups, self._device = list(groups), torch.device(device)

    def __call__(self, group: int, words: memoryview) -> None:
        self._reduce(torch.frombuffer(words, dtype=torch.int32), self.groups[group])

    def _reduce(self, told: torch.Tensor, group, *operation) -> None:
        """Performs an all-reduce of a tensor in the host's memory, in place."""
        moved = told.to(self._device)
        torch.distributed.all_reduce(moved, *operation, group=group)
        if moved is not told:
            told.copy_(moved)

    def any(self, flag: int) -> bool:
        """Returns whether the flag is set on any rank. All replicas of a gradient are equal, so
        each rank learns from its own groups what any rank has found."""
        flags = torch.tensor([bool(flag)], dtype=torch.int32)
        for group in self.groups:
            self._reduce(flags, group, _MAX)
        return bool(flags)

    def any_of(self, flags: Iterable[bool]) -> list[bool]:
        """Returns which of several flags are set on any rank."""
        told = torch.tensor([int(flag) for flag in flags], dtype=torch.int32)
        for group in self.groups:
            self._reduce(told, group, _MAX)
        return told.bool().tolist()

    def check(self, name: str, launch: object) -> None:
        """Checks that all ranks are about to launch the same step.

        Args:
            name: the name of the kernel in the message.
            launch: values that all ranks must agree on, which are compared by repr().

        Raises:
            RuntimeError: the ranks disagree; raised on every rank.
        """
        digest = hashlib.sha256(repr(launch).encode()).digest()
        number = int.from_bytes(digest[:7], "little")
        differs = False
        for group in self.groups:
            ends = torch.tensor([number, -number], dtype=torch.int64)
            self._reduce(ends, group, _MAX)
            differs |= bool(ends[0] != -ends[1])
        if self.any(differs) if len(self.groups) > 1 else differs:
            raise RuntimeError(
                f"ranks are about to take different steps with {name}: give all of them the "
                "same model, param groups, hyperparameters and gradients of the same "
                "parameters, in the same order")


def greedy_partition(sizes: Sequence[int], ranks: int,
                     loads: Sequence[int] | None = None) -> list[list[int]]:
    """Assigns whole tensors to ranks by FP8-LM's algorithm 1 (Peng et al. 2023, section 2.3).

    Tensors are assigned from the largest to the smallest, and in their order if sizes are equal.
    Each goes to the rank with the fewest bytes so far, the first one if there are several.

    Args:
        sizes: the size of each tensor in bytes.
        ranks: the number of ranks.
        loads: the number of bytes that each rank already has; 0 by default.

    Returns:
        The indices of each rank's tensors, in ascending order.

    Raises:
        ValueError: there are no ranks, a size is negative, or ``loads`` has the wrong length.
    """
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}; it counts processes, from 1")
    if any(size < 0 for size in sizes):
        raise ValueError(f"sizes has {min(sizes)}; a tensor has at least 0 bytes")
    used = [0] * ranks if loads is None else list(loads)
    if len(used) != ranks:
        raise ValueError(f"loads has {len(used)} entries for {ranks} ranks; give each rank one")
    parts: list[list[int]] = [[] for _ in range(ranks)]
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        rank = used.index(min(used))
        parts[rank].append(index)
        used[rank] += sizes[index]
    return [sorted(part) for part in parts]
