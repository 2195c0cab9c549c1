#===- test_torch_convert.py - Optimizers' states converted -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.convert_state, which converts state dicts and weights to another
# strategy.
#
#===----------------------------------------------------------------------===#

import copy
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt
from model import OUTSIDE_STRATEGIES
from support.kernels import STRATEGY_PATH
from support.torch_bits import assert_same_bits, bits, parameters, params_of, train

SHAPES = [(17,), (1, 325), ()]
# One strategy for each storage of weights and of states.
NAMES = ("fp32", "bf16-kahan", "collage-plus", "master-weights", "remainder", "flash",
         "coat", "fp8-collage-plus", "f16-collage-light", "bf16-stochastic")
PAIRS = [pair for pair in itertools.product(NAMES, NAMES)
         if {"fp32", "collage-plus", "fp8-collage-plus"} & set(pair)]


def type_of(strategy):
    return {"fp32": torch.float32, "f16-collage-light": torch.float16}.get(
        strategy, torch.bfloat16)


def make(strategy, params=None, **options):
    params = parameters(SHAPES, type_of(strategy)) if params is None else params
    # The values fit f16, since hyperparameters are also converted; codes are used everywhere.
    options = {"min_8bit_size": 0, "path": [STRATEGY_PATH]} | options
    return tt.AdamW(params, lr=1e-2, eps=1e-4, strategy=strategy, **options)


def arrays_of(optimizer, param):
    """Returns the planes of a parameter as tandem.convert_state takes them."""
    binding = optimizer._groups.spec_of(param)
    planes = {n: bits(t) for n, t in optimizer.state[param].items() if n != "step"}
    return planes if binding.hidden else {"param": bits(param)} | planes


def converted(optimizer, strategy, **options):
    """Returns the new optimizer and the one that it was converted from."""
    state, weights = tt.convert_state(
        optimizer.state_dict(), params_of(optimizer), strategy, path=[STRATEGY_PATH],
        **options)
    params = [torch.nn.Parameter(w) for w in weights]
    other = type(optimizer)(params, strategy=strategy, **options) if not isinstance(
        optimizer, tt.AdamW) else make(strategy, params)
    other.load_state_dict(state)
    return other


@pytest.mark.parametrize("source, target", PAIRS)
def test_as_the_planes_are(source, target):
    """Planes are those of tandem.convert_state, and a step can follow."""
    optimizer = make(source)
    train(optimizer, range(3))
    twin = copy.deepcopy(optimizer)
    other = converted(optimizer, target)
    assert_same_bits(optimizer, twin)
    for p, q in zip(params_of(optimizer), params_of(other)):
        want = tandem.convert_state("adamw", arrays_of(optimizer, p), source, target,
                                    path=[STRATEGY_PATH])
        got = arrays_of(other, q)
        assert got.keys() == want.keys()
        for name in want:
            assert np.array_equal(got[name], want[name].view(f"u{want[name].itemsize}")), name
        assert other.state[q]["step"] == 3 and q.shape == p.shape
        # Coded weights decode to any 16-bit dtype, so p's dtype may be kept.
        assert q.dtype in (type_of(target), p.dtype)
    train(other, [3])
    assert all(p.isfinite().all() for p in params_of(other))


@pytest.mark.parametrize("there", ["remainder", "fp32"])
def test_there_and_back_continues(there):
    """A round trip through a lossless strategy does not change training."""
    optimizer, other = make("master-weights"), make("master-weights")
    train(optimizer, range(2))
    train(other, range(2))
    back = converted(converted(optimizer, there), "master-weights")
    train(other, range(2, 4))
    train(back, range(2, 4))
    assert_same_bits(back, other)


def test_weights_in_float32_stay():
    params = parameters([(7,)]) + parameters([(5,)], torch.float32)
    optimizer = make("collage-plus", params)
    train(optimizer, range(2))
    other = converted(optimizer, "fp8-collage-plus")
    p, q = params_of(other)
    assert (p.dtype, q.dtype) == (torch.bfloat16, torch.float32)
    assert np.array_equal(bits(q), bits(params[1]))
    # States follow the strategy and are coded here; the weight keeps every bit.
    assert other.state[q].keys() == {"step", *(f"exp_avg{n}" for n in (
        "", ".scale", "_sq", "_sq.lo", "_sq.scale"))}
    torch.testing.assert_close(
        tt.convert_state(other.state_dict(), [p, q], "fp32")[0]["state"][1]["exp_avg"],
        optimizer.state[params[1]]["exp_avg"].float(), rtol=2**-4, atol=0)
    assert [w.dtype for w in params_of(converted(other, "fp32"))] == 2 * [torch.float32]


