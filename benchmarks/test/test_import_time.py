#===- test_import_time.py - The measurement of imports ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/import_time.py, and that steps import nothing.
#
#===----------------------------------------------------------------------===#

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import import_time


def test_imports_are_counted_apart():
    laps = import_time.medians("imports", "tandem.torch", 1)
    assert list(laps) == ["import torch", "import tandem.torch"]
    assert laps["import torch"]["own"] == 0 and laps["import tandem.torch"]["other"] == 0
    assert laps["import torch"]["other"] > 500 and laps["import tandem.torch"]["own"] > 50
    assert all(costs["cpu"] > 1 and costs["wall"] > 1 for costs in laps.values())


def test_steps_import_no_more_than_pytorchs_profiler():
    laps = import_time.in_new_process("start", "flash-f16")
    assert list(laps) == ["create flash-f16", "first step", "second step"]
    assert [costs["own"] for costs in laps.values()] == [0, 0, 0]
    assert laps["create flash-f16"]["other"] == laps["second step"]["other"] == 0
    assert laps["first step"]["other"] < 5
