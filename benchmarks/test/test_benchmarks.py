#===- test_benchmarks.py - The page of benchmarks --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the page of benchmarks is up to date with the results.
#
#===----------------------------------------------------------------------===#

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_page_is_up_to_date(tmp_path):
    page = ROOT / "docs/Benchmarks.md"
    made = subprocess.run([sys.executable, ROOT / "benchmarks/report.py", "--output",
                           tmp_path / "Benchmarks.md"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "Benchmarks.md").read_text() == page.read_text(), (
        "run benchmarks/report.py")