def test_before_the_first_step():
    """The new strategy's additional planes of the weight exist from the beginning."""
    optimizer = make("fp32")
    other = converted(optimizer, "collage-plus")
    for p, q in zip(params_of(optimizer), params_of(other)):
        assert other.state[q]["step"] == 0
        total = q.float() + other.state[q]["param.lo"].float()
        torch.testing.assert_close(total, p.detach(), rtol=2**-16, atol=0)


def test_groups_carry_over():
    first, second = parameters(SHAPES[:1]), parameters(SHAPES[1:2])
    optimizer = tt.AdamW([{"params": first}, {"params": second, "lr": 0.125}],
                         betas=(0.5, 0.75), strategy="bf16-stochastic", seed=77)
    train(optimizer, range(2))
    other, _ = tt.convert_state(optimizer.state_dict(), params_of(optimizer), "fp32")
    back, _ = tt.convert_state(other, [p.detach().float() for p in params_of(optimizer)],
                               "bf16-stochastic")
    for state in (other, back):
        assert [{k: g[k] for k in ("lr", "betas", "seed", "params")}
                for g in state["param_groups"]] == [
            {"lr": 1e-3, "betas": (0.5, 0.75), "seed": 77, "params": [0]},
            {"lr": 0.125, "betas": (0.5, 0.75), "seed": 77, "params": [1]}]


@pytest.mark.parametrize("graph", ["sgd", "sgd_momentum", "lion"])
def test_other_graphs(graph):
    """The graphs include one without a step and one without a state."""
    optimizer = tt.Optimizer(parameters(SHAPES), graph, "bf16", lr=0.01)
    train(optimizer, range(2))
    state, weights = tt.convert_state(optimizer.state_dict(), params_of(optimizer), "fp32")
    wide = tt.Optimizer([torch.nn.Parameter(w) for w in weights], graph, "fp32")
    wide.load_state_dict(state)
    train(wide, [2])
    for p, w in zip(params_of(optimizer), weights):
        assert w.dtype == torch.float32


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("target", ["fp32", "coat", "fp8-collage-light"])
def test_layouts(target, gaps):
    """A weight with gaps, or transposed, has its elements' values in memory order."""
    generator = torch.Generator().manual_seed(0)
    value, grad = (torch.randn(40, 30, generator=generator).bfloat16() for _ in range(2))
    p = torch.nn.Parameter(torch.zeros(40, 60, dtype=torch.bfloat16)[:, ::2] if gaps
                           else torch.zeros(30, 40, dtype=torch.bfloat16).t())
    q = torch.nn.Parameter(value.clone() if gaps else value.t().contiguous())
    p.data.copy_(value)
    p.grad, q.grad = grad.clone(), grad.clone() if gaps else grad.t().contiguous()
    results = []
    for param in (p, q):
        optimizer = make("collage-plus", [param])
        optimizer.step()
        state, weights = tt.convert_state(optimizer.state_dict(), [param], target)
        results.append(state["state"][0] | {"weight": weights[0]})
    for name, want in results[1].items():
        got = results[0][name]
        if name != "step":
            got = got.t() if got.shape != want.shape else got
            assert np.array_equal(bits(got), bits(want)), name


def test_a_state_in_another_layout():
    """Planes saved in C order are still assigned to the right elements."""
    (p,) = params = parameters([(7, 9)])
    optimizer = make("collage-plus", params)
    train(optimizer, range(2))
    turned = p.detach().t().contiguous().t()
    results = [tt.convert_state(optimizer.state_dict(), [w], "fp32") for w in (p, turned)]
    (state, (want,)), (other, (got,)) = results
    assert torch.equal(got, want) and got.stride() == (1, 7)
    for name, plane in state["state"][0].items():
        assert name == "step" or torch.equal(other["state"][0][name], plane)


