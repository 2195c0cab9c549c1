#===- jax_on_gpu.py - JAX as if on a GPU -----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file makes tandem.jax treat XLA's CPU as a GPU: functions are lowered as for CUDA, XLA calls
# the CUDA handler, and kernels run on the driver without a GPU, which shares the process's memory.
# A program of test_jax_gpu.py uses it from beginning to end.
#
#===----------------------------------------------------------------------===#
"""Defines `JaxGPU(library)`; `build_stand_in(folder)` builds the library."""

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import jax
from jax.interpreters import mlir

from support.fake_gpu import FakeGPU
from tandem.jax import _gpu, _launch, _library

COMPILER = shutil.which("g++") or shutil.which("c++")


def build_stand_in(folder):
    """Compiles the handler between XLA's CPU and the CUDA handler."""
    (jaxlib,) = importlib.util.find_spec("jaxlib").submodule_search_locations
    library = Path(folder) / "jax_stand_in.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-Wall", "-Werror",
                    "-isystem", Path(jaxlib) / "include", "-o", library,
                    Path(__file__).parent / "jax_stand_in.cpp"], check=True)
    return library


class JaxGPU(FakeGPU):
    """A GPU that runs everything lowered for the CPU from now on."""

    def __init__(self, library, count=1):
        super().__init__(count=count)
        self.library.fake_cuda_create_stream.restype = ctypes.c_void_p
        self.library.fake_cuda_share_memory(1)
        self.library.fake_cuda_work_at_once(1)
        self._stand_in = ctypes.CDLL(str(library))
        self.create_stream = self.library.fake_cuda_create_stream
        self.stream = self.create_stream()
        self.use(self.stream, 0)
        _library.gpu_targets = lambda what: [self.device.target]
        _library.TARGET = "tandem_stand_in"
        jax.ffi.register_ffi_target(
            _library.TARGET, jax.ffi.pycapsule(self._stand_in.jax_stand_in), platform="cpu")
        mlir.register_lowering(_launch.launch_p, _gpu.lower, platform="cpu")

    def use(self, stream, ordinal):
        """Sets the stream of all further launches and the ordinal of their GPU."""
        self._stand_in.jax_stand_in_set(_library._LIBRARY.tandem_jax_launch_cuda,
                                        ctypes.c_void_p(stream), ordinal)
