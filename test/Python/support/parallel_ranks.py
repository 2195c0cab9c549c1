#===- parallel_ranks.py - Layers that ranks share --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks in the tests of tensor and sequence parallelism: each function
# compares with one process that encodes the same tensors, and with wide layers.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import copy

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn import functional

import tandem.torch as tt
import tandem.torch.nn as tnn
import tandem.torch.nn.functional as F
from tandem.torch.distributed import (FP8ColwiseParallel, FP8RowwiseParallel,
                                      FP8SequenceParallel, GatheredTensor)
from tandem.torch.distributed._codec import codec
from tandem.torch.distributed._parallel import _stored
from support.zero_ranks import equal

BATCH, TOKENS, WIDTH, HIDDEN = 2, 12, 24, 48
E4M3, E5M2 = "f8E4M3FN", "f8E5M2"


class Block(torch.nn.Module):
    """A norm, two layers of its output, their product, a layer, and a residual connection."""

    def __init__(self, dtype=torch.bfloat16, linear=torch.nn.Linear, seed=3, **options):
        super().__init__()
        torch.manual_seed(seed)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.gate = linear(WIDTH, HIDDEN, **options)
        self.up = linear(WIDTH, HIDDEN, bias=False, **options)
        self.down = linear(HIDDEN, WIDTH, **options)
        torch.nn.init.normal_(self.norm.bias)
        self.to(dtype)

    def forward(self, x):
        y = self.norm(x)
        return self.down(torch.sigmoid(self.gate(y)) * self.up(y))


def mesh():
    return init_device_mesh("cpu", (dist.get_world_size(),))


def batch(dtype=torch.bfloat16, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, TOKENS, WIDTH, generator=generator).to(dtype)


def part(x, dim=1):
    return x.chunk(dist.get_world_size(), dim)[dist.get_rank()].contiguous()


#===----------------------------------------------------------------------===#
# One process
#===----------------------------------------------------------------------===#


def encoded(x, code):
    """Returns the values that one process has after encoding a whole tensor."""
    return codec(code).decode(*codec(code).encode(x.contiguous()), x.dtype)


def added(parts, code, dim):
    """Returns the slices of the sum of ranks' tensors, each encoded as a whole."""
    values = [codec(code).decode(*codec(code).encode(p.contiguous()), torch.float32)
              for p in parts]
    total = values[0]
    for value in values[1:]:
        total = total + value
    return tuple(s.contiguous().to(parts[0].dtype) for s in total.chunk(len(parts), dim))


class Gather(torch.autograd.Function):
    """Maps all ranks' slices to all ranks' copies of the whole."""

    @staticmethod
    def forward(ctx, dim, *slices):
        ctx.dim = dim
        codes = codec(E4M3).encode(torch.cat(slices, dim).contiguous())
        return tuple(_stored(GatheredTensor, *codes, E4M3, slices[0].dtype) for _ in slices)

    @staticmethod
    def backward(ctx, *gradients):
        return None, *added(gradients, E5M2, ctx.dim)


class Scatter(torch.autograd.Function):
    """Maps all ranks' partial sums to their slices of the sum."""

    @staticmethod
    def forward(ctx, dim, *parts):
        ctx.dim = dim
        return added(parts, E4M3, dim)

    @staticmethod
    def backward(ctx, *gradients):
        whole = encoded(torch.cat(gradients, ctx.dim), E5M2)
        return None, *(whole.clone() for _ in gradients)


def parts_of(param, dim):
    count = dist.get_world_size()
    return [p.detach().clone().requires_grad_() for p in (
        param.chunk(count, dim) if dim is not None else [param] * count)]


