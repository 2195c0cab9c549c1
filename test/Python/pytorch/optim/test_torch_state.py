#===- test_torch_state.py - Checkpoints of the optimizers ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests state dicts, copies and pickles of the PyTorch optimizers.
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
from support.torch_bits import (LIBRARY, assert_same_bits, bits, dtype_of, parameters,
                                params_of, reloaded, train)

SHAPES = [(17,), (3, 5)]


def saved_and_loaded(value):
    """Saves to a file and loads, as checkpoints are."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


def clones(params):
    return [torch.nn.Parameter(p.detach().clone()) for p in params]


def make(strategy, params=None, **options):
    if params is None:
        params = parameters(SHAPES, dtype_of(strategy)) + parameters([(4,)], torch.float32)
    eps = cases.hypers("adamw", LIBRARY[strategy])["eps"]
    return tt.AdamW(params, lr=1e-2, eps=eps, strategy=strategy, **options)


@pytest.mark.parametrize("strategy, names", [
    ("flash", ["exp_avg.scale", "exp_avg_sq.scale"]),
    ("coat", ["exp_avg.scale", "exp_avg.exponent", "exp_avg_sq.scale",
              "exp_avg_sq.exponent"])])
def test_planes_of_groups(strategy, names):
    """There is one entry for each group of each row."""
    optimizer = make(strategy, parameters([(7, 143)]), min_8bit_size=0)
    train(optimizer, [0])
    state = optimizer.state[params_of(optimizer)[0]]
    group = 32 if strategy == "flash" else 128
    assert [n for n, t in state.items() if n != "step" and t.shape != (7, 143)] == names
    assert all(state[n].shape == (7, -(-143 // group)) for n in names)
    assert all(bits(state[n]).all() for n in names)


def test_loading_keeps_every_bit():
    """Neither a cast to the weight's dtype nor a canonical NaN changes a plane."""
    optimizer = make("remainder")
    train(optimizer, [0])
    p = params_of(optimizer)[0]
    state = optimizer.state[p]
    pattern = torch.arange(p.numel(), dtype=torch.int32) * 0x0F00_1234
    state["exp_avg"].view(torch.int32).copy_(pattern)
    state["param.remainder"].copy_(pattern.to(torch.int16))
    other = make("remainder")
    other.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    loaded = other.state[params_of(other)[0]]
    for name in ("exp_avg", "param.remainder"):
        assert loaded[name].dtype == state[name].dtype
        assert np.array_equal(bits(loaded[name]), bits(state[name]))


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16", "coat", "collage-plus", "fp8-lm"))
def test_a_strangers_state_dict_runs_no_code(strategy):
    """State dicts have nothing that torch.load(weights_only=True) refuses (SECURITY.md)."""
    def make():
        return tt.AdamW(parameters([(64, 80), (7,)], dtype_of(strategy) if strategy != "fp8-lm"
                                   else torch.float16), strategy=strategy, min_8bit_size=0)
    optimizer = make()
    train(optimizer, range(2))
    other = reloaded(optimizer, make)
    for one in (optimizer, other):
        train(one, [2])
    assert_same_bits(other, optimizer)


def test_loading_copies():
    """If two optimizers shared a plane, each would update the other's state."""
    optimizer = make("collage-plus")
    train(optimizer, [0])
    other = make("collage-plus", clones(params_of(optimizer)))
    other.load_state_dict(optimizer.state_dict())
    p, q = params_of(optimizer)[0], params_of(other)[0]
    before = bits(optimizer.state[p]["exp_avg"])
    train(other, [1])
    assert np.array_equal(bits(optimizer.state[p]["exp_avg"]), before)
    assert other.state[q]["step"] == 2 and optimizer.state[p]["step"] == 1


@pytest.mark.parametrize("strategy", ["collage-plus", "bf16-stochastic", "fp32"])
@pytest.mark.parametrize("duplicate", [
    copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o)),
], ids=["deepcopy", "pickle"])
def test_copies_continue_alike(strategy, duplicate):
    optimizer = make(strategy, seed=9)
    train(optimizer, range(2))
    twin = duplicate(optimizer)
    assert twin.strategy == strategy
    train(optimizer, range(2, 4))
    train(twin, range(2, 4))
    assert_same_bits(twin, optimizer)


