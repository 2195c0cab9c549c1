#===- arithmetic.py - Component arithmetic and expansions ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements correctly rounded component arithmetic and, based on it, the operations on
# multi-component floats as literal sequences.
#
#===----------------------------------------------------------------------===#
"""Implements arithmetic of a component format, and multi-component float operations.

Component values are float32 arrays that hold values of the component format.
A Python float is a scalar: it is rounded from float64 to float32, and an
operation with it rounds to float32 and then to the component format.
"""

import numpy as np

from .formats import lookup, round_to

_SIGN = np.uint32(0x80000000)


def _operand(x):
    return np.float32(x) if isinstance(x, float) else x


def round_to_odd_sum(p, c):
    """Returns p + c in float64, rounded to odd, so that rounding again to less is safe."""
    s = p + c
    t = s - p
    e = (p - (s - t)) + (c - t)
    bits = s.view(np.int64)
    inexact = np.isfinite(s) & np.isfinite(e) & (e != 0) & ((bits & 1) == 0)
    # Magnitudes grow with their bits, so the direction of e depends on both signs.
    outward = (e > 0) == (s > 0)
    odd = np.where(outward, bits + 1, bits - 1)
    return np.where(inexact, odd, bits).view(np.float64)


class Arithmetic:
    """Operations computed in float32 and rounded once to `format`."""

    def __init__(self, format):
        self.format = lookup(format)

    def round(self, x):
        """Returns fl(x), with one rounding from float32 or float64."""
        return round_to(self.format.name, x)

    def _apply(self, operation, *operands):
        with np.errstate(all="ignore"):
            result = operation(*[_operand(x) for x in operands])
        return self.round(np.asarray(result, dtype=np.float32))

    # Since 24 >= 2p + 2, the second rounding of these is innocuous.
    def add(self, a, b):
        return self._apply(np.add, a, b)

    def sub(self, a, b):
        return self._apply(np.subtract, a, b)

    def mul(self, a, b):
        return self._apply(np.multiply, a, b)

    def div(self, a, b):
        return self._apply(np.divide, a, b)

    def sqrt(self, a):
        return self._apply(np.sqrt, a)

    def neg(self, a):
        """Flips the sign bit, also of zeros and NaNs."""
        return (a.view(np.uint32) ^ _SIGN).view(np.float32)

    def sign(self, a):
        """Returns -1, +1, or a itself if it is a zero or NaN."""
        return np.where(a > 0, np.float32(1), np.where(a < 0, np.float32(-1), a))

    def fma(self, a, b, c):
        """Returns a * b + c, rounded once from the exact value.

        The product of two components is exact in float64, and a sum rounded to odd with 53 >= p + 2
        bits rounds to the same result as the exact sum.
        """
        with np.errstate(all="ignore"):
            wide = [np.asarray(x, dtype=np.float64) for x in (a, b, c)]
            product = np.atleast_1d(wide[0] * wide[1])
            total = round_to_odd_sum(product, wide[2])
        return self.round(total).reshape(np.broadcast(a, b, c).shape)

    def split_real(self, x, count=2):
        """Splits a float64 scalar into (b, db, ...), with one rounding each."""
        rest, parts = np.float64(x), []
        for _ in range(count):
            parts.append(np.float32(self.round(rest)))
            rest = rest - np.float64(parts[-1])
        return tuple(parts)


#===----------------------------------------------------------------------===#
# Error-free transforms
#===----------------------------------------------------------------------===#


def fast_two_sum(k, a, b):
    """Returns a + b as sum and error with the literal sequence; exact if |a| >= |b|."""
    x = k.add(a, b)
    return x, k.sub(b, k.sub(x, a))


def two_sum(k, a, b):
    """Returns a + b as sum and error, in either order."""
    x = k.add(a, b)
    bb = k.sub(x, a)
    aa = k.sub(x, bb)
    return x, k.add(k.sub(a, aa), k.sub(b, bb))


def split(k, a):
    """Returns the halves of a's significand."""
    factor = np.float32((1 << -(-k.format.precision // 2)) + 1)
    c = k.mul(np.asarray(factor), a)
    hi = k.sub(c, k.sub(c, a))
    return hi, k.sub(a, hi)


def two_prod(k, a, b):
    """Returns a * b as product and error, by fma."""
    x = k.mul(a, b)
    return x, k.fma(a, b, k.neg(x))


def two_prod_dekker(k, a, b):
    """Returns a * b as product and error, from the splits."""
    x = k.mul(a, b)
    a_hi, a_lo = split(k, a)
    b_hi, b_lo = split(k, b)
    rest = k.sub(x, k.mul(a_hi, b_hi))
    rest = k.sub(rest, k.mul(a_lo, b_hi))
    rest = k.sub(rest, k.mul(a_hi, b_lo))
    return x, k.sub(k.mul(a_lo, b_lo), rest)


#===----------------------------------------------------------------------===#
# Expansions of two or three components
#===----------------------------------------------------------------------===#


def grow(k, x, a):
    """Adds a component to an expansion."""
    if len(x) == 3:
        x0, e = two_sum(k, x[0], a)
        x1, e = two_sum(k, x[1], e)
        x2 = k.add(x[2], e)
        x0, x1 = fast_two_sum(k, x0, x1)
        x1, x2 = fast_two_sum(k, x1, x2)
        x0, x1 = fast_two_sum(k, x0, x1)
        return x0, x1, x2
    u, v = fast_two_sum(k, x[0], a)
    return fast_two_sum(k, u, k.add(x[1], v))


def scale(k, a, v):
    """Multiplies an expansion by a component."""
    x, e = two_prod(k, a[0], v)
    e = k.add(k.mul(a[1], v), e)
    return fast_two_sum(k, x, e)


def _mul3(k, a, b):
    p00, e00 = two_prod(k, a[0], b[0])
    p01, e01 = two_prod(k, a[0], b[1])
    p10, e10 = two_prod(k, a[1], b[0])
    p01, p10 = two_sum(k, p01, p10)
    e01 = k.add(e01, e10)
    p02 = k.add(k.mul(a[0], b[2]), k.mul(a[2], b[0]))
    e00, p01 = two_sum(k, e00, p01)
    p02 = k.add(p02, k.mul(a[1], b[1]))
    p00, e00 = fast_two_sum(k, p00, e00)
    p01 = k.add(k.add(p01, p10), k.add(e01, p02))
    e00, p01 = two_sum(k, e00, p01)
    p00, e00 = fast_two_sum(k, p00, e00)
    e00, p01 = fast_two_sum(k, e00, p01)
    p00, e00 = fast_two_sum(k, p00, e00)
    return p00, e00, p01


def mul(k, a, b):
    """Multiplies two expansions."""
    if len(a) == 3:
        return _mul3(k, a, b)
    x, e = two_prod(k, a[0], b[0])
    e = k.add(e, k.add(k.mul(a[0], b[1]), k.mul(a[1], b[0])))
    return fast_two_sum(k, x, e)


def neg(k, a):
    """Negates an expansion."""
    return tuple(k.neg(x) for x in a)


def kahan(k, value, compensation, delta):
    """Accumulates with Kahan's method; returns the new value and the new compensation."""
    d = k.add(delta, compensation)
    new = k.add(value, d)
    return new, k.sub(d, k.sub(new, value))
