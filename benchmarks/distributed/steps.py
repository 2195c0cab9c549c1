#===- steps.py - Steps of several ranks ------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the times of training steps, and the bytes that each rank keeps,
# under DistributedDataParallel and fully_shard, beside PyTorch's and torchao's optimizers.
#
#===----------------------------------------------------------------------===#
"""Times training steps on gloo ranks of this machine: steps.py [--ranks N] [--rounds N].

All ways train the same two layers of Llama's proportions, in the same processes, in turn:
what disturbs one round disturbs all of them. Times are those of the slowest rank. Bytes are
those of the weights, gradients and states that a rank has after the backward pass.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common
import tandem.torch as tt

RESULTS = common.RESULTS / "distributed"
WIDTH, HIDDEN, LAYERS, TOKENS = 1024, 2816, 2, 32


class Layer(torch.nn.Module):
    """A gated network and the four projections of attention, which is left out."""

    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(WIDTH) for _ in range(2))
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (torch.nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        query, key, value = self.qkv(self.norms[0](x)).chunk(3, -1)
        x = x + self.out(query * key.sigmoid() + value)
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def model_of(dtype):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(Layer() for _ in range(LAYERS))).to(dtype)


def ddp(dtype, make, codes=False):
    model = DistributedDataParallel(model_of(dtype))
    if codes:
        model.register_comm_hook(tt.distributed.FP8CompressState(),
                                 tt.distributed.fp8_compress_hook)
    return model, make(model.parameters())


def fsdp2(dtype, make):
    model = model_of(dtype)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return model, make(model.parameters())


def ways():
    """Each way by its name: what makes the model and its optimizer."""
    wide, half = torch.float32, torch.bfloat16
    plain = lambda params: torch.optim.AdamW(params, lr=1e-4, foreach=True)  # noqa: E731
    ours = lambda name: lambda params: tt.AdamW(params, lr=1e-4, strategy=name)  # noqa: E731
    found = {
        "DDP, torch AdamW, f32": lambda: ddp(wide, plain),
        "DDP, torch AdamW, bf16": lambda: ddp(half, plain),
        "DDP, collage-plus": lambda: ddp(half, ours("collage-plus")),
        "DDP with 8-bit gradients, coat": lambda: ddp(half, ours("coat"), codes=True),
        "FSDP2, torch AdamW, f32": lambda: fsdp2(wide, plain),
        "FSDP2, torch AdamW, bf16": lambda: fsdp2(half, plain),
        "FSDP2, collage-plus": lambda: fsdp2(half, ours("collage-plus")),
        "FSDP2, coat": lambda: fsdp2(half, ours("coat")),
        "FSDP2, adam8bit": lambda: fsdp2(half, ours("adam8bit")),
    }
    try:
        from torchao.optim import AdamW8bit
        found["FSDP2, torchao AdamW8bit"] = lambda: fsdp2(
            half, lambda params: AdamW8bit(params, lr=1e-4))
    except ImportError:
        pass
    return found


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def tensors_in(tensor):
    """The tensors that hold a state, of a subclass such as torchao's too."""
    tensor = local(tensor)
    names = tensor.__tensor_flatten__()[0] if hasattr(tensor, "__tensor_flatten__") else None
    return [getattr(tensor, name) for name in names] if names else [tensor]


def bytes_of(model, optimizer):
    """Bytes of weights, gradients and states on this rank."""
    states = [each for state in optimizer.state.values() for value in state.values()
              if isinstance(value, torch.Tensor) for each in tensors_in(value)]
    return sum(local(p).nbytes + local(p.grad).nbytes for p in model.parameters()) + sum(
        tensor.nbytes for tensor in states)


def run(model, optimizer, x):
    """One training step: seconds of all of it, and of the optimizer's."""
    dist.barrier()
    begin = time.perf_counter()
    model(x).float().square().mean().backward()
    middle = time.perf_counter()
    optimizer.step()
    end = time.perf_counter()
    kept = bytes_of(model, optimizer)
    optimizer.zero_grad()
    both = torch.tensor([end - begin, end - middle], dtype=torch.float64)
    dist.all_reduce(both, dist.ReduceOp.MAX)
    return both.tolist(), kept


def measure(rank, ranks, rounds, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks,
                            store=dist.FileStore(f"{folder}/store", ranks))
    made = {name: make() for name, make in ways().items()}
    times, kept = {name: [] for name in made}, {}
    for number in range(rounds + 2):
        for name, (model, optimizer) in made.items():
            x = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(number + rank))
            seconds, kept[name] = run(model, optimizer, x.to(next(model.parameters()).dtype))
            if number > 1:
                times[name].append(seconds)
        if rank == 0:
            print(f"round {number + 1} of {rounds + 2}", flush=True)
    if rank == 0:
        rows = {name: {"step_ms": 1e3 * statistics.median(t[0] for t in found),
                       "optimizer_ms": 1e3 * statistics.median(t[1] for t in found),
                       "bytes": kept[name]} for name, found in times.items()}
        pathlib.Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args()
    import tempfile
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(measure, (options.ranks, options.rounds, folder),
                                    nprocs=options.ranks)
        rows = json.loads(pathlib.Path(folder, "rows.json").read_text())
    parameters = sum(p.numel() for p in model_of(torch.bfloat16).parameters())
    result = {"machine": common.machine(), "ranks": options.ranks, "rounds": options.rounds,
              "parameters": parameters, "tokens": TOKENS, "rows": rows}
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "steps.json").write_text(json.dumps(result, indent=1) + "\n")
    for name, row in rows.items():
        print(f"{name}: step {row['step_ms']:.0f} ms, optimizer {row['optimizer_ms']:.1f} ms, "
              f"{row['bytes'] / parameters:.2f} B a parameter")


if __name__ == "__main__":
    main()