def test_a_pickle_carries_its_graph(tmp_path):
    path = tmp_path / "mine.mlir"
    path.write_text(HEAVY_BALL)
    optimizer = tt.Optimizer(parameters([(5,)]), path, "bf16", rate=0.5)
    data = pickle.dumps(optimizer)
    path.unlink()
    twin = pickle.loads(data)
    train(optimizer, [0])
    train(twin, [0])
    assert_same_bits(twin, optimizer)


HEAVY_BALL = """
#id = affine_map<(i) -> (i)>
func.func @mine(
    %w: tensor<?xf32> {tandem.role = #tandem.role<param "weight">},
    %g: tensor<?xf32> {tandem.role = #tandem.role<grad "slope">},
    %t: tensor<?xf32> {tandem.role = #tandem.role<state "trace", moment = first>},
    %rate: f64 {tandem.role = #tandem.role<hyper "rate", domain = nonneg>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %negative = arith.negf %rate : f64
  %r = arith.truncf %negative : f64 to f32
  %new_w, %new_t = linalg.generic {
      indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%g : tensor<?xf32>) outs(%w, %t : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%x: f32, %old: f32, %sum: f32):
    %next = arith.addf %sum, %x : f32
    %delta = arith.mulf %r, %next : f32
    %new = arith.addf %old, %delta : f32
    linalg.yield %new, %next : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %new_w, %new_t : tensor<?xf32>, tensor<?xf32>
}
"""


def test_a_graph_of_the_users():
    """Names, states and hyperparameters come only from the signature."""
    with pytest.raises(ValueError, match="required optimization parameter rate"):
        tt.Optimizer(parameters([(5,)]), HEAVY_BALL, "bf16")
    (p,) = params = parameters([(5,)])
    optimizer = tt.Optimizer(params, HEAVY_BALL, "collage-light", rate=2**-7)
    assert optimizer.defaults == {"rate": 2**-7, "strategy": "collage-light",
                                  "min_8bit_size": 4096, "min_8bit_vector_size": 65536,
                                  "maximize": False}
    p.grad = torch.ones_like(p)
    before = p.detach().float()
    optimizer.step()
    optimizer.step()
    state = optimizer.state[p]
    assert set(state) == {"weight.lo", "trace"}
    assert torch.equal(state["trace"], torch.full_like(p, 2))
    total = p.detach().float() + state["weight.lo"].float()
    torch.testing.assert_close(total, before - 3 * 2**-7, rtol=1e-4, atol=1e-4)


#===----------------------------------------------------------------------===#
# States that do not fit
#===----------------------------------------------------------------------===#


def assert_refused(optimizer, state, message):
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state, convert=False)
    after = optimizer.state_dict()
    assert str(before) == str(after)


@pytest.mark.parametrize("theirs", ["collage-light", "collage-plus-f32", "fp32-optim"])
def test_refuses_another_strategy(theirs):
    other = make(theirs)
    train(other, [0])
    optimizer = make("collage-plus")
    train(optimizer, [0])
    assert_refused(optimizer, other.state_dict(),
                   f"under strategy '{theirs}', this optimizer under 'collage-plus' .*leave "
                   "convert=False out, convert it with tandem.torch.convert_state, or create the")


def test_refuses_another_graph():
    other = make("collage-plus", decay="before")
    assert_refused(make("collage-plus"), other.state_dict(),
                   r"'adamw_decay_before', this optimizer runs 'adamw' .*differ in graph\); create the")


def changed(change):
    """Changes a state dict without its identity, as other tools may leave it."""
    optimizer = make("collage-plus")
    train(optimizer, [0])
    state = copy.deepcopy(optimizer.state_dict())
    del state["tandem"]
    change(state["state"][1])
    return state


@pytest.mark.parametrize("change, message", [
    (lambda s: s.pop("exp_avg_sq.lo"), "parameter 1 lacks the plane 'exp_avg_sq.lo'"),
    (lambda s: s.pop("step"), "lacks the count 'step'"),
    (lambda s: s.update(exp_avg=s["exp_avg"].float()),
     "has 'exp_avg' as torch.float32, not torch.bfloat16"),
    (lambda s: s.update(exp_avg=s["exp_avg"][:2]),
     r"has 'exp_avg' of shape \(2, 5\), not \(3, 5\)"),
])
def test_refuses_planes_that_do_not_fit(change, message):
    assert_refused(make("collage-plus"), changed(change), message)


def test_refuses_other_groups():
    optimizer = make("collage-plus", parameters(SHAPES))
    one = make("collage-plus", parameters(SHAPES[:1]))
    assert_refused(optimizer, one.state_dict(), "param groups of 1 parameters, and this optimizer of 2; create both from named")


