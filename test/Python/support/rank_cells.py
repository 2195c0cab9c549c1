#===- rank_cells.py - Wrappers of several ranks ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file trains under PyTorch's distributed wrappers on two gloo ranks. Run as a program, it is
# one of them, and writes the outcome of each cell.
#
#===----------------------------------------------------------------------===#
"""`run` trains as a cell specifies, and compares with one process that has all gradients."""

import contextlib
import json
import sys
import warnings
from functools import lru_cache

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import tandem.torch as tt
from tandem._convert import compile_written
from tandem.torch.optim import _notices, _optimizer

RANKS, STEPS = 2, 3
#: A norm that all gradients exceed.
CLIP = 0.01


@lru_cache(maxsize=None)
def _compiled(graph, strategy, text, target):
    return compile_written(graph, strategy, text, target, ())


# Cells share kernels, since compiling takes longer than all of the training.
_optimizer.compile_written = lambda *given: _compiled(*given[:4])


class Model(torch.nn.Module):
    """Two layers that all ranks use; with extra ones, of which only rank 0 uses one."""

    def __init__(self, extra=False):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = torch.nn.Linear(24, 40), torch.nn.Linear(40, 24)
        self.odd = torch.nn.Linear(24, 24) if extra else None
        self.unused = torch.nn.Linear(3, 3) if extra else None
        self.bfloat16()

    def forward(self, x, rank):
        y = self.last(torch.nn.functional.gelu(self.first(x)))
        return y + self.odd(x) if self.odd and rank == 0 else y


def loss_of(model, step, part, rank):
    """Returns the loss of one rank's part of a batch."""
    generator = torch.Generator().manual_seed(100 * step + 10 * part + rank)
    x = torch.randn(4, 24, generator=generator).bfloat16()
    return model(x, rank).float().square().mean() * 2.0 ** (part + rank)


def options_of(cell):
    """Returns the hyperparameters and options of a cell's optimizer."""
    return {"lr": 1e-2, "strategy": cell["strategy"], "min_8bit_size": 0, "seed": 5,
            **cell.get("options", {})}


def optimizer_of(params, cell):
    return getattr(tt, cell.get("optimizer", "AdamW"))(params, **options_of(cell))


def passes_of(cell):
    """Returns (part, whether ranks then average the gradient) of each backward pass."""
    return {"accumulate": [(0, True), (1, True)],
            "no_sync": [(0, False), (1, True)],
            "never averaged": [(0, False)]}.get(cell["mode"], [(0, True)])


#===----------------------------------------------------------------------===#
# The reference: one process
#===----------------------------------------------------------------------===#


class Reference:
    """Trains one model with plain gradients on the mean of the ranks' gradients.

    Args:
        parts: divides parameters among optimizers; by default, one has all of them.
    """

    def __init__(self, cell, parts=lambda params: [params]):
        self.model, self.cell = Model(cell["mode"] == "find_unused"), cell
        self.params = list(self.model.parameters())
        self.optimizers = [optimizer_of(part, cell) for part in parts(self.params)]

    def gradients(self, step, part, rank):
        return torch.autograd.grad(loss_of(self.model, step, part, rank), self.params,
                                   allow_unused=True)

    def means(self, step):
        """Returns the gradients that every rank has at its step, None for unused parameters."""
        sums = [[None] * len(self.params)] * RANKS
        for part, averages in passes_of(self.cell):
            sums = [[_added(*pair) for pair in zip(sums[rank],
                                                   self.gradients(step, part, rank))]
                    for rank in range(RANKS)]
            if averages:
                sums = [[_mean(ranks) for ranks in zip(*sums)]] * RANKS
        return sums[0]

    def step(self, step):
        for param, grad in zip(self.params, self.means(step)):
            param.grad = grad
        if self.cell["mode"] == "clip":
            torch.nn.utils.clip_grad_norm_(self.params, CLIP)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()


def _added(first, second):
    return second if first is None else first if second is None else first + second


def _flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def _mean(grads):
    if all(grad is None for grad in grads):
        return None
    halves = [grad / 2 for grad in grads if grad is not None]
    return halves[0] if len(halves) == 1 else halves[0] + halves[1]


