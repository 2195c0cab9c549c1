#===- scaled.py - Codes of a few bits and a scale for many -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the storages of 8-bit strategies: codes that share a scale
# in groups of elements, and a float with a residual in fractions of its ulp.
#
#===----------------------------------------------------------------------===#
"""Codes, scales and the storages made of them.

A code answers: `planes` (suffix -> format, or "i8" for what is no float),
`largest`, `prepare` and `finish` (what is scaled in place of the value, and
back), `encode` and `decode` of scaled values. A code with a `range` has an
exponent for each group, in eighths; `encode` and `decode` of others ignore it.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import floor, log2

import numpy as np

from .arithmetic import Arithmetic
from .formats import FORMATS, decode, encode, lookup, round_to
from .storage import Storage, format_range

_F32 = np.float32
# The group of a scale that all elements of a tensor share.
WHOLE = 1 << 62


def _dtype(format):
    """The unsigned type that holds a plane's entries."""
    raw = {"i8": np.uint8, "i16": np.uint16, "f8E8M0FNU": np.uint8}
    return np.dtype(raw[format]) if format in raw else lookup(format).dtype


def _signed(codes):
    """Raw bits as the two's complement integers they are, in float32."""
    return codes.view({1: np.int8, 2: np.int16}[codes.itemsize]).astype(_F32)


#===----------------------------------------------------------------------===#
# Logarithm and power of two
#===----------------------------------------------------------------------===#


def _coefficients(*numbers):
    return [_F32(float.fromhex(x)) for x in numbers]


# log2(1 + f) / f and 2^f, the coefficient of f^0 first.
_LOG2 = _coefficients("0x1.715476p+0", "-0x1.715470p-1", "0x1.ec73d6p-2",
                      "-0x1.715c4ep-2", "0x1.26d382p-2", "-0x1.e95c0ap-3",
                      "0x1.b9c962p-3", "-0x1.a87c2ep-3", "0x1.01b502p-3")
_EXP2 = _coefficients("0x1p+0", "0x1.62e430p-1", "0x1.ebfbd8p-3", "0x1.c6af76p-5",
                      "0x1.3b30a0p-7", "0x1.5f0b82p-10", "0x1.3fa208p-13")


def _polynomial(coefficients, f):
    fma, total = Arithmetic("f32").fma, coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = fma(total, f, coefficient)
    return total


def f32_log2(x):
    """The logarithm of what has no negative sign; of 0 it is -127."""
    bits = np.asarray(x, _F32).view(np.int32)
    exponent = (bits - np.int32(0x3F3504F3)) >> 23
    f = (bits - (exponent << 23)).view(_F32) - _F32(1)
    return exponent.astype(_F32) + f * _polynomial(_LOG2, f)


def f32_exp2(x):
    """2^x of x <= 0; what is below -100 counts as -100, and so does a NaN."""
    x = np.fmax(np.asarray(x, _F32), _F32(-100))
    whole = np.rint(x)
    return np.ldexp(_polynomial(_EXP2, x - whole), whole.astype(np.int32))


#===----------------------------------------------------------------------===#
# Codes
#===----------------------------------------------------------------------===#


def _largest(format):
    fmt = lookup(format)
    return float(decode(format, np.array([fmt.largest], dtype=fmt.dtype))[0])


def _encode_saturating(format, y, finite):
    """Nearest codes; what came from a finite value stops at the largest one."""
    limit = _F32(_largest(format))
    return encode(format, np.where(finite, np.clip(y, -limit, limit), y).astype(_F32))


class Code:
    """What the codes share."""

    planes = {"": "i8"}
    largest = 1.0
    range = None

    def prepare(self, x):
        return x

    def finish(self, x):
        return x


@dataclass(frozen=True)
class FloatCode(Code):
    """A small float."""

    format: str

    @property
    def planes(self):
        return {"": self.format}

    @property
    def largest(self):
        return _largest(self.format)

    def encode(self, y, finite, exponent):
        return [_encode_saturating(self.format, y, finite)]

    def decode(self, codes, exponent):
        return decode(self.format, codes[0])


@dataclass(frozen=True)
class PairCode(Code):
    """A small float and another for what it leaves."""

    format: str

    @property
    def planes(self):
        return {"": self.format, ".lo": self.format}

    @property
    def largest(self):
        return _largest(self.format)

    def encode(self, y, finite, exponent):
        high = _encode_saturating(self.format, y, finite)
        value = decode(self.format, high)
        rest = np.where(np.isfinite(value), y - value, _F32(0)).astype(_F32)
        return [high, _encode_saturating(self.format, rest, finite)]

    def decode(self, codes, exponent):
        return decode(self.format, codes[0]) + decode(self.format, codes[1])


