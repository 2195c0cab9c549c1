#===- scaled.py - Codes of a few bits and a scale for many -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the storages of 8-bit strategies: codes that share a scale in groups of
# elements, codes without a scale, and a float with a residual in fractions of its ulp.
#
#===----------------------------------------------------------------------===#
"""Implements scales, and the storages of codes."""

from dataclasses import dataclass
from functools import lru_cache
from math import floor, log2

import numpy as np

from .codes import Code
from .formats import (FORMATS, decode, directed, encode, lookup, round_magnitude,
                      round_to)
from .storage import smallest, Storage, format_range

_F32 = np.float32
# The group of a scale shared by all elements of a tensor.
WHOLE = 1 << 62
# The group of a scale shared by the elements of a row.
ROW = 1 << 61
# The largest number of f8E4M3FN.
_MOST = _F32(448)


def _dtype(format):
    """Returns the unsigned dtype of a plane's entries."""
    raw = {"i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "f8E8M0FNU": np.uint8}
    return np.dtype(raw[format]) if format in raw else lookup(format).dtype


def _signed(codes):
    """Interprets raw bits as two's complement integers, in float32."""
    return codes.view({1: np.int8, 2: np.int16}[codes.itemsize]).astype(_F32)


#===----------------------------------------------------------------------===#
# Scales
#===----------------------------------------------------------------------===#


def decode_scale(type, codes):
    """Returns the float32 values of scales; E8M0 is a biased exponent, with 255 for NaN."""
    if type != "f8E8M0FNU":
        return decode(type, codes)
    value = np.ldexp(1.0, codes.astype(np.int32) - 127)
    return np.where(codes == 255, np.nan, value).astype(_F32)


def encode_scale(type, values):
    """Returns the codes of values that are representable in the type."""
    if type != "f8E8M0FNU":
        return encode(type, values)
    exponent = np.frexp(values)[1] + 126
    return np.where(np.isnan(values), 255, exponent).astype(np.uint8)


def scale_range(type, largest):
    """Returns the smallest and largest scale, given by its type and the code's range."""
    low, high = 2.0**-126, 2.0**(127 - floor(log2(largest)))
    if type == "f16":
        return 2.0**-24, min(high, 65504.0)
    return low, min(high, float(np.finfo(_F32).max))


@lru_cache(maxsize=None)
def _powers(type, largest):
    """Returns all powers of two that a scale may have, in ascending order."""
    low, high = scale_range(type, largest)
    every = np.ldexp(1.0, np.arange(-127, 128))
    return every[(every >= low) & (every <= high)]


def _narrow_scale(wanted, type, code):
    """Returns the nearest scale, ties to even; for codes that round by bits, the next larger
    one. Values outside the range become its ends."""
    low, high = scale_range(type, code.largest)
    wanted = np.clip(wanted, low, min(high, format_range(type)[0]))
    bits = encode(type, wanted)
    if code.uses_random or not code.has_nan:
        bits = bits + (decode(type, bits) < wanted).astype(bits.dtype)
    return decode(type, bits)


def choose_scale(amax, code, type, recipe, margin=0):
    """Returns the scale of each group from its largest finite magnitude."""
    largest, powers = code.largest, _powers(type, code.largest)
    if recipe == "mx_floor":
        # frexp has significands in [1/2, 1), so both exponents are one too large.
        exponent = np.frexp(amax)[1] - 1 - floor(log2(largest)) + margin
        wanted = np.ldexp(1.0, np.maximum(exponent, -1000))
    else:
        wanted = code.normalize(amax).astype(np.float64) * 2.0**margin
    if recipe == "current":
        chosen = _narrow_scale(wanted, type, code)
    else:
        chosen = powers[np.minimum(np.searchsorted(powers, wanted), len(powers) - 1)]
    if not code.has_nan:
        high = powers[-1] if recipe == "pow2" else scale_range(type, largest)[1]
        chosen = np.where(wanted > high, np.nan, chosen)
    if code.zero is None:
        return chosen.astype(_F32)
    return np.where(amax == 0, 1.0, chosen).astype(_F32)


def choose_two_levels(magnitudes, amax, code):
    """Returns the f32 scale of a tensor and the f8E4M3FN bits of those of its groups, from all
    magnitudes and the largest of each group."""
    whole = max(magnitudes.max(initial=0), _F32(0))
    expansion = _F32(1)
    if whole > 0:
        expansion = min(_F32(448 * code.largest) / whole, np.finfo(_F32).max)
    wanted = amax * (expansion * (_F32(1) / _F32(code.largest)))
    wanted = np.minimum(wanted, _MOST)
    bits = encode("f8E4M3FN", wanted)
    if code.uses_random:
        bits = bits + (decode("f8E4M3FN", bits) < wanted).astype(bits.dtype)
    return _F32(1) / expansion, bits


def check_scale(type, codes, code):
    """Returns scales read from memory, in float32; those out of range become 1."""
    low, high = scale_range(type, code.largest)
    scale = decode_scale(type, codes)
    with np.errstate(invalid="ignore"):
        return np.where((scale >= low) & (scale <= high), scale, _F32(1))


#===----------------------------------------------------------------------===#
# Storages
#===----------------------------------------------------------------------===#


def _check_first(name, draw, group):
    first = draw.first
    if first and group == WHOLE:
        raise ValueError(f"'{name}' begins at element {first}, but a whole tensor shares "
                         "its scale: pass the unsharded tensor")
    if first % (draw.columns or group):
        raise ValueError(f"'{name}' begins at element {first}, inside a group of "
                         f"{draw.columns or group}: cut at a multiple of it")


def pack(codes, count, columns=0):
    """Returns bytes of `count` codes of neighbours in a row, the first in the lowest bits. A row's
    last byte has zeros past its end."""
    if count == 1:
        return codes
    columns = columns or max(codes.size, 1)
    rows = np.pad(codes.reshape(-1, columns), ((0, 0), (0, -columns % count)))
    shifts = np.arange(count) * (8 // count)
    parts = rows.reshape(-1, count).astype(np.int64) << shifts
    return parts.sum(1).astype(codes.dtype)


def unpack(entries, count, columns=0):
    """Returns the codes that bytes hold. Without columns, those past the end are included."""
    if count == 1:
        return entries
    shifts = np.arange(count, dtype=entries.dtype) * (8 // count)
    parts = (entries.reshape(-1, 1) >> shifts) & ((1 << 8 // count) - 1)
    if not columns:
        return parts.reshape(-1)
    return parts.reshape(-1, -(-columns // count) * count)[:, :columns].reshape(-1)


def _count_largest(code, codes, exponents=None):
    with np.errstate(all="ignore"):
        value = code.decode(codes, exponents)
        return int(np.count_nonzero(np.abs(value) >= code.largest))


def _encode(code, prepared, y, exponent, draw):
    """Encodes y, the prepared value over the scale. y may be 0 where the prepared value is
    positive, and prepared values are positive if the values are."""
    if code.least is not None:
        y = draw.lifted(y, prepared, code.least)
    bits = draw.bits(code.rounding, len(y))
    finite = np.isfinite(prepared if code.has_nan else y)
    codes = code.encode(y, finite, exponent, bits)
    if code.zero is None:
        return codes
    return draw.raised(codes, np.where(finite, prepared, 0), code.zero)


@dataclass(frozen=True)
class Scaled(Storage):
    """Codes, and a scale for each `group` consecutive elements, or WHOLE for all. With columns,
    groups restart every `columns` elements, and they may be a ROW or blocks of `rows` rows. With a
    history, the scale depends on the magnitudes of that many previous stores. A matrix with
    ``transposed`` columns has a second copy of its codes, column by column.
    """

    code: Code
    group: int
    scale: str
    recipe: str = "current"
    history: int = 0
    margin: int = 0
    columns: int = 0
    rows: int = 1
    transposed: int = 0
    # The length of rows, which begin at whole bytes of several codes; `columns` if 0.
    row_length: int = 0
    # Whether scales of groups are multiples of a scale for the tensor.
    tensor_scale: bool = False

    def planes(self, name):
        formats = self.code.planes | {".scale": self.scale}
        if self.tensor_scale:
            formats |= {".tensor_scale": "f32"}
        if self.code.range:
            formats |= {".exponent": "i8"}
        if self.transposed:
            formats |= {".transposed": self.code.planes[""]}
        if self.history:
            formats |= {".next_scale": self.scale, ".history": "f32"}
        return {name + s: _dtype(f) for s, f in formats.items()}

    def has_elements(self, suffix):
        return suffix in (*self.code.planes, ".transposed")

    def plane_groups(self, name):
        return {p: self.code.packed if self.has_elements(p[len(name):]) else
                WHOLE if p == name + ".tensor_scale" else self.group for p in self.planes(name)}

    def _codes(self, planes, name):
        return [unpack(planes[name + s], self.code.packed, self.row_length or self.columns)
                for s in self.code.planes]

    def entries(self, name, size):
        entries = super().entries(name, size)
        if self.columns:
            count = size // self.columns
            entries = {p: (count if self.has_elements(p[len(name):])
                           else -(-count // self.rows)) * -(-self.columns // group)
                       for p, group in self.plane_groups(name).items()}
            if self.tensor_scale:
                entries[name + ".tensor_scale"] = min(size, 1)
        if self.row_length:
            for suffix in self.code.planes:
                entries[name + suffix] = (size // self.row_length
                                          * -(-self.row_length // self.code.packed))
        if self.history:
            entries[name + ".history"] *= self.history
        return entries

    def range(self):
        """Returns magnitudes near which scales leave their range."""
        low, high = scale_range("f32" if self.tensor_scale else self.scale, self.code.largest)
        ends = np.array([high * self.code.largest, low * self.code.largest])
        high, low = self.code.finish(ends)
        return min(high, float(np.finfo(_F32).max)), low

    def _spread(self, per_group, size):
        columns = self.columns or max(size, 1)
        entries = per_group.reshape(-1, -(-columns // self.group))
        spread = np.repeat(entries, min(self.group, columns), axis=1)[:, :columns]
        return np.repeat(spread, self.rows, axis=0).reshape(-1)[:size]

    def decode(self, planes, name):
        codes = self._codes(planes, name)
        scale = decode_scale(self.scale, planes[name + ".scale"])
        if self.recipe == "given":
            scale = check_scale(self.scale, planes[name + ".scale"], self.code)
        if self.tensor_scale:
            with np.errstate(all="ignore"):
                scale = scale * np.resize(decode("f32", planes[name + ".tensor_scale"]), len(scale))
        with np.errstate(all="ignore"):
            exponent = self._exponents(planes, name, len(codes[0]))
            number = self.code.decode(codes, exponent)
            value = self.code.unscaled(number, self._spread(scale, len(codes[0])))
            return self.code.finish(value.astype(_F32))

    def _exponents(self, planes, name, size):
        """Returns the exponent of each element; None for codes without one."""
        if not self.code.range:
            return None
        return self._spread(planes[name + ".exponent"], size)

    def _magnitudes(self, x):
        """Returns the magnitudes of each group as a row, with 0 for nonfinite values."""
        columns = self.columns or max(len(x), 1)
        group = min(self.group, columns)
        counts = np.isfinite(x) | (not self.code.has_nan)
        magnitude = np.where(counts, np.abs(x), _F32(0)).reshape(-1, columns)
        padding = ((0, -len(magnitude) % self.rows), (0, -columns % group))
        padded = np.pad(magnitude, padding)
        down, across = len(padded) // self.rows, padded.shape[1] // group
        blocks = padded.reshape(down, self.rows, across, group)
        return blocks.transpose(0, 2, 1, 3).reshape(-1, self.rows * group)

    def _least_magnitudes(self, x):
        """Returns the smallest nonzero magnitude of each group; 0 if there is none."""
        magnitude = self._magnitudes(x)
        least = np.where(magnitude == 0, _F32(np.inf), magnitude).min(1)
        return np.where(np.isinf(least), _F32(0), least)

    def encode(self, name, x, draw):
        """Encodes into memory that is initially zero."""
        entries = self.entries(name, len(x))
        zeros = {p: np.zeros(entries[p], d) for p, d in self.planes(name).items()}
        return self.renew(zeros, name, x, draw)

    def _choose_scale(self, planes, name, amax):
        if self.history:
            return check_scale(self.scale, planes[name + ".next_scale"], self.code)
        if self.recipe == "given":
            return check_scale(self.scale, planes[name + ".scale"], self.code)
        return choose_scale(amax, self.code, self.scale, self.recipe)

    def _remember(self, planes, name, amax):
        """Stores the history of delayed scaling for the next store."""
        old = planes[name + ".history"]
        if not len(old):
            return {name + s: planes[name + s] for s in (".next_scale", ".history")}
        history = np.concatenate([encode("f32", amax), old[:-1]])
        values = decode("f32", history)
        numbers = np.where(np.isfinite(values) & ~np.signbit(values), values, _F32(0))
        largest = numbers.max(keepdims=True)
        kept = check_scale(self.scale, planes[name + ".next_scale"], self.code)
        made = choose_scale(largest, self.code, self.scale, self.recipe, self.margin)
        scale = np.where(largest == 0, kept, made)
        return {name + ".next_scale": encode_scale(self.scale, scale),
                name + ".history": history}

    def renew(self, planes, name, x, draw):
        _check_first(name, draw, WHOLE if self.tensor_scale else self.group)
        with np.errstate(all="ignore"):
            prepared = self.code.prepare(x)
            amax = self._magnitudes(self.code.measure(prepared)).max(1)
            if self.tensor_scale:
                return self._two_levels(name, x, prepared, amax, draw)
            scale = self._choose_scale(planes, name, amax)
            inverse = self._spread(_F32(1) / scale, len(x))
            shared = {name + ".scale": planes[name + ".scale"] if self.recipe == "given"
                      else encode_scale(self.scale, scale)}
            if self.code.range:
                shared[name + ".exponent"] = self.code.choose_exponent(
                    scale, self._least_magnitudes(x))
            codes = _encode(self.code, prepared, self.code.scaled(prepared, inverse),
                            self._exponents(shared, name, len(x)), draw)
            if self.history:
                shared |= self._remember(planes, name, amax)
            if self.transposed:
                matrix = codes[0].reshape(-1, self.transposed)
                shared[name + ".transposed"] = matrix.T.reshape(-1)
        return {name + s: pack(c, self.code.packed, self.row_length or self.columns)
                for s, c in zip(self.code.planes, codes)} | shared

    def _two_levels(self, name, x, prepared, amax, draw):
        """Returns the planes of x under scales of two levels."""
        magnitudes = self._magnitudes(self.code.measure(prepared))
        whole, bits = choose_two_levels(magnitudes, amax, self.code)
        scale = decode("f8E4M3FN", bits) * whole
        scale = np.where(scale > 0, scale, _F32(1))
        inverse = self._spread(_F32(1) / scale, len(x))
        codes = _encode(self.code, prepared, self.code.scaled(prepared, inverse), None, draw)
        entry = encode("f32", np.full(min(len(x), 1), whole, _F32))
        return {name + s: pack(c, self.code.packed, self.row_length or self.columns)
                for s, c in zip(self.code.planes, codes)} | {
                    name + ".scale": bits, name + ".tensor_scale": entry}

    def saturated(self, planes, name):
        """Returns the number of elements that have the code of the largest magnitude."""
        codes = self._codes(planes, name)
        return _count_largest(self.code, codes, self._exponents(planes, name, len(codes[0])))

    def components(self, planes, name):
        return [self.decode(planes, name).astype(np.float64)]


@dataclass(frozen=True)
class Coded(Storage):
    """Codes without a scale, which is implicitly 1."""

    code: Code
    row_length: int = 0

    def planes(self, name):
        return {name + s: _dtype(f) for s, f in self.code.planes.items()}

    def plane_groups(self, name):
        return dict.fromkeys(self.planes(name), self.code.packed)

    def entries(self, name, size):
        if not self.row_length:
            return super().entries(name, size)
        count = size // self.row_length * -(-self.row_length // self.code.packed)
        return dict.fromkeys(self.planes(name), count)

    def _codes(self, planes, name):
        return [unpack(planes[name + s], self.code.packed, self.row_length) for s in self.code.planes]

    def range(self):
        """Returns magnitudes that saturate, and magnitudes that lose digits."""
        return tuple(self.code.finish(np.array([self.code.largest, self.code.small])))

    def decode(self, planes, name):
        codes = self._codes(planes, name)
        with np.errstate(all="ignore"):
            return self.code.finish(self.code.decode(codes).astype(_F32))

    def encode(self, name, x, draw):
        with np.errstate(all="ignore"):
            prepared = self.code.prepare(x)
            codes = _encode(self.code, prepared, prepared, None, draw)
        return {name + s: pack(c, self.code.packed, self.row_length)
                for s, c in zip(self.code.planes, codes)}

    def saturated(self, planes, name):
        """Returns the number of elements that have the code of the largest magnitude."""
        return _count_largest(self.code, self._codes(planes, name))

    def components(self, planes, name):
        return [self.decode(planes, name).astype(np.float64)]


@dataclass(frozen=True)
class Masked(Storage):
    """Floats whose values are restricted to those of a code."""

    format: str
    code: Code

    @property
    def suffixes(self):
        return {"": self.format}

    def decode(self, planes, name):
        return self.take(planes, name)[0]

    def encode(self, name, x, draw):
        codes = Coded(self.code)
        return self.put(name, [codes.decode(codes.encode(name, x, draw), name)[:len(x)]])


@dataclass(frozen=True)
class Residual(Storage):
    """A rounded value and its rounding error, in fractions of half an ulp."""

    format: str
    residual: str
    rounding: str = "nearest"

    @property
    def _levels(self):
        return _F32({"i8": 127, "i16": 32767}[self.residual])

    def planes(self, name):
        return {name: _dtype(self.format), name + ".residual": _dtype(self.residual)}

    def range(self):
        return format_range(self.format)

    def _half_ulp(self, high):
        """Returns half a unit in the last place; unspecified for nonfinite values."""
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
        x = draw.lifted(x, x, smallest(self.format))
        high = round_to(self.format, x)
        with np.errstate(all="ignore"):
            level = (x - high) / self._half_ulp(high) * self._levels
        bits = directed(self.rounding, draw.bits(self.rounding, len(x)), level)
        whole = round_magnitude(np.abs(level), self.rounding, bits)
        whole = np.where(np.signbit(level), -whole, whole)
        whole = np.where(np.isfinite(high), whole, 0)
        dtype = _dtype(self.residual)
        return {name: encode(self.format, x), name + ".residual":
                whole.astype(dtype)}

    def components(self, planes, name):
        return [self.decode(planes, name).astype(np.float64)]
