"""Arrays of frameworks: their addresses, and checks that they can hold a plane."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tandem import _tandem

if TYPE_CHECKING:
    from tandem._plane import Plane

# DLPack's (code, bits) for each element type. Integers with the raw bits are accepted too.
_DLPACK = {
    "bf16": {(4, 16)}, "f16": {(2, 16)}, "f32": {(2, 32)}, "i8": set(), "i16": set(),
    "i4x2": set(),
    "f8E4M3FN": {(10, 8)}, "f8E5M2": {(12, 8)}, "f8E8M0FNU": {(14, 8)},
}


#: The name of DLPack's capsules since its version 1, and the flag of read-only arrays.
_VERSIONED, _READ_ONLY = b"dltensor_versioned", 1
_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.restype, _is_capsule.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

#: The types that ml_dtypes adds to NumPy.
_ML_DTYPES = {
    "bfloat16": "bf16", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
    "float8_e8m0fnu": "f8E8M0FNU",
}


def _describe(plane: Plane, array: object) -> tuple[int, int, int, int, list[int], int]:
    """Returns the address, element count, DLPack type code, bits, shape, and GPU ordinal or
    -1."""
    try:
        if (interface := getattr(array, "__cuda_array_interface__", None)) is not None \
                and not hasattr(array, "__dlpack__"):
            return _describe_cuda(plane, interface)
        return _tandem.describe(array)
    except ValueError as error:
        raise ValueError(f"array {plane.name!r}: {error}") from None
    except TypeError:
        raise TypeError(
            f"array {plane.name!r} is a {type(array).__name__}, which is not an "
            "array on the CPU (DLPack or buffer protocol) or a GPU (DLPack or "
            "__cuda_array_interface__)"
        ) from None


def _describe_cuda(
    plane: Plane, interface: Mapping
) -> tuple[int, int, int, int, list[int], int]:
    """Describes an array by its CUDA array interface, which is about device 0."""
    shape = list(interface["shape"])
    bits, count = 8 * int(interface["typestr"][2:]), math.prod(shape)
    dense, stride = [], bits // 8
    for length in reversed(shape):
        dense.append(stride)
        stride *= length
    if count and interface.get("strides") not in (None, tuple(reversed(dense))):
        raise ValueError("array is not contiguous; pass a contiguous copy")
    address, _ = interface["data"]
    code = {"i": 0, "u": 1, "f": 2}.get(interface["typestr"][1], 1)
    return address, count, code, bits, shape, 0


def ordinal_of(plane: Plane, array: object) -> int:
    """Returns the ordinal of the GPU that an array is on, or -1 for the CPU."""
    if type(array).__module__.startswith("numpy"):
        return -1
    return _describe(plane, array)[-1]


def is_read_only(array: object) -> bool:
    """Returns whether an array must not be written. This includes arrays that do not report that
    they are writable, such as JAX's immutable arrays."""
    flags = getattr(array, "flags", None)
    if hasattr(flags, "writeable"):
        return not flags.writeable
    if type(array).__module__.partition(".")[0] == "torch":
        return False
    try:
        return memoryview(array).readonly
    except (TypeError, BufferError):
        pass  # the buffer has no NumPy type
    if (interface := getattr(array, "__cuda_array_interface__", None)) is not None:
        return bool(interface["data"][1])
    return hasattr(array, "__dlpack__") and _exported_read_only(array)


def _exported_read_only(array: object) -> bool:
    """Returns whether DLPack marks the array as read-only or, before its version 1, cannot
    tell."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        return True
    if not _is_capsule(capsule, _VERSIONED):
        return True
    # DLManagedTensorVersioned begins with a version, a context, a deleter and flags.
    flags = ctypes.c_uint64.from_address(_pointer(capsule, _VERSIONED) + 24).value
    return bool(flags & _READ_ONLY)


def address_of(
    plane: Plane, array: object, writes: bool = True
) -> tuple[int, int, list[int]]:
    """Returns the address, element count and shape of an array after checking that it can hold a
    plane."""
    dtype = getattr(array, "dtype", None)
    if writes and plane.written and is_read_only(array):
        raise ValueError(
            f"array {plane.name!r} is read-only, or does not say that it may be written, "
            "but the kernel writes it; pass a writable copy"
        )
    if type(array).__module__.startswith("numpy"):
        if not dtype.isnative:
            raise TypeError(f"array {plane.name!r} has the bytes of its elements swapped "
                            f"({dtype}); pass array.astype(array.dtype.newbyteorder('='))")
        if wanted := _ML_DTYPES.get(str(dtype)):
            if wanted != plane.type:
                raise TypeError(f"array {plane.name!r} must be {plane.type}, got {dtype}")
            array = array.view(f"u{array.itemsize}")
    address, count, code, bits, shape, _ = _describe(plane, array)
    # Unsigned integers are taken as bits, and so are signed ones except int32, which holds
    # counts.
    raw = bits == plane.bits and (code == 1 or (code == 0 and bits < 32))
    if not raw and (code, bits) not in _DLPACK[plane.type]:
        raise TypeError(
            f"array {plane.name!r} must be {plane.type}"
            f" (or {'unsigned ' * (plane.bits == 32)}{plane.bits}-bit integers), got {dtype}"
        )
    return address, count, shape
