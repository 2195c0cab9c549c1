#===- test_torch_ademamix.py - AdEMAMix ------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests AdEMAMix against an implementation in float64, and its slow average under each
# strategy.
#
#===----------------------------------------------------------------------===#

import copy
import math
import pickle

import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt
from tandem.torch.optim._adam_family import _AdEMAMixHypers
from tandem.torch.optim.state._weights import whole_value

BETAS, ALPHA, EPS = (0.9, 0.999, 0.9999), 5.0, 1e-8
#: Strategies with every kind of storage; those of four bits store m / sqrt(v), which this optimizer
#: does not keep.
STRATEGIES = ("adam8bit", "bf16", "bf16-dither", "coat", "collage-light", "collage-plus",
              "collage-plus-f32", "dither-mulaw", "dither-softsign-root", "f16-fp32-optim",
              "flash-f16", "fp32", "fp32-optim", "fp8-collage-plus", "fp8-lm", "remainder",
              "residual-mulaw")
SHAPE = (64, 48)


def scheduled(betas, alpha, t_alpha, t_beta3, step):
    """Returns alpha and beta3 of a step, as Algorithm 1 and equation 4 of the paper have them."""
    if t_alpha:
        alpha = min(step * alpha / t_alpha, alpha)
    beta1, beta3 = betas[0], betas[2]
    if t_beta3 and step < t_beta3:
        near, far, share = math.log(beta1), math.log(beta3), step / t_beta3
        beta3 = math.exp(near * far / ((1 - share) * far + share * near))
    return alpha, beta3


class Reference:
    """AdEMAMix in float64."""

    def __init__(self, weight, lr, betas=BETAS, alpha=ALPHA, decay=0.01, t_alpha=None,
                 t_beta3=None):
        self.weight, self.lr, self.betas, self.alpha, self.decay = (
            weight.double(), lr, betas, alpha, decay)
        self.times = t_alpha, t_beta3
        self.m, self.slow, self.v = (torch.zeros_like(self.weight) for _ in range(3))
        self.steps = 0

    def step(self, gradient):
        g, (beta1, beta2, _) = gradient.double(), self.betas
        self.steps += 1
        alpha, beta3 = scheduled(self.betas, self.alpha, *self.times, self.steps)
        self.m = beta1 * self.m + (1 - beta1) * g
        self.slow = beta3 * self.slow + (1 - beta3) * g
        self.v = beta2 * self.v + (1 - beta2) * g * g
        first, second = 1 - beta1**self.steps, 1 - beta2**self.steps
        direction = (self.m / first + alpha * self.slow) / ((self.v / second).sqrt() + EPS)
        self.weight = self.weight - self.lr * (direction + self.decay * self.weight)


def gradients(steps, dtype=torch.float32, shape=SHAPE):
    """Returns gradients with a part that all steps share."""
    generator = torch.Generator().manual_seed(5)
    shared = 0.5 * torch.randn(shape, generator=generator)
    return [(1e-2 * (shared + torch.randn(shape, generator=generator))).to(dtype)
            for _ in range(steps)]


def weight_of(dtype=torch.float32):
    generator = torch.Generator().manual_seed(4)
    return torch.nn.Parameter(torch.randn(SHAPE, generator=generator).to(dtype))


def run(param, optimizer, given):
    for gradient in given:
        param.grad = gradient.clone()
        optimizer.step()


@pytest.mark.parametrize("times", [{}, {"t_alpha": 30}, {"t_beta3": 40},
                                   {"t_alpha": 30, "t_beta3": 20}], ids=str)
