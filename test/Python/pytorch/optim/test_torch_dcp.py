#===- test_torch_dcp.py - torch.distributed.checkpoint, one rank -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests optimizers with the functions of torch.distributed.checkpoint, which take an
# empty step and go by the names of parameters.
#
#===----------------------------------------------------------------------===#

import copy

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed here", allow_module_level=True)

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_optimizer_state_dict,
                                                     set_optimizer_state_dict)

import tandem.torch as tt
from support.torch_bits import assert_same_bits, bits

STRATEGIES = ("remainder", "flash-f16", "dither-softsign-root", "fp8-lm")
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def make(strategy, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64, dtype=torch.bfloat16)
                                  for _ in range(2)))
    return model, tt.AdamW(model.named_parameters() if NAMES else model.parameters(), lr=1e-3,
                           strategy=strategy, **options)


NAMES = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6)


def backward(model, seed):
    torch.manual_seed(seed)
    model(torch.randn(4, 64).bfloat16()).float().square().mean().backward()


def train(model, optimizer, seeds):
    for seed in seeds:
        backward(model, seed)
        optimizer.step()
        optimizer.zero_grad()


def assert_alike(one, other):
    for p, q in zip(one.parameters(), other.parameters()):
        assert (bits(p) == bits(q)).all()


@every_strategy
@pytest.mark.parametrize("use", ["get", "set", "state_dict"])
@pytest.mark.parametrize("steps", [0, 2])
def test_a_checkpoint_between_pass_and_step_changes_nothing(strategy, use, steps):
    model, optimizer = make(strategy)
    plain, alone = make(strategy)
    for m, o in ((model, optimizer), (plain, alone)):
        train(m, o, range(steps))
        backward(m, steps)
    if use == "state_dict":
        optimizer.state_dict()
    else:
        state = copy.deepcopy(get_optimizer_state_dict(model, optimizer))
        if use == "set" and steps:
            set_optimizer_state_dict(model, optimizer, state)
    for m, o in ((model, optimizer), (plain, alone)):
        o.step()
        o.zero_grad()
        train(m, o, range(steps + 1, steps + 3))
    assert_alike(model, plain)
    assert [s["step"] for s in optimizer.state.values()] == [steps + 3] * 4


@every_strategy
def test_gradients_of_several_passes_are_kept(strategy):
    model, optimizer = make(strategy)
    plain, alone = make(strategy)
    for m, o in ((model, optimizer), (plain, alone)):
        backward(m, 0)
        if o is optimizer:
            get_optimizer_state_dict(model, optimizer)
        backward(m, 1)
        o.step()
    assert_alike(model, plain)
    optimizer.zero_grad()
    assert optimizer.gradient(model[0].weight) is None


def test_a_first_step_of_zero_gradients_counts_nothing_only_at_rate_0():
    model, optimizer = make("remainder")
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert optimizer.state[model[0].weight]["step"] == 1


@every_strategy
@pytest.mark.parametrize("flat", [False, True])
def test_state_dicts_come_back(strategy, flat, tmp_path):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    model, optimizer = make(strategy)
    train(model, optimizer, range(3))
    saved = {"model": model.state_dict(),
             "optim": get_optimizer_state_dict(model, optimizer, options=options)}
    dcp.save(saved, checkpoint_id=tmp_path, no_dist=True)
    twin, other = make(strategy)
    state = {"model": twin.state_dict(),
             "optim": get_optimizer_state_dict(twin, other, options=options)}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    twin.load_state_dict(state["model"])
    set_optimizer_state_dict(twin, other, state["optim"], options=options)
    for m, o in ((model, optimizer), (twin, other)):
        train(m, o, range(3, 5))
    assert_alike(model, twin)
    assert_same_bits(optimizer, other)


@pytest.mark.parametrize("strategy", ["remainder", "dither-softsign-root"])
def test_early_checkpoints(strategy, tmp_path):
    """Planes were int16 and float8 before version 4, which DCP would cast by value."""
    model, optimizer = make(strategy, min_8bit_size=0)
    train(model, optimizer, range(3))
    with optimizer.early_state_dicts():
        dcp.save({"optim": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=tmp_path,
                 no_dist=True)

    def load(early):
        twin, other = make(strategy, min_8bit_size=0)
        twin.load_state_dict(model.state_dict())
        if early:
            with other.early_state_dicts():
                state = {"optim": get_optimizer_state_dict(twin, other)}
        else:
            state = {"optim": get_optimizer_state_dict(twin, other)}
        dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
        set_optimizer_state_dict(twin, other, state["optim"])
        return other

    with pytest.raises(ValueError, match="has cast '.*' in the state of .*which loses bits; get "
                                         "the state dict to load into inside of optimizer.early"):
        load(early=False)
    assert_same_bits(load(early=True), optimizer)


def test_frozen_parameters_are_named(tmp_path):
    from tandem.torch.optim import _notices

    _notices._given.discard("frozen")
    model, optimizer = make("remainder")
    train(model, optimizer, range(3))
    model[0].weight.requires_grad_(False)
    with pytest.warns(UserWarning, match="parameter 0.* are frozen .* saves|parameter 0.* frozen"):
        state = copy.deepcopy(get_optimizer_state_dict(model, optimizer))
    twin, other = make("remainder")
    twin.load_state_dict(model.state_dict())
    twin[0].weight.requires_grad_(False)
    set_optimizer_state_dict(twin, other, state)
    assert twin[0].weight not in other.state
    twin[0].weight.requires_grad_(True)
    with pytest.warns(UserWarning, match="parameter 0.* starts anew, as after no step, while others "
                                         "have taken 3"):
        train(twin, other, [3])


def test_a_frozen_parameter_keeps_its_state_with_torch_save():
    model, optimizer = make("remainder")
    train(model, optimizer, range(3))
    model[0].weight.requires_grad_(False)
    state = copy.deepcopy(optimizer.state_dict())
    twin, other = make("remainder")
    twin.load_state_dict(model.state_dict())
    twin[0].weight.requires_grad_(False)
    other.load_state_dict(state)
    for m, o in ((model, optimizer), (twin, other)):
        m[0].weight.requires_grad_(True)
        train(m, o, [3])
    assert_alike(model, twin)
