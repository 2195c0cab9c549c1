#===- bytes.py - Bytes that sums of gradients send -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file counts the bytes that ranks send to sum a model's gradients and to gather its weights,
# with a transport whose ranks are threads of one process.
#
#===----------------------------------------------------------------------===#
"""Writes benchmarks/results/distributed/bytes.json: bytes per parameter and step."""

import argparse
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "test/Python")]

import tandem.torch as tt  # noqa: E402
from common import RESULTS, save  # noqa: E402
from support.thread_ranks import Threads  # noqa: E402
from tandem.torch.distributed import (FP8CompressState, FP8ReduceScatter,  # noqa: E402
                                      _weight_gather)
from tandem.torch.distributed._codec import codec  # noqa: E402

FOLDER = RESULTS / "distributed"
RANKS = (2, 4, 8, 16, 32, 64)
#: The parameters of a small transformer layer: attention, feed-forward block, norms. Up to 64 ranks
#: share the rows of matrices evenly.
SHAPES = [(384, 128), (128, 128), (704, 128), (128, 352), (128,), (128,)]
PARAMETERS = sum(torch.Size(shape).numel() for shape in SHAPES)
STRATEGIES = ("fp8-lm", "fp8-collage-light", "dither-softsign-root")


def gradient(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).bfloat16()


def all_reduce(rank, strategy: str) -> None:
    """Sums gradients with GradientAllReduce."""
    params = [torch.nn.Parameter(torch.zeros(shape, dtype=torch.bfloat16)) for shape in SHAPES]
    optimizer = tt.AdamW(params, strategy=strategy, min_8bit_size=0)
    reduce = tt.GradientAllReduce(optimizer, rank, tt.AutomaticScaling())
    for i, param in enumerate(params):
        (param * gradient(param.shape, 10 * rank.rank + i)).sum().backward()
    reduce()


class Bucket:
    """A stand-in for the bucket that DistributedDataParallel gives to a hook."""

    def __init__(self, rank: int):
        self._buffer = torch.cat([gradient(shape, 10 * rank + i).flatten()
                                  for i, shape in enumerate(SHAPES)])

    def index(self) -> int:
        return 0

    def buffer(self) -> torch.Tensor:
        return self._buffer

    def gradients(self) -> list[torch.Tensor]:
        sizes = [torch.Size(shape).numel() for shape in SHAPES]
        return [part.view(shape) for part, shape in zip(self._buffer.split(sizes), SHAPES)]


def ddp_hook(rank) -> None:
    """Sums gradients with the communication hook for DistributedDataParallel."""
    FP8CompressState(rank).send(Bucket(rank.rank)).wait()


def reduce_scatter(rank) -> None:
    """Sums gradients with FSDP2's reduce-scatter; the result stays sharded."""
    flat = torch.cat([gradient(shape, 10 * rank.rank + i).flatten()
                      for i, shape in enumerate(SHAPES)])
    shard = flat.new_empty(len(flat) // rank.size)
    FP8ReduceScatter()(shard, flat[:len(shard) * rank.size], rank,
                       torch.distributed.ReduceOp.AVG)


def weight_gather(rank) -> None:
    """Gathers weights as FSDP2 does for a pass. Matrices whose rows divide evenly travel as
    codes with the maximum of their scales; other parameters travel unencoded, with FSDP2's
    padding."""
    wide, shards = 0, []
    for i, shape in enumerate(SHAPES):
        weight = gradient(shape, i)
        if len(shape) == 2 and shape[0] % rank.size == 0:
            shards.append(weight.chunk(rank.size)[rank.rank].contiguous())
        else:
            wide += weight.chunk(rank.size)[0].nbytes
    scales = _weight_gather.exchange_scales(shards, rank)
    codes = [codec(_weight_gather.CODE).encode(shard, scale)[0].view(torch.uint8).flatten()
             for shard, scale in zip(shards, scales)]
    sent = torch.cat([*codes, torch.empty(wide, dtype=torch.uint8)])
    rank.all_gather(sent, [len(sent)] * rank.size)


def ways() -> dict:
    """Returns the sums and the gather by name."""
    sums = {f"GradientAllReduce, {strategy}": (lambda rank, s=strategy: all_reduce(rank, s))
            for strategy in STRATEGIES}
    return sums | {"fp8_compress_hook": ddp_hook, "FP8ReduceScatter": reduce_scatter,
                   "fp8_all_gather": weight_gather}


def counted(count: int, work) -> dict:
    """Returns the largest and smallest numbers of bytes per parameter that a rank sends and
    gets."""
    def run(rank):
        torch.set_num_threads(1)
        work(rank)
        return rank.sent / PARAMETERS, rank.received / PARAMETERS

    sent, received = zip(*Threads(count).run(run))
    return {"ranks": count, "sent": [min(sent), max(sent)],
            "received": [min(received), max(received)]}


def formulas(count: int) -> dict[str, float]:
    """Returns the bytes per parameter that a rank sends and gets, without scales."""
    share = (count - 1) / count
    return {"codes, summed in slices": 2 * share, "codes, all gathered": count - 1.0,
            "bf16 ring": 4 * share, "f32 ring": 8 * share, "bf16 all-gather": 2 * share}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    options = parser.parse_args()
    rows = {name: [counted(count, work) for count in options.ranks]
            for name, work in ways().items()}
    save("bytes", {"parameters": PARAMETERS, "tensors": len(SHAPES), "counted": rows,
                   "formulas": {count: formulas(count) for count in options.ranks}},
         options.folder)


if __name__ == "__main__":
    main()
