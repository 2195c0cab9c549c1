#===- test_distributed.py - Results of several ranks -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/distributed: the committed results are what the programs compute, and
# the page has these numbers.
#
#===----------------------------------------------------------------------===#

import importlib.util
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "distributed")]
import common
import zero_balance

RESULTS = HERE / "results" / "distributed"
PAGE = HERE.parent / "docs" / "Distributed.md"


def page():
    return PAGE.read_text(encoding="utf-8")


def test_balance_is_what_is_committed():
    known = common.load("zero_balance", RESULTS)["models"]
    for model in zero_balance.MODELS:
        assert zero_balance.balance(model, "fp8-lm") == known[model]["fp8-lm"]


def test_greedy_is_balanced():
    """No rank exceeds the mean by more than the largest tensor, and greedy is never the worst."""
    for strategies in common.load("zero_balance", RESULTS)["models"].values():
        for ways in strategies.values():
            assert ways["greedy"]["max"] == min(way["max"] for way in ways.values())


def test_page_of_the_balance():
    for model, strategies in common.load("zero_balance", RESULTS)["models"].items():
        ways = strategies["fp8-lm"]
        numbers = " | ".join(f"{ways[way][key] / 1e9:.3f}" for way in
                             ("greedy", "in order", "in turn") for key in ("min", "max"))
        section = page()[page().index("## ZeRO"):]
        assert f"| {numbers} |" in next(row for row in section.split("\n")
                                        if row.startswith(f"| {model}"))
        low, high = zero_balance.PAPER[model]
        assert f"| {high - low:.2f} |" in page()


def test_page_of_the_bytes():
    found = common.load("parallel_bytes", RESULTS)
    for model, ratio in found["paper_ratio"].items():
        row = next(row for row in page().split("\n")
                   if row.startswith(f"| {model}") and row.endswith(f" {ratio:.2f} |"))
        wide, codes = map(float, row.split(" | ")[2:4])
        assert codes / wide == ratio
    for ranks, result in found["ranks"].items():
        wide, codes = (result[plan]["bytes per token and width"] for plan in ("bf16", "codes"))
        assert f"| {ranks} | {wide:.3f} | {codes:.3f} | {result['ratio']:.3f} |" in page()
        assert result["ratio"] == pytest.approx(codes / wide)
        gathered, scattered = (result["codes"]["forward"]["all-gather"],
                               result["codes"]["backward"]["all-to-all"])
        beside = (result["bf16"]["forward"]["all-gather"]
                  + result["bf16"]["backward"]["reduce-scatter"])
        assert f"{(gathered + scattered) / beside:.3f}" == "0.500"


def test_table_of_wrappers():
    """The page has the committed outcomes for every existing strategy."""
    import wrappers
    text = page()
    assert text == wrappers.written(text, RESULTS), "run benchmarks/distributed/wrappers.py --page"
    outcomes = common.load("wrappers", RESULTS)["outcomes"]
    assert list(outcomes) == list(wrappers.wrapper_cells.WRAPPERS)
    assert all(list(found) == list(wrappers.rows()) for found in outcomes.values())


def test_some_cells_have_the_committed_outcomes(tmp_path):
    import wrappers
    known = common.load("wrappers", RESULTS)["outcomes"]
    names = ["`coat`", "`fp8-lm`", "`gradient_release`"]
    found = wrappers.probe(names, ["GradientAllReduce"])["GradientAllReduce"]
    assert found == {name: known["GradientAllReduce"][name] for name in names}


@pytest.fixture
def steps():
    """Imports the module; another benchmarks folder has one with the same name."""
    spec = importlib.util.spec_from_file_location(
        "distributed_steps", pathlib.Path(zero_balance.__file__).with_name("steps.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_peak_of_a_step(steps, monkeypatch):
    """The peak is weights, gradients and momenta of 256 KiB each and little else; the temporary
    memory of making the model does not count."""
    monkeypatch.setattr(steps, "slowest", list)

    class Loss(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x).sum()

    def make():
        torch.empty(1 << 22)
        model = Loss(256, 256, bias=False)
        return model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=False)

    peak = steps.peak_bytes(make, lambda number, model: (torch.ones(1, 256),))
    assert 3 * 2**18 <= peak < 4 * 2**18


def test_page_of_steps(steps):
    """The page matches the results; steps are only measured manually, on a quiet machine."""
    text = page()
    if (RESULTS / "steps.json").exists():
        assert text == steps.written(text, RESULTS), "run benchmarks/distributed/steps.py --page"
    else:
        assert steps.BEGIN not in text
