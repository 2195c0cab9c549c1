"""Reductions of tensors that are spread over ranks: what a step's launches tell each other."""

from __future__ import annotations

import hashlib

import torch


class Exchange:
    """Adds up words over the ranks that share tensors, in place, as
    :meth:`tandem.Plan.set_exchange` asks.

    Args:
        group: their process group.
    """

    def __init__(self, group):
        self.group = group

    def __call__(self, words: memoryview) -> None:
        torch.distributed.all_reduce(torch.frombuffer(words, dtype=torch.int32), group=self.group)

    def any(self, flag: int) -> bool:
        """Whether the flag is set on any rank."""
        flags = torch.tensor([bool(flag)], dtype=torch.int32)
        torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX, self.group)
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
        ends = torch.tensor([number, -number], dtype=torch.int64)
        torch.distributed.all_reduce(ends, torch.distributed.ReduceOp.MAX, self.group)
        if ends[0] != -ends[1]:
            raise RuntimeError(
                f"ranks are about to take different steps with {name}: give all of them the "
                "same model, param groups, hyperparameters and gradients of the same "
                "parameters, in the same order")
