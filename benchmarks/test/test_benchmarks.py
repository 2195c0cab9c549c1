#===- test_benchmarks.py - The page of benchmarks --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the page of benchmarks is up to date with the results.
#
#===----------------------------------------------------------------------===#

import json
import re
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


def test_tables_are_whole():
    """Each of the library's strategies was measured with this machine's instructions and with
    AVX2, on one thread and on two, or the page says that it was not. It says which features the
    processor has."""
    result = json.loads((ROOT / "benchmarks/results/cpu_step.json").read_text())
    features = result["machine"]["features"]
    page = (ROOT / "docs/Benchmarks.md").read_text()
    assert features and f"with {', '.join(features)}" in page
    cases = result["sizes"]["16M"]
    named = re.search(r"Strategies that were not measured: (.*)\.", page)
    unmeasured = re.findall(r"`([\w-]+)`", named[1]) if named else []
    assert not set(unmeasured) & set(cases)
    for path in (ROOT / "lib/Strategies").glob("*.mlir"):
        if path.stem in unmeasured:
            continue
        for threads in ("threads_1", "threads_2"):
            measured = cases[path.stem][threads]
            assert measured["step"] > 0 and measured["x86-64-v3"] > 0, path.stem
