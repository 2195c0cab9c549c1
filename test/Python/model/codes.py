#===- codes.py - Numbers of a few bits ---------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the codes of 8-bit strategies, including small floats of any widths.
#
#===----------------------------------------------------------------------===#
"""Implements codes of numbers up to a largest magnitude.

A code provides `planes` (suffix -> format, or "i8", "i16" and "i32" for other integers), `largest`,
`prepare` and `finish` (the map to the value that is scaled, and its inverse), and `encode` and
`decode` of scaled values. A code with a `range` has an exponent per group, in eighths. A code with
`uses_random` takes 16 bits per element, of the kind that its `rounding` names; `encode` and
`decode` of others ignore them. Dither bits are given as drawn: a code complements those of negative
numbers. `measure` is the magnitude from which a scale is computed.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from .arithmetic import Arithmetic
from .formats import (Format, decode, directed, encode, encode_magnitude,
                      encode_by_bits, lookup, round_magnitude)

_F32 = np.float32


#===----------------------------------------------------------------------===#
# Logarithm and power of two
#===----------------------------------------------------------------------===#


def _coefficients(*numbers):
    return [_F32(float.fromhex(x)) for x in numbers]


# log2(1 + f) / f and 2^f, with the coefficient of f^0 first.
_LOG2 = _coefficients("0x1.715476p+0", "-0x1.715470p-1", "0x1.ec73d6p-2",
                      "-0x1.715c4ep-2", "0x1.26d382p-2", "-0x1.e95c0ap-3",
                      "0x1.b9c962p-3", "-0x1.a87c2ep-3", "0x1.01b502p-3")
_EXP2 = _coefficients("0x1p+0", "0x1.62e430p-1", "0x1.ebfbd8p-3", "0x1.c6af76p-5",
                      "0x1.3b30a0p-7", "0x1.5f0b82p-10", "0x1.3fa208p-13")


def _fma(x, factor, addend):
    return Arithmetic("f32").fma(x, factor, addend)


def _polynomial(coefficients, f):
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = _fma(total, f, coefficient)
    return total


def f32_log2(x):
    """Returns the logarithm of a number without sign; for 0, it is -127."""
    bits = np.asarray(x, _F32).view(np.int32)
    exponent = (bits - np.int32(0x3F3504F3)) >> 23
    f = (bits - (exponent << 23)).view(_F32) - _F32(1)
    return exponent.astype(_F32) + f * _polynomial(_LOG2, f)


def f32_exp2(x):
    """Returns 2^x for x <= 0; numbers below -100 and NaNs count as -100."""
    x = np.fmax(np.asarray(x, _F32), _F32(-100))
    whole = np.rint(x)
    return np.ldexp(_polynomial(_EXP2, x - whole), whole.astype(np.int32))


#===----------------------------------------------------------------------===#
# Codes
#===----------------------------------------------------------------------===#


def _largest(format):
    fmt = lookup(format)
    return float(decode(format, np.array([fmt.largest], dtype=fmt.dtype))[0])


def _encode_saturating(format, y, finite, rounding="nearest", random=None):
    """Encodes; finite values saturate at the largest code."""
    limit = _F32(_largest(format))
    y = np.where(finite, np.clip(y, -limit, limit), y).astype(_F32)
    if rounding == "nearest":
        return encode(format, y)
    return encode_by_bits(format, y, rounding, random)


class Code:
    """The interface of codes, and their shared implementation."""

    planes = {"": "i8"}
    largest = 1.0
    # Smaller magnitudes have fewer digits than larger ones.
    small = 2.0**-7
    range = None
    rounding = "nearest"
    # The code of 0; the smallest positive number has the next code.
    zero = 0
    # The smallest magnitude of a positive number, if there is a minimum.
    least = None
    # Whether there is a NaN code; otherwise, the group's scale becomes NaN.
    has_nan = True
    # The number of neighbours in a row whose codes share a byte, the first in its lowest bits.
    packed = 1

    @property
    def uses_random(self):
        return self.rounding in ("stochastic", "dither")

    def prepare(self, x):
        return x

    def finish(self, x):
        return x

    @property
    def largest_negative(self):
        return self.largest

    def measure(self, x):
        return np.abs(x)

    def scaled(self, x, inverse):
        """Returns the value to encode for x."""
        return x * inverse

    def unscaled(self, number, scale):
        """Returns the decoded value, given the number that a code represents."""
        return number * scale

    def normalize(self, amax):
        """Returns a scale for the largest magnitude, before rounding to its type."""
        return amax / _F32(self.largest)


@dataclass(frozen=True)
class FloatCode(Code):
    """A small float."""

    format: str
    rounding: str = "nearest"

    @property
    def planes(self):
        return {"": self.format}

    @property
    def largest(self):
        return _largest(self.format)

    def encode(self, y, finite, exponent=None, random=None):
        return [_encode_saturating(self.format, y, finite, self.rounding, random)]

    def decode(self, codes, exponent=None):
        return decode(self.format, codes[0])


@dataclass(frozen=True)
class PairCode(Code):
    """The nearest small float, and another one for its rounding error."""

    format: str
    rounding: str = "nearest"

    @property
    def planes(self):
        return {"": self.format, ".lo": self.format}

    @property
    def least(self):
        """A smaller minimum would make a number equal to its negative."""
        fmt = lookup(self.format)
        return decode(self.format, np.array([1], fmt.dtype))[0]

    @property
    def largest(self):
        return _largest(self.format)

    def encode(self, y, finite, exponent=None, random=None):
        high = _encode_saturating(self.format, y, finite)
        value = decode(self.format, high)
        rest = np.where(np.isfinite(value), y - value, _F32(0)).astype(_F32)
        return [high, _encode_saturating(self.format, rest, finite, self.rounding, random)]

    def decode(self, codes, exponent=None):
        return decode(self.format, codes[0]) + decode(self.format, codes[1])


@dataclass(frozen=True)
class ExpandedCode(Code):
    """Encodes L |y|^k with k = exponent / 8; y is at most 1."""

    base: Code
    range: float

    @property
    def planes(self):
        return self.base.planes

    @property
    def rounding(self):
        return self.base.rounding

    @property
    def zero(self):
        return self.base.zero

    def _largest_of_sign(self, y):
        """Returns the largest magnitude of numbers with each sign."""
        return np.where(np.signbit(y), _F32(self.base.largest_negative),
                        _F32(self.base.largest))

    def choose_exponent(self, scale, least):
        """Returns the exponent of each group; `least` is 0 for groups without a number."""
        ratio = scale / least
        eighths = (_F32(8) * f32_log2(_F32(self.range))) / f32_log2(np.abs(ratio))
        # All powers of numbers up to 1 are in the range.
        eighths = np.where(ratio > 1, np.clip(np.floor(eighths), 8, 128), 128)
        return np.where(least == 0, 8, eighths).astype(np.uint8)

    def encode(self, y, finite, exponent=None, random=None):
        k = exponent.astype(_F32) / _F32(8)
        power = f32_exp2(k * f32_log2(np.fmin(np.abs(y), _F32(1))))
        payload = np.copysign(self._largest_of_sign(y) * power, y)
        return self.base.encode(np.where(finite & (y != 0), payload, y), finite, None, random)

    def decode(self, codes, exponent=None):
        q = self.base.decode(codes)
        fraction = f32_log2(np.abs(q)) - f32_log2(self._largest_of_sign(q))
        power = f32_exp2(fraction * (_F32(8) / exponent.astype(_F32)))
        return np.where(np.isfinite(q) & (q != 0), np.copysign(power, q), q)


@dataclass(frozen=True)
class SoftsignCode(Code):
    """127 * 2z / (1 + |z|) as an integer; -128 is NaN."""

    rounding: str = "nearest"

    def encode(self, y, finite, exponent=None, random=None):
        z = np.clip(y, _F32(-1), _F32(1))
        companded = (_F32(2) * z) / (_F32(1) + np.abs(z))
        level = np.abs(_F32(127) * companded)
        whole = round_magnitude(level, self.rounding, directed(self.rounding, random, y))
        whole = np.where(np.signbit(y), -whole, whole)
        return [np.where(finite, whole, -128).astype(np.int8).view(np.uint8)]

    def decode(self, codes, exponent=None):
        w = codes[0].view(np.int8).astype(_F32) / _F32(127)
        value = w / (_F32(2) - np.abs(w))
        return np.where(codes[0] == 0x80, _F32(np.nan), value)


@dataclass(frozen=True)
class LinearCode(Code):
    """An integer of 4 or 8 bits; the smallest is NaN."""

    size: int
    rounding: str = "nearest"

    small = 1.0

    @property
    def packed(self):
        return 8 // self.size

    @property
    def largest(self):
        return 2.0**(self.size - 1) - 1

    def encode(self, y, finite, exponent=None, random=None):
        level = np.clip(np.where(finite, np.abs(y), 0), 0, _F32(self.largest))
        whole = round_magnitude(level, self.rounding, directed(self.rounding, random, y))
        whole = np.where(np.signbit(y), -whole, whole)
        nan = -1 - self.largest
        return [np.where(finite, whole, nan).astype(np.int64).astype(np.uint8)
                & np.uint8(2**self.size - 1)]

    def decode(self, codes, exponent=None):
        sign = 2**(self.size - 1)
        number = ((codes[0].astype(np.int64) ^ sign) - sign).astype(_F32)
        return np.where(codes[0] == sign, _F32(np.nan), number)


@dataclass(frozen=True)
class RootCode(Code):
    """254 * z as an integer, z being the scaled root; 255 is NaN."""

    rounding: str = "nearest"

    def prepare(self, x):
        return np.sqrt(x)

    def finish(self, x):
        return x * x

    def encode(self, y, finite, exponent=None, random=None):
        level = _F32(254) * np.clip(y, _F32(0), _F32(1))
        whole = round_magnitude(level, self.rounding, random)
        return [np.where(finite, whole, 255).astype(np.uint8)]

    def decode(self, codes, exponent=None):
        value = codes[0].astype(_F32) / _F32(254)
        return np.where(codes[0] == 255, _F32(np.nan), value)


@dataclass(frozen=True)
class MuLawCode(Code):
    """The logarithm of 2 + |y| in one byte or half of one, linear between powers of two."""

    signed: bool
    rounding: str = "nearest"
    size: int = 8  #: the number of bits

    has_nan = False

    @property
    def packed(self):
        return 8 // self.size

    @property
    def _factor(self):
        """Returns the number of a word's units for a unit in the last place of 2 + |y|. A byte or
        half a byte is at the top of a word."""
        if self.size == 4:
            return 64 if self.signed else 32
        return 85 if self.signed else 45

    @property
    def _step(self):
        """Returns the distance of two codes in units in the last place."""
        return 2**(32 - self.size) // self._factor

    @property
    def _first(self):
        """Returns how many steps code 0 is above zero."""
        return int(self.size == 4 and not self.signed)

    @property
    def zero(self):
        return None if self._first else 0

    @property
    def _last(self):
        return (1 << self.size - self.signed) - 1

    def _number(self, q):
        """Returns the exact number of code q, some octaves above 2, less 2."""
        octaves = Fraction((q + self._first) * self._step, 2**23)
        return Fraction(2)**(1 + octaves // 1) * (1 + octaves % 1) - 2

    @cached_property
    def _numbers(self):
        return np.array([_F32(float(self._number(q))) for q in range(self._last + 1)])

    @property
    def largest(self):
        return float(self._numbers[-1])

    @property
    def least(self):
        return None if self._first else _F32(2) + self._numbers[1]

    def scaled(self, x, inverse):
        """Returns 2 plus |x| over the scale, rounded once, with the sign of x."""
        return np.copysign(_fma(np.abs(x), inverse, _F32(2)), x)

    def unscaled(self, number, scale):
        value = _fma(_F32(2) + np.abs(number), scale, _F32(-2) * scale)
        return np.where(np.signbit(number), -np.abs(value), value)

    def normalize(self, amax):
        return amax * _F32((1 + 2.0**-22) / self.largest)

    def measure(self, x):
        """Returns more than any number if x has no code."""
        lost = ~np.isfinite(x) | ((x < 0) & (not self.signed))
        return np.where(lost, _F32(np.inf), np.abs(x))

    def encode(self, y, finite, exponent=None, random=None):
        """Returns the number of codes up to |y|, at least 2. Its fraction has 16 bits, and is
        rounded down only after a factor that is not exact is made up for."""
        significand, power = np.frexp(np.abs(y))
        octaves = (power - 2) + (2 * significand.astype(np.float64) - 1)
        octaves = np.where(finite, np.nan_to_num(octaves), 0)
        octaves = np.maximum(octaves, self._first * self._step / 2**23)
        unit = 2**(32 - self.size)
        raised = octaves * 2**23 * self._factor
        if self._factor * self._step != unit:
            raised = raised + (unit / 2**16 - 1)
        bits = 0x8000 if self.rounding == "nearest" else random.astype(np.float64)
        if self._first:
            part = octaves % 1
            bits = bits + np.rint(2**14 * part * (1 - part))
        code = np.floor(raised / unit + bits / 2**16).astype(np.int64) - self._first
        code = code | np.where(np.signbit(y) & self.signed, self._last + 1, 0)
        return [np.where(finite, code, 0).astype(np.uint8)]

    def decode(self, codes, exponent=None):
        number = self._numbers[codes[0] & self._last]
        return np.where(codes[0] > self._last, -number, number)


#===----------------------------------------------------------------------===#
# The dynamic code
#===----------------------------------------------------------------------===#


def nearest_f32(x):
    """Rounds an exact positive number to the nearest f32."""
    near = _F32(float(x))
    around = [np.nextafter(near, _F32(end)) for end in (0, np.inf)]
    # Two candidates can be equally near only if the number has one more bit.
    return min([near, *around], key=lambda f: (abs(Fraction(float(f)) - x),
                                               int(f.view(np.uint32)) & 1))


# Exact powers of ten that scale each decade to 1.
_POWERS_OF_TEN = (10.0 ** np.arange(6, -1, -1)).astype(_F32)


@dataclass(frozen=True)
class DynamicCode(Code):
    """Decades of evenly spaced values, each with twice as many as the one below.

    Ranks count from the code of zero: decade i has `count(i)` of them. NaN takes a rank next to the
    largest magnitude, where numbers are most precise.
    """

    signed: bool
    rounding: str = "nearest"

    small = 1e-5

    def _peak(self, i):
        return Fraction(10)**(i - 6)

    def count(self, i):
        return 1 << (i if self.signed else i + 1)

    def exact(self, i, k):
        """Returns value k of decade i."""
        return self._peak(i) * (Fraction(1, 10) + Fraction(9, 10) * (
            k + Fraction(1, 2)) / self.count(i))

    @property
    def zero(self):
        return 127 if self.signed else 0

    @property
    def nan(self):
        """The code next to the outermost one: rank 126 below zero, or rank 254."""
        return 1 if self.signed else 254

    @property
    def largest_negative(self):
        return nearest_f32(self.exact(6, 63)) if self.signed else self.largest

    def measure(self, x):
        """Returns magnitudes, with negative numbers scaled so that their largest one is 1."""
        if not self.signed:
            return np.abs(x)
        stretched = np.abs(x) * (_F32(1) / self.largest_negative)
        return np.where(np.signbit(x) & np.isfinite(stretched), stretched, np.abs(x))

    @cached_property
    def _ends(self):
        """The magnitudes from which the next decade is nearer."""
        return np.array([nearest_f32(self._peak(i) * (1 + Fraction(9, 10) / self.count(i)))
                         for i in range(6)])

    @property
    def top(self):
        """The midpoint of 1 and the second-largest value."""
        return nearest_f32((1 + self.exact(6, self.count(6) - (1 if self.signed else 2))) / 2)

    @property
    def least(self):
        """The magnitude below which a value becomes zero."""
        return nearest_f32(self.exact(0, 0) / 2)

    def _rank(self, a):
        """Returns the nearest rank below that of 1, as if NaN's code were a value."""
        decade = np.sum(a[:, None] >= self._ends, axis=1)
        unit = a * _POWERS_OF_TEN[decade]
        place = _fma(unit, nearest_f32(Fraction(10, 9)), nearest_f32(Fraction(8, 9)))
        place = np.clip(np.nan_to_num(place), _F32(1), _F32(2 - 2.0**-23))
        rank = np.floor(place * self.count(decade).astype(_F32)).astype(np.int64)
        return rank if self.signed else rank - 1

    def _nearest(self, a, negative):
        """Returns the rank of a number, excluding NaN's and that of -1."""
        rank = self._rank(a)
        if self.signed:
            outer = np.where(a >= nearest_f32(self.exact(6, 62)), 127, 125)
            above = np.where(a >= self.top, 128, rank)
            rank = np.where(negative, np.where(rank >= 126, outer, rank), above)
        else:
            rank = np.where(a >= self.top, 255, np.minimum(rank, 253))
        return np.where(a < self.least, 0, rank)

    def _ends_of(self, decade, negative):
        """Returns the last rank of a decade that is a number's, the inverse of the gap to the
        next number in steps of the decade, and the largest level."""
        last = 2 * self.count(decade).astype(_F32) - _F32(1 if self.signed else 2)
        third = nearest_f32(Fraction(1, 3))
        if not self.signed:
            return (np.where(decade == 6, _F32(253), last),
                    np.where(decade == 6, nearest_f32(Fraction(2, 3)), third), _F32(254))
        outer = np.where(negative, _F32(0.5), _F32(2))
        return (np.where(negative & (decade == 6), _F32(125), last),
                np.where(decade == 6, outer, third), np.where(negative, _F32(126), _F32(128)))

    def _level(self, a, negative):
        """Returns the rank with its fraction, as if ranks outside NaN's were one lower."""
        firsts = [nearest_f32(self.exact(i, 0)) for i in range(7)]
        decade = np.maximum(np.sum(a[:, None] >= firsts, axis=1) - 1, 0)
        place = a * _POWERS_OF_TEN[decade]
        unit = _fma(place, nearest_f32(Fraction(10, 9)), nearest_f32(Fraction(8, 9)))
        level = _fma(unit, self.count(decade).astype(_F32),
                     _F32(-0.5 if self.signed else -1.5))
        last, factor, end = self._ends_of(decade, negative)
        beyond = np.minimum(_fma(level - last, factor, last), end)
        level = np.where(level > last, beyond, level)
        below = a * nearest_f32(1 / self.exact(0, 0))
        return np.where(a < firsts[0], below, level).astype(_F32)

    def _drawn(self, a, negative, random):
        """Returns the rank below or above, as given by bits."""
        rank = round_magnitude(self._level(a, negative), self.rounding, random)
        if self.signed:
            return np.where(negative & (rank == 126), 127, rank)
        return np.where(rank == 254, 255, rank)

    def encode(self, y, finite, exponent=None, random=None):
        a, negative = np.abs(y), np.signbit(y)
        if self.uses_random:
            rank = self._drawn(a, negative, directed(self.rounding, random, y))
        else:
            rank = self._nearest(a, negative)
        code = self.zero + np.where(negative, -rank, rank)
        lost = ~finite | ((y < 0) & (not self.signed))
        return [np.where(lost, self.nan, code).astype(np.uint8)]

    def decode(self, codes, exponent=None):
        offset = codes[0].astype(np.int64) - self.zero
        rank = np.abs(offset) + (not self.signed)
        # Ranks are offset by the number of values in their decade.
        significand, power = np.frexp(np.maximum(rank, 1).astype(_F32))
        count = np.ldexp(_F32(1), power - 1)
        place = 2 * significand - _F32(1) + _F32(0.5) / count
        decade = np.clip(power - 1 - (not self.signed), 0, 6)
        value = _fma(place, nearest_f32(Fraction(9, 10)), nearest_f32(Fraction(1, 10)))
        value = value * np.array([nearest_f32(self._peak(i)) for i in range(7)])[decade]
        value = np.where(np.abs(offset) == (128 if self.signed else 255), _F32(1), value)
        value = np.where(offset == 0, _F32(0), np.where(offset < 0, -value, value))
        return np.where(codes[0] == self.nan, _F32(np.nan), value)