@dataclass(frozen=True)
class ExpandedCode(Code):
    """A small float of |y|^k, k = exponent / 8; y is at most 1."""

    format: str
    range: float

    @property
    def planes(self):
        return {"": self.format}

    def choose_exponent(self, scale, least):
        """The exponent of each group; `least` is 0 where it has no number."""
        ratio = scale / least
        eighths = (_F32(8) * f32_log2(_F32(self.range))) / f32_log2(np.abs(ratio))
        # All powers of what does not exceed 1 lie in the range.
        eighths = np.where(ratio > 1, np.clip(np.floor(eighths), 8, 128), 128)
        return np.where(least == 0, 8, eighths).astype(np.uint8)

    def encode(self, y, finite, exponent):
        k = exponent.astype(_F32) / _F32(8)
        power = f32_exp2(k * f32_log2(np.fmin(np.abs(y), _F32(1))))
        payload = np.copysign(_F32(_largest(self.format)) * power, y)
        return [_encode_saturating(self.format, np.where(finite, payload, y), finite)]

    def decode(self, codes, exponent):
        q = decode(self.format, codes[0])
        fraction = f32_log2(np.abs(q)) - f32_log2(_F32(_largest(self.format)))
        power = f32_exp2(fraction * (_F32(8) / exponent.astype(_F32)))
        return np.where(np.isfinite(q) & (q != 0), np.copysign(power, q), q)


@dataclass(frozen=True)
class SoftsignCode(Code):
    """127 * 2z / (1 + |z|) as an integer; -128 is NaN."""

    def encode(self, y, finite, exponent):
        z = np.clip(y, _F32(-1), _F32(1))
        companded = (_F32(2) * z) / (_F32(1) + np.abs(z))
        whole = np.rint(_F32(127) * companded)
        return [np.where(finite, whole, -128).astype(np.int8).view(np.uint8)]

    def decode(self, codes, exponent):
        w = _signed(codes[0]) / _F32(127)
        value = w / (_F32(2) - np.abs(w))
        return np.where(codes[0] == 0x80, _F32(np.nan), value)


@dataclass(frozen=True)
class RootCode(Code):
    """254 * z as an integer, z being the scaled root; 255 is NaN."""

    def prepare(self, x):
        return np.sqrt(x)

    def finish(self, x):
        return x * x

    def encode(self, y, finite, exponent):
        whole = np.rint(_F32(254) * np.clip(y, _F32(0), _F32(1)))
        return [np.where(finite, whole, 255).astype(np.uint8)]

    def decode(self, codes, exponent):
        value = codes[0].astype(_F32) / _F32(254)
        return np.where(codes[0] == 255, _F32(np.nan), value)


#===----------------------------------------------------------------------===#
# Scales
#===----------------------------------------------------------------------===#


def decode_scale(type, codes):
    """The float32 values of scales: E8M0 is a biased exponent, 255 is NaN."""
    if type != "f8E8M0FNU":
        return decode(type, codes)
    value = np.ldexp(1.0, codes.astype(np.int32) - 127)
    return np.where(codes == 255, np.nan, value).astype(_F32)


def encode_scale(type, values):
    """The codes of values that the type has."""
    if type != "f8E8M0FNU":
        return encode(type, values)
    return (np.frexp(values)[1] + 126).astype(np.uint8)


def scale_range(type, largest):
    """The least and the largest scale, by its type and the code's range."""
    low, high = 2.0**-126, 2.0**(127 - floor(log2(largest)))
    return (2.0**-24, 65504.0) if type == "f16" else (low, high)


@lru_cache(maxsize=None)
def _scales(type, recipe, largest):
    """All scales there may be, ascending, in float64; none for all of f32."""
    low, high = scale_range(type, largest)
    if recipe == "current" and type == "f32":
        return None
    if recipe == "current":
        fmt = lookup(type)
        every = decode(type, np.arange(1, fmt.largest + 1, dtype=fmt.dtype))
    else:
        every = np.ldexp(1.0, np.arange(-127, 128))
    every = every.astype(np.float64)
    return every[(every >= low) & (every <= high)]


def choose_scale(amax, code, type, recipe):
    """The scale of each group from its largest finite magnitude."""
    largest, scales = code.largest, _scales(type, recipe, code.largest)
    if recipe == "mx_floor":
        # frexp counts from [1/2, 1), so that exponents are one too large.
        exponent = np.frexp(amax)[1] - 1 - floor(log2(largest))
        wanted = np.ldexp(1.0, np.maximum(exponent, -1000))
    else:
        wanted = (amax / _F32(largest)).astype(np.float64)
    if scales is None:
        chosen = np.clip(wanted, *scale_range(type, largest))
    else:
        chosen = scales[np.minimum(np.searchsorted(scales, wanted), len(scales) - 1)]
    return np.where(amax == 0, 1.0, chosen).astype(_F32)


#===----------------------------------------------------------------------===#
# Storages
#===----------------------------------------------------------------------===#


