"""Reductions of tensors that are spread over ranks: what a step's launches tell each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

_MAX = torch.distributed.ReduceOp.MAX if torch.distributed.is_available() else None


class Exchange:
    """Adds up words over the ranks that share tensors, in place, as
    :meth:`tandem.Plan.set_exchange` asks.

    A rank is in each of the groups, whose tensors differ. All of its ranks go through
    them in this order, so that none waits for one that waits for another group.

    Args:
        groups: their process groups, by the numbers that a plan's tensors give them.
        device: where their backends take tensors from.
    """

    def __init__(self, groups: Sequence, device: torch.device | str = "cpu"):
        self.groups, self._device = list(groups), torch.device(device)

    def __call__(self, group: int, words: memoryview) -> None:
        self._reduce(torch.frombuffer(words, dtype=torch.int32), self.groups[group])

    def _reduce(self, told: torch.Tensor, group, *operation) -> None:
        """An all-reduce of a tensor in the host's memory, in place."""
        moved = told.to(self._device)
        torch.distributed.all_reduce(moved, *operation, group=group)
        if moved is not told:
            told.copy_(moved)

    def any(self, flag: int) -> bool:
        """Whether the flag is set on any rank. Of a parameter's gradient, all replicas are the
        same, so that each rank finds in its own groups what any has found."""
        flags = torch.tensor([bool(flag)], dtype=torch.int32)
        for group in self.groups:
            self._reduce(flags, group, _MAX)
        return bool(flags)

    def check(self, name: str, launch: object) -> None:
        """Compares what ranks are about to launch.

        Args:
            name: the kernel, in the message.
            launch: what all ranks must agree about, as values with a repr().

        Raises:
            RuntimeError: on every rank, if they do not.
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
