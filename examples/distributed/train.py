# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small language model on several ranks, and compares bits with one process.

    torchrun --nproc-per-node 2 examples/distributed/train.py --wrapper fsdp2

Each rank also trains a copy of the model with an optimizer that is not distributed, which
gets the same reduced gradients. At the end the weights must have the same bits.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tandem.torch
import torch
import torch.distributed as dist
from tandem.torch.distributed import (FP8ColwiseParallel, FP8CompressState, FP8RowwiseParallel,
                                      ZeroRedundancyOptimizer, fp8_compress_hook)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel

from model import CONTEXT, Transformer

sys.path.append(str(Path(__file__).resolve().parents[1] / "language_model"))
from data import load_corpus  # noqa: E402

BATCH = 8


def ddp(model, make_optimizer):
    """Replicates the model on each rank and averages gradients."""
    return DistributedDataParallel(model), make_optimizer(model.parameters())


def ddp_fp8(model, make_optimizer):
    """Replicates the model and communicates gradients in 8 bits."""
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(FP8CompressState(), fp8_compress_hook)
    return wrapped, make_optimizer(model.parameters())


def zero(model, make_optimizer):
    """Partitions the optimizer's states by tensor; each rank updates its own
    tensors."""
    return DistributedDataParallel(model), make_optimizer(
        model.parameters(), lambda params, **options: ZeroRedundancyOptimizer(
            params, tandem.torch.AdamW, **options))


def fsdp2(model, make_optimizer):
    """Shards weights, gradients and states by rows."""
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model), make_optimizer(model.parameters())


def tensor(model, make_optimizer):
    """Splits the gated networks over the ranks, which communicate activations in 8
    bits."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "gate": FP8ColwiseParallel(), "up": FP8ColwiseParallel(), "down": FP8RowwiseParallel()})
    return model, make_optimizer(model.parameters())


WRAPPERS = {"ddp": ddp, "ddp-fp8": ddp_fp8, "zero": zero, "fsdp2": fsdp2, "tensor": tensor}


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def batch(text: torch.Tensor, step: int, part: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the inputs and targets of one rank's part of a batch."""
    generator = torch.Generator().manual_seed(1000 * step + part)
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=generator)
    rows = torch.stack([text[start:start + CONTEXT + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def train(options: argparse.Namespace) -> bool:
    """Trains, and returns whether all weights have the bits of training in one
    process."""
    corpus = load_corpus()
    text = torch.from_numpy(corpus.train.astype("int64"))
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(Transformer(len(corpus.vocabulary)).bfloat16())

    def make_optimizer(params, make=tandem.torch.AdamW):
        return make(params, lr=2e-3, strategy=options.strategy)

    model, optimizer = WRAPPERS[options.wrapper](models[0], make_optimizer)
    alone = make_optimizer(models[1].parameters())
    part = 0 if options.wrapper == "tensor" else dist.get_rank()
    for step in range(options.steps):
        loss = model(*batch(text, step, part))
        loss.backward()
        for param, copy in zip(models[0].parameters(), models[1].parameters(), strict=True):
            copy.grad = whole(param.grad).clone()
        for each in (optimizer, alone):
            each.step()
            each.zero_grad()
        if dist.get_rank() == 0 and (step % 10 == 0 or step == options.steps - 1):
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return all(torch.equal(whole(param).view(torch.int16), copy.view(torch.int16))
               for param, copy in zip(models[0].parameters(), models[1].parameters()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wrapper", choices=WRAPPERS, default="fsdp2")
    parser.add_argument("--strategy", default="flash-f16")
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    same = train(options)
    if dist.get_rank() == 0:
        print(f"{options.wrapper}, {options.strategy}, {dist.get_world_size()} ranks: the steps' bits "
              f"are {'those' if same else 'NOT those'} of one process on the same gradients")
    dist.destroy_process_group()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