class Shards(Reference):
    """Does the same with an optimizer for each rank's shards of parameters.

    Args:
        whole: whether all parameters are flattened into one, which is sharded.
    """

    def __init__(self, cell, whole):
        super().__init__(cell, lambda params: [])
        self.pieces = self._pieces(whole)
        for rank in range(RANKS):
            self.optimizers.append(optimizer_of(
                [piece for owner, piece, _ in self.pieces if owner == rank], cell))

    def _pieces(self, whole):
        """Returns (rank, shard, the indices of its elements); a parameter may have no elements
        on a rank."""
        flat, first, pieces = _flat(self.params), 0, []
        half = -(-len(flat) // RANKS)
        sizes = [len(flat)] if whole else [p.numel() for p in self.params]
        for size in sizes:
            for rank in range(RANKS):
                start = max(first, rank * half)
                where = slice(start, max(start, min(first + size, (rank + 1) * half)))
                pieces.append((rank, torch.nn.Parameter(flat[where].clone()), where))
            first += size
        return pieces

    def means(self, step):
        """Returns gradients as FSDP1 does, which adds up means; DDP averages again."""
        total, passes = [None] * len(self.params), passes_of(self.cell)
        first = 0
        for last, (_, averages) in enumerate(passes):
            if averages:
                own = [self.sums(step, passes[first:last + 1], r) for r in range(RANKS)]
                total = list(map(_added, total, map(_mean, zip(*own))))
                first = last + 1
        return total

    def sums(self, step, passes, rank):
        """Returns the sum of a rank's own gradients over some passes."""
        total = [None] * len(self.params)
        for part, _ in passes:
            total = list(map(_added, total, self.gradients(step, part, rank)))
        return total

    @torch.no_grad()
    def step(self, step):
        with torch.enable_grad():
            grads = _flat(self.means(step))
        weights = _flat(self.params)
        for _, piece, where in self.pieces:
            piece.grad = grads[where].clone()
        for optimizer in self.optimizers:
            optimizer.step()
        for _, piece, where in self.pieces:
            weights[where] = piece
        torch.nn.utils.vector_to_parameters(weights, self.params)


#===----------------------------------------------------------------------===#
# Wrappers
#===----------------------------------------------------------------------===#


def wrapped_in_ddp(cell):
    mode = cell["mode"]
    options = {"find_unused": {"find_unused_parameters": True},
               "static_graph": {"static_graph": True},
               "bucket_view": {"gradient_as_bucket_view": True}}.get(mode, {})
    return DistributedDataParallel(Model(mode == "find_unused"), **options)


def ddp(cell):
    model = wrapped_in_ddp(cell)
    return model, optimizer_of(model.parameters(), cell), Reference(cell)


def ddp_after_optimizer(cell):
    inner = Model()
    optimizer = optimizer_of(inner.parameters(), cell)
    return DistributedDataParallel(inner), optimizer, Reference(cell)


def decoded_ddp(cell):
    model, optimizer, reference = ddp(cell)
    tt.decode_weights(model, optimizer)
    return model, optimizer, reference


class _Reducing:
    """An optimizer whose steps begin with a GradientAllReduce."""

    def __init__(self, optimizer):
        self.optimizer, self.reduce = optimizer, tt.GradientAllReduce(optimizer)

    def step(self):
        self.reduce()
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()


class _Alone:
    """A reference for the same training without a wrapper."""

    def __init__(self, cell):
        self.model, self.cell = Model(), cell
        self.optimizer = _Reducing(optimizer_of(self.model.parameters(), cell))

    def step(self, step):
        for part, _ in passes_of(self.cell):
            loss_of(self.model, step, part, dist.get_rank()).backward()
        self.optimizer.step()


def ddp_and_all_reduce(cell):
    model, optimizer, _ = ddp(cell)
    return model, _Reducing(optimizer), _Alone(cell)


def zero(cell):
    model = wrapped_in_ddp(cell)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), getattr(tt, cell.get("optimizer", "AdamW")),
        parameters_as_bucket_view=cell["mode"] == "bucket_view", **options_of(cell))
    params = list(model.parameters())
    places = [[next(i for i, p in enumerate(params) if p is q)
               for group in groups for q in group["params"]]
              for groups in optimizer._partition_parameters()]
    return model, optimizer, Reference(
        cell, lambda own: [[own[i] for i in part] for part in places])