def test_takes_a_state_of_torch():
    """If planes agree, torch.optim's own state can be loaded."""
    params = parameters(SHAPES, torch.float32)
    theirs = torch.optim.AdamW(params, lr=1e-2)
    train(theirs, range(3))
    ours = tt.AdamW(clones(params), decay="before", strategy="fp32")
    ours.load_state_dict(theirs.state_dict())
    train(theirs, [3])
    train(ours, [3])
    for p, q in zip(params, params_of(ours)):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-6)
    assert ours.state[params_of(ours)[0]]["step"] == 4


def test_hooks_see_the_state_dict():
    optimizer, seen = make("collage-plus"), []
    train(optimizer, [0])

    def rename(_, state):
        seen.append(type(state["state"][0]["exp_avg"]))
        state["param_groups"][0]["lr"] = 0.25
        return state

    optimizer.register_load_state_dict_pre_hook(rename)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o))
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert seen == [torch.Tensor, optimizer]
    assert optimizer.param_groups[0]["lr"] == 0.25
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert len(seen) == 4


#===----------------------------------------------------------------------===#
# States that users change
#===----------------------------------------------------------------------===#


def test_a_popped_state_starts_anew():
    params = parameters(SHAPES)
    optimizer = make("master-weights", params)
    train(optimizer, range(2))
    optimizer.state.pop(params[0])
    with torch.no_grad():
        params[0].fill_(2.0)
    fresh = make("master-weights", clones(params[:1]))
    train(optimizer, [4])
    params_of(fresh)[0].grad = params[0].grad.clone()
    fresh.step()
    assert np.array_equal(bits(params[0]), bits(params_of(fresh)[0]))
    assert [optimizer.state[p]["step"] for p in params] == [1, 3]


def test_a_replaced_plane_is_used():
    """Planes may be replaced or moved to other memory."""
    first, second = make("collage-plus"), make("collage-plus")
    train(first, range(2))
    train(second, range(2))
    for p in params_of(second):
        state = second.state[p]
        state["exp_avg"] = state["exp_avg"].clone()
        state["exp_avg_sq"].data = state["exp_avg_sq"].clone()
        second.state[p] = dict(state)
    train(first, [2])
    train(second, [2])
    assert_same_bits(first, second)


def test_a_deleted_plane_is_named():
    optimizer = make("collage-plus")
    train(optimizer, [0])
    del optimizer.state[params_of(optimizer)[0]]["param.lo"]
    with pytest.raises(ValueError, match=r"state of parameter 0 lacks the plane "
                                         r"'param.lo'.*opt.state.pop"):
        train(optimizer, [1])


#===----------------------------------------------------------------------===#
# Other features of torch's optimizers
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("theirs, ours, flag", [
    (lambda p: torch.optim.SGD(p, 0.1, 0.9, dampening=0.5),
     lambda p: tt.SGD(p, 0.1, 0.9, strategy="fp32"), "dampening=0.5"),
    (lambda p: torch.optim.AdamW(p, amsgrad=True), lambda p: tt.AdamW(p, strategy="fp32"),
     "amsgrad=True"),
    (lambda p: torch.optim.SGD(p, 0.1, 0.9), lambda p: tt.SGD(
        p, 0.1, 0.9, nesterov=True, strategy="fp32"), "nesterov=False"),
    (lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True), lambda p: tt.SGD(
        p, 0.1, 0.9, strategy="fp32"), "nesterov=True")])
def test_flags_that_no_kernel_computes(theirs, ours, flag):
    params = [torch.nn.Parameter(torch.ones(3))]
    optimizer = ours(params)
    state = theirs(params).state_dict() | {"tandem": optimizer.state_dict()["tandem"]}
    with pytest.raises(ValueError, match=f"param group 0 has {flag}"):
        optimizer.load_state_dict(state)
    group = {"params": [torch.nn.Parameter(torch.ones(2))], flag.split("=")[0]: eval(
        flag.split("=")[1])}
    with pytest.raises(ValueError, match=f"param group 1 has {flag}"):
        optimizer.add_param_group(group)


@pytest.mark.parametrize("make", (lambda p: tt.SGD(p, 0.1, 0.9, 0.0, strategy="fp32"),
                                  lambda p: tt.Adagrad(p, 0.1, 0, 0, 0, strategy="fp32")))
def test_arguments_of_another_order_have_names(make):
    with pytest.raises(TypeError, match="positional"):
        make([torch.nn.Parameter(torch.ones(3))])
