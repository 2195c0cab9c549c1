#===- storage.py - Storages of values -------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the storages: their planes, their decoding and encoding under the f32 policy,
# and their states under the component policy.
#
#===----------------------------------------------------------------------===#
"""Implements storages. Planes are unsigned arrays of bits in a dict keyed by name.

A storage provides `suffixes` (plane name suffix -> format), `decode` and `encode` for the f32
policy, and `open_component` for the component policy, which returns a state with its own accumulate
and decay.
"""

from dataclasses import dataclass, replace

import numpy as np

from . import arithmetic as mcf
from .dither import dither_bits
from .formats import decode, encode, encode_by_bits, lookup, raise_zeros
from .philox import half_words


@dataclass(frozen=True)
class Draw:
    """The inputs of rounding: the bits, and whether positive numbers stay positive.

    `number` is the tensor's index among the arguments of its graph. With `floor`, as for second
    moments, a positive value that would become zero becomes the smallest positive number. `columns`
    is the length of rows, in which groups restart and along which sums are taken; 0 if the tensor
    has none.
    """

    seed: int = 0
    key: int = 0
    first: int = 0
    step: int = 1
    number: int = 0
    floor: bool = False
    columns: int = 0

    def bits(self, rounding, count):
        """Returns 16 bits for each element; None if the rounding uses none."""
        if rounding == "stochastic":
            return half_words(count, self.first, self.seed, self.key, self.step)
        if rounding == "dither":
            return dither_bits(count, self.first, self.seed, self.key, self.number, self.step)
        return None

    def lifted(self, y, x, least):
        """Returns y; with a floor, at least `least` where the original value x is positive."""
        positive = self.floor & (x > 0) & np.isfinite(x)
        return np.where(positive, np.maximum(y, least), y).astype(np.float32)

    def raised(self, codes, x, zero=0):
        """Returns the codes of values x, above the floor if there is one."""
        positive = (x > 0) & np.isfinite(x)
        return raise_zeros(codes, positive, zero) if self.floor else codes


def nearest(storage):
    """Returns the storage that conversions write, which rounds to nearest."""
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
    """One value; also used for any storage under the f32 policy."""

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
    """A value and its compensation, the part of past updates that it lacks."""

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
    """Returns the (largest finite, smallest normal) magnitude of a format."""
    fmt = lookup(name)
    codes = np.array([fmt.largest, 1 << fmt.mantissa_bits], dtype=fmt.dtype)
    return tuple(float(v) for v in decode(name, codes))


def smallest(name):
    """Returns the smallest positive number of a format."""
    return decode(name, np.array([1], lookup(name).dtype))[0]


class Storage:
    """The interface of the storages, and their shared implementation."""

    def planes(self, name):
        """Returns plane name -> dtype of its bits."""
        return {name + s: lookup(f).dtype for s, f in self.suffixes.items()}

    def has_elements(self, suffix):
        """Returns whether each element has a value of its own in a plane."""
        return True

    def plane_groups(self, name):
        """Returns plane name -> number of consecutive elements that share an entry."""
        return dict.fromkeys(self.planes(name), 1)

    def entries(self, name, size):
        """Returns plane name -> length of its array for a tensor of the given size."""
        return {p: -(-size // group) for p, group in self.plane_groups(name).items()}

    def renew(self, planes, name, x, draw):
        """Returns the planes after storing x over `planes`; some storages depend on data that
        previous steps have left."""
        return self.encode(name, x, draw)

    def bytes(self):
        """Returns the number of bytes per element."""
        groups = self.plane_groups("")
        return sum(d.itemsize / groups[p] for p, d in self.planes("").items())

    def range(self):
        """Returns the (largest finite, smallest normal) magnitude of the leading format."""
        return format_range(self.suffixes[""])

    def take(self, planes, name):
        """Returns the values of all planes, in the order of the suffixes."""
        return [decode(f, planes[name + s]) for s, f in self.suffixes.items()]

    def put(self, name, values):
        """Returns the planes for values that are already components, with canonical NaNs."""
        return {name + s: encode(f, v)
                for (s, f), v in zip(self.suffixes.items(), values)}

    def open_component(self, k, planes, name):
        """Returns the state under the component policy, rounded to the component."""
        return PlainState(k.round(self.decode(planes, name)))

    def close_component(self, name, state, draw):
        return self.encode(name, state.value, draw)

    def components(self, planes, name):
        """Returns the float64 parts whose sum is the stored value."""
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
    """Returns RN32 of the components' sum, added smallest first."""
    total = parts[-1]
    with np.errstate(all="ignore"):
        for part in reversed(parts[:-1]):
            total = part + total
    return total


def _residuals(format, x, count):
    """Splits x into components; each one rounds what the previous ones left."""
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
    """A float32 value and a narrow copy of it. If the copy differs from the rounded float32, the
    copy is the value."""

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
    """A bf16 value, rounded with ties away, and the 16 low bits of the float32."""

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
        # If rounded up, the canonical NaN would read as -0, so use a different NaN.
        return self.split(name, np.where(np.isnan(x), np.uint32(0x7FFF0000), u))

    @staticmethod
    def split(name, u):
        """Returns the planes of float32 bits, exact for every pattern."""
        hi = (u.astype(np.uint64) + np.uint64(0x8000)) >> np.uint64(16)
        return {name: hi.astype(np.uint16),
                name + ".remainder": (u & np.uint32(0xFFFF)).astype(np.uint16)}

    def components(self, planes, name):
        return [self.decode(planes, name).astype(np.float64)]