GRAPH = """
#id = affine_map<(i) -> (i)>
func.func @plain(
    %w: tensor<?xf32> {tandem.role = #tandem.role<param "weight">},
    %g: tensor<?xf32> {tandem.role = #tandem.role<grad "slope">}) -> tensor<?xf32> {
  %new = arith.subf %w, %g : tensor<?xf32>
  return %new : tensor<?xf32>
}
"""
STRATEGY = """
tandem.strategy @mine compute(<component, bf16>) {
  tandem.assign param = #tandem.expansion<bf16 x %d>
  tandem.assign grad = #tandem.float<bf16>
}
"""


def test_graphs_and_strategies_of_the_users(tmp_path):
    (tmp_path / "mine.mlir").write_text(STRATEGY % 3)
    optimizer = tt.Optimizer(parameters(SHAPES), GRAPH, "mine", path=[tmp_path])
    train(optimizer, range(2))
    given = optimizer.state_dict(), params_of(optimizer), "fp32"
    with pytest.raises(ValueError, match="graph 'plain', which the library lacks; pass"):
        tt.convert_state(*given)
    _, weights = tt.convert_state(*given, graph=GRAPH, path=[tmp_path])
    for p, w in zip(params_of(optimizer), weights):
        lows = [optimizer.state[p][n].float() for n in ("weight.lo", "weight.lo2")]
        torch.testing.assert_close(w, p.detach().float() + (lows[0] + lows[1]), rtol=0,
                                   atol=0)
    # The state records its storage; changes of the strategy have no effect.
    (tmp_path / "mine.mlir").write_text(STRATEGY % 2)
    _, again = tt.convert_state(*given, graph=GRAPH)
    assert all(torch.equal(w, a) for w, a in zip(weights, again))


#===----------------------------------------------------------------------===#
# States of other versions
#===----------------------------------------------------------------------===#

# The library's adam8bit before its states had dither.
NEAREST = """
tandem.strategy @%s compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.dynamic<unsigned>, group = 256, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.dynamic<signed>, group = 256, scale = f32>
}"""


def old_state(tmp_path, name):
    """Returns an optimizer under a former strategy of the library, and its state dict in version
    1, with the codes that were numbers then."""
    (tmp_path / f"{name}.mlir").write_text(NEAREST % name)
    optimizer = tt.AdamW(parameters(SHAPES), strategy=name, path=[tmp_path], min_8bit_size=0)
    train(optimizer, range(2))
    state = optimizer.state_dict()
    del state["tandem"]["version"]
    first = state["state"][0]
    first["exp_avg"].view(torch.uint8).view(-1)[:3] = torch.tensor([1, 0, 2], dtype=torch.uint8)
    first["exp_avg_sq"].view(torch.uint8).view(-1)[:2] = torch.tensor([254, 255], dtype=torch.uint8)
    return optimizer, state


@pytest.mark.parametrize("name", ["adam8bit", "gone8bit"])
def test_states_of_version_1_are_converted(tmp_path, name):
    optimizer, state = old_state(tmp_path, name)
    new, weights = tt.convert_state(state, params_of(optimizer), "fp32-optim")
    scale = state["state"][0]["exp_avg.scale"][0]
    signed = torch.tensor([-0.99296875, -0.99296875, -0.96484375]) * scale
    torch.testing.assert_close(new["state"][0]["exp_avg"].view(-1)[:3], signed,
                               rtol=0.02, atol=0)
    scale = state["state"][0]["exp_avg_sq.scale"][0]
    torch.testing.assert_close(new["state"][0]["exp_avg_sq"].view(-1)[:2],
                               scale.expand(2), rtol=0.004, atol=0)
    assert state["state"][0]["exp_avg"].view(-1)[0] == 1, "what was passed has changed"
    assert new["tandem"]["version"] == 4
    tt.AdamW(weights_of(weights), strategy="fp32-optim").load_state_dict(new)


def weights_of(weights):
    return [torch.nn.Parameter(w) for w in weights]


