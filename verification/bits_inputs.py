#===- bits_inputs.py - Fixed inputs of kernels -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the inputs on which recorded bits are computed. They are made only with
# integer arithmetic, without random generators or Tandem's conversions, so that they are the same
# on every machine and with every version of NumPy and Tandem.
#
#===----------------------------------------------------------------------===#
"""Makes planes of fixed bits, and hashes planes."""

import hashlib
import zlib

import numpy as np

DTYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32}

#: The number of exponent and mantissa bits, a NaN, and the largest code below infinity or NaN, for
#: each plane type. 16-bit integers are filled like f16 codes.
FORMATS = {
    "f32": (8, 23, 0x7FC00000, 0x7F7FFFFF), "bf16": (8, 7, 0x7FC0, 0x7F7F),
    "f16": (5, 10, 0x7E00, 0x7BFF), "i16": (5, 10, 0x7E00, 0x7BFF),
    "f8E4M3FN": (4, 3, 0x7F, 0x7E), "f8E5M2": (5, 2, 0x7E, 0x7B),
}

#: The kinds of an input's elements: of ordinary size; of many sizes, with zeros; and with
#: infinities, NaNs, the largest and the smallest numbers.
KINDS = ("ordinary", "wide", "special")


def words(seed: int, count: int) -> np.ndarray:
    """Returns 64 bits for each element with SplitMix64 (Steele et al. 2014)."""
    state = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)
    state *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def seed_of(*names) -> int:
    """Returns a 31-bit seed that depends on the names."""
    return zlib.crc32("/".join(map(str, names)).encode()) >> 1

#===------------------------------------------------------------------------===#
# Numbers
#===------------------------------------------------------------------------===#


def _floats(type: str, kind: str, random: np.ndarray) -> np.ndarray:
    """Returns codes of a format with independent random signs, exponents and mantissas."""
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
    """Returns numbers of a kind, in the encoding of a plane's type."""
    random = words(seed, count)
    if type == "f8E8M0FNU":
        return (random % np.uint64(7) + np.uint64(124)).astype(np.uint8)
    if type == "i8":
        codes = (random >> np.uint64(16)).astype(np.uint8)
        # Signed codes have 0x80 as their NaN.
        return codes if kind == "special" else np.where(codes == 0x80, np.uint8(0), codes)
    codes = _floats(type, kind, random)
    exponent_bits, mantissa_bits, *_ = FORMATS[type]
    return codes.astype(DTYPES[1 + exponent_bits + mantissa_bits])


def powers(type: str, seed: int, count: int) -> np.ndarray:
    """Returns powers of two between 1/8 and 8, for use as scales."""
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
    """Shapes a plane's array, with two dimensions if the kernel is one of matrices."""
    if not (matrix and plane.sets_size):
        return values
    return values.reshape(shape[::-1] if plane.transposed else shape)


def fill(plane, shape: tuple[int, int], kind: str, seed: int) -> np.ndarray:
    """Returns the entries of an input plane: numbers, and powers of two for scales. Further
    planes of a tensor start as zero, except a master weight, whose copy is the first plane."""
    rows, columns = shape
    count, seed = plane.entries(columns, rows), seed_of(seed, plane.name)
    if plane.name.endswith("scale"):
        return powers(plane.type, seed, count)
    if plane.name == plane.role or plane.name.endswith(".master"):
        return numbers(plane.type, kind, seed, count)
    return np.zeros(count, DTYPES[plane.bits])


def planes_for(kernel, shape: tuple[int, int], kinds: dict[str, str], seed: int) -> dict:
    """Returns arrays for a kernel: inputs if `kinds` has the plane's RoleKind, and otherwise
    zeros."""
    result = {}
    for plane in kernel.planes:
        kind = kinds.get(plane.kind.name)
        count = plane.entries(shape[1], shape[0])
        values = fill(plane, shape, kind, seed) if kind else np.zeros(
            count, DTYPES[plane.bits])
        result[plane.name] = shaped(plane, shape, values, kernel.is_matrix)
    return result


class Digest:
    """Hashes planes, sorted by name, and other results."""

    def __init__(self):
        self._sha = hashlib.sha256()

    def add(self, planes: dict) -> None:
        """Adds the names and bits of arrays."""
        for name in sorted(planes):
            array = np.ascontiguousarray(planes[name])
            self._sha.update(f"{name}:{array.nbytes};".encode())
            self._sha.update(array.tobytes())

    def note(self, text: str) -> None:
        """Adds a text."""
        self._sha.update(f"{text};".encode())

    @property
    def text(self) -> str:
        """Returns the first 64 bits of the hash, which suffice since no one tries to forge it."""
        return self._sha.hexdigest()[:16]
