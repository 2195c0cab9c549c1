#===- test_torch_groups.py - Strategies of param groups -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests strategies per param group and steps that maximize: the bits of separate
# optimizers, checkpoints, and errors.
#
#===----------------------------------------------------------------------===#

import copy
import io
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from model import cases
from support.fake_gpu import IS_REAL
from support.kernels import STRATEGY_PATH
from support.thread_ranks import Threads, one_rank
from support.torch_bits import (LIBRARY, VISIBLE, assert_same_bits, bits, dtype_of,
                                parameters, params_of, placeholders, set_gradients, train)
from support.torch_needs import needs_adafactor, needs_grad_dtype
from support.torch_on_gpu import TorchGPU

SHAPES = [(64, 70), (17,), (3, 5)]


def groups_of(strategies, seed=0, **options):
    """Returns a param group of random parameters for each strategy."""
    return [{"params": parameters(SHAPES, torch.float32 if name == "fp32" else torch.bfloat16,
                                  seed=seed + i), "strategy": name, **options}
            for i, name in enumerate(strategies)]


def make(strategies, **options):
    options = {"lr": 1e-2, "strategy": "bf16", "min_8bit_size": 0} | options
    return tt.AdamW(groups_of(strategies), **options)


def optimizers_apart(strategies, cls=tt.AdamW, **options):
    """Returns a separate optimizer for each group, in which its parameters have the same numbers
    as in one optimizer of all groups."""
    return [cls([*placeholders(i * len(SHAPES)), *group["params"]], lr=1e-2,
                strategy=group["strategy"], **options)
            for i, group in enumerate(groups_of(strategies))]


def trained(*optimizers):
    """Returns the parameters of optimizers, without placeholders."""
    return [p for one in optimizers for p in params_of(one) if p.requires_grad]


def backward(seed, *optimizers):
    """Computes random gradients, encoded if a strategy does so."""
    generator = torch.Generator().manual_seed(seed)
    sum((p.float() * torch.randn(p.shape, generator=generator)).sum()
        for p in trained(*optimizers)).backward()


def run(optimizer, seeds):
    for seed in seeds:
        backward(seed, optimizer)
        optimizer.step()
        optimizer.zero_grad()


def run_alike(together, apart, steps):
    """Runs steps of one optimizer and of several with the same gradients."""
    for seed in range(steps):
        backward(seed, together)
        backward(seed, *apart)
        for optimizer in (together, *apart):
            optimizer.step()
            optimizer.zero_grad()


