#===- test_other_llvm.py - A second LLVM in the process --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the compiler refuses to be loaded after a library that makes the symbols of
# another LLVM global, as Triton's does with sys.setdlopenflags(os.RTLD_GLOBAL). LLVM would end the
# process.
#
#===----------------------------------------------------------------------===#

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tandem


def compiler():
    """Returns the path of the compiler, which has been loaded."""
    tandem.graphs()
    (path,) = set(re.findall(r"\S*/libTandem\.so\S*", Path("/proc/self/maps").read_text()))
    return path


def is_shared():
    """Returns whether the compiler finds LLVM's functions in a shared library, as in a
    checkout."""
    shown = subprocess.run(["readelf", "-d", compiler()], capture_output=True, text=True,
                           check=True).stdout
    return "[libLLVM" in shown


needs_shared_llvm = pytest.mark.skipif(not is_shared(), reason="the compiler contains its LLVM")

#: Imports things in an order, and compiles.
PROGRAM = """
import ctypes, os, sys
flags = {"global": os.RTLD_GLOBAL, "local": os.RTLD_LOCAL}[sys.argv[2]]
def other():
    if sys.argv[1] == "triton":
        sys.setdlopenflags(flags | os.RTLD_NOW)
        import triton._C.libtriton
    else:
        ctypes.CDLL(sys.argv[1], flags)
def ours():
    import tandem
    tandem.graphs()
for load in [ours, other] if sys.argv[3] == "before" else [other, ours]:
    load()
import tandem
assert tandem.compile("sgd", "fp32").bytes_per_parameter == 8
"""


def run(library, flags, when):
    path = os.pathsep.join([str(Path(tandem.__file__).parents[1]),
                            os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, "-c", PROGRAM, library, flags, when], text=True,
                          capture_output=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": path})


@pytest.fixture
def other(tmp_path):
    """Returns a library with one of LLVM's functions, which ends the process."""
    path = tmp_path / "libother.so"
    (tmp_path / "other.c").write_text(
        "#include <stdlib.h>\nvoid _ZN4llvm2cl6Option11addArgumentEv(void) { abort(); }\n")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", path,
                    tmp_path / "other.c"], check=True)
    ctypes.CDLL(str(path), os.RTLD_LOCAL)
    return str(path)


def assert_refused(result, library):
    said = result.stderr.splitlines()[-1]
    assert result.returncode == 1, result.stderr
    assert said.startswith("ImportError: Tandem's compiler uses LLVM of this machine, but would "
                           "call the one in ")
    assert library in said and "without sys.setdlopenflags(os.RTLD_GLOBAL)" in said


@needs_shared_llvm
def test_a_library_with_global_symbols_of_llvm_is_named(other):
    assert_refused(run(other, "global", "after"), other)


@pytest.mark.parametrize("flags,when", [("local", "after"), ("local", "before"),
                                        ("global", "before")])
def test_other_orders_and_flags_work(other, flags, when):
    result = run(other, flags, when)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="this Python has no Triton")
def test_triton():
    for flags, when in [("local", "after"), ("local", "before"), ("global", "before")]:
        result = run("triton", flags, when)
        assert result.returncode == 0, result.stderr
    result = run("triton", "global", "after")
    if is_shared():
        assert_refused(result, "libtriton.so")
    else:
        assert result.returncode == 0, result.stderr