def emulate(model, x, dy, dim=1):
    """Returns the output, the input's gradient and those of each rank's parameters, for a Block
    whose sequence is sharded in a dimension."""
    count = dist.get_world_size()
    slices = [s.contiguous().requires_grad_() for s in x.chunk(count, dim)]
    names = {"norm.weight": None, "norm.bias": None, "gate.weight": 0, "gate.bias": 0,
             "up.weight": 0, "down.weight": 1, "down.bias": None}
    params = {n: parts_of(p, names[n]) for n, p in model.named_parameters()}

    def of(name, rank):
        return params[name][rank]

    normed = [functional.layer_norm(s, (WIDTH,), of("norm.weight", r), of("norm.bias", r))
              for r, s in enumerate(slices)]
    gathered = Gather.apply(dim, *normed)
    partial = []
    for r, y in enumerate(gathered):
        gate = F.linear(y, of("gate.weight", r), of("gate.bias", r), recipe="te-current")
        up = F.linear(y, of("up.weight", r), None, recipe="te-current")
        partial.append(functional.linear(torch.sigmoid(gate) * up, of("down.weight", r)))
    outputs = [y + of("down.bias", r) for r, y in enumerate(Scatter.apply(dim, *partial))]
    torch.autograd.backward(outputs, [s.contiguous() for s in dy.chunk(count, dim)])
    for name, dim_ in names.items():
        if dim_ is None:  # in the order of ranks
            total = params[name][0].grad.float()
            for p in params[name][1:]:
                total = total + p.grad.float()
            params[name] = [total.to(x.dtype)] * count
        else:
            params[name] = [p.grad for p in params[name]]
    return outputs, [s.grad for s in slices], params


def parallel(model, dim=1, **plan):
    return parallelize_module(model, mesh(), {
        "norm": FP8SequenceParallel(sequence_dim=dim), "gate": FP8ColwiseParallel(),
        "up": FP8ColwiseParallel(), "down": FP8RowwiseParallel(output_layouts=Shard(dim)),
        **plan})


def _block(dtype, dim):
    model, x, dy = Block(dtype), batch(dtype), batch(dtype, seed=8)
    outputs, inputs, params = emulate(copy.deepcopy(model), x, dy, dim)
    ours, rank = parallel(copy.deepcopy(model), dim), dist.get_rank()
    own = part(x, dim).requires_grad_()
    y = ours(own)
    y.backward(part(dy, dim))
    assert equal([y], [outputs[rank]]), "another output"
    assert equal([own.grad], [inputs[rank]]), "another gradient of the input"
    for name, param in ours.named_parameters():
        assert isinstance(param, DTensor) and isinstance(param.grad, DTensor), name
        assert equal([param.grad.to_local()], [params[name][rank]]), f"another gradient of {name}"
    wide = Block(torch.float32)
    wide.load_state_dict({n: p.float() for n, p in model.state_dict().items()})
    whole = x.float().requires_grad_()
    want = wide(whole)
    want.backward(dy.float())
    told = [distance(y, part(want, dim)), distance(own.grad, part(whole.grad, dim))]
    told += [distance(p.grad.full_tensor(), q.grad)
             for p, q in zip(ours.parameters(), wide.parameters(), strict=True)]
    # E4M3 codes have a relative error of at most 1/16, and E5M2 codes of 1/8.
    assert max(told) < 0.125, told
    assert max(told) > 1e-3, "nothing was encoded"


def distance(x, want):
    return ((x.float() - want.float()).norm() / want.float().norm()).item()


def block():
    for dtype in (torch.bfloat16, torch.float32):
        for dim in (1, 0) if BATCH % dist.get_world_size() == 0 else (1,):
            _block(dtype, dim)
    return "right"