def saved_and_loaded(value):
    """Saves to a file and loads, as checkpoints are."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


#===----------------------------------------------------------------------===#
# Strategies of groups
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategies", [
    ("remainder", "coat"), ("collage-plus", "fp32"), ("flash", "bf16", "adam8bit"),
    ("fp8-collage-plus", "master-weights"), ("fp8-lm", "residual-softsign-root")])
@pytest.mark.parametrize("release", [False, True])
def test_groups_are_as_optimizers_apart(strategies, release):
    both = make(strategies, gradient_release=release)
    apart = optimizers_apart(strategies, min_8bit_size=0)
    run_alike(both, apart, steps=3)
    mine, want = params_of(both), trained(*apart)
    states = {p: s for one in apart for p, s in one.state.items()}
    for p, q in zip(mine, want):
        assert np.array_equal(bits(p), bits(q)) and both.state[p].keys() == states[q].keys()
        for name, plane in both.state[p].items():
            assert name == "step" or np.array_equal(bits(plane), bits(states[q][name]))


@pytest.mark.parametrize("cls, options, strategies", [
    (tt.SGD, {"momentum": 0.9}, ("coat", "collage-light")), (tt.Lion, {}, ("flash", "bf16")),
    (tt.Adafactor, {}, ("collage-plus", "coat")), (tt.LAMB, {}, ("remainder", "coat"))])
def test_every_optimizer_takes_them(cls, options, strategies):
    both = cls(groups_of(strategies), lr=1e-2, **options)
    apart = optimizers_apart(strategies, cls, **options)
    run_alike(both, apart, steps=2)
    for p, q in zip(params_of(both), trained(*apart)):
        assert np.array_equal(bits(p), bits(q))


def test_a_stochastic_group_has_a_seed():
    """The group has a seed although the strategy of the others has none."""
    both = tt.AdamW(groups_of(["bf16-stochastic", "coat-remainder", "bf16"]), lr=1e-3, seed=9,
                    strategy="bf16")
    alone = tt.AdamW(groups_of(["bf16-stochastic"]), lr=1e-3, seed=9)
    assert [group.get("seed") for group in both.param_groups] == [9, 9, None]
    for optimizer in (both, alone):
        train(optimizer, range(3))
    for p, q in zip(params_of(both), params_of(alone)):
        assert np.array_equal(bits(p), bits(q))
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        tt.AdamW(groups_of(["bf16-stochastic"]), strategy="bf16", seed=2**64)


def test_a_group_that_is_added():
    optimizer = make(["coat"])
    run(optimizer, range(2))
    (group,) = groups_of(["fp8-collage-plus"], seed=1)
    optimizer.add_param_group(group)
    run(optimizer, [2])
    assert [optimizer.state[p]["step"] for p in params_of(optimizer)] == [3] * 3 + [1] * 3
    assert "param.scale" in optimizer.state[group["params"][0]]
    plain = parameters([(4,)])
    optimizer.add_param_group({"params": plain})
    assert optimizer.param_groups[2]["strategy"] == "bf16" == optimizer.strategy


@pytest.mark.parametrize("options, error, message", [
    (dict(strategy="adam8"), ValueError, "the strategy of param group 1: .*unknown strategy "
                                         "'adam8'; built-in ones are"),
    (dict(strategy=None), TypeError, "strategy of param group 1 must be a strategy's name, "
                                     "got None"),
    (dict(strategy="fp32"), TypeError, "parameter 3 is torch.bfloat16, but strategy 'fp32' "
                                       "keeps weights in torch.float32"),
    (dict(strategy="f16-fp32-optim"), TypeError, "parameter 3 is torch.bfloat16, but strategy "
                                                 "'f16-fp32-optim' keeps"),
    (dict(strategy="bf16", eps=1e-60), ValueError, "'eps' of param group 1 .*round to zero"),
    (dict(min_8bit_size="big"), TypeError, "min_8bit_size of param group 1 must be a number of "
                                           "elements, or None for none, got 'big'"),
    (dict(min_8bit_size=True), TypeError, "got True"),
    (dict(min_8bit_size=-1), ValueError, "min_8bit_size of param group 1 is -1; it must be at "
                                         "least 0"),
    (dict(maximize=1), TypeError, "maximize of param group 1 must be True or False, got 1"),
    (dict(strategy="fp8-lm", maximize=True), ValueError,
     "param group 1 has maximize=True, but strategy 'fp8-lm' stores gradients in codes, which "
     "a step takes as they are; negate the loss, or take a strategy with plain gradients"),
])
def test_bad_groups(options, error, message):
    optimizer = make(["coat"])
    with pytest.raises(error, match=message):
        optimizer.add_param_group({"params": parameters(SHAPES)} | options)
    assert len(optimizer.param_groups) == 1 == len(optimizer._groups._noted)
    run(optimizer, [0])


def test_a_sum_over_the_model_needs_one_strategy():
    optimizer = tt.AdamW(groups_of(["coat", "remainder"]), max_norm=1.0)
    before = [bits(p) for p in params_of(optimizer)]
    with pytest.raises(ValueError, match="adamw_clip sums over all parameters, but parameter 3 "
                       "is under strategy 'remainder' and others are under 'coat'; give all "
                       "param groups one"):
        train(optimizer, [0])
    assert not optimizer.state
    assert all(np.array_equal(bits(p), b) for p, b in zip(params_of(optimizer), before))


def test_weights_are_decoded_where_they_are_codes():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).bfloat16()
    twin = copy.deepcopy(model)
    optimizers = [tt.AdamW([{"params": m[0].parameters(), "strategy": "fp8-collage-plus"},
                            {"params": m[1].parameters()}], strategy="flash", lr=1e-2)
                  for m in (model, twin)]
    tt.decode_weights(model, optimizers[0])
    for _ in range(2):
        for m, optimizer in zip((model, twin), optimizers):
            m(torch.ones(2, 64, dtype=torch.bfloat16)).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert optimizers[0].live_bytes()["working"] == 0
    for p, q in zip(model.state_dict().values(), twin.state_dict().values()):
        assert np.array_equal(bits(p), bits(q))


def test_gradients_of_ranks():
    """Each gradient storage is summed separately, plain ones without encoding."""
    def train(rank):
        torch.set_num_threads(1)
        together = make(["fp8-lm", "coat", "fp8-collage-light"])
        apart = optimizers_apart(["fp8-lm", "coat", "fp8-collage-light"], min_8bit_size=0)
        for p, q in zip(params_of(together), trained(*apart)):
            for x in (p, q):
                (x.float() * torch.linspace(-1, 1, x.numel()).view(x.shape)).sum().backward()
        reduce = tt.GradientAllReduce(together, rank, tt.AutomaticScaling())
        reduce()
        for optimizer in (apart[0], apart[2]):
            tt.GradientAllReduce(optimizer, rank, tt.AutomaticScaling())()
        for optimizer in (together, *apart):
            optimizer.step()
        assert 0 < reduce.saturated < 1
        for p, q in zip(params_of(together), trained(*apart)):
            assert np.array_equal(bits(p), bits(q))

    Threads(2).run(train)
    with pytest.raises(ValueError, match="strategy 'coat' stores gradients as"):
        tt.GradientAllReduce(make(["coat", "flash"]), one_rank())


#===----------------------------------------------------------------------===#
# Bytes and text
#===----------------------------------------------------------------------===#


def test_bytes_are_those_of_all_groups():
    groups = [{"params": parameters([(128, 128)]), "strategy": "coat"},
              {"params": parameters([(128, 64), (64, 128)]), "strategy": "remainder"},
              {"params": parameters([(128, 256)], torch.float32), "strategy": "fp32"}]
    frozen = torch.nn.Parameter(torch.ones(500, 500), requires_grad=False)
    optimizer = tt.AdamW([*groups, {"params": [frozen]}])
    count = 128 * 128
    want = (10.078125 + 14 + 2 * 16) / 4
    assert optimizer.bytes_per_parameter == want
    set_gradients([p for group in groups for p in group["params"]], 0)
    optimizer.step()
    assert sum(optimizer.live_bytes().values()) == want * 4 * count + frozen.nbytes
    assert """    graph: adamw
    strategies: 14.0195 B/parameter
        coat: 16384 parameters, 10.0781 B each
        remainder: 16384 parameters, 14 B each
        fp32: 32768 parameters, 16 B each
