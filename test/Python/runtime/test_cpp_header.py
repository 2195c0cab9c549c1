#===- test_cpp_header.py - Errors of the C++ header ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests how tandem-cpp/Runtime.h handles errors that a program does not check.
#
#===----------------------------------------------------------------------===#

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RUNTIME = ROOT / "build/runtime/libtandem_runtime.so"
COMPILER = shutil.which("c++")
pytestmark = pytest.mark.skipif(not COMPILER or not RUNTIME.exists(),
                                reason="no C++ compiler, or no runtime in build/")

#: A program that opens a missing package as if it existed.
TAKES = """
#include "tandem-cpp/Runtime.h"
int main() {
  auto package = tdm::Package::open("missing.tdm");
  if (package || package.error().status == TDM_OK)
    return 2;
  %s
}
"""
CATCHES = """try {
    (void)package->load();
  } catch (const std::runtime_error &error) {
    std::puts(error.what());
    return 3;
  }
  return 4;"""


def run(folder, body, *flags):
    """Returns the output of a program and its exit status."""
    source, program = folder / "program.cpp", folder / "program"
    source.write_text(TAKES % body)
    subprocess.run([COMPILER, "-std=c++17", "-Wall", "-Werror", *flags,
                    f"-I{ROOT / 'runtime/include'}", source, RUNTIME, "-o", program,
                    f"-Wl,-rpath,{RUNTIME.parent}"], check=True)
    done = subprocess.run([program], cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr, done.returncode


def test_value_of_an_error_throws(tmp_path):
    printed, status = run(tmp_path, CATCHES)
    assert status == 3
    assert printed.startswith("tandem: ") and "missing.tdm" in printed


def test_value_of_an_error_without_exceptions(tmp_path):
    printed, status = run(tmp_path, "(void)package->load(); return 4;", "-fno-exceptions")
    assert status == -signal.SIGABRT
    assert printed.startswith("tandem: ") and "missing.tdm" in printed
