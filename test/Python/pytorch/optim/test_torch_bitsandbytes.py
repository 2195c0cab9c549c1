#===- test_torch_bitsandbytes.py - States of bitsandbytes ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.from_bitsandbytes and to_bitsandbytes. State dicts follow the
# published format, with exact values from the model's code; the tests at the end run bitsandbytes
# itself if it is installed.
# there.
#
#===----------------------------------------------------------------------===#

import copy
import json
from fractions import Fraction

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from model.codes import DynamicCode, nearest_f32
from support.torch_bits import (assert_same_bits, bits, parameters, set_gradients, train)
from tandem.torch.optim.peers._dynamic_map import dynamic_map, nan_code, recoded, sign_of

SHAPES = [(1, 4690), (40,), (5000,), ()]
GRAPHS = {
    "adamw": tt.AdamW, "lamb": tt.LAMB, "adam": tt.Adam, "lion": tt.Lion,
    "sgd_momentum": lambda *args, **options: tt.SGD(*args, momentum=0.5, **options),
    "rmsprop": tt.RMSprop, "adagrad": tt.Adagrad,
}
#: The graphs whose states have the same signedness in bitsandbytes and in Tandem.
SAME_SIGN = [graph for graph in GRAPHS if graph not in ("rmsprop", "adagrad")]
BETAS = {"sgd_momentum": (0.75, 0.0), "rmsprop": (0.875, 0.0), "adagrad": (0.0, 0.0)}


def exact_values(signed):
    """Returns the values of all codes according to the paper."""
    code = DynamicCode(signed)
    values = [code.exact(i, k) for i in range(7) for k in range(code.count(i))]
    return sorted([*values, Fraction(0), Fraction(1), *(-v for v in values if signed)])


def published_map(signed):
    return torch.tensor([float(v and (1 if v > 0 else -1) * nearest_f32(abs(v)))
                         for v in exact_values(signed)])


def group_of(graph, params, **options):
    """Returns a param group of bitsandbytes."""
    eps = 0.0 if graph in ("lion", "sgd_momentum") else 2.0**-20
    more = {"alpha": 0.0, "t_alpha": None, "t_beta3": None} if graph in (
        "adamw", "lamb", "adam") else {}
    return {"lr": 0.0625, "betas": BETAS.get(graph, (0.5, 0.75)), "eps": eps,
            "weight_decay": 0.0} | more | {"params": params} | options


