#===- fsdp2_ranks.py - Optimizers of DTensors ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks of test_torch_fsdp2.py: training under fully_shard, compared with
# one process that gets the same reduced gradients.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import copy
import json
import os
import random
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict,
                                                     get_optimizer_state_dict,
                                                     set_model_state_dict,
                                                     set_optimizer_state_dict)
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import (DeviceMesh, DTensor, Replicate, Shard, distribute_tensor,
                                      init_device_mesh)
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)

import tandem.torch as tt
from model.codes import FloatCode, MinifloatCode, PairCode, RootCode
from model.strategies import Strategy
from model.scaled import ROW, Scaled
from model.storage import Master, Plain
from support.delayed import with_delayed_gradients
from support.fsdp2_cases import CASES, SIZES
from support.gloo import error_text
from support.kernels import write_strategies
from tandem.torch import _exchange


class Model(torch.nn.Module):
    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.norm, self.last = (
            torch.nn.Linear(SIZES[0], SIZES[1]), torch.nn.LayerNorm(SIZES[1]),
            torch.nn.Linear(SIZES[1], SIZES[2]))
        self.to(dtype)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


def optimizer_of(params, strategy, optimizer="AdamW", head_dim=None, **options):
    """Returns an optimizer. With `head_dim`, the parameters of the last layer are in a group with
    this option."""
    if head_dim:
        others, last = [], []
        for param in params:
            (last if len(param) == SIZES[2] else others).append(param)
        params = [{"params": others}, {"params": last, "head_dim": head_dim}]
    return getattr(tt, optimizer)(params, strategy=strategy, lr=0.01, **options)


def gather(tensor):
    """Returns all bits of a tensor on every rank; gloo supports few dtypes."""
    if not isinstance(tensor, DTensor):
        return tensor.detach().reshape(-1).view(torch.uint8)
    local = tensor.to_local().detach().contiguous()
    if all(placement.is_replicate() for placement in tensor.placements):
        return local.reshape(-1).view(torch.uint8)
    shape, size = tensor.shape, local.element_size()
    stride = torch.empty(*shape, size, device="meta").stride()
    bits = local.view(torch.uint8).reshape(*local.shape, size)
    return DTensor.from_local(bits, tensor.device_mesh, tensor.placements, run_check=False,
                              shape=torch.Size([*shape, size]), stride=stride
                              ).full_tensor().reshape(-1)


def differences(model, optimizer, whole, reference):
    """Returns the weights and state planes that differ from those of one process."""
    found = []
    for (name, param), want in zip(model.named_parameters(), whole.parameters()):
        if not torch.equal(gather(param), gather(want)):
            found.append(name)
        for key, value in reference.state[want].items():
            own = optimizer.state[param][key]
            same = (torch.equal(gather(own), gather(value)) if isinstance(value, torch.Tensor)
                    else own == value)
            found += [] if same else [f"{name} {key}"]
    return found


def backward(model, step, part=0):
    """Computes the loss of this rank's part of a batch and its gradients."""
    generator = torch.Generator().manual_seed(100 * step + 10 * part + dist.get_rank())
    x = torch.randn(4, SIZES[0], generator=generator)
    model(x.to(next(model.parameters()).dtype)).float().square().mean().backward()