""" in repr(optimizer)


def test_text_of_one_strategy():
    """The text shows the group's strategy, and not the default of other groups."""
    text = repr(tt.AdamW(groups_of(["remainder"])))
    assert "    strategy: remainder (14 B/parameter)\n" in text
    assert "    strategy: remainder\n" in text and "flash-f16" not in text
    frozen = [p.requires_grad_(False) for p in parameters([(3,)])]
    assert tt.AdamW(frozen).bytes_per_parameter == 8.25


#===----------------------------------------------------------------------===#
# Checkpoints
#===----------------------------------------------------------------------===#

MIXED = ("remainder", "fp8-collage-plus", "bf16-stochastic", "coat")


@pytest.mark.parametrize("duplicate", [
    copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_copies_continue_alike(duplicate):
    strategies = ("remainder", "flash", "bf16-stochastic", "adam8bit")
    optimizer = make(strategies)
    run(optimizer, range(2))
    twin = duplicate(optimizer)
    assert [group["strategy"] for group in twin.param_groups] == list(strategies)
    run(optimizer, range(2, 4))
    run(twin, range(2, 4))
    assert_same_bits(twin, optimizer)


def test_a_run_resumes():
    optimizer = make(MIXED, seed=5)
    run(optimizer, range(2))
    checkpoint = saved_and_loaded({"weights": params_of(optimizer),
                                   "state": optimizer.state_dict()})
    run(optimizer, range(2, 4))
    other = make(MIXED, strategy="fp32")  # a strategy that no group uses
    for p, q in zip(params_of(other), checkpoint["weights"]):
        p.data.copy_(q)
    other.load_state_dict(checkpoint["state"])
    assert [group["strategy"] for group in other.param_groups] == list(MIXED)
    run(other, range(2, 4))
    assert_same_bits(other, optimizer)


def test_a_state_dict_says_what_it_is_of():
    said = make(["coat", "remainder", "bf16"]).state_dict()["tandem"]
    assert said["strategy"] == "bf16" and said["strategies"].keys() == {"coat", "remainder"}
    assert said["strategies"]["remainder"] == {
        "compute": "f32 f32", "storages": {
            "param": "#tandem.remainder", "grad": "#tandem.float<bf16>",
            "exp_avg": "#tandem.float<f32>", "exp_avg_sq": "#tandem.float<f32>"}}
    assert "strategies" not in make(["bf16", "bf16"]).state_dict()["tandem"]


@pytest.mark.parametrize("theirs, ours", [
    (("coat", "remainder"), ("coat", "flash")), (("coat", "coat"), ("coat", "remainder")),
    (("remainder", "coat"), ("coat", "remainder"))])
def test_another_strategy_of_a_group_is_refused(theirs, ours):
    source, target = make(theirs), make(ours)
    run(source, [0])
    before = str(target.state_dict())
    shown = "'coat'" if len(set(theirs)) == 1 else rf"\['{theirs[0]}', '{theirs[1]}'\]"
    with pytest.raises(ValueError, match=(
            f"is under strategy {shown}, this optimizer under "
            rf"\['{ours[0]}', '{ours[1]}'\] .they differ in strategy.; leave convert=False out")):
        target.load_state_dict(source.state_dict(), convert=False)
    assert str(target.state_dict()) == before


def test_a_strategy_that_has_changed_its_file_is_refused(tmp_path):
    text = """tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<%s>
}"""
    states = []
    for format in ("bf16", "f32"):
        (tmp_path / "mine.mlir").write_text(text % format)
        optimizer = make(["mine", "coat"], path=[tmp_path])
        run(optimizer, [0])
        states.append(optimizer.state_dict())
    with pytest.raises(ValueError, match="they differ in storages"):
        optimizer.load_state_dict(states[0], convert=False)
    optimizer.load_state_dict(states[1])


def test_a_state_of_torch_keeps_the_strategies():
    params = parameters(SHAPES, torch.float32)
    theirs = torch.optim.AdamW([{"params": params[:1]}, {"params": params[1:], "lr": 0.5}])
    train(theirs, [0])
    ours = tt.AdamW([{"params": params[:1], "strategy": "fp32"}, {"params": params[1:]}],
                    decay="before", strategy="coat-fp32")
    ours.load_state_dict(theirs.state_dict())
    assert [group["strategy"] for group in ours.param_groups] == ["fp32", "coat-fp32"]
    assert [group["lr"] for group in ours.param_groups] == [1e-3, 0.5]
    train(ours, [1])


#===----------------------------------------------------------------------===#
# Changes
#===----------------------------------------------------------------------===#


def test_a_strategy_may_change_before_there_are_states():
    changed, want = make(["bf16", "coat"]), make(["bf16", "fp8-collage-plus"])
    changed.param_groups[1]["strategy"] = "fp8-collage-plus"
    for optimizer in (changed, want):
        run(optimizer, range(2))
    assert_same_bits(changed, want)


@pytest.mark.parametrize("there", ["remainder", "fp8-collage-plus"])
def test_a_strategy_cannot_change_after_that(there):
    optimizer, twin = make(["bf16", "coat"]), make(["bf16", "coat"])
    for one in (optimizer, twin):
        run(one, range(3))  # the last step replays the previous one
    optimizer.param_groups[1]["strategy"] = there
    message = (f"param group 1 now has strategy='{there}', but its states are stored as by "
               "strategy='coat'; set that again, and convert the state: tandem.torch."
               "convert_state.optimizer.state_dict.., weights, strategies. with a strategy for "
               "each group")
    with pytest.raises(ValueError, match=message):
        train(optimizer, [3])
    with pytest.raises(ValueError, match=message):
        optimizer.state_dict()
    optimizer.zero_grad()
    optimizer.param_groups[1]["strategy"] = "coat"
    for one in (optimizer, twin):
        run(one, range(3, 5))
    assert_same_bits(optimizer, twin)


def test_gradients_in_codes_keep_their_strategy():
    optimizer = make(["fp8-lm"])
    backward(0, optimizer)
    optimizer.param_groups[0]["strategy"] = "fp8-collage-plus"
    with pytest.raises(ValueError, match="param group 0 now has strategy='fp8-collage-plus'"):
        backward(0, optimizer)
    optimizer.zero_grad()
    run(optimizer, [0])
    assert "exp_avg_sq.lo" in optimizer.state[params_of(optimizer)[0]]


def test_a_parameter_that_changes_its_group():
    """Its states have the storages of the old group's strategy."""
    optimizer = make(["fp8-lm", "fp8-collage-plus"])
    run(optimizer, [0])
    groups = optimizer.param_groups
    groups[0]["params"].append(groups[1]["params"].pop(0))
    backward(1, optimizer)
    with pytest.raises(ValueError, match="the state of parameter 3 has .* as 'adamw' under "
                                         "'fp8-lm' needs"):
        optimizer.step()
    groups[1]["params"].insert(0, groups[0]["params"].pop())
    optimizer.zero_grad()
    run(optimizer, [1])


@pytest.mark.parametrize("make, values, message", (
    (tt.Rprop, {"etas": (2.0, 3.0)}, "etas of param group 0"),
    (tt.Adafactor, {"d": 0.5}, "'d' of param group 0 is 0.5; it must be at least 1"),
    (tt.MARS, {"gamma": 1.5}, "gamma of param group 0 is 1.5"),
    (tt.CAME, {"clip_threshold": 0.0}, "'clip_threshold' of param group 0 is 0"),
    (tt.NAdam, {"momentum_decay": -1.0}, "momentum_decay of param group 0 is -1.0"),
    (tt.Muon, {"adjust_lr_fn": "rms"}, "adjust_lr_fn of param group 0 is 'rms'"),
))
def test_values_that_change_are_checked(make, values, message):
    """Kernels do not check these, whose domains the optimizer knows."""
    (param,) = parameters([(6, 5)])
    optimizer = make([{"params": [param], "use_muon": True}] if make is tt.Muon else [param])
    train(optimizer, range(2))
    before = param.detach().clone()
    optimizer.param_groups[0].update(values)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            train(optimizer, [2])
    assert torch.equal(param, before)


def test_what_changes_must_mean_something():
    optimizer = make(["bf16"])
    run(optimizer, [0])
    optimizer.param_groups[0]["strategy"] = "nothing"
    with pytest.raises(ValueError, match="the strategy of param group 0: .*unknown strategy"):
        train(optimizer, [1])
    optimizer.param_groups[0] |= {"strategy": "bf16", "maximize": None}
    with pytest.raises(TypeError, match="maximize of param group 0 must be True or False"):
        train(optimizer, [1])


@pytest.mark.parametrize("target", [("remainder", "remainder"), ("bf16", "fp8-collage-plus"),
                                    ("flash", "coat"), "master-weights"])
def test_groups_are_converted(target):
    """Conversion gives the same as for separate optimizers."""
    optimizer = make(["collage-plus", "coat"])
    run(optimizer, range(2))
    state, weights = tt.convert_state(optimizer.state_dict(), params_of(optimizer), target)
    names = [target] * 2 if isinstance(target, str) else list(target)
    assert [group["strategy"] for group in state["param_groups"]] == names
    other = make(names)
    for p, w in zip(params_of(other), weights):
        p.data.copy_(w)
    other.load_state_dict(state)
    for index, (source, name) in enumerate(zip(("collage-plus", "coat"), names)):
        (group,) = groups_of([source], seed=index)
        for p, q in zip(group["params"], optimizer.param_groups[index]["params"]):
            p.data.copy_(q)
        one = tt.AdamW(group["params"], lr=1e-2, strategy=source, min_8bit_size=0)
        one.load_state_dict({
            "state": {i: optimizer.state[p] for i, p in enumerate(
                optimizer.param_groups[index]["params"])},
            "param_groups": [optimizer.state_dict()["param_groups"][index] | {
                "params": list(range(len(SHAPES)))}]})
        alone, values = tt.convert_state(
            one.state_dict(), optimizer.param_groups[index]["params"], name)
        for i, (p, w) in enumerate(zip(other.param_groups[index]["params"], values)):
            assert np.array_equal(bits(p), bits(w))
            assert all(name == "step" or np.array_equal(bits(plane), bits(other.state[p][name]))
                       for name, plane in alone["state"][i].items())
    run(other, [2])


def test_messages_of_conversions():
    optimizer = make(["collage-plus", "coat"])
    given = optimizer.state_dict(), params_of(optimizer)
    with pytest.raises(ValueError, match="there are 2 param groups, but 3 strategies; give one"):
        tt.convert_state(*given, ["coat"] * 3)
    with pytest.raises(TypeError, match="strategy of param group 1 must be a strategy's name"):
        tt.convert_state(*given, ["coat", None])
    with pytest.raises(ValueError, match="min_8bit_size of param group 0 is -2"):
        tt.convert_state(*given, "coat", min_8bit_size=-2)


#===----------------------------------------------------------------------===#
# Steps that maximize
#===----------------------------------------------------------------------===#


def train_negated(optimizer, seeds):
    for seed in seeds:
        set_gradients(params_of(optimizer), seed)
        for p in params_of(optimizer):
            p.grad = -p.grad
        optimizer.step()


@pytest.mark.parametrize("strategy", VISIBLE)
def test_maximize_negates_the_gradient_alone(strategy):
    """Steps have the bits of those with negated gradients, and gradients are not modified."""
    eps = cases.hypers("adamw", LIBRARY[strategy])["eps"]
    ours, want = (tt.AdamW(parameters(SHAPES, dtype_of(strategy)), lr=1e-2, eps=eps,
                           strategy=strategy, path=[STRATEGY_PATH], weight_decay=0.1, seed=3,
                           maximize=maximize)
                  for maximize in (True, False))
    train(ours, range(3))
    train_negated(want, range(3))
    assert_same_bits(ours, want)
    other = parameters(SHAPES, dtype_of(strategy))
    set_gradients(other, 2)
    for p, q in zip(params_of(ours), other):
        assert np.array_equal(bits(p.grad), bits(q.grad))


TORCH = {
    "AdamW": (lambda p: tt.AdamW(p, decay="before", strategy="fp32", maximize=True),
              lambda p: torch.optim.AdamW(p, maximize=True)),
    "Adam": (lambda p: tt.Adam(p, weight_decay=0.1, strategy="fp32", maximize=True),
             lambda p: torch.optim.Adam(p, weight_decay=0.1, maximize=True)),
    "SGD": (lambda p: tt.SGD(p, 0.1, 0.9, weight_decay=0.1, strategy="fp32", maximize=True),
            lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.1, maximize=True)),
    "RMSprop": (lambda p: tt.RMSprop(p, 1e-2, weight_decay=0.1, strategy="fp32",
                                     maximize=True),
                lambda p: torch.optim.RMSprop(p, 1e-2, weight_decay=0.1, maximize=True)),
    "Adafactor": (lambda p: tt.Adafactor(p, strategy="fp32", maximize=True),
                  lambda p: torch.optim.Adafactor(p, maximize=True)),
}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=needs_adafactor if name == "Adafactor" else ()) for name in TORCH])
def test_maximize_is_that_of_torch(name):
    ours, theirs = (make_one(parameters(SHAPES, torch.float32)) for make_one in TORCH[name])
    for optimizer in (ours, theirs):
        train(optimizer, range(6))
    for p, q in zip(params_of(ours), params_of(theirs)):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=2e-6)


