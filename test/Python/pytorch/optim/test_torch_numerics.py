#===- test_torch_numerics.py - Results of optimizers ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the results of the PyTorch optimizers: bit for bit against the NumPy model, and in
# fp32 against torch.optim.
#
#===----------------------------------------------------------------------===#

import inspect
import math
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt
from model import GRAPHS, cases, metrics, plane_entries, plane_types, trace
from model import steps as model_steps
from model.storage import Draw
from support.kernels import STRATEGY_PATH
from support.torch_bits import (LIBRARY, VISIBLE, WIDE, assert_same_bits, bits, dtype_of,
                                parameters, params_of, set_gradients, train)

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "benchmarks"))
import peer_optimizers as peers  # noqa: E402

SHAPES = [(17,), (3, 5), (), (4, 1, 7), (0, 3)]
HAS_METRICS = "metrics" in inspect.signature(tandem.compile).parameters
ALL = sorted({(g, "collage-plus") for g in GRAPHS} | {("adamw", s) for s in VISIBLE}
             | {("sgd", "bf16-stochastic"), ("sgd_momentum", "remainder"),
                ("adamw_decay_before", "bf16-kahan"), ("lion", "master-weights")})

#===----------------------------------------------------------------------===#
# Bit for bit
#===----------------------------------------------------------------------===#


def initial_planes(graph, strategy, param):
    """Returns the planes before the first step: zero, except for a master copy."""
    entries = plane_entries(graph, strategy, param.numel())
    planes = {name: np.zeros(entries[name], dtype)
              for name, dtype in plane_types(graph, strategy).items()}
    planes["param"] = bits(param)
    if "param.master" in planes:
        planes["param.master"] = bits(param.float())
    return planes


def assert_follows_model(optimizer, graph, strategy, hypers, seed=0, steps=3):
    params = params_of(optimizer)
    planes = [initial_planes(graph, strategy, p) for p in params]
    for t in range(1, steps + 1):
        set_gradients(params, t)
        for param, state in zip(params, planes):
            state["grad"] = bits(param.grad)
        draws = [Draw(seed, key, 0, t, columns=param[0].numel() if param.dim() > 1 and
                      len(param) else 0) for key, param in enumerate(params)]
        new = model_steps(graph, strategy, planes, [hypers] * len(params), draws)
        planes = [state | changed for state, changed in zip(planes, new)]
        optimizer.step()
    for param, state in zip(params, planes):
        got = {"param": param, **optimizer.state[param]}
        for name in set(state) - {"grad"}:
            assert np.array_equal(bits(got[name]), state[name]), name
        assert set(got) - {"step"} == set(state) - {"grad"}
        assert got.get("step", steps) == steps


@pytest.mark.parametrize("graph, name", ALL)
def test_follows_the_model(graph, name):
    strategy = LIBRARY[name]
    hypers = cases.hypers(graph, strategy, lr=2e-2)
    optimizer = tt.Optimizer(parameters(SHAPES, dtype_of(name)), graph, name, seed=5,
                             min_8bit_size=0, path=[STRATEGY_PATH], **hypers)
    assert_follows_model(optimizer, graph, strategy, hypers, seed=5)


@pytest.mark.parametrize("options, graph", [
    ({}, "adamw"), ({"decay": "before"}, "adamw_decay_before"),
    ({"decay": "after"}, "adamw_decay_after"),
    ({"eps_inside_root": True}, "adamw_eps_inside_root"),
])
def test_adamw_chooses_the_graph(options, graph):
    assert tt.AdamW(parameters([(3,)]), **options).kernel.name == graph


