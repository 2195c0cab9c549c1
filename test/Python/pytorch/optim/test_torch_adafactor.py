#===- test_torch_adafactor.py - Adafactor in PyTorch -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.Adafactor, which has one kernel for matrices and one for vectors,
# against torch.optim's and against calls of the kernels.
#
#===----------------------------------------------------------------------===#

import copy
import functools
import io
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt
from support.thread_ranks import one_rank
from support.torch_bits import (WIDE, assert_same_bits, bits, parameters, params_of,
                                set_gradients, train)
from support.torch_needs import needs_adafactor
from tandem.torch.optim._groups import OPTIONS

SHAPES = [(40, 3), (11,), (5, 130), (), (1, 7), (7, 1), (0, 3)]
# One strategy of each kind: random bits, group scales, and weights and gradients in codes with
# scales of groups and of whole tensors.
STRATEGIES = ("fp32", "collage-plus", "bf16-stochastic", "coat", "fp8-collage-plus",
              "fp8-lm")


def type_of(strategy):
    return torch.float32 if strategy == "fp32" else torch.bfloat16


def make(strategy="fp32", shapes=SHAPES, params=None, **options):
    if params is None:
        params = parameters(shapes, type_of(strategy))
    # Codes are used everywhere, also in the smallest tensors.
    return tt.Adafactor(params, strategy=strategy, **{"min_8bit_size": 0} | options)


#===----------------------------------------------------------------------===#
# Against torch.optim
#===----------------------------------------------------------------------===#


@needs_adafactor
@pytest.mark.parametrize("options", [
    {}, dict(lr=0.3, weight_decay=0.1), dict(lr=0.05, d=2.0, beta2_decay=-0.5),
    dict(lr=0.02, eps=(1e-6, 0.5)), dict(lr=1e-3, eps=(0.1, 1e-3)),
], ids=str)
def test_fp32_is_close_to_torch(options):
    """The cases have clipped updates, and step sizes of lr and of 1/sqrt(t)."""
    shapes = [s for s in SHAPES if s != (0, 3)]  # torch's mean of this one is NaN
    ours = make(shapes=shapes, **options)
    theirs = torch.optim.Adafactor(parameters(shapes, torch.float32), **options)
    for t in range(20):
        for optimizer in (ours, theirs):
            set_gradients(params_of(optimizer), t)
            for p in params_of(optimizer):
                p.grad *= 1 + t % 7 * t
            optimizer.step()
    for p, q in zip(params_of(ours), params_of(theirs)):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=1e-6)
        for name, value in theirs.state[q].items():
            got = torch.as_tensor(ours.state[p][name], dtype=torch.float32)
            torch.testing.assert_close(got, value.reshape(got.shape), rtol=2e-5, atol=0)


@needs_adafactor
def test_param_groups_are_those_of_torch():
    ours = make(shapes=[(3, 2)]).param_groups[0]
    theirs = torch.optim.Adafactor(parameters([(3, 2)])).param_groups[0]
    own = ("params", "strategy", "min_8bit_size", "min_8bit_vector_size", "tandem")
    assert {name: value for name, value in ours.items() if name not in own} == {
        name: value for name, value in theirs.items() if name not in ("params", "foreach")}


#===----------------------------------------------------------------------===#
# Against the kernels
#===----------------------------------------------------------------------===#


@functools.cache
def kernel_of(dim, strategy):
    return tandem.compile("adafactor" if dim == 2 else "adafactor_vector", strategy)


def first_planes(kernel, strategy, param):
    """Returns the planes of a kernel before the first step; coded weights are converted."""
    rows, columns = param.shape if kernel.is_matrix else (1, param.numel())
    # Even scales of empty groups are zero before the first step.
    planes = {p.name: np.zeros(tuple(param.shape) if p.sets_size and kernel.is_matrix
                               else p.entries(columns, rows), f"u{p.bits // 8}")
              for p in kernel.planes}
    value = bits(param).reshape(planes["param"].shape)
    if kernel.storages["param"].startswith(("#tandem.float<", "#tandem.expansion<")):
        return planes | {"param": value}
    plain = "fp32" if param.dtype == torch.float32 else "bf16"
    wide = kernel_of(param.dim(), plain)
    given = first_planes(wide, plain, param)
    del given["grad"]
    made = tandem.convert_state(wide.name, given, plain, strategy)
    return planes | {name: made[name] for name in made if name.startswith("param")}


