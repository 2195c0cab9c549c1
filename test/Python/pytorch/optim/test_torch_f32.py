#===- test_torch_f32.py - Weights and states in float32 -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests what PyTorch optimizers keep in float32 in spite of a strategy: the states of
# small tensors, and float32 weights of a model.
#
#===----------------------------------------------------------------------===#

import copy
import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt
from model import OUTSIDE_STRATEGIES
from support.fake_gpu import IS_REAL
from support.kernels import STRATEGY_PATH, compiled
from support.torch_bits import (assert_same_bits, bits, parameters, params_of,
                                placeholders, set_gradients, train)
from support.torch_on_gpu import TorchGPU
from tandem import _companions
from tandem._companions import keeps_f32_states

SHAPES = [(17,), (3, 5), (), (63, 65), (4096,), (5, 0)]
STRATEGIES = [*tandem.strategies(), *OUTSIDE_STRATEGIES]
#: Strategies with coded states.
CODED = [name for name in STRATEGIES if "#tandem.scaled<" in "".join(
    storage for role, storage in compiled("adamw", name).storages.items()
    if role.startswith("exp_avg"))]
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
#: Strategies with the same weights and float32 states.
SAME_WEIGHTS = {"adam8bit": "dithered", "coat-bf16": "dithered", "coat": "master-weights",
                "coat-fp32": "fp32", "coat-remainder": "remainder"}
DITHERED = """
tandem.strategy @dithered compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<f32>
}"""


def states_of(optimizer):
    """Returns the types of each parameter's planes."""
    return [{name: plane.dtype for name, plane in optimizer.state[p].items() if name != "step"}
            for p in params_of(optimizer)]


F32 = {"exp_avg": torch.float32, "exp_avg_sq": torch.float32}

#===----------------------------------------------------------------------===#
# Small tensors
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("shape, bound, kept", [
    ((64, 64), 4096, False), ((63, 65), 4096, True), ((4096,), 4096, True),
    ((1 << 20,), 4096, True), ((), 4096, True), ((0, 9), 4096, True), ((1, 4096), 4096, False),
    ((16, 16, 4, 4), 4096, False), ((4, 4, 4), 4096, True), ((4, 4), 16, False),
    ((4, 4), 17, True), ((5,), 1, True), ((5,), 0, False), ((5,), None, False),
    ((), 0, False), (torch.Size((2, 2)), 5, True)])
def test_which_states_are_kept(shape, bound, kept):
    assert keeps_f32_states(shape, bound) is kept


@pytest.mark.parametrize("strategy, same", SAME_WEIGHTS.items())
def test_small_tensors_have_float32_states(strategy, same, tmp_path):
    """The bits are those of a strategy with float32 states, next to one tensor with codes."""
    (tmp_path / "dithered.mlir").write_text(DITHERED)
    dtype = torch.float32 if same == "fp32" else torch.bfloat16
    optimizer = tt.AdamW(parameters([*SHAPES, (64, 64)], dtype), lr=1e-2, strategy=strategy)
    small = tt.AdamW(parameters(SHAPES, dtype), lr=1e-2, strategy=same, path=[tmp_path])
    (weight,) = parameters([*SHAPES, (64, 64)], dtype)[-1:]
    large = tt.AdamW([*placeholders(len(SHAPES)), weight], lr=1e-2, strategy=strategy,
                     min_8bit_size=0)
    for seed in range(3):
        set_gradients(params_of(optimizer), seed)
        for p, q in zip([*params_of(small), weight], params_of(optimizer)):
            p.grad = q.grad.clone()
        for one in (optimizer, small, large):
            one.step()
    for p, q in zip([*params_of(small), weight], params_of(optimizer)):
        assert np.array_equal(bits(p), bits(q))
        want = small.state.get(p) or large.state.get(p)
        for name, plane in optimizer.state[q].items():
            assert name == "step" or np.array_equal(bits(plane), bits(want[name]))
        assert optimizer.state[q].keys() == want.keys()