def test_mixed_types_run_two_kernels(tmp_path):
    """One step updates bf16 weights under the strategy and f32 weights with its states."""
    (tmp_path / "wide.mlir").write_text(WIDE)
    mixed = parameters([(5, 3)]) + parameters([(3,)], torch.float32, seed=1)
    narrow, wide = parameters([(5, 3)]), parameters([(3,)], torch.float32, seed=1)
    both = tt.AdamW(mixed, lr=1e-2, strategy="collage-plus")
    apart = [tt.AdamW(narrow, lr=1e-2, strategy="collage-plus"),
             tt.AdamW(wide, lr=1e-2, strategy="wide", path=[tmp_path])]
    for seed in range(3):
        set_gradients(mixed, seed)
        for one, p in zip(apart, mixed):
            params_of(one)[0].grad = p.grad.clone()
            one.step()
        both.step()
    assert np.array_equal(bits(mixed[0]), bits(narrow[0]))
    assert np.array_equal(bits(mixed[1]), bits(wide[0]))
    assert "param.lo" in both.state[mixed[0]]
    assert both.state[mixed[1]].keys() == {"step", "exp_avg", "exp_avg_sq", "exp_avg_sq.lo"}


@pytest.mark.parametrize("name", ["collage-plus", "bf16-stochastic", "fp32"])
def test_threads_do_not_matter(name):
    dtype = dtype_of(name)
    one, three = (tt.AdamW(parameters([(70001,), (40,)], dtype), strategy=name,
                           threads=threads) for threads in (1, 3))
    train(one, range(2))
    train(three, range(2))
    assert_same_bits(one, three)


def test_the_seed_matters():
    same, other, again = (
        tt.AdamW(parameters([(100,)]), lr=1e-3, strategy="bf16-stochastic", seed=seed)
        for seed in (1, 2, 1))
    for optimizer in (same, other, again):
        train(optimizer, range(3))
    assert_same_bits(same, again)
    assert not torch.equal(params_of(same)[0], params_of(other)[0])


def test_steps_are_counted_for_each_parameter():
    """A parameter without a gradient keeps its step count, so rows differ later."""
    together, alone = parameters([(9,), (6,)]), parameters([(9,), (6,)])
    optimizer = tt.AdamW(together, lr=1e-2)
    single = [tt.AdamW([p], lr=1e-2) for p in alone]
    for t in range(4):
        set_gradients(together, t)
        for i, p in enumerate(together):
            if i == 1 and t in (0, 2):
                p.grad = None
                continue
            alone[i].grad = p.grad.clone()
            single[i].step()
        optimizer.step()
    for p, q, s in zip(together, alone, (4, 2)):
        assert np.array_equal(bits(p), bits(q)) and optimizer.state[p]["step"] == s


def test_groups_have_their_own_scalars():
    together, alone = parameters([(9,), (6,)]), parameters([(9,), (6,)])
    scalars = [{"lr": 1e-2, "betas": (0.8, 0.99)}, {"weight_decay": 0.3, "beta2": 0.9}]
    optimizer = tt.AdamW([{"params": [p], **s} for p, s in zip(together, scalars)])
    assert optimizer.param_groups[1]["betas"] == (0.9, 0.9)
    train(optimizer, range(3))
    for i, (p, s) in enumerate(zip(alone, scalars)):
        one = tt.AdamW([p], **s)
        for seed in range(3):
            set_gradients(alone, seed)
            one.step()
        assert np.array_equal(bits(p), bits(together[i]))


#===----------------------------------------------------------------------===#
# Against torch.optim
#===----------------------------------------------------------------------===#


class LionReference(torch.optim.Optimizer):
    """Lion as stated in its paper."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(b1 * m + (1 - b1) * p.grad)
                p -= lr * (update + group["weight_decay"] * p)
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class LAMBReference(torch.optim.Optimizer):
    """LAMB as stated in its paper, with the identity for phi."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps,
                                      weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                t = state["t"] = state.get("t", 0) + 1
                m = state.setdefault("m", torch.zeros_like(p))
                v = state.setdefault("v", torch.zeros_like(p))
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                update = m / (1 - b1**t) / ((v / (1 - b2**t)).sqrt() + group["eps"])
                update += group["weight_decay"] * p
                trust = p.norm() / update.norm()
                if p.norm() == 0 or update.norm() == 0:
                    trust = 1.0
                p -= group["lr"] * trust * update