def encoded_gradient(kernel, strategy, param):
    """Returns the planes of a gradient as the kernel reads it."""
    grad = bits(param.grad).reshape(tuple(param.shape) if kernel.is_matrix else -1)
    if kernel.storages["grad"] in ("#tandem.float<bf16>", "#tandem.float<f32>"):
        return {"grad": grad}
    wide = kernel_of(param.dim(), "bf16")
    made = tandem.convert_state(wide.name, first_planes(wide, "bf16", param) | {"grad": grad},
                                "bf16", strategy)
    return {name: made[name] for name in made if name.startswith("grad")}


def call_kernel(kernel, planes, param, key, t, lr=0.01, weight_decay=0.0):
    scalars = dict(lr=lr, rho=min(lr, 1 / t**0.5), mixing=t**-0.8, d=1.0, eps2=1e-3,
                   eps1=torch.finfo(param.dtype).eps, weight_decay=weight_decay)
    if kernel.integers:
        scalars |= {"step": t, "seed": 5}
    kernel(planes, key=key, **scalars)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_follows_the_kernels(strategy):
    """Vectors and matrices are mixed, with a type-dependent epsilon and scalars per group."""
    params = parameters(SHAPES, type_of(strategy))
    groups = [{"params": params[:3]}, {"params": params[3:], "lr": 0.8, "weight_decay": 0.1}]
    optimizer = tt.Adafactor(groups, strategy=strategy, min_8bit_size=0)
    if "seed" in optimizer.defaults:
        for group in optimizer.param_groups:
            group["seed"] = 5
    kernels = [kernel_of(p.dim(), strategy) for p in params]
    planes = [first_planes(k, strategy, p) for k, p in zip(kernels, params)]
    for t in range(1, 5):
        set_gradients(params, t)
        for i, (kernel, p) in enumerate(zip(kernels, params)):
            planes[i] |= encoded_gradient(kernel, strategy, p)
            call_kernel(kernel, planes[i], p, i, t,
                        *(() if i < 3 else (0.8, 0.1)))
        optimizer.step()
    for p, want in zip(params, planes):
        got = {"param": p, **optimizer.state[p]}
        assert got.pop("step") == 4
        assert set(got) == {name for name in want if not name.startswith("grad")}
        for name, plane in got.items():
            assert np.array_equal(bits(plane), want[name].reshape(-1).view(
                f"u{want[name].itemsize}")), name


def test_shapes_of_states():
    """Factors are float32, whatever the other states are."""
    optimizer = make("coat-bf16", [(300, 7), (140,)])
    train(optimizer, [0])
    matrix, vector = (optimizer.state[p] for p in params_of(optimizer))
    assert {name: tuple(v.shape) for name, v in matrix.items() if name != "step"} == {
        "row_var": (300,), "col_var": (7,)}
    assert {name: tuple(v.shape) for name, v in vector.items() if name != "step"} == {
        "variance": (140,), "variance.scale": (2,), "variance.exponent": (2,)}


def test_a_weight_in_codes_has_scales_of_its_rows():
    optimizer = make("fp8-collage-plus", [(3, 130)])
    train(optimizer, [0])
    assert optimizer.state[params_of(optimizer)[0]]["param.scale"].shape == (3, 2)


LAYOUTS = {
    "transposed": lambda x: x.t().contiguous().t(),
    "gaps": lambda x: torch.stack([x, x], -1).flatten(1)[:, ::2],
}


