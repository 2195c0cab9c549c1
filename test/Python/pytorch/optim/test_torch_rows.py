#===- test_torch_rows.py - Groups that restart in rows --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests group scales of parameters whose rows are not whole groups.
#
#===----------------------------------------------------------------------===#

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from model import cases, plane_entries, plane_types
from model import steps as model_steps
from model.metrics import tree_sum
from model.scaled import Scaled
from model.storage import Draw
from support.torch_bits import (LIBRARY, VISIBLE, assert_same_bits, bits, dtype_of,
                                parameters, params_of, set_gradients, train)
from tandem.torch._layout import rows_in_memory


def longest_group(name):
    """Returns the longest group of a strategy's moments, or 0 if they have no groups."""
    moments = (LIBRARY[name].first, LIBRARY[name].second)
    return max((m.group for m in moments
                if isinstance(m, Scaled) and isinstance(m.group, int) and m.group < 4096),
               default=0)


GROUPED = [name for name in VISIBLE if longest_group(name)]
#: Shapes, and the number and length of the joined rows for groups of 32, 128 or 256 elements.
SHAPES = {
    (5, 300): {32: (5, 300), 128: (5, 300), 256: (5, 300)},
    (6, 100): {32: (6, 100), 128: (6, 100), 256: (3, 200)},
    (12, 3, 3): {32: (4, 27), 128: (1, 108), 256: (1, 108)},
    (7, 3, 3): {32: (7, 9), 128: (1, 63), 256: (1, 63)},
    (3, 127): {32: (3, 127), 128: (3, 127), 256: (3, 127)},
    (1, 7, 31): {32: (1, 217), 128: (1, 217), 256: (1, 217)},
    (4, 256): {32: (4, 256), 128: (4, 256), 256: (4, 256)},
    (400,): {32: (1, 400), 128: (1, 400), 256: (1, 400)},
}


def make(name, params, **options):
    hypers = cases.hypers("adamw", LIBRARY[name], lr=2e-2)
    return tt.Optimizer(params, "adamw", name, min_8bit_size=0, **hypers, **options)


def initial_planes(strategy, param, columns):
    """Returns the planes of each row before the first step."""
    entries = plane_entries("adamw", strategy, columns)
    rows = []
    for weight in param.detach().reshape(-1, columns):
        planes = {name: np.zeros(entries[name], dtype)
                  for name, dtype in plane_types("adamw", strategy).items()}
        planes["param"] = bits(weight)
        if "param.master" in planes:
            planes["param.master"] = bits(weight.float())
        rows.append(planes)
    return rows


@pytest.mark.parametrize("name", GROUPED)
def test_follows_the_model_row_by_row(name):
    """Each row is a separate shard whose elements are numbered from the tensor's first one."""
    strategy, hypers = LIBRARY[name], cases.hypers("adamw", LIBRARY[name], lr=2e-2)
    params = parameters(SHAPES, dtype_of(name))
    columns = [shape[longest_group(name)][1] for shape in SHAPES.values()]
    planes = [initial_planes(strategy, p, c) for p, c in zip(params, columns)]
    optimizer = make(name, params)
    for t in range(1, 4):
        set_gradients(params, t)
        for key, (param, width) in enumerate(zip(params, columns)):
            for row, grad in zip(planes[key], param.grad.reshape(-1, width)):
                row["grad"] = bits(grad)
            draws = [Draw(0, key, i * width, t, columns=width)
                     for i in range(len(planes[key]))]
            new = model_steps("adamw", strategy, planes[key], [hypers] * len(draws), draws)
            planes[key] = [row | changed for row, changed in zip(planes[key], new)]
        optimizer.step()
    for param, rows in zip(params, planes):
        got = {"param": param, **optimizer.state[param]}
        for plane in set(rows[0]) - {"grad"}:
            want = np.concatenate([row[plane] for row in rows])
            assert np.array_equal(bits(got[plane]), want), (tuple(param.shape), plane)


@pytest.mark.parametrize("shape, rows", SHAPES.items())
def test_rows_in_memory(shape, rows):
    for group, want in rows.items():
        assert rows_in_memory(torch.empty(shape), group) == want


