#===- bits_inputs.py - Fixed inputs of kernels -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the inputs on which recorded bits are computed. They are made
# only with integers, so that they are the same on every machine, with every version
# of NumPy, and with every version of Tandem: neither a random generator nor a
# conversion of ours takes part.
#
#===----------------------------------------------------------------------===#
"""Planes of fixed bits, and hashes of planes."""

import hashlib
import zlib

import numpy as np

DTYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32}

#: Bits of the exponent and of the mantissa, a NaN, and the largest code below infinity
#: or NaN, of what planes hold. Integers of 16 bits are taken for codes like f16's.
FORMATS = {
    "f32": (8, 23, 0x7FC00000, 0x7F7FFFFF), "bf16": (8, 7, 0x7FC0, 0x7F7F),
    "f16": (5, 10, 0x7E00, 0x7BFF), "i16": (5, 10, 0x7E00, 0x7BFF),
    "f8E4M3FN": (4, 3, 0x7F, 0x7E), "f8E5M2": (5, 2, 0x7E, 0x7B),
}

#: The kinds of an input's elements: of everyday size; of many sizes, with zeros; and
#: with infinities, NaN, the largest and the smallest numbers among them.
KINDS = ("ordinary", "wide", "special")


def words(seed: int, count: int) -> np.ndarray:
    """SplitMix64 (Steele et al. 2014): 64 bits for each of some places."""
    state = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)
    state *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def seed_of(*names) -> int:
    """A seed of 31 bits that the names decide."""
    return zlib.crc32("/".join(map(str, names)).encode()) >> 1

#===------------------------------------------------------------------------===#
# Numbers
#===------------------------------------------------------------------------===#


def _floats(type: str, kind: str, random: np.ndarray) -> np.ndarray:
    """Codes of a format, whose signs, exponents and mantissas are drawn apart."""
    exponent_bits, mantissa_bits, nan, largest = FORMATS[type]
    bias = (1 << (exponent_bits - 1)) - 1
    least, places = (bias - 6, 6) if kind != "wide" else (max(0, bias - 12), 16)
    exponents = random % np.uint64(places) + np.uint64(least)
    signs = (random >> np.uint64(8)) & np.uint64(1)
    mantissas = (random >> np.uint64(16)) & np.uint64((1 << mantissa_bits) - 1)
    codes = ((signs << np.uint64(exponent_bits)) | exponents) << np.uint64(mantissa_bits)
    codes |= mantissas
    sign = 1 << (exponent_bits + mantissa_bits)
    codes = np.where((codes & np.uint64(sign - 1)) > np.uint64(largest),
                     np.uint64(largest), codes)
    if kind == "wide":
        codes[::7], codes[3::11] = 0, sign
    elif kind == "special":
        infinity = largest + 1
        for at, code in enumerate((nan, infinity, sign | infinity, largest, 1, sign, 0)):
            codes[at * 13 + 5::101] = code
    return codes


def numbers(type: str, kind: str, seed: int, count: int) -> np.ndarray:
    """Returns numbers of a kind as a plane of a type has them."""
    random = words(seed, count)
    if type == "f8E8M0FNU":
        return (random % np.uint64(7) + np.uint64(124)).astype(np.uint8)
    if type == "i8":
        codes = (random >> np.uint64(16)).astype(np.uint8)
        # Codes with a sign have 0x80 as their NaN.
        return codes if kind == "special" else np.where(codes == 0x80, np.uint8(0), codes)
    codes = _floats(type, kind, random)
    exponent_bits, mantissa_bits, *_ = FORMATS[type]
    return codes.astype(DTYPES[1 + exponent_bits + mantissa_bits])


def powers(type: str, seed: int, count: int) -> np.ndarray:
    """Powers of two between 1/8 and 8, as scales are."""
    if type == "f8E8M0FNU":
        return numbers(type, "ordinary", seed, count)
    exponent_bits, mantissa_bits, *_ = FORMATS[type]
    bias = (1 << (exponent_bits - 1)) - 1
    exponents = words(seed, count) % np.uint64(7) + np.uint64(bias - 3)
    return (exponents << np.uint64(mantissa_bits)).astype(
        DTYPES[1 + exponent_bits + mantissa_bits])

#===------------------------------------------------------------------------===#
# Planes
#===------------------------------------------------------------------------===#


def shaped(plane, shape: tuple[int, int], values: np.ndarray, matrix: bool) -> np.ndarray:
    """A plane's array, of two dimensions in a kernel of matrices."""
    if not (matrix and plane.sets_size):
        return values
    return values.reshape(shape[::-1] if plane.transposed else shape)


def fill(plane, shape: tuple[int, int], kind: str, seed: int) -> np.ndarray:
    """The entries of a plane that comes from outside: numbers, and powers of two as their
    scales. The planes that a number has beside its first one begin as zero, except a
    master weight, which the first plane is a copy of."""
    rows, columns = shape
    count, seed = plane.entries(columns, rows), seed_of(seed, plane.name)
    if plane.name.endswith("scale"):
        return powers(plane.type, seed, count)
    if plane.name == plane.role or plane.name.endswith(".master"):
        return numbers(plane.type, kind, seed, count)
    return np.zeros(count, DTYPES[plane.bits])


def planes_for(kernel, shape: tuple[int, int], kinds: dict[str, str], seed: int) -> dict:
    """Arrays for a kernel: inputs where `kinds` has the plane's RoleKind, else zeros."""
    result = {}
    for plane in kernel.planes:
        kind = kinds.get(plane.kind.name)
        count = plane.entries(shape[1], shape[0])
        values = fill(plane, shape, kind, seed) if kind else np.zeros(
            count, DTYPES[plane.bits])
        result[plane.name] = shaped(plane, shape, values, kernel.is_matrix)
    return result


class Digest:
    """The hash of planes, in the order of their names, and of other results."""

    def __init__(self):
        self._sha = hashlib.sha256()

    def add(self, planes: dict) -> None:
        """Takes names and bits of arrays."""
        for name in sorted(planes):
            array = np.ascontiguousarray(planes[name])
            self._sha.update(f"{name}:{array.nbytes};".encode())
            self._sha.update(array.tobytes())

    def note(self, text: str) -> None:
        """Takes a text."""
        self._sha.update(f"{text};".encode())

    @property
    def text(self) -> str:
        """The first 64 bits of the hash, which suffice since no one has a reason to forge it."""
        return self._sha.hexdigest()[:16]
