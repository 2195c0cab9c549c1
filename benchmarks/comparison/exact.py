#===- exact.py - The definition, in integers -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the programs in exact dyadic rational arithmetic: each operation is computed
# exactly and then rounded once.
#
#===----------------------------------------------------------------------===#
"""`definition(case, planes)` returns the result and error term as the listings define them."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import programs
from inputs import BITS


@dataclass(frozen=True)
class Format:
    """A format: its precision and the exponent of its smallest subnormal."""

    precision: int
    least: int


FORMATS = {name: Format(b.precision, 1 - b.bias - b.mantissa)
           for name, b in BITS.items()}


def round_even(number, drop, precision):
    """Rounds number / 2^drop to an integer of at most `precision` bits, ties to even."""
    magnitude = abs(number)
    excess = max(drop, magnitude.bit_length() - precision)
    if excess <= 0:
        return number << -drop
    kept, rest = magnitude >> excess, magnitude & ((1 << excess) - 1)
    half = 1 << (excess - 1)
    kept += rest > half or (rest == half and kept & 1)
    kept <<= excess - drop
    return kept if number > 0 else -kept


class Value:
    """A number of a format, as an integer multiple of its smallest subnormal."""

    __slots__ = ("format", "units")

    def __init__(self, format, units):
        self.format, self.units = format, units

    def rounded(self, number, drop=0):
        return Value(self.format, round_even(number, drop, self.format.precision))

    def __add__(self, other):
        return self.rounded(self.units + other.units)

    def __sub__(self, other):
        return self.rounded(self.units - other.units)

    def __mul__(self, other):
        return self.rounded(self.units * other.units, -self.format.least)


def residual(a, b, p):
    """Returns fma(a, b, -p), with one rounding."""
    drop = -a.format.least
    return a.rounded(a.units * b.units - (p.units << drop), drop)


@lru_cache(maxsize=None)
def _units(format, bits):
    """Returns a bit pattern in multiples of the smallest subnormal; None for infinities and
    NaNs."""
    fields = BITS[format]
    mantissa = bits & ((1 << fields.mantissa) - 1)
    exponent = (bits & 0x7FFF) >> fields.mantissa
    if exponent == 2 * fields.bias + 1:
        return None
    if exponent:
        mantissa = (mantissa | 1 << fields.mantissa) << (exponent - 1)
    return -mantissa if bits & 0x8000 else mantissa


def units(format, bits):
    """Converts an array of bits to a list of integers."""
    return [_units(format, b) for b in np.ravel(bits).tolist()]


def values(format, bits):
    return [Value(FORMATS[format], u) for u in units(format, bits)]


def _steps(case, planes):
    x, y, *rows = [values(case.format, plane)
                   for plane in (planes["x"], planes["y"], *planes["a"])]
    step = programs.STEPS[case.program]
    state = list(zip(x, y))
    for row in rows:
        state = [step(s, e, a) for (s, e), a in zip(state, row)]
    return state


def _pairs(case, planes):
    operands = [values(case.format, plane) for plane in planes.values()]
    if "factor" in planes:
        operands[-1] *= case.size
    return [programs.apply(case, row, residual) for row in zip(*operands)]


def definition(case, planes):
    """Returns the results and the error terms in multiples of the smallest subnormal."""
    done = (_steps if case.steps else _pairs)(case, planes)
    return [s.units for s, _ in done], [e.units for _, e in done]


def truth(case, planes):
    """Returns the exact sums of result and error term, and by how many bits their unit is finer:
    that of products is the square of the smallest subnormal."""
    if case.steps:
        total = [list(column) for column in zip(*[units(case.format, row)
                                                   for row in planes["a"]])]
        return [x + sum(a) for x, a in zip(units(case.format, planes["x"]), total)], 0
    a, b = units(case.format, planes["a"]), units(case.format, planes["b"])
    if case.program == "mul":
        a, b = ([high + low for high, low in zip(plane, units(case.format, planes[n]))]
                for plane, n in ((a, "a2"), (b, "b2")))
    if case.is_product:
        return [p * q for p, q in zip(a, b)], -FORMATS[case.format].least
    return [p + q for p, q in zip(a, b)], 0
