#===- emulation.py - Kernels for AArch64 in tests --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file gives tests the emulated kernels of verification/emulated.py.
#
#===----------------------------------------------------------------------===#
"""Compiles kernels that run their code for AArch64 under an emulator."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "verification"))

import emulated  # noqa: E402

#: Skips a test if the emulator, or the runtime that runs in it, is missing.
needs_emulator = pytest.mark.skipif(bool(emulated.missing()), reason=emulated.missing())
