#===- test_following.py - Whether states follow ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the measurement of states that follow, its page, and rounding bits that are evenly
# distributed in time.
#
#===----------------------------------------------------------------------===#

import copy
import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/following"), str(ROOT / "benchmarks")]
import dither  # noqa: E402
import following  # noqa: E402
import following_page  # noqa: E402
import states  # noqa: E402
from common import load  # noqa: E402
from model.dither import dither_bits, dither_word  # noqa: E402

import tandem  # noqa: E402

ELEMENTS = following.Elements.make()


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
    """The measured update is the difference that a step makes to a weight."""
    stored = following.AdamW("fp32", 0.9, 0.99)
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


def test_a_copy_goes_on_by_itself():
    stored, stream = following.AdamW("adam8bit", 0.9, 0.99), following.Stream(ELEMENTS)
    stored.step(stream.gradient())
    before = [plane.copy() for plane in stored.planes.values()]
    other = stored.copy()
    other.step(stream.gradient())
    assert all(np.array_equal(b, p) for b, p in zip(before, stored.planes.values()))
    stored.step(copy.deepcopy(stream).gradient())
    assert other.steps == stored.steps == 2


def test_all_strategies_are_measured(results):
    names = set(tandem.strategies())
    assert set(results["strategies"]) == names, "run scripts/following.sh"
    for measured in results["strategies"].values():
        assert [figures["beta2"] for figures in measured] == list(following.BETA2)
    assert set(results["graphs"]) == {graph.name for graph in states.GRAPHS}
    for graph in results["graphs"].values():
        assert set(graph) == names


def test_what_was_measured_is_what_happens(results):
    """Measuring again gives the committed results, for strategies that follow and one with a
    ghost."""
    for name in ("collage-plus", "residual-softsign-root", "bf16"):
        (recorded,) = [r for r in results["strategies"][name] if r["beta2"] == 0.95]
        measured = following.measure_ghosts(name, 0.9, 0.95, 100)
        assert measured == pytest.approx(recorded["ghosts"], rel=1e-6)
    assert (states.measure(states.GRAPHS[0], "adam8bit")
            == pytest.approx(results["graphs"]["sgd_momentum"]["adam8bit"], rel=1e-6))


def test_a_ghost_is_found(results):
    """States that are rounded to nearest leave a ghost, which the figure also shows."""
    assert not following.follows(following.measure("adam8bit-nearest", 0.9, 0.95))
    drift = {name: trace[-1] - trace[-100] for name, trace in results["traces"].items()}
    assert min(drift["adam8bit-nearest"], drift["flash-nearest"]) > 5
    assert max(drift["adam8bit"], drift["flash"]) == 0
    assert results["peers"]["torch AdamW"]["drift"][-1] < 5


def test_no_strategy_leaves_a_ghost(results):
    """As the page says, no strategy leaves a ghost at any beta2, and none of 8 bits a remaining
    momentum."""
    for name, measured in results["strategies"].items():
        for figures in measured:
            assert max(figures["ghosts"].values()) < 1e-5, (name, figures["beta2"])
    for graph, measured in results["graphs"].items():
        for name, figures in measured.items():
            assert figures.get("left", 0.0) < 0.01 or name.endswith("-ratio4"), (name, graph)


@pytest.mark.parametrize("strategies", [
    # The recommended strategies, and all strategies with group-scaled codes.
    ("remainder", "flash", "dither-softsign-root", "adam8bit", "coat", "coat-bf16",
     "coat-remainder", "residual-softsign-f16", "residual-softsign-root", "bf16-dither")])
def test_these_follow_at_every_beta(results, strategies):
    for name in strategies:
        for figures in results["strategies"][name]:
            assert figures["follows"], (name, figures["beta2"])
        for graph, measured in results["graphs"].items():
            assert measured[name]["follows"], (name, graph)


def test_page_is_up_to_date(results):
    assert (ROOT / "docs/Following.md").read_text() == following_page.page(results), (
        "run benchmarks/following/following_page.py")


#===------------------------------------------------------------------------===#
# Evenly distributed bits
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("seed, tensor, role, step, first, word, halves", [
    (0, 0, 0, 1, 0, 0x8CC3E3C6, [0x8CC3, 0xEDCB, 0x4ED3, 0xAFDB]),
    (0x123456789ABCDEF, 7, 2, 64, 0, 0x701828CA, [0x7018, 0xD120, 0x3227, 0x932F]),
    (0x123456789ABCDEF, 7, 2, 63, 2**32 - 2, 0x459F4AE3, [0x838F, 0xE497, 0x459F, 0xA6A7]),
    (1, 2, 3, 2**32 + 130, 5, 0x29B7BECC, [0x0EDF, 0x6FE6, 0xD0EE, 0x31F6])])
def test_dither_words(seed, tensor, role, step, first, word, halves):
    """The words match values that were computed independently with Python integers."""
    assert int(dither.words(seed, tensor, role, [step])[0]) == word
    assert dither.bits(word, first, 4).tolist() == halves
    signs = np.array([True, False, True, False])
    complemented = [0xFFFF - half if sign else half for half, sign in zip(halves, signs)]
    assert dither.bits(word, first, 4, signs).tolist() == complemented


def test_the_model_has_the_same_bits():
    random = np.random.default_rng(11)
    for _ in range(50):
        seed, key, step, first = (int(n) for n in random.integers(0, 2**63, 4))
        number, step = int(random.integers(9)), step >> random.integers(63)
        word = int(dither.words(seed, key, number, [step])[0])
        assert dither_word(seed, key, number, step) == word
        assert np.array_equal(dither_bits(9, first, seed, key, number, step),
                              dither.bits(word, first, 9))


def test_each_window_has_each_stratum_once():
    strata = dither.words(5, 1, 1, np.arange(64 * 100)) >> np.uint32(26)
    assert (np.sort(strata.reshape(100, 64), axis=1) == np.arange(64)).all()


def test_a_rounding_is_unbiased_over_seeds():
    """A fraction f rounds up for a share f of all seeds; here, of independent windows."""
    words = dither.words(3, 0, 0, np.arange(0, 64 * 20000, 64)).astype(np.float64) / 2**32
    for fraction in (0.1, 0.5, 0.93):
        share = float((words + fraction >= 1).mean())
        assert share == pytest.approx(fraction, abs=4 * (0.25 / 20000) ** 0.5)


def test_steady_errors_stay_bounded():
    """Errors stay bounded, while those of random bits grow as the root of the additions."""
    for additions in (200, 20000):
        assert np.abs(dither.errors("dither", 1, additions, 64)).max() < 4
    assert np.sqrt(np.mean(dither.errors("random", 1, 20000, 64) ** 2)) > 20


def test_no_interval_resonates():
    """Without windows, golden steps err 12.8 times as much as random bits at every 987th step."""
    for interval in (*range(1, 40), 55, 89, 144, 233, 377, 610, 987):
        assert dither.ratio(interval, 200) < 2, interval