@every_strategy
def test_the_weight_is_stored_as_ever(strategy):
    """Only coded states are replaced, together with all of their planes."""
    visible = next(p for p in compiled("adamw", strategy).planes if p.role == "param")
    dtype = {"f32": torch.float32, "f16": torch.float16}.get(visible.type, torch.bfloat16)
    codes, small = (tt.AdamW(parameters([(40,)], dtype), lr=1e-2, eps=1e-3, strategy=strategy,
                             path=[STRATEGY_PATH], min_8bit_size=bound)
                    for bound in (None, 4096))
    for optimizer in (codes, small):
        (p,) = params_of(optimizer)
        (p.float() ** 2).sum().backward()
        optimizer.step()
    (before,), (after,) = states_of(codes), states_of(small)
    if strategy not in CODED:
        assert before == after
        assert_same_bits(small, codes)
        return
    assert after == {n: t for n, t in before.items() if not n.startswith("exp_avg")} | F32


@pytest.mark.parametrize("bound", [0, None])
def test_the_bound_may_be_off(bound):
    optimizer = tt.AdamW(parameters(SHAPES), strategy="coat", min_8bit_size=bound)
    train(optimizer, [0])
    assert all("exp_avg.exponent" in names for names in states_of(optimizer))
    assert optimizer.bytes_per_parameter == 10.078125


def test_the_bound_is_an_option_of_groups():
    first, second = parameters([(20, 30)]), parameters([(20, 30)])
    optimizer = tt.AdamW([{"params": first}, {"params": second, "min_8bit_size": 600}],
                         strategy="adam8bit")
    train(optimizer, [0])
    kept, coded = states_of(optimizer)
    assert kept == F32 and "exp_avg.scale" in coded
    optimizer.param_groups[1]["min_8bit_size"] = 601
    with pytest.raises(ValueError, match=(
            "param group 1 now has min_8bit_size=601, but its states are stored as by "
            "min_8bit_size=600; set that again, and convert the state: .*weights, 'adam8bit', "
            "min_8bit_size=601.")):
        optimizer.step()
    optimizer.param_groups[1]["min_8bit_size"] = 500  # has no effect
    train(optimizer, [1])


def test_sums_over_the_model_store_all_alike():
    """All parameters share one launch."""
    sums = tt.AdamW(parameters([*SHAPES, (64, 64)]), strategy="coat", max_norm=1.0)
    train(sums, [0])
    assert all("exp_avg.exponent" in names for names in states_of(sums))


@pytest.mark.parametrize("make, options, names", [
    (tt.Adafactor, {}, {"row_var", "col_var"}), (tt.Lion, {}, {"exp_avg"}),
    (tt.SGD, {"momentum": 0.9}, {"momentum_buffer"}), (tt.LAMB, {}, {"exp_avg", "exp_avg_sq"})])
def test_every_optimizer(make, options, names):
    optimizer = make(parameters([(8, 9)]), strategy="coat-bf16", **options)
    train(optimizer, range(2))
    (types,) = states_of(optimizer)
    assert types == dict.fromkeys(names, torch.float32)


def test_strategies_of_the_users(tmp_path):
    """Codes without a scale count as codes, but narrow floats do not, and rules apply in order."""
    (tmp_path / "mine.mlir").write_text("""
tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state named("exp_avg") = #tandem.float<f16>
  tandem.assign state = #tandem.coded<#scaled.minifloat<exponent = 5, mantissa = 2>>
}""")
    optimizer = tt.AdamW(parameters(SHAPES[:2]), strategy="mine", path=[tmp_path])
    train(optimizer, [0])
    assert states_of(optimizer) == [{"exp_avg": torch.float16,
                                     "exp_avg_sq": torch.float32}] * 2


def test_bytes_and_text():
    model = torch.nn.Linear(256, 64).bfloat16()
    optimizer = tt.AdamW(model.parameters(), strategy="adam8bit")
    count = 256 * 64
    want = (6.03125 * count + 12 * 64) / (count + 64)
    assert optimizer.bytes_per_parameter == pytest.approx(want, rel=1e-15)
    model(torch.ones(1, 256).bfloat16()).sum().backward()
    optimizer.step()
    assert sum(optimizer.live_bytes().values()) == want * (count + 64)
    assert f"""    strategies: {want:g} B/parameter
        adam8bit: 16384 parameters, 6.03125 B each
        adam8bit with f32 states: 64 parameters, 12 B each
""" in repr(optimizer)


