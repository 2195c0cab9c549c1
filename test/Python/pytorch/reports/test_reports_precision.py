#===- test_reports_precision.py - Reports about precision ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tries what users of other optimizers reported about updates that are lost, wrong or not
# finite, against float64. docs/Reports.md lists the reports.
#
#===----------------------------------------------------------------------===#

import copy
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.report_steps import LIBRARY, error, pair, set_alike, values
from support.torch_bits import assert_same_bits, bits, dtype_of, params_of, parameters, train
from support.torch_needs import needs_adafactor

#: Strategies that make up for what 16-bit weights lose.
COMPENSATED = ["bf16-kahan", "bf16-stochastic", "bf16-dither", "collage-light", "collage-plus",
               "master-weights", "remainder", "coat", "coat-remainder", "flash", "flash-f16",
               "f16-master-weights"]


def constant(value, count, dtype):
    return torch.nn.Parameter(torch.full((count, 64), value, dtype=dtype))


# Nerogar/OneTrainer#996
@pytest.mark.parametrize("strategy", COMPENSATED)
def test_weight_decay_below_half_a_unit_is_not_lost(strategy):
    param = constant(1.0, 64, dtype_of(strategy))
    optimizer = tt.AdamW([param], lr=1e-2, weight_decay=0.01, eps=1e-4, strategy=strategy)
    for _ in range(300):
        param.grad = torch.zeros_like(param)
        optimizer.step()
    want = (1 - 1e-2 * 0.01) ** 300  # 0.97; bf16 and f16 round 1 - 1e-4 to 1
    assert float(param.detach().double().mean()) == pytest.approx(want, abs=0.004)


def test_weight_decay_is_lost_in_plain_bf16():
    """Shows what was reported, without which the test above would show nothing."""
    param = constant(1.0, 64, torch.bfloat16)
    optimizer = tt.AdamW([param], lr=1e-2, weight_decay=0.01, strategy="bf16")
    for _ in range(300):
        param.grad = torch.zeros_like(param)
        optimizer.step()
    assert torch.all(param == 1)


# pytorch/pytorch#120376
@pytest.mark.parametrize("strategy", COMPENSATED)
def test_updates_below_half_a_unit_add_up(strategy):
    param = constant(1.0, 64, dtype_of(strategy))
    wide = torch.nn.Parameter(param.detach().double())
    options = {"lr": 1e-4, "weight_decay": 0.0, "eps": 1e-4}
    ours = tt.AdamW([param], strategy=strategy, **options)
    theirs = torch.optim.AdamW([wide], **options)
    for _ in range(300):
        param.grad = torch.full_like(param, -0.5)
        wide.grad = param.grad.double()
        ours.step()
        theirs.step()
    assert float(wide.detach().mean()) == pytest.approx(1.03, abs=1e-3)
    want = float(wide.detach().mean())
    assert float(param.detach().double().mean()) == pytest.approx(want, abs=0.005)


def late_error(strategy):
    """Returns the error of steps of small gradients long after a large one, with beta2 = 0.999."""
    params, wide = pair([(64, 64)], torch.float32)
    ours = tt.AdamW(params, lr=1e-3, weight_decay=0, strategy=strategy)
    theirs = torch.optim.AdamW(wide, lr=1e-3, weight_decay=0)
    for seed in range(600):
        set_alike(params, wide, seed, scale=1e-3)
        for p, q in zip(params, wide):
            p.grad = p.grad + 1e-3 if seed else torch.ones_like(p)
            q.grad = p.grad.double()
        if seed == 500:
            (begun,), start = values(params), values(wide)
        ours.step()
        theirs.step()
    return error([params[0].detach().double() - begun + start[0]], wide, start)


# Nerogar/OneTrainer#1005
@pytest.mark.parametrize("strategy", ["collage-plus", "remainder", "coat", "flash", "adam8bit",
                                      "dither-mulaw"])
def test_second_moments_of_small_gradients_shrink(strategy):
    assert late_error(strategy) < 0.05


