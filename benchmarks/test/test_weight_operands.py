#===- test_weight_operands.py - The benchmark of operands ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the measured ways write the same codes, and that the page has the results on
# record.
#
#===----------------------------------------------------------------------===#

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import weight_operands as benchmark  # noqa: E402
from common import load  # noqa: E402


@pytest.mark.parametrize("operand", benchmark.OPERANDS)
@pytest.mark.parametrize("strategy", benchmark.STRATEGIES)
def test_both_ways_write_the_same_codes(strategy, operand):
    shape, storage = (160, 256), benchmark.OPERANDS[operand]
    kernel = benchmark.stepping(strategy, storage, "native")
    planes = benchmark.planes_of(kernel, shape, {})
    benchmark.launcher(kernel, planes, shape, 1)()
    names = [plane.name for plane in kernel.planes]
    weight = planes[names.index("param")]
    second = benchmark.encoding(storage, "bf16", "native")
    others = [weight if plane.name == "x" else plane_memory for plane, plane_memory in
              zip(second.planes, benchmark.planes_of(second, shape, {}))]
    benchmark.launcher(second, others, shape, 1)()
    codes = others[[plane.name for plane in second.planes].index("kept")]
    assert codes.any() and np.array_equal(planes[names.index("operand")], codes)


def test_the_page_has_the_results():
    text = benchmark.PAGE.read_text()
    assert benchmark.rows(load("weight_operands")) in text
