#===- test_torch_mars_came.py - MARS and CAME ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the options of MARS and CAME, and that they train under every strategy.
# test_torch_numerics.py compares their steps with those of other libraries.
#
#===----------------------------------------------------------------------===#

import pytest

torch = pytest.importorskip("torch")

import tandem  # noqa: E402
import tandem.torch as tt  # noqa: E402
from support.torch_bits import VISIBLE, dtype_of, parameters, train  # noqa: E402

MAKERS = {"MARS": tt.MARS, "CAME": tt.CAME}
#: Strategies with moments of four bits store a state that these optimizers do not have.
STRATEGIES = sorted(name for name in set(VISIBLE) & set(tandem.strategies())
                    if not name.endswith("ratio4"))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_trains_under_every_strategy(name, strategy):
    """A quadratic loss falls, and parameters without gradients stay finite."""
    generator = torch.Generator().manual_seed(0)
    dtype = dtype_of(strategy)
    params = [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
              for shape in ((64, 80), (130,))]
    idle = torch.nn.Parameter(torch.ones(3, 4, dtype=dtype))
    optimizer = MAKERS[name]([*params, idle], lr=0.02, strategy=strategy, min_8bit_size=0)
    idle.grad = torch.zeros_like(idle)
    first = sum(p.float().square().sum().item() for p in params)
    for _ in range(40):
        for p in params:
            p.grad = p.detach().clone()
        optimizer.step()
    last = sum(p.float().square().sum().item() for p in params)
    assert last < 0.7 * first
    assert torch.isfinite(idle.float()).all()


def rates(**options):
    """Returns how far a matrix and a vector move in the first step."""
    params = [torch.nn.Parameter(torch.zeros(4, 4)), torch.nn.Parameter(torch.zeros(4))]
    optimizer = tt.MARS(params, strategy="fp32", **options)
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    return [-p[0].detach().reshape(-1)[0].item() for p in params]


def test_vectors_have_a_rate_of_their_own():
    assert rates(lr=0.5) == pytest.approx([0.5, 0.5], rel=1e-5)
    assert rates(lr=0.5, lr_1d=0.125) == pytest.approx([0.5, 0.125], rel=1e-5)
    assert rates(lr=0.5, lr_1d=0.125, optimize_1d=True) == pytest.approx([0.5, 0.5], rel=1e-5)


def test_a_scheduler_changes_both_rates():
    optimizer = tt.MARS(parameters([(4, 4), (4,)], torch.float32), lr=0.5, lr_1d=0.25)
    optimizer.param_groups[0]["lr"] = 0.1
    assert optimizer.param_groups[0]["lr_1d_factor"] == 0.5
    train(optimizer, [0])


def authors_dict(params, **options):
    """Returns a state dict as the authors' MARS writes it, whose groups lack the options of vectors."""
    generator = torch.Generator().manual_seed(3)
    states = {at: {"step": 3, **{name: torch.rand(p.shape, generator=generator)
                                 for name in ("exp_avg", "exp_avg_sq", "last_grad")}}
              for at, p in enumerate(params)}
    group = {"lr": 0.01, "betas": (0.95, 0.99), "eps": 1e-8, "weight_decay": 0.0,
             "amsgrad": False, "mars_type": "mars-adamw", "gamma": 0.025, "optimize_1d": False,
             "weight_decay_1d": 0.2, "params": [*range(len(params))]}
    return {"state": states, "param_groups": [group | options]}


def test_loads_states_of_the_authors():
    params = parameters([(4, 4), (4,)], torch.float32)
    optimizer = tt.MARS([{"params": params, "lr_1d_factor": 0.5}], strategy="fp32")
    given = authors_dict(params)
    optimizer.load_state_dict(given)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay_1d"], group["lr_1d_factor"]) == (0.01, 0.2, 0.5)
    for at, p in enumerate(params):
        for name in ("exp_avg", "exp_avg_sq", "last_grad"):
            assert torch.equal(optimizer.state[p][name], given["state"][at][name])
    before = params[1].detach().clone()
    train(optimizer, [0])
    assert not torch.equal(before, params[1])


@pytest.mark.parametrize("options, message", (
    ({"mars_type": "mars-lion"}, "mars_type='mars-lion', which the kernel of MARS does not"),
    ({"amsgrad": True}, "amsgrad=True"), ({"weight_decouple": False}, "weight_decouple=False")))
def test_states_of_other_steps_are_refused(options, message):
    params = parameters([(4, 4), (4,)], torch.float32)
    optimizer = tt.MARS(params, strategy="fp32")
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(authors_dict(params, **options))
    assert not optimizer.state
    optimizer.param_groups[0].update(options)
    with pytest.raises(ValueError, match=message):
        train(optimizer, [0])


@pytest.mark.parametrize("make, error, message", (
    (lambda p: tt.MARS(p, betas_1d=(0.9, 1.0)), ValueError, r"betas_1d of param group 0 is \(0.9, 1.0\)"),
    (lambda p: tt.MARS(p, betas_1d=0.9), ValueError, "it must be a pair of numbers from 0"),
    (lambda p: tt.MARS(p, weight_decay_1d=-1.0), ValueError,
     "weight_decay_1d of param group 0 is -1.0; it must be a number, at least 0"),
    (lambda p: tt.MARS(p, gamma=1.5), ValueError, "gamma of param group 0 is 1.5; it must be from 0"),
    (lambda p: tt.MARS(p, gamma="much"), TypeError, "gamma of param group 0 must be a number"),
    (lambda p: tt.MARS(parameters([(3,)]), lr_1d=-1e-3), ValueError,
     "lr_1d_factor of param group 0 is -0.33.*; it must be a number, at least 0"),
    (lambda p: tt.MARS(p, lr=0.0, lr_1d=1e-3), ValueError, "lr_1d is a multiple of lr, which is 0"),
    (lambda p: tt.MARS([{"params": p, "mars_type": "lion"}]), ValueError,
     "param group 0 has mars_type='lion', which the kernel of MARS does not compute"),
    (lambda p: tt.CAME(p, clip_threshold=0.0), ValueError,
     "'clip_threshold' of param group 0 is 0; it must be above 0"),
    (lambda p: tt.CAME(p, betas=(0.9, 0.99)), TypeError, "betas of param group 0 must be 3 numbers"),
    (lambda p: tt.CAME(p, metrics=True), ValueError, "CAME has no metrics"),
    (lambda p: tt.CAME(parameters([(2, 3, 4)])), ValueError, "updates matrices"),
))
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        train(make(parameters([(3, 4)])), [0])
