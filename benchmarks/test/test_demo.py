#===- test_demo.py - The demo's figure and its script ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the figure of examples/language_model and the options of scripts/demo.sh.
#
#===----------------------------------------------------------------------===#

import itertools
import math
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples/language_model"
# Both the demo and the tests have a module `model`.
sys.path.insert(0, str(DEMO))
import outcomes  # noqa: E402
import plot  # noqa: E402
import progress  # noqa: E402

sys.path.remove(str(DEMO))
from common import spread  # noqa: E402

STEPS = 300
SIX = ["fp32", "bf16", "remainder", "flash-f16", "dither-softsign-root", "coat"]
MANY = ["collage-plus", *reversed(SIX), "f16", *(f"other-{i}" for i in range(8))]


def falling(final=2.0, steps=STEPS):
    return [final + 3 * math.exp(-i / 30) for i in range(steps)]


def record(strategy, losses=None, **changes):
    """Returns the record of a run with decreasing losses, or with the given ones."""
    losses = losses or falling()
    steps = len(losses)
    visits = [i for i in range(1, steps + 1) if i % 100 == 0 or i == steps]
    lists = {"edq_ratio": [1.0] * steps, "lost_share": [0.1] * steps,
             "validation_steps": visits, "validation_loss": [losses[i - 1] for i in visits]}
    return SimpleNamespace(strategy=strategy, train_loss=losses, **(lists | changes))


def diverging(step, to=math.nan):
    """Returns decreasing losses that become another number at a step, counted from one."""
    return falling()[:step - 1] + [to] * (STEPS - step + 1)


@pytest.fixture
def draw(monkeypatch, tmp_path):
    """Returns a function that draws records and returns the figure before it is closed."""
    def drawn(records, errors=None):
        figures = []
        save = plot.save_figure
        monkeypatch.setattr(plot, "save_figure", lambda figure, path: (
            figures.append(figure), save(figure, path)))
        errors = errors or {r.strategy: SimpleNamespace(stored=1e-3, visible=1e-2)
                            for r in records}
        plot.draw(tmp_path / "demo.png", records, errors)
        assert (tmp_path / "demo.png").stat().st_size > 10_000
        return figures[0]
    return drawn


def texts(axes):
    return [text.get_text() for text in axes.texts]


def lines(axes, color):
    return [line for line in axes.lines if line.get_color() == color]

#===----------------------------------------------------------------------===#
# Names of runs
#===----------------------------------------------------------------------===#


def test_the_six_that_matter():
    assert outcomes.emphasized(MANY) == SIX
    assert outcomes.emphasized(["a", "b", "bf16"]) == ["bf16", "a", "b"]
    assert outcomes.emphasized(list("abcdefgh")) == list("abcdef")


@pytest.mark.parametrize("to", [math.nan, math.inf, 1e30, 6.0])
def test_a_diverged_run(to):
    losses = {"good": falling(), "bad": diverging(120, to)}
    found = outcomes.diverged(losses)
    assert list(found) == ["bad"] and 120 <= found["bad"] <= 123
    assert outcomes.converged(losses) == ["good"]


def test_a_run_that_recovers_has_not_diverged():
    spike = falling()
    spike[100:110] = [9.0] * 10
    assert outcomes.diverged({"good": falling(), "spike": spike}) == {}


def test_a_run_that_hardly_learns_has_neither_diverged_nor_converged():
    noise = np.random.default_rng(0).normal(0, 0.05, STEPS)
    losses = {"good": falling(), "stuck": (5 - noise).tolist()}
    assert outcomes.diverged(losses) == {}
    assert outcomes.converged(losses) == ["good"]


def test_no_run_converges():
    assert outcomes.diverged(dict.fromkeys("ab", [math.nan] * 20)) == {"a": 1, "b": 1}


def test_labels_are_spread():
    ends = {"a": 0.5, "b": 0.5, "c": 0.52, "alone": 0.9}
    places = spread(ends, 0.1, 0, 1)
    assert places == pytest.approx({"a": 0.4067, "b": 0.5067, "c": 0.6067, "alone": 0.9},
                                   abs=1e-3)
    assert spread({"a": 0.0, "b": 0.0}, 0.1, 0, 1) == pytest.approx({"a": 0, "b": 0.1})
    assert spread({"a": 1.0, "b": 1.0}, 0.1, 0, 1) == pytest.approx({"a": 0.9, "b": 1})

#===----------------------------------------------------------------------===#
# The figure
#===----------------------------------------------------------------------===#


