#===- test_torch_release.py - Steps inside of backward passes --*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests PyTorch optimizers that release gradients: unchanged bits, the number of gradients
# that exist at a time, and errors.
#
#===----------------------------------------------------------------------===#

import contextlib
import copy
import pickle
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.kernels import STRATEGY_PATH
from support.torch_bits import LIBRARY, assert_same_bits, params_of

OPTIMIZERS = [(tt.AdamW, {}), (tt.Adam, {}), (tt.SGD, {"momentum": 0.9}), (tt.Lion, {}),
              (tt.RMSprop, {}), (tt.Adagrad, {}), (tt.LAMB, {}), (tt.Adafactor, {})]


def model_of(dtype=torch.bfloat16, bias=True):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64, bias=bias) for _ in range(4)]
    return torch.nn.Sequential(*layers).to(dtype)


def backward(model, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 64, generator=generator).to(next(model.parameters()).dtype)
    (model(x).float().square().mean() * scale).backward()


def dtype_for(strategy):
    """Returns a dtype that parameters under the strategy can have."""
    optimizer = None
    for dtype in (torch.bfloat16, torch.float32, torch.float16):
        try:
            optimizer = tt.SGD(model_of(dtype).parameters(), strategy=strategy,
                               path=[STRATEGY_PATH])
        except TypeError:
            continue
        binding = optimizer._groups.spec_of(params_of(optimizer)[0])
        if binding is optimizer._groups.specs.main:
            return dtype


def pair(make=tt.AdamW, strategy="flash", dtype=torch.bfloat16, **options):
    """Returns two models and their optimizers; the second one releases gradients."""
    models = model_of(dtype), model_of(dtype)
    # Codes are used everywhere, also in the smallest tensors.
    options = {"min_8bit_size": 0} | options
    return models, [make(m.parameters(), strategy=strategy, lr=1e-2, gradient_release=r,
                         **options) for m, r in zip(models, (False, True))]


def train(model, optimizer, seeds=range(3)):
    for seed in seeds:
        backward(model, seed)
        if optimizer.gradient_release:
            assert not any(optimizer._gradients.has(p) for p in model.parameters())
        optimizer.step()
        optimizer.zero_grad()


def agree(models, optimizers, seeds=range(3)):
    for model, optimizer in zip(models, optimizers):
        train(model, optimizer, seeds)
    assert_same_bits(*optimizers)


#===----------------------------------------------------------------------===#
# The same bits
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", LIBRARY)
def test_every_strategy(strategy):
    eps = {"eps": 1e-3} if strategy.startswith("f16") else {}
    agree(*pair(strategy=strategy, dtype=dtype_for(strategy), path=[STRATEGY_PATH], **eps))


@pytest.mark.parametrize("make,options", OPTIMIZERS)
@pytest.mark.parametrize("strategy", ["flash", "fp8-collage-plus", "bf16-stochastic"])
def test_every_optimizer(make, options, strategy):
    agree(*pair(make, strategy, **options))


def test_weights_kept_in_float32():
    models, _ = pair()
    for model in models:
        model[1].float()
        model[0].register_forward_hook(lambda *a: a[-1].float())
        model[1].register_forward_hook(lambda *a: a[-1].bfloat16())
    optimizers = [tt.AdamW(m.parameters(), strategy="flash", gradient_release=r)
                  for m, r in zip(models, (False, True))]
    agree(models, optimizers)


def test_decoded_weights():
    models, optimizers = pair(strategy="fp8-collage-plus")
    for model, optimizer in zip(models, optimizers):
        tt.decode_weights(model, optimizer)
    agree(models, optimizers)
    assert optimizers[1].live_bytes()["working"] == 0


def test_tied_weights():
    models, optimizers = pair()
    for model in models:
        model[3].weight = model[0].weight
    agree(models, optimizers)


def test_groups_and_schedulers():
    models, optimizers = pair()
    for model, optimizer in zip(models, optimizers):
        extra = torch.nn.Linear(64, 64).bfloat16()
        extra.load_state_dict(model[0].state_dict())
        model.append(extra)
        optimizer.add_param_group({"params": extra.parameters(), "lr": 1e-3})
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for seed in range(3):
            train(model, optimizer, [seed])
            scheduler.step()
    assert_same_bits(*optimizers)


def test_groups_that_change():
    """Between passes, parameters are reordered, and one moves to another group."""
    models, optimizers = pair()
    for model, optimizer in zip(models, optimizers):
        train(model, optimizer, [0])
        group = optimizer.param_groups[0]["params"]
        group.reverse()
        train(model, optimizer, [1])
        optimizer.add_param_group({"params": torch.nn.Parameter(torch.ones(3).bfloat16()),
                                   "lr": 0.5})
        optimizer.param_groups[1]["params"].insert(0, group.pop(1))
        train(model, optimizer, [2])
    assert_same_bits(*optimizers)


def test_closure():
    models, optimizers = pair()
    train(models[0], optimizers[0])
    for seed in range(3):
        optimizers[1].step(lambda: backward(models[1], seed))
    assert_same_bits(*optimizers)


def test_accumulates_when_told():
    models, optimizers = pair()
    backward(models[0], 0)
    backward(models[0], 1)
    with optimizers[1].accumulate():
        backward(models[1], 0)
        assert all(p.grad is not None for p in models[1].parameters())
    backward(models[1], 1)
    assert all(p.grad is None for p in models[1].parameters())
    for optimizer in optimizers:
        optimizer.step()
    assert_same_bits(*optimizers)


