#===- test_comparison.py - The comparison with others ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/comparison on the frameworks that are always installed, and the
# committed page.
#
#===----------------------------------------------------------------------===#

import json
import re
import shutil
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")

ROOT = Path(__file__).resolve().parents[2]
COMPARISON = ROOT / "benchmarks/comparison"
RESULTS = ROOT / "benchmarks/results/comparison"
sys.path.append(str(COMPARISON))

import comparison_page  # noqa: E402
import exact  # noqa: E402
import inputs  # noqa: E402
import programs  # noqa: E402
import score  # noqa: E402
import with_numpy  # noqa: E402
import with_tandem  # noqa: E402

#: The cases with smaller sizes.
CASES = {name: replace(case, size=64 if case.steps else 2048, steps=min(case.steps, 20))
         for name, case in programs.CASES.items()}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)

#===----------------------------------------------------------------------===#
# The definition
#===----------------------------------------------------------------------===#


def random_bits(seed=0, count=3000):
    return np.random.default_rng(seed).integers(0, 1 << 16, count).astype(np.uint16)


@pytest.mark.parametrize("format", inputs.DTYPES)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_units(format):
    """Integer multiples of the unit have the values that NumPy reads."""
    bits = random_bits()
    least = Fraction(2) ** exact.FORMATS[format].least
    for value, units in zip(inputs.view(format, bits).astype(np.float64).tolist(),
                            exact.units(format, bits)):
        if units is None:
            assert not np.isfinite(value)
        else:
            assert Fraction(value) == units * least


@pytest.mark.parametrize("number, drop, precision, want", (
    (5, 1, 8, 2), (7, 1, 8, 4), (-5, 1, 8, -2), (-7, 1, 8, -4), (6, 1, 8, 3), (0, 3, 8, 0),
    (1, 1, 8, 0), (3, 1, 8, 2), (9, 0, 3, 8), (11, 0, 3, 12), (17, 0, 3, 16), (15, 0, 3, 16)))
def test_round_even(number, drop, precision, want):
    assert exact.round_even(number, drop, precision) == want


def test_cases_are_hard():
    """Every kind of pair has error terms, and no intermediate result is infinite."""
    for case in CASES.values():
        if case.steps:
            continue
        _, terms = exact.definition(case, inputs.planes(case))
        for name, part in inputs.slices(case):
            assert any(terms[part]) or (name == "subnormal" and not case.is_product)


#===----------------------------------------------------------------------===#
# Frameworks
#===----------------------------------------------------------------------===#


def assert_as_defined(found):
    assert found["equal"] == found["of"]
    assert found["lost_error_terms"] == 0
    assert found["largest_error"] == found["definition_error"]


@each_case
def test_numpy(case):
    result = with_numpy.run(case, inputs.planes(case), "")
    assert_as_defined(score.score(case, result))


@pytest.mark.parametrize("target", with_tandem.VARIANTS)
@each_case
def test_tandem(case, target):
    planes = inputs.planes(case)
    result = with_tandem.run(case, planes, target)
    assert_as_defined(score.score(case, result))
    # Tandem also guarantees the signs of zeros, which the score ignores.
    for got, want in zip(result, with_numpy.run(case, planes, "")):
        np.testing.assert_array_equal(got, want)


def test_score_finds_lost_terms():
    """The score detects results without error terms, such as those of sums in f32."""
    case = CASES["two_sum_bf16"]
    result, terms = with_numpy.run(case, inputs.planes(case), "")
    found = score.score(case, [result, np.zeros_like(terms)])
    assert found["lost_error_terms"] == found["error_terms"] > case.size // 2
    assert found["wrong_results"] == 0
    assert 0 < found["largest_error"] <= 1
    assert comparison_page.kind(found) == "some"
    assert comparison_page.terms_cell(found) == "**zero in all**"


def test_score_of_nan():
    case = CASES["kahan_bf16"]
    result, terms = with_numpy.run(case, inputs.planes(case), "")
    result[0] = 0x7FC0
    found = score.score(case, [result, terms])
    assert found["equal"]["all"] == case.size - 1
    assert found["largest_error"] is None


#===----------------------------------------------------------------------===#
# The page
#===----------------------------------------------------------------------===#


def test_page_is_up_to_date():
    assert (ROOT / "docs/Comparison.md").read_text() == comparison_page.page(RESULTS), \
        "run scripts/compare.sh"


def test_inputs_are_those_of_the_results():
    """The committed counts of error terms match the current inputs."""
    found = json.loads((RESULTS / "numpy.json").read_text())["variants"][""]["cases"]
    assert set(found) == set(programs.CASES)
    for name in ("two_sum_f16", "mul_bf16"):
        case = programs.CASES[name]
        result = with_numpy.run(case, inputs.planes(case), "")
        assert score.score(case, result) == found[name]


def test_versions_are_those_required():
    pins = dict(re.findall(r"(?m)^(\w+)==(\S+)$",
                           (COMPARISON / "requirements.txt").read_text()))
    for path in RESULTS.glob("*.json"):
        for name, version in json.loads(path.read_text()).get("versions", {}).items():
            assert version.split("+")[0] == pins.get(name, version), path.name


@pytest.fixture
def copied(tmp_path):
    return Path(shutil.copytree(RESULTS, tmp_path / "comparison"))


def test_claims_are_checked(copied):
    """A result that contradicts a paragraph prevents the page from being written."""
    path = copied / "torch.json"
    content = json.loads(path.read_text())
    case = content["variants"]["compile"]["cases"]["two_sum_bf16"]
    case["equal"] = case["of"]
    path.write_text(json.dumps(content))
    with pytest.raises(SystemExit, match="torch compile gives all of two_sum_bf16"):
        comparison_page.page(copied)


def test_absent(copied):
    """The page gives the reason why a framework could not be installed."""
    path = copied / "triton.json"
    machine = json.loads(path.read_text())["machine"]
    path.write_text(json.dumps({"machine": machine, "absent": "no such version"}))
    text = comparison_page.page(copied)
    assert "## Triton\n\nIt did not run: no such version." in text
    assert "Triton, sm_90" not in text
