#===- test_torch_averages.py - Averages of weights -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests `ema_decay`, `averages` and `averaged_weights`.
#
#===----------------------------------------------------------------------===#

import copy
import pickle
import re

import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt

DECAY = 0.95
#: Bounds of the distance of an average from that in float64, relative to its norm, by its storage. What is
#: computed in components averages leading components, and reads that of the average.
ERRORS = {"float<f32>": 1e-6, "remainder": 1e-6, "residual": 1e-4, "expansion": 1e-4,
          "float<f16": 2e-3, "minifloat": 2e-3, "float<bf16": 2e-2, "pair": 8e-3}
OF_COMPONENTS = 2e-3


def make(strategy, seed=0, dtype=None, **options):
    """Returns a matrix, a float32 vector, and their optimizer."""
    kernel = tandem.compile("adamw", strategy)
    visible = next(p.type for p in kernel.planes if p.role == "param")
    dtype = dtype or {"f32": torch.float32, "f16": torch.float16}.get(visible, torch.bfloat16)
    torch.manual_seed(seed)
    params = [torch.nn.Parameter(torch.randn(96, 64).to(dtype)),
              torch.nn.Parameter(torch.randn(64))]
    return params, tt.AdamW(params, lr=1e-2, strategy=strategy, min_8bit_size=0, **options)


def train(params, optimizer, steps, start=0):
    """Takes steps, and yields after each."""
    for step in range(start, start + steps):
        generator = torch.Generator().manual_seed(step)
        for param in params:
            param.grad = (torch.randn(param.shape, generator=generator) + param.detach().float()
                          ).to(param.dtype)
        optimizer.step()
        yield step


@pytest.mark.parametrize("strategy", tandem.strategies())
def test_follows_the_average_in_float64(strategy):
    """Under every strategy the state is the average of the weights, to the precision of its
    storage, which is much finer than the way from the average to the weights."""
    params, optimizer = make(strategy, ema_decay=DECAY)
    totals, weight = [0.0, 0.0], 0.0
    for _ in train(params, optimizer, 120):
        now = [value.double() for _, value in tt.weights(optimizer)]
        totals = [DECAY * total + value for total, value in zip(totals, now)]
        weight = DECAY * weight + 1
    storage = optimizer.kernel.storages["ema"]
    bounds = [OF_COMPONENTS if optimizer.kernel.compute.startswith("component") else
              next(bound for name, bound in ERRORS.items() if name in storage), 1e-6]
    for (_, found), total, value, bound in zip(tt.averages(optimizer), totals, now, bounds):
        want = total / weight
        error = ((found.double() - want).norm() / want.norm()).item()
        assert error < bound < ((value - want).norm() / want.norm()).item()


def test_parameters_hold_averages_inside_of_the_context():
    params, optimizer = make("dither-mulaw", ema_decay=DECAY)
    list(train(params, optimizer, 5))
    before = [param.detach().clone() for param in params]
    state = copy.deepcopy(optimizer.state_dict()["state"])
    with tt.averaged_weights(optimizer):
        for param, own, (_, average) in zip(params, before, tt.averages(optimizer)):
            assert torch.equal(param, average.to(param.dtype)) and not torch.equal(param, own)
        for call in (optimizer.step, optimizer.state_dict):
            params[0].grad = torch.ones_like(params[0])
            with pytest.raises(RuntimeError, match="leave the context of averaged_weights before"):
                call()
        with pytest.raises(RuntimeError, match="leave the inner averaged_weights out"):
            with tt.averaged_weights(optimizer):
                pass
    assert all(map(torch.equal, params, before))
    for key, planes in optimizer.state_dict()["state"].items():
        assert all(torch.equal(torch.as_tensor(value).view(-1).view(torch.uint8),
                               torch.as_tensor(state[key][name]).view(-1).view(torch.uint8))
                   for name, value in planes.items())
    with pytest.raises(ZeroDivisionError):
        with tt.averaged_weights(optimizer):
            1 / 0
    assert all(map(torch.equal, params, before))


