#===- test_torch_notices.py - Training without effect ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests warnings about clipping and training without effect, and the weights that averages
# and other code read while decode_weights is in force.
#
#===----------------------------------------------------------------------===#

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.torch_bits import bits
from tandem.torch.optim import _notices
from tandem.torch.optim.state._absent import AbsentWeight

CODES = {"strategy": "fp8-collage-plus", "min_8bit_size": 0}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Resets all warnings that have been given."""
    monkeypatch.setattr(_notices, "_given", set())


def model_of(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(),
                               torch.nn.Linear(40, 8)).bfloat16()


def train(model, optimizer, steps=2):
    for _ in range(steps):
        model(torch.ones(2, 24, dtype=torch.bfloat16)).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def told(run):
    """Returns the warnings of a run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(warning.message) for warning in caught]


#===----------------------------------------------------------------------===#
# Clipping
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("options, message", [
    (CODES, "strategy 'fp8-collage-plus' stores gradients in codes.*clip_grad_norm_.*"
            "pass max_norm= to the optimizer"),
    ({"gradient_release": True}, "gradient_release=True.*clip_grad_norm_.*"
                                 "p.register_hook, or leave gradient_release out")])
def test_nobody_else_clips(options, message):
    """A process is warned once."""
    def run():
        for model in (model_of(), model_of(1)):
            train(model, tt.AdamW(model.parameters(), **options))

    with pytest.warns(UserWarning, match=message) as caught:
        run()
    assert len(caught) == 1


@pytest.mark.parametrize("options", ({}, {"max_norm": 1.0} | CODES))
def test_clipping_that_works(options):
    model = model_of()
    assert not told(lambda: train(model, tt.AdamW(model.parameters(), **options)))


#===----------------------------------------------------------------------===#
# No gradients
#===----------------------------------------------------------------------===#


def test_no_gradient_ever():
    stale = tt.AdamW(copy.deepcopy(model_of()).parameters())
    model = model_of()
    with pytest.warns(UserWarning, match="no gradient in any of the optimizer's 4 parameters, "
                                         "and trains nothing: no backward pass") as caught:
        train(model, stale)
    assert len(caught) == 1


def test_nothing_requires_a_gradient():
    model = model_of().requires_grad_(False)
    with pytest.warns(UserWarning, match="trains nothing: none of them requires one"):
        tt.AdamW(model.parameters()).step()


@pytest.mark.parametrize("options", ({}, {"gradient_release": True}, CODES))
def test_a_step_without_a_backward_pass(options):
    """After the first gradient, steps without one give no warning."""
    model = model_of()
    model[0].requires_grad_(False)
    optimizer = tt.AdamW(model.parameters(), **options)
    train(model, optimizer, 1)
    assert not told(optimizer.step)


def test_a_rank_without_elements():
    assert not told(tt.AdamW([torch.nn.Parameter(torch.zeros(0, 3))]).step)


#===----------------------------------------------------------------------===#
# Weights that are only in the state
#===----------------------------------------------------------------------===#


@pytest.fixture
def trained():
    """Yields a model, its twin without decode_weights, and the handle that ends it."""
    models = [model_of(), model_of()]
    optimizers = [tt.AdamW(model.parameters(), **CODES) for model in models]
    handle = tt.decode_weights(models[0], optimizers[0])
    for model, optimizer in zip(models, optimizers):
        train(model, optimizer)
    return *models, optimizers[0], handle


def check_same(ones, others):
    for one, other in zip(ones, others, strict=True):
        assert np.array_equal(bits(one), bits(other))


@pytest.mark.parametrize("options", (
    {}, {"multi_avg_fn": torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)}))
def test_averages(trained, options):
    """Averages equal those of the model without decode_weights."""
    model, twin, optimizer, _ = trained
    averages = [torch.optim.swa_utils.AveragedModel(model_of(), **options)
                for _ in range(2)]
    for _ in range(2):
        for average, own in zip(averages, (model, twin)):
            average.update_parameters(own)
    check_same(*(average.module.parameters() for average in averages))
    assert optimizer.live_bytes()["working"] == 0


def test_reads(trained):
    """Reading a weight that does not require a gradient gives its values."""
    model, twin, _, handle = trained
    with torch.no_grad():
        for p, q in zip(model.parameters(), twin.parameters()):
            assert type(p) is AbsentWeight and isinstance(p, torch.nn.Parameter)
            check_same([p.data, p.detach(), p.clone(), p * 2, torch.zeros_like(p).copy_(p)],
                       [q.data, q.detach(), q.clone(), q * 2, q.clone()])
        check_same(torch._foreach_norm(list(model.parameters())),
                   torch._foreach_norm(list(twin.parameters())))
    handle.remove()
    for p, q in zip(model.parameters(), twin.parameters()):
        assert type(p) is torch.nn.Parameter and p.equal(q)


@pytest.mark.parametrize("read", (
    lambda p: p.pow(2).sum(), lambda p: torch.nn.functional.linear(p, p),
    lambda p: sum([p])))
def test_reads_that_need_a_gradient(trained, read):
    with pytest.raises(RuntimeError, match="a weight is in memory only while its own module "
                                           "runs, and gets no gradient from .*whole=.*detach"):
        read(trained[0][0].weight)


def test_writes(trained):
    weight = trained[0][0].weight
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"mul_ would be lost; "
                                                            r"load_state_dict\(\) of the"):
        weight.mul_(2)
    with torch.no_grad(), pytest.raises(RuntimeError, match="__setitem__ would be lost"):
        weight[0] = 1


def test_gradients_of_absent_weights(trained):
    """Autograd treats them like other parameters."""
    model, twin = trained[:2]
    x = torch.ones(2, 24, dtype=torch.bfloat16)
    grads = [torch.autograd.grad(own(x).sum(), list(own.parameters()))
             for own in (model, twin)]
    check_same(*grads)
    seen = []
    model[0].weight.register_hook(seen.append)
    model(x).sum().backward()
    check_same(seen, [grads[1][0]])