def test_step_takes_what_is_left():
    models, optimizers = pair()
    backward(models[0], 0)
    with optimizers[1].accumulate():
        backward(models[1], 0)
    for optimizer in optimizers:
        optimizer.step()
    assert_same_bits(*optimizers)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(copied):
    models, optimizers = pair()
    model, optimizer = copied((models[1], optimizers[1]))
    agree((models[0], model), (optimizers[0], optimizer))
    assert optimizer.gradient_release


def test_passes_of_both_kinds_alternate():
    """Steps of all parameters are replayed in C++ once they repeat."""
    models, optimizers = pair()
    for seed in range(8):
        for model, optimizer in zip(models, optimizers):
            with optimizer.accumulate() if seed // 3 != 1 else contextlib.nullcontext():
                backward(model, seed)
            optimizer.step()
            optimizer.zero_grad()
        assert_same_bits(*optimizers)


def test_passes_in_several_threads():
    """Several threads run backward passes, as autograd does for several devices."""
    models, optimizers = pair(strategy="collage-plus")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for seed in range(10):
                for layer in models[0]:
                    backward(layer, seed)
                list(pool.map(backward, models[1], [seed] * 4))
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
    finally:
        sys.setswitchinterval(before)
    assert_same_bits(*optimizers)


def test_state_dicts_are_those_of_others():
    models, optimizers = pair()
    train(models[0], optimizers[0])
    models[1].load_state_dict(models[0].state_dict())
    optimizers[1].load_state_dict(optimizers[0].state_dict())
    agree(models, optimizers, range(3, 5))


#===----------------------------------------------------------------------===#
# Memory
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy,expected", [
    ("flash", 5.25), ("flash-32", 6.25), ("coat-bf16", 4.078125), ("fp32", 12),
    ("residual-softsign-root", 5.25), ("fp8-collage-plus", 5.09375)])
def test_bytes_per_parameter(strategy, expected):
    """The derived bytes exclude the gradient; the measured ones include one gradient at a time."""
    model = model_of(dtype_for(strategy), bias=False)
    most = []
    for p in model.parameters():  # runs before the optimizer's own hooks
        p.register_post_accumulate_grad_hook(lambda p: most.append(optimizer.live_bytes()))
    optimizer = tt.AdamW(model.parameters(), strategy=strategy, gradient_release=True)
    assert optimizer.bytes_per_parameter == pytest.approx(expected)
    if optimizer._groups.specs.main.hidden:
        tt.decode_weights(model, optimizer)
    for seed in range(2):
        backward(model, seed)
        optimizer.step()
    count = sum(p.numel() for p in model.parameters())
    live = optimizer.live_bytes()
    assert sum(live.values()) == pytest.approx(expected * count)
    largest = max(p.numel() for p in model.parameters()) * p.element_size()
    assert len(most) == 8
    assert max(m["gradients"] for m in most) == largest


@pytest.mark.parametrize("release", [False, True])
def test_one_gradient_at_a_time(release):
    """A gradient is freed before autograd produces the next one."""
    model, alive, counts = model_of(bias=False), [], []

    def note(grad):
        alive[:] = [ref for ref in alive if ref() is not None]
        counts.append(len(alive))

    def remember(p):
        alive.append(weakref.ref(p.grad))

    for p in model.parameters():
        p.register_hook(note)
        p.register_post_accumulate_grad_hook(remember)
    optimizer = tt.AdamW(model.parameters(), strategy="flash", gradient_release=release)
    backward(model, 0)
    optimizer.step()
    assert counts == ([0, 0, 0, 0] if release else [0, 1, 2, 3])


#===----------------------------------------------------------------------===#
# Refusals
#===----------------------------------------------------------------------===#


def test_sums_over_the_model_are_refused():
    with pytest.raises(ValueError, match="adamw_clip sums over all parameters, so that no "
                                         "gradient can be released"):
        tt.AdamW(model_of().parameters(), strategy="flash", max_norm=1.0,
                 gradient_release=True)


@pytest.mark.parametrize("option,message", [
    ("metrics", "metrics are sums over a step of all parameters"),
    ("skip_nonfinite", "skip_nonfinite=True looks at the gradients of all parameters"),
    ("capturable", "capturable=True is for steps of all parameters at once")])
def test_options_are_refused(option, message):
    with pytest.raises(ValueError, match=f"{message}.*; leave out one of them"):
        tt.AdamW(model_of().parameters(), gradient_release=True, **{option: True})


def test_all_reduce_is_refused():
    optimizer = tt.AdamW(model_of().parameters(), strategy="fp8-lm", gradient_release=True)
    with pytest.raises(ValueError, match="cannot be averaged over ranks"):
        tt.GradientAllReduce(optimizer)


@pytest.mark.parametrize("strategy", ["flash", "fp8-collage-plus"])
def test_a_second_pass_is_refused(strategy):
    models, (one, other) = pair(strategy=strategy)
    backward(models[0], 0)
    one.step()
    backward(models[1], 0)
    with pytest.raises(RuntimeError, match="parameter 7 has taken its step in a backward "
                                           r"pass already; call step\(\) or zero_grad\(\)"):
        backward(models[1], 1)
    assert_same_bits(one, other)
    other.zero_grad()
    backward(models[1], 1)


def test_grad_scaler_is_refused():
    model = model_of()
    optimizer = tt.AdamW(model.parameters(), strategy="flash", gradient_release=True)
    scaler = torch.amp.GradScaler("cpu")
    backward(model, 0, scaler.scale(torch.ones(())))
    with pytest.raises(RuntimeError, match="a GradScaler looks at the gradients of all"):
        scaler.step(optimizer)
