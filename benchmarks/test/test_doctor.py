#===- test_doctor.py - The page of the doctor ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the results of tandem.torch.doctor, docs/Doctor.md, and the command that measures.
#
#===----------------------------------------------------------------------===#

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/doctor")]
pytest.importorskip("torch")
import doctor_page  # noqa: E402
from common import load  # noqa: E402


def test_page():
    assert doctor_page.page(load("doctor")) == (ROOT / "docs/Doctor.md").read_text(), (
        "run benchmarks/doctor/doctor_page.py")


def test_advice_is_borne_out():
    """Sentences of the page are checked when it is made: with a loss that contradicts the doctor
    there is no page."""
    content = load("doctor")
    assert "found too little in `torch.optim.AdamW`" in doctor_page.sentences(content)
    wrong = json.loads(json.dumps(content))
    for seed, run in wrong["runs"]["bf16"].items():
        run["loss"] = wrong["runs"]["fp32"][seed]["loss"]
    with pytest.raises(AssertionError):
        doctor_page.sentences(wrong)
    wrong = json.loads(json.dumps(content))
    wrong["runs"]["flash-f16"]["0"]["too_little"] = 1
    with pytest.raises(AssertionError, match="seeds disagree"):
        doctor_page.sentences(wrong)


def test_watching_costs_at_most_a_step():
    for key, of in load("doctor")["cost"].items():
        assert of["ratio"] < 2, key


@pytest.mark.parametrize("start", ("torch.optim.AdamW", "remainder"))
def test_three_seeds_agree(start):
    runs = load("doctor")["runs"][start]
    assert len(runs) >= 3
    assert {run["too_little"] == 0 for run in runs.values()} == {start == "remainder"}
    assert all(abs(run["agreement"] - 1) < 0.05 for run in runs.values())


def test_runs(tmp_path):
    """The command runs briefly, in a process of its own since the demo and the tests have modules
    with the same names."""
    result = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/doctor/doctor_runs.py"), "--seeds", "1", "--steps",
         "18", "--timed", "8", "--results", str(tmp_path), "--picture",
         str(tmp_path / "doctor.png")], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    content = load("doctor", tmp_path)
    assert content["runs"]["bf16"]["0"]["too_little"] == 10
    assert content["runs"]["flash-f16"]["0"]["too_little"] == 0
    assert "torch.optim.AdamW (has)" in content["printed"]
    assert (tmp_path / "doctor.png").stat().st_size > 10000
    assert len(content["cost"]) == 6
