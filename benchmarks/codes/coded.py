#===- coded.py - Moments in a few bits -------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements codes of 2 to 8 bits and the scales of their groups in NumPy: functions that
# round an array to the numbers that a state would store.
#
#===----------------------------------------------------------------------===#
"""Implements codes: their numbers, their rounding, and the scales of groups.

A code is a rising list of magnitudes that ends with 1, the scale of its group. A signed code has a
sign, too. Between two numbers a curve gives the probability of the upper one. Rounding is piecewise
linear: a table says in which piece a magnitude lies.
"""

import pathlib
import sys
from dataclasses import dataclass

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "following"))
from dither import ELEMENT, words  # noqa: E402

#: The bits of the f32 numbers 2 and 1.
TWO, ONE = 0x40000000, 0x3F800000
#: The number of linear pieces of a curve between two numbers.
PIECES = 8
#: f32 bits are shifted by this to look up a piece: 512 places to an octave.
PLACE = 14
F32_BITS, F32_MANTISSA = 32, 23
#: The smallest normal f32.
LEAST = np.float32(2.0**-126)


#===------------------------------------------------------------------------===#
# Numbers
#===------------------------------------------------------------------------===#


def mulaw_sums(units: int, codes: int) -> np.ndarray:
    """Returns 2 + y of the codes 0 to `codes`, `units` of the last place of an f32 apart."""
    bits = TWO + units * np.arange(codes + 1, dtype=np.int64)
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def mulaw_numbers(units: int, codes: int) -> np.ndarray:
    sums = mulaw_sums(units, codes)
    return (sums - 2) / (sums[-1] - 2)


def smooth_numbers(shape: str, codes: int) -> np.ndarray:
    """Returns codes + 1 numbers of a shape: "mu255" is the mu-law for mu = 255."""
    y = np.arange(codes + 1) / codes
    if shape.startswith("mu"):
        mu = float(shape[2:])
        return np.expm1(y * np.log1p(mu)) / mu
    return {"linear": y, "root": y**2, "root3": y**3, "root4": y**4,
            "softsign": y / (2 - y)}[shape]


def float_numbers(exponent: int, mantissa: int) -> np.ndarray:
    """Returns the magnitudes of a float with these bits, subnormal ones first."""
    steps = 1 << mantissa
    codes = np.arange(1 << (exponent + mantissa))
    power, rest = codes // steps, codes % steps
    numbers = np.where(power == 0, rest / steps, 2.0 ** (power - 1) * (1 + rest / steps))
    return numbers / numbers[-1]


#: The magnitudes of the signed dynamic map of 4 bits. All except 1 have a negative, too.
DYNAMIC = np.array([0, 0.0055, 0.0325, 0.0775, 0.2125, 0.4375, 0.6625, 0.8875, 1])


