#===- muon_ranks.py - Muon of DTensors -------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_torch_muon_ranks.py: Muon under fully_shard and tensor
# parallelism, compared with one process that gets the same reduced gradients.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.distributed.tensor import DTensor

import tandem.torch as tt
from support.fsdp2_ranks import (Model, backward, differences, sharded,
                                 tensor_parallel_model)
from tandem.torch.optim import _muon

STRATEGIES = ("fp32", "flash-f16", "dither-mulaw", "collage-plus", "fp8-lm")


def muon_of(model, strategy, **options):
    return tt.Muon(model.named_parameters(), strategy=strategy, lr=0.01, adamw_lr=1e-3,
                   min_8bit_size=0, **options)


def train(model, strategy, dtype=torch.bfloat16, steps=3, **options):
    """Returns what differs from one process that gets the reduced gradients."""
    whole = Model(dtype)
    optimizer, reference = muon_of(model, strategy, **options), muon_of(whole, strategy, **options)
    for step in range(steps):
        backward(model, step)
        for param, want in zip(model.parameters(), whole.parameters()):
            want.grad = param.grad.full_tensor() if isinstance(param.grad, DTensor) else param.grad
        for each in (optimizer, reference):
            each.step()
            each.zero_grad()
    return differences(model, optimizer, whole, reference)


def fsdp2():
    found = {}
    for strategy in STRATEGIES:
        dtype = torch.float32 if strategy == "fp32" else torch.bfloat16
        found[strategy] = train(sharded(dtype), strategy, dtype)
    found["wide products"] = train(sharded(), "flash-f16", precision="f32")
    return found


def clipped():
    """Returns what differs from one process after weights of queries and keys were scaled, before
    and after another step."""
    found = []
    for strategy in ("flash-f16", "fp8-lm", "dither-softsign-root"):
        model, whole = sharded(), Model(torch.bfloat16)
        optimizer, reference = muon_of(model, strategy), muon_of(whole, strategy)
        for step in range(2):
            backward(model, step)
            for param, want in zip(model.parameters(), whole.parameters()):
                want.grad = param.grad.full_tensor()
            for own, each in ((model, optimizer), (whole, reference)):
                each.step()
                each.zero_grad()
                weight = own.first.weight
                largest = torch.tensor([200.0, 10.0, 10.0, 300.0, 10.0, 10.0, 10.0])
                if tt.qk_clip(each, weight, weight, largest, balance=1.0) != 2:
                    found.append("a number of heads")
            found += differences(model, optimizer, whole, reference)
    return found


def owners():
    """Returns how many matrices this rank has orthogonalized in a step of two."""
    model, count = sharded(), []
    optimizer, own = muon_of(model, "flash-f16"), _muon.orthogonalize
    optimizer._runner._launches._functions["orthogonalize"] = (
        lambda given, group: count.append(tuple(given[0].shape)) or own(given, group))
    backward(model, 0)
    optimizer.step()
    return count


def tensor_parallel():
    """Shards along columns have no rows of their own, so that each rank gathers them."""
    return train(tensor_parallel_model(), "dither-mulaw")


def states():
    """Returns the keys of a state dict as torch.distributed.checkpoint saves it."""
    model = sharded()
    optimizer = muon_of(model, "dither-mulaw")
    backward(model, 0)
    optimizer.step()
    state = get_optimizer_state_dict(model, optimizer)["state"]
    return {name: sorted(of) for name, of in state.items()}
