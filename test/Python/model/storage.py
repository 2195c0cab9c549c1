#===- storage.py - How a value is stored between kernels -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the storages: their planes, their decoding and encoding
# under the f32 policy, and the state they open under the component policy.
#
#===----------------------------------------------------------------------===#
"""Storages. Planes are unsigned arrays of bits, in a dict keyed by name.

A storage answers: `suffixes` (plane name suffix -> format), `decode` and
`encode` for the f32 policy, and `open_component` for the component policy,
which yields a state that knows its own accumulate and decay.
"""

from dataclasses import dataclass, replace

import numpy as np

from . import arithmetic as mcf
from .dither import dither_bits
from .formats import decode, encode, encode_by_bits, lookup, raise_zeros
from .philox import half_words


@dataclass(frozen=True)
class Draw:
    """The inputs of rounding: the bits, and whether a positive number stays positive.

    `number` is the tensor's among those of its graph, in the order of the graph's
    arguments. With `floor`, as second moments have it, a positive value that would
    become zero becomes the smallest positive number. `columns` is the length of the
    rows that groups begin anew with and sums are of, 0 if the tensor has none.
    """

    seed: int = 0
    key: int = 0
    first: int = 0
    step: int = 1
    number: int = 0
    floor: bool = False
    columns: int = 0

    def bits(self, rounding, count):
        """16 bits for each element; None where the rounding takes none."""
        if rounding == "stochastic":
            return half_words(count, self.first, self.seed, self.key, self.step)
        if rounding == "dither":
            return dither_bits(count, self.first, self.seed, self.key, self.number, self.step)
        return None

    def lifted(self, y, x, least):
        """y, or the least number where y is less and x, its value, positive."""
        positive = self.floor & (x > 0) & np.isfinite(x)
        return np.where(positive, np.maximum(y, least), y).astype(np.float32)

    def raised(self, codes, x, zero=0):
        """The codes of values x, above the floor if there is one."""
        positive = (x > 0) & np.isfinite(x)
        return raise_zeros(codes, positive, zero) if self.floor else codes


def nearest(storage):
    """The storage as conversions write it."""
    for inner in ("code", "base"):
        if hasattr(storage, inner):
            return replace(storage, **{inner: nearest(getattr(storage, inner))})
    by_bits = getattr(storage, "rounding", "") in ("stochastic", "dither")
    return replace(storage, rounding="nearest") if by_bits else storage


#===----------------------------------------------------------------------===#
# States: a stored value while a kernel holds it
#===----------------------------------------------------------------------===#


@dataclass(frozen=True)
class PlainState:
    """One value; also what any storage is under the f32 policy."""

    value: np.ndarray

    @property
    def leading(self):
        return self.value

    def accumulate(self, k, x):
        return PlainState(k.add(self.value, x))

    def decay(self, k, factor):
        return PlainState(k.mul(self.value, factor))


@dataclass(frozen=True)
class ExpansionState:
    """Two or three components of the compute format."""

    components: tuple

    @property
    def leading(self):
        return self.components[0]

    def accumulate(self, k, x):
        return ExpansionState(mcf.grow(k, self.components, k.round(x)))

    def decay(self, k, factor):
        split = k.split_real(factor, len(self.components))
        return ExpansionState(mcf.mul(k, split, self.components))


@dataclass(frozen=True)
class KahanState:
    """A value and the part of past updates that it did not take up."""

    value: np.ndarray
    compensation: np.ndarray

    @property
    def leading(self):
        return self.value

    def accumulate(self, k, x):
        return KahanState(*mcf.kahan(k, self.value, self.compensation, k.round(x)))

    def decay(self, k, factor):
        return KahanState(k.mul(self.value, factor), self.compensation)


#===----------------------------------------------------------------------===#
# Storages
#===----------------------------------------------------------------------===#


def format_range(name):
    """(largest finite, smallest normal) magnitude of a format."""
    fmt = lookup(name)
    codes = np.array([fmt.largest, 1 << fmt.mantissa_bits], dtype=fmt.dtype)
    return tuple(float(v) for v in decode(name, codes))


def smallest(name):
    """The smallest positive number of a format."""
    return decode(name, np.array([1], lookup(name).dtype))[0]


