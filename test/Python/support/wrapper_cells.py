#===- wrapper_cells.py - Strategies under wrappers of ranks ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file trains under a distributed wrapper and a strategy, and compares with one process that
# gets the same gradients. Run as a program, it is one of the ranks.
#
#===----------------------------------------------------------------------===#
"""Defines `WRAPPERS`; `outcome` runs a cell, and `run_cells` runs a list of cells on gloo ranks."""

import datetime
import json
import os
import sys
import warnings
from itertools import combinations
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, init_device_mesh
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel

import tandem.torch as tt
import tandem.torch.nn as tnn
from support.fsdp2_ranks import gather
from support.gloo import start_ranks
from tandem.torch import distributed as ttd

INPUTS, ODD, OUTPUTS = 20, 37, 24
#: The features that tensor parallelism divides: few, or enough for matrices with more elements than
#: ranks gather.
FEATURES = {"small": 24, "large": 24 * 512}


def dtype_of(strategy):
    if strategy in ("fp32", "coat-fp32"):
        return torch.float32
    return torch.float16 if strategy.startswith("f16-") else torch.bfloat16


class Model(torch.nn.Module):
    """Has layers whose rows do not divide evenly, and two for tensor parallelism."""

    def __init__(self, cell, linear=torch.nn.Linear, **options):
        super().__init__()
        torch.manual_seed(1)
        features = FEATURES[cell.get("size", "small")]
        self.first, self.norm = torch.nn.Linear(INPUTS, ODD), torch.nn.LayerNorm(ODD)
        self.up = linear(ODD, features, **options)
        self.down = linear(features, OUTPUTS, bias=False, **options)
        self.to(dtype_of(cell["strategy"]))

    def forward(self, x):
        return self.down(torch.sigmoid(self.up(self.norm(self.first(x)))))


def optimizer_of(params, cell, make=None):
    options = {"lr": 0.01, "seed": 5, "min_8bit_size": 0, **cell.get("options", {})}
    kind = getattr(tt, cell.get("optimizer", "AdamW"))
    return (make or (lambda *given, **more: kind(*given, **more)))(
        params, strategy=cell["strategy"], **options)


#===----------------------------------------------------------------------===#
# Wrappers: each makes a model, its optimizer, and the beginning of a step
#===----------------------------------------------------------------------===#


def ddp(cell):
    model = DistributedDataParallel(Model(cell))
    return model, optimizer_of(model.parameters(), cell), None


def ddp_hook(cell):
    model, optimizer, _ = ddp(cell)
    model.register_comm_hook(ttd.FP8CompressState(), ttd.fp8_compress_hook)
    return model, optimizer, None


def all_reduce(cell):
    model = Model(cell)
    optimizer = optimizer_of(model.parameters(), cell)
    return model, optimizer, tt.GradientAllReduce(optimizer)


def zero(cell):
    model = DistributedDataParallel(Model(cell))
    kind = getattr(tt, cell.get("optimizer", "AdamW"))
    return model, optimizer_of(model.parameters(), cell, lambda params, **options: (
        ttd.ZeroRedundancyOptimizer(params, kind, **options))), None


def sharded(model, **options):
    for layer in (model.first, model.up, model.down):
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def fsdp2(cell):
    model = sharded(Model(cell))
    return model, optimizer_of(model.parameters(), cell), None


def fsdp2_codes(cell):
    model = sharded(Model(cell, tnn.Linear, recipe="te-current", products="fp8"))
    ttd.fp8_all_gather(model)
    for module in (model, model.first, model.up, model.down):
        module.set_custom_reduce_scatter(ttd.FP8ReduceScatter())
    return model, optimizer_of(model.parameters(), cell), None


def meshes(*names):
    """Returns meshes of ranks in two dimensions, the first with two ranks if possible."""
    size = dist.get_world_size()
    first = 2 if size % 2 == 0 and size > 2 else 1
    return init_device_mesh("cpu", (first, size // first), mesh_dim_names=names)


def hsdp(cell):
    model = sharded(Model(cell), mesh=meshes("replicate", "shard"))
    return model, optimizer_of(model.parameters(), cell), None


def fsdp2_tp(cell):
    mesh, model = meshes("dp", "tp"), Model(cell)
    parallelize_module(model, mesh["tp"], {
        "up": ColwiseParallel(output_layouts=Replicate()),
        "down": RowwiseParallel(input_layouts=Replicate())})
    fully_shard(model, mesh=mesh["dp"])
    return model, optimizer_of(model.parameters(), cell), None


def fp8_tp(cell):
    model = Model(cell)
    parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), {
        "up": ttd.FP8ColwiseParallel(), "down": ttd.FP8RowwiseParallel()})
    return model, optimizer_of(model.parameters(), cell), None


