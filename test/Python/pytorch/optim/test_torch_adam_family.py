#===- test_torch_adam_family.py - Adan, NAdam and others -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests optimizers whose scalars depend on the step: checkpoints of torch.optim, refusals,
# and Adan against float64. test_torch_numerics.py compares the others with torch.optim.
#
#===----------------------------------------------------------------------===#

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt

PEERS = {
    "NAdam": {"lr": 1e-2, "weight_decay": 0.1}, "RAdam": {"lr": 1e-2}, "Adamax": {"lr": 1e-2},
    "ASGD": {"lr": 0.1, "t0": 6.0}, "Rprop": {"lr": 1e-2},
}


def params_of(dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
            for shape in ((64, 80), (48,))]


def train(params, optimizer, steps, start=0):
    for step in range(start, start + steps):
        generator = torch.Generator().manual_seed(step)
        for param in params:
            param.grad = (torch.randn(param.shape, generator=generator)
                          + param.detach().float()).to(param.dtype)
        optimizer.step()


@pytest.mark.parametrize("name", PEERS)
def test_goes_on_where_pytorch_stopped(name):
    """RAdam is rectified from its sixth step on, and ASGD averages from its seventh."""
    ours, theirs = params_of(), params_of()
    peer = getattr(torch.optim, name)(theirs, **PEERS[name])
    train(theirs, peer, 4)
    for param, other in zip(ours, theirs):
        param.data.copy_(other.data)
    optimizer = getattr(tt, name)(ours, strategy="fp32", **PEERS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.load_state_dict(copy.deepcopy(peer.state_dict()))
    train(ours, optimizer, 12, 4)
    train(theirs, peer, 12, 4)
    for param, other in zip(ours, theirs):
        torch.testing.assert_close(param, other, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("strategy", ("flash-f16", "dither-mulaw", "collage-plus", "remainder"))
@pytest.mark.parametrize("name", (*PEERS, "Adan"))
def test_resumes_with_the_same_bits(name, strategy):
    options = {"strategy": strategy, **PEERS.get(name, {"lr": 1e-2})}
    params, same = params_of(torch.bfloat16), params_of(torch.bfloat16)
    optimizer, other = (getattr(tt, name)(own, **options) for own in (params, same))
    train(params, optimizer, 8)
    train(same, other, 16)
    loaded = [torch.nn.Parameter(param.detach().clone()) for param in params]
    resumed = getattr(tt, name)(loaded, strategy=strategy)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(loaded, resumed, 8, 8)
    assert all(map(torch.equal, loaded, same))


class AdanReference:
    """Adan in float64, as Algorithm 1 of the paper with the authors' proximal decay."""

    def __init__(self, params, lr, betas, eps, decay):
        self.lr, self.betas, self.eps, self.decay, self.count = lr, betas, eps, decay, 0
        self.weights = [param.detach().double() for param in params]
        self.states = [[torch.zeros_like(w) for _ in range(3)] for w in self.weights]
        self.previous = [None] * len(params)

    def step(self, gradients):
        self.count += 1
        beta1, beta2, beta3 = self.betas
        corrections = [1 - beta**self.count for beta in self.betas]
        for at, gradient in enumerate(gradients):
            g, (m, d, v) = gradient.double(), self.states[at]
            diff = torch.zeros_like(g) if self.previous[at] is None else g - self.previous[at]
            m.mul_(beta1).add_((1 - beta1) * g)
            d.mul_(beta2).add_((1 - beta2) * diff)
            v.mul_(beta3).add_((1 - beta3) * (g + beta2 * diff)**2)
            direction = (m / corrections[0] + beta2 * d / corrections[1]) / (
                (v / corrections[2]).sqrt() + self.eps)
            self.weights[at] = (self.weights[at] - self.lr * direction) / (1 + self.lr * self.decay)
            self.previous[at] = g


def test_adan_is_the_published_algorithm():
    params = params_of()
    options = 1e-2, (0.97, 0.9, 0.98), 1e-8
    optimizer = tt.Adan(params, *options, weight_decay=0.05, strategy="fp32")
    reference = AdanReference(params, *options, 0.05)
    for step in range(25):
        train(params, optimizer, 1, step)
        reference.step([param.grad for param in params])
    for param, weight in zip(params, reference.weights):
        torch.testing.assert_close(param.double(), weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strategy", ("flash-f16", "residual-mulaw", "dither-softsign-root"))
def test_adan_stays_near_float64(strategy):
    """The previous gradient is in 8 bits, too."""
    params = params_of(torch.bfloat16)[:1]
    start = params[0].detach().double().clone()
    optimizer = tt.Adan(params, 1e-3, strategy=strategy, min_8bit_size=0)
    reference = AdanReference(params, 1e-3, (0.98, 0.92, 0.99), 1e-8, 0.0)
    for step in range(200):
        train(params, optimizer, 1, step)
        generator = torch.Generator().manual_seed(step)
        noise = torch.randn(params[0].shape, generator=generator)
        reference.step([(noise + reference.weights[0].float()).bfloat16()])
    exact, (_, found) = reference.weights[0], next(iter(tt.weights(optimizer)))
    assert float((found.double() - exact).norm() / (exact - start).norm()) < 0.1


def test_the_average_of_asgd_is_stored_like_the_weight():
    params = params_of(torch.bfloat16)
    optimizer = tt.ASGD(params, strategy="flash-f16", t0=0, min_8bit_size=0)
    train(params, optimizer, 4)
    assert sorted(optimizer.state[params[0]]) == ["ax", "ax.residual", "param.residual", "step"]


@pytest.mark.parametrize("name", ("NAdam", "RAdam", "ASGD", "Adan"))
def test_scalars_of_the_step_cannot_be_captured(name):
    with pytest.raises(ValueError, match=f"{name} computes hyperparameters from the count of steps"):
        getattr(tt, name)(params_of(), strategy="fp32", capturable=True)


@pytest.mark.parametrize("make, message", [
    (lambda p: tt.NAdam(p, momentum_decay=-1.0), "momentum_decay of param group 0 is -1.0"),
    (lambda p: tt.NAdam(p, decoupled_weight_decay=True), "does not compute decoupled_weight_decay"),
    (lambda p: tt.Adan(p, betas=(0.9, 0.99)), "betas of param group 0 must be 3 numbers"),
    (lambda p: tt.Rprop(p, etas=(0.5,)), "etas of param group 0 must be a pair of numbers"),
    (lambda p: tt.NAdam(p, ahead=0.5), "has no hyperparameter 'ahead'"),
])
def test_refusals(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(params_of(torch.bfloat16))