def test_maximize_is_an_option_of_groups():
    """It may change between steps, also after a replayed one."""
    shapes = [(9, 5), (4,)]
    optimizer = tt.AdamW([{"params": [p], "maximize": i == 1} for i, p in enumerate(
        parameters(shapes))], lr=1e-2)
    want = tt.AdamW([{"params": [p]} for p in parameters(shapes)], lr=1e-2)
    signs = [(1, -1)] * 3 + [(1, 1)] * 3 + [(-1, 1)] * 2 + [(1, -1)]
    for seed, pair in enumerate(signs):
        for one in (optimizer, want):
            set_gradients(params_of(one), seed)
        for group, p, sign in zip(optimizer.param_groups, params_of(want), pair):
            group["maximize"] = sign < 0
            p.grad.mul_(sign)
        optimizer.step()
        want.step()
        assert_same_bits(optimizer, want)


@pytest.mark.parametrize("options", [
    {"skip_nonfinite": True}, {"max_norm": 0.5}, {"metrics": True}])
def test_maximize_beside_other_options(options):
    ours, want = (tt.AdamW(parameters(SHAPES), lr=1e-2, maximize=maximize, **options)
                  for maximize in (True, False))
    train(ours, range(2))
    train_negated(want, range(2))
    assert_same_bits(ours, want)
    if "metrics" in options:
        assert ours.metrics() == want.metrics()
    if "skip_nonfinite" in options:
        params_of(ours)[1].grad[3] = torch.inf
        ours.step()
        assert ours.skipped
        assert_same_bits(ours, want)