#: Wrappers by name.
WRAPPERS = {"DDP": ddp, "DDP, 8-bit hook": ddp_hook, "GradientAllReduce": all_reduce,
            "ZeRO": zero, "FSDP2": fsdp2, "FSDP2, 8 bits": fsdp2_codes, "HSDP": hsdp,
            "FSDP2 over TP": fsdp2_tp, "FP8 TP": fp8_tp}
#: Wrappers in which all or some ranks have the same inputs.
SHARED_INPUTS = {"FP8 TP": lambda: 0,
                 "FSDP2 over TP": lambda: meshes("dp", "tp").get_local_rank("dp")}


#===----------------------------------------------------------------------===#
# Cells
#===----------------------------------------------------------------------===#


def whole_gradient(param):
    grad = param.grad
    return grad.full_tensor() if isinstance(grad, DTensor) else grad


def hand_over(optimizer, params, alone, twins):
    """Passes the ranks' gradients to one process's optimizer."""
    for param, twin in zip(params, twins, strict=True):
        planes = getattr(optimizer, "_gradients", None) and optimizer._gradients.get(param)
        if planes:
            alone._gradients.replace(twin, [plane.clone() for plane in planes])
        else:
            grad = whole_gradient(param)
            twin.grad = None if grad is None else grad.clone()


def states_of(optimizer):
    return getattr(optimizer, "optim", optimizer).state  # ZeRO wraps the one of its part


def differences(names, params, optimizer, twins, single):
    """Returns the weights and state planes that differ from those of one process."""
    found, state = [], states_of(optimizer)
    for name, param, twin in zip(names, params, twins, strict=True):
        if not torch.equal(gather(param), gather(twin)):
            found.append(name)
        own = state.get(param, {})
        for key, value in single.state[twin].items() if own else ():
            same = (torch.equal(gather(own[key]), gather(value))
                    if isinstance(value, torch.Tensor) else own[key] == value)
            found += [] if same else [f"{name} {key}"]
    return found


def train(cell, steps=2):
    """Returns the weights and planes that differ from one process after some steps."""
    model, optimizer, begin = WRAPPERS[cell["wrapper"]](cell)
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    names, params = zip(*inner.named_parameters())
    whole = Model(cell)
    twins = list(whole.parameters())
    alone = optimizer_of(twins, cell)
    part = SHARED_INPUTS.get(cell["wrapper"], dist.get_rank)()
    for step in range(steps):
        x = torch.randn(4, INPUTS, generator=torch.Generator().manual_seed(10 * step + part))
        model(x.to(twins[0].dtype)).float().square().mean().backward()
        if begin:
            begin()
        hand_over(optimizer, params, alone, twins)
        for each in (optimizer, alone):
            each.step()
            each.zero_grad()
    return differences(names, params, optimizer, twins, alone)


def outcome(cell):
    """Returns "right", the differences from one process, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = train(cell)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return f"other bits: {found}" if found else "right"


def pairs_in(item):
    return combinations(sorted(item.values.items()), 2)


def run_cells(cells, ranks, folder, timeout=1500):
    """Returns the outcomes of cells on each of the ranks."""
    folder = Path(folder)
    (folder / "cells.json").write_text(json.dumps(cells))
    start_ranks(__file__, ranks, ranks, folder, timeout=timeout)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def _main(rank, ranks, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=int(rank), world_size=int(ranks),
                            store=dist.FileStore(f"{folder}/store", int(ranks)),
                            timeout=datetime.timedelta(seconds=300))
    found = []
    for cell in json.loads(Path(folder, "cells.json").read_text()):
        found.append(outcome(cell))
        if os.environ.get("TANDEM_SHOW_CELLS"):
            print(rank, cell, found[-1], file=sys.stderr, flush=True)
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    _main(*sys.argv[1:])
