#===- test_distributed_sums.py - Measurements of sums ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/distributed: the section is that of the results, and both programs run.
#
#===----------------------------------------------------------------------===#

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks/distributed"


def run(name, folder, *options):
    subprocess.run([sys.executable, FOLDER / f"{name}.py", "--folder", folder, *options],
                   check=True, timeout=200)
    return json.loads((folder / f"{name}.json").read_text())


def test_page_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import sums_page
    page = sums_page.PAGE.read_text()
    assert page == sums_page.written(page, sums_page.RESULTS), (
        "run benchmarks/distributed/sums_page.py")


def test_bytes(tmp_path):
    """Counted bytes exceed the formula only by the scales."""
    found = run("bytes", tmp_path, "--ranks", "2", "3")
    for count, at in ((2, 0), (3, 1)):
        formula = found["formulas"][str(count)]["codes, summed in slices"]
        for name, rows in found["counted"].items():
            if name == "fp8_all_gather" and count == 3:
                continue  # rows of most matrices do not divide evenly by three
            share = 0.5 if name in ("FP8ReduceScatter", "fp8_all_gather") else 1.0
            assert share * formula < rows[at]["sent"][1] < 1.1 * share * formula, name


def test_noise(tmp_path):
    """Without saturation, the error of an 8-bit sum is between 1 % and 10 % of the signal."""
    found = run("noise", tmp_path, "--ranks", "2", "--steps", "2")
    for rows in found["rows"].values():
        by_name = {(row["order"], row["scaling"]): row for row in rows}
        assert 20 < by_name["slices", "pre-scaling"]["snr_db"] < 40
        # For two ranks, both orders round the single sum once.
        assert (by_name["slices", "pre-scaling"]["snr_db"]
                == by_name["chain", "pre-scaling"]["snr_db"])
