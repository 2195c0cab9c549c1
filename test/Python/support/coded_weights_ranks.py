#===- coded_weights_ranks.py - Weights gathered as codes -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks in the tests of fp8_all_gather: models whose weights are gathered
# as codes, compared with one process and with uncoded gathers.
#
#===----------------------------------------------------------------------===#
"""Functions that `support.gloo.run_ranks` calls."""

import warnings

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor, init_device_mesh
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import tandem.torch as tt
import tandem.torch.nn as tnn
from tandem.torch.distributed import _collectives, _weight_gather, fp8_all_gather
from support.fsdp2_ranks import gather
from support.gloo import error_text

WIDTH, HIDDEN, ODD = 24, 48, 133
FP8 = {"recipe": "te-current", "products": "fp8"}


class Model(torch.nn.Module):
    """Has layers with 8-bit products, one with rows that do not divide evenly, and one without."""

    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        torch.manual_seed(4)
        self.norm, self.up = torch.nn.LayerNorm(WIDTH), tnn.Linear(WIDTH, HIDDEN, **FP8)
        self.plain, self.odd = torch.nn.Linear(HIDDEN, HIDDEN), tnn.Linear(HIDDEN, ODD, **FP8)
        self.down = tnn.Linear(ODD, WIDTH, bias=False, **FP8)
        self.to(dtype)

    def forward(self, x):
        return self.down(self.odd(self.plain(torch.sigmoid(self.up(self.norm(x))))))


class Gated(torch.nn.Module):
    """A gated block that recomputes the input of its last layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        gate, up = (tnn.Linear(WIDTH, HIDDEN, bias=False, **FP8) for _ in range(2))
        self.block = tnn.GatedMLP(gate, up, tnn.Linear(HIDDEN, WIDTH, bias=False, **FP8),
                                  tnn.SwiGLU(recipe="te-current"), recompute=True)
        self.bfloat16()

    def forward(self, x):
        return self.block(x)


def sharded(model, **options):
    for layer in model.children():
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def coded(model):
    """Returns the same model gathered as codes, and the report."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return fp8_all_gather(model), [str(w.message) for w in caught]