#===------------------------------------------------------------------------===#
# Curves
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class Curve:
    """The probability of the upper of two numbers.

    It is linear in the `power` of the value, and in its logarithm for 0. With `largest`, the
    largest y of a mu-law code, it is linear in the bits of 2 + y instead. A probability f
    gets f (1 - f) (tilt + sharp (2 f - 1)) more.
    """

    power: float = 1.0
    largest: float = 0.0
    tilt: float = 0.0
    sharp: float = 0.0

    def _coordinate(self, z: np.ndarray) -> np.ndarray:
        if self.largest:
            return (2 + self.largest * z).astype(np.float32).view(np.int32).astype(np.float64)
        return np.log(z) if self.power == 0 else z**self.power

    def _places(self, low: float, high: float) -> np.ndarray:
        """Returns the ends of pieces, among them the bends of f32 bits."""
        if self == Curve():
            return np.array([low, high])
        z = np.linspace(low, high, PIECES + 1)
        if not self.largest:
            return z
        bends = (2.0 ** np.arange(2, 24) - 2) / self.largest
        return np.unique(np.concatenate([z, bends[(bends > low) & (bends < high)]]))

    def pieces(self, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns values from low to high, and the probabilities there."""
        z = self._places(low, high)
        # A logarithm has no coordinate for zero, which a code with a floor never rounds to.
        c = z if low == 0 and self.power <= 0 else self._coordinate(z)
        f = (c - c[0]) / (c[-1] - c[0])
        return z, f + f * (1 - f) * (self.tilt + self.sharp * (2 * f - 1))


#===------------------------------------------------------------------------===#
# Codes
#===------------------------------------------------------------------------===#


@dataclass
class Code:
    """A code of magnitudes; without a curve it rounds to nearest.

    With `floor`, no positive value becomes zero. `negative` is the largest rank of a negative
    number where it is not that of a positive one.
    """

    numbers: np.ndarray
    curve: Curve | None = Curve()
    is_signed: bool = False
    floor: bool = False
    negative: int | None = None

    def __post_init__(self):
        starts, slopes, offsets = [], [], []
        curve = self.curve or Curve()
        for rank, (low, high) in enumerate(zip(self.numbers, self.numbers[1:])):
            z, f = curve.pieces(low, high)
            slope = np.diff(f) / np.diff(z)
            starts.extend(z[:-1])
            slopes.extend(slope)
            offsets.extend(rank + f[:-1] - slope * z[:-1])
        self.values = self.numbers.astype(np.float32)
        self.slopes = np.array([*slopes, 0], np.float32)
        self.offsets = np.array([*offsets, len(self.values) - 1], np.float32)
        self.ends = np.array([*starts[1:], 1, 2], np.float32)
        edges = (np.arange((ONE >> PLACE) + 2, dtype=np.uint32) << PLACE).view(np.float32)
        place = np.searchsorted(np.array(starts, np.float32), edges, "right") - 1
        self.first = np.maximum(place, 0).astype(np.int16)

    @property
    def bits(self) -> int:
        """Bits of a number and its sign."""
        numbers = 2 * len(self.values) - 1 if self.is_signed else len(self.values)
        if self.negative is not None:
            numbers -= 1
        return int(np.ceil(np.log2(numbers)))

    def ranks(self, z: np.ndarray, random: np.ndarray) -> np.ndarray:
        """Returns the ranks of magnitudes from 0 to 1, given random numbers from 0 to 1."""
        piece = self.first.take(z.view(np.int32) >> PLACE)
        piece += z >= self.ends.take(piece)
        level = self.slopes.take(piece)
        level *= z
        level += self.offsets.take(piece)
        level += random if self.curve else np.float32(0.5)
        ranks = level.astype(np.int32)
        return np.clip(ranks, 0, len(self.values) - 1, out=ranks)


#===------------------------------------------------------------------------===#
# Scales
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class Scale:
    """The scales of groups of `group` elements.

    Of f32 bits, `mantissa` are kept. A scale with fewer than 8 bits of exponent is relative to an
    f32 for each `span` elements, or for the tensor if `span` is 0. `rounding` is "up", "nearest",
    "dither", or "floor", the rule of MXFP4, which saturates.
    """

    group: int
    mantissa: int = F32_MANTISSA
    exponent: int = 8
    span: int = 0
    rounding: str = "up"

    @property
    def bits(self) -> float:
        """Bits of scales for each element; plain floats have a sign bit."""
        own = self.exponent + self.mantissa + (self.mantissa in (7, F32_MANTISSA))
        return own / self.group + (F32_BITS / self.span if self.span else 0)

    def _cut(self, s: np.ndarray, random: np.ndarray | None) -> np.ndarray:
        if self.rounding == "floor":
            return np.float32(1.5) * (s.view(np.int32) & np.int32(0x7F800000)).view(np.float32)
        unit = 1 << (F32_MANTISSA - self.mantissa)
        addend = {"up": unit - 1, "nearest": unit // 2}.get(self.rounding)
        if addend is None:
            addend = (random.reshape(s.shape) * np.float32(unit)).astype(np.int32)
        return ((s.view(np.int32) + addend) & ~np.int32(unit - 1)).view(np.float32)

    def of(self, largest: np.ndarray, random: np.ndarray | None = None) -> np.ndarray:
        """Returns the scales for the largest magnitudes (tensor, group)."""
        if self.mantissa == F32_MANTISSA:
            return largest
        if self.exponent == 8:
            return self._cut(largest, random)
        groups = self.span // self.group if self.span else largest.shape[-1]
        parts = largest.reshape(-1, groups)
        top = parts.max(1, keepdims=True)
        share = self._cut(parts / np.where(top == 0, np.float32(1), top), random)
        least = np.float32(2.0 ** (1 - 2**self.exponent))
        return (np.maximum(share, least) * top).reshape(largest.shape)


#===------------------------------------------------------------------------===#
# Stored moments
#===------------------------------------------------------------------------===#


@dataclass
class Stored:
    """A moment in a code, with a scale for each group of consecutive elements."""

    code: Code
    scale: Scale

    @property
    def bits(self) -> float:
        """Bits for each element, with its share of scales."""
        return self.code.bits + self.scale.bits

    def _scales(self, magnitude: np.ndarray, random: np.ndarray | None) -> np.ndarray:
        """Returns a scale for each element, or one that broadcasts to it."""
        groups = magnitude.reshape(len(magnitude), -1, self.scale.group)
        return self.scale.of(groups.max(-1), random)[..., None]

    def __call__(self, x: np.ndarray, random: np.ndarray,
                 of_groups: np.ndarray | None = None) -> np.ndarray:
        """Rounds x (tensor, element) given random numbers for its elements and groups."""
        magnitude = np.abs(x) if self.code.is_signed else x
        s = self._scales(magnitude, of_groups)
        shape = (*s.shape[:-1], -1)
        inverse = np.float32(1) / np.maximum(s, LEAST)
        z = np.minimum(magnitude.reshape(shape) * inverse, np.float32(1))
        if self.code.floor:
            np.maximum(z, self.code.values[1] * (z > 0), out=z)
        found = self._rounded(z, np.signbit(x).reshape(z.shape), random.reshape(z.shape))
        return (found * s).reshape(x.shape)

    def _rounded(self, z: np.ndarray, negative: np.ndarray, random: np.ndarray) -> np.ndarray:
        if not self.code.is_signed:
            return self.code.values.take(self.code.ranks(z, random))
        # Both signs round towards positive infinity for the same bits.
        ranks = self.code.ranks(z, np.where(negative, np.float32(1) - random, random))
        if self.code.negative is not None:
            ranks = np.where(negative, np.minimum(ranks, self.code.negative), ranks)
        found = self.code.values.take(ranks)
        return np.negative(found, out=found, where=negative)


@dataclass
class RankOne(Stored):
    """A moment whose scale is the smaller of the largest of its row and that of its column."""

    columns: int = 64

    @property
    def bits(self) -> float:
        """Bits for each element of a square matrix."""
        return self.code.bits + 2 * F32_BITS / self.columns

    def _scales(self, magnitude: np.ndarray, random: np.ndarray | None) -> np.ndarray:
        matrices = magnitude.reshape(len(magnitude), -1, self.columns)
        scales = np.minimum(matrices.max(1, keepdims=True), matrices.max(2, keepdims=True))
        return scales.reshape(*magnitude.shape, 1)


class Dither:
    """The evenly spread random numbers of tensors at each step."""

    def __init__(self, seed: int, tensors: int, elements: np.ndarray, role: int, steps: int):
        self.element = (elements.astype(np.uint32) * np.uint32(ELEMENT))[None]
        self.words = np.stack([words(seed, tensor, role, np.arange(steps + 1))
                               for tensor in range(tensors)])

    def at(self, step: int) -> np.ndarray:
        """Returns numbers between 0 and 1, of 16 bits, as (tensor, element)."""
        high = (self.element + self.words[:, step, None]) >> np.uint32(16)
        return (high.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-16)
