#===- test_following.py - Whether states follow ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tests of the measurement of states that follow, and
# that its page is what was measured.
#
#===----------------------------------------------------------------------===#

import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/following"), str(ROOT / "benchmarks")]
import following  # noqa: E402
import following_page  # noqa: E402
from common import load  # noqa: E402


@pytest.fixture(scope="module")
def results():
    return load("following")


def test_float64_is_adam():
    exact = following.Exact(0.9, 0.99)
    for gradient in (1.0, 3.0):
        exact.step(np.full(following.SIZE, gradient))
    assert exact.m[0] == pytest.approx(0.9 * 0.1 * 1 + 0.1 * 3)
    assert exact.v[0] == pytest.approx(0.99 * 0.01 * 1 + 0.01 * 9)


def test_states_of_f32_follow():
    figures = following.measure("fp32", 0.9, 0.95)
    assert following.follows(figures), figures


def test_an_update_is_the_one_of_the_graph():
    """What is measured is what a step takes from a weight."""
    stored = following.Stored("fp32", 0.9, 0.99, seed=1)
    stream = following.Stream(following.Elements.make())
    for _ in range(3):
        before = stored.planes["param"].copy()
        stored.step(stream.gradient())
    np.testing.assert_allclose(before - stored.planes["param"],
                               following.LR * stored.update(), rtol=2e-2, atol=1e-8)


@pytest.mark.parametrize("change", [
    {"ghosts": {"0.2": 0.0, "0.02": 0.0, "0.002": 0.02}},
    {"x3": {"0.2": 1.0, "0.02": 0.8, "0.002": 1.0}},
    {"x0.3": {"0.2": 1.2, "0.02": 1.0, "0.002": 1.0}},
    {"rest": 2.72}])
def test_each_fault_is_one(change):
    ones = {"0.2": 1.0, "0.02": 1.0, "0.002": 1.0}
    good = {"ghosts": dict.fromkeys(ones, 1e-8), "x3": ones, "x0.3": ones, "rest": 1.0}
    assert following.follows(good)
    assert not following.follows(good | change)


def test_a_strategy_that_does_not_exist(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["following.py", "fp23"])
    with pytest.raises(SystemExit):
        following.main()
    assert "there is no strategy 'fp23'; choose from" in capsys.readouterr().err


def test_all_strategies_are_measured(results):
    import tandem

    assert set(results["strategies"]) == set(tandem.strategies()), "run scripts/following.sh"


def test_what_was_measured_is_what_happens(results):
    """A strategy that follows and one that leaves a ghost, measured again."""
    for name in ("collage-plus", "residual-softsign-root"):
        (recorded,) = [r for r in results["strategies"][name] if r["beta2"] == 0.95]
        measured = following.measure_ghosts(name, 0.9, 0.95, 100)
        assert measured == pytest.approx(recorded["ghosts"], rel=1e-6)


def test_page_is_up_to_date(results):
    assert (ROOT / "docs/Following.md").read_text() == following_page.page(results), (
        "run benchmarks/following/following_page.py")