def codes_of(shape, number, seed, signed=None, block=256, low=0):
    """Returns an 8-bit state with random codes and scales."""
    signed = number == 1 if signed is None else signed
    generator = torch.Generator().manual_seed(seed)
    size = int(np.prod(shape))
    codes = torch.randint(low, 256, shape, generator=generator, dtype=torch.uint8)
    absmax = torch.exp(torch.randn(-(-size // block), generator=generator))
    return {f"state{number}": codes, f"qmap{number}": published_map(signed),
            f"absmax{number}": absmax}


def state_of(graph, shape, seed, block=256):
    """Returns a parameter's state; bitsandbytes' rule decides which have 32 bits."""
    one = graph in ("lion", "sgd_momentum", "rmsprop", "adagrad")
    positive, made = graph in ("rmsprop", "adagrad"), {"step": 7}
    for number in (1,) if one else (1, 2):
        if int(np.prod(shape)) < 4096:
            values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
            made[f"state{number}"] = values if number == 1 and not positive else values**2
        else:
            made |= codes_of(shape, number, seed + number, number == 1, block,
                             127 if positive else 0)
    return made


def state_dict_of(graph="adamw", shapes=SHAPES, **options):
    """Returns a state dict of a bitsandbytes release without wrapped states."""
    states = {i: state_of(graph, shape, 10 * i) for i, shape in enumerate(shapes)}
    return {"state": states,
            "param_groups": [group_of(graph, list(range(len(shapes))), **options)]}


def make(graph, params, **options):
    return GRAPHS[graph](params, lr=1.0, **{"strategy": "adam8bit"} | options)


def loaded(graph, params, state_dict, **options):
    """Returns Tandem's optimizer after loading a bitsandbytes state."""
    optimizer = make(graph, params, **options)
    options.pop("min_8bit_size", None)
    optimizer.load_state_dict(tt.from_bitsandbytes(state_dict, params, graph=graph, **options))
    return optimizer


def replaced(codes, signed):
    """Replaces the code that Tandem uses for NaN."""
    return torch.where(codes == nan_code(signed), 0 if signed else 255, codes)


def decoded(state, number):
    """Returns the values that bitsandbytes decodes."""
    codes = state[f"state{number}"]
    scale = state[f"absmax{number}"].repeat_interleave(256)[:codes.numel()]
    return state[f"qmap{number}"][codes.int()] * scale.view(codes.shape)


def same(one, other):
    """Returns whether two state dicts have the same bits."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        theirs = other[name]
        if isinstance(value, dict):
            same(value, theirs)
        elif isinstance(value, torch.Tensor):
            assert value.dtype == theirs.dtype and value.shape == theirs.shape, name
            assert np.array_equal(bits(value), bits(theirs)), name
        else:
            assert value == theirs, name


#===----------------------------------------------------------------------===#
# The code
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("signed", [True, False])
def test_map(signed):
    """The map has the published values up to the last two bits, and its sign identifies it."""
    got, want = dynamic_map(signed).double(), published_map(signed).double()
    assert ((got - want).abs() <= 2.0**-22 * want.abs()).all()
    assert sign_of(dynamic_map(signed)) is signed and sign_of(published_map(signed)) is signed
    assert sign_of(torch.linspace(-1, 1, 256)) is None and sign_of(got[:16]) is None
    dynamic_map(signed).zero_()  # the caller's own copy
    assert dynamic_map(signed)[255] == 1


@pytest.mark.parametrize("has_nan", [True, False])
@pytest.mark.parametrize("target", [True, False])
@pytest.mark.parametrize("source", [True, False])
def test_nearest_codes(source, target, has_nan):
    """Each code is converted to that of the nearest available value."""
    theirs, ours = exact_values(source), exact_values(target)
    codes = torch.arange(256, dtype=torch.uint8)
    got = recoded(codes, source, target, has_nan=has_nan).tolist()
    numbers = [c for c in range(256) if not (has_nan and c == nan_code(target))]
    for value, code in zip(theirs, got):
        assert code in numbers
        assert abs(ours[code] - value) == min(abs(ours[c] - value) for c in numbers)
    changed = [c for c in range(256) if got[c] != c]
    if source == target:
        assert changed == ([nan_code(target)] if has_nan else [])


def test_error_of_the_missing_value():
    """docs/Torch.md gives the bound."""
    for signed, code, other, share in ((True, 1, 0, 0.0144), (False, 254, 255, 0.0036)):
        values = exact_values(signed)
        assert recoded(torch.tensor([code], dtype=torch.uint8), signed, signed,
                       has_nan=True).tolist() == [other]
        error = abs(values[other] - values[code]) / abs(values[code])
        assert 0.97 * share < error < share


def test_error_of_other_signs():
    """Second moments under the signed map are within half a step of the unsigned one, which is
    0.36 % of the scale in the largest decade. No positive value becomes zero, and converting
    back restores the codes."""
    codes = torch.arange(127, 256, dtype=torch.uint8)
    there = recoded(codes, True, False, has_nan=True)
    signed, unsigned = exact_values(True), exact_values(False)
    errors = [abs(signed[c] - unsigned[t]) for c, t in zip(codes.tolist(), there.tolist())]
    assert max(errors) < 0.0036
    assert all(e <= 0.034 * signed[c] for c, e in zip(codes.tolist(), errors)
               if signed[c] > 0.1)
    assert (there[1:] > 0).all() and there[0] == 0
    assert torch.equal(recoded(there, False, True, has_nan=False), codes)
    back = recoded(torch.arange(256, dtype=torch.uint8), False, True, has_nan=False)
    assert (back[1:] > 127).all() and back[0] == 127


#===----------------------------------------------------------------------===#
# From bitsandbytes
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("graph", GRAPHS)
def test_states(graph, dtype):
    """Bytes, scales and float32 states are unchanged, and a step can follow."""
    params, theirs = parameters(SHAPES, dtype), state_dict_of(graph)
    kept, values = copy.deepcopy(theirs), [p.detach().clone() for p in params]
    optimizer = loaded(graph, params, theirs)
    same(theirs, kept)
    assert all(torch.equal(p, v) for p, v in zip(params, values))
    for index, param in enumerate(params):
        state, want = optimizer.state[param], theirs["state"][index]
        assert state.get("step", 7) == 7
        names = [n for n in state if n != "step" and not n.endswith(".scale")]
        for number, name in enumerate(names, 1):
            if index == 0:
                signed = name != "exp_avg_sq"
                codes = (replaced(want[f"state{number}"], signed) if graph in SAME_SIGN else
                         recoded(want["state1"], True, False, has_nan=True))
                assert torch.equal(state[name].view(torch.uint8), codes)
                assert torch.equal(state[f"{name}.scale"].flatten(), want[f"absmax{number}"])
            else:  # Tandem keeps float32 states for one-dimensional tensors
                assert torch.equal(state[name], want[f"state{number}"] if index != 2 else
                                   decoded(want, number))
    train(optimizer, [0])
    assert all(p.isfinite().all() for p in params)


def test_values():
    """Tandem decodes what bitsandbytes does, except for the last bits and the missing value."""
    (param,), theirs = parameters(SHAPES[:1]), state_dict_of(shapes=SHAPES[:1])
    state = tt.from_bitsandbytes(theirs, [param])
    wide, _ = tt.convert_state(state, [param], "fp32")
    for number, name, signed, bound in ((1, "exp_avg", True, 0.0144),
                                        (2, "exp_avg_sq", False, 0.0036)):
        got, want = wide["state"][0][name], decoded(theirs["state"][0], number)
        error = (got - want).abs() / want.abs().clamp(min=2.0**-126)
        missing = theirs["state"][0][f"state{number}"] == nan_code(signed)
        assert missing.any() and error[missing].max() < bound
        assert error[~missing].max() < 2.0**-20


def test_a_step_follows():
    """A step from a state of the published format matches one in float64."""
    shape = SHAPES[0]
    (param,), theirs = parameters([shape], torch.float32), state_dict_of(shapes=[shape])
    theirs["param_groups"][0] |= {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}
    state, step = theirs["state"][0], 8
    for number, signed in ((1, True), (2, False)):
        codes = replaced(state[f"state{number}"], signed)
        state[f"state{number}"] = codes if signed else codes.clamp(min=1)
    before, m, v = (x.double() for x in (param.detach(), decoded(state, 1),
                                         decoded(state, 2)))
    optimizer = loaded("adamw", [param], theirs)
    set_gradients([param], 5)
    g = param.grad.double()
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    ratio = (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
    optimizer.step()
    assert ((before - param.detach()) - 1e-3 * ratio).abs().max() < (
        1e-5 * 1e-3 * ratio.abs().max() + 2.0**-22 * before.abs().max())
    assert optimizer.state[param]["step"] == step


def test_blocks_of_2048():
    """Before bitsandbytes 0.44, a scale covered eight of today's blocks."""
    (param,), shape = parameters([(1, 5000)]), (1, 5000)
    theirs = {"state": {0: state_of("adamw", shape, 3, block=2048)},
              "param_groups": [group_of("adamw", [0])]}
    absmax = theirs["state"][0]["absmax2"]
    assert absmax.shape == (3,)
    scale = tt.from_bitsandbytes(theirs, [param])["state"][0]["exp_avg_sq.scale"]
    assert torch.equal(scale.flatten(), absmax[torch.arange(20) // 8])


def test_blocks_of_zeros():
    """A block without a gradient so far has a zero scale, with any code."""
    (param,), theirs = parameters(SHAPES[:1]), state_dict_of(shapes=SHAPES[:1])
    for number in (1, 2):
        theirs["state"][0][f"state{number}"].view(-1)[:512] = 0
        theirs["state"][0][f"absmax{number}"][:2] = torch.tensor([0.0, 1e-42])
    state = tt.from_bitsandbytes(theirs, [param])
    wide, _ = tt.convert_state(state, [param], "fp32")
    for number, name in ((1, "exp_avg"), (2, "exp_avg_sq")):
        got, want = (x.flatten()[:512] for x in (
            wide["state"][0][name], decoded(theirs["state"][0], number)))
        assert torch.equal(got[:256].abs(), torch.zeros(256))
        torch.testing.assert_close(got[256:], want[256:], rtol=0, atol=2.0**-148)


def test_zeros_of_second_moments():
    """The same holds under the signed map, such as RMSprop's, whose code 0 is negative."""
    (param,), theirs = parameters(SHAPES[:1]), state_dict_of("rmsprop", SHAPES[:1])
    state = theirs["state"][0]
    state["state1"].view(-1)[:256], state["absmax1"][0] = 0, 0.0
    ours = tt.from_bitsandbytes(theirs, [param], graph="rmsprop")["state"][0]
    assert (ours["square_avg"].flatten()[:256] == 0).all()
    assert ours["square_avg.scale"].flatten()[0] == 0


def test_of_32_bits():
    """States are stored as by convert_state: in codes if Tandem uses them."""
    params = parameters(SHAPES)
    optimizer = tt.AdamW(params, strategy="fp32-optim", lr=1e-3)
    train(optimizer, range(3))
    theirs = tt.to_bitsandbytes(optimizer.state_dict(), params)
    assert {t.dtype for s in theirs["state"].values() for n, t in s.items() if n != "step"} == {
        torch.float32}
    want, _ = tt.convert_state(optimizer.state_dict(), params, "adam8bit")
    got = tt.from_bitsandbytes(theirs, params)
    same(got["state"], want["state"])
    for name, value in want["param_groups"][0].items():
        assert got["param_groups"][0][name] == value, name


# This strategy has the 8-bit format of bitsandbytes only for the second moment.
EXPANDED = """
tandem.strategy @expanded compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) =
    #tandem.scaled<#scaled.dynamic<unsigned>, group = 256, scale = f32>
  tandem.assign state = #tandem.scaled<
    #scaled.expanded<#scaled.dynamic<signed>, range = 1.0e4>, group = 256, scale = f32>
}
"""


@pytest.mark.parametrize("strategy, dtype, bound", [
    ("fp32", torch.float32, 0), ("f16-fp32-optim", torch.float16, 0),
    ("collage-plus", torch.bfloat16, 2.0**-8), ("flash", torch.bfloat16, 0.02),
    ("expanded", torch.bfloat16, 0.02), ("coat-fp32", torch.float32, 0.05),
    ("fp8-collage-plus", torch.bfloat16, 0.05)])
def test_other_strategies(strategy, dtype, bound, tmp_path):
    """Conversion is direct: the values that bitsandbytes decodes are encoded once."""
    (tmp_path / "expanded.mlir").write_text(EXPANDED)
    params, theirs, path = parameters(SHAPES, dtype), state_dict_of(), [tmp_path]
    state = tt.from_bitsandbytes(theirs, params, strategy, path=path)
    optimizer = make("adamw", params, strategy=strategy, path=path)
    optimizer.load_state_dict(state)
    wide, weights = tt.convert_state(optimizer.state_dict(), params, "fp32", path=path)
    for index, param in enumerate(params):
        planes, want = wide["state"][index], theirs["state"][index]
        for number, name in ((1, "exp_avg"), (2, "exp_avg_sq")):
            value = decoded(want, number) if f"qmap{number}" in want else want[f"state{number}"]
            assert (planes[name] - value).abs().max() <= bound * value.abs().max()
        torch.testing.assert_close(weights[index], param.detach().float(), rtol=2.0**-7,
                                   atol=2.0**-14)
    train(optimizer, [0])


def test_strategies_of_groups():
    params, theirs = parameters(SHAPES[:2]), state_dict_of(shapes=SHAPES[:2])
    theirs["param_groups"] = [group_of("adamw", [0]), group_of("adamw", [1], lr=0.5)]
    state = tt.from_bitsandbytes(theirs, params, ["fp32-optim", "adam8bit"], min_8bit_size=0)
    assert state["state"][0]["exp_avg"].dtype == torch.float32
    assert state["state"][1]["exp_avg"].dtype == torch.int8
    assert [(g["strategy"], g["lr"], g["min_8bit_size"]) for g in state["param_groups"]] == [
        ("fp32-optim", 0.0625, 0), ("adam8bit", 0.5, 0)]


def test_groups():
    """Hyperparameters get Tandem's names, and entries of the user are kept."""
    params = parameters(SHAPES[:1])
    for graph, want in (("adamw", {"betas": (0.5, 0.75), "eps": 2.0**-20}),
                        ("lion", {"betas": (0.5, 0.75)}), ("sgd_momentum", {"momentum": 0.75}),
                        ("rmsprop", {"alpha": 0.875, "eps": 2.0**-20}),
                        ("adagrad", {"eps": 2.0**-20})):
        theirs = state_dict_of(graph, SHAPES[:1], initial_lr=0.125, param_names=["w"])
        (group,) = tt.from_bitsandbytes(theirs, params, graph=graph)["param_groups"]
        assert json.loads(group.pop("tandem"))["graph"] == graph
        assert group == want | {
            "lr": 0.0625, "weight_decay": 0.0, "params": [0], "initial_lr": 0.125,
            "param_names": ["w"], "strategy": "adam8bit", "min_8bit_size": 4096,
            "min_8bit_vector_size": 65536,
            "maximize": False}
        optimizer = loaded(graph, params, theirs)
        (back,) = tt.to_bitsandbytes(optimizer.state_dict(), params)["param_groups"]
        assert back == theirs["param_groups"][0]


def test_wrapped():
    """Newer releases keep tensors in a nested dict."""
    params, theirs = parameters(SHAPES), state_dict_of()
    want = tt.from_bitsandbytes(theirs, params)
    theirs["state"] = {key: {"step": state.pop("step"), "__bnb_optimizer_quant_state__": state}
                       for key, state in theirs["state"].items()}
    same(tt.from_bitsandbytes(theirs, params)["state"], want["state"])


def test_frozen_parameters():
    params, theirs = parameters(SHAPES), state_dict_of()
    del theirs["state"][1], theirs["state"][2]
    state = tt.from_bitsandbytes(theirs, params)
    assert list(state["state"]) == [0, 3]
    assert list(tt.to_bitsandbytes(state, params)["state"]) == [0, 3]


@pytest.mark.parametrize("layout", ["rows", "gaps", "transposed"])
def test_layouts(layout):
    """bitsandbytes' blocks are in C order and span rows; Tandem's groups restart in each row of
    the memory layout."""
    shape, theirs = (70, 67), state_dict_of(shapes=[(70, 67)])
    (param,) = parameters([shape])
    if layout == "gaps":
        param = torch.nn.Parameter(torch.zeros(70, 134, dtype=torch.bfloat16)[:, ::2])
    elif layout == "transposed":
        param = torch.nn.Parameter(torch.zeros(67, 70, dtype=torch.bfloat16).t())
    optimizer = loaded("adamw", [param], theirs)
    wide, _ = tt.convert_state(optimizer.state_dict(), [param], "fp32")
    back = tt.to_bitsandbytes(optimizer.state_dict(), [param])["state"][0]
    for number, name in ((1, "exp_avg"), (2, "exp_avg_sq")):
        want = decoded(theirs["state"][0], number)
        for got in (wide["state"][0][name], decoded(back, number)):
            assert (got - want).abs().max() < 0.04 * want.abs().max()
        assert back[f"state{number}"].is_contiguous()
        assert back[f"absmax{number}"].shape == (-(-70 * 67 // 256),)
    train(optimizer, [0])


def test_blocks_of_whole_rows_keep_their_bytes():
    theirs = state_dict_of(shapes=[(9, 512)])
    params = parameters([(9, 512)])
    back = tt.to_bitsandbytes(loaded("adamw", params, theirs).state_dict(), params)["state"][0]
    assert torch.equal(back["state2"], replaced(theirs["state"][0]["state2"], False))
    assert torch.equal(back["absmax2"], theirs["state"][0]["absmax2"])


#===----------------------------------------------------------------------===#
# To bitsandbytes
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("graph", GRAPHS)
def test_there_and_back(graph, dtype):
    """Tandem's states return with the same bits; second moments under the signed map do from the
    second round trip on."""
    params = parameters(SHAPES, dtype)
    optimizer = make(graph, params)
    train(optimizer, range(3))
    state = optimizer.state_dict()
    if graph not in SAME_SIGN:
        state = tt.from_bitsandbytes(tt.to_bitsandbytes(state, params), params, graph=graph)
        state["param_groups"] = optimizer.state_dict()["param_groups"]
    kept = copy.deepcopy(state)
    theirs = tt.to_bitsandbytes(state, params)
    same(state, kept)
    back = tt.from_bitsandbytes(theirs, params, graph=graph)
    same(back["state"], state["state"])
    twin = copy.deepcopy(optimizer)
    twin.load_state_dict(state)
    optimizer.load_state_dict(back)
    train(optimizer, [3])
    train(twin, [3])
    assert_same_bits(optimizer, twin)


def test_states_of_version_1_go_back():
    """The code that is now NaN, and was a number in version 1, becomes the nearest number."""
    (param,) = params = parameters([(64, 64)])
    optimizer = loaded("adamw", params, state_dict_of(shapes=[(64, 64)]))
    state = optimizer.state_dict()
    del state["tandem"]["version"]
    planes = dict(state["state"][0])
    planes["exp_avg"] = planes["exp_avg"].clone()
    planes["exp_avg"].view(torch.uint8).view(-1)[:2] = torch.tensor([1, 3], dtype=torch.uint8)
    state["state"] = {0: planes}
    theirs = tt.to_bitsandbytes(state, params)["state"][0]
    assert theirs["state1"].view(-1)[:2].tolist() == [0, 3]
    state["tandem"]["version"] = 5
    with pytest.raises(ValueError, match="states are of version 5"):
        tt.to_bitsandbytes(state, params)


def test_all_codes_come_back():
    """All of Tandem's numbers return, under scales of any size."""
    (param,) = parameters([(64, 64)])
    state = tt.from_bitsandbytes(state_dict_of(shapes=[(64, 64)]), [param])
    planes = state["state"][0]
    for name, nan in (("exp_avg", 1), ("exp_avg_sq", 254)):
        codes = torch.arange(4096).view(64, 64) % 256
        planes[name] = codes.masked_fill(codes == nan, 0).to(torch.uint8).view(torch.int8)
        planes[f"{name}.scale"] = 2.0 ** torch.linspace(-140, 126, 16).view(16, 1)
    theirs = tt.to_bitsandbytes(state, [param])
    same(tt.from_bitsandbytes(theirs, [param])["state"], state["state"])


@pytest.mark.parametrize("graph", GRAPHS)
def test_written(graph):
    """The state has everything that load_state_dict and steps of bitsandbytes require."""
    params = parameters(SHAPES)
    optimizer = make(graph, params, weight_decay=0.0)
    train(optimizer, range(3))
    state = tt.to_bitsandbytes(optimizer.state_dict(), params)
    assert state.keys() == {"state", "param_groups"}
    (group,) = state["param_groups"]
    assert group.keys() == group_of(graph, []).keys()
    codes, *floats = state["state"].values()
    numbers = (1, 2) if "t_alpha" in group else (1,)
    more = {"unorm_vec"} if graph == "lamb" else set()
    assert codes.keys() == {"step", *more, *(
        f"{name}{i}" for name in ("state", "qmap", "absmax") for i in numbers)}
    assert codes["step"] == 3
    for number in numbers:
        assert codes[f"state{number}"].dtype == torch.uint8
        assert codes[f"absmax{number}"].shape == (-(-70 * 67 // 256),)
        assert sign_of(codes[f"qmap{number}"]) is (number == 1)
    for state in floats:
        assert state.keys() == {"step", *more, *(f"state{i}" for i in numbers)}
        assert {state[f"state{i}"].dtype for i in numbers} == {torch.float32}


def test_steps_that_do_not_count():
    """bitsandbytes initializes SGD's momentum in its first step, which must not happen here."""
    params = parameters(SHAPES[:1], torch.float32)
    optimizer = make("sgd_momentum", params, strategy="fp32")
    train(optimizer, [0])
    assert "step" not in optimizer.state[params[0]]
    state = tt.to_bitsandbytes(optimizer.state_dict(), params)["state"][0]
    assert state["step"] == 1
    assert torch.equal(state["state1"], optimizer.state[params[0]]["momentum_buffer"])


def test_hyperparameters_of_tensors():
    """bitsandbytes passes numbers to C."""
    params = parameters(SHAPES[:1])
    optimizer = make("adamw", params)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.25)
    (group,) = tt.to_bitsandbytes(optimizer.state_dict(), params)["param_groups"]
    assert type(group["lr"]) is float and group["lr"] == 0.25


#===----------------------------------------------------------------------===#
# Messages
#===----------------------------------------------------------------------===#


def changed(**entries):
    """Returns the first parameter's state with other entries; None removes an entry."""
    def change(state_dict):
        state = state_dict["state"][0]
        state |= entries
        for name in [name for name, value in entries.items() if value is None]:
            del state[name]
    return change


def grouped(**entries):
    return lambda state_dict: state_dict["param_groups"][0].update(entries)


ZEROS = torch.zeros(70, 67, dtype=torch.uint8)
FROM = {
    "without blocks": (changed(max1=torch.ones(1)), "without blocks .block_wise=False.; decode"),
    "percentile clipping": (changed(gnorm_vec=torch.ones(100)), "leave 'gnorm_vec' out"),
    "of torch.optim": (changed(exp_avg=ZEROS), "is of torch.optim; under strategy 'fp32'"),
    "LARS": (changed(unorm_vec=torch.ones(1)), "is of LAMB or LARS, .* pass graph='lamb'"),
    "no state": (changed(state1=None, state2=None), "has no 'state1'; pass what"),
    "one state": (changed(state2=None), "one tensor, but graph 'adamw' keeps 2; pass .*'lion'"),
    "no map": (changed(qmap1=None), "lacks the tensor 'qmap1'"),
    "no scales": (changed(absmax2=None), "lacks the tensor 'absmax2'"),
    "another map": (changed(qmap1=torch.linspace(-1, 1, 256)),
                    "not bitsandbytes' dynamic map; decode it"),
    "blocks": (changed(absmax1=torch.ones(9)),
               r"'absmax1' of shape \(9,\) for 4690 elements, but .* are 19 or 3"),
    "shape": (changed(state1=ZEROS.view(67, 70)), r"'state1' of shape \(67, 70\), the weight"),
    "type": (changed(state1=ZEROS.short()), "'state1' as torch.int16; bitsandbytes' are"),
    "strides": (changed(state1=ZEROS.view(67, 70).t()), "with the strides .1, 70., which"),
    "no step": (changed(step=None), "has step=None; it must be"),
    "step": (changed(step=-1), "has step=-1; it must be"),
    "AdEMAMix": (grouped(alpha=5.0), "alpha=5.0, as those of AdEMAMix"),
    "three betas": (grouped(betas=(0.9, 0.99, 0.999)), "betas=.0.9, 0.99, 0.999.; optimizers that"),
    "betas": (grouped(betas=0.9), "betas=0.9; optimizers that"),
    "amsgrad": (grouped(amsgrad=True), "amsgrad=True, which bitsandbytes does not compute; leave"),
    "maximize": (grouped(maximize=True), "maximize=True, which bitsandbytes does not compute"),
    "no lr": (lambda d: d["param_groups"][0].pop("lr"), "param group 0 lacks 'lr'"),
    "parameters": (grouped(params=[0, 1, 2]), "of 3 parameters, but there are 4 weights"),
    "Tandem's": (lambda d: d.update(tandem={}), "one of Tandem's already"),
}


@pytest.mark.parametrize("case", FROM)
def test_messages_from(case):
    change, message = FROM[case]
    shapes = [(70, 67), *SHAPES[1:]]
    params, theirs = parameters(shapes), state_dict_of(shapes=shapes)
    change(theirs)
    kept = copy.deepcopy(theirs)
    with pytest.raises(ValueError, match=message):
        tt.from_bitsandbytes(theirs, params)
    same(theirs, kept)


@pytest.mark.parametrize("graph, change, message", [
    ("adam", grouped(weight_decay=0.5), "weight_decay=0.5, which .* graph 'adamw'"),
    ("sgd_momentum", grouped(betas=(0.9, 0.5)), "second is SGD's dampening, and .*; put 0"),
    ("rmsprop", grouped(betas=(0.9, 0.5)), "second is RMSprop's momentum, and"),
    ("rmsprop", lambda d: d["state"][0]["state1"].fill_(7), "parameter 0 has negative second"),
    ("lion", changed(state2=ZEROS), "two tensors, but graph 'lion' keeps 1; pass .*'adamw'"),
])
def test_messages_of_graphs(graph, change, message):
    theirs = state_dict_of(graph)
    change(theirs)
    with pytest.raises(ValueError, match=message):
        tt.from_bitsandbytes(theirs, parameters(SHAPES), graph=graph)


def test_messages_of_arguments():
    params, theirs = parameters(SHAPES), state_dict_of()
    with pytest.raises(TypeError, match="has 'state' and 'param_groups', got list"):
        tt.from_bitsandbytes([theirs], params)
    for graph in ("sgd_nesterov", "adafactor", "adamw_clip", "mine.mlir"):
        with pytest.raises(ValueError, match=f"graph '{graph}' is of no optimizer that .*adamw,"):
            tt.from_bitsandbytes(theirs, params, graph=graph)
    with pytest.raises(ValueError, match="1 param groups, but 2 strategies"):
        tt.from_bitsandbytes(theirs, params, ["adam8bit", "fp32"])
    with pytest.raises(TypeError, match="torch.bfloat16, but strategy 'fp32' keeps weights in"):
        tt.from_bitsandbytes(theirs, params, "fp32")
    with pytest.raises(ValueError, match="unknown strategy 'adam9bit'"):
        tt.from_bitsandbytes(theirs, params, "adam9bit")
    with pytest.raises(ValueError, match="min_8bit_size of param group 0 is -1"):
        tt.from_bitsandbytes(theirs, params, min_8bit_size=-1)
    with pytest.raises(TypeError, match="parameter 0 is torch.float16, but strategy 'adam8bit'"
                                        ".*or choose a strategy whose weights are torch.float16"):
        tt.from_bitsandbytes(theirs, parameters(SHAPES, torch.float16))


def stepped(graph="adamw", **options):
    params = parameters(SHAPES)
    optimizer = make(graph, params, **options)
    train(optimizer, [0])
    return optimizer.state_dict(), params


@pytest.mark.parametrize("strategy, message", [
    ("collage-plus", "strategy 'collage-plus' has a part of the weight or gradient, 'param.lo', "
                     "which .*convert_state"),
    ("expanded", "stores 'exp_avg' of parameter 0 as #tandem.*expanded.*convert_state"),
    ("bf16", "stores 'exp_avg' of parameter 0 as #tandem.float<bf16>"),
])
def test_messages_of_storages(strategy, message, tmp_path):
    (tmp_path / "expanded.mlir").write_text(EXPANDED)
    state = stepped(strategy=strategy, path=[tmp_path])
    with pytest.raises(ValueError, match=message):
        tt.to_bitsandbytes(*state, path=[tmp_path])


def test_messages_to():
    state, params = stepped()
    with pytest.raises(ValueError, match="does not say which graph and strategy"):
        tt.to_bitsandbytes({"state": state["state"], "param_groups": [
            {k: v for k, v in group.items() if k != "tandem"} for group in state["param_groups"]
        ]}, params)
    with pytest.raises(ValueError, match="is of 4 parameters, but there are 3 weights"):
        tt.to_bitsandbytes(state, params[:3])
    with pytest.raises(ValueError, match=r"state of parameter 1 has 'exp_avg' of shape"):
        tt.to_bitsandbytes(state, [params[0], params[2], params[1], params[3]])
    with pytest.raises(ValueError, match="param group 0 has maximize=True, which bitsandbytes"):
        tt.to_bitsandbytes(*stepped(maximize=True))
    with pytest.raises(ValueError, match="weight_decay=0.5, which bitsandbytes' Adam takes"):
        tt.to_bitsandbytes(*stepped("adam", weight_decay=0.5))
    with pytest.raises(ValueError, match="lr_decay=0.5, which bitsandbytes' Adagrad lacks"):
        tt.to_bitsandbytes(*stepped("adagrad", lr_decay=0.5))
    optimizer = tt.SGD(params, lr=1.0, momentum=0.5, nesterov=True)
    with pytest.raises(ValueError, match="graph 'sgd_nesterov' is of no optimizer that"):
        tt.to_bitsandbytes(optimizer.state_dict(), params)
    state["state"][0]["exp_avg"][0, :2] = 1
    with pytest.raises(ValueError, match="2 elements of 'exp_avg' of parameter 0 are NaN"):
        tt.to_bitsandbytes(state, params)


#===----------------------------------------------------------------------===#
# bitsandbytes itself
#===----------------------------------------------------------------------===#

CLASSES = {
    "adamw_decay_before": ("AdamW8bit", {}), "adam": ("Adam8bit", {}), "lamb": ("LAMB8bit", {}),
    "lion": ("Lion8bit", {}), "sgd_momentum": ("SGD8bit", {"lr": 0.1, "momentum": 0.9}),
    "rmsprop": ("RMSprop8bit", {}), "adagrad": ("Adagrad8bit", {}),
}


@pytest.fixture
def bnb():
    """Imports bitsandbytes, which runs on CPUs since release 0.50."""
    module = pytest.importorskip("bitsandbytes")
    try:
        train(module.optim.AdamW8bit(parameters([(64, 64)])), [0])
    except Exception as error:
        pytest.skip(f"bitsandbytes {module.__version__} has no optimizers here: {error}")
    return module


def theirs_of(bnb, graph, params):
    name, options = CLASSES[graph]
    return getattr(bnb.optim, name)(params, **options)


def ours_of(graph, params):
    if graph == "adamw_decay_before":
        return tt.AdamW(params, decay="before", strategy="adam8bit")
    return make(graph, params)


def clones(params):
    return [torch.nn.Parameter(p.detach().clone()) for p in params]


def test_maps_of_bitsandbytes(bnb):
    for signed in (True, False):
        theirs = bnb.functional.create_dynamic_map(signed=signed)
        assert np.array_equal(bits(theirs), bits(dynamic_map(signed)))


@pytest.mark.parametrize("graph", CLASSES)
def test_going_on(bnb, graph):
    """After steps of bitsandbytes, both optimizers continue alike, in both directions."""
    params = parameters(SHAPES[:3], torch.float32)
    theirs = theirs_of(bnb, graph, params)
    train(theirs, range(4))
    mine = clones(params)
    ours = ours_of(graph, mine)
    ours.load_state_dict(tt.from_bitsandbytes(theirs.state_dict(), mine, graph=graph))
    other = clones(params)
    again = theirs_of(bnb, graph, other)
    again.load_state_dict(tt.to_bitsandbytes(ours.state_dict(), mine))
    same(tt.from_bitsandbytes(again.state_dict(), other, graph=graph)["state"],
         tt.from_bitsandbytes(theirs.state_dict(), params, graph=graph)["state"])
    starts = clones(params)
    for optimizer in (theirs, ours, again):
        train(optimizer, [4])
    for start, *ends in zip(starts, params, mine, other):
        moved = (ends[0] - start).norm()
        assert moved > 0
        # Their LAMBs differ, and so do bitsandbytes' 8-bit and 32-bit ones.
        is_lamb = graph == "lamb"
        assert is_lamb or (ends[1] - ends[0]).norm() < 0.03 * moved
        assert (is_lamb and start.dim() == 1) or (ends[2] - ends[0]).norm() < 0.03 * moved


def test_every_bit_of_bitsandbytes(bnb):
    """Unless a state has the value that is NaN here, bitsandbytes continues with the same bits."""
    params = parameters(SHAPES[:2])
    theirs = bnb.optim.AdamW8bit(params)
    train(theirs, range(3))
    for name, signed in (("state1", True), ("state2", False)):
        codes = theirs.state[params[0]][name]
        codes.copy_(replaced(codes, signed))
    other = clones(params)
    again = bnb.optim.AdamW8bit(other)
    again.load_state_dict(tt.to_bitsandbytes(
        tt.from_bitsandbytes(theirs.state_dict(), params), params))
    train(theirs, range(3, 6))
    train(again, range(3, 6))
    assert_same_bits(again, theirs)


def test_from_32_bits_of_bitsandbytes(bnb):
    params = parameters(SHAPES, torch.float32)
    theirs = bnb.optim.AdamW32bit(params)
    train(theirs, range(3))
    state = tt.from_bitsandbytes(theirs.state_dict(), params, "fp32")
    for index, param in enumerate(params):
        assert torch.equal(state["state"][index]["exp_avg"], theirs.state[param]["state1"])
        assert torch.equal(state["state"][index]["exp_avg_sq"], theirs.state[param]["state2"])