def test_maximize_with_released_gradients():
    def loss_of(optimizer):
        return sum((p.float() ** 2).sum() for p in params_of(optimizer))

    ours = tt.AdamW(parameters(SHAPES), lr=1e-2, maximize=True, gradient_release=True)
    want = tt.AdamW(parameters(SHAPES), lr=1e-2)
    for _ in range(2):
        loss_of(ours).backward()
        (-loss_of(want)).backward()
        for optimizer in (ours, want):
            optimizer.step()
            optimizer.zero_grad()
    assert_same_bits(ours, want)
    assert all(p.grad is None for p in params_of(ours))


@needs_grad_dtype
def test_maximize_rounds_wider_gradients():
    (p,), (q,) = parameters([(40,)]), parameters([(40,)])
    for x in (p, q):
        x.grad_dtype = torch.float32
    ours, want = tt.AdamW([p], lr=1e-2, maximize=True), tt.AdamW([q], lr=1e-2)
    p.grad = torch.randn(40)
    q.grad = -p.grad
    ours.step()
    want.step()
    assert_same_bits(ours, want)
    p.grad = torch._neg_view(p.grad)
    q.grad = (-p.grad).clone()
    ours.step()
    want.step()
    assert_same_bits(ours, want)


def test_maximize_needs_plain_gradients():
    message = "param group 0 has maximize=True, but strategy 'fp8-lm' stores gradients in codes"
    with pytest.raises(ValueError, match=message):
        tt.AdamW(parameters(SHAPES), strategy="fp8-lm", maximize=True)
    optimizer = make(["fp8-lm"])
    run(optimizer, [0])
    before = copy.deepcopy(optimizer)
    backward(1, optimizer)
    optimizer.param_groups[0]["maximize"] = True
    with pytest.raises(ValueError, match=message):
        optimizer.step()
    assert_same_bits(optimizer, before)
    # Gradients of weights that are kept in float32 are plain.
    wide = tt.AdamW(parameters(SHAPES, torch.float32), strategy="fp8-lm", maximize=True)
    train(wide, [0])


