#===- formats.py - Narrow floating-point formats ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements rounding to and decoding from storage formats, with integer operations on the
# bits of float32 or float64 values.
#
#===----------------------------------------------------------------------===#
"""Defines narrow formats as data: rounding to nearest or by 16 given bits, and decoding."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary format, fully defined by these fields.

    `specials`: "ieee" has infinities and NaNs, "nan" a NaN of all ones and no infinity,
    "negative_zero" a NaN in place of -0, "none" only numbers.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    specials: str = "ieee"
    own_bias: int | None = None

    @property
    def bits(self):
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def precision(self):
        return self.mantissa_bits + 1

    @property
    def bias(self):
        usual = (1 << (self.exponent_bits - 1)) - 1
        return usual if self.own_bias is None else self.own_bias

    @property
    def min_exponent(self):
        return 1 - self.bias

    @property
    def sign_bit(self):
        return 1 << (self.bits - 1)

    @property
    def has_infinity(self):
        return self.specials == "ieee"

    @property
    def infinity(self):
        """The code of +Inf, or the exponent's last binade if there is none."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def canonical_nan(self):
        """The code of every NaN, or of the largest number if there is none."""
        return self.sign_bit - (self.specials != "negative_zero")

    @property
    def overflow(self):
        """The code of magnitudes beyond the largest finite one, if it is not a number."""
        return self.infinity if self.has_infinity else self.canonical_nan

    @property
    def largest(self):
        """The code of the largest finite magnitude."""
        return self.sign_bit - 1 if self.specials in ("negative_zero", "none") else (
            self.overflow - 1)

    @property
    def dtype(self):
        """The unsigned type that carries the format's bits."""
        return np.dtype(np.uint8 if self.bits <= 8 else
                        np.uint16 if self.bits <= 16 else np.uint32)


FORMATS = {
    f.name: f
    for f in (
        Format("bf16", 8, 7),
        Format("f16", 5, 10),
        Format("f32", 8, 23),
        Format("f8E4M3FN", 4, 3, "nan"),
        Format("f8E5M2", 5, 2),
    )
}


def lookup(name):
    """Returns the format called `name`, which may already be a format."""
    if isinstance(name, Format):
        return name
    if name not in FORMATS:
        raise ValueError(f"unknown format '{name}': use one of {', '.join(FORMATS)}")
    return FORMATS[name]


#===----------------------------------------------------------------------===#
# Encoding
#===----------------------------------------------------------------------===#

# Carrier type -> (unsigned bits, mantissa bits, exponent bias).
_CARRIERS = {
    np.dtype(np.float32): (np.uint32, 23, 127),
    np.dtype(np.float64): (np.uint64, 52, 1023),
}


@dataclass
class _Cut:
    """|x| = (kept + rest * 2^-shift) units in the last place of a format.

    `base` is the exponent's contribution to the code. Codes are monotonic, so a carry from rounding
    up into the exponent needs no special case.
    """

    negative: np.ndarray
    nan: np.ndarray
    base: np.ndarray
    kept: np.ndarray
    rest: np.ndarray
    shift: np.ndarray


def _cut(fmt, x, max_shift):
    unsigned, mantissa_bits, bias = _CARRIERS[x.dtype]
    total_bits = 8 * x.dtype.itemsize
    bits = x.view(unsigned).astype(np.int64)
    magnitude = bits & np.int64((1 << (total_bits - 1)) - 1)
    field = magnitude >> mantissa_bits
    fraction = magnitude & np.int64((1 << mantissa_bits) - 1)
    significand = fraction | ((field != 0).astype(np.int64) << mantissa_bits)
    exponent = np.maximum(field, 1) - bias
    quantum = np.maximum(exponent, fmt.min_exponent)
    shift = (mantissa_bits - fmt.mantissa_bits) + (quantum - exponent)
    # Beyond max_shift, no bits are kept, and the rest is far below one half.
    shift = np.minimum(shift, max_shift)
    kept = significand >> shift
    return _Cut(
        negative=((bits >> (total_bits - 1)) & 1).astype(bool),
        nan=magnitude > np.int64(((1 << (total_bits - 1)) - (1 << mantissa_bits))),
        base=(quantum - fmt.min_exponent) << fmt.mantissa_bits,
        kept=kept,
        rest=significand - (kept << shift),
        shift=shift,
    )


def _finish(fmt, cut, round_up):
    code = cut.base + cut.kept + round_up
    code = np.where(code > fmt.largest, fmt.overflow, code)
    code = np.where(cut.negative, code | fmt.sign_bit, code)
    # A format without infinities overflows to the canonical NaN; if a format has them, no finite
    # value has this code.
    nan = cut.nan | ((code & ~fmt.sign_bit) == fmt.canonical_nan)
    return np.where(nan, fmt.canonical_nan, code).astype(fmt.dtype)


def _as_carrier(x):
    x = np.asarray(x)
    if x.dtype not in _CARRIERS:
        raise TypeError(f"cannot round {x.dtype}: pass float32 or float64")
    return np.asarray(x, order="C")


def _encode_f32_bits(fmt, x):
    return np.where(np.isnan(x), np.uint32(fmt.canonical_nan), x.view(np.uint32))


def _encode_bf16_from_f32(fmt, x):
    """Rounds by carries: bf16 is the upper half of f32, also for subnormals."""
    bits = x.view(np.uint32)
    carry = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    code = ((bits + carry) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(fmt.canonical_nan), code)


def encode_general(name, x):
    """Implements encode() for every format and carrier."""
    fmt, x = lookup(name), _as_carrier(x)
    cut = _cut(fmt, x, max_shift=60 if x.dtype == np.float64 else 40)
    half = np.int64(1) << (cut.shift - 1)
    odd = (cut.kept & 1).astype(bool)
    return _finish(fmt, cut, (cut.rest > half) | ((cut.rest == half) & odd))


