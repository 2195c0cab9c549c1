#===- test_fp8_arithmetic.py - Tests of Collage in FP8 ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the arithmetic of Collage in FP8.
#
#===----------------------------------------------------------------------===#
"""Tests of Collage that is computed in FP8, benchmarks/precision/fp8_arithmetic.py."""

import pathlib
import sys

import ml_dtypes
import numpy as np
import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "precision"))
import fp8_arithmetic  # noqa: E402


def values(count=4096):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, generator=generator)


def test_unlimited_is_e4m3_within_its_range():
    x = torch.cat([values(), torch.tensor([1.0625, 1.1875, -1.0625, 240.0, 0.0])])
    x = x[(x == 0) | (x.abs() >= 2.0**-6)]
    want = x.numpy().astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(fp8_arithmetic.unlimited(x).numpy(), want)
    assert torch.equal(fp8_arithmetic.unlimited(x * 2.0**-60), torch.from_numpy(want) * 2.0**-60)


def test_scaled_has_a_scale_for_each_group():
    x = values(1000)
    x[:128] *= 2.0**-40
    found = fp8_arithmetic.scaled(x)
    assert found.shape == x.shape
    assert ((found[:128] - x[:128]).abs() <= x[:128].abs().max() / 16).all()
    x[0] = 2.0**-20
    assert not fp8_arithmetic.scaled(x)[1:128].any(), "the others fall below the range"
    assert torch.equal(fp8_arithmetic.least(x)[:128], torch.full((128,), 2.0**-36))
    assert not fp8_arithmetic.least(torch.zeros(5)).any()


@pytest.mark.parametrize("name", fp8_arithmetic.ROUNDINGS)
def test_expansions_hold_twice_the_bits(name):
    """Grow and Mul lose less than the 2^-7 of a sum of two numbers of four bits."""
    a, x = fp8_arithmetic.Arithmetic(fp8_arithmetic.ROUNDINGS[name]), values().abs() + 1
    head = a.round(x)
    tail, added = a.round(x - head), a.round(x / 100)
    sums, rest = a.grow(head, tail, added)
    want = head.double() + tail + added
    assert ((sums.double() + rest - want) / want).abs().max() < 2.0**-7
    product, rest = a.mul_pair(a.pair(0.999), head, tail)
    want = (head.double() + tail) * 0.999
    assert ((product.double() + rest - want) / want).abs().max() < 2.0**-7


@pytest.mark.parametrize("plus", (False, True))
@pytest.mark.parametrize("name", fp8_arithmetic.ROUNDINGS)
def test_steps_are_near_adamw(name, plus):
    weights = [torch.nn.Parameter(values(256) * 0.1) for _ in range(2)]
    with torch.no_grad():
        weights[1].copy_(weights[0])
    start, options = weights[0].detach().clone(), {"lr": 1e-2, "betas": (0.9, 0.95)}
    ours = fp8_arithmetic.CollageAdamW(weights[:1], weight_decay=0.0, rounding=name, plus=plus,
                                       **options)
    torchs = torch.optim.AdamW(weights[1:], weight_decay=0.0, **options)
    for step in range(10):
        for w, optimizer in zip(weights, (ours, torchs)):
            w.grad = torch.sin(torch.arange(256.0) + 0.2 * step)
            optimizer.step()
    ours, want = (w.detach() - start for w in weights)
    assert (ours - want).norm() < 0.1 * want.norm()