def clipped(params):
    """Returns torch's AdamW after torch's clipping."""
    optimizer = torch.optim.AdamW(params, 1e-2, (0.8, 0.95), 1e-6, 0.1)
    step = optimizer.step

    def clip_and_step():
        torch.nn.utils.clip_grad_norm_(params_of(optimizer), 0.5)
        step()

    optimizer.step = clip_and_step
    return optimizer


def authors_adam_mini(*args, **options):
    pytest.importorskip("adam_mini")
    return peers.adam_mini(*args, **options)


class CautiousReference(torch.optim.Optimizer):
    """AdamW and Lion with cautious masks as timm has them (adamw.py and lion.py, caution=True)."""

    def __init__(self, params, lr, betas, weight_decay, eps=None):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay,
                                  "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = self._update(p.grad, self.state[p], group)
                mask = (update * p.grad > 0).to(p.dtype)
                mask.div_(mask.mean().clamp_(min=1e-3))
                p.add_(update * mask, alpha=-group["lr"])

    def _update(self, g, state, group):
        (beta1, beta2), eps = group["betas"], group["eps"]
        m = state.setdefault("m", torch.zeros_like(g))
        if eps is None:
            update = m.mul(beta1).add(g, alpha=1 - beta1).sign_()
            m.lerp_(g, 1 - beta2)
            return update
        v = state.setdefault("v", torch.zeros_like(g))
        state["t"] = t = state.get("t", 0) + 1
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        return m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps)