#===----------------------------------------------------------------------===#
# Checkpoints of small tensors
#===----------------------------------------------------------------------===#


def test_a_state_dict_brings_its_bound():
    optimizer = tt.AdamW(parameters(SHAPES), lr=1e-2, strategy="coat", min_8bit_size=0)
    train(optimizer, range(2))
    other = tt.AdamW(parameters(SHAPES), strategy="coat")
    for p, q in zip(params_of(other), params_of(optimizer)):
        p.data.copy_(q)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.param_groups[0]["min_8bit_size"] == 0
    train(optimizer, [2])
    train(other, [2])
    assert_same_bits(other, optimizer)


@pytest.mark.parametrize("source, target", [("coat", "coat"), ("adam8bit", "flash"),
                                            ("fp32-optim", "coat"), ("coat", "fp32-optim")])
@pytest.mark.parametrize("bound", [None, 0, 20])
def test_conversions(source, target, bound):
    """Values are converted; states that are float32 in both keep their bits."""
    optimizer = tt.AdamW(parameters(SHAPES[:4]), lr=1e-2, strategy=source)
    train(optimizer, range(2))
    state, weights = tt.convert_state(
        optimizer.state_dict(), params_of(optimizer), target, min_8bit_size=bound)
    other = tt.AdamW([torch.nn.Parameter(w) for w in weights], strategy=target)
    other.load_state_dict(state)
    assert other.param_groups[0]["min_8bit_size"] == (4096 if bound is None else bound)
    for p, q in zip(params_of(optimizer), params_of(other)):
        bound = other.param_groups[0]["min_8bit_size"]
        kept = target == "fp32-optim" or keeps_f32_states(p.shape, bound)
        planes = other.state[q]
        assert ("exp_avg.scale" not in planes) == kept
        if kept:
            assert torch.equal(planes["exp_avg"], optimizer.state[p]["exp_avg"])
    train(other, [2])


#===----------------------------------------------------------------------===#
# Weights in float32
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy, same", [
    ("coat", "coat-fp32"), ("coat-remainder", "coat-fp32"),
    ("master-weights", "fp32"), ("remainder", "fp32"), ("fp32-optim", "fp32"),
    ("f16-master-weights", "fp32")])
def test_float32_weights_have_the_states_of_the_strategy(strategy, same):
    """Planes that refine a narrow weight are not needed and do not exist."""
    ours, want = (tt.AdamW(parameters([(64, 70), (9,)], torch.float32), lr=1e-2, strategy=name,
                           min_8bit_size=0) for name in (strategy, same))
    train(ours, range(3))
    train(want, range(3))
    assert_same_bits(ours, want)
    assert ours.bytes_per_parameter == want.bytes_per_parameter


@every_strategy
def test_every_strategy_takes_float32_weights(strategy):
    """The f32 arithmetic gives no warning, and states keep their storages."""
    own = compiled("adamw", strategy).storages
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Whatever the weight is, four bits are too few for an average.
        warnings.filterwarnings("ignore", "strategy .* stores 'exp_avg' of adamw in a few bits")
        optimizer = tt.AdamW(parameters([(64, 70)], torch.float32), lr=1e-2,
                             strategy=strategy, path=[STRATEGY_PATH], eps=1e-3)
    train(optimizer, range(2))
    (p,) = params_of(optimizer)
    kernel = optimizer._groups.spec_of(p).kernel
    assert kernel.compute == "f32 f32"
    assert kernel.storages == own | {"param": "#tandem.float<f32>", "grad": "#tandem.float<f32>"}
    live = optimizer.live_bytes()
    assert live["weights"] == 4 * p.numel() == live["gradients"]
    assert sum(live.values()) == pytest.approx(optimizer.bytes_per_parameter * p.numel(),
                                               rel=1e-2)


