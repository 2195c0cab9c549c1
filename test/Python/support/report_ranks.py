#===- report_ranks.py - Ranks that reports are tried on --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_reports_ranks.py.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import copy
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (get_optimizer_state_dict,
                                                     set_optimizer_state_dict)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh

import tandem.torch as tt
from support.gloo import error_text

#: Rows of the weights: fewer than ranks, not a multiple of ranks, and a single one.
ROWS = (1, 2, 5)
STRATEGIES = ("remainder", "coat", "adam8bit")


def model_of(seed=0):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(2048, rows, bias=False) for rows in ROWS]
    return torch.nn.Sequential(*layers).bfloat16()


def sharded(seed=0):
    model = model_of(seed)
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def full(tensor):
    """Returns the whole of a tensor as numbers; gloo gathers few types."""
    if not isinstance(tensor, DTensor):
        return tensor.detach().float()
    wide = DTensor.from_local(tensor.to_local().detach().float(), tensor.device_mesh,
                              tensor.placements, shape=tensor.shape,
                              stride=torch.empty(tensor.shape, device="meta").stride(),
                              run_check=False)
    return wide.full_tensor()


def gradients(model, seed):
    """Sets gradients that one process would have."""
    for i, p in enumerate(model.parameters()):
        generator = torch.Generator().manual_seed(100 * seed + i)
        grad = (torch.randn(p.shape, generator=generator) * 1e-2).bfloat16()
        p.grad = (distribute_tensor(grad, p.device_mesh, p.placements)
                  if isinstance(p, DTensor) else grad)


def step(model, optimizer, seed):
    gradients(model, seed)
    optimizer.step()
    optimizer.zero_grad()


def different(model, optimizer, whole, reference):
    """Returns what differs in weights and planes of states from one process."""
    found = []
    for i, (p, q) in enumerate(zip(model.parameters(), whole.parameters())):
        if not torch.equal(full(p), full(q)):
            found.append(f"weight {i}")
        for name, plane in reference.state[q].items():
            own = optimizer.state[p][name]
            if isinstance(plane, torch.Tensor) and plane.dtype != own.dtype:
                found.append(f"{name} {i}: {own.dtype}, not {plane.dtype}")
            elif isinstance(plane, torch.Tensor) and not torch.equal(full(own), full(plane)):
                found.append(f"{name} {i}")
    return found


def few_rows():
    """Saves a checkpoint of weights with fewer rows than ranks, loads it and goes on."""
    results = {}
    for strategy in STRATEGIES:
        options = {"lr": 1e-2, "strategy": strategy, "min_8bit_size": 0}
        model, whole = sharded(), model_of()
        optimizer = tt.AdamW(model.parameters(), **options)
        reference = tt.AdamW(whole.parameters(), **options)
        for seed in range(2):
            step(model, optimizer, seed)
            step(whole, reference, seed)
        found = different(model, optimizer, whole, reference)
        folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(folder)
        state = get_optimizer_state_dict(model, optimizer)
        dcp.save(state, checkpoint_id=folder[0])
        other = tt.AdamW(model.parameters(), **options)
        loaded = get_optimizer_state_dict(model, other)
        dcp.load(loaded, checkpoint_id=folder[0])
        set_optimizer_state_dict(model, other, loaded)
        step(model, other, 2)
        step(whole, reference, 2)
        results[strategy] = found + different(model, other, whole, reference)
    return results


def precision():
    """Returns the types of states, sharded and whole: the sizes straddle the bound of 4096."""
    model, whole = sharded(), model_of()
    types = []
    for each in (model, whole):
        optimizer = tt.AdamW(each.parameters(), strategy="adam8bit")
        step(each, optimizer, 0)
        types.append([str(optimizer.state[p]["exp_avg"].dtype) for p in each.parameters()])
    return types


