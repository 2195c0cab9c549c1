#===- recommend_ranks.py - Strategies chosen on several ranks --*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_torch_recommend_ranks.py.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import tandem.torch as tt


class Model(torch.nn.Module):
    """Has rows that ranks do not divide, a vector, and a matrix without its own groups."""

    def __init__(self):
        super().__init__()
        self.embed, self.up = torch.nn.Embedding(133, 64), torch.nn.Linear(64, 301)
        self.down, self.head = torch.nn.Linear(301, 64), torch.nn.Linear(64, 133, bias=False)

    def forward(self, at):
        return self.head(self.down(self.up(self.embed(at)).relu()))


def outcome(budget):
    """Returns the choices before and after sharding the model, and the resulting bytes."""
    model = Model().bfloat16()
    memory = int(budget * sum(p.numel() for p in model.parameters()) / dist.get_world_size())
    planned = tt.recommend(model, memory, ranks=dist.get_world_size())
    fully_shard(model)
    optimizer = tt.AdamW(model.named_parameters(), strategy="auto", memory=memory)
    for step in range(2):
        optimizer.step() if step else None
        model(torch.arange(8).reshape(2, 4)).float().square().mean().backward()
    taken = {key: getattr(planned.bytes, key) for key in ("weights", "gradients", "states")}
    live = optimizer.live_bytes()
    return {"strategies": [planned.strategies, optimizer.recommendation.strategies],
            "same": optimizer.recommendation.bytes == planned.bytes,
            "planned": taken, "live": {key: live[key] for key in taken}}


def everything():
    return outcome(100)


def middle():
    return outcome(9)


def little():
    return outcome(7.3)


def far_too_little():
    try:
        outcome(2)
    except ValueError as error:
        return str(error)