REFERENCES = {
    "adamw-cautious": (
        lambda p: tt.AdamW(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, decay="before", cautious=True,
                           strategy="fp32"),
        lambda p: CautiousReference(p, 1e-2, (0.8, 0.95), 0.1, 1e-6)),
    "lion-cautious": (
        lambda p: tt.Lion(p, 1e-2, (0.9, 0.99), 0.1, cautious=True, strategy="fp32"),
        lambda p: CautiousReference(p, 1e-2, (0.9, 0.99), 0.1)),
    "mars-eps": (
        lambda p: tt.MARS(p, 1e-2, (0.9, 0.95), 0.01, 0.1, 0.05, lr_1d=5e-3, strategy="fp32"),
        lambda p: peers.MARSReference(p, 1e-2, (0.9, 0.95), 0.01, 0.1, 0.05, 0.5)),
    # pytorch_optimizer adds eps to the root of the uncorrected second moment.
    "mars": (lambda p: tt.MARS(p, 1e-3, eps=1e-20, weight_decay=0.1, lr_1d=5e-4, strategy="fp32"),
             lambda p: pytest.importorskip("pytorch_optimizer").MARS(
                 p, 1e-3, eps=1e-20, weight_decay=0.1, lr_1d=5e-4)),
    "mars-vectors": (
        lambda p: tt.MARS(p, 1e-2, (0.9, 0.95), 1e-20, 0.1, 0.05, optimize_1d=True,
                          strategy="fp32"),
        lambda p: pytest.importorskip("pytorch_optimizer").MARS(
            p, 1e-2, (0.9, 0.95), gamma=0.05, eps=1e-20, weight_decay=0.1, optimize_1d=True)),
    "came": (lambda p: tt.CAME(p, 1e-2, weight_decay=0.1, strategy="fp32"),
             lambda p: pytest.importorskip("came_pytorch").CAME(p, 1e-2, weight_decay=0.1)),
    "came-clipped": (
        lambda p: tt.CAME(p, 1e-2, (1e-20, 1e-12), 0.25, (0.8, 0.9, 0.95), strategy="fp32"),
        lambda p: pytest.importorskip("came_pytorch").CAME(
            p, 1e-2, (1e-20, 1e-12), 0.25, (0.8, 0.9, 0.95))),
    "adam-mini": (lambda p: tt.AdamMini(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, strategy="fp32"),
                  lambda p: authors_adam_mini(p, 0.1, lr=1e-2, betas=(0.8, 0.95), eps=1e-6)),
    "adam-mini-heads": (
        lambda p: tt.AdamMini([{"params": p, "head_dim": 8}], 1e-2, strategy="fp32"),
        # Heads of 8 rows of 3 elements.
        lambda p: authors_adam_mini(p, 0.0, "q_proj", lr=1e-2, dim=12, n_heads=6)),
    "prodigy": (lambda p: tt.Prodigy(p, d0=1e-3, strategy="fp32"),
                lambda p: pytest.importorskip("prodigyopt").Prodigy(p, d0=1e-3)),
    "prodigy-options": (
        lambda p: tt.Prodigy(p, 0.5, (0.8, 0.95), 0.9, 1e-6, 0.1, d0=1e-2, growth_rate=1.1,
                             use_bias_correction=True, safeguard_warmup=True, strategy="fp32"),
        lambda p: pytest.importorskip("prodigyopt").Prodigy(
            p, 0.5, (0.8, 0.95), 0.9, 1e-6, 0.1, d0=1e-2, growth_rate=1.1,
            use_bias_correction=True, safeguard_warmup=True)),
    "ratio": (lambda p: tt.AdamW(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, decay="before", stores_ratio=True,
                                 strategy="fp32"),
              lambda p: torch.optim.AdamW(p, 1e-2, (0.8, 0.95), 1e-6, 0.1)),
    "ratio-clipped": (lambda p: tt.AdamW(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, max_norm=0.5,
                                         stores_ratio=True, strategy="fp32"), clipped),
    # The authors decay by adding a multiple of the weight, which loses less than a factor near 1.
    "soap": (lambda p: tt.SOAP(p, 1e-2, weight_decay=0.0, precondition_frequency=3, strategy="fp32"),
             lambda p: pytest.importorskip("pytorch_optimizer").SOAP(
                 p, 1e-2, weight_decay=0.0, precondition_frequency=3)),
    "soap-options": (
        lambda p: tt.SOAP(p, 1e-2, (0.8, 0.9), 0.7, 1e-6, 0.1, 2, 30, correct_bias=False,
                          strategy="fp32"),
        lambda p: pytest.importorskip("pytorch_optimizer").SOAP(
            p, 1e-2, (0.8, 0.9), 0.7, 0.1, 2, 30, eps=1e-6, correct_bias=False)),
    "adadelta": (lambda p: tt.Adadelta(p, 1.0, 0.8, 1e-6, 0.1, strategy="fp32"),
                 lambda p: torch.optim.Adadelta(p, 1.0, 0.8, 1e-6, 0.1)),
    "lamb": (lambda p: tt.LAMB(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, strategy="fp32"),
             lambda p: LAMBReference(p, 1e-2, (0.8, 0.95), 1e-6, 0.1)),
    "clipped": (lambda p: tt.AdamW(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, max_norm=0.5,
                                   strategy="fp32"), clipped),
    "adamw": (lambda p: tt.AdamW(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, decay="before",
                                 strategy="fp32"),
              lambda p: torch.optim.AdamW(p, 1e-2, (0.8, 0.95), 1e-6, 0.1)),
    "adamw-defaults": (lambda p: tt.AdamW(p, decay="before", strategy="fp32"),
                       torch.optim.AdamW),
    "adam": (lambda p: tt.Adam(p, 1e-2, weight_decay=0.1, strategy="fp32"),
             lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.1)),
    "sgd": (lambda p: tt.SGD(p, 0.1, weight_decay=0.1, strategy="fp32"),
            lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1)),
    "momentum": (lambda p: tt.SGD(p, 0.1, 0.9, strategy="fp32"),
                 lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "nesterov": (lambda p: tt.SGD(p, 0.1, 0.9, weight_decay=0.1, nesterov=True, strategy="fp32"),
                 lambda p: torch.optim.SGD(p, 0.1, 0.9, 0, 0.1, nesterov=True)),
    "rmsprop": (lambda p: tt.RMSprop(p, 1e-2, 0.9, weight_decay=0.1, strategy="fp32"),
                lambda p: torch.optim.RMSprop(p, 1e-2, 0.9, weight_decay=0.1)),
    "adagrad": (lambda p: tt.Adagrad(p, 1e-2, 0.1, 0.1, strategy="fp32"),
                lambda p: torch.optim.Adagrad(p, 1e-2, 0.1, 0.1)),
    "nadam": (lambda p: tt.NAdam(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, 0.01, strategy="fp32"),
              lambda p: torch.optim.NAdam(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, 0.01)),
    "radam": (lambda p: tt.RAdam(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, strategy="fp32"),
              lambda p: torch.optim.RAdam(p, 1e-2, (0.8, 0.95), 1e-6, 0.1)),
    "adamax": (lambda p: tt.Adamax(p, 1e-2, (0.8, 0.95), 1e-6, 0.1, strategy="fp32"),
               lambda p: torch.optim.Adamax(p, 1e-2, (0.8, 0.95), 1e-6, 0.1)),
    "asgd": (lambda p: tt.ASGD(p, 0.1, 0.01, t0=4, weight_decay=0.1, strategy="fp32"),
             lambda p: torch.optim.ASGD(p, 0.1, 0.01, t0=4, weight_decay=0.1)),
    "rprop": (lambda p: tt.Rprop(p, 1e-2, (0.4, 1.3), (5e-3, 0.02), strategy="fp32"),
              lambda p: torch.optim.Rprop(p, 1e-2, (0.4, 1.3), (5e-3, 0.02))),
    "lion": (lambda p: tt.Lion(p, 1e-2, (0.9, 0.99), 0.1, strategy="fp32"),
             lambda p: LionReference(p, 1e-2, (0.9, 0.99), 0.1)),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_fp32_is_close_to_the_reference(name):
    ours, theirs = (make(parameters([(40, 3), (11,)], torch.float32))
                    for make in REFERENCES[name])
    for seed in range(8):
        train(ours, [seed])
        train(theirs, [seed])
    for p, q in zip(params_of(ours), params_of(theirs)):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=2e-6)


