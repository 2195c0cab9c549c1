#===- test_torch_prodigy.py - Prodigy --------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests Prodigy's estimate of the learning rate, its options, and states of prodigyopt.
# test_torch_numerics.py compares its steps with those of prodigyopt.
#
#===----------------------------------------------------------------------===#

import copy
import math
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import tandem  # noqa: E402
import tandem.torch as tt  # noqa: E402
from support.torch_bits import VISIBLE, dtype_of, parameters  # noqa: E402

STRATEGIES = sorted(name for name in set(VISIBLE) & set(tandem.strategies())
                    if not name.endswith("ratio4"))
#: Strategies whose weights keep no step of 1e-6 times their size.
NARROW = {"bf16", "fp32-optim", "f16-fp32-optim", "bf16-kahan", "collage-light", "collage-plus"}


def problem(dtype):
    """Returns parameters and the minimum of a quadratic loss, at a distance of about 1 in each."""
    generator = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
              for shape in ((64, 80), (130,))]
    return params, [torch.randn(p.shape, generator=generator).to(dtype) for p in params]


def descend(optimizer, params, minimum, steps):
    """Takes steps of the loss, and returns the last one."""
    for _ in range(steps):
        for p, best in zip(params, minimum):
            p.grad = (p.detach().float() - best.float()).to(p.dtype)
        optimizer.step()
    return sum((p.detach().float() - best.float()).square().sum().item()
               for p, best in zip(params, minimum))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_estimates_the_rate_under_every_strategy(strategy):
    """With the rate of the first estimate, 1e-6, the loss would not fall in 100 steps."""
    params, minimum = problem(dtype_of(strategy))
    eps = 1e-6 if strategy.startswith("f16") else 1e-8
    optimizer = tt.Prodigy(params, strategy=strategy, eps=eps)
    first = descend(optimizer, params, minimum, 0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        last = descend(optimizer, params, minimum, 101)
    told = [str(w.message) for w in found if "estimate d is d0 = 1e-06 after 100 steps" in str(w.message)]
    d = optimizer.param_groups[0]["d"]
    if d == 1e-6:
        assert strategy in NARROW and len(told) == 1 and repr(strategy) in told[0]
    else:
        assert not told and last < first
        assert strategy in NARROW or (0.1 < d < 1 and last < 0.01 * first)


def test_prodigyopt_never_moves_bfloat16_weights():
    """The steps of the first estimate are lost in weights of about 1, so that it stays as it is."""
    prodigyopt = pytest.importorskip("prodigyopt")
    params, minimum = problem(torch.bfloat16)
    peer, ours = prodigyopt.Prodigy(params), [torch.nn.Parameter(p.detach().clone()) for p in params]
    optimizer = tt.Prodigy(ours)
    descend(peer, params, minimum, 100)
    descend(optimizer, ours, minimum, 15)
    assert peer.param_groups[0]["d"] == 1e-6
    assert optimizer.param_groups[0]["d"] > 1e-4


def test_all_groups_share_an_estimate():
    """A group that is added later goes on with the estimate of the others."""
    params, minimum = problem(torch.float32)
    optimizer = tt.Prodigy(params[:1], strategy="fp32")
    descend(optimizer, params[:1], minimum, 30)
    optimizer.add_param_group({"params": params[1:], "weight_decay": 0.1})
    first, second = optimizer.param_groups
    assert first["d"] > 1e-3
    for name in ("d", "d_max", "d_numerator", "k"):
        assert first[name] == second[name]
    descend(optimizer, params, minimum, 1)
    assert first["d_numerator"] == second["d_numerator"] and second["k"] == 31


def test_a_rate_of_zero_takes_no_step():
    """A group with lr = 0 keeps weights and states; a warm-up may begin with 0 for all."""
    params, minimum = problem(torch.float32)
    optimizer = tt.Prodigy([{"params": [p]} for p in params], strategy="fp32")
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = [p.detach().clone() for p in params]
    descend(optimizer, params, minimum, 1)
    assert all(map(torch.equal, before, params)) and not optimizer.state
    optimizer.param_groups[0]["lr"] = 1.0
    descend(optimizer, params, minimum, 3)
    assert torch.equal(before[1], params[1]) and not torch.equal(before[0], params[0])
    assert params[1] not in optimizer.state and params[1].grad is not None


def test_a_rate_of_zero_keeps_gradients_in_codes():
    params = parameters([(8, 8), (8, 8)])
    optimizer = tt.Prodigy([{"params": [p]} for p in params], strategy="fp8-lm")
    optimizer.param_groups[1]["lr"] = 0.0
    before = params[1].detach().clone()
    sum((p * p).sum() for p in params).backward()
    want = optimizer.gradient(params[1])
    optimizer.step()
    assert params[0] in optimizer.state and params[1] not in optimizer.state
    assert torch.equal(params[1], before)
    assert optimizer.gradient(params[0]) is None
    assert torch.equal(optimizer.gradient(params[1]), want)


def test_gradients_that_are_not_finite_leave_the_estimate():
    params, minimum = problem(torch.float32)
    optimizer = tt.Prodigy(params, strategy="fp32", skip_nonfinite=True)
    other = tt.Prodigy([torch.nn.Parameter(p.detach().clone()) for p in params], strategy="fp32")
    descend(optimizer, params, minimum, 10)
    descend(other, other.param_groups[0]["params"], minimum, 10)
    running = {name: optimizer.param_groups[0][name] for name in ("d", "d_max", "d_numerator")}
    params[0].grad[0, 0] = math.inf
    optimizer.step()
    assert optimizer.skipped
    other.param_groups[0]["params"][0].grad = params[0].grad.clone()
    with pytest.warns(UserWarning, match="Prodigy keeps its estimate d"):
        other.step()
    for one in (optimizer, other):
        assert {name: one.param_groups[0][name] for name in running} == running


def test_zero_gradients_leave_the_estimate():
    params, _ = problem(torch.float32)
    optimizer = tt.Prodigy(params, strategy="fp32")
    for p in params:
        p.grad = torch.zeros_like(p)
    optimizer.step()
    group = optimizer.param_groups[0]
    assert (group["d"], group["d_numerator"]) == (1e-6, 0.0)
    assert all(torch.isfinite(p).all() for p in params)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o)), None],
                         ids=["deepcopy", "pickle", "state dict"])
