#===- test_emulated.py - The runtime on another architecture ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the runtime for AArch64 under an emulator: its conformance tests, and packages that
# it loads. scripts/build.sh --target aarch64 --runtime builds it.
#
#===----------------------------------------------------------------------===#

import os
import platform
import subprocess

import numpy as np
import pytest

import tandem
from support.emulation import emulated, needs_emulator
from support.kernels import compiled

SUITE = emulated.BUILD / "runtime/cts/tandem_runtime_cts"


def launch(path, count=4):
    """Launches a kernel of plain SGD on weights and gradients of 1."""
    hypers, integers = compiled("sgd", "fp32").scalars({"lr": 0.5, "weight_decay": 0})
    planes = [np.ones(count, np.float32) for _ in range(2)]
    flags = emulated.launcher().launch(path, "sgd", hypers, integers, planes, (1, count), 0, 0, 1)
    return flags, planes[0]


@needs_emulator
def test_the_conformance_tests_pass():
    """Death tests start the program again, which an emulator of single processes cannot. The
    variables of this process name drivers of another architecture."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("TANDEM_")}
    run = subprocess.run([*emulated.emulator(), SUITE, "--gtest_brief=1",
                          "--gtest_filter=-*DeathTest.*"], capture_output=True, text=True,
                         env=environment | {"TANDEM_CACHE_DIR": ""})
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert "[  PASSED  ]" in run.stdout


@needs_emulator
def test_the_best_image_is_taken(tmp_path):
    path = tmp_path / "sgd.tdm"
    compiled("sgd", "fp32").save(path)
    flags, weights = launch(path)
    assert flags == 0 and (weights == 0.5).all()


@needs_emulator
def test_code_of_another_architecture_is_refused(tmp_path):
    path = tmp_path / "sgd.tdm"
    compiled("sgd", "fp32").save(path, ["x86-64", "sm_90"])
    with pytest.raises(ValueError, match="no image runs on cpu; there are some for x86-64, sm_90; "
                       "compile it for aarch64, which every AArch64 processor runs"):
        launch(path)


@pytest.mark.skipif(platform.machine() == "aarch64", reason="this machine runs it")
def test_code_for_aarch64_is_compiled_and_not_run_here():
    with pytest.raises(ValueError, match="this machine cannot run code for 'aarch64': it is "
                       "another architecture"):
        tandem.compile("sgd", "fp32", isa="aarch64")
    assert tandem.compile("sgd", "fp32", "aarch64").image.startswith(b"\x7fELF")
