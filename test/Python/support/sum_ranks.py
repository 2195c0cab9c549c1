#===- sum_ranks.py - Sums of gradients on gloo ranks -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the processes in the tests of gradient sums. Run as a program, it is one of
# them, and writes its findings.
#
#===----------------------------------------------------------------------===#
"""`run` starts the processes and returns the findings of each, by scenario."""

import datetime
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tandem.torch as tt
from support.gloo import start_ranks
from tandem.torch.distributed import FP8CompressState, FP8ReduceScatter, fp8_compress_hook

STEPS = 2


def run(folder, count, seconds=240):
    """Returns the findings of all ranks."""
    start_ranks(__file__, count, count, folder, timeout=seconds)


def findings(folder, count):
    return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(count)]


def model_of(seed=1):
    """Returns a model with odd sizes, whose gradients fill several one-kilobyte DDP buckets."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(37, 29), torch.nn.Tanh(), torch.nn.Linear(29, 31),
                               torch.nn.Tanh(), torch.nn.Linear(31, 3)).bfloat16()


def loss_of(model, rank, step=0):
    generator = torch.Generator().manual_seed(10 * step + rank)
    x = torch.randn(8, 37, generator=generator).bfloat16()
    return model(x).float().square().mean() * 2.0 ** rank


def local(model, rank, step=0):
    """Computes a rank's own gradients."""
    return list(torch.autograd.grad(loss_of(model, rank, step), list(model.parameters())))


def error_of(work):
    """Returns the text of the error that a call raises."""
    try:
        work()
    except Exception as error:
        return str(error)
    return None


#===----------------------------------------------------------------------===#
# DistributedDataParallel
#===----------------------------------------------------------------------===#


def ddp(rank, poison=False, **options):
    """Returns (own gradients, averaged ones) of each step."""
    inner, steps = model_of(), []
    model = DistributedDataParallel(inner, bucket_cap_mb=0.001)
    state = FP8CompressState(**options)
    model.register_comm_hook(state, fp8_compress_hook)
    for step in range(STEPS):
        own = local(inner, rank, step)
        loss = loss_of(model, rank, step)
        if poison and rank == 1:
            loss = loss * torch.nan
        loss.backward()
        steps.append((own, [p.grad.clone() for p in inner.parameters()],
                      state.scaling and state.scaling.mu, state.saturated))
        inner.zero_grad()
    return steps


def ddp_grouped(rank):
    return ddp(rank, strategy="dither-softsign-root")


def ddp_automatic(rank):
    return ddp(rank, scaling=tt.AutomaticScaling(mu=4.0))


def ddp_nan(rank):
    return [bool(grad.isnan().all()) for grad in ddp(rank, poison=True)[0][1]]


def ddp_differs(rank):
    """Checks that ranks with different factors get an error in the backward pass."""
    model = DistributedDataParallel(model_of())
    model.register_comm_hook(FP8CompressState(scaling=tt.AutomaticScaling(mu=1.0 + rank)),
                             fp8_compress_hook)
    return error_of(loss_of(model, rank).backward)


def ddp_trains(rank):
    """Checks that a strategy with coded gradients trains under the hook."""
    inner = model_of()
    model = DistributedDataParallel(inner)
    model.register_comm_hook(FP8CompressState(), fp8_compress_hook)
    optimizer = tt.AdamW(inner.parameters(), lr=1e-2, strategy="fp8-lm", min_8bit_size=0)
    losses = []
    for _ in range(6):
        loss = loss_of(model, rank)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [p.detach() for p in inner.parameters()]


#===----------------------------------------------------------------------===#
# GradientAllReduce
#===----------------------------------------------------------------------===#