def test_second_moments_in_plain_bf16_do_not_shrink():
    """Shows what was reported, without which the test above would show nothing."""
    assert late_error("bf16") > 0.2


# unslothai/unsloth-zoo#962
@pytest.mark.parametrize("strategy", LIBRARY)
def test_elements_whose_gradients_are_zero_do_not_move(strategy):
    param = torch.nn.Parameter(torch.zeros(64, 128, dtype=dtype_of(strategy)))
    optimizer = tt.AdamW([param], lr=1e-3, weight_decay=0, eps=1e-4 if "f16" in strategy else 1e-8,
                         strategy=strategy)
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(64, 128, generator=generator) < 0.5
    for _ in range(60):
        grad = torch.randn(64, 128, generator=generator) * 1e-2
        param.grad = (grad * mask).to(param.dtype)
        optimizer.step()
    assert torch.all(param.detach()[~mask] == 0) and torch.all(param.detach()[mask] != 0)


# Nerogar/OneTrainer#804, Koratahiu/Advanced_Optimizers#7
@pytest.mark.parametrize("strategy", ["bf16-stochastic", "bf16-dither", "dither-mulaw", "coat"])
def test_replicas_round_alike_whatever_the_global_seed(strategy):
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        optimizer = tt.AdamW(parameters([(64, 256)]), lr=1e-4, strategy=strategy)
        torch.randn(seed)  # another number of random numbers
        train(optimizer, range(4))
        results.append(bits(params_of(optimizer)[0]))
        kept = torch.get_rng_state()
        train(optimizer, [4])
        assert torch.equal(torch.get_rng_state(), kept)
    assert np.array_equal(*results)


# google-deepmind/optax#1754
@pytest.mark.parametrize("strategy", ["f16-fp32-optim", "f16-master-weights", "flash", "fp32"])
@pytest.mark.parametrize("cls", [tt.AdamW, tt.Adam, tt.RMSprop, tt.LAMB])
def test_zero_gradients_of_f16_parameters_give_no_nan(strategy, cls):
    params = parameters([(64, 80), (33,)], dtype_of(strategy))
    optimizer = cls(params, lr=1e-2, weight_decay=0, strategy=strategy)
    kept = [p.detach().clone() for p in params]
    for _ in range(3):
        for p in params:
            p.grad = torch.zeros_like(p)
        optimizer.step()
    assert all(torch.equal(p, k) for p, k in zip(params, kept))


# NVIDIA/apex#799
@pytest.mark.parametrize("strategy", ["fp32", "remainder", "coat", "adam8bit", "flash"])
@pytest.mark.parametrize("scale", [1e-12, 1e-22, 1e-30])
def test_gradients_whose_squares_underflow_give_no_nan(strategy, scale):
    params, wide = pair([(64, 80)], torch.float32)
    options = {"lr": 1e-2, "weight_decay": 0, "eps": 1e-8}
    ours = tt.AdamW(params, strategy=strategy, **options)
    theirs = torch.optim.AdamW(wide, **options)
    start = values(wide)
    for seed in range(4):
        set_alike(params, wide, seed, scale=scale)
        ours.step()
        theirs.step()
    moved, want = ((p[0].detach().double() - start[0]).abs().max() for p in (params, wide))
    assert torch.isfinite(params[0]).all() and moved <= 2 * want + 1e-6


# microsoft/LLM2CLIP#64
@needs_adafactor
@pytest.mark.parametrize("strategy", ["fp32", "coat", "remainder"])
def test_adafactor_survives_rows_columns_and_matrices_of_zeros(strategy):
    ours, wide = pair([(64, 80), (64, 80), (33,)], dtype_of(strategy))
    options = {"lr": 1e-2, "eps": (1e-7, 1e-3)}
    optimizer, theirs = (tt.Adafactor(ours, strategy=strategy, **options),
                         torch.optim.Adafactor(wide, **options))
    start = values(wide)
    for seed in range(4):
        set_alike(ours, wide, seed)
        for params in (ours, wide):
            params[0].grad.zero_()
            params[1].grad[:5] = 0
            params[1].grad[:, 7] = 0
            params[2].grad.zero_()
        optimizer.step()
        theirs.step()
    assert all(torch.isfinite(p).all() for p in ours)
    for at in (0, 2):
        assert torch.equal(ours[at].detach().double(), start[at])
    assert torch.equal(ours[1].detach().double()[:5], start[1][:5])
    assert error(ours[1:2], wide[1:2], start[1:2]) < (1e-3 if strategy == "fp32" else 0.3)


