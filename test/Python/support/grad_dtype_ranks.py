#===- grad_dtype_ranks.py - Gradients of another type ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_torch_grad_dtype.py: fully_shard with gradients whose type
# is not the parameter's.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from support.fsdp2_ranks import Model, backward, differences, fully_shard, optimizer_of, sharded
from support.gloo import error_text

#: The types of parameters and of gradients.
TYPES = {"wide": (torch.bfloat16, torch.float32), "narrow": (torch.float32, torch.bfloat16)}
STRATEGIES = ("collage-plus", "coat", "fp8-lm")


def _train(strategy, dtype, grad_dtype):
    """Trains with gradients that are converted after they have been reduced. Returns what differs
    from one process that has the same gradients."""
    model, whole = sharded(dtype), Model(dtype)
    optimizer, reference = (optimizer_of(of.parameters(), strategy, max_norm=0.5)
                            for of in (model, whole))
    for param in (*model.parameters(), *whole.parameters()):
        param.grad_dtype = None
    for step in range(3):
        backward(model, step)
        for param, want in zip(model.parameters(), whole.parameters()):
            param.grad = (param.grad.to(torch.float32) * 1.1).to(grad_dtype)
            want.grad = param.grad.full_tensor()
        for each in (optimizer, reference):
            each.step()
            each.zero_grad()
    return differences(model, optimizer, whole, reference)


def assigned():
    return {f"{name}, {strategy}": _train(strategy, *types)
            for name, types in TYPES.items() for strategy in STRATEGIES}


def reduced():
    """Returns the types of gradients that FSDP2 reduces, or its error, by when grad_dtype was
    set."""
    found = {}
    for policy in (MixedPrecisionPolicy(), MixedPrecisionPolicy(reduce_dtype=torch.float32)):
        for when in ("before", "after"):
            model = Model()
            for param in model.parameters() if when == "before" else ():
                param.grad_dtype = torch.float32
            fully_shard(model, mp_policy=policy)
            for param in model.parameters() if when == "after" else ():
                param.grad_dtype = torch.float32
            said = error_text(lambda: backward(model, 0))
            found[f"{when}, {policy.reduce_dtype}"] = said if said != "no error" else sorted(
                {str(param.grad.dtype) for param in model.parameters()})
    return found