def test_steps_have_the_bits_that_they_have_without():
    ours, optimizer = make("fp8-lm", ema_decay=DECAY)
    theirs, plain = make("fp8-lm")
    list(train(ours, optimizer, 5)), list(train(theirs, plain, 5))
    assert all(map(torch.equal, ours, theirs))
    for own, want in zip(ours, theirs):
        for name, value in plain.state[want].items():
            assert torch.equal(torch.as_tensor(optimizer.state[own][name]), torch.as_tensor(value))


@pytest.mark.parametrize("optimizer", ("Adam", "LAMB", "SGD", "Lion", "RMSprop", "Adagrad",
                                       "Adafactor"))
def test_optimizers(optimizer):
    param = torch.nn.Parameter(torch.randn(64, 96).bfloat16())
    optimizer = getattr(tt, optimizer)([param], lr=1e-2, strategy="residual-mulaw", ema_decay=0.5)
    total, weight = 0.0, 0.0
    for _ in train([param], optimizer, 20):
        total, weight = 0.5 * total + dict(tt.weights(optimizer))["0"].double(), 0.5 * weight + 1
    (_, found), = tt.averages(optimizer)
    assert ((found.double() - total / weight).norm() / found.norm()).item() < 1e-4


def test_groups_have_their_own_decay():
    params, _ = make("fp32")
    optimizer = tt.AdamW([{"params": params[:1], "ema_decay": 0.0}, {"params": params[1:]}],
                         strategy="fp32", ema_decay=0.5)
    list(train(params, optimizer, 3))
    averages = dict(tt.averages(optimizer))
    assert torch.equal(averages["0"], params[0]) and not torch.equal(averages["1"], params[1])


#===------------------------------------------------------------------------===#
# Checkpoints
#===------------------------------------------------------------------------===#


def resumed(strategy, old, new, steps=4):
    """Returns the averages or weights before a state dict is loaded by another optimizer, that
    optimizer's averages, if it has any, and the warnings."""
    params, optimizer = make(strategy, ema_decay=old)
    list(train(params, optimizer, steps))
    before = [value for _, value in (tt.weights if old is None else tt.averages)(optimizer)]
    others, other = make(strategy, seed=1, ema_decay=new)
    for param, own in zip(others, params):
        param.data.copy_(own)
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        other.load_state_dict(optimizer.state_dict())
    after = [value for _, value in tt.averages(other)] if new is not None else None
    return (params, optimizer), (others, other), before, after, [str(w.message) for w in caught]


@pytest.mark.parametrize("strategy", ("dither-mulaw", "flash-f16", "fp8-collage-plus", "bf16"))
def test_resumes_with_the_same_bits(strategy):
    (ours, optimizer), (theirs, other), before, after, caught = resumed(strategy, DECAY, DECAY)
    assert not caught and all(map(torch.equal, before, after))
    list(train(ours, optimizer, 3, 4)), list(train(theirs, other, 3, 4))
    pairs = zip([*tt.averages(optimizer), *tt.weights(optimizer)],
                [*tt.averages(other), *tt.weights(other)])
    assert all(torch.equal(one, two) for (_, one), (_, two) in pairs)


def test_averages_begin_as_the_weights_of_a_state_without():
    _, (theirs, other), before, after, caught = resumed("flash-f16", None, DECAY)
    assert re.search("it has no averages of weights, which begin as the weights", caught[0])
    assert all(torch.allclose(one, two, rtol=2**-15) for one, two in zip(before, after))
    list(train(theirs, other, 2, 4))
    far = [value for _, value in tt.weights(other)]
    for (_, average), start, end in zip(tt.averages(other), before, far):
        assert (average - start).norm() < (end - start).norm()