def replicated():
    """Checks a column-wise and a row-wise layer with replicated input and output."""
    count, rank = dist.get_world_size(), dist.get_rank()
    model = Block()
    x, dy = batch().requires_grad_(), batch(seed=8)
    ours = parallelize_module(copy.deepcopy(model), mesh(), {
        "gate": FP8ColwiseParallel(), "down": FP8RowwiseParallel()})
    y = ours.down(ours.gate(x).relu())
    y.backward(dy)

    weights = [parts_of(p, dim) for p, dim in (
        (model.gate.weight, 0), (model.gate.bias, 0), (model.down.weight, 1))]
    inputs = [x.detach().clone().requires_grad_() for _ in range(count)]
    partial = [functional.linear(functional.linear(i, w, b).relu(), v)
               for i, w, b, v in zip(inputs, *weights)]

    def all_reduced(parts, code):
        flat = [functional.pad(p.detach().flatten(), (0, -p.numel() % count)) for p in parts]
        total = encoded(torch.cat(added(flat, code, 0)), code)
        return total[:parts[0].numel()].view(parts[0].shape)

    assert equal([y], [all_reduced(partial, E4M3) + model.down.bias]), "another output"
    torch.autograd.backward(partial, [dy] * count)
    assert equal([x.grad], [all_reduced([i.grad for i in inputs], E5M2)]), "another gradient"
    for param, parts in zip((ours.gate.weight, ours.gate.bias, ours.down.weight), weights):
        assert equal([param.grad.to_local()], [parts[rank].grad])
    assert equal([ours.down.bias.grad.to_local()], [dy.sum((0, 1))])
    return "right"


def kept():
    """Checks that a layer saves the gathered codes, one byte per element of the whole input and
    only once for two layers, and no wide tensor."""
    saved = {}

    def pack(tensor):
        saved.setdefault(tensor.untyped_storage().data_ptr(), (tensor.dtype, tensor.nbytes))
        return tensor

    for linear, options in ((torch.nn.Linear, {}), (tnn.Linear, {"recipe": "te-current"}),
                            (tnn.Linear, {"recipe": "te-current", "products": "fp8"})):
        model = parallel(Block(linear=linear, **options))
        y = model.norm(part(batch()))
        assert isinstance(y, GatheredTensor) and y.shape == (BATCH, TOKENS, WIDTH)
        saved.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = [model.gate(y), model.up(y)]
        codes = y.planes[""].untyped_storage().data_ptr()
        assert codes in saved, f"{linear} keeps other codes"
        whole = BATCH * TOKENS * WIDTH
        others = [size for at, (dtype, size) in saved.items()
                  if at != codes and dtype in (torch.bfloat16, torch.float32) and size >= whole]
        weights = [p.to_local().nbytes for p in (model.gate.weight, model.up.weight)]
        assert all(size in weights for size in others), (linear, others)
        sum(o.float().sum() for o in out).backward()
    return "right"


def compressed():
    """Checks modules of tandem.torch.nn whose recipe saves gathered inputs, in both orders."""
    wide = Block(torch.float32)
    want = wide(batch(torch.float32))
    model = Block()
    tt.compress_activations(model, "te-current", products="fp8")
    assert isinstance(model.norm, tnn.LayerNorm) and isinstance(model.up, tnn.Linear)
    ours = parallel(model)
    y = ours(part(batch()))
    assert 1e-3 < distance(y, part(want)) < 0.125
    y.sum().backward()
    assert all(p.grad.to_local().isfinite().all() for p in ours.parameters())
    plain = parallel(Block())
    left = tt.compress_activations(plain, "te-current").left
    assert set(left) == {"norm", "gate", "up", "down"}, left
    return "right"


def column_gathers():
    """Checks that a single column-wise layer gathers, also a DTensor, and returns DTensors."""
    model = Block()
    here = mesh()
    layer = parallelize_module(copy.deepcopy(model.gate), here, FP8ColwiseParallel(
        input_layouts=Shard(1), use_local_output=False))
    x = batch()
    y = layer(DTensor.from_local(part(x), here, [Shard(1)]))
    assert y.placements == (Shard(-1),) or y.placements == (Shard(2),), y.placements
    want = functional.linear(encoded(x, E4M3), model.gate.weight, model.gate.bias)
    count, rank = dist.get_world_size(), dist.get_rank()
    own = functional.linear(encoded(x, E4M3), model.gate.weight.chunk(count)[rank],
                            model.gate.bias.chunk(count)[rank])
    assert equal([y.to_local()], [own])
    assert distance(y.full_tensor(), want) < 0.01
    return "right"