def test_rows_of_other_layouts():
    """Rows follow the order of memory."""
    filters = torch.empty(8, 3, 5, 5).contiguous(memory_format=torch.channels_last)
    assert rows_in_memory(filters, 32) == (8, 75)
    assert rows_in_memory(torch.empty(40, 70).t(), 32) == (40, 70)
    assert rows_in_memory(torch.empty(40, 140)[:, ::2], 32) == (40, 70)
    assert rows_in_memory(torch.empty(0, 3), 32) == (1, 0)
    assert rows_in_memory(torch.empty(()), 32) == (1, 1)


#===----------------------------------------------------------------------===#
# Shards, sums, layouts
#===----------------------------------------------------------------------===#

# Codes without random bits, since these depend on the parameter's number.
NEAREST = """
tandem.strategy @nearest8bit compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f8E5M2>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = f32>
}
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "nearest8bit.mlir").write_text(NEAREST)
    return [tmp_path]


def test_shards_of_rows_have_the_bits_of_the_whole(path):
    (whole,) = parameters([(6, 300)], torch.float32)
    shards = [torch.nn.Parameter(whole.detach()[a:b].clone()) for a, b in ((0, 1), (1, 6))]
    options = dict(lr=2e-2, min_8bit_size=0, strategy="nearest8bit", path=path)
    one, two = tt.AdamW([whole], **options), tt.AdamW(shards, **options)
    for seed in range(3):
        set_gradients([whole], seed)
        shards[0].grad, shards[1].grad = whole.grad[:1].clone(), whole.grad[1:].clone()
        one.step()
        two.step()
    for plane in ("exp_avg", "exp_avg.scale", "exp_avg_sq", "exp_avg_sq.scale"):
        joined = torch.cat([two.state[shard][plane].flatten() for shard in shards])
        assert np.array_equal(bits(one.state[whole][plane]), bits(joined)), plane
    assert torch.equal(whole, torch.cat(list(shards)))


SUM = """
#id = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>
func.func @sums(%p: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
                %g: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
                %m: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%g : tensor<?xf32>) outs(%zero : tensor<f32>)
      dimensions = [0]
  %all = linalg.generic {indexing_maps = [#none, #id], iterator_types = ["parallel"]}
      ins(%sum : tensor<f32>) outs(%p : tensor<?xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<?xf32>
  return %all, %m : tensor<?xf32>, tensor<?xf32>
}
"""


@pytest.mark.parametrize("strategy", ["nearest8bit", "fp32"])
def test_sums_add_up_the_sums_of_rows(path, strategy):
    """A row of 300 elements is not a power of two, so its tree differs."""
    (param,) = params = parameters([(6, 300)], torch.float32)
    optimizer = tt.Optimizer(params, SUM, strategy, path=path, min_8bit_size=0)
    param.grad = torch.randn(6, 300, generator=torch.Generator().manual_seed(1))
    optimizer.step()
    rows = param.grad.numpy()
    want = tree_sum(tree_sum(rows))
    assert want != tree_sum(rows.flatten())
    assert (param.detach().numpy() == want).all()


@pytest.mark.parametrize("shape, layout", [((8, 3, 5, 5), "channels last"),
                                           ((40, 70), "transposed"), ((40, 70), "gaps")])
def test_layouts(shape, layout):
    """Rows follow the order of memory; a state converts to another layout by value."""
    (plain,) = parameters([shape])
    if layout == "channels last":
        memory = torch.empty(8, 5, 5, 3, dtype=torch.bfloat16).permute(0, 3, 1, 2)
    elif layout == "transposed":
        memory = torch.empty(70, 40, dtype=torch.bfloat16).t()
    else:
        memory = torch.empty(40, 140, dtype=torch.bfloat16)[:, ::2]
    param = torch.nn.Parameter(memory)
    param.data.copy_(plain.detach())
    optimizer = make("coat", [param])
    train(optimizer, range(2))
    other = make("coat", [plain])
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    plain.data.copy_(param.detach())
    train(other, [2])
    train(optimizer, [2])
    assert (plain - param).abs().max() <= 2.0**-6 * param.abs().max()
    scales = [o.state[p]["exp_avg.scale"] for o, p in ((optimizer, param), (other, plain))]
    # 70 rows of 40 are joined to 35 of 80.
    assert len(scales[0]) == (35 if layout == "transposed" else len(scales[1]))
    assert torch.isclose(scales[0].max(), scales[1].max(), rtol=0.1)


#===----------------------------------------------------------------------===#
# States
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("source, target", [
    ("flash", "coat"), ("coat", "adam8bit"), ("adam8bit", "flash"), ("fp32", "adam8bit"),
    ("adam8bit", "fp32")])
def test_conversions(source, target):
    """States convert by value between different groups and rows."""
    shapes = [shape for shape in SHAPES if len(shape) > 1]
    optimizer = make(source, parameters(shapes, dtype_of(source)))
    train(optimizer, range(3))
    state, weights = tt.convert_state(optimizer.state_dict(), params_of(optimizer), target)
    wide, _ = tt.convert_state(optimizer.state_dict(), params_of(optimizer), "fp32")
    back, _ = tt.convert_state(state, weights, "fp32")
    for i in range(len(shapes)):
        for moment in ("exp_avg", "exp_avg_sq"):
            want, got = wide["state"][i][moment], back["state"][i][moment]
            assert (got - want).abs().max() <= 0.1 * want.abs().max()
    other = make(target, [torch.nn.Parameter(w) for w in weights])
    other.load_state_dict(state)
    train(other, [3])


OLD = [(6, 100), (3, 127), (2, 256)]


def of_version_2(params):
    """Returns a state dict whose groups span rows, as those of flat parameters do."""
    flat = make("adam8bit", [torch.nn.Parameter(p.detach().flatten()) for p in params])
    train(flat, range(3))
    state = copy.deepcopy(flat.state_dict())
    for i, param in enumerate(params):
        for name in ("exp_avg", "exp_avg_sq"):
            state["state"][i][name] = state["state"][i][name].view(param.shape)
    state["tandem"]["version"] = 2
    return state, tt.convert_state(flat.state_dict(), params_of(flat), "fp32-optim")[0]


def test_states_of_version_2_are_loaded():
    params = parameters(OLD)
    optimizer, (state, values) = make("adam8bit", params), of_version_2(params)
    # There are as many scales as now, but they cover different elements.
    assert state["state"][1]["exp_avg.scale"].shape == (2,)
    optimizer.load_state_dict(state)
    new, _ = tt.convert_state(state, params, "fp32-optim")
    now, _ = tt.convert_state(optimizer.state_dict(), params, "fp32-optim")
    for i, param in enumerate(params):
        assert optimizer.state[param]["exp_avg.scale"].shape == ((3, 1), (3, 1), (2, 1))[i]
        for moment in ("exp_avg", "exp_avg_sq"):
            want = values["state"][i][moment]
            for converted in (new, now):
                got = converted["state"][i][moment].flatten()
                assert (got - want).abs().max() <= 0.04 * want.abs().max()
    for name in ("exp_avg", "exp_avg.scale"):
        whole = optimizer.state[params[2]][name], state["state"][2][name]
        assert np.array_equal(*map(bits, whole)), "whole groups keep their bits"
    train(optimizer, [3])


def test_broken_states_of_version_2_are_refused():
    params = parameters(OLD)
    optimizer, (state, _) = make("adam8bit", params), of_version_2(params)
    state["state"][0]["exp_avg.scale"] = torch.ones(5)
    with pytest.raises(ValueError, match="has 'exp_avg.scale' of shape .5,., not .3,."):
        optimizer.load_state_dict(state)


def test_pickles_of_version_2():
    """Pickled optimizers have a version, too; those without one have version 2."""
    params = parameters(OLD)
    optimizer, (state, _) = make("adam8bit", params), of_version_2(params)
    optimizer.load_state_dict(state)
    old = optimizer.__getstate__()
    assert old.pop("version") == 4
    old["state"] = {param: dict(state["state"][i]) for i, param in enumerate(params)}
    same = pickle.loads(pickle.dumps(optimizer))
    same.__setstate__(pickle.loads(pickle.dumps(old)))
    assert_same_bits(same, optimizer)
    train(same, [3])
    train(optimizer, [3])
    assert_same_bits(same, optimizer)
