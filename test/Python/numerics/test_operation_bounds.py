#===- test_operation_bounds.py - Errors of mcf operations ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the error bounds of docs/MCF.md with exact integers: on all
# operands of the 8-bit formats where a bound covers them, on samples elsewhere.
#
#===----------------------------------------------------------------------===#

import math

import numpy as np
import pytest

from model.formats import decode, encode, lookup
from support.operands import (all_codes, all_normalized, exact, exponent, product,
                              residuals, unit)
from support.operations import operation_kernel, uniform

BYTES = ("f8E4M3FN", "f8E5M2")
#: Exponent ranges in which operands and products neither overflow nor underflow.
EXPONENTS = {"bf16": (-20, 20), "f16": (4, 7)}
SAMPLES = 3000


def results(format, names, **given):
    """Returns the exact results of operations by name, and which of them are finite."""
    kernel = operation_kernel(uniform(format), names)
    planes = {name: plane.copy() for name, plane in kernel.planes(given).items()}
    kernel.compile()(planes)
    found = {}
    for name in names:
        parts = planes[f"r_{name}"], planes[f"r_{name}.lo"]
        finite = np.all([np.isfinite(decode(format, part)) for part in parts], axis=0)
        parts = [np.where(finite, part, 0).astype(part.dtype) for part in parts]
        found[name] = exact(format, *parts), finite
    return found


def worst(format, error, size):
    """Returns the largest |error / size| in units of u^2; exact zeros have no error."""
    assert not error[size == 0].any()
    error, size = np.abs(error[size != 0]), np.abs(size[size != 0])
    assert len(error) > 1000
    return float(np.max(error / size)) * 4.0**lookup(format).precision


#===----------------------------------------------------------------------===#
# Samples
#===----------------------------------------------------------------------===#


def sample(format, seed, positive=False):
    """Returns normalized pairs whose exponents are in the format's safe range."""
    rng, (low, high) = np.random.default_rng(seed), EXPONENTS[format]
    value = rng.uniform(1, 2, SAMPLES) * np.exp2(rng.integers(low, high, SAMPLES))
    sign = 1 if positive else rng.choice([-1, 1], SAMPLES)
    leading = encode(format, (sign * value).astype(np.float32))
    return [leading, residuals(rng, format, leading)]


@pytest.mark.parametrize("format", EXPONENTS)
def test_products(format):
    x, y = sample(format, 1), sample(format, 2)
    found = results(format, ("scale", "mul"), x=x, y=y, a=[y[0]])
    one = 1 << -unit(format)
    for name, other, bound in (("scale", y[:1], 3), ("mul", y, 5)):
        value, finite = found[name]
        want = exact(format, *x) * exact(format, *other)
        assert finite.all()
        assert 0.5 < worst(format, value * one - want, want) <= bound, name


@pytest.mark.parametrize("format", EXPONENTS)
def test_sums(format):
    x, y = sample(format, 3), sample(format, 4)
    # In half of the sums, the leading components cancel.
    y[0][::2] = x[0][::2] ^ lookup(format).sign_bit
    y[1][::2] = residuals(np.random.default_rng(5), format, y[0][::2])
    a = np.where(np.abs(decode(format, y[0])) <= np.abs(decode(format, x[0])), y[0], x[0])
    found = results(format, ("grow", "add", "sub"), x=x, y=y, a=[a])
    for name, other, sign in (("grow", [a], 1), ("add", y, 1), ("sub", y, -1)):
        value, finite = found[name]
        want = exact(format, *x) + sign * exact(format, *other)
        assert finite.all()
        assert worst(format, value - want, want) <= 2, name


@pytest.mark.parametrize("format", EXPONENTS)
def test_quotients(format):
    x, y = sample(format, 6), sample(format, 7)
    (value, finite), = results(format, ("div",), x=x, y=y).values()
    assert finite.all()
    u = 2.0**-lookup(format).precision
    # |q - x / y| / |x / y| = |q y - x| / |x|.
    size = exact(format, *x) * (1 << -unit(format))
    error = value * exact(format, *y) - size
    assert 0.5 < worst(format, error, size) <= 15 + 56 * u


@pytest.mark.parametrize("format", EXPONENTS)
def test_roots(format):
    x = sample(format, 8, positive=True)
    (value, finite), = results(format, ("sqrt",), x=x).values()
    assert finite.all()
    scale = 40 * lookup(format).precision
    root = np.array([math.isqrt(int(w) << (2 * scale - unit(format)))
                     for w in exact(format, *x)], dtype=object)
    assert 0.5 < worst(format, (value << scale) - root, root) <= 25 / 8


#===----------------------------------------------------------------------===#
# All of the 8-bit formats
#===----------------------------------------------------------------------===#


def worst_sum(format, is_larger):
    """Returns grow's worst error over all normalized pairs with components that are larger, or
    not."""
    high, low = all_normalized(format)
    finite = all_codes(format)[np.isfinite(decode(format, all_codes(format)))]
    index, a = product(np.flatnonzero(high < 0x80), finite)
    keep = (np.abs(decode(format, a)) > decode(format, high[index])) == is_larger
    x, a = [high[index[keep]], low[index[keep]]], a[keep]
    (value, finite), = results(format, ("grow",), x=x, a=[a]).values()
    want = exact(format, *x) + exact(format, a)
    return worst(format, (value - want)[finite], want[finite])


@pytest.mark.parametrize("format", BYTES)
def test_every_sum_with_a_component(format):
    assert 1.5 < worst_sum(format, is_larger=False) <= 2


@pytest.mark.parametrize("format", BYTES)
def test_every_sum_with_a_larger_component(format):
    """In this case, grow is no better than one rounded sum: u = 2^p u^2."""
    assert 1 < worst_sum(format, is_larger=True) / 2**lookup(format).precision < 1.05


@pytest.mark.parametrize("format", BYTES)
def test_every_product_with_a_component(format):
    """Products are only counted if underflow loses none of their bits."""
    fmt = lookup(format)
    high, low = all_normalized(format)
    finite = all_codes(format)[np.isfinite(decode(format, all_codes(format)))]
    index, a = product(np.flatnonzero(high < 0x80), finite)
    x = [high[index], low[index]]
    value = [decode(format, part).astype(np.float64) for part in (*x, a)]
    small = np.abs(value[1] * value[2])
    keep = (value[0] != 0) & (value[2] != 0)
    keep &= exponent(format, x[0]) + exponent(format, a) >= \
        fmt.min_exponent + fmt.precision - 1
    keep &= (small == 0) | (small >= 2.0**fmt.min_exponent)
    x, a = [part[keep] for part in x], a[keep]
    (value, finite), = results(format, ("scale",), x=x, a=[a]).values()
    want = exact(format, *x)[finite] * exact(format, a)[finite]
    error = value[finite] * (1 << -unit(format)) - want
    assert 1 < worst(format, error, want) <= 3
