#===- test_torch_lifetimes.py - The end of an optimizer --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests who takes the gradients of parameters after their optimizer has been deleted,
# closed or replaced, and after PyTorch has swapped the parameters' tensors.
#
#===----------------------------------------------------------------------===#

import gc
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.torch_bits import bits

#: Options with which backward passes take the gradients.
TAKING = [{"strategy": "dither-softsign-root"}, {"strategy": "fp8-lm"},
          {"strategy": "flash", "gradient_release": True}]
taking = pytest.mark.parametrize("options", TAKING, ids=lambda o: o["strategy"])


@pytest.fixture(autouse=True)
def no_collector():
    """Only the count of references ends an optimizer."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def make_model(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return torch.nn.Linear(64, 64, dtype=dtype)


def backward(model, seed=0):
    torch.manual_seed(seed)
    x = torch.randn(4, 64, dtype=model.weight.dtype)
    model(x).float().square().mean().backward()


def step(model, optimizer, seed=0):
    backward(model, seed)
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("options", [
    *TAKING, {"strategy": "remainder"}, {"strategy": "coat", "metrics": True},
    {"strategy": "coat", "skip_nonfinite": True}], ids=str)
def test_the_last_reference_ends_an_optimizer(options):
    model = make_model()
    optimizer = tt.AdamW(model.parameters(), lr=1e-3, **options)
    step(model, optimizer)
    step(model, optimizer)
    states = [weakref.ref(plane) for state in optimizer.state.values()
              for plane in state.values() if isinstance(plane, torch.Tensor)]
    ended = weakref.ref(optimizer)
    del optimizer
    assert ended() is None
    assert states and all(ref() is None for ref in states)
    assert not model.weight._post_accumulate_grad_hooks


@taking
def test_another_library_trains_after_it(options):
    model = make_model()
    optimizer = tt.AdamW(model.parameters(), lr=1e-3, **options)
    step(model, optimizer)
    del optimizer
    before = model.weight.detach().clone()
    step(model, torch.optim.SGD(model.parameters(), lr=1.0))
    assert not torch.equal(model.weight, before)


@taking
@pytest.mark.parametrize("newer", ["remainder", "dither-softsign-root"])
def test_a_newer_optimizer_takes_over_and_says_so(options, newer):
    model, plain = make_model(), make_model()
    older = tt.AdamW(model.parameters(), lr=1e-3, **options)
    alone = tt.AdamW(plain.parameters(), lr=1e-3, strategy=newer)
    with pytest.warns(UserWarning, match=r"takes over parameter 0 and 1 more from an AdamW under "
                                         f"'{options['strategy']}' that still exists"):
        optimizer = tt.AdamW(model.parameters(), lr=1e-3, strategy=newer)
    for seed in range(3):
        step(model, optimizer, seed)
        step(plain, alone, seed)
    assert (bits(model.weight) == bits(plain.weight)).all()
    assert not older.state


def test_taking_over_names_gradients_that_stay_behind():
    model = make_model()
    older = tt.AdamW(model.parameters(), strategy="dither-softsign-root")
    backward(model)
    with pytest.warns(UserWarning, match="still has the gradients of 2 parameters in codes"):
        tt.AdamW(model.parameters(), strategy="remainder")
    assert older.gradient(model.weight) is not None


@taking
def test_a_closed_optimizer_gives_gradients_back(options):
    model = make_model()
    optimizer = tt.AdamW(model.parameters(), lr=1e-3, **options)
    step(model, optimizer)
    with optimizer.accumulate():
        backward(model)
    wanted = optimizer.gradient(model.weight).clone()
    optimizer.close()
    assert torch.equal(model.weight.grad, wanted)
    assert not model.weight._post_accumulate_grad_hooks
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = tt.AdamW(model.parameters(), lr=1e-3, strategy="remainder")
    before = model.weight.detach().clone()
    other.step()
    assert not torch.equal(model.weight, before)


def test_a_closed_optimizer_brings_weights_back():
    model = make_model()
    optimizer = tt.AdamW(model.parameters(), strategy="fp8-collage-plus", min_8bit_size=0)
    tt.decode_weights(model, optimizer)
    optimizer.close()
    assert type(model.weight) is torch.nn.Parameter and model.weight.isfinite().all()


@pytest.fixture
def swaps():
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


@taking
def test_parameters_may_be_swapped(options, swaps):
    """Steps go on as those of an optimizer whose model is not converted."""
    model, plain = make_model(), make_model()
    pairs = [(m, tt.AdamW(m.parameters(), lr=1e-3, **options)) for m in (model, plain)]
    for seed in range(6):
        for m, optimizer in pairs:
            step(m, optimizer, seed)
        if seed in (1, 3):
            model.to(torch.float32).to(torch.bfloat16)
    assert (bits(model.weight) == bits(plain.weight)).all()
    assert model.weight._post_accumulate_grad_hooks
    backward(model)
    assert model.weight.grad is None


def test_a_refused_optimizer_takes_nothing_over():
    model = make_model()
    older = tt.AdamW(model.parameters(), strategy="dither-softsign-root", min_8bit_size=0)
    with pytest.raises(ValueError, match="lr"):
        tt.AdamW([{"params": [model.weight]}, {"params": [model.bias], "lr": -1.0}],
                 strategy="dither-softsign-root", min_8bit_size=0)
    backward(model)
    assert model.weight.grad is None and older.gradient(model.weight) is not None


def test_param_groups_may_be_edited():
    weights = [torch.nn.Parameter(torch.ones(64, 64).bfloat16()) for _ in range(3)]
    optimizer = tt.AdamW([{"params": weights[:1], "strategy": "flash"},
                          {"params": weights[1:2], "strategy": "dither-softsign-root"}])
    optimizer.param_groups.insert(0, {**optimizer.param_groups[0], "params": weights[2:]})
    for p in weights:
        p.float().square().sum().backward()
    optimizer.step()
    del optimizer.param_groups[1]
    for p in weights:
        p.float().square().sum().backward()
    optimizer.step()
    assert [optimizer.state[p]["step"] for p in weights] == [1, 2, 2]


def test_an_unfrozen_parameter_is_taken():
    model = make_model()
    model.weight.requires_grad_(False)
    optimizer = tt.AdamW(model.parameters(), strategy="dither-softsign-root", min_8bit_size=0)
    step(model, optimizer)
    model.weight.requires_grad_(True)
    step(model, optimizer)
    backward(model)
    assert model.weight.grad is None


def test_a_closed_optimizer_stays_closed():
    model = make_model()
    optimizer = tt.AdamW(model.parameters(), strategy="dither-softsign-root")
    step(model, optimizer)
    optimizer.close()
    optimizer.load_state_dict(optimizer.state_dict())
    backward(model)
    assert model.weight.grad is not None