@pytest.mark.parametrize("strategy", ["fp32", "bf16-stochastic", "fp8-collage-plus"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name, strategy):
    """Rows and columns follow the parameter's indices in any memory layout."""
    value = parameters([(5, 130)], type_of(strategy))[0].detach()
    strided = torch.nn.Parameter(LAYOUTS[name](value))
    assert not strided.is_contiguous()
    plain = torch.nn.Parameter(value.clone())
    ours, want = (make(strategy, params=[p]) for p in (strided, plain))
    address = strided.data_ptr()
    for seed in range(3):
        set_gradients([plain], seed)
        strided.grad = torch.empty_like(strided).copy_(plain.grad)
        ours.step()
        want.step()
    assert_same_bits(ours, want)
    assert strided.data_ptr() == address


def test_a_parameter_that_changes_its_shape():
    """A new shape with as many elements may have different rows and columns."""
    (p,) = params = parameters([(6, 4)])
    optimizer = make("collage-plus", params=params)
    train(optimizer, [0])
    p.data = p.data.view(4, 6)
    p.grad = None
    set_gradients(params, 1)
    with pytest.raises(ValueError, match=r"has 'param.lo' of shape \(6, 4\), not \(4, 6\)"):
        optimizer.step()


def test_mixed_types_run_four_kernels(tmp_path):
    """Parameters of the strategy's type and in float32 each use two kernels, with different
    epsilons."""
    (tmp_path / "wide.mlir").write_text(WIDE)
    shapes = [(5, 3), (9,)]
    narrow, wide = parameters(shapes), parameters(shapes, torch.float32, seed=1)
    both = make("collage-plus", params=parameters(shapes) + parameters(
        shapes, torch.float32, seed=1))
    apart = [make("collage-plus", params=narrow),
             make("wide", params=wide, path=[tmp_path])]
    for seed in range(3):
        set_gradients(params_of(both), seed)
        for p, q in zip(narrow + wide, params_of(both)):
            p.grad = q.grad.clone()
        for optimizer in (both, *apart):
            optimizer.step()
    for p, q in zip(narrow + wide, params_of(both)):
        assert np.array_equal(bits(p), bits(q))
    assert "param.lo" in both.state[params_of(both)[0]]
    assert both.state[params_of(both)[2]].keys() == {
        "step", "row_var", "row_var.lo", "col_var", "col_var.lo"}


#===----------------------------------------------------------------------===#
# Checkpoints
#===----------------------------------------------------------------------===#


def saved_and_loaded(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_resumes_bit_for_bit(strategy):
    """The step count continues, and so do rates and means."""
    optimizer = make(strategy, lr=0.4)
    train(optimizer, range(3))
    weights = [torch.nn.Parameter(p.detach().clone()) for p in params_of(optimizer)]
    state = saved_and_loaded(optimizer.state_dict())
    train(optimizer, range(3, 6))
    resumed = make(strategy, params=weights)
    resumed.load_state_dict(state)
    train(resumed, range(3, 6))
    assert_same_bits(resumed, optimizer)
    assert resumed.state[weights[0]]["step"] == 6


@pytest.mark.parametrize("duplicate", [
    copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_copies_continue_alike(duplicate):
    optimizer = make("collage-plus")
    train(optimizer, range(2))
    twin = duplicate(optimizer)
    train(optimizer, range(2, 4))
    train(twin, range(2, 4))
    assert_same_bits(twin, optimizer)
    assert "graph: adafactor and adafactor_vector" in repr(twin)


def test_refuses_states_of_others():
    ours, other = make("collage-plus"), tt.Optimizer(
        parameters([(3, 5)]), "adafactor", "collage-plus")
    train(other, [0])
    for state in (other.state_dict(), make("coat").state_dict(),
                  tt.AdamW(parameters(SHAPES)).state_dict()):
        with pytest.raises(ValueError, match="they differ in"):
            ours.load_state_dict(state, convert=False)


@pytest.mark.parametrize("source, target", [
    ("fp32", "collage-plus"), ("collage-plus", "fp32"), ("collage-plus", "coat"),
    ("bf16-stochastic", "fp8-collage-plus"), ("fp8-collage-plus", "fp8-lm"),
    ("fp8-lm", "coat"), ("fp32", "bf16-stochastic")])
def test_another_strategy(source, target):
    """Planes are those of tandem.convert_state, and a step can follow."""
    optimizer = make(source)
    train(optimizer, range(3))
    state, weights = tt.convert_state(optimizer.state_dict(), params_of(optimizer), target)
    other = make(target, params=[torch.nn.Parameter(w) for w in weights])
    other.load_state_dict(state)
    for i, (p, q) in enumerate(zip(params_of(optimizer), params_of(other))):
        kernel = kernel_of(p.dim(), source)
        planes = {name: bits(plane) for name, plane in optimizer.state[p].items()
                  if name != "step"}
        planes = {"param": bits(p)} | planes
        for plane in kernel.planes:
            if plane.sets_size and kernel.is_matrix and plane.name in planes:
                planes[plane.name] = planes[plane.name].reshape(p.shape)
        want = tandem.convert_state(kernel.name, planes, source, target)
        got = {"param": q, **other.state[q]}
        assert got.pop("step") == 3
        for name in want:
            assert np.array_equal(bits(got[name]), want[name].reshape(-1).view(
                f"u{want[name].itemsize}")), (i, name)
        assert got.keys() == want.keys()
    train(other, [3])
    assert all(p.isfinite().all() for p in params_of(other))


def test_another_strategy_before_the_first_step():
    optimizer = make("fp32")
    state, weights = tt.convert_state(optimizer.state_dict(), params_of(optimizer), "coat")
    other = make("coat", params=[torch.nn.Parameter(w) for w in weights])
    other.load_state_dict(state)
    assert {other.state[p]["step"] for p in params_of(other)} == {0}


def test_frozen_weights_pass_through():
    """This includes weights that no kernel would accept."""
    frozen = torch.nn.Parameter(torch.ones(2, 3, 4, 5), requires_grad=False)
    optimizer = make(params=[*parameters([(3, 5)], torch.float32), frozen])
    train_first = params_of(optimizer)[0]
    train_first.grad = torch.ones_like(train_first)
    optimizer.step()
    _, weights = tt.convert_state(optimizer.state_dict(), params_of(optimizer), "bf16")
    assert torch.equal(weights[1], frozen) and weights[0].dtype == torch.bfloat16


#===----------------------------------------------------------------------===#
# Weights and gradients in codes
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", ["fp8-collage-plus", "fp8-lm"])
def test_decoded_on_demand(strategy):
    """Rows of 72 are not whole groups; training has the bits of weights in memory."""
    torch.manual_seed(0)
    x = torch.randn(8, 40).bfloat16()
    model = torch.nn.Sequential(torch.nn.Linear(40, 72), torch.nn.Tanh(),
                                torch.nn.Linear(72, 3)).bfloat16()
    twin = copy.deepcopy(model)
    optimizers = [make(strategy, params=m.parameters(), lr=0.05) for m in (model, twin)]
    tt.decode_weights(model, optimizers[0])
    for _ in range(3):
        for m, optimizer in zip((model, twin), optimizers):
            m(x).float().square().mean().backward()
            assert m[0].weight.grad is None
            assert optimizer.gradient(m[0].weight).shape == (72, 40)
            optimizer.step()
    live = optimizers[0].live_bytes()
    assert live["working"] == live["gradients"] == 0
    states = [sum(t.nbytes for p in m.parameters() for n, t in o.state[p].items()
                  if n != "step" and not n.startswith("param"))
              for m, o in zip((model, twin), optimizers)]
    assert live["states"] == states[1]
    for p, q in zip(model.state_dict().values(), twin.state_dict().values()):
        assert np.array_equal(bits(p), bits(q))


def test_gradients_of_one_rank():
    """The mean over one rank trains like its gradients, up to their rounding."""
    alone, ranks = (make("fp8-lm", lr=0.05) for _ in range(2))
    reduce = tt.GradientAllReduce(ranks, one_rank())
    for optimizer in (alone, ranks):
        sum((p.float() ** 2).sum() for p in params_of(optimizer)).backward()
    reduce()
    for p, q in zip(params_of(alone), params_of(ranks)):
        torch.testing.assert_close(alone.gradient(p), ranks.gradient(q), rtol=2**-3, atol=0.01)
    ranks.step()
    assert all(p.isfinite().all() for p in params_of(ranks))


#===----------------------------------------------------------------------===#
# Training, and messages
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", ["fp32", "collage-plus", "coat"])
def test_trains(strategy):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(),
                                torch.nn.Linear(32, 1)).to(type_of(strategy))
    x = torch.randn(64, 8).to(type_of(strategy))
    y = x[:, :1] * x[:, 1:2]
    optimizer = make(strategy, params=model.parameters(), lr=0.05, eps=(1e-7, 1e-3))
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (model(x) - y).float().square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("options, error, message", [
    (dict(metrics=True), ValueError, "Adafactor has no metrics, as kernels of matrices"),
    (dict(eps=1e-3), TypeError, "eps of param group 0 must be a pair of numbers"),
    (dict(eps=(None, None)), TypeError, "eps of param group 0 must be a pair of numbers"),
    (dict(eps=(-1.0, 1e-3)), ValueError, "'eps1' of param group 0 is -1; it must be"),
    (dict(eps=(1e-3, -1.0)), ValueError, "'eps2' of param group 0 is -1; it must be"),
    (dict(beta2_decay=0.8), ValueError, "'beta2_decay' of param group 0 is 0.8; it must "
                                        "be at most 0"),
    (dict(d=0.5), ValueError, "'d' of param group 0 is 0.5; it must be at least 1"),
    (dict(d=float("nan")), ValueError, "'d' of param group 0 is nan"),
    (dict(lr=-1.0), ValueError, "'lr' of param group 0 is -1; it must be at least 0"),
    (dict(lr="fast"), TypeError, "lr of param group 0 must be a number"),
    (dict(rho=0.1), TypeError, "has no hyperparameter 'rho'; it takes lr, eps, d, "
                               "weight_decay, beta2_decay"),
])
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        make(**options)


def test_more_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"parameter 1 has the shape \(4, 3, 2, 2\), but "
                       "adafactor updates matrices and vectors; keep it as a matrix"):
        make(shapes=[(3, 5), (4, 3, 2, 2)])


def test_gradients_of_ranks():
    """Codes are summed as flat tensors, which excludes scales per row."""
    tt.GradientAllReduce(make("fp8-lm"), ranks=one_rank())
    with pytest.raises(ValueError, match="'fp8-collage-plus' stores gradients of matrices "
                       "as .*, with groups in each row; to add them up"):
        tt.GradientAllReduce(make("fp8-collage-plus"), ranks=one_rank())


def test_a_group_of_vectors_alone_is_checked():
    optimizer = make(shapes=[(3, 5)])
    with pytest.raises(ValueError, match="'d' of param group 1 is 0; it must be"):
        optimizer.add_param_group({"params": parameters([(3,)], torch.float32), "d": 0.0})
    assert len(optimizer.param_groups) == 1


VECTORS = """
func.func @averaged(
    %w: tensor<?xf32> {{tandem.role = #tandem.role<param "weight">}},
    %g: tensor<?xf32> {{tandem.role = #tandem.role<grad "slope">}},
    %rate: f64 {{tandem.role = #tandem.role<hyper "rate", domain = nonneg, default = 0.5>}}) -> tensor<?xf32> {{
  %r = arith.truncf %rate : f64 to f32
  %c0 = arith.constant 0 : index
  %size = tensor.dim %g, %c0 : tensor<?xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %total = linalg.reduce {{ arith.addf }} ins(%g : tensor<?xf32>) outs(%zero : tensor<f32>)
      dimensions = [0] {{tandem.scope = "{scope}"}}
  %sum = tensor.extract %total[] : tensor<f32>
  %step = arith.mulf %sum, %r : f32
  %steps = tensor.splat %step[%size] : tensor<?xf32>
  %new = arith.subf %w, %steps : tensor<?xf32>
  return %new : tensor<?xf32>
}}"""


def test_a_refused_step_changes_nothing():
    """If the second launch would be refused, the first one does not run."""
    optimizer = tt.Optimizer(parameters([(3, 5), (4,)]), "adafactor", "collage-plus",
                             vectors=VECTORS.format(scope="tensor"))
    train(optimizer, [0])
    twin = copy.deepcopy(optimizer)
    optimizer.param_groups[0]["rate"] = -1.0
    with pytest.raises(ValueError, match="'rate' of param group 0 is -1"):
        train(optimizer, [1])
    assert_same_bits(optimizer, twin)


def test_graphs_of_the_users(tmp_path):
    """Two user graphs have their own hyperparameters, roles and states."""
    path = tmp_path / "vectors.mlir"
    path.write_text(VECTORS.format(scope="tensor"))
    matrix, vector = params = parameters([(3, 5), (4,)], torch.float32)
    before = vector.detach().clone()
    optimizer = tt.Optimizer(params, "adafactor", "fp32", vectors=path, rate=2.0, rho=0.1)
    assert optimizer.defaults.keys() == {"rate", "lr", "rho", "mixing", "eps", "d",
                                         "weight_decay", *OPTIONS}
    twin = pickle.loads(pickle.dumps(optimizer))
    path.unlink()
    set_gradients(params, 0)
    optimizer.step()
    torch.testing.assert_close(vector.detach(), before - 2 * vector.grad.sum())
    assert vector not in optimizer.state and set(optimizer.state[matrix]) == {
        "row_var", "col_var"}
    set_gradients(params_of(twin), 0)
    twin.step()
    assert_same_bits(twin, optimizer)
    assert sum(optimizer.live_bytes().values()) == 4 * (2 * 19 + 8)
    given = optimizer.state_dict(), params_of(optimizer), "bf16"
    with pytest.raises(ValueError, match="graph 'averaged', which the library lacks; pass "
                                         "its file or text, vectors="):
        tt.convert_state(*given)
    tt.convert_state(*given, vectors=VECTORS.format(scope="tensor"))


@pytest.mark.parametrize("graph, vectors, message", [
    ("adafactor", None, r"parameter 1 has the shape \(4,\), but adafactor updates "
                        "matrices; pass vectors="),
    ("adafactor", "adafactor", "'adafactor' updates matrices; pass vectors= a graph that"),
    ("adamw", "adafactor_vector", "'adamw' takes parameters of all shapes, and"),
    ("adafactor", VECTORS.format(scope="model"), "averaged sums over all parameters, but"),
])
def test_vectors_that_do_not_fit(graph, vectors, message):
    with pytest.raises(ValueError, match=message):
        tt.Optimizer(parameters([(3, 5), (4,)]), graph, vectors=vectors)