def reduced(rank, passes=1, **options):
    """Returns the planes of all gradients after a sum."""
    model = model_of()
    optimizer = tt.AdamW(model.parameters(), strategy="fp8-collage-light", min_8bit_size=0)
    reduce = tt.GradientAllReduce(optimizer, **options)
    with reduce.no_sync():
        for step in range(1, passes):
            loss_of(model, rank, step).backward()
    loss_of(model, rank).backward()
    early = len(reduce._sent)
    reduce()
    planes = [[plane.view(torch.uint8) if plane.dtype.itemsize == 1 else plane
               for plane in optimizer._gradients.get(p)] for p in model.parameters()]
    return planes, early, len(reduce._buckets)


def overlap(rank):
    """Sums with and without overlap, in one bucket and in many."""
    return [reduced(rank, passes, overlap=overlaps, bucket_cap_mb=size)
            for passes in (1, 2) for overlaps in (False, True) for size in (25, 0.001)]


def twice(rank):
    """Runs a backward pass after buckets have been sent."""
    model = model_of()
    optimizer = tt.AdamW(model.parameters(), strategy="fp8-lm", min_8bit_size=0)
    reduce = tt.GradientAllReduce(optimizer, overlap=True)
    loss_of(model, rank).backward()
    error = error_of(lambda: loss_of(model, rank).backward())
    # This ends pending collectives, and detects differing gradients if the passes ended at
    # different ones.
    error_of(reduce)
    return error


def _differing(rank, shapes, overlap=False, **options):
    params = [torch.nn.Parameter(torch.ones(shape).bfloat16()) for shape in shapes]
    optimizer = tt.AdamW(params, **{"strategy": "fp8-lm", "min_8bit_size": 0} | options)
    reduce = tt.GradientAllReduce(optimizer, overlap=overlap)
    sum((p * 0.5).sum() for p in params).backward()
    return error_of(reduce)


def differing(rank):
    """Uses ranks with different parameters, orders, dtypes, seeds or strategies."""
    other = rank == 1
    return {
        "shapes": _differing(rank, [(40, 3)] if other else [(40, 3), (7,)]),
        "order": _differing(rank, [(7,), (40, 3)] if other else [(40, 3), (7,)]),
        "overlapped": _differing(rank, [(40, 4)] if other else [(40, 3)], overlap=True),
        "seed": _differing(rank, [(40, 3)], strategy="fp8-lm", seed=rank),
        "strategy": _differing(rank, [(40, 3)],
                               strategy="fp8-collage-light" if other else "fp8-lm"),
        "none": _differing(rank, [(40, 3)]),
    }


def wide(rank):
    """Sums gradients set in p.grad; returns the ranks' own and the mean."""
    param = torch.nn.Parameter(torch.zeros(41, dtype=torch.bfloat16))
    optimizer = tt.AdamW([param], strategy="fp8-lm", min_8bit_size=0)
    reduce = tt.GradientAllReduce(optimizer)
    own = torch.randn(41, generator=torch.Generator().manual_seed(rank)).bfloat16()
    param.grad = own.clone()
    reduce()
    return own, param.grad


#===----------------------------------------------------------------------===#
# FSDP2
#===----------------------------------------------------------------------===#


def fsdp2(rank):
    """Returns (own gradients, this rank's shards of the mean)."""
    from torch.distributed.fsdp import fully_shard

    plain, model = model_of(), model_of()
    fully_shard(model)
    model.set_custom_reduce_scatter(FP8ReduceScatter())
    own = local(plain, rank)
    loss_of(model, rank).backward()
    return own, [p.grad.to_local() for p in model.parameters()]


#===----------------------------------------------------------------------===#
# Processes
#===----------------------------------------------------------------------===#

SCENARIOS = (ddp, ddp_grouped, ddp_automatic, ddp_nan, ddp_trains, overlap, differing, fsdp2,
             twice, wide, ddp_differs)


def main(rank, count, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", count), rank=rank,
                            world_size=count, timeout=datetime.timedelta(seconds=60))
    found = {scenario.__name__: scenario(rank) for scenario in SCENARIOS}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
