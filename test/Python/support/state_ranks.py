#===- state_ranks.py - States of shards on gloo ranks ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks in the tests of full state dicts, and of gradients that only some
# ranks have.
#
#===----------------------------------------------------------------------===#

import copy

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_optimizer_state_dict,
                                                     set_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import tandem.torch as tt
from support.fsdp2_ranks import Model, _hash, backward, optimizer_of, sharded
from support.gloo import error_text
from tandem.torch._shards import whole_of


def full():
    """Loads a full state dict into an optimizer of one process, and back, under strategies with
    planes of all types, and with tensors that external steps keep."""
    return [_full(strategy) for strategy in ("collage-plus", "remainder", "flash-f16",
                                             "dither-softsign-root", "coat", "fp8-lm")
            ] + [_full("flash-f16", optimizer="SOAP", max_precond_dim=200)]


def _full(strategy, **more):
    def made(model):
        return optimizer_of(model.parameters(), strategy, min_8bit_size=0, **more)

    model, whole = sharded(), Model()
    optimizer = made(model)
    backward(model, 0)
    optimizer.step()
    options = StateDictOptions(full_state_dict=True)
    state = get_optimizer_state_dict(model, optimizer, options=options)
    weights = {name: whole_of(param.detach()) for name, param in model.named_parameters()}
    whole.load_state_dict(weights)
    plain = made(whole)
    set_optimizer_state_dict(whole, plain, copy.deepcopy(state), options=options)
    found = [_hash(optimizer, model), _hash(plain, whole)]
    for way in ({}, {"broadcast_from_rank0": True}):
        other = sharded()
        for param, own in zip(other.parameters(), model.parameters()):
            param.data.copy_(own)
        again = made(other)
        given = copy.deepcopy(state) if not way or dist.get_rank() == 0 else {}
        set_optimizer_state_dict(other, again, given, options=StateDictOptions(
            full_state_dict=True, **way))
        found.append(_hash(again, other))
    wide = dict(tt.weights(plain, whole))
    found.append(all(torch.equal(whole_of(weight), wide[name])
                     for name, weight in tt.weights(optimizer, model)))
    return found


def absent():
    """Gives one rank no gradient of a parameter that is summed over ranks. It counts as zeros."""
    found = {}
    for name, options in (("max_norm", {"strategy": "remainder", "max_norm": 0.1}),
                          ("skip", {"strategy": "remainder", "skip_nonfinite": True})):
        hashes, errors = [], set()
        for fills in (False, True):
            model = sharded()
            optimizer = optimizer_of(model.parameters(), **options)
            for step in range(3):
                optimizer.zero_grad()
                backward(model, step)
                if dist.get_rank() == step % 2:
                    grad = model.first.weight.grad
                    model.first.weight.grad = torch.zeros_like(grad) if fills else None
                errors.add(error_text(optimizer.step))
            hashes.append(_hash(optimizer, model))
        found[name] = hashes[0] == hashes[1] and errors == {"no error"}
    return found


def foreign():
    """Continues a run of torch.optim under several strategies, with the states of one process."""
    found = {}
    model = sharded()
    wide = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(2):
        backward(model, step)
        wide.step()
        wide.zero_grad()
    state = get_optimizer_state_dict(model, wide)
    whole = Model()
    whole.load_state_dict({name: whole_of(p.detach()) for name, p in model.named_parameters()})
    alone = {"state": {name: {key: whole_of(value) if isinstance(value, torch.Tensor) else value
                              for key, value in own.items()}
                       for name, own in state["state"].items()},
             "param_groups": state["param_groups"]}
    for strategy in ("remainder", "flash-f16", "adam8bit", "coat"):
        ours = optimizer_of(model.parameters(), strategy, min_8bit_size=0)
        set_optimizer_state_dict(model, ours, copy.deepcopy(state))
        plain = optimizer_of(whole.parameters(), strategy, min_8bit_size=0)
        plain.load_state_dict(copy.deepcopy(alone))
        found[strategy] = [_hash(ours, model), _hash(plain, whole),
                           sorted({s["step"] for s in ours.state.values()})]
    return found


def begins_at_rate_0():
    """Takes first steps of a warmup from 0, in which one rank's gradients are zeros."""
    found = {}
    for name, options in (("max_norm", {"max_norm": 0.1}), ("nothing", {})):
        model = sharded()
        optimizer = optimizer_of(model.parameters(), "remainder", **options)
        for step in range(3):
            optimizer.param_groups[0]["lr"] = 0.01 * step
            optimizer.zero_grad()
            backward(model, step)
            if dist.get_rank() == 1 and step == 0:
                for param in model.parameters():
                    param.grad.zero_()
            optimizer.step()
        found[name] = sorted({state["step"] for state in optimizer.state.values()})
    return found


def unfreezes():
    """Lets a parameter train after the first step, with a gradient on one rank only."""
    model = sharded()
    model.first.weight.requires_grad_(False)
    optimizer = optimizer_of(model.parameters(), "remainder", max_norm=0.1)
    backward(model, 0)
    optimizer.step()
    optimizer.zero_grad()
    model.first.weight.requires_grad_(True)
    backward(model, 1)
    if dist.get_rank() == 1:
        model.first.weight.grad = None
    return error_text(optimizer.step)


def converts_states_of_some():
    """Converts a state that only one rank has."""
    model = sharded()
    optimizer = optimizer_of(model.parameters(), "remainder")
    backward(model, 0)
    if dist.get_rank() == 1:
        model.first.weight.grad = None
    optimizer.step()
    other = optimizer_of(model.parameters(), "flash")
    return error_text(lambda: other.load_state_dict(optimizer.state_dict()))


def experts_apart():
    """Clips by the norm of dense weights on a mesh of all ranks, and of a weight that each rank has
    on a mesh of its own: an expert, or a replica."""
    found = []
    rows = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("ep", "dp"))
    for is_expert in (True, False):
        model = sharded()
        torch.manual_seed(dist.get_rank() if is_expert else 7)
        weight = torch.nn.Parameter(distribute_tensor(torch.randn(8, 8).bfloat16(), rows["dp"],
                                                      [Shard(0)], src_data_rank=None))
        optimizer = optimizer_of([*model.parameters(), weight], "remainder", max_norm=0.1)
        backward(model, 0)
        weight.grad = torch.ones_like(weight)
        found.append(error_text(optimizer.step))
    return found
