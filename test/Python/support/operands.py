#===- operands.py - Operands of mcf operations -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file generates the operands for tests of mcf operations: all of an 8-bit format, and ordinary
# and adversarial ones of the other formats.
#
#===----------------------------------------------------------------------===#
"""Makes components and expansions as codes; `exact` returns their value in integers."""

import numpy as np

from model.formats import decode, encode, lookup

#===----------------------------------------------------------------------===#
# Values
#===----------------------------------------------------------------------===#


def unit(format):
    """Returns the exponent of the smallest subnormal, which divides all numbers."""
    fmt = lookup(format)
    return fmt.min_exponent - fmt.mantissa_bits


def exact(format, *planes):
    """Returns the sum of finite components in units as integers: Python's, or 64-bit integers
    for 8-bit formats, whose numbers have at most 33 bits."""
    total = 0
    for codes in planes:
        whole = np.ldexp(decode(format, codes).astype(np.float64), -unit(format))
        if lookup(format).bits > 8:
            total = total + np.array([int(value) for value in whole], dtype=object)
        else:
            total = total + whole.astype(np.int64)
    return total


def exponent(format, codes):
    """Returns floor(log2 |x|), but at least the smallest exponent of a normal number."""
    fmt = lookup(format)
    field = (codes.astype(np.int64) & ~fmt.sign_bit) >> fmt.mantissa_bits
    return np.maximum(field, 1) - fmt.bias


def half_ulp(format, codes):
    """Returns half an ulp of each number in float64."""
    return np.exp2(exponent(format, codes) - float(lookup(format).precision))


#===----------------------------------------------------------------------===#
# All of an 8-bit format
#===----------------------------------------------------------------------===#


def all_codes(format):
    return np.arange(1 << lookup(format).bits).astype(lookup(format).dtype)


def product(*arrays):
    """Returns every combination of the arrays' elements."""
    return [axis.ravel() for axis in np.meshgrid(*arrays, indexing="ij")]


def all_normalized(format):
    """Returns every (hi, lo) with |lo| at most half an ulp of a finite hi."""
    high, low = product(all_codes(format), all_codes(format))
    value, rest = decode(format, high), decode(format, low)
    with np.errstate(invalid="ignore"):
        keep = np.isfinite(value) & (np.abs(rest) <= half_ulp(format, high))
    keep &= (value != 0) | (rest == 0)
    return high[keep], low[keep]


#===----------------------------------------------------------------------===#
# Ordinary and adversarial operands
#===----------------------------------------------------------------------===#


def components(rng, format, size):
    """Returns codes: random bits, numbers around one, powers of two and their neighbours, the
    ends of the range, subnormals, zeros, infinities and NaN."""
    fmt = lookup(format)
    ordinary = rng.standard_normal(size) * np.exp2(rng.integers(-3, 4, size))
    powers = np.exp2(rng.integers(-12, 12, size))
    with np.errstate(over="ignore"):
        near = encode(format, powers.astype(np.float32)).astype(np.int64)
        around = encode(format, ordinary.astype(np.float32)).astype(np.int64)
    near += rng.integers(-1, 2, size)
    normal = 1 << fmt.mantissa_bits
    special = rng.choice([0, fmt.largest, fmt.infinity, fmt.canonical_nan, 1, normal],
                         size)
    kinds = [rng.integers(0, 1 << fmt.bits, size), around, around, near,
             fmt.largest - rng.integers(0, 2 * normal, size),
             rng.integers(0, min(4 * normal, fmt.largest), size), special]
    codes = np.choose(rng.integers(0, len(kinds), size), kinds)
    codes = codes ^ np.where(rng.random(size) < 0.5, 0, fmt.sign_bit)
    return codes.astype(np.uint64).astype(fmt.dtype)


def residuals(rng, format, high):
    """Returns trailing components: up to half an ulp, often exactly that, or far less."""
    limit = half_ulp(format, high)
    share = np.choose(rng.integers(0, 5, len(high)), [
        rng.uniform(-1, 1, len(high)), np.full(len(high), 1.0), np.full(len(high), -1.0),
        np.exp2(rng.uniform(-12, 0, len(high))), np.full(len(high), -0.0)])
    with np.errstate(all="ignore"):
        low = np.where(np.isfinite(limit), share * limit, 0.0)
        return encode(format, low)


def expansions(rng, type, size):
    """Returns normalized expansions, mixed with arbitrary components."""
    parts = [components(rng, type.leading, size)]
    for format in type.formats[1:]:
        if type.is_mixed:  # stored relative to the leading component
            parts.append(components(rng, format, size))
            continue
        low = residuals(rng, format, parts[-1])
        wild = rng.random(size) < 0.1
        parts.append(np.where(wild, components(rng, format, size), low))
    return parts


def operands(rng, type, size):
    """Returns operands of every kind by name; y often cancels much of x."""
    x, y = expansions(rng, type, size), expansions(rng, type, size)
    like_x, sign = rng.random(size) < 0.3, lookup(type.leading).sign_bit
    y[0] = np.where(like_x, x[0] ^ x[0].dtype.type(sign * (size % 2)), y[0])
    same = rng.random(size) < 0.1
    for i, part in enumerate(x):
        y[i] = np.where(same, part, y[i])
    a = components(rng, type.leading, size)
    a = np.where(rng.random(size) < 0.2, x[0] ^ x[0].dtype.type(sign), a)
    reals = {name: [components(rng, "f32", size)] for name in ("w", "v")}
    return {"a": [a], "b": [components(rng, type.leading, size)], "x": x, "y": y} | reals
