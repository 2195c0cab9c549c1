#===- programs.py - Compensated sums, written once -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the programs that every framework runs, on any type with +, - and *, and the
# cases, each of which is a program, a format and inputs.
#
#===----------------------------------------------------------------------===#
"""The programs of the comparison. Each gives two values: a result and its error term."""

from dataclasses import dataclass


def two_sum(a, b):
    s = a + b
    b1 = s - a
    a1 = s - b1
    return s, (a - a1) + (b - b1)


def fast_two_sum(a, b):
    s = a + b
    return s, b - (s - a)


def two_prod(a, b, residual):
    """Returns a product and its error; `residual` is fma(a, b, -p), or the framework's
    substitute."""
    p = a * b
    return p, residual(a, b, p)


def split(a, factor):
    c = factor * a
    high = c - (c - a)
    return high, a - high


def two_prod_dekker(a, b, factor):
    (ah, al), (bh, bl) = split(a, factor), split(b, factor)
    p = a * b
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def mul(a, b, a2, b2, residual):
    """Multiplies (a, a2) by (b, b2) as Collage does."""
    x, e = two_prod(a, b, residual)
    return fast_two_sum(x, e + ((a * b2) + (a2 * b)))


def kahan(x, y, a):
    d = a + y
    s = x + d
    return s, d - (s - x)


def grow(x, y, a):
    """Updates a weight kept as the sum of two numbers, as Collage does."""
    u, v = fast_two_sum(x, a)
    return fast_two_sum(u, y + v)


@dataclass(frozen=True)
class Case:
    """A program in a format; with `steps`, each application continues from the previous one."""

    program: str
    format: str
    size: int
    steps: int = 0

    @property
    def name(self):
        return f"{self.program}_{self.format}"

    @property
    def is_product(self):
        return self.program in ("mul", "two_prod", "two_prod_dekker")


PAIRS = 65536
CASES = {case.name: case for case in (
    *(Case(program, format, PAIRS)
      for program in ("two_sum", "fast_two_sum", "two_prod", "two_prod_dekker",
                      "mul")
      for format in ("bf16", "f16")),
    Case("kahan", "bf16", 32, steps=10_000),
    Case("grow", "bf16", 1024, steps=100),
)}
STEPS = {"kahan": kahan, "grow": grow}


def apply(case, planes, residual):
    """Applies a program to pairs, with `planes` as in inputs.pairs."""
    if case.program == "two_prod":
        return two_prod(*planes, residual)
    if case.program == "mul":
        return mul(*planes, residual)
    return {"two_sum": two_sum, "fast_two_sum": fast_two_sum,
            "two_prod_dekker": two_prod_dekker}[case.program](*planes)
