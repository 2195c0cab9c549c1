#===- test_products.py - Products of 8-bit floats --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the comparison of products with Hopper's, with stand-ins for mmaemu's model.
#
#===----------------------------------------------------------------------===#

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/products")]

import common  # noqa: E402
import hopper  # noqa: E402


class Exact:
    """A GPU that rounds once to bf16 and multiplies sums by a factor."""

    version = "0"

    def __init__(self, factor=1.0):
        self._factor, self.fast = factor, []

    def sums(self, x, w, fast):
        self.fast.append(fast)
        return self._factor * (x.double() @ w.double().t())

    def scaled(self, sums, scales):
        return (sums * scales[0].double() * scales[1].double()).bfloat16()


@pytest.mark.parametrize("direction, fast", (("forward", True), ("backward", False)))
def test_a_case(direction, fast):
    case, gpu = hopper.Case(direction, "normal", 16, 24, 160), Exact()
    found = hopper.compare(case, gpu)
    assert gpu.fast == [fast]
    assert found["sums"]["hopper"] == 0
    assert found["sums"]["ours"] == found["sums"]["apart"] < 1e-6
    assert 5e-4 < found["bf16"]["hopper"] < 4e-3
    assert found["bf16"]["different"] < 0.01 and found["bf16"]["apart"] < 1e-3


def test_differences_are_relative():
    found = hopper.compare(hopper.Case("forward", "outliers", 16, 24, 160), Exact(1.25))
    assert found["sums"]["hopper"] == pytest.approx(0.25)
    assert found["sums"]["apart"] == pytest.approx(0.25, abs=1e-6)
    assert found["bf16"]["hopper"] == pytest.approx(0.25, abs=1e-2)
    assert found["bf16"]["different"] > 0.9


def test_cases_and_the_page():
    result = {"rows": hopper.measure(Exact(1.0 + 2**-12), quick=True)}
    assert len(result["rows"]) == 8
    table = hopper.table_of(result)
    assert table.count("\n") == 5 and "| forward, 512 | " in table and "2.4e-04" in table
    page = hopper.page_with(f"a\n\n{hopper.BEGIN}\n\nold\n\n{hopper.END}\n\nb\n", result)
    assert page == f"a\n\n{hopper.BEGIN}\n\n{table}\n\n{hopper.END}\n\nb\n"


def test_page_is_up_to_date():
    text = (ROOT / "docs/Layers.md").read_text()
    result = common.load("hopper")
    assert {row["depth"] for row in result["rows"]} == set(hopper.DEPTHS)
    assert text == hopper.page_with(text, result), "run scripts/hopper.sh"


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "mmaemu", None)
    with pytest.raises(SystemExit, match="mmaemu is not installed; scripts/hopper.sh installs"):
        hopper.Hopper()
