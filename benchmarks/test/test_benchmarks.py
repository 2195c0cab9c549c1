#===- test_benchmarks.py - The page of benchmarks --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tests of what benchmarks count, and that their page is
# up to date with their results.
#
#===----------------------------------------------------------------------===#

import pathlib
import re
import subprocess
import sys
from collections import Counter

import pytest

from support.kernels import compiled

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from ptx_statistics import accesses, vector_loop


def test_widths():
    lines = ["ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];", "ld.global.b64 %rd2, [%rd3];",
             "@%p1 ld.global.nc.b16 %rs1, [%rd4];", "st.global.v2.b32 [%rd5], {%r1, %r2};",
             "ld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];", "ld.shared.b32 %r1, [%r2];"]
    assert accesses(lines, "ld") == {"128": 2, "64": 1, "16": 1}
    assert accesses(lines, "st") == {"64": 1}


def vector_accesses(kernel, kind):
    """Returns the vector accesses of a kernel with one loop, by bits."""
    body = kernel.ptx.split(f".entry tandem_{kernel.name}(")[1]
    return Counter(int(count) * int(bits) for count, bits in re.findall(
        rf"\b{kind}\.global[.\w]*\.v(\d)\.\w(\d+)", body))


@pytest.mark.parametrize("strategy,shuffles", [
    ("flash", 2 * 2), ("coat", 2 * 2 * 4), ("adam8bit", 2 * 5), ("fp8-collage-plus", 3 * 4)])
def test_statistics_of_the_loop(strategy, shuffles):
    """benchmarks/ptx_statistics.py sees each access and shuffle of the vector loop."""
    kernel = compiled("adamw", strategy, "sm_90")
    loop = vector_loop(kernel)
    assert loop["elements"] == 8 and loop["shuffles"] == shuffles
    for kind, counts in (("ld", loop["loads"]), ("st", loop["stores"])):
        wide = {int(bits): n for bits, n in counts.items() if int(bits) >= 64}
        assert wide == vector_accesses(kernel, kind), kind
    assert loop["group_reductions"] == sum(p.is_grouped and p.written
                                           for p in kernel.planes)


def test_page_is_up_to_date(tmp_path):
    page = ROOT / "docs/Benchmarks.md"
    made = subprocess.run([sys.executable, ROOT / "benchmarks/report.py", "--output",
                           tmp_path / "Benchmarks.md"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "Benchmarks.md").read_text() == page.read_text(), (
        "run benchmarks/report.py")