def _check_first(name, first, group):
    if first and group == WHOLE:
        raise ValueError(f"'{name}' begins at element {first}, but a whole tensor shares "
                         "its scale: pass the unsharded tensor")
    if first % group:
        raise ValueError(f"'{name}' begins at element {first}, inside a group of "
                         f"{group}: cut at a multiple of it")


@dataclass(frozen=True)
class Scaled(Storage):
    """Codes, and a scale for each `group` consecutive elements, or WHOLE for all."""

    code: Code
    group: int
    scale: str
    recipe: str = "current"

    def planes(self, name):
        formats = self.code.planes | {".scale": self.scale}
        if self.code.range:
            formats |= {".exponent": "i8"}
        return {name + s: _dtype(f) for s, f in formats.items()}

    def plane_groups(self, name):
        return {p: self.group if p.endswith((".scale", ".exponent")) else 1
                for p in self.planes(name)}

    def range(self):
        """Magnitudes around which scales leave their range."""
        low, high = scale_range(self.scale, self.code.largest)
        ends = np.array([high * self.code.largest, low * self.code.largest])
        high, low = self.code.finish(ends)
        return min(high, float(np.finfo(_F32).max)), low

    def _spread(self, per_group, size):
        return np.repeat(per_group, min(self.group, size))[:size]

    def decode(self, planes, name):
        codes = [planes[name + s] for s in self.code.planes]
        scale = decode_scale(self.scale, planes[name + ".scale"])
        with np.errstate(all="ignore"):
            exponent = self._exponents(planes, name, len(codes[0]))
            value = self.code.decode(codes, exponent) * self._spread(
                scale, len(codes[0]))
            return self.code.finish(value.astype(_F32))

    def _exponents(self, planes, name, size):
        """The exponent of each element; none for codes without one."""
        if not self.code.range:
            return None
        return self._spread(planes[name + ".exponent"], size)

    def _magnitudes(self, x):
        """The magnitudes of each group in a row; 0 where there is no number."""
        group = min(self.group, max(len(x), 1))
        magnitude = np.where(np.isfinite(x), np.abs(x), _F32(0))
        padding = np.zeros(-len(x) % group, dtype=_F32)
        return np.concatenate([magnitude, padding]).reshape(-1, group)

    def _least_magnitudes(self, x):
        """The smallest magnitude of each group but 0; 0 where there is none."""
        magnitude = self._magnitudes(x)
        least = np.where(magnitude == 0, _F32(np.inf), magnitude).min(1)
        return np.where(np.isinf(least), _F32(0), least)

    def encode(self, name, x, draw):
        _check_first(name, draw.first, self.group)
        with np.errstate(all="ignore"):
            prepared = self.code.prepare(x)
            amax = self._magnitudes(prepared).max(1)
            scale = choose_scale(amax, self.code, self.scale, self.recipe)
            inverse = self._spread(_F32(1) / scale, len(x))
            shared = {name + ".scale": encode_scale(self.scale, scale)}
            if self.code.range:
                shared[name + ".exponent"] = self.code.choose_exponent(
                    scale, self._least_magnitudes(x))
            codes = self.code.encode(prepared * inverse, np.isfinite(prepared),
                                     self._exponents(shared, name, len(x)))
        return {name + s: c for s, c in zip(self.code.planes, codes)} | shared

    def components(self, planes, name):
        return [self.decode(planes, name).astype(np.float64)]


@dataclass(frozen=True)
class Residual(Storage):
    """A rounded value and what it leaves, in fractions of half its ulp."""

    format: str
    residual: str

    @property
    def _levels(self):
        return _F32({"i8": 127, "i16": 32767}[self.residual])

    def planes(self, name):
        return {name: _dtype(self.format), name + ".residual": _dtype(self.residual)}

    def range(self):
        return format_range(self.format)

    def _half_ulp(self, high):
        """Half a unit in the last place; of what is not finite, any number."""
        fmt = FORMATS[self.format]
        exponent = np.frexp(np.where(np.isfinite(high), high, _F32(1)))[1] - 1
        exponent = np.where(high == 0, fmt.min_exponent, exponent)
        exponent = np.maximum(exponent, fmt.min_exponent)
        return np.ldexp(_F32(1), exponent - fmt.precision)

    def decode(self, planes, name):
        high = decode(self.format, planes[name])
        fraction = _signed(planes[name + ".residual"]) / self._levels
        with np.errstate(all="ignore"):
            return high + fraction * self._half_ulp(high)

    def encode(self, name, x, draw):
        high = round_to(self.format, x)
        with np.errstate(all="ignore"):
            fraction = (x - high) / self._half_ulp(high)
            whole = np.rint(fraction * self._levels)
        whole = np.where(np.isfinite(high), whole, 0)
        dtype = _dtype(self.residual)
        return {name: encode(self.format, x), name + ".residual":
                whole.astype(np.int32).astype(dtype)}

    def components(self, planes, name):
        return [self.decode(planes, name).astype(np.float64)]