def zeros():
    """Checks that a rank with a zero slice, or a NaN, does not affect the scale."""
    layer = torch.nn.LayerNorm(WIDTH)
    torch.nn.init.zeros_(layer.weight)
    style = parallelize_module(layer, mesh(), FP8SequenceParallel())
    with torch.no_grad():
        layer.bias.to_local().fill_(1e-3 if dist.get_rank() == 0 else 0.0)
    y = style(part(batch(torch.float32))).decode()
    own = TOKENS // dist.get_world_size()
    assert (y[:, :own] == encoded(torch.full((1,), 1e-3), E4M3)).all() and not y[:, own:].any()
    with torch.no_grad():
        layer.bias.to_local().fill_(torch.nan if dist.get_rank() == 1 else 2.0)
    y = style(part(batch(torch.float32))).decode()
    assert (y[:, :own] == 2).all() and y[:, own:2 * own].isnan().all()
    return "right"


def accumulates():
    """Checks that two passes accumulate and that second derivatives are refused."""
    model = parallel(Block(torch.float32))
    x, dy = part(batch(torch.float32)), part(batch(torch.float32, seed=8))
    model(x).backward(dy)
    once = [p.grad.to_local().clone() for p in model.parameters()]
    model(x).backward(dy)
    assert equal([p.grad.to_local() for p in model.parameters()], [2 * g for g in once])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    optimizer.step()
    with torch.no_grad():
        assert not torch.is_grad_enabled() and model(x).shape == x.shape
    return "right"


def refusals():
    here, count, rank = mesh(), dist.get_world_size(), dist.get_rank()

    def apply(style, module):
        return parallelize_module(module, here, style)

    class Scaled(torch.nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    column = apply(FP8ColwiseParallel(input_layouts=Shard(1)), torch.nn.Linear(8, 8))
    row = apply(FP8RowwiseParallel(output_layouts=Shard(1)), torch.nn.Linear(8 * count, 8))
    whole = apply(FP8ColwiseParallel(), torch.nn.Linear(8, 8 * count))
    x = torch.zeros(2, 4, 8)
    given = {
        "layout": lambda: FP8ColwiseParallel(output_layouts=Replicate()),
        "row layout": lambda: FP8RowwiseParallel(input_layouts=Replicate()),
        "features": lambda: FP8ColwiseParallel(input_layouts=Shard(-1)),
        "dtensor": lambda: FP8SequenceParallel(use_local_output=False),
        "embedding": lambda: apply(FP8ColwiseParallel(), torch.nn.Embedding(8, 8)),
        "subclass": lambda: apply(FP8RowwiseParallel(), Scaled(8, 8)),
        "double": lambda: apply(FP8ColwiseParallel(), torch.nn.Linear(8, 8).double()),
        "out": lambda: apply(FP8ColwiseParallel(), torch.nn.Linear(8, 8 * count + 1)),
        "in": lambda: apply(FP8RowwiseParallel(), torch.nn.Linear(8 * count + 1, 8)),
        "container": lambda: apply(FP8SequenceParallel(),
                                   torch.nn.Sequential(torch.nn.LayerNorm(8))),
        "rows": lambda: row(torch.zeros(2, 4 * count + 1, 8)),
        "uneven": lambda: column(torch.zeros(2, 4 + rank, 8)),
        "matrix": lambda: column(torch.zeros(4, 8)),
        "placement": lambda: column(DTensor.from_local(x, here, [Replicate()])),
        "integers": lambda: whole(x.long()),
    }
    told = {}
    for name, call in given.items():
        try:
            call()
            told[name] = "taken"
        except (TypeError, ValueError, NotImplementedError) as error:
            told[name] = f"{type(error).__name__}: {error}"
    return told
