#===- inputs.py - Seeded inputs ------------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file generates the inputs of each case: ordinary numbers, numbers that are hard to add or
# multiply, and subnormals.
#
#===----------------------------------------------------------------------===#
"""`planes(case)` returns arrays of bits; `slices(case)` yields the kinds of the pairs."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

SEED = 20260522
DTYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
#: The number of eighths of the pairs that each kind gets, in this order.
GROUPS = {"ordinary": 4, "adversarial": 3, "subnormal": 1}


@dataclass(frozen=True)
class Bits:
    """The field widths of a 16-bit format."""

    mantissa: int
    bias: int

    @property
    def precision(self):
        return self.mantissa + 1


BITS = {"bf16": Bits(7, 127), "f16": Bits(10, 15)}


def slices(case):
    """Yields each kind of pairs and its slice."""
    begin = 0
    for name, share in GROUPS.items():
        end = begin + case.size * share // 8
        yield name, slice(begin, end)
        begin = end


def compose(bits, rng, exponent, mantissa):
    sign = rng.integers(0, 2, exponent.shape)
    return (sign << 15 | (exponent + bits.bias) << bits.mantissa
            | mantissa).astype(np.uint16)


def mantissas(bits, rng, count):
    """Returns significands: half of them corners with ties and carries, the others random."""
    last = (1 << bits.mantissa) - 1
    corners = np.array([0, 1, 2, last, last - 1, last // 2, last // 2 + 1])
    return np.where(rng.random(count) < 0.5, rng.choice(corners, count),
                    rng.integers(0, last + 1, count))


def ordinary(case, rng, count):
    """Returns factors; those of f16 only if their product's error is a number of f16."""
    values = rng.standard_normal((2, count))
    if case.format == "bf16":
        values *= 2.0 ** rng.uniform(-10, 10, (2, count))
    elif case.is_product:
        values = rng.choice([-1, 1], (2, count)) * rng.uniform(0.5, 8, (2, count))
    return values.astype(np.float32).astype(DTYPES[case.format]).view(np.uint16)


def adversarial(case, rng, count):
    """Returns addends whose exponents differ by at most what a sum can feel, or factors."""
    bits = BITS[case.format]
    if case.is_product:
        low, high = (-2, 5) if case.format == "f16" else (-20, 20)
        pair = [rng.integers(low, high, count) for _ in range(2)]
    else:
        first = rng.integers(-2, 3, count)
        apart = bits.precision + 2
        pair = [first, first + rng.integers(-apart + (case.format == "f16") * 2, apart,
                                            count)]
    return [compose(bits, rng, e, mantissas(bits, rng, count)) for e in pair]


def subnormal(case, rng, count):
    """Returns numbers around the smallest normal one, or factors with such products."""
    bits = BITS[case.format]
    small = [rng.integers(1, 3 << bits.mantissa, count)
             | rng.integers(0, 2, count) << 15 for _ in range(2)]
    if case.is_product:
        exponent = rng.integers(-1, 3, count)
        small[1] = compose(bits, rng, exponent, mantissas(bits, rng, count))
    return [np.asarray(plane, np.uint16) for plane in small]


def pairs(case, rng):
    draw = {"ordinary": ordinary, "adversarial": adversarial, "subnormal": subnormal}
    groups = {name: draw[name](case, rng, part.stop - part.start)
              for name, part in slices(case)}
    a, b = (np.concatenate([group[i] for group in groups.values()]) for i in range(2))
    if case.program == "fast_two_sum":
        swap = (a & 0x7FFF) < (b & 0x7FFF)
        a, b = np.where(swap, b, a), np.where(swap, a, b)
    return {"a": a, "b": b} | extra(case, rng, a, b)


def low_half(case, rng, high):
    """Returns numbers of at most half an ulp of those in `high`."""
    part = rng.uniform(-1, 1, high.shape) * 2.0 ** -(BITS[case.format].precision + 1)
    dtype = DTYPES[case.format]
    return (high.view(dtype) * part.astype(np.float32)).astype(dtype).view(np.uint16)


def extra(case, rng, a, b):
    """Returns the constant of Dekker's splitting, or the low halves of the factors."""
    if case.program == "two_prod_dekker":
        half = -(-BITS[case.format].precision // 2)
        return {"factor": np.array([2**half + 1], DTYPES[case.format]).view(np.uint16)}
    if case.program == "mul":
        return {"a2": low_half(case, rng, a), "b2": low_half(case, rng, b)}
    return {}


def sequence(case, rng):
    """Returns the initial value of a sum, and per step an addend far below half its ulp."""
    shape = (case.steps, case.size)
    if case.program == "kahan":
        x, a = rng.uniform(256, 512, case.size), rng.uniform(0, 0.02, shape)
    else:
        x, a = rng.standard_normal(case.size), rng.standard_normal(shape) * 1e-3
    dtype = DTYPES[case.format]
    return {"x": x.astype(dtype).view(np.uint16),
            "y": np.zeros(case.size, np.uint16), "a": a.astype(dtype).view(np.uint16)}


def planes(case):
    """Returns the inputs of a case: a, b and any further ones, or x, y and one row of a per
    step."""
    rng = np.random.default_rng([SEED, *case.name.encode()])
    return sequence(case, rng) if case.steps else pairs(case, rng)


def view(format, bits):
    """Views bits as an array of the format."""
    return bits.view(DTYPES[format])