def lion(p, m, grad, lr, beta1, beta2, decay):
    """Returns the weight and the momentum after a step of Chen et al. 2023, algorithm 2."""
    return (p - lr * (torch.sign(beta1 * m + (1 - beta1) * grad) + decay * p),
            beta2 * m + (1 - beta2) * grad)


# bitsandbytes-foundation/bitsandbytes#1992
@pytest.mark.parametrize("strategy", ["fp32", "adam8bit", "remainder"])
def test_weight_decay_of_lion_does_not_change_signs(strategy):
    params, wide = pair([(64, 80)], torch.float32)
    optimizer = tt.Lion(params, lr=1e-2, betas=(0.9, 0.99), weight_decay=5.0, strategy=strategy)
    start, (p, m) = values(wide), (wide[0].detach(), torch.zeros(64, 80, dtype=torch.float64))
    for seed in range(3):
        set_alike(params, wide, seed)
        p, m = lion(p, m, wide[0].grad, 1e-2, 0.9, 0.99, 5.0)
        optimizer.step()
    assert error(params, [p], start) < (0.05 if strategy == "adam8bit" else 1e-5)


# bitsandbytes-foundation/bitsandbytes#2010
@pytest.mark.parametrize("decay", ["inside", "before", "after"])
def test_the_order_of_weight_decay_is_the_one_that_is_asked_for(decay):
    params, wide = pair([(64, 80)], torch.float32)
    lr, weight_decay = 0.1, 2.0
    optimizer = tt.AdamW(params, lr=lr, weight_decay=weight_decay, decay=decay, strategy="fp32")
    p, start = wide[0].detach().clone(), values(wide)
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for step in range(1, 4):
        set_alike(params, wide, step)
        grad = wide[0].grad
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad ** 2
        update = lr * (m / (1 - 0.9 ** step)) / ((v / (1 - 0.999 ** step)).sqrt() + 1e-8)
        kept = 1 - lr * weight_decay
        p = (p - update) * kept if decay == "after" else p * kept - update
        optimizer.step()
    assert error(params, [p], start) < 1e-5


# bitsandbytes-foundation/bitsandbytes#1350
@pytest.mark.parametrize("strategy", ["fp32", "adam8bit", "fp32-optim"])
def test_lamb_takes_a_step_with_states_of_32_and_of_8_bits(strategy):
    params, wide = pair([(64, 80), (10,)], torch.float32)
    options = {"lr": 1e-2, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.1}
    optimizer, start = tt.LAMB(params, strategy=strategy, **options), values(wide)
    want = []
    set_alike(params, wide, 0)
    for q in wide:
        p, grad = q.detach(), q.grad
        update = grad / (grad.abs() + 1e-6) + 0.1 * p  # both bias corrections are exact
        want.append(p - 1e-2 * p.norm() / update.norm() * update)
    optimizer.step()
    assert error(params, want, start) < (0.1 if strategy == "adam8bit" else 1e-4)


# bitsandbytes-foundation/bitsandbytes#1884, NVIDIA/TransformerEngine#1422
@pytest.mark.parametrize("strategy", ["adam8bit", "coat", "flash", "dither-mulaw",
                                      "residual-mulaw"])