def test_copies_go_on_with_the_same_bits(copied):
    params, minimum = problem(torch.bfloat16)
    optimizer = tt.Prodigy(params, strategy="flash-f16")
    descend(optimizer, params, minimum, 20)
    if copied:
        twin = copied(optimizer)
        others = twin.param_groups[0]["params"]
    else:
        others = [torch.nn.Parameter(p.detach().clone()) for p in params]
        twin = tt.Prodigy(others, strategy="flash-f16")
        twin.load_state_dict(optimizer.state_dict())
    descend(optimizer, params, minimum, 5)
    descend(twin, others, minimum, 5)
    assert all(map(torch.equal, params, others))
    assert twin.param_groups[0]["d"] == optimizer.param_groups[0]["d"] > 1e-3


@pytest.mark.parametrize("options", ({}, {"betas": (0.0, 0.99)}, {"beta3": 0.9, "d_coef": 2.0}),
                         ids=["defaults", "without a momentum", "beta3"])
@pytest.mark.parametrize("of_zeros", (False, True))
def test_goes_on_from_a_state_of_prodigyopt(options, of_zeros):
    """prodigyopt keeps one number for first weights that are all 0, and no average with betas[0] = 0."""
    prodigyopt = pytest.importorskip("prodigyopt")
    params, minimum = problem(torch.float32)
    if of_zeros:
        params[1].data.zero_()
    peer = prodigyopt.Prodigy(params, **options)
    descend(peer, params, minimum, 20)
    ours = [torch.nn.Parameter(p.detach().clone()) for p in params]
    optimizer = tt.Prodigy(ours, strategy="fp32", **options)
    optimizer.load_state_dict(peer.state_dict())
    assert optimizer.param_groups[0]["d"] == float(peer.param_groups[0]["d"]) > 1e-6
    descend(peer, params, minimum, 5)
    descend(optimizer, ours, minimum, 5)
    assert optimizer.param_groups[0]["d"] == pytest.approx(float(peer.param_groups[0]["d"]), rel=1e-5)
    for p, q in zip(params, ours):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_parts_of_states_are_refused():
    prodigyopt = pytest.importorskip("prodigyopt")
    params, minimum = problem(torch.float32)
    peer = prodigyopt.Prodigy(params, slice_p=11)
    descend(peer, params, minimum, 1)
    optimizer = tt.Prodigy(params, strategy="fp32")
    with pytest.raises(ValueError, match=r"slice_p=11, which the kernel of Prodigy does not compute"):
        optimizer.load_state_dict(peer.state_dict())
    state = peer.state_dict()
    del state["param_groups"][0]["slice_p"]
    with pytest.raises(ValueError, match=r"for 466 of 5120 elements, as slice_p above 1 keeps it"):
        optimizer.load_state_dict(state)
    assert not optimizer.state


@pytest.mark.parametrize("make, error, message", (
    (lambda p: tt.Prodigy(p, capturable=True), ValueError,
     "does not take capturable: the estimate is computed on the CPU"),
    (lambda p: tt.Prodigy(p, gradient_release=True), ValueError,
     "does not take gradient_release: the estimate is computed from sums"),
    (lambda p: tt.Prodigy(p, beta3=1.0), ValueError, "beta3 of param group 0 is 1.0; it must be"),
    (lambda p: tt.Prodigy(p, d0=0.0), ValueError, "'d0?' of param group 0 is 0"),
    (lambda p: tt.Prodigy([{"params": p, "decouple": False}]), ValueError,
     "decouple=False, which the kernel of Prodigy does not compute; it takes only decouple=True"),
    (lambda p: tt.Prodigy([{"params": p[:1], "lr": 1.0}, {"params": p[1:], "lr": 0.5}]), ValueError,
     r"learning rates \[0.5, 1.0\], but Prodigy estimates one"),
    (lambda p: tt.Prodigy(p, growth_rate=-1.0), ValueError, "'growth_rate' of param group 0 is -1"),
))
def test_refusals(make, error, message):
    params = parameters([(3, 4), (4,)], torch.float32)
    with pytest.raises(error, match=message):
        optimizer = make(params)
        descend(optimizer, params, params, 1)
