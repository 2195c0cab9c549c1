#===- test_first_step.py - The measurement of first steps ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/first_step.py, that a first step does about as much work for each
# tensor as that of torch.optim, and that a second process compiles nothing for it.
#
#===----------------------------------------------------------------------===#

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import first_step


@pytest.mark.parametrize("name", ["remainder", "adam8bit"])
def test_a_first_step_is_no_slower_than_torchs(name):
    """The margin is for other work on the machine."""
    first_step.measure(10, name)
    ratios = []
    for _ in range(3):
        ours = first_step.measure(1000, name)[1]
        ratios.append(ours / first_step.measure(1000, "torch foreach")[1])
    assert min(ratios) < 2.5, ratios


def test_a_second_process_compiles_nothing(tmp_path):
    assert first_step.step_of_process(str(tmp_path))["compilations"] == 2
    assert first_step.step_of_process(str(tmp_path))["compilations"] == 0