@pytest.mark.parametrize("columns", [1, 255, 257, 1001])
def test_a_last_group_that_is_not_full_has_its_own_scale(strategy, columns):
    """Gradients of the last group are much smaller than those before."""
    params, wide = pair([(5, columns)], torch.float32)
    optimizer = tt.AdamW(params, lr=1e-3, weight_decay=0, min_8bit_size=0, strategy=strategy)
    theirs, start = torch.optim.AdamW(wide, lr=1e-3, weight_decay=0), values(wide)
    tail = columns // 256 * 256
    for seed in range(5):
        set_alike(params, wide, seed)
        for p in (params[0], wide[0]):
            p.grad[:, tail:] *= 2 ** -13
        optimizer.step()
        theirs.step()
    off = [x[0].detach().double() - start[0] for x in (params, wide)]
    wrong = (off[0] - off[1])[:, tail:].norm() / off[1][:, tail:].norm()
    assert wrong < 0.12


def moved_by(optimizer, grad):
    """Takes a step of a gradient and then one of small ones. Returns the parameter."""
    (param,) = params_of(optimizer)
    for each in (grad, torch.full_like(param, 1e-3)):
        param.grad = each
        optimizer.step()
    return param.detach()


# kohya-ss/sd-scripts#523
@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("strategy", ["adam8bit", "coat", "flash", "dither-mulaw",
                                      "residual-mulaw"])
def test_an_infinite_gradient_spoils_no_element_that_shares_its_scale(strategy, value, skips):
    """The mu-law code has no NaN: there the group of 32 becomes NaN, as docs/Numerics.md says."""
    first = tt.AdamW(parameters([(16, 512)], torch.float32), lr=1e-3, strategy=strategy,
                     min_8bit_size=0, skip_nonfinite=skips)
    train(first, range(2))
    second = copy.deepcopy(first)
    grad = torch.full((16, 512), 1e-3)
    want = moved_by(second, grad.clone())
    grad[3, 5] = value
    got = moved_by(first, grad)
    if skips:
        assert torch.isfinite(got).all()
        return
    rest = torch.ones_like(got, dtype=torch.bool)
    rest[3, 0:32 if strategy.endswith("mulaw") else 6] = False
    rest[3, :0 if strategy.endswith("mulaw") else 5] = True
    assert torch.equal(got[rest], want[rest]) and not torch.isfinite(got[~rest]).any()


# anthonytorlucci/rlevo#184
@pytest.mark.parametrize("strategy", LIBRARY)
def test_a_nan_poisons_no_moment_if_steps_that_are_not_finite_are_skipped(strategy):
    options = {"lr": 1e-3, "eps": 1e-4, "strategy": strategy, "skip_nonfinite": True}
    hit, other = (tt.AdamW(parameters([(64, 80), (33,)], dtype_of(strategy)), **options)
                  for _ in range(2))
    for seed in range(4):
        for optimizer in (hit, other):
            train(optimizer, [seed])
        for p in params_of(hit):
            p.grad = torch.zeros_like(p)
        params_of(hit)[1].grad[7] = math.nan
        hit.step()
        assert hit.skipped
    for p, q in zip(params_of(hit), params_of(other)):
        assert np.array_equal(bits(p), bits(q)) and hit.state[p]["step"] == 4


# pytorch/ao#4915
@pytest.mark.parametrize("strategy", ["fp32", "collage-plus", "adam8bit"])
def test_a_default_dtype_of_bf16_changes_no_step(strategy):
    """A count of steps in bf16 would stop at 256."""
    optimizers = []
    for default in (torch.float32, torch.bfloat16):
        kept = torch.get_default_dtype()
        torch.set_default_dtype(default)
        try:
            param = torch.nn.Parameter(torch.ones(8, 64, dtype=dtype_of(strategy)))
            optimizer = tt.AdamW([param], lr=1e-3, min_8bit_size=0, strategy=strategy)
            for _ in range(300):
                param.grad = torch.full_like(param, 0.1)
                optimizer.step()
        finally:
            torch.set_default_dtype(kept)
        optimizers.append(optimizer)
    assert_same_bits(*optimizers)
    assert int(optimizers[1].state[param]["step"]) == 300