def test_a_sum_over_the_model_needs_one_launch():
    params = parameters([(4,)]) + parameters([(3,)], torch.float32)
    optimizer = tt.AdamW(params, max_norm=1.0)
    for p in params:
        p.grad = torch.ones_like(p)
    before = [p.detach().clone() for p in params]
    with pytest.raises(ValueError, match="adamw_clip sums over all parameters, but "
                       "parameter 1 is torch.float32 and others are torch.bfloat16"):
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(params, before))


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16", "fp8-lm"))
def test_grad_norm_is_that_of_torch(strategy):
    """The norm is that before clipping, also of gradients in codes, and of steps that only repeat
    others with new gradients."""
    params = parameters([(40, 3), (11,)], torch.float32 if strategy == "fp32" else torch.bfloat16)
    optimizer = tt.AdamW(params, max_norm=0.5, strategy=strategy)
    for seed in range(4):
        set_gradients(params, seed)
        want = math.sqrt(sum(p.grad.double().square().sum().item() for p in params))
        optimizer.step()
        assert optimizer.grad_norm == pytest.approx(want, rel=0.02 if strategy == "fp8-lm" else 1e-6)


def test_grad_norm_needs_a_step_with_max_norm():
    params = parameters([(4,)])
    with pytest.raises(RuntimeError, match="computes no norm; create it with max_norm="):
        tt.AdamW(params).grad_norm
    optimizer = tt.AdamW(params, max_norm=1.0)
    with pytest.raises(RuntimeError, match="the last step updated nothing"):
        optimizer.grad_norm
    train(optimizer, [0])
    params[0].grad = None
    optimizer.step()
    with pytest.raises(RuntimeError, match="the last step updated nothing"):
        optimizer.grad_norm


def test_max_norm_is_for_decay_inside():
    for options in ({}, {"decay": "before", "max_norm": 1.0}, {"stores_ratio": True}):
        with pytest.raises(ValueError, match="cautious needs decay='before', and neither"):
            tt.AdamW(parameters([(3,)]), cautious=True, **options)
    with pytest.raises(ValueError, match="does not choose for cautious=True, which was not measured"):
        tt.AdamW(parameters([(3,)]), decay="before", cautious=True, strategy="auto",
                 memory="1GiB")
    with pytest.raises(ValueError, match="max_norm needs decay='inside'"):
        tt.AdamW(parameters([(4,)]), decay="before", max_norm=1.0)