def flat_precision():
    """Returns the types of states under FSDP1, with one flat parameter and with several."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    types, cpu = [], torch.device("cpu")
    for apart in (False, True):
        model = model_of()
        if apart:
            model = torch.nn.Sequential(*(FullyShardedDataParallel(layer, device_id=cpu)
                                          for layer in model))
        model = FullyShardedDataParallel(model, device_id=cpu)
        optimizer = tt.AdamW(model.parameters(), strategy="adam8bit")
        for p in model.parameters():
            p.grad = torch.full_like(p, 1e-2)
        optimizer.step()
        types.append(sorted({str(optimizer.state[p]["exp_avg"].dtype) for p in model.parameters()
                             if p.numel()}))
    return types


def two_meshes():
    """Clips by the norm over parameters of a mesh of one and of a mesh of two dimensions."""
    ranks = dist.get_world_size()
    line = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dense",))
    plane = init_device_mesh("cpu", (1, ranks), mesh_dim_names=("replicas", "experts"))
    placed = [(line, [Shard(0)]), (plane["experts"], [Shard(0)])]
    whole = [torch.nn.Parameter(p.detach().clone()) for p in
             (torch.full((6, 32), 0.5), torch.full((9, 16), -1.0))]
    params = [torch.nn.Parameter(distribute_tensor(p.detach().clone(), *where))
              for p, where in zip(whole, placed)]
    results = {}
    for strategy in ("fp32", "remainder"):
        mine, want = copy.deepcopy(params), copy.deepcopy(whole)
        options = {"lr": 1e-2, "strategy": strategy, "max_norm": 0.5}
        optimizer, reference = tt.AdamW(mine, **options), tt.AdamW(want, **options)
        for seed in range(2):
            for p, q in zip(mine, want):
                generator = torch.Generator().manual_seed(seed)
                q.grad = torch.randn(q.shape, generator=generator)
                p.grad = distribute_tensor(q.grad, p.device_mesh, p.placements)
            optimizer.step()
            reference.step()
        results[strategy] = [bool(torch.equal(full(p), q.detach())) for p, q in zip(mine, want)]
    return results


def groups():
    """Loads a checkpoint into an optimizer whose groups have other hyperparameters."""
    def make():
        model = sharded()
        params = list(model.parameters())
        optimizer = tt.AdamW([{"params": params[:2], "weight_decay": 0.25},
                              {"params": params[2:], "betas": (0.5, 0.75)}], lr=1e-2,
                             strategy="remainder")
        return model, optimizer

    model, optimizer = make()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    step(model, optimizer, 0)
    scheduler.step()
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    dcp.save(get_optimizer_state_dict(model, optimizer), checkpoint_id=folder[0])
    other, loaded = make()
    torch.optim.lr_scheduler.ExponentialLR(loaded, 0.5)
    for group in loaded.param_groups:
        group.update(lr=7.0, weight_decay=7.0, betas=(0.1, 0.1))
    state = get_optimizer_state_dict(other, loaded)
    dcp.load(state, checkpoint_id=folder[0])
    set_optimizer_state_dict(other, loaded, state)
    kept = [{key: group[key] for key in ("lr", "initial_lr", "weight_decay", "betas", "strategy")}
            for group in loaded.param_groups]
    steps = [int(loaded.state[p]["step"]) for p in other.parameters()]
    return [kept, steps]


def zero():
    """Consolidates and loads the state of a ZeroRedundancyOptimizer."""
    def make(params):
        return tt.distributed.ZeroRedundancyOptimizer(params, tt.AdamW, lr=1e-2, strategy="coat",
                                                      min_8bit_size=0, fused=True)

    first, second, whole = model_of(), model_of(), model_of()
    optimizer = make(first.parameters())
    reference = tt.AdamW(whole.parameters(), lr=1e-2, strategy="coat", min_8bit_size=0)
    for seed in range(2):
        step(first, optimizer, seed)
        step(whole, reference, seed)
    optimizer.consolidate_state_dict(0)
    # In a file: PyTorch cannot unpickle the 8-bit floats that broadcast_object_list pickles.
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    if dist.get_rank() == 0:
        torch.save(optimizer.state_dict(), f"{folder[0]}/state")
    dist.barrier()
    other = make(second.parameters())
    problem = error_text(lambda: other.load_state_dict(torch.load(f"{folder[0]}/state")))
    second.load_state_dict(first.state_dict())
    step(second, other, 2)
    step(whole, reference, 2)
    return [problem, [bool(torch.equal(p, q))
                      for p, q in zip(second.parameters(), whole.parameters())]]
