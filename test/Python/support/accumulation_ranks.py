#===- accumulation_ranks.py - Sums of gradients on ranks -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_torch_accumulation_ranks.py: optimizers that add up
# gradients in a storage of their own, under fully_shard and DistributedDataParallel.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import contextlib
import warnings

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from support.fsdp2_ranks import Model, backward, differences, optimizer_of, sharded
from support.gloo import error_text

import tandem.torch as tt

PASSES = 32
#: Optimizers by what their steps need of a sum: (strategy, options).
FSDP2 = {
    "elements": ("dither-mulaw", {"min_8bit_size": 0}),
    "components": ("collage-plus", {}),
    "max_norm": ("flash-f16", {"max_norm": 0.5}),
    "gathered": ("dither-mulaw", {"optimizer": "Adafactor", "min_8bit_size": 0}),
}
#: The storages of each; the bits of "bf16+i8" are not those of its value, encoded again.
STORAGES = {
    "elements": ("bf16x2", "f32", "bf16+i8"),
    "components": ("bf16x2",),
    "max_norm": ("bf16x2", "f32", "bf16+i8"),
    "gathered": ("bf16x2", "f32"),
}


def _error(found, wanted):
    """Returns the distance of tensors from others relative to the latter's norm."""
    found, wanted = (torch.cat([t.double().reshape(-1) for t in each])
                     for each in (found, wanted))
    return float((found - wanted).norm() / wanted.norm())


def _sums(model, step, dtype, gradient_of):
    """Returns the sums over all passes of the gradients of a model's parameters, in a type."""
    sums = [torch.zeros(p.shape, dtype=dtype) for p in model.parameters()]
    for part in range(PASSES):
        backward(model, step, part)
        for sum, param in zip(sums, model.parameters()):
            sum += gradient_of(param).to(dtype)
            param.grad = None
    return sums


#===------------------------------------------------------------------------===#
# FSDP2
#===------------------------------------------------------------------------===#


def _reduced(model, step):
    """Returns the sums over all passes, in f64, of the gradients that fully_shard reduces."""
    twin = sharded()
    for own, param in zip(twin.parameters(), model.parameters()):
        own.to_local().data.copy_(param.to_local())
    return _sums(twin, step, torch.float64, lambda param: param.grad.full_tensor())


def _train_sharded(strategy, accumulation, **options):
    """Returns the largest error of sums, and what differs from one process that has them."""
    model, whole, errors = sharded(), Model(), []
    optimizer, reference = (optimizer_of(of.parameters(), strategy, grad_accumulation=accumulation,
                                         **options) for of in (model, whole))
    for param in whole.parameters():
        param.grad_dtype = None
    for step in range(2):
        exact = _reduced(model, step)
        for part in range(PASSES):
            backward(model, step, part)
        assert all(param.grad is None for param in model.parameters())
        for param, want in zip(model.parameters(), whole.parameters()):
            want.grad = optimizer.gradient(param, torch.float32).full_tensor()
        errors.append(_error([want.grad for want in whole.parameters()], exact))
        for each in (optimizer, reference):
            each.step()
            each.zero_grad()
    return max(errors), differences(model, optimizer, whole, reference)


def fsdp2():
    return {f"{name}, {accumulation}": _train_sharded(strategy, accumulation, **options)
            for name, (strategy, options) in FSDP2.items()
            for accumulation in STORAGES[name]}


#===------------------------------------------------------------------------===#
# DistributedDataParallel
#===------------------------------------------------------------------------===#


def _local_sums(model, step):
    """Returns the sums in f32 of the gradients of this rank's passes."""
    twin = Model()
    twin.load_state_dict(model.state_dict())
    return _sums(twin, step, torch.float32, lambda param: param.grad)


def _averaged(tensor):
    """Returns the average over ranks as DistributedDataParallel computes it."""
    tensor = tensor / dist.get_world_size()
    dist.all_reduce(tensor)
    return tensor


def _last_pass(wrapped, step, when):
    """Takes the pass that reduces, whose forward pass decides that."""
    generator = torch.Generator().manual_seed(100 * step + 10 * (PASSES - 1) + dist.get_rank())
    x = torch.randn(4, 24, generator=generator).bfloat16()
    loss = wrapped(x).float().square().mean()
    if when == "evaluated":
        with torch.no_grad():
            wrapped(x)
    with wrapped.no_sync() if when == "inside" else contextlib.nullcontext():
        loss.backward()


def _train_ddp(accumulation, when, **options):
    """Returns the error of averages, of those in p.grad, and what differs in bits."""
    model, whole = Model(), Model()
    wrapped, found = DistributedDataParallel(model, **options), []
    optimizer = optimizer_of(model.parameters(), "flash-f16", grad_accumulation=accumulation)
    reference = optimizer_of(whole.parameters(), "flash-f16")
    for step in range(2):
        sums = _local_sums(model, step)
        with warnings.catch_warnings(), wrapped.no_sync():
            warnings.simplefilter("error")  # clip_grad_norm_ finds the sums after the last pass
            for part in range(PASSES - 1):
                backward(wrapped, step, part)
                assert all(param.grad is None for param in model.parameters())
        _last_pass(wrapped, step, when)
        exact = [_averaged(sum.double()) for sum in sums]
        found.append(_error([param.grad for param in model.parameters()], exact))
        for param, want, sum in zip(model.parameters(), whole.parameters(), sums):
            if accumulation == "f32":
                assert torch.equal(param.grad, _averaged(sum.bfloat16()))
            want.grad = param.grad.clone()
        for each in (optimizer, reference):
            each.step()
            each.zero_grad()
    return max(found), differences(model, optimizer, whole, reference)


def ddp():
    cases = {accumulation: (accumulation, "outside", {})
             for accumulation in ("bf16+i8", "bf16x2", "f32")}
    cases |= {when: ("f32", when, {}) for when in ("inside", "evaluated")}
    cases["views"] = ("f32", "outside", {"gradient_as_bucket_view": True})
    return {name: _train_ddp(accumulation, when, **options)
            for name, (accumulation, when, options) in cases.items()}


def ddp_in_bf16():
    """Returns the error of averages of sums in p.grad."""
    model = Model()
    wrapped, sums = DistributedDataParallel(model), _local_sums(model, 0)
    with wrapped.no_sync():
        for part in range(PASSES - 1):
            backward(wrapped, 0, part)
    _last_pass(wrapped, 0, "outside")
    return _error([param.grad for param in model.parameters()],
                  [_averaged(sum.double()) for sum in sums])


#===------------------------------------------------------------------------===#
# Refusals
#===------------------------------------------------------------------------===#


def refusals():
    plain, flat, zero = Model(), Model(), Model()
    of_plain = optimizer_of(plain.parameters(), "flash-f16", grad_accumulation="f32")
    wrapped = FullyShardedDataParallel(flat, use_orig_params=True, device_id=torch.device("cpu"))
    found = {
        "no wrapper": error_text(lambda: backward(plain, 0)),
        "FSDP1": error_text(lambda: optimizer_of(wrapped.parameters(), "flash-f16",
                                                 grad_accumulation="f32")),
        "ZeRO": error_text(lambda: ZeroRedundancyOptimizer(
            zero.parameters(), tt.AdamW, strategy="flash-f16", grad_accumulation="f32")),
    }
    of_plain.close()
    return found
