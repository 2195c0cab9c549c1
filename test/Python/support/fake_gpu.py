#===- fake_gpu.py - A GPU that evaluates PTX -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the runtime's device without a GPU: a library that replaces CUDA's driver,
# with kernels executed by the PTX evaluator. If the environment variable TANDEM_TEST_GPU is `real`,
# a real GPU is used.
#
#===----------------------------------------------------------------------===#
"""`open_gpu()` opens a device; `arrays(...)` puts NumPy arrays into its memory."""

import ctypes
import os
from pathlib import Path

import numpy as np

import tandem
from tandem import _tandem

#: Whether tests run on a real GPU.
IS_REAL = os.environ.get("TANDEM_TEST_GPU") == "real"


def _find_library():
    """Finds it in a build, or next to the package of scripts/stage-gpu-check.sh."""
    root = Path(_tandem.__file__).resolve().parents[2]
    built = root / "runtime" / "cts" / "libtandem_fake_cuda.so"
    return built if built.exists() else root / "lib" / built.name


_LIBRARY = _find_library()
_EXECUTOR = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_int64)


class RealGPU:
    """The real driver's first device, with only what tests need."""

    is_real = True

    def __init__(self):
        os.environ.setdefault("TANDEM_CACHE_DIR", "")
        self.device, self.launched = tandem.Device(), []

    def check(self):
        """Raises errors that kernels have reported."""
        self.device.synchronize()

    def arrays(self, planes):
        """Copies arrays to device memory."""
        return {name: GPUArray(self.device, plane) for name, plane in planes.items()}


def open_gpu():
    """Opens the device that tests run on."""
    return RealGPU() if IS_REAL else FakeGPU()


class FakeGPU:
    """The first of `count` devices, and the errors of all of them."""

    is_real = False

    def __init__(self, cache=None, count=1):
        os.environ["TANDEM_CUDA_DRIVER"] = str(_LIBRARY)
        if cache is None:
            os.environ.setdefault("TANDEM_CACHE_DIR", "")
        else:
            os.environ["TANDEM_CACHE_DIR"] = cache
        self.library = ctypes.CDLL(str(_LIBRARY))
        self.library.fake_cuda_violations.restype = ctypes.c_char_p
        self.library.fake_cuda_set_devices(count)
        self.executor = _EXECUTOR(self._execute)
        self.library.fake_cuda_set_executor(self.executor)
        self.error, self.launched = None, []
        self.device = tandem.Device()

    def _execute(self, ptx, entry, words, num_words, blocks, threads, ranges,
                 num_ranges):
        try:
            name = entry.decode()
            self.launched.append(name)
            regions = [(f"range{i}", ranges[2 * i], ranges[2 * i + 1], True)
                       for i in range(num_ranges)]
            _tandem.evaluate_ptx(ptx.decode(), name, list(words[:num_words]), blocks,
                                 threads, regions)
            return 0
        except Exception as error:  # must not propagate into the calling C function
            self.error = error
            return 1

    def check(self):
        """Raises errors that kernels or the driver have reported."""
        if self.error:
            raise self.error
        violations = self.library.fake_cuda_violations()
        assert violations == b"", violations.decode()

    def arrays(self, planes):
        """Copies arrays to device memory."""
        return {name: GPUArray(self.device, plane) for name, plane in planes.items()}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    """DLManagedTensor, which does not record whether it is writable."""

    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


class DLPackArray:
    """An array on a GPU as a framework exports it: DLPack of some type, and nothing else. The
    memory begins a few bytes before the array."""

    def __init__(self, array, code, device=0, read_only=False):
        self._array, like = array, array._like
        self._shape = (ctypes.c_int64 * like.ndim)(*like.shape)
        offset = like.itemsize
        tensor = _Tensor(array.address - offset, 2, device, like.ndim, code,
                         8 * like.itemsize, 1, self._shape, None, offset)
        self._managed = _Managed(tensor, None, None)
        self._versioned = _Versioned(1, 0, None, None, int(read_only), tensor)

    def __dlpack_device__(self):
        return 2, self._managed.tensor.device_id

    def __dlpack__(self, max_version=None, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        if max_version and max_version[0] >= 1:
            return new(ctypes.addressof(self._versioned), b"dltensor_versioned", None)
        return new(ctypes.addressof(self._managed), b"dltensor", None)


class GPUArray:
    """An array in device memory at `address`."""

    def __init__(self, device, array):
        self._native, self._like = device._native, np.ascontiguousarray(array)
        self.address = self._native.allocate(max(1, self._like.nbytes))
        self.write(array)

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": self._like.shape, "strides": None,
                "typestr": self._like.dtype.str, "data": (self.address, False)}

    def write(self, array):
        array = np.ascontiguousarray(array)
        assert array.nbytes == self._like.nbytes
        self._native.copy(self.address, array.ctypes.data, array.nbytes)

    def read(self):
        array = np.empty_like(self._like)
        self._native.copy(array.ctypes.data, self.address, array.nbytes)
        return array

    def __del__(self):
        self._native.free(self.address)