def batch(seed, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(10 * seed + dist.get_rank())
    return torch.randn(4, WIDTH, generator=generator).to(dtype)


def bits(tensors):
    return [int(gather(tensor).long().dot(torch.arange(gather(tensor).numel()) % 8191))
            for tensor in tensors]


@torch.no_grad()
def copied(model, whole):
    """Returns a model in one process with the ranks' weights."""
    for param, value in zip(whole.parameters(), model.parameters(), strict=True):
        param.copy_(value.full_tensor() if isinstance(value, DTensor) else value)
    return whole


#===----------------------------------------------------------------------===#
# Training
#===----------------------------------------------------------------------===#


def train(model, whole=None, steps=3, parts=2, optimizer=None):
    """Returns the bits of all outputs, gradients and weights, and whether outputs match one
    process."""
    optimizer = optimizer or tt.AdamW(model.parameters(), strategy="fp8-lm", lr=0.02,
                                      min_8bit_size=0)
    found, same = [], True
    for step in range(steps):
        for part in range(parts):
            y = model(x := batch(2 * step + part))
            if whole is not None:
                same &= torch.equal(y, copied(model, whole)(x))
            y.float().square().mean().backward()
            found += bits([y])
        found += bits(param.grad for param in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        found += bits(model.parameters())
    return found, same


def training():
    """Compares outputs with one process, and all bits with uncoded gathers."""
    results = {}
    for name, make in (("layers", Model), ("gated", Gated)):
        wide, ours = sharded(make()), sharded(make())
        coded(ours)
        (want, right), (got, same) = train(wide, make()), train(ours, make())
        results[name] = [right, same, got == want]
    return results


def written():
    """Compares all bits of training with operands that steps write, and returns the number of
    weights that ranks encode in four passes after the first step, and those left out."""
    wide, ours, encoded = sharded(Model()), sharded(Model()), [0]
    coded(wide), coded(ours)
    want, _ = train(wide)
    optimizer = tt.AdamW(ours.named_parameters(), strategy="fp8-lm", lr=0.02, min_8bit_size=0)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        operands = tt.write_operands(ours, optimizer)
    encode = _weight_gather.own_scale

    def counting(*given):
        encoded[0] += 1
        return encode(*given)

    _weight_gather.own_scale = counting
    try:
        got, _ = train(ours, optimizer=optimizer)
    finally:
        _weight_gather.own_scale = encode
    return [got == want, encoded[0], operands.names, operands.left]


def of_recipes():
    """Returns which codes, scales and scales of the tensor of a sharded weight, in the storages of
    recipes, differ from those of one process."""
    found = {}
    for recipe in ("nvfp4", "mxfp4", "mxfp8"):
        torch.manual_seed(7)
        whole = torch.nn.Linear(64, 10, bias=False).bfloat16()
        model = fully_shard(torch.nn.Linear(64, 10, bias=False).bfloat16())
        with torch.no_grad():
            model.weight.copy_(distribute_tensor(whole.weight, model.weight.device_mesh,
                                                 model.weight.placements))
        made = []
        for own in (whole, model):
            optimizer = tt.AdamW(own.named_parameters(), strategy="flash-f16", lr=0.02,
                                 min_8bit_size=0)
            operands = tt.write_operands(own, optimizer, recipe)
            grad = torch.randn(10, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
            own.weight.grad = grad if own is whole else distribute_tensor(
                grad, own.weight.device_mesh, own.weight.placements)
            optimizer.step()
            made.append(operands[own.weight])
        rows = compute_local_shape_and_global_offset(
            model.weight.shape, model.weight.device_mesh, model.weight.placements)
        first, count = rows[1][0], rows[0][0]
        want, got = made
        same = [torch.equal(a.view(torch.uint8)[first:first + count], b.view(torch.uint8))
                for a, b in ((want.rows, got.rows), (want.scale, got.scale))]
        if want.tensor_scale is not None:
            same.append(torch.equal(want.tensor_scale, got.tensor_scale))
        found[recipe] = same
    return found


def hybrid():
    """Does the same with replicated shards."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2),
                            mesh_dim_names=("replicate", "shard"))
    wide, ours = sharded(Model(), mesh=mesh), sharded(Model(), mesh=mesh)
    coded(ours)
    return train(ours) == train(wide)


def wide_weights():
    """Uses f32 weights, which are encoded before FSDP2 would round them."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    torch.manual_seed(6)
    whole = tnn.Linear(WIDTH, HIDDEN, **FP8)
    model = tnn.Linear(WIDTH, HIDDEN, **FP8)
    model.load_state_dict(whole.state_dict())
    coded(fully_shard(model, mp_policy=policy))
    y = model(batch(0))
    y.sum().backward()
    return [torch.equal(y, whole(batch(0))), str(model.weight.grad.dtype)]


#===----------------------------------------------------------------------===#
# Communication
#===----------------------------------------------------------------------===#


class Counted:
    """Counts the bytes that a rank passes to FSDP2's all-gather."""

    def __init__(self):
        self.bytes = 0

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        self.bytes += input_tensor.nbytes
        return _collectives._gather(output_tensor, input_tensor, group, async_op)


def bytes_of(model):
    counter = Counted()
    for module in model.modules():
        if hasattr(module, "set_custom_all_gather"):
            module.set_custom_all_gather(counter)
    with torch.no_grad():
        model(batch(0))
    return counter.bytes


def report():
    """Returns the report, the warning, the bytes that a pass gathers, and the numbers of
    all-reduces."""
    wide, ours = sharded(Model()), sharded(Model())
    made, told = coded(ours)
    counts, exchange = [0], _weight_gather.exchange_scales

    def counting(*given):
        counts[0] += 1
        return exchange(*given)

    _weight_gather.exchange_scales = counting
    try:
        found = [bytes_of(wide), bytes_of(ours)]
        ours(batch(0)).sum().backward()
    finally:
        _weight_gather.exchange_scales = exchange
    return {"coded": made.coded, "wide": made.wide, "told": told, "bytes": found,
            "exchanges": counts[0], "text": repr(made)}


#===----------------------------------------------------------------------===#
# Weights that change
#===----------------------------------------------------------------------===#


@torch.no_grad()
def changes():
    """Returns whether outputs match one process after each kind of change to weights."""
    model, whole, found = sharded(Model()), Model(), {}
    coded(model)

    def check(name, call=lambda m, x: m(x)):
        found[name] = torch.equal(call(model, batch(1)).nan_to_num(7.0),
                                  call(copied(model, whole), batch(1)).nan_to_num(7.0))

    check("first")
    model.up.weight.to_local().mul_(3)
    check("written")
    model.up.weight.to_local().mul_(0.25)
    check("a part by itself", lambda m, x: m.up(x))
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()},
                          assign=True)
    check("other tensors")
    model.up.weight.to_local().zero_()
    check("zeros")
    if dist.get_rank() == 0:
        model.down.weight.to_local()[0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    check("a NaN on one rank")
    return found


def values():
    """Returns shape, dtype and approximate norm of a weight that other code reads during a pass."""
    model, found = sharded(Model()), []
    coded(model)
    model.up.register_forward_pre_hook(lambda module, *_: found.append(
        [module.weight.shape == (HIDDEN, WIDTH), str(module.weight.dtype),
         float((module.weight.detach() * 1.0).float().norm())]))
    with torch.no_grad():
        model(batch(0))
    want = model.up.weight.detach().full_tensor().float().norm()
    return found[0][:2] + [abs(found[0][2] / float(want) - 1) < 0.02]


#===----------------------------------------------------------------------===#
# Refusals and uncoded gathers
#===----------------------------------------------------------------------===#


def refusals():
    late = sharded(Model())
    late(batch(0))
    twice = sharded(Model())
    coded(twice)
    plain = torch.nn.Sequential(torch.nn.Linear(WIDTH, HIDDEN).bfloat16())
    return {"late": error_text(lambda: fp8_all_gather(late)),
            "twice": error_text(lambda: fp8_all_gather(twice)),
            "no layer": error_text(lambda: fp8_all_gather(sharded(plain))),
            "no ranks": error_text(lambda: fp8_all_gather(Model()))}


def reasons():
    """Returns why weights are gathered uncoded, by case, and whether the model runs."""
    tied = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), tnn.Linear(WIDTH, WIDTH, **FP8))
    tied[1].weight = tied[0].weight
    columns = torch.nn.Sequential(tnn.Linear(WIDTH, HIDDEN, **FP8))
    divided = torch.nn.Sequential(tnn.Linear(WIDTH, HIDDEN, **FP8))
    size = dist.get_world_size()
    meshes = init_device_mesh("cpu", (1, size), mesh_dim_names=("dp", "tp"))
    parallelize_module(divided, meshes["tp"], {"0": ColwiseParallel()})
    kept = torch.nn.Sequential(tnn.Linear(WIDTH, HIDDEN, **FP8))
    models = {
        "tied": fully_shard(tied.bfloat16()),
        "columns": fully_shard(columns.bfloat16(), shard_placement_fn=lambda param: (
            torch.distributed.tensor.Shard(param.dim() - 1))),
        "divided": fully_shard(divided.bfloat16(), mesh=meshes["dp"]),
    }
    if size == 4:
        models["kept"] = fully_shard(kept.bfloat16(), reshard_after_forward=2)
    return {name: list(coded(model)[0].wide.values()) for name, model in models.items()}