def test_maximize_in_checkpoints():
    params = parameters(SHAPES, torch.float32)
    theirs = torch.optim.SGD(params, 0.1, 0.9, maximize=True)
    ours = tt.SGD(parameters(SHAPES, torch.float32), 0.1, 0.9, strategy="fp32")
    ours.load_state_dict(theirs.state_dict())
    assert ours.param_groups[0]["maximize"] is True
    train(theirs, [0])
    train(ours, [0])
    for p, q in zip(params, params_of(ours)):
        torch.testing.assert_close(p, q)
    other = tt.SGD(parameters(SHAPES, torch.float32), 0.1, 0.9, strategy="fp32")
    other.load_state_dict(saved_and_loaded(ours.state_dict()))
    assert other.param_groups[0]["maximize"] is True


def test_sparse_gradients_are_refused_as_ever():
    table = torch.nn.Embedding(4, 3, sparse=True, dtype=torch.bfloat16)
    optimizer = tt.AdamW(table.parameters(), maximize=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="gradient of parameter 0 is sparse .*to_dense"):
        optimizer.step()


#===----------------------------------------------------------------------===#
# On a GPU
#===----------------------------------------------------------------------===#


@pytest.mark.skipif(IS_REAL, reason="the driver that stands in for CUDA's is not there")
@pytest.mark.parametrize("options", [{}, {"capturable": True}], ids=["", "capturable"])
def test_groups_on_a_gpu(options):
    gpu = TorchGPU(2)

    def build(**more):
        shapes = [(70, 70), (5,)]
        return tt.AdamW([
            {"params": parameters(shapes), "strategy": "coat"},
            {"params": parameters(shapes, seed=1), "strategy": "remainder", "maximize": True},
            {"params": parameters(shapes, torch.float32), "strategy": "bf16-kahan"},
        ], lr=1e-2, **more)

    want = build()
    train(want, range(2))
    with gpu.holds_torch():
        got = build(**options)
        train(got, range(2))
    for state in got.state.values():
        state["step"] = int(state["step"])
    assert_same_bits(got, want)