def legend_texts(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("names", [MANY, MANY[:7], SIX])
def test_six_are_in_the_legend_and_the_others_muted(draw, names):
    figure = draw([record(name) for name in names])
    *panels, bars = figure.axes
    six = outcomes.emphasized(names)
    colors = {plot.STYLES[i][0] for i in range(6)}
    assert legend_texts(figure) == six + ["other strategies"] * (len(names) > 6)
    assert {text.get_color() for text in figure.legends[0].get_texts()[:6]} == colors
    for axes in panels:
        assert not texts(axes)
        assert all(len(lines(axes, color)) == 1 for color in colors)
        muted = lines(axes, plot.MUTED["color"])
        assert len(muted) == len(names) - 6
        assert all(line.get_linewidth() < 1 for line in muted)
    assert [label.get_text() for label in bars.get_yticklabels()] == names


@pytest.mark.parametrize("steps", [10, STEPS])
@pytest.mark.parametrize("names", [SIX[:1], SIX, MANY[:7], MANY])
def test_texts_are_inside_of_the_figure_and_apart(draw, names, steps):
    """Nothing is cut off, no title covers another, and the panels take most of the width."""
    figure = draw([record(name, falling(2 + i / 1e4, steps)) for i, name in enumerate(names)])
    boxes = [axes.title.get_window_extent() for axes in figure.axes]
    boxes += [figure.legends[0].get_window_extent()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    boxes += [axes.get_tightbbox() for axes in figure.axes]
    for box in boxes:
        assert 0 <= box.x0 and box.x1 <= figure.bbox.x1
        assert 0 <= box.y0 and box.y1 <= figure.bbox.y1
    wide, _, validation, *_ = figure.axes
    assert wide.bbox.width > 0.5 * figure.bbox.width
    assert validation.bbox.width > 0.25 * figure.bbox.width


def test_diverged_runs_are_clipped_and_named(draw):
    good = draw([record(name) for name in SIX]).axes[0].get_ylim()
    bad = {"f16": diverging(120), "other-0": diverging(200, 1e30), "coat": diverging(150, 9.0)}
    figure = draw([record(name, bad.get(name)) for name in [*SIX, "f16", "other-0"]])
    loss, difference, *_ = figure.axes
    notes = [text for text in texts(loss) if "diverges" in text]
    assert [note.rsplit(" ", 1)[0] for note in notes] == [
        f"{name} diverges at step" for name in ("f16", "coat", "other-0")]
    assert notes[0] == "f16 diverges at step 120"
    # The panel grows only by the space for the names.
    bottom, top = loss.get_ylim()
    room = 3 * plot.LINE
    assert (bottom, top) == pytest.approx((good[0], bottom + (good[1] - bottom) / (1 - room)))
    assert difference.get_ylim()[1] < 0.1
    assert len([line for line in loss.lines if line.get_marker() == "^"]) == 3


def test_a_run_that_ends_above_the_others_is_named(draw):
    stuck = record("fp8-lm-delayed", [4.9] * STEPS)
    loss = draw([record(name) for name in SIX] + [stuck]).axes[0]
    assert "fp8-lm-delayed ends at 4.90" in texts(loss)


@pytest.mark.parametrize("records", [
    [record("bf16")], [record("a", [math.nan] * 20), record("b", [math.inf] * 20)]])
@pytest.mark.parametrize("error", [0.0, math.nan, 1e-3])
def test_figures_of_little(draw, records, error):
    """The figure can be drawn for one strategy, and if none converges."""
    errors = {r.strategy: SimpleNamespace(stored=error, visible=error) for r in records}
    draw(records, errors)

#===----------------------------------------------------------------------===#
# The demo
#===----------------------------------------------------------------------===#


def test_demo_runs_without_warnings(tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-W",
         "error::PendingDeprecationWarning", DEMO / "demo.py", "--quick", "--steps", "10",
         "--strategies", "fp32,bf16,coat+coat,dither-softsign-root", "--threads", "1", "--output",
         tmp_path],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"demo.md", "demo.json", "demo.png"}


def test_a_warning_replaces_a_live_line(monkeypatch, capsys):
    messages = []
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: messages.append(message))
    progress.put_warnings_on_lines_of_their_own()
    shown = progress.Progress("run", 10)
    shown.shown = -math.inf
    shown.update(5, "loss 1")
    warnings.showwarning("look", UserWarning, "file.py", 1)
    written = capsys.readouterr().out
    assert messages == ["look"] and "loss 1" in written and written.endswith(progress.CLEAR)


@pytest.fixture
def script(tmp_path):
    """Runs scripts/demo.sh with stubs for installing, building and training."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    copy = shutil.copy(ROOT / "scripts/demo.sh", tmp_path / "scripts")
    for name in ("scripts/setup.sh", "scripts/build.sh", ".venv/bin/python"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {Path(name).stem} "$@"\n')
        (tmp_path / name).chmod(0o755)

    def run(*arguments):
        return subprocess.run([copy, *arguments], capture_output=True, text=True,
                              env={"PATH": os.defpath})
    return run


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--quick", "--seed", "1", "--help"]])
def test_help_does_not_build(script, arguments):
    done = script(*arguments)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith("usage: demo.sh")
    assert not re.search("^(setup|build|python)", done.stdout, re.MULTILINE)


def test_help_has_the_options_of_the_demo(script):
    options = re.findall(r'add_argument\(\s*"(--\w+)"', (DEMO / "demo.py").read_text())
    listed = re.findall(r"^  (--\w+)", script("--help").stdout, re.MULTILINE)
    assert sorted(listed) == sorted([*options, "--help"])


@pytest.mark.parametrize("arguments, message", [
    (["--quick", "--fast"], "unknown option --fast"), (["fast"], "unexpected argument fast"),
    (["--steps"], "--steps needs a value")])
def test_wrong_options_do_not_build(script, arguments, message):
    done = script(*arguments)
    assert done.returncode == 2 and not done.stdout
    assert message in done.stderr


def test_options_reach_the_demo(script):
    arguments = ["--quick", "--strategies", "fp32,bf16", "--steps=20", "--output", "a b"]
    done = script(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "setup", "build", "python examples/language_model/demo.py " + " ".join(arguments)]