def encode(name, x):
    """Rounds float32 or float64 values once to the nearest code, ties to even.

    Underflow is gradual and NaN is canonical. Values beyond the largest finite one become infinity,
    or NaN in a format without infinity.
    """
    fmt, x = lookup(name), _as_carrier(x)
    if x.dtype == np.float32 and name == "f32":
        return _encode_f32_bits(fmt, x)
    if x.dtype == np.float32 and name == "bf16":
        return _encode_bf16_from_f32(fmt, x)
    return encode_general(name, x)


def directed(rounding, random, x):
    """Returns the bits for rounding magnitudes of float32 values. Dither bits are complemented
    for negative values, so that both signs round in the same direction."""
    if rounding != "dither":
        return random
    return np.where(np.signbit(x), np.uint16(0xFFFF) - random, random)


def _rounds_up(cut, rounding, random):
    """Returns whether the truncated fraction plus the 16 bits carries. Dither rounds the
    fraction to 16 bits; stochastic rounding truncates it."""
    half = np.int64(rounding == "dither") << cut.shift
    fraction = ((cut.rest << 17) + half) >> (cut.shift + 1)
    return fraction + random.astype(np.int64) >= 1 << 16


def encode_magnitude(fmt, a, rounding, random=None):
    """Returns the codes of float32 magnitudes up to the largest number of a format. Random bits
    must already be `directed`."""
    cut = _cut(fmt, _as_carrier(a), max_shift=60)
    if rounding in ("stochastic", "dither"):
        up = _rounds_up(cut, rounding, random)
    else:
        half = np.int64(1) << (cut.shift - 1)
        odd = ((cut.base + cut.kept) & 1) == 1
        up = (rounding == "nearest") & (
            (cut.rest > half) | ((cut.rest == half) & odd))
    return (cut.base + cut.kept + up).astype(fmt.dtype)


def encode_by_bits(name, x, rounding, random):
    """Rounds float32 values to one of the two neighbouring numbers, by 16 bits each.

    "stochastic" rounds away from zero iff floor(f * 2^16) + random >= 2^16, where f is the fraction
    of an ulp that truncation would drop. "dither" does iff floor(f * 2^16 + 1/2) plus the bits,
    complemented for negative values, reaches 2^16.
    """
    fmt, x = lookup(name), _as_carrier(x)
    if x.dtype != np.float32 or name == "f32":
        raise TypeError(f"cannot round {x.dtype} to {name} by bits: "
                        "pass float32 values and a narrower format")
    cut = _cut(fmt, x, max_shift=60)
    return _finish(fmt, cut, _rounds_up(cut, rounding, directed(rounding, random, x)))


def round_magnitude(a, rounding, random=None):
    """Rounds float32 magnitudes to integers, by `directed` bits or to nearest, ties to even.
    Nonfinite magnitudes count as 0."""
    a = np.nan_to_num(a, posinf=0)
    if rounding == "nearest":
        return np.rint(a).astype(np.int64)
    # This is an fma: the sum is exact in float64.
    units = (a.astype(np.float64) * 65536 + 0.5).astype(np.float32)
    return (np.floor(units).astype(np.int64) + random) >> 16


def raise_zeros(codes, positive, zero=0):
    """Returns the codes of each plane, with the smallest positive number's code where a positive
    value has become zero in all planes."""
    lost = np.logical_and.reduce([positive, *[c == zero for c in codes]])
    return [*codes[:-1], np.where(lost, codes[-1].dtype.type(zero + 1), codes[-1])]


#===----------------------------------------------------------------------===#
# Decoding
#===----------------------------------------------------------------------===#


def _values(fmt, codes):
    """Returns the float32 values of codes, given as int64."""
    magnitude = codes & ~fmt.sign_bit
    field = magnitude >> fmt.mantissa_bits
    fraction = magnitude & ((1 << fmt.mantissa_bits) - 1)
    significand = fraction + np.where(field > 0, 1 << fmt.mantissa_bits, 0)
    scale = np.maximum(field, 1) - fmt.bias - fmt.mantissa_bits
    value = np.ldexp(significand.astype(np.float64), scale)
    value[magnitude > fmt.largest] = np.nan
    if fmt.has_infinity:
        value[magnitude == fmt.infinity] = np.inf
    if fmt.specials == "negative_zero":
        value[codes == fmt.sign_bit] = np.nan
    with np.errstate(invalid="ignore"):
        return np.where(codes & fmt.sign_bit, -value, value).astype(np.float32)


@lru_cache(maxsize=None)
def _table(name):
    """Returns the float32 value of every code of a format of at most 16 bits."""
    fmt = lookup(name)
    return _values(fmt, np.arange(1 << fmt.bits, dtype=np.int64))


def decode(name, codes):
    """Returns the float32 values of codes, exactly for every format here. Bits beyond a format's
    width are ignored."""
    fmt, codes = lookup(name), np.asarray(codes)
    if codes.dtype != fmt.dtype:
        raise TypeError(f"{name} codes are {fmt.dtype}, not {codes.dtype}")
    if name == "f32":
        return np.ascontiguousarray(codes).view(np.float32).copy()
    codes = codes & ((1 << fmt.bits) - 1)
    return _table(name)[codes] if fmt.bits <= 16 else _values(fmt, codes.astype(np.int64))


def round_to(name, x):
    """Returns fl(x): the nearest value of a format, as float32."""
    x = np.asarray(x)
    if name == "f32":
        return x.astype(np.float32)
    return decode(name, encode(name, x))
