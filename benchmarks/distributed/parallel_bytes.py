#===- parallel_bytes.py - Bytes of tensor parallelism ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file counts the bytes that a Llama layer exchanges under tensor and sequence parallelism,
# with PyTorch's styles in bf16 and with ours in codes.
#
#===----------------------------------------------------------------------===#
"""Counts the collectives of one forward and one backward pass as the transport receives them.

Each gloo rank counts the bytes it sends, assuming rings for all-gather, reduce-scatter and
all-reduce: (N - 1) / N of the whole tensor, and twice that for an all-reduce. FP8-LM's table 7
covers all-gathers of activations and reduce-scatters of their gradients, which are listed
separately.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, init_device_mesh
from torch.distributed.tensor import parallel as wide
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common
from tandem.torch import distributed as coded

#: A small layer with Llama's proportions. Bytes are proportional to tokens times width.
TOKENS, WIDTH, HIDDEN, HEADS = 256, 256, 704, 8
RANKS = (2, 4)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (
            torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class FeedForward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.RMSNorm(WIDTH), torch.nn.RMSNorm(WIDTH)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


def bf16_plan() -> dict:
    """Returns PyTorch's own styles, as in its tensor-parallelism tutorial."""
    gather = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    inputs = dict.fromkeys(("attention", "feed_forward"), wide.PrepareModuleInput(**gather))
    norms = {name: wide.SequenceParallel() for name in ("norm1", "norm2")}
    return norms | inputs | _linears(wide.ColwiseParallel, wide.RowwiseParallel)


def coded_plan() -> dict:
    """Returns the same plan with coded activations."""
    norms = {name: coded.FP8SequenceParallel() for name in ("norm1", "norm2")}
    return norms | _linears(coded.FP8ColwiseParallel, coded.FP8RowwiseParallel)


def _linears(column, row) -> dict:
    names = ["attention.q", "attention.k", "attention.v", "feed_forward.gate", "feed_forward.up"]
    return {name: column() for name in names} | {
        name: row(output_layouts=Shard(1)) for name in ("attention.o", "feed_forward.down")}


PLANS = {"bf16": bf16_plan, "codes": coded_plan}
#: The collective for each part of an operation's name in torch.distributed; the first match counts.
KINDS = {"gather": "all-gather", "scatter": "reduce-scatter", "alltoall": "all-to-all",
         "all_to_all": "all-to-all", "reduce": "all-reduce"}


class Counter(TorchDispatchMode):
    """Adds up the bytes that this rank sends, by collective."""

    def __init__(self, ranks: int):
        super().__init__()
        self.ranks, self.sent = ranks, collections.Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        name = operation.__name__.split(".")[0].strip("_")
        if operation.namespace in ("c10d", "_c10d_functional", "c10d_functional"):
            self._count(name, args, result)
        return result

    def _count(self, name: str, args, result) -> None:
        kind = next((kind for part, kind in KINDS.items() if part in name), None)
        if kind is None:  # wait_tensor and similar
            return
        whole = max(t.nbytes for t in tree_leaves((args, result)) if isinstance(t, torch.Tensor))
        times = 2 if kind == "all-reduce" else 1
        self.sent[kind] += times * whole * (self.ranks - 1) / self.ranks


def measure(plan: str) -> dict:
    """Returns this rank's bytes in both passes, and the relative error of the output."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(0)
    model, x = Layer().bfloat16(), torch.randn(1, TOKENS, WIDTH).bfloat16()
    with torch.no_grad():
        want = Layer().float()
        want.load_state_dict({n: p.float() for n, p in model.state_dict().items()})
        want = want(x.float()).chunk(ranks, 1)[rank]
    model = wide.parallelize_module(model, init_device_mesh("cpu", (ranks,)), PLANS[plan]())
    own = x.chunk(ranks, 1)[rank].contiguous().requires_grad_()
    passes = {}
    with Counter(ranks) as counter:
        y = model(own)
        passes["forward"] = dict(counter.sent)
        counter.sent.clear()
        y.backward(torch.ones_like(y))
        passes["backward"] = dict(counter.sent)
    y = y.to_local() if hasattr(y, "to_local") else y
    error = ((y.float() - want).norm() / want.norm()).item()
    total = sum(sum(part.values()) for part in passes.values())
    return passes | {"total": total, "bytes per token and width": total / (TOKENS * WIDTH),
                     "error": error}


def work(rank: int, ranks: int, folder: str) -> None:
    """Runs one rank; rank 0 saves the result."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks,
                            store=dist.FileStore(f"{folder}/store", ranks))
    result = {plan: measure(plan) for plan in PLANS}
    if rank == 0:
        common.save(str(ranks), result, pathlib.Path(folder))
    dist.destroy_process_group()


def run(ranks: int) -> dict:
    """Runs a number of ranks and returns the counts of rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        workers = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), "--ranks",
                                     str(ranks), "--folder", folder]) for rank in range(ranks)]
        if any([worker.wait(timeout=300) for worker in workers]):
            raise SystemExit("a rank has failed")
        result = common.load(str(ranks), pathlib.Path(folder))
    result.pop("machine")
    result["ratio"] = result["codes"]["total"] / result["bf16"]["total"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, kind in (("rank", int), ("ranks", int), ("folder", str)):
        parser.add_argument(f"--{name}", type=kind)
    given = parser.parse_args()
    if given.rank is not None:
        return work(given.rank, given.ranks, given.folder)
    found = {str(ranks): run(ranks) for ranks in RANKS}
    common.save("parallel_bytes", {
        "layer": {"tokens": TOKENS, "width": WIDTH, "hidden": HIDDEN, "heads": HEADS},
        # Table 7, GPT-13B and GPT-175B: GB of activations in FP8 over those in BF16.
        "paper_ratio": {"GPT-13B": 3.1 / 4.7, "GPT-175B": 3.9 / 5.9},
        "ranks": found}, common.RESULTS / "distributed")
    for ranks, result in found.items():
        for plan in PLANS:
            print(ranks, plan, result[plan])
        print(ranks, "codes / bf16:", result["ratio"])


if __name__ == "__main__":
    main()
