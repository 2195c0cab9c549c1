#===- test_torch_change.py - Strategies that change during a run -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests `change_strategy`: an optimizer continues like one whose state was converted and
# loaded.
#
#===----------------------------------------------------------------------===#

import pytest
import torch

import tandem.torch

PAIRS = [("fp32", "coat"), ("coat", "fp32"), ("collage-plus", "remainder"), ("bf16", "flash"),
         ("adam8bit", "collage-plus"), ("fp8-lm", "bf16"), ("flash", "fp8-lm")]


def weights(strategy):
    """Returns parameters of the dtype that is usual for the strategy."""
    torch.manual_seed(0)
    dtype = torch.float32 if strategy in ("fp32", "coat") else torch.bfloat16
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in ((64, 96), (5000,), (7,))]


def advance(optimizer, params, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()
        optimizer.zero_grad()


def planes(optimizer, params):
    return [{k: v.clone() if isinstance(v, torch.Tensor) else v
             for k, v in optimizer.state[p].items()} for p in params]


def assert_same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value.view(torch.uint8), other[key].view(torch.uint8)), key
            else:
                assert value == other[key], key


@pytest.mark.parametrize("before, after", PAIRS)
def test_goes_on_as_a_converted_optimizer(before, after):
    params = weights(before)
    optimizer = tandem.torch.AdamW(params, lr=1e-2, strategy=before)
    advance(optimizer, params, 5, seed=1)
    converted, values = tandem.torch.convert_state(optimizer.state_dict(), params, after,
                                                    keep_types=True)
    others = [torch.nn.Parameter(v.clone()) for v in values]
    assert [v.dtype for v in values] == [p.dtype for p in params]
    other = tandem.torch.AdamW(others, lr=1e-2, strategy=after)
    other.load_state_dict(converted)

    identities = [id(p) for p in optimizer.param_groups[0]["params"]]
    tandem.torch.change_strategy(optimizer, after)
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == identities
    assert optimizer.param_groups[0]["strategy"] == after
    for one in ((optimizer, params), (other, others)):
        advance(*one, 5, seed=2)
    assert_same(planes(optimizer, params), planes(other, others))
    assert all(torch.equal(p, q) for p, q in zip(params, others))


def test_before_the_first_step():
    params = weights("bf16")
    optimizer = tandem.torch.AdamW(params, strategy="bf16")
    tandem.torch.change_strategy(optimizer, "flash")
    advance(optimizer, params, 1, seed=3)
    assert optimizer.param_groups[0]["strategy"] == "flash"
    assert "exp_avg.scale" in optimizer.state[params[0]]


def test_refuses_what_cannot_change():
    params = weights("fp32")
    optimizer = tandem.torch.AdamW(params, strategy="fp32")
    advance(optimizer, params, 2, seed=4)
    state, values = planes(optimizer, params), [p.clone() for p in params]
    with pytest.raises(ValueError, match="no-such"):
        tandem.torch.change_strategy(optimizer, "no-such")
    half = [torch.nn.Parameter(torch.zeros(64, 64, dtype=torch.float16))]
    narrow = tandem.torch.AdamW(half, strategy="f16-fp32-optim")
    with pytest.raises(TypeError, match="parameter 0 is torch.float16, but strategy 'collage-plus'"):
        tandem.torch.change_strategy(narrow, "collage-plus")
    assert_same(planes(optimizer, params), state)
    assert all(torch.equal(p, v) for p, v in zip(params, values))


def test_refuses_gradients_in_codes():
    params = weights("fp8-lm")
    optimizer = tandem.torch.AdamW(params, strategy="fp8-lm")
    (params[0].float().square().sum()).backward()
    with pytest.raises(ValueError, match="the gradient of parameter 0 is in codes"):
        tandem.torch.change_strategy(optimizer, "bf16")
    optimizer.step()
    optimizer.zero_grad()
    tandem.torch.change_strategy(optimizer, "bf16")


def test_refuses_weights_that_are_decoded_on_demand():
    model = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
    optimizer = tandem.torch.AdamW(model.parameters(), strategy="fp8-lm", min_8bit_size=0)
    decoded = tandem.torch.decode_weights(model, optimizer)
    with pytest.raises(ValueError, match="parameter 0.* is decoded on demand"):
        tandem.torch.change_strategy(optimizer, "bf16")
    del decoded


def test_a_state_that_does_not_load_leaves_all_as_it_was(monkeypatch):
    params = weights("fp32")
    optimizer = tandem.torch.AdamW(params, strategy="fp32")
    advance(optimizer, params, 2, seed=5)
    state, values = planes(optimizer, params), [p.clone() for p in params]

    def fail(state_dict):
        raise RuntimeError("no memory")

    monkeypatch.setattr(optimizer, "load_state_dict", fail)
    with pytest.raises(RuntimeError, match="no memory"):
        tandem.torch.change_strategy(optimizer, "coat")
    assert optimizer.param_groups[0]["strategy"] == "fp32"
    assert_same(planes(optimizer, params), state)
    assert all(torch.equal(p, v) for p, v in zip(params, values))