def test_is_the_published_algorithm(times):
    param, given = weight_of(), gradients(60)
    reference = Reference(param.detach(), 1e-2, **times)
    run(param, tt.AdEMAMix([param], 1e-2, strategy="fp32", **times), given)
    for gradient in given:
        reference.step(gradient)
    torch.testing.assert_close(param.double(), reference.weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_slow_average_follows(strategy):
    """The slow average has its size in float64 after 400 steps. One step changes it by a fraction of a
    ten-thousandth."""
    kernel = tandem.compile("ademamix", strategy)
    visible = next(p.type for p in kernel.planes if p.role == "param")
    dtype = {"f32": torch.float32, "f16": torch.float16}.get(visible, torch.bfloat16)
    param, given = weight_of(dtype), gradients(400, dtype)
    eps = {"eps": 1e-7} if strategy.startswith("f16") else {}
    optimizer = tt.AdEMAMix([param], 1e-4, strategy=strategy, min_8bit_size=0, **eps)
    run(param, optimizer, given)
    exact = Reference(weight_of(dtype).detach(), 1e-4)
    for gradient in given:
        exact.step(gradient)
    wide = slow_of(optimizer, param)
    share = float((wide * exact.slow).sum() / (exact.slow * exact.slow).sum())
    # Adjacent codes of E4M3 are farther apart.
    assert abs(share - 1) < (0.06 if strategy.startswith("coat") else 0.02), share
    assert float((wide - exact.slow).norm() / exact.slow.norm()) < 0.3


def slow_of(optimizer, param):
    """Returns the slow average in float64."""
    spec = optimizer._groups.spec_of(param).of_states
    return whole_value(spec, "exp_avg_slow", param, optimizer.state[param]).double()


def test_a_slow_average_in_bf16_to_nearest_stands_still():
    """This is why the graph says that its average is slow: once gradients have stopped, an average in bfloat16 stays,
    and that of a strategy shrinks by a quarter in 3000 steps."""
    param, given = weight_of(torch.bfloat16), gradients(100, torch.bfloat16)
    optimizer = tt.AdEMAMix([param], 1e-4, strategy="bf16", eps=1e-7)
    run(param, optimizer, given)
    before, nearest = slow_of(optimizer, param), slow_of(optimizer, param).bfloat16()
    zero = torch.zeros(SHAPE, dtype=torch.bfloat16)
    run(param, optimizer, [zero] * 3000)
    for _ in range(3000):
        nearest = (nearest * BETAS[2]).bfloat16()
    left = float(slow_of(optimizer, param).norm() / before.norm())
    assert abs(left - BETAS[2]**3000) < 0.02
    assert float(nearest.double().norm() / before.norm()) > 0.99


def test_resumes_with_the_same_bits():
    given = gradients(20, torch.bfloat16)
    param = weight_of(torch.bfloat16)
    optimizer = tt.AdEMAMix([param], 1e-2, strategy="dither-mulaw", t_alpha=15, t_beta3=15)
    run(param, optimizer, given[:10])
    other = torch.nn.Parameter(param.detach().clone())
    resumed = tt.AdEMAMix([other], 1e-2, strategy="dither-mulaw")
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    copied = pickle.loads(pickle.dumps(optimizer))
    run(param, optimizer, given[10:])
    run(other, resumed, given[10:])
    run(copied.param_groups[0]["params"][0], copied, given[10:])
    assert torch.equal(param, other)
    assert torch.equal(param, copied.param_groups[0]["params"][0])


def test_states_convert_between_strategies():
    given = gradients(30, torch.bfloat16)
    param = weight_of(torch.bfloat16)
    optimizer = tt.AdEMAMix([param], 1e-3, strategy="remainder")
    run(param, optimizer, given)
    before = slow_of(optimizer, param)
    tt.change_strategy(optimizer, "flash-f16")
    assert float((slow_of(optimizer, param) - before).norm() / before.norm()) < 0.02


def check_continues(param, optimizer, given, foreign):
    """Asserts that a state dict of another library goes on as the optimizer does."""
    other = torch.nn.Parameter(param.detach().clone())
    resumed = tt.AdEMAMix([other], 1e-2, strategy="fp32")
    resumed.load_state_dict(foreign)
    run(param, optimizer, given)
    run(other, resumed, given)
    assert torch.equal(param, other)


def test_states_of_other_libraries_load():
    """pytorch-optimizer has the names of the paper's authors."""
    param, given = weight_of(), gradients(25)
    optimizer = tt.AdEMAMix([param], 1e-2, strategy="fp32")
    run(param, optimizer, given)
    state = optimizer.state[param]
    names = "exp_avg", "exp_avg_slow", "exp_avg_sq"
    foreign = {"state": {0: {"step": 25} | {name: state[name].clone() for name in names}},
               "param_groups": [{"params": [0], "lr": 1e-2, "betas": BETAS, "alpha": ALPHA,
                                 "eps": EPS, "weight_decay": 0.01}]}
    check_continues(param, optimizer, given, foreign)


def test_captured_steps_have_no_schedule():
    """A GPU has the count of steps, from which the CPU would compute alpha."""
    hypers = _AdEMAMixHypers("AdEMAMix", "ademamix")
    hypers.is_captured = True
    hypers.check({"t_alpha": None, "t_beta3": None}, 0)
    with pytest.raises(ValueError, match="param group 1 has t_alpha or t_beta3, .* cannot be captured"):
        hypers.check({"t_alpha": 10, "t_beta3": None}, 1)


def test_states_of_bitsandbytes_load():
    """Its first tensor has both averages."""
    param, given = weight_of(), gradients(25)
    optimizer = tt.AdEMAMix([param], 1e-2, strategy="fp32")
    run(param, optimizer, given)
    state = optimizer.state[param]
    foreign = {"state": {0: {"step": 25, "state2": state["exp_avg_sq"].clone(),
                             "state1": torch.stack([state["exp_avg"], state["exp_avg_slow"]])}},
               "param_groups": [{"params": [0], "lr": 1e-2, "betas": BETAS, "alpha": ALPHA,
                                 "t_alpha": None, "t_beta3": None, "eps": EPS,
                                 "weight_decay": 0.01}]}
    check_continues(param, optimizer, given, foreign)


@pytest.mark.parametrize("options, message", [
    ({"t_alpha": 0}, r"t_alpha of param group 0 is 0; it is a number of steps above 0"),
    ({"t_beta3": -1}, r"t_beta3 of param group 0 is -1"),
    ({"betas": (0.0, 0.999, 0.9999), "t_beta3": 10}, "the first and the third must be above 0"),
    ({"betas": (0.9, 0.999, 1.0)}, "beta3"),
    ({"betas": (0.9, 0.999)}, "betas of param group 0 must be 3 numbers"),
    ({"amsgrad": True}, "does not compute amsgrad=True"),
])
def test_refusals(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tt.AdEMAMix([weight_of()], strategy="fp32", **options)
