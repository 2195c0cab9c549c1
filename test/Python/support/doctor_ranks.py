#===- doctor_ranks.py - A doctor on several ranks --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_torch_doctor_ranks.py.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import torch
from torch.distributed.fsdp import fully_shard

import tandem.torch as tt
from support.recommend_ranks import Model


def step(model, optimizer, number):
    optimizer.zero_grad()
    at = torch.randint(133, (8, 16), generator=torch.Generator().manual_seed(number))
    torch.nn.functional.cross_entropy(model(at).float().flatten(0, 1),
                                      at.roll(1, -1).flatten()).backward()
    optimizer.step()


def watched(name, first, watches=True, **options):
    """Returns what a doctor finds on this rank, and a checksum of this rank's weights."""
    torch.manual_seed(0)
    model = Model().bfloat16()
    fully_shard(model)
    optimizer = (torch.optim.AdamW(model.parameters(), lr=1e-4) if name == "torch" else
                 tt.AdamW(model.parameters(), lr=1e-4, strategy=name, **options))
    for number in range(first):
        step(model, optimizer, number)
    found = {}
    if watches:
        with tt.doctor(optimizer, model, strategies=("flash",)) as doctor:
            for number in range(first, first + 20):
                step(model, optimizer, number)
        found = {"elements": sum(row["elements"] for row in doctor.rows if row["is_own"]),
                 "verdicts": {row["parameter"]: row["verdict"] for row in doctor.rows
                              if row["is_own"]},
                 "advice": doctor.advice.strategies, "agreement": doctor.agreement}
    else:
        for number in range(first, first + 20):
            step(model, optimizer, number)
    return found | {"sums": [float(p.to_local().double().square().sum())
                             for p in model.parameters()]}


def torch_optimizer():
    return watched("torch", 3)


def rounded_to_nearest():
    return watched("bf16", 3)


def with_codes():
    return watched("flash-f16", 0)


def from_the_first_step():
    return watched("adam8bit", 0, min_8bit_size=0)


def without_a_doctor():
    return [watched(name, first, False)
            for name, first in (("torch", 3), ("bf16", 3), ("flash-f16", 0))]


def in_the_middle():
    """Cuts a vector with codes inside of a group, so that each rank has all of its state."""
    try:
        watched("adam8bit", 2, min_8bit_size=0)
    except ValueError as error:
        return str(error)


def clipping():
    torch.manual_seed(0)
    model = Model().bfloat16()
    fully_shard(model)
    optimizer = tt.AdamW(model.parameters(), strategy="bf16", max_norm=1.0)
    try:
        with tt.doctor(optimizer, model):
            step(model, optimizer, 0)
    except ValueError as error:
        return str(error)
