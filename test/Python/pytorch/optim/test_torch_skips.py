#===- test_torch_skips.py - Skipped steps ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that a skipped or refused step, and a gradient that no step uses, do not change
# parameters or state, under every strategy, with and without delayed scales of gradients.
#
#===----------------------------------------------------------------------===#

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt
from support.delayed import (has_float_gradients, takes_scaled_gradients,
                             with_delayed_gradients)
from support.torch_bits import assert_same_bits, bits, parameters, params_of
from support.torch_on_gpu import TorchGPU

SHAPES = [(40,), (5, 7), (3, 2, 4)]
#: One strategy for each kind of weights: coded, plain, compensated, and with a master copy.
DELAYED = ("fp8-lm-delayed", "fp8-collage-plus", "bf16-dither", "coat-remainder",
           "f16-master-weights")


@pytest.fixture(scope="module")
def gpu():
    return TorchGPU()


def make(strategy, folder=None, **options):
    """Returns an optimizer of an f32 norm and parameters of the strategy's type. With a folder,
    the strategy's gradients have delayed scales."""
    name = strategy if folder is None else with_delayed_gradients(folder, strategy)
    path = [] if folder is None else [folder]
    kernel = tandem.compile("adamw", name, path=path)
    visible = [p for p in kernel.planes if p.name == "param" and p.visible]
    dtype = {"f32": torch.float32, "f16": torch.float16}.get(
        visible[0].type if visible else "bf16", torch.bfloat16)
    params = parameters(SHAPES, dtype) + parameters([(9,)], torch.float32)
    return tt.AdamW(params, lr=1e-2, strategy=name, path=path, min_8bit_size=0, **options)


def backward(optimizer, seed, bad=None):
    """Runs a backward pass; parameter number `bad` gets a NaN."""
    generator = torch.Generator().manual_seed(seed)
    for i, p in enumerate(params_of(optimizer)):
        grad = torch.randn(p.shape, generator=generator) * 2.0**(seed % 5)
        if i == bad:
            grad.view(-1)[3] = torch.nan
        (p.float() * grad).sum().backward()


def step(optimizer, seed, bad=None):
    backward(optimizer, seed, bad)
    optimizer.step()
    optimizer.zero_grad()


def snapshot(optimizer):
    """Copies all parameters and the state dict."""
    return copy.deepcopy(([bits(p) for p in params_of(optimizer)], optimizer.state_dict()))


def assert_unchanged(optimizer, before):
    """Asserts that all entries of the state dict and all parameters are unchanged."""
    weights, states = before
    for p, want in zip(params_of(optimizer), weights, strict=True):
        assert np.array_equal(bits(p), want)
    assert_same_entries(optimizer.state_dict(), states)


def assert_same_entries(got, want):
    if isinstance(want, dict):
        assert got.keys() == want.keys()
        for key, value in want.items():
            assert_same_entries(got[key], value)
    elif isinstance(want, torch.Tensor):
        assert got.dtype == want.dtype and np.array_equal(bits(got), bits(want))
    else:
        assert got == want


def has_history(optimizer):
    return any("grad.history" in state and state["grad.history"].any()
               for state in optimizer.state.values())


def check_skips(got, want):
    """Asserts that skipped steps, also as the first one, leave no trace."""
    for seed in range(3):
        for bad in range(4):
            before = snapshot(got)
            step(got, 10 + seed, bad)
            assert got.skipped
            assert_unchanged(got, before)
        step(got, seed)
        step(want, seed)
        assert not got.skipped
    assert_same_bits(got, want)


@pytest.mark.parametrize("strategy", filter(has_float_gradients, tandem.strategies()))
def test_skipped_steps(strategy):
    check_skips(*(make(strategy, skip_nonfinite=skips) for skips in (True, False)))


@pytest.mark.parametrize("strategy", (
    "fp8-lm-delayed", *filter(takes_scaled_gradients, tandem.strategies())))
def test_skipped_steps_with_delayed_gradients(strategy, tmp_path):
    got, want = (make(strategy, tmp_path, skip_nonfinite=skips) for skips in (True, False))
    check_skips(got, want)
    assert has_history(got)


every_delayed = pytest.mark.parametrize("strategy", DELAYED)


@every_delayed
def test_gradients_by_hand(strategy, tmp_path):
    """A step begins by encoding gradients set in p.grad."""
    optimizer = make(strategy, tmp_path, skip_nonfinite=True)
    step(optimizer, 0)
    before = snapshot(optimizer)
    for p in params_of(optimizer):
        p.grad = torch.full_like(p, 8)
    p.grad.view(-1)[-1] = torch.inf
    optimizer.step()
    assert optimizer.skipped
    assert_unchanged(optimizer, before)


@every_delayed
def test_gradients_of_several_passes(strategy, tmp_path):
    """A sum of passes enters the history pass by pass, or not at all."""
    got, want = (make(strategy, tmp_path, skip_nonfinite=skips) for skips in (True, False))
    for optimizer in (got, want):
        step(optimizer, 0)
    before = snapshot(got)
    backward(got, 3)
    step(got, 4, bad=0)
    assert got.skipped
    assert_unchanged(got, before)
    for optimizer in (got, want):
        backward(optimizer, 1)
        step(optimizer, 2)
    assert_same_bits(got, want)


@every_delayed
def test_gradients_that_no_step_takes(strategy, tmp_path):
    """zero_grad releases them, and a refused step leaves them to the next one."""
    got, want = make(strategy, tmp_path), make(strategy, tmp_path)
    for optimizer in (got, want):
        step(optimizer, 0)
    before = snapshot(got)
    backward(got, 7)
    got.zero_grad()
    assert_unchanged(got, before)
    for optimizer in (got, want):
        backward(optimizer, 1)
    got.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr"):
        got.step()
    got.param_groups[0]["lr"] = 1e-2
    assert_unchanged(got, before)
    for optimizer in (got, want):
        optimizer.step()
    assert_same_bits(got, want)
    assert has_history(got)


@every_delayed
def test_gpus(strategy, tmp_path, gpu):
    """Only the GPU knows whether gradients or a GradScaler skip a step."""
    want = make(strategy, tmp_path)
    for seed in range(2):
        step(want, seed)
    with gpu.holds_torch():
        got = make(strategy, tmp_path, capturable=True, skip_nonfinite=True)
        for seed in range(2):
            step(got, seed)
            before = snapshot(got)
            step(got, 10, bad=2)
            assert got.skipped
            assert_unchanged(got, before)
            got.found_inf = torch.ones(())
            step(got, 11)
            del got.found_inf
            assert_unchanged(got, before)
        for state in got.state.values():
            state["step"] = int(state["step"])
        assert_same_bits(got, want)
        assert has_history(got)