def fsdp1(cell, by_name=True):
    model = FullyShardedDataParallel(
        Model(), use_orig_params=by_name, device_id=torch.device("cpu"),
        sharding_strategy=ShardingStrategy.FULL_SHARD)
    optimizer = optimizer_of(model.parameters(), cell)
    return model, optimizer, Shards(cell, whole=not by_name)


def fsdp1_flat(cell):
    return fsdp1(cell, by_name=False)


def decoded_fsdp1(cell):
    model, optimizer, reference = fsdp1(cell)
    tt.decode_weights(model, optimizer)
    return model, optimizer, reference


def fsdp2(cell):
    model = Model()
    fully_shard(model)
    return model, optimizer_of(model.parameters(), cell), Reference(cell)


def decoded_fsdp2(cell):
    model, optimizer, reference = fsdp2(cell)
    tt.decode_weights(model, optimizer)
    return model, optimizer, reference


def fsdp2_after_optimizer(cell):
    model = Model()
    optimizer = optimizer_of(model.parameters(), cell)
    fully_shard(model)
    return model, optimizer, Reference(cell)


def dtensor_local(cell):
    model = Model()
    fully_shard(model)
    locals_ = [param._local_tensor for param in model.parameters()]
    return model, optimizer_of(locals_, cell), Reference(cell)


WRAPPERS = {
    "DDP": ddp, "DDP after the optimizer": ddp_after_optimizer,
    "DDP, decode_weights": decoded_ddp, "DDP, GradientAllReduce": ddp_and_all_reduce,
    "ZeRO": zero, "FSDP1": fsdp1, "FSDP1, flat": fsdp1_flat,
    "FSDP1, decode_weights": decoded_fsdp1, "FSDP2": fsdp2,
    "FSDP2, decode_weights": decoded_fsdp2,
    "FSDP2 after the optimizer": fsdp2_after_optimizer, "DTensor, local": dtensor_local,
}


#===----------------------------------------------------------------------===#
# Cells
#===----------------------------------------------------------------------===#


def backward(model, step, cell):
    """Runs all backward passes of one step."""
    for part, averages in passes_of(cell):
        silent = contextlib.nullcontext() if averages else model.no_sync()
        with silent:
            loss_of(model, step, part, dist.get_rank()).backward()


def weights_of(model):
    """Returns the weights of a wrapped model, concatenated."""
    if isinstance(model, FullyShardedDataParallel):
        with model.summon_full_params(model, writeback=False):
            # The flat parameter ends with padding.
            return _flat(model.parameters())[:_flat(Model().parameters()).numel()]
    return _flat(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
                 for tensor in model.state_dict().values())


def train(cell):
    """Trains under the cell's wrapper; returns what is wrong with the weights, if anything."""
    model, optimizer, reference = WRAPPERS[cell["wrapper"]](cell)
    for step in range(STEPS):
        backward(model, step, cell)
        if cell["mode"] == "clip":
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        reference.step(step)
        own, want = weights_of(model), weights_of(reference.model)
        if not torch.equal(own.view(torch.int16), want.view(torch.int16)):
            return f"after step {step} weights differ from the reference's"
    return None


def run(cell):
    """Runs a cell and returns its outcome: "right", an error, a warning or different weights."""
    _notices._given.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            problem = train(cell)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    told = [str(w.message) for w in caught if "tandem" in str(w.filename)]
    return problem and "; ".join([problem, *told]) or "right"


if __name__ == "__main__":
    rank, folder = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS,
                            store=dist.FileStore(f"{folder}/store", RANKS))
    with open(f"{folder}/cells.json", encoding="utf-8") as file:
        cells = json.load(file)
    with open(f"{folder}/{rank}.json", "w", encoding="utf-8") as file:
        json.dump({number: run(cell) for number, cell in cells.items()}, file)
    dist.destroy_process_group()