def test_autocast():
    """Under adam8bit, a float32 weight takes 4 + 4 + 2 bytes and its scales."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(128, 128, bias=False), torch.nn.Tanh(),
                                torch.nn.Linear(128, 128, bias=False))
    optimizer = tt.AdamW(model.parameters(), lr=1e-2, strategy="adam8bit")
    assert optimizer.bytes_per_parameter == 10.03125
    assert "strategy: adam8bit with f32 weights (10.0312 B/parameter)" in repr(optimizer)
    losses = []
    for _ in range(20):
        with torch.autocast("cpu", torch.bfloat16):
            loss = (model(torch.ones(4, 128)).float() - 0.5).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
    live = optimizer.live_bytes()
    assert sum(live.values()) == 10.03125 * 2 * 128 * 128


KAHAN = """
tandem.strategy @%s compute(<component, bf16>) {
  tandem.assign param = #tandem.kahan<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.kahan<bf16>
  tandem.assign state = #tandem.float<bf16>
}"""


def test_what_f32_cannot_compute_warns_once(tmp_path):
    """A state whose storage the f32 policy cannot use becomes float32."""
    (tmp_path / "summed.mlir").write_text(KAHAN % "summed")
    message = ("strategy 'summed' stores exp_avg_sq as #tandem.kahan<bf16>, which cannot be "
               "computed under the f32 policy of float32 parameters; beside these, exp_avg_sq "
               "is float32")
    _companions._warn.cache_clear()
    with pytest.warns(UserWarning, match=re.escape(message)) as caught:
        for _ in range(2):
            optimizer = tt.AdamW(parameters([(9, 5)]) + parameters([(9,)], torch.float32),
                                 strategy="summed", path=[tmp_path])
    assert len(caught) == 1
    train(optimizer, [0])
    narrow, wide = states_of(optimizer)
    assert "exp_avg_sq.compensation" in narrow
    assert wide == {"exp_avg": torch.bfloat16, "exp_avg_sq": torch.float32}


def test_no_part_of_a_narrow_weight_is_left():
    """A model that becomes float32 between steps loses the refining planes of its weights."""
    (p,) = params = parameters([(64, 70)])
    optimizer = tt.AdamW(params, strategy="flash")
    train(optimizer, [0])
    p.data = p.data.float()
    with pytest.raises(ValueError, match=(
            "the state of parameter 0 has 'param.residual', not the weight by itself, as "
            "'adamw' under 'flash with f32 weights' needs; load a state of that graph and "
            "strategy, or start anew with opt.state.pop.p.")):
        train(optimizer, [1])
    optimizer.state.pop(p)
    train(optimizer, [1])


@pytest.mark.parametrize("source, target", [("coat", "flash"), ("remainder", "adam8bit"),
                                            ("adam8bit", "fp32"), ("collage-plus", "coat")])
def test_float32_weights_are_converted(source, target):
    optimizer = tt.AdamW(parameters([(64, 70), (9,)], torch.float32), lr=1e-2, strategy=source)
    train(optimizer, range(2))
    state, weights = tt.convert_state(optimizer.state_dict(), params_of(optimizer), target)
    other = tt.AdamW([torch.nn.Parameter(w) for w in weights], lr=1e-2, strategy=target)
    other.load_state_dict(state)
    for p, q in zip(params_of(optimizer), params_of(other)):
        assert q.dtype == torch.float32 and np.array_equal(bits(p), bits(q))
    train(other, [2])


@pytest.mark.skipif(IS_REAL, reason="the driver that stands in for CUDA's is not there")
@pytest.mark.parametrize("strategy", ["adam8bit", "fp8-lm", "collage-plus"])
def test_on_a_gpu(strategy):
    def build():
        return tt.AdamW(parameters([(64, 70), (9,)], torch.float32), lr=1e-2, strategy=strategy)

    gpu = TorchGPU(2)
    want = build()
    train(want, range(2))
    with gpu.holds_torch():
        got = build()
        train(got, range(2))
    assert_same_bits(got, want)