def test_averages_that_an_optimizer_does_not_keep_are_left_out():
    _, (theirs, other), _, _, caught = resumed("flash-f16", DECAY, None)
    assert re.search("it has averages of weights, which are left out: this optimizer has no "
                     "ema_decay", caught[0])
    assert not any("ema" in state for state in other.state.values())
    list(train(theirs, other, 1, 4))


def test_states_of_pytorch_begin_an_average():
    params, _ = make("fp32")
    theirs = torch.optim.AdamW(params)
    list(train(params, theirs, 2))
    optimizer = tt.AdamW(params, strategy="fp32", ema_decay=DECAY)
    with pytest.warns(UserWarning, match="is of an optimizer of torch.optim"):
        optimizer.load_state_dict(theirs.state_dict())
    assert all(torch.equal(average, param)
               for (_, average), param in zip(tt.averages(optimizer), params))


def test_conversions_keep_averages():
    params, optimizer = make("fp32", ema_decay=DECAY)
    list(train(params, optimizer, 5))
    before = dict(tt.averages(optimizer))
    tt.change_strategy(optimizer, "coat-fp32")
    assert all(torch.equal(value, before[name]) for name, value in tt.averages(optimizer))
    state, _ = tt.convert_state(optimizer.state_dict(), params, "fp32", weight_average=False)
    assert not any("ema" in own for own in state["state"].values())


def test_copies_and_pickles():
    params, optimizer = make("collage-plus", ema_decay=DECAY)
    list(train(params, optimizer, 3))
    copies = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
    for other in copies:
        assert all(torch.equal(one, two) for (_, one), (_, two)
                   in zip(tt.averages(optimizer), tt.averages(other)))
        assert other.param_groups[0]["ema_decay"] == DECAY


#===------------------------------------------------------------------------===#
# Refusals
#===------------------------------------------------------------------------===#


def test_refusals():
    params, optimizer = make("fp32")
    list(train(params, optimizer, 1))
    for call in (lambda: list(tt.averages(optimizer)),
                 lambda: tt.averaged_weights(optimizer).__enter__()):
        with pytest.raises(ValueError, match="this AdamW averages no weights; create it with "
                                             "ema_decay=0.999"):
            call()
    with pytest.raises(TypeError, match="SGD keeps no part of weights in its state"):
        list(tt.averages(torch.optim.SGD(params, lr=1)))
    with pytest.raises(ValueError, match="'ema_decay' of param group 0 is 1; it must be at least 0 "
                                         "and less than 1"):
        make("fp32", ema_decay=1.0)
    with pytest.raises(ValueError, match="strategy='auto' does not count the bytes of an average"):
        tt.AdamW(params, strategy="auto", memory="1GiB", ema_decay=DECAY)


def test_bitsandbytes_has_no_averages():
    params, optimizer = make("adam8bit", ema_decay=DECAY)
    list(train(params, optimizer, 1))
    with pytest.raises(ValueError, match="has averages of weights, which bitsandbytes does not"):
        tt.to_bitsandbytes(optimizer.state_dict(), params)
    state, _ = tt.convert_state(optimizer.state_dict(), params, "adam8bit", weight_average=False)
    assert set(tt.to_bitsandbytes(state, params)["state"][0]) >= {"step", "state1"}


def test_weights_without_memory_are_refused():
    model = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
    optimizer = tt.AdamW(model.parameters(), strategy="fp8-collage-plus", min_8bit_size=0,
                         min_8bit_vector_size=0, ema_decay=DECAY)
    decoded = tt.decode_weights(model, optimizer)
    model(torch.ones(4, 64, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match=r"remove\(\) what decode_weights returned"):
        tt.averaged_weights(optimizer).__enter__()
    assert dict(tt.averages(optimizer, model))["weight"].shape == (64, 64)
    decoded.remove()
    with tt.averaged_weights(optimizer):
        model(torch.ones(4, 64, dtype=torch.bfloat16))