class Storage:
    """The interface of the storages, and the parts that they share."""

    def planes(self, name):
        """Plane name -> dtype of its bits."""
        return {name + s: lookup(f).dtype for s, f in self.suffixes.items()}

    def plane_groups(self, name):
        """Plane name -> how many consecutive elements share an entry."""
        return dict.fromkeys(self.planes(name), 1)

    def entries(self, name, size):
        """Plane name -> the length of its array for a tensor of the given size."""
        return {p: -(-size // group) for p, group in self.plane_groups(name).items()}

    def renew(self, planes, name, x, draw):
        """The planes after x has been stored where `planes` were: what steps before
        have left counts for some."""
        return self.encode(name, x, draw)

    def bytes(self):
        """Bytes for one element."""
        groups = self.plane_groups("")
        return sum(d.itemsize / groups[p] for p, d in self.planes("").items())

    def range(self):
        """(largest finite, smallest normal) magnitude of the leading format."""
        return format_range(self.suffixes[""])

    def take(self, planes, name):
        """The values of all planes, in the order of the suffixes."""
        return [decode(f, planes[name + s]) for s, f in self.suffixes.items()]

    def put(self, name, values):
        """The planes for values that are already components; NaN canonical."""
        return {name + s: encode(f, v)
                for (s, f), v in zip(self.suffixes.items(), values)}

    def open_component(self, k, planes, name):
        """The state under the component policy: rounded to the component."""
        return PlainState(k.round(self.decode(planes, name)))

    def close_component(self, name, state, draw):
        return self.encode(name, state.value, draw)

    def components(self, planes, name):
        """The float64 parts whose sum is the stored value."""
        return [p.astype(np.float64) for p in self.take(planes, name)]


@dataclass(frozen=True)
class Plain(Storage):
    """One plane of one format; `rounding` is "nearest", "stochastic" or "dither"."""

    format: str
    rounding: str = "nearest"

    @property
    def suffixes(self):
        return {"": self.format}

    def decode(self, planes, name):
        return self.take(planes, name)[0]

    def encode(self, name, x, draw):
        bits = draw.bits(self.rounding, len(x))
        code = (encode(self.format, x) if bits is None else
                encode_by_bits(self.format, x, self.rounding, bits))
        return dict(zip([name], draw.raised([code], x)))


def _decode_sum(parts):
    """RN32 of the components' sum, smallest first."""
    total = parts[-1]
    with np.errstate(all="ignore"):
        for part in reversed(parts[:-1]):
            total = part + total
    return total


def _residuals(format, x, count):
    """x as components, each the rounding of what the ones before left."""
    k = mcf.Arithmetic(format)
    parts, rest = [k.round(x)], x
    finite = np.isfinite(parts[0])
    with np.errstate(all="ignore"):
        for _ in range(count - 1):
            rest = rest - parts[-1]
            parts.append(np.where(finite, k.round(rest), np.float32(0)))
    return parts


@dataclass(frozen=True)
class Expansion(Storage):
    """A sum of `count` components of one format."""

    format: str
    count: int = 2

    @property
    def suffixes(self):
        names = ["", ".lo"] + [f".lo{i}" for i in range(2, self.count)]
        return dict.fromkeys(names[:self.count], self.format)

    def decode(self, planes, name):
        return _decode_sum(self.take(planes, name))

    def encode(self, name, x, draw):
        x = draw.lifted(x, x, smallest(self.format))
        return self.put(name, _residuals(self.format, x, self.count))

    def open_component(self, k, planes, name):
        if self.format != k.format.name:
            raise ValueError(
                f"'{name}' has components of {self.format}: the component policy "
                f"in {k.format.name} takes those of that format")
        return ExpansionState(tuple(self.take(planes, name)))

    def close_component(self, name, state, draw):
        return self.put(name, state.components)


@dataclass(frozen=True)
class Kahan(Storage):
    """A value and its compensation."""

    format: str

    @property
    def suffixes(self):
        return {"": self.format, ".compensation": self.format}

    def decode(self, planes, name):
        return _decode_sum(self.take(planes, name))

    def encode(self, name, x, draw):
        return self.put(name, _residuals(self.format, x, 2))

    def open_component(self, k, planes, name):
        if self.format != k.format.name:
            raise ValueError(f"'{name}' compensates in {self.format}: the "
                             f"component policy in {k.format.name} takes that format")
        return KahanState(*self.take(planes, name))

    def close_component(self, name, state, draw):
        return self.put(name, (state.value, state.compensation))


@dataclass(frozen=True)
class Master(Storage):
    """A float32 value and a narrow copy of it, which is the value where it differs
    from what the float32 rounds to."""

    format: str

    @property
    def suffixes(self):
        return {"": self.format, ".master": "f32"}

    def decode(self, planes, name):
        visible, master = self.take(planes, name)
        with np.errstate(all="ignore"):
            return np.where(mcf.Arithmetic(self.format).round(master) == visible,
                            master, visible)

    def encode(self, name, x, draw):
        return self.put(name, (x, x))

    def components(self, planes, name):
        return [self.decode(planes, name).astype(np.float64)]


@dataclass(frozen=True)
class Remainder(Storage):
    """A bf16 value, ties away, and the 16 bits of float32 it leaves out."""

    def planes(self, name):
        return {name: np.dtype(np.uint16), name + ".remainder": np.dtype(np.uint16)}

    def range(self):
        return format_range("bf16")

    def decode(self, planes, name):
        hi = planes[name].astype(np.uint32)
        lo = planes[name + ".remainder"].astype(np.uint32)
        upper = (hi - (lo >> np.uint32(15))) & np.uint32(0xFFFF)
        written = ((hi & np.uint32(0x7FFF)) == 0) & (lo >= np.uint32(0x8000))
        bits = np.where(written, hi << np.uint32(16), (upper << np.uint32(16)) | lo)
        return bits.view(np.float32)

    def encode(self, name, x, draw):
        u = encode("f32", x)
        # Rounded up, the canonical NaN would show a -0; this NaN shows a NaN.
        return self.split(name, np.where(np.isnan(x), np.uint32(0x7FFF0000), u))

    @staticmethod
    def split(name, u):
        """The planes of float32 bits, exact for every pattern."""
        hi = (u.astype(np.uint64) + np.uint64(0x8000)) >> np.uint64(16)
        return {name: hi.astype(np.uint16),
                name + ".remainder": (u & np.uint32(0xFFFF)).astype(np.uint16)}

    def components(self, planes, name):
        return [self.decode(planes, name).astype(np.float64)]