def train(model, strategy, steps=3, clips=False, parts=1, dtype=torch.bfloat16, **options):
    """Trains on the ranks and in one process, which gets the reduced gradients."""
    whole = Model(dtype)
    optimizer = optimizer_of(model.parameters(), strategy, **options)
    reference = optimizer_of(whole.parameters(), strategy, **options)
    for step in range(steps):
        for part in range(parts):
            backward(model, step, part)
        if clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        for param, want in zip(model.parameters(), whole.parameters()):
            want.grad = param.grad.full_tensor() if isinstance(param.grad, DTensor) else param.grad
        for each in (optimizer, reference):
            each.step()
            each.zero_grad()
    found = differences(model, optimizer, whole, reference)
    if options.get("ema_decay") or options.get("optimizer") == "AdamWScheduleFree":
        pairs = zip(tt.averages(optimizer), tt.averages(reference))
        found += [f"average of {name}" for (name, own), (_, want) in pairs
                  if not torch.equal(gather(own), gather(want))]
        with tt.averaged_weights(optimizer), tt.averaged_weights(reference):
            found += [f"shown {part}" for part in differences(model, optimizer, whole, reference)]
    if options.get("max_norm") and optimizer.grad_norm != reference.grad_norm:
        found.append("the norm of gradients")
    if options.get("optimizer") == "Prodigy" and not (
            options["d0"] < optimizer.param_groups[0]["d"] == reference.param_groups[0]["d"]):
        found.append("the estimate")
    if options.get("metrics") and optimizer.metrics() != reference.metrics():
        found.append("metrics")
    return found


def outcome(make, strategy, **options):
    """Returns the parts whose bits differ from one process, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return train(make(), strategy, **options)
        except Exception as error:
            return f"{type(error).__name__}: {error}"


#===----------------------------------------------------------------------===#
# FSDP2
#===----------------------------------------------------------------------===#


def sharded(dtype=torch.bfloat16, **options):
    model = Model(dtype)
    for layer in (model.first, model.last):
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def fsdp2():
    return {name: outcome(sharded, strategy, **options)
            for name, (strategy, options) in CASES.items()}


def wide():
    """Trains f32 parameters with gradients that are reduced in f32."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return outcome(lambda: sharded(torch.float32, mp_policy=policy), "fp32", dtype=torch.float32)


#===----------------------------------------------------------------------===#
# Meshes of two dimensions
#===----------------------------------------------------------------------===#


def hybrid_model():
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2),
                            mesh_dim_names=("replicate", "shard"))
    return sharded(mesh=mesh)


def hybrid():
    names = ("collage-plus", "coat", "max_norm, scales", "scales of tensors", "Adafactor")
    return {name: outcome(hybrid_model, CASES[name][0], **CASES[name][1]) for name in names}


def tensor_parallel_model():
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    model = Model()
    parallelize_module(model, mesh["tp"], {
        "first": ColwiseParallel(output_layouts=Replicate()),
        "last": RowwiseParallel(input_layouts=Replicate())})
    return fully_shard(model, mesh=mesh["dp"])


def tensor_parallel():
    names = ("collage-plus", "flash", "coat", "random bits", "max_norm", "max_norm, scales",
             "scales of tensors", "metrics", "LAMB", "Adafactor", "Adafactor, scales")
    return {name: outcome(tensor_parallel_model, CASES[name][0], **CASES[name][1])
            for name in names}


def meshes_disagree():
    """Gives the last rank a different learning rate, and then a NaN in its part of a matrix that
    both mesh dimensions divide. Returns the error, whether the second step was skipped, and
    whether weights are unchanged."""
    model = tensor_parallel_model()
    optimizer = optimizer_of(model.parameters(), "collage-plus", max_norm=1.0, skip_nonfinite=True)
    backward(model, 0)
    before = [gather(param).clone() for param in model.parameters()]
    is_last = dist.get_rank() == dist.get_world_size() - 1
    optimizer.param_groups[0]["lr"] = 0.5 if is_last else 0.01
    error = error_text(optimizer.step)
    optimizer.param_groups[0]["lr"] = 0.01
    if is_last:
        model.last.weight.grad._local_tensor[0, 0] = torch.nan
    optimizer.step()
    return [error, optimizer.skipped,
            all(torch.equal(gather(p), old) for p, old in zip(model.parameters(), before))]


