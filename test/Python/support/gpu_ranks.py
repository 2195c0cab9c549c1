#===- gpu_ranks.py - Optimizers of DTensors on GPUs ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_torch_gpu_ranks.py. Each rank treats CPU tensors as those
# of a GPU, which the PTX evaluator replaces.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh

import tandem.torch as tt
from support.fsdp2_ranks import gather
from support.gloo import error_text
from support.torch_on_gpu import TorchGPU

SHAPES = [(9, 6), (17,), (4, 12)]
#: Steps that reduce over ranks: (optimizer, strategy, options).
CASES = {
    "max_norm": ("AdamW", "collage-plus", {"max_norm": 0.5}),
    "metrics": ("AdamW", "collage-plus", {"metrics": True}),
    "capturable": ("AdamW", "collage-plus", {"max_norm": 0.5, "capturable": True}),
    "LAMB": ("LAMB", "collage-plus", {}),
    "Adafactor": ("Adafactor", "collage-plus", {}),
    "scales of tensors": ("AdamW", "fp8-lm", {"min_8bit_size": 0}),
}


def values(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).bfloat16() for shape in SHAPES]


def spread():
    """Returns parameters sharded over all ranks, and a last one over the ranks of a mesh row."""
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    grid = init_device_mesh("cpu", (1, size), mesh_dim_names=("a", "b"))
    return [torch.nn.Parameter(distribute_tensor(value, on, [Shard(0)]))
            for value, on in zip(values(0), (mesh, mesh, grid["b"]))]


def set_gradients(params, seed):
    for param, value in zip(params, values(seed)):
        param.grad = (distribute_tensor(value, param.device_mesh, param.placements)
                      if isinstance(param, DTensor) else value)


def train(params, name, steps=2, **more):
    kind, strategy, options = CASES[name]
    optimizer = getattr(tt, kind)(params, lr=0.01, strategy=strategy, **options | more)
    for step in range(steps):
        set_gradients(params, step + 1)
        optimizer.step()
    return optimizer


def differences(name, gpu):
    """Returns the weights and planes that differ from one process on the CPU."""
    wholes = [torch.nn.Parameter(value) for value in values(0)]
    reference = train(wholes, name, capturable=False)
    sums = reference.metrics() if name == "metrics" else None
    params, found = spread(), []
    with gpu.holds_torch():
        optimizer = train(params, name)
        if sums and optimizer.metrics() != sums:
            found.append("metrics")
    for number, (param, whole) in enumerate(zip(params, wholes)):
        if not torch.equal(gather(param), gather(whole)):
            found.append(number)
        found += [(number, key) for key, value in reference.state[whole].items()
                  if isinstance(value, torch.Tensor)
                  and not torch.equal(gather(optimizer.state[param][key]), gather(value))]
    return found


def on_gpus():
    gpu = TorchGPU()
    return {name: differences(name, gpu) for name in CASES}


def captured():
    """Returns the error of a captured step, and whether weights are unchanged."""
    params, gpu = spread(), TorchGPU()
    with gpu.holds_torch():
        optimizer = train(params, "capturable")
        before = [gather(param).clone() for param in params]
        with gpu.captures():
            error = error_text(optimizer.step)
    return [error, all(torch.equal(gather(p), old) for p, old in zip(params, before))]


def not_finite():
    """Uses a NaN on one rank; returns whether all ranks skip the step and take the next one."""
    params = spread()
    with TorchGPU().holds_torch():
        optimizer = train(params, "capturable", skip_nonfinite=True)
        found = []
        for bad in (True, False):
            before = [gather(param).clone() for param in params]
            set_gradients(params, 7)
            if bad and dist.get_rank() == 0:
                params[0].grad._local_tensor[0, 0] = torch.nan
            optimizer.step()
            same = all(torch.equal(gather(p), old) for p, old in zip(params, before))
            found.append([optimizer.skipped, same])
    return found
