#===- test_torch_qk_clip.py - Bounds of attention logits -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests `qk_clip`: whole weights are scaled under all strategies, logits come back to the
# threshold, and steps go on from the scaled weights.
#
#===----------------------------------------------------------------------===#

import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt

WIDTH, HEADS, SHARED, SIZE = 64, 4, 2, 16
LARGEST = torch.tensor([50.0, 400.0, 100.0, 200.0])
#: The largest error of a scaled weight, relative to its norm, by the precision of its storage.
ERRORS = {"bf16": 2**-9, "f16": 2**-11}


def weights_of(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(rows, WIDTH).to(dtype))
            for rows in (HEADS * SIZE, SHARED * SIZE)]


def optimizer_of(params, strategy, cls=tt.Muon):
    groups = [{"params": params, "use_muon": True}] if cls is tt.Muon else params
    return cls(groups, strategy=strategy, lr=1e-2)


def step(optimizer, params, seed):
    generator = torch.Generator().manual_seed(seed)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)
    optimizer.step()


def factors(of, size=SIZE):
    return torch.tensor(of).sqrt().repeat_interleave(size)[:, None]


def type_of(strategy):
    storage = tandem.compile("muon", strategy).storages["param"]
    return "bf16" if "bf16" in storage or "pair" in storage else "f16"


@pytest.mark.parametrize("cls", (tt.Muon, tt.AdamW))
@pytest.mark.parametrize("strategy", tandem.strategies())
def test_whole_weights_are_scaled(strategy, cls):
    """Keys that two heads of queries share are scaled for the one that needs it most."""
    storage = tandem.compile("muon", strategy).storages["param"]
    dtype = (torch.float32 if storage == "#tandem.float<f32>" else
             torch.float16 if strategy.startswith("f16") else torch.bfloat16)
    params = weights_of(dtype)
    optimizer = optimizer_of(params, strategy, cls)
    step(optimizer, params, 1)
    before = [weight for _, weight in tt.weights(optimizer)]
    assert tt.qk_clip(optimizer, *params, LARGEST) == 2
    for old, (_, new), own in zip(before, tt.weights(optimizer),
                                  (factors([1, 0.25, 1, 0.5]), factors([0.25, 0.5]))):
        error = (new - old * own).norm() / (old * own).norm()
        assert error <= ERRORS[type_of(strategy)], float(error)
    # The next step begins with the scaled weights.
    scaled = [weight for _, weight in tt.weights(optimizer)]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    step(optimizer, params, 2)
    for old, (_, new) in zip(scaled, tt.weights(optimizer)):
        assert (new - old).norm() <= 2**-7 * old.norm()


def test_logits_come_back():
    params = weights_of(torch.float32)
    optimizer = optimizer_of(params, "fp32")
    x = torch.randn(32, WIDTH)

    def logits():
        q, k = ((x @ p.detach().t()).view(32, -1, SIZE).transpose(0, 1) for p in params)
        return (q @ k.repeat_interleave(HEADS // SHARED, 0).transpose(1, 2)).flatten(1).amax(1)

    threshold = 1.01 * float(logits().median())
    above = int((logits() > threshold).sum())
    assert tt.qk_clip(optimizer, *params, logits(), threshold) == above > 0
    assert (logits() <= threshold * (1 + 1e-5)).all()


def test_nothing_changes_below_the_threshold():
    params = weights_of()
    optimizer = optimizer_of(params, "dither-softsign-root")
    step(optimizer, params, 1)
    planes = [{n: v.clone() for n, v in optimizer.state[p].items() if isinstance(v, torch.Tensor)}
              for p in params]
    shown = [p.detach().clone() for p in params]
    for largest in (torch.full((HEADS,), 100.0), torch.full((HEADS,), torch.nan), -LARGEST):
        assert tt.qk_clip(optimizer, *params, largest) == 0
    for param, own, value in zip(params, planes, shown):
        assert torch.equal(param, value)
        for name, plane in own.items():
            assert torch.equal(plane.view(torch.uint8),
                               optimizer.state[param][name].view(torch.uint8))


def test_before_the_first_step_and_balance():
    params = weights_of()
    optimizer = optimizer_of(params, "flash-f16")
    query, key = (p.detach().clone() for p in params)
    assert tt.qk_clip(optimizer, *params, torch.full((HEADS,), 400.0), balance=1.0) == HEADS
    assert torch.equal(params[0], (query.float() / 4).bfloat16()) and torch.equal(params[1], key)
    step(optimizer, params, 1)


def test_layers_see_scaled_weights():
    """Operands of products notice the change."""
    params = weights_of()
    optimizer = optimizer_of(params, "flash-f16")
    operands = tt.write_operands(params, optimizer)
    step(optimizer, params, 1)
    tt.qk_clip(optimizer, *params, LARGEST)
    with pytest.raises(RuntimeError, match="take a step first"):
        operands[params[0]]


@pytest.mark.parametrize("change, message", (
    ({"largest": torch.ones(3)}, "largest has 3 numbers, queries 64 rows and keys 32; pass one"),
    ({"largest": torch.ones(64)}, None), ({"threshold": 0.0}, "threshold is 0.0; it must be above"),
    ({"balance": 1.5}, "balance is 1.5; it must be from 0 to 1"),
    ({"key": torch.ones(32, WIDTH)}, "key is no parameter of the optimizer")))
def test_errors(change, message):
    params = weights_of()
    optimizer = optimizer_of(params, "flash-f16")
    given = {"query": params[0], "key": params[1], "largest": LARGEST} | change
    if message is None:
        assert tt.qk_clip(optimizer, **given) == 0
        return
    with pytest.raises(ValueError, match=message):
        tt.qk_clip(optimizer, **given)
    with pytest.raises(TypeError, match="take an optimizer of tandem.torch"):
        tt.qk_clip(torch.optim.SGD(params, lr=1.0), *params, LARGEST)
