#===- test_torch_packed.py - States of four bits ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests states whose bytes hold two codes each: their shapes, state dicts, conversions and
# layouts, and what is refused.
#
#===----------------------------------------------------------------------===#

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem  # noqa: E402
import tandem.torch as tt  # noqa: E402
from tandem import _convert  # noqa: E402

SHAPES = ((15,), (3, 5), (7, 33), (5, 301), (8, 3, 3, 3), (64, 64))
RATIO = {"stores_ratio": True, "min_8bit_size": 0, "lr": 1e-2}
FOUR = """tandem.strategy @four compute(<f32, f32>) {{
  tandem.assign param = {param}
  tandem.assign grad = {grad}
  tandem.assign state = #tandem.float<f32>
}}"""


def parameters(shapes=SHAPES, seed=0):
    made = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(s, generator=made).bfloat16()) for s in shapes]


def train(optimizer, params, steps=3, seed=1):
    made = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=made).to(param.dtype)
        optimizer.step()


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("strategy", ("dither-ratio4", "residual-ratio4", "coded-ratio4"))
def test_a_state_dict_continues(strategy):
    """Rows of odd length end in half a byte, which is zero."""
    params = parameters()
    optimizer = tt.AdamW(params, strategy=strategy, **RATIO)
    train(optimizer, params)
    state = optimizer.state[params[3]]
    assert {n: (t.dtype, tuple(t.shape)) for n, t in state.items()
            if n in ("ratio", "exp_avg_sq")} == {
                "ratio": (torch.uint8, (5, 151)), "exp_avg_sq": (torch.uint8, (5, 151))}
    assert not (state["ratio"][:, -1] >> 4).any()
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    other = tt.AdamW(copies, strategy=strategy, **RATIO)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each, own in ((optimizer, params), (other, copies)):
        train(each, own, seed=2)
    assert_equal(params, copies)


def test_memory_order_does_not_matter():
    """Bytes of two codes are in C order, also for a weight in channels_last."""
    plain, = parameters([(8, 3, 3, 3)])
    last = torch.nn.Parameter(plain.detach().clone().contiguous(
        memory_format=torch.channels_last))
    for param in (plain, last):
        train(tt.AdamW([param], strategy="dither-ratio4", **RATIO), [param])
    assert torch.equal(plain, last)
    wide = torch.nn.Parameter(last.detach().float())
    state = tt.AdamW([wide], strategy="fp32", **RATIO)
    train(state, [wide])
    made, weights = tt.convert_state(state.state_dict(), [wide], "dither-ratio4")
    back, _ = tt.convert_state(made, weights, "fp32")
    before, after = (d["state"][0]["ratio"] for d in (state.state_dict(), back))
    assert torch.allclose(before, after.reshape(before.shape), atol=0.1 * before.abs().max())


def test_conversions_keep_codes_and_values():
    params = parameters()
    optimizer = tt.AdamW(params, strategy="dither-ratio4", **RATIO)
    train(optimizer, params)
    ours = optimizer.state_dict()
    same, _ = tt.convert_state(ours, params, "residual-ratio4")
    wide, weights = tt.convert_state(ours, params, "fp32")
    back, _ = tt.convert_state(wide, weights, "dither-ratio4")
    for key, state in ours["state"].items():
        for made in (same, back):
            assert torch.equal(made["state"][key]["ratio"], state["ratio"])
            assert torch.equal(made["state"][key]["exp_avg_sq"], state["exp_avg_sq"])
        assert wide["state"][key]["ratio"].shape == params[key].shape


def test_loads_the_ratio_of_another_optimizer():
    """The state of torch.optim.AdamW becomes m / sqrt(v), to half of a code's distance."""
    weight = torch.nn.Parameter(torch.randn(64, 64))
    theirs = torch.optim.AdamW([weight])
    weight.grad = torch.randn(64, 64)
    weight.grad[0] = 0
    theirs.step()
    ours = tt.AdamW([torch.nn.Parameter(weight.detach().bfloat16())], strategy="dither-ratio4",
                    **RATIO)
    with pytest.warns(UserWarning, match="is of an optimizer of torch.optim"):
        ours.load_state_dict(theirs.state_dict())
    wide, _ = tt.convert_state(ours.state_dict(), ours.param_groups[0]["params"], "fp32")
    state = theirs.state[weight]
    want = torch.where(state["exp_avg_sq"] == 0, 0.0,
                       state["exp_avg"] / state["exp_avg_sq"].sqrt())
    got = wide["state"][0]["ratio"]
    assert (got - want).abs().max() <= 0.51 * want.abs().max() / 7
    assert not got[0].any()