def test_defaults_are_those_of_torch():
    ours = tt.AdamW(parameters([(3,)])).defaults
    theirs = torch.optim.AdamW(parameters([(3,)])).defaults
    assert {name for name in ours if name not in theirs} == {
        "strategy", "min_8bit_size", "min_8bit_vector_size", "seed"}
    assert all(ours[name] == theirs[name] for name in ours if name in theirs)


#===----------------------------------------------------------------------===#
# Metrics
#===----------------------------------------------------------------------===#


def test_metrics_must_be_asked_for():
    optimizer = tt.AdamW(parameters([(3,)]))
    train(optimizer, [0])
    with pytest.raises(RuntimeError, match="create it with metrics=True"):
        optimizer.metrics()


@pytest.mark.skipif(not HAS_METRICS, reason="kernels do not measure")
@pytest.mark.parametrize("name", ["bf16", "collage-plus", "master-weights", "fp32"])
def test_metrics(name):
    dtype = dtype_of(name)
    params, same = (parameters([(300,), (70,)], dtype) for _ in range(2))
    optimizer = tt.AdamW(params, lr=1e-4, strategy=name, metrics=True)
    plain = tt.AdamW(same, lr=1e-4, strategy=name)
    with pytest.raises(RuntimeError, match="no step has been measured"):
        optimizer.metrics()
    train(optimizer, range(3))
    train(plain, range(3))
    assert_same_bits(optimizer, plain)
    measured = optimizer.metrics()
    assert list(measured) == ["edq", "edq_ratio", "update_norm", "lost_share"]
    assert measured["edq"] == pytest.approx(
        measured["edq_ratio"] * measured["update_norm"])
    assert 0 < measured["update_norm"] < 1
    if name == "bf16":
        assert 0 < measured["lost_share"] <= 1 and measured["edq_ratio"] < 0.9
    else:
        assert measured["lost_share"] == pytest.approx(0, abs=0.02)
        assert measured["edq_ratio"] == pytest.approx(1, abs=0.02)


@pytest.mark.skipif(not HAS_METRICS, reason="kernels do not measure")
@pytest.mark.parametrize("name", ["bf16", "collage-plus", "remainder"])
def test_metrics_follow_the_model(name):
    strategy, hypers = LIBRARY[name], cases.hypers("adamw", lr=1e-4)
    (p,) = params = parameters([(501,)])
    optimizer = tt.Optimizer(params, "adamw", name, metrics=True, **hypers)
    planes = initial_planes("adamw", strategy, p)
    for t in (1, 2):
        set_gradients(params, t)
        planes["grad"] = bits(p.grad)
        old = planes
        new, intended = trace("adamw", strategy, old, hypers, t)
        planes = old | new
        optimizer.step()
    want = metrics.descent_quality(
        intended, metrics.effective_update(strategy.storage("param"), "param", old, new))
    got = optimizer.metrics()
    assert got["edq"] == pytest.approx(want.quality, rel=1e-12)
    assert got["edq_ratio"] == pytest.approx(want.relative, rel=1e-12)
    asked = np.count_nonzero(intended) / len(intended)
    assert got["lost_share"] == pytest.approx(want.lost_share / asked, rel=1e-12)


@pytest.mark.skipif(not HAS_METRICS, reason="kernels do not measure")
def test_metrics_cover_both_kernels():
    narrow, wide = parameters([(90,)]), parameters([(40,)], torch.float32, seed=1)
    one, two, both = (tt.AdamW(params, lr=1e-3, metrics=True)
                      for params in (narrow, wide, parameters([(90,)]) + parameters(
                          [(40,)], torch.float32, seed=1)))
    train(both, [0])
    for optimizer, p in zip((one, two), params_of(both)):
        params_of(optimizer)[0].grad = p.grad
        optimizer.step()
    norms = [o.metrics()["update_norm"] for o in (one, two, both)]
    assert norms[2] ** 2 == pytest.approx(norms[0] ** 2 + norms[1] ** 2)
    both.zero_grad()
    both.step()
    assert set(both.metrics().values()) == {0.0}