def test_states_of_version_1_are_loaded(tmp_path):
    optimizer, state = old_state(tmp_path, "adam8bit")
    with pytest.raises(ValueError, match="differ in storages.; leave convert=False out"):
        tt.AdamW(weights_of(params_of(optimizer)), strategy="adam8bit",
                 min_8bit_size=0).load_state_dict(state, convert=False)
    same = tt.AdamW(weights_of(params_of(optimizer)), strategy="adam8bit", path=[tmp_path],
                    min_8bit_size=0)
    same.load_state_dict(state)
    planes = same.state[params_of(same)[0]]
    assert planes["exp_avg"].view(-1)[:3].tolist() == [0, 0, 2]
    assert planes["exp_avg_sq"].view(torch.uint8).view(-1)[:2].tolist() == [255, 255]


@pytest.mark.parametrize("name", OUTSIDE_STRATEGIES)
def test_states_of_strategies_that_the_library_lost(name):
    """A state dict records its storage and is converted without the strategy's file."""
    optimizer = make(name, parameters(SHAPES, torch.float16))
    train(optimizer, range(2))
    given = optimizer.state_dict(), params_of(optimizer), "f16-master-weights"
    new, weights = tt.convert_state(*given)
    want, same = tt.convert_state(*given, path=[STRATEGY_PATH])
    assert all(torch.equal(w, s) for w, s in zip(weights, same))
    for i, planes in want["state"].items():
        assert planes.keys() == new["state"][i].keys()
        for plane, value in planes.items():
            assert plane == "step" or torch.equal(value, new["state"][i][plane]), plane
    other = make("f16-master-weights", weights_of(weights))
    other.load_state_dict(new)
    train(other, [2])
    assert all(p.isfinite().all() for p in params_of(other))
    with pytest.raises(ValueError, match=f"unknown strategy .{name}..*; built-in ones are"):
        tt.AdamW(weights_of(weights), strategy=name)


def test_states_of_a_later_version():
    optimizer = make("coat")
    train(optimizer, [0])
    state = optimizer.state_dict()
    state["tandem"]["version"] = 5
    for use in (optimizer.load_state_dict,
                lambda state: tt.convert_state(state, params_of(optimizer), "fp32")):
        with pytest.raises(ValueError, match="states are of version 5, but this Tandem knows "
                                             "those up to version 4; load it with a later"):
            use(state)


#===----------------------------------------------------------------------===#
# Messages
#===----------------------------------------------------------------------===#


def test_messages():
    optimizer = make("collage-plus")
    train(optimizer, [0])
    state, params = optimizer.state_dict(), params_of(optimizer)
    bare = {name: state[name] for name in ("state", "param_groups")}
    bare["param_groups"] = [{k: v for k, v in group.items() if k != "tandem"}
                            for group in state["param_groups"]]
    with pytest.raises(ValueError, match="does not say which graph and strategy"):
        tt.convert_state(bare, params, "fp32")
    with pytest.raises(ValueError, match="is of 3 parameters, but there are 2 weights"):
        tt.convert_state(state, params[:2], "fp32")
    with pytest.raises(TypeError, match="weight 1 is torch.float16, but strategy "
                                        "'collage-plus' keeps weights in torch.bfloat16"):
        tt.convert_state(state, [params[0], params[1].half(), params[2]], "fp32")
    with pytest.raises(ValueError, match="unknown strategy 'fp33'"):
        tt.convert_state(state, params, "fp33")
    with pytest.raises(ValueError, match=r"state of parameter 0 has 'param.lo' of shape"):
        tt.convert_state(state, [params[1], params[0], params[2]], "fp32")


def test_weights_decoded_on_demand():
    model = torch.nn.Linear(8, 8).bfloat16()
    optimizer = make("fp8-collage-plus", model.parameters())
    fresh = tt.AdamW(model.parameters(), strategy="fp8-collage-plus").state_dict()
    tt.decode_weights(model, optimizer)
    _, weights = tt.convert_state(optimizer.state_dict(), model.parameters(), "fp32")
    assert not any(w.isnan().any() for w in weights)
    with pytest.raises(ValueError, match="parameter 0 has no state, and a weight that is"):
        tt.convert_state(fresh, model.parameters(), "fp32")