def test_errors(tmp_path):
    packed = "#tandem.scaled<#scaled.linear<bits = 4, dither>, group = 32, scale = f32>"
    for role in ("param", "grad"):
        storages = {"param": "#tandem.float<bf16>", "grad": "#tandem.float<bf16>", role: packed}
        (tmp_path / "four.mlir").write_text(FOUR.format(**storages))
        with pytest.raises(ValueError, match=f"'four' stores '{role}' as .* several codes in a "
                                             "byte, .* give it a code of 8 bits"):
            tt.AdamW(parameters([(4, 4)]), strategy="four", path=[tmp_path])
    for options in ({"decay": "after"}, {"eps_inside_root": True},
                    {"decay": "before", "max_norm": 1.0}):
        with pytest.raises(ValueError, match="stores_ratio needs decay='inside', or decay='before' "
                                             "without max_norm"):
            tt.AdamW(parameters([(4,)]), stores_ratio=True, **options)
    with pytest.raises(ValueError, match="'auto' does not choose for stores_ratio=True"):
        tt.AdamW(parameters([(4,)]), stores_ratio=True, strategy="auto")
    (tmp_path / "all.mlir").write_text(FOUR.format(param=packed, grad=packed).replace(
        "@four", "@all").replace("#tandem.float<f32>", packed))
    kernel = tandem.compile("lion", "all", path=[tmp_path])
    arrays = {p.name: np.zeros(p.entries(64), f"u{p.bits // 8}") for p in kernel.planes}
    with pytest.raises(ValueError, match="no array of .* has an entry for each element"):
        kernel(arrays, lr=1e-3, step=1)
    assert {p.name: p.type for p in kernel.planes if p.is_packed} == {
        "param": "i4x2", "grad": "i4x2", "exp_avg": "i4x2"}


@pytest.mark.parametrize("optimizer", [tt.AdamW, tt.Lion, tt.SGD])
def test_averages_in_even_steps_warn(optimizer):
    """A strategy that is made for m / sqrt(v) warns if the graph stores an average."""
    _convert._compile.cache_clear()
    options = {"momentum": 0.9} if optimizer is tt.SGD else {}
    with pytest.warns(UserWarning, match="'dither-ratio4' stores '.*' of .* in a few bits"):
        optimizer(parameters([(4, 4)]), lr=1e-3, strategy="dither-ratio4", **options)


def test_ratios_in_even_steps_do_not_warn(recwarn):
    _convert._compile.cache_clear()
    tt.AdamW(parameters([(4, 4)]), strategy="dither-ratio4", **RATIO)
    assert not [one for one in recwarn if "a few bits" in str(one.message)]


def test_states_of_another_width_are_refused():
    params = parameters([(64, 64)])
    optimizer = tt.AdamW(params, strategy="dither-ratio4", **RATIO)
    train(optimizer, params)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["ratio"] = torch.zeros(64, 64, dtype=torch.uint8)
    before = {n: t.clone() for n, t in optimizer.state[params[0]].items()
              if isinstance(t, torch.Tensor)}
    with pytest.raises(ValueError, match=r"'ratio' of shape \(64, 64\), not \(64, 32\)"):
        optimizer.load_state_dict(saved)
    for name, tensor in before.items():
        assert torch.equal(optimizer.state[params[0]][name], tensor)


def distance(make, steps=400):
    """Returns how far an optimizer's weights end from AdamW's in float64, over the distance that
    these move, on gradients with a mean and noise, of sizes that differ within a group."""
    made = torch.Generator().manual_seed(3)
    size = torch.exp(torch.randn(2048, generator=made)) * 1e-3
    mean = 0.3 * torch.randn(2048, generator=made)
    start = torch.randn(2048, generator=made).bfloat16()
    exact = torch.nn.Parameter(start.double())
    own = torch.nn.Parameter(start.clone())
    optimizers = torch.optim.AdamW([exact], lr=1e-3, weight_decay=0.0), make([own])
    for _ in range(steps):
        grad = (size * (mean + torch.randn(2048, generator=made))).bfloat16()
        exact.grad, own.grad = grad.double(), grad
        for optimizer in optimizers:
            optimizer.step()
    weights = (tt.weights(optimizers[1]) if isinstance(optimizers[1], tt.AdamW)
               else iter([("", own)]))
    value = next(weights)[1].detach().double()
    exact = exact.detach()
    return float((value - exact).norm() / (exact - start.double()).norm())


def test_weights_follow_float64():
    """With moments of four bits, weights end three times nearer to float64's than with PyTorch's
    AdamW in bf16; docs/Codes.md has the errors on other gradients."""
    ours = distance(lambda params: tt.AdamW(params, strategy="residual-ratio4",
                                            weight_decay=0.0, **RATIO | {"lr": 1e-3}))
    theirs = distance(lambda params: torch.optim.AdamW(params, lr=1e-3, weight_decay=0.0))
    assert ours < 0.25
    assert ours < theirs / 3
