#===- test_ptx_oracle.py - The evaluator and ptx_tests --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the recorded results of ptx_tests in the PTX evaluator: there are no failures, and
# the evaluator knows every emitted instruction.
#
#===----------------------------------------------------------------------===#

import json
import sys
from pathlib import Path

import pytest

from support.kernels import compiled

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "verification"))

import ptx_instructions  # noqa: E402
import verification_page as page  # noqa: E402

RECORD = json.loads((ROOT / "verification/results/ptx_tests.json").read_text())
KNOWN, TESTS = RECORD["instructions"], RECORD["tests"]
#: One in this many kernels of other graphs and layers runs, each for one chip.
STRIDE = 7
ADAMW = [("adamw", strategy, {}) for strategy in ptx_instructions.strategies()]
OTHERS = [kernel for kernel in ptx_instructions.library() if kernel not in ADAMW]


def emitted(graph, strategy, options, chip):
    """Returns a kernel's instructions."""
    if "function" in options:
        return ptx_instructions.compiled(graph, strategy, chip, options)
    return set(ptx_instructions.instructions(compiled(graph, strategy, chip, **options).ptx))


def assert_known(kernels):
    new = {name: f"{graph} {strategy} {chip}" for graph, strategy, options, chip in kernels
           for name in emitted(graph, strategy, options, chip) if name not in KNOWN}
    assert not new, "emitted, but not on record: run verification/ptx_tests.py"


@pytest.mark.parametrize("chip", ptx_instructions.CHIPS)
def test_instructions_of_adamw_are_on_record(chip):
    assert_known((*kernel, chip) for kernel in ADAMW)


@pytest.mark.parametrize("first", range(3))
def test_other_instructions_are_on_record(first):
    chips = ptx_instructions.CHIPS
    assert_known((*kernel, chips[i % len(chips)])
                 for i, kernel in list(enumerate(OTHERS[::STRIDE]))[first::3])


def test_no_failure_is_on_record():
    """Every failing test is explained and covers an instruction that Tandem does not emit."""
    for name, test in TESTS.items():
        if test["failures"]:
            assert test["disputed"], name
            assert not set(test["instructions"]) & set(KNOWN), name
        else:
            assert test["outcome"] == "passed", name


def test_every_instruction_has_cases_or_is_stated_uncovered():
    for name, entry in KNOWN.items():
        assert bool(entry["tests"]) != (entry.get("status") == "NOT COVERED BY IT"), name
        for test in entry["tests"]:
            assert TESTS[test]["cases"] == min(TESTS[test]["inputs"], 2**22), test
    assert TESTS["cvt_invalid"]["texts"] > 1000


def test_instructions_are_found():
    ptx = """.visible .entry f(.param .u64 a)
    .maxntid 256
    {
    	.reg .pred %p<2>;  // setp.ne.s32 %p1, 1, 2;
    $L1:
    	@!%p1 bra $L__BB0_2;
    	{ .reg .b16 t; cvt.rn.f16.f32 t, %f1; }
    	ld.global.v2.b32 {%r1, %r2}, [%rd1+8]; ret;
    }"""
    assert ptx_instructions.instructions(ptx) == ["bra", "cvt.rn.f16.f32",
                                                  "ld.global.v2.b32", "ret"]


def test_the_page_shows_what_fails(tmp_path):
    """The page highlights a failure without an explanation."""
    content = json.loads(json.dumps(RECORD))
    content["tests"]["add_rn_f32"] |= {"failures": 3, "disputed": ""}
    (tmp_path / "ptx_tests.json").write_text(json.dumps(content))
    text = page.foreign_text(tmp_path)
    assert "`add_rn_f32`: **unexplained failures**." in text
    assert "| `add.rn.f32` | add_rn_f32 |" in text