#===----------------------------------------------------------------------===#
# Small floats of any widths
#===----------------------------------------------------------------------===#


@dataclass(frozen=True)
class MinifloatCode(Code):
    """A small float as data; `exponents` are those of representable magnitudes."""

    exponent: int
    mantissa: int
    bias: int | None = None
    specials: str = "nan"
    rounding: str = "nearest"
    exponents: tuple | None = None

    @property
    def format(self):
        return Format(f"E{self.exponent}M{self.mantissa}", self.exponent, self.mantissa,
                      self.specials, self.bias)

    @property
    def planes(self):
        return {"": f"i{8 * self.format.dtype.itemsize}"}

    @property
    def packed(self):
        return 2 if self.exponent + self.mantissa < 4 else 1

    @property
    def _raised(self):
        """The exponent to which smaller magnitudes are raised; None if subnormal numbers are
        kept."""
        own = self.format.min_exponent
        return self.exponents[0] if self.exponents and self.exponents[0] != own else None

    @property
    def least(self):
        return None if self._raised is None else _F32(2.0**self._raised)

    @property
    def largest(self):
        largest = _largest(self.format)
        if not self.exponents:
            return largest
        return min(largest, (2 - 2.0**-self.mantissa) * 2.0**self.exponents[1])

    @property
    def small(self):
        return 2.0**(self.format.min_exponent if self._raised is None else self._raised)

    def _magnitude(self, y):
        a = np.minimum(np.abs(y), _F32(self.largest))
        if self.least is not None:
            a = np.where((a > 0) & (a < self.least), self.least, a)
        return a

    def _special(self, y):
        """Returns the codes of nonfinite values, without the sign."""
        fmt = self.format
        if self.specials == "none":
            return encode_magnitude(fmt, np.full_like(y, self.largest), "nearest")
        return np.where(np.isnan(y), fmt.canonical_nan, fmt.overflow)

    def encode(self, y, finite, exponent=None, random=None):
        fmt = self.format
        a = self._magnitude(np.where(finite, y, _F32(0)))
        random = directed(self.rounding, random, y)
        code = np.where(finite, encode_magnitude(fmt, a, self.rounding, random),
                        self._special(y))
        keeps = {"ieee": finite | np.isinf(y), "none": finite | np.isinf(y),
                 "nan": finite, "negative_zero": finite & (code != 0)}
        signed = np.signbit(y) & keeps[self.specials]
        return [np.where(signed, code | fmt.sign_bit, code).astype(fmt.dtype)]

    def decode(self, codes, exponent=None):
        return decode(self.format, codes[0])