def groups_made():
    """Returns the number of process groups that a step creates for a parameter that both mesh
    dimensions divide: none if ranks exchange nothing, since some may not take that step."""
    mesh, found = init_device_mesh("cpu", (2, dist.get_world_size() // 2)), []
    made, dist.new_group = dist.new_group, lambda *args, **options: (
        found.append(1), made(*args, **options))[1]
    counts = []
    try:
        for options in ({}, {"max_norm": 1.0}):
            value = torch.ones(24, 3).bfloat16()
            param = torch.nn.Parameter(distribute_tensor(value, mesh, [Shard(0), Shard(0)]))
            param.grad = param.detach().clone()
            optimizer_of([param], "collage-plus", **options).step()
            counts.append(len(found))
    finally:
        dist.new_group = made
    return counts


def outside():
    """Trains a parameter whose mesh contains only the first rank."""
    value = torch.ones(4, 3).bfloat16()
    param = torch.nn.Parameter(distribute_tensor(value, DeviceMesh("cpu", [0]), [Shard(0)]))
    return error_text(lambda: optimizer_of([param], "collage-plus", max_norm=1.0))


#===----------------------------------------------------------------------===#
# Checkpoints
#===----------------------------------------------------------------------===#

KEPT = {"plain": ("collage-plus", {}), "groups": ("coat", {"min_8bit_size": 0}),
        "tensors": ("fp8-lm", {"min_8bit_size": 0}), "f32": ("master-weights", {})}


def _folder(name):
    return str(Path(sys.argv[-1]).parent / name)


def _hash(optimizer, model):
    """Returns a number computed from all bits of the states."""
    total = 0
    for param in model.parameters():
        for name, value in sorted(optimizer.state[param].items()):
            bits = gather(value) if isinstance(value, torch.Tensor) else torch.tensor([value])
            weights = torch.arange(1, len(bits) + 1) % 9973
            total = (total * 31 + int((bits.long() * weights).sum())) % 2**61
    return total


def save():
    """Trains, and saves states with torch.distributed.checkpoint."""
    found = {}
    for name, (strategy, options) in KEPT.items():
        model = sharded()
        optimizer = optimizer_of(model.parameters(), strategy, **options)
        for step in range(2):
            backward(model, step)
            optimizer.step()
            optimizer.zero_grad()
        dcp.save({"optim": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=_folder(name))
        found[name] = _hash(optimizer, model)
    return found


def load(make=sharded):
    """Loads the states into a new optimizer on different ranks."""
    found = {}
    for name, (strategy, options) in KEPT.items():
        model = make()
        optimizer = optimizer_of(model.parameters(), strategy, **options)
        before = [gather(param) for param in model.parameters()]
        state = {"optim": get_optimizer_state_dict(model, optimizer)}
        # Its empty step does not change weights.
        assert all(torch.equal(gather(p), b) for p, b in zip(model.parameters(), before))
        dcp.load(state, checkpoint_id=_folder(name))
        set_optimizer_state_dict(model, optimizer, state["optim"])
        found[name] = _hash(optimizer, model)
        backward(model, 5)
        optimizer.step()
    return found


def load_plain():
    """Loads the states into plain parameters of one process."""
    return load(Model)


def empty_step():
    """Returns the states that get_optimizer_state_dict creates. Training continues with the same
    bits, except for the names in the result."""
    found = []
    for strategy in ("collage-plus", "coat", "fp8-collage-plus", "fp8-lm", "bf16-stochastic"):
        runs = []
        for looks in (False, True):
            model = sharded()
            optimizer = optimizer_of(model.parameters(), strategy, min_8bit_size=0)
            before = [gather(param).clone() for param in model.parameters()]
            state = get_optimizer_state_dict(model, optimizer) if looks else None
            if state and (state["state"]["first.weight"].get("step", 0)
                          or not all(torch.equal(gather(param), b) for param, b
                                     in zip(model.parameters(), before))):
                found.append(f"{strategy}: a trace at once")
            _trained(2, 0, model, optimizer)
            weights = [int(gather(param).long().sum()) for param in model.parameters()]
            runs.append([_hash(optimizer, model), weights])
        found += [strategy] if runs[0] != runs[1] else []
    return found


def refusals():
    """Returns the errors for states that do not fit, and for writing to those of an empty step."""
    model, optimizer = _trained(1)
    state, params = get_optimizer_state_dict(model, optimizer), list(model.parameters())
    plain = Model()
    alone = optimizer_of(plain.parameters(), "coat", min_8bit_size=0, max_norm=0.5)
    for param in plain.parameters():
        param.grad = torch.ones_like(param)
    alone.step()
    other = sharded()
    other_strategy = optimizer_of(other.parameters(), "adam8bit", max_norm=0.5)
    in_place = optimizer_of(other.parameters(), "coat", min_8bit_size=0, max_norm=0.5)
    begun = get_optimizer_state_dict(other, in_place)
    dcp.save({"optim": state}, checkpoint_id=_folder("coat"))
    dcp.load({"optim": begun}, checkpoint_id=_folder("coat"))
    backward(other, 0)
    return {
        "strategy": error_text(lambda: set_optimizer_state_dict(other, other_strategy, state)),
        "kept": other_strategy.param_groups[0]["strategy"],
        "plain": error_text(lambda: alone.load_state_dict(optimizer.state_dict())),
        "spread": error_text(lambda: optimizer.load_state_dict(alone.state_dict())),
        "in place": error_text(in_place.step),
        "bitsandbytes": error_text(lambda: tt.to_bitsandbytes(optimizer.state_dict(), params)),
    }


def convert_while_loading():
    """Loads a checkpoint's state dict under another strategy, and changes the optimizer's
    strategy."""
    model, optimizer = _trained(2)
    state, values = tt.convert_state(
        get_optimizer_state_dict(model, optimizer), model.parameters(), "adam8bit")
    other = sharded()
    for param, value in zip(other.parameters(), values):
        param.data.copy_(value)
    loaded = optimizer_of(other.parameters(), "adam8bit", min_8bit_size=0, max_norm=0.5)
    set_optimizer_state_dict(other, loaded, state)
    tt.change_strategy(optimizer, "adam8bit")
    return [_hash(*reversed(_trained(1, 2, *pair)))
            for pair in ((model, optimizer), (other, loaded))]


def offload():
    """Trains with shards that FSDP2 offloads to the CPU, which has them here anyway."""
    policy = CPUOffloadPolicy(pin_memory=False)
    return {name: outcome(lambda: sharded(offload_policy=policy), CASES[name][0], **CASES[name][1])
            for name in ("coat", "max_norm", "weights in codes")}


def convert():
    """Changes strategies between steps, compared with one process."""
    found = {}
    for before, after in (("coat", "collage-plus"), ("collage-plus", "adam8bit"),
                          ("fp8-lm", "coat")):
        model, whole = sharded(), Model()
        pair = [(m, optimizer_of(m.parameters(), before, min_8bit_size=0)) for m in (model, whole)]
        for step in range(4):
            backward(model, step)
            for param, want in zip(model.parameters(), whole.parameters()):
                want.grad = param.grad.full_tensor()
            for _, optimizer in pair:
                optimizer.step()
                optimizer.zero_grad()
                if step == 1:
                    tt.change_strategy(optimizer, after)
        found[after] = differences(model, pair[0][1], whole, pair[1][1])
    return found


def gradient_scales():
    """Finds gradients with an element that is encoded differently under the scale of a rank's
    rows and that of the tensor. The seeds are those of 60 that show it on two ranks."""
    found, mesh = [], init_device_mesh("cpu", (dist.get_world_size(),))
    for seed in (39, 51, 58):
        generator = torch.Generator().manual_seed(seed)
        value = torch.randn(62, 40, generator=generator).bfloat16()
        want, param = (torch.nn.Parameter(tensor) for tensor in (
            value.clone(), distribute_tensor(value, mesh, [Shard(0)])))
        options = {"max_norm": 1.0} if seed % 2 else {}
        pair = [optimizer_of([p], "fp8-lm", min_8bit_size=0, **options) for p in (want, param)]
        for _ in range(2):
            want.grad = torch.randn(62, 40, generator=generator).bfloat16()
            param.grad = distribute_tensor(want.grad, mesh, [Shard(0)])
            for optimizer in pair:
                optimizer.step()
        found += _planes_that_differ(pair[1].state[param], pair[0].state[want])
    return found


def joined_rows():
    """Changes strategies of a parameter whose rows are shorter than a group, so that several
    share scales."""
    whole = torch.randn((64, 9), generator=torch.Generator().manual_seed(3)).bfloat16()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    param, want = (torch.nn.Parameter(value) for value in (
        distribute_tensor(whole, mesh, [Shard(0)]), whole.clone()))
    pair = [(p, optimizer_of([p], "adam8bit", min_8bit_size=0)) for p in (param, want)]
    for step in range(3):
        want.grad = (whole * (step + 0.5)).roll(step)
        param.grad = distribute_tensor(want.grad, mesh, [Shard(0)])
        for _, optimizer in pair:
            optimizer.step()
            if step < 2:
                tt.change_strategy(optimizer, ("coat", "adam8bit")[step])
    shape = pair[0][1].state[param]["exp_avg.scale"].shape
    same = [name for name, value in pair[1][1].state[want].items()
            if name == "step" or torch.equal(gather(pair[0][1].state[param][name]), gather(value))]
    return [torch.equal(gather(param), gather(want)), list(shape), len(same)]


def flat():
    """Loads a flat state dict over several optimizers' parameters; one of another graph is
    refused."""
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    model, optimizer = _trained(2)
    state = get_optimizer_state_dict(model, optimizer, options=options)
    other = sharded()
    again = optimizer_of(other.parameters(), "coat", min_8bit_size=0, max_norm=0.5)
    set_optimizer_state_dict(other, again, state, options=options)
    graph = optimizer_of(other.parameters(), "coat", min_8bit_size=0)
    return [_hash(optimizer, model), _hash(again, other),
            error_text(lambda: set_optimizer_state_dict(other, graph, state, options=options))]


def copies():
    """Takes the same steps with a copy of an optimizer on separate weights."""
    found = []
    for strategy in ("collage-plus", "fp8-lm", "adam8bit"):
        model = sharded()
        optimizer = optimizer_of(model.parameters(), strategy, min_8bit_size=0)
        for step in range(2):
            backward(model, step)
            optimizer.step()
            if step == 0:
                optimizer.zero_grad()
        copied = copy.deepcopy(optimizer)
        params = copied.param_groups[0]["params"]
        for own, param in zip(params, model.parameters(), strict=True):
            same = isinstance(own, torch.nn.Parameter) and torch.equal(gather(own), gather(param))
            found += [] if same and own is not param else [f"{strategy}: another weight"]
        before = [gather(param).clone() for param in model.parameters()]
        if params[0].grad is None:  # coded gradients are released
            for own, param in zip(params, model.parameters()):
                own.grad, param.grad = param.detach().clone(), param.detach().clone()
        copied.step()
        if not all(torch.equal(gather(p), b) for p, b in zip(model.parameters(), before)):
            found.append(f"{strategy}: the step was the original's")
        optimizer.step()
        for own, param in zip(params, model.parameters()):
            states = zip(copied.state[own].values(), optimizer.state[param].values(), strict=True)
            if not torch.equal(gather(own), gather(param)) or not all(
                    torch.equal(gather(a), gather(b)) if isinstance(a, torch.Tensor) else a == b
                    for a, b in states):
                found.append(f"{strategy}: another step")
    return found


def _trained(steps, first=0, model=None, optimizer=None):
    model = model or sharded()
    optimizer = optimizer or optimizer_of(model.parameters(), "coat", min_8bit_size=0, max_norm=0.5)
    for step in range(first, first + steps):
        backward(model, step)
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def crash():
    """Saves after two steps; then rank 1 dies in the third. This must be the last function of
    the ranks, which write their results themselves."""
    folder, results = Path(sys.argv[-1]), {}
    model, optimizer = _trained(4)
    results["uninterrupted"] = _hash(optimizer, model)
    model, optimizer = _trained(2)
    dcp.save({"optim": get_optimizer_state_dict(model, optimizer),
              "model": get_model_state_dict(model)}, checkpoint_id=_folder("crash"))
    backward(model, 2)
    before = [param.to_local().clone() for param in model.parameters()]
    if dist.get_rank() == 1:
        (folder / "1.json").write_text(json.dumps({"crash": results}))
        _exchange.Exchange.__call__ = lambda *_: os._exit(0)
    try:
        optimizer.step()
        results["error"] = "none"
    except Exception as error:
        results["error"] = type(error).__name__
    results["untouched"] = all(torch.equal(param.to_local(), old)
                               for param, old in zip(model.parameters(), before))
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps({"crash": results}))
    os._exit(0)


def resume():
    """Resumes from the checkpoint."""
    model, optimizer = _trained(0)
    state = {"optim": get_optimizer_state_dict(model, optimizer),
             "model": get_model_state_dict(model)}
    dcp.load(state, checkpoint_id=_folder("crash"))
    set_model_state_dict(model, state["model"])
    set_optimizer_state_dict(model, optimizer, state["optim"])
    return _hash(*reversed(_trained(2, 2, model, optimizer)))


#===----------------------------------------------------------------------===#
# Random meshes and placements
#===----------------------------------------------------------------------===#

STRATEGIES = ("collage-plus", "coat", "bf16-stochastic", "fp8-lm", "flash", "adam8bit")


def _random_meshes(rng):
    """Returns a mesh of all ranks, or this one, its separate dimensions and one of another
    shape."""
    size = dist.get_world_size()
    shapes = [(size,)] + [(n, size // n) for n in range(2, size) if size % n == 0]
    shape = rng.choice(shapes)
    names = ("a", "b")[:len(shape)]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    if rng.random() < 0.5:
        return [mesh]
    return [mesh, *(mesh[name] for name in names), init_device_mesh("cpu", (1, size))]


def _random_run(seed):
    """Takes one or two steps of random parameters with random placements; returns the
    differences from one process, or the reason for a refusal."""
    rng = random.Random(seed)
    meshes = _random_meshes(rng)
    strategy = rng.choice(STRATEGIES)
    options = {"min_8bit_size": rng.choice((0, 4096))}
    if rng.random() < 0.5:
        options["max_norm"] = 1.0
    generator = torch.Generator().manual_seed(seed)
    params, wholes = [], []
    columns = rng.random() < 0.2
    for _ in range(rng.randint(1, 4)):
        mesh = rng.choice(meshes)
        placements = [rng.choice((Shard(0), Shard(0), Replicate())) for _ in range(mesh.ndim)]
        if columns:
            placements[-1] = Shard(1)
        matrix = rng.random() < 0.7 or columns
        rows = rng.choice((1, 2, rng.randint(1, 70)))
        shape = (rows, rng.choice((7, 16, 40, 128, 300))) if matrix else (
            rng.choice((1, rng.randint(1, 600))),)
        value = torch.randn(shape, generator=generator).bfloat16()
        wholes.append(torch.nn.Parameter(value.clone()))
        params.append(torch.nn.Parameter(distribute_tensor(value, mesh, placements)))
    try:
        optimizer = optimizer_of(params, strategy, **options)
    except ValueError as error:
        return f"refused: {error}"
    reference = optimizer_of(wholes, strategy, **options)
    for _ in range(2):
        for param, whole in zip(params, wholes):
            whole.grad = torch.randn(whole.shape, generator=generator).bfloat16()
            param.grad = distribute_tensor(whole.grad, param.device_mesh, param.placements)
        optimizer.step()
        reference.step()
    return [i for i, (param, whole) in enumerate(zip(params, wholes))
            if not torch.equal(gather(param), gather(whole))
            or any(not torch.equal(gather(optimizer.state[param][name]), gather(value))
                   for name, value in reference.state[whole].items()
                   if isinstance(value, torch.Tensor))]


def random_runs():
    first = 1000 * dist.get_world_size()
    return {str(seed): _random_run(seed) for seed in range(first, first + 25)}


#===----------------------------------------------------------------------===#
# Shapes and granularities of scales
#===----------------------------------------------------------------------===#

E4M3 = FloatCode("f8E4M3FN")
#: Scales of rows and blocks, and of groups with two lengths in one strategy.
SCALED = {
    "rows": Strategy(Plain("bf16"), Master("bf16"), Scaled(E4M3, ROW, "f32"),
                     Scaled(RootCode(), ROW, "bf16")),
    "blocks": Strategy(Plain("bf16"), Plain("bf16"), Scaled(E4M3, 16, "f32", rows=16),
                       Scaled(E4M3, 16, "bf16", rows=16)),
    "two lengths": Strategy(Plain("bf16"), Plain("bf16"), Scaled(E4M3, 32, "f32"),
                            Scaled(RootCode(), 128, "bf16")),
    "two levels": Strategy(Plain("bf16"), Plain("bf16", "dither"), *2 * [Scaled(
        MinifloatCode(2, 1, specials="none", rounding="dither"), 16, "f8E4M3FN",
        tensor_scale=True)]),
    "codes": Strategy(Scaled(E4M3, ROW, "f32"), Scaled(PairCode("f8E4M3FN"), 32, "f32", rows=32),
                      Scaled(E4M3, ROW, "f32"), Scaled(RootCode(), 128, "f32")),
}
SHAPES = [(17,), (1,), (512,), (40, 33), (64, 48), (64, 9), (6, 5, 3, 3), (1, 7), (7, 1), (4, 50)]


def _planes_that_differ(state, reference):
    """Returns the names of planes whose bits or global shape differ from one process, or whose
    shards torch would cut differently."""
    found = []
    for name, want in reference.items():
        own = state[name]
        if not isinstance(want, torch.Tensor):
            found += [name] * (own != want)
            continue
        piece, _ = compute_local_shape_and_global_offset(own.shape, own.device_mesh,
                                                         own.placements)
        if (own.shape != want.shape or piece != own.to_local().shape
                or not torch.equal(gather(own), gather(want))):
            found.append(name)
    return found


def _shape_run(shape, path, first, then):
    """Takes four steps of one parameter, changing its strategy; returns the differences."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    generator = torch.Generator().manual_seed(7)
    value = torch.randn(shape, generator=generator).bfloat16()
    want, param = (torch.nn.Parameter(tensor) for tensor in (
        value.clone(), distribute_tensor(value, mesh, [Shard(0)])))
    reference, optimizer = (optimizer_of([p], first, path=path, min_8bit_size=0)
                            for p in (want, param))
    for step in range(4):
        want.grad = torch.randn(shape, generator=generator).bfloat16()
        param.grad = distribute_tensor(want.grad, mesh, [Shard(0)])
        for each in (reference, optimizer):
            each.step()
            if step == 1:
                tt.change_strategy(each, then)
    found = _planes_that_differ(optimizer.state[param], reference.state[want])
    return found + ["param"] * (not torch.equal(gather(param), gather(want)))


def granularities():
    """Returns the planes that differ after steps under each storage, followed by another one."""
    names = [*SCALED, "coat", "adam8bit", "flash"]
    with tempfile.TemporaryDirectory() as folder:
        write_strategies(Path(folder), SCALED)
        runs = [(shape, first, then) for shape in SHAPES
                for first, then in zip(names, names[3:] + names[:3])]
        return {f"{shape} {first} {then}": found for shape, first, then in runs
                if (found := _shape_run(shape, [folder], first, then))}


#===----------------------------------------------------------------------===#
# Ranks that differ
#===----------------------------------------------------------------------===#


def disagree():
    """Gives one rank different hyperparameters or no gradient, where all ranks reduce together."""
    found = []
    for case in ("lr", "gradient"):
        model = sharded()
        optimizer = optimizer_of(model.parameters(), "collage-plus", max_norm=1.0)
        backward(model, 0)
        if dist.get_rank() == 1 and case == "lr":
            optimizer.param_groups[0]["lr"] = 0.5
        if dist.get_rank() == 1 and case == "gradient":
            model.norm.bias.grad = None
        try:
            optimizer.step()
            found.append("no error")
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def no_gradient():
    """Gives one rank no gradient. All ranks get an error if a step gathers the parameter or if
    they encode it under one scale; if each rank updates its rows separately, only that rank's
    rows stay."""
    found = {}
    for name, strategy in (("gathered", "fp8-collage-plus"), ("encoded", "fp8-lm"),
                           ("by itself", "collage-plus")):
        model = sharded()
        optimizer = optimizer_of(model.parameters(), strategy, min_8bit_size=0)
        backward(model, 0)
        before = [param.to_local().clone() for param in model.parameters()]
        if dist.get_rank() == 1:
            model.first.bias.grad = None
        found[name] = [error_text(optimizer.step), [
            key for (key, param), old in zip(model.named_parameters(), before)
            if torch.equal(param.to_local(), old)]]
    return found


def nan_on_one_rank():
    """Sets one element in one rank's shard to NaN. Returns whether all ranks skip the step, and
    whether it leaves weights and states unchanged, also with delayed scales of gradients."""
    found = {"plain": _skipped_step("collage-plus")}
    for strategy in ("bf16-dither", "fp8-lm-delayed"):
        with tempfile.TemporaryDirectory() as folder:
            name = with_delayed_gradients(Path(folder), strategy)
            found[strategy] = _skipped_step(name, path=[folder])
    return found


def _skipped_step(strategy, **options):
    """Returns whether a step was skipped, and whether weights and states are unchanged."""
    model = sharded()
    optimizer = optimizer_of(model.parameters(), strategy, skip_nonfinite=True, **options)
    backward(model, 0)
    optimizer.step()
    optimizer.zero_grad()
    backward(model, 1)
    before = [(gather(param), copy.deepcopy(dict(optimizer.state[param])))
              for param in model.parameters()]
    if dist.get_rank() == 0:
        model.first.weight.grad.to_local()[0, 0] = torch.nan
    optimizer.step()
    same = all(torch.equal(gather(param), weight)
               and _planes_that_differ(optimizer.state[param], state) == []
               for param, (weight, state) in zip(model.parameters(), before))
    return [optimizer.skipped, same]


def other_placements():
    """Uses a gradient whose placement differs from its parameter's."""
    model = sharded()
    optimizer = optimizer_of(model.parameters(), "collage-plus")
    backward(model, 0)
    grad = model.first.weight.grad
    model.first.weight.grad = DTensor.from_local(
        grad.full_tensor()[:, :grad.shape[1]], grad.device_mesh, [Replicate()], run_check=False)
    try:
        optimizer.step()
    except RuntimeError as error:
        return str(error)
    return "no error"


def all_reduce():
    """Sums the gradients of an optimizer of DTensors."""
    model = sharded()
    try:
        tt.GradientAllReduce(optimizer_of(model.parameters(), "fp8-lm"))
    except TypeError as error:
        return str(error)
    return "no error"


def columns():
    """Shards the columns of a large matrix with scales of groups within rows."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.zeros(1024, 512, dtype=torch.bfloat16)
    param = torch.nn.Parameter(torch.distributed.tensor.distribute_tensor(whole, mesh, [Shard(1)]))
    try:
        optimizer_of([param], "coat")
    except ValueError as error:
        return str(error)
    return "no error"
