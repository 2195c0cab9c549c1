# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's figure: six strategies in colours, which a legend names, the others in
grey."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.ticker import PercentFormatter  # noqa: E402

import outcomes  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from common import save_figure  # noqa: E402

if TYPE_CHECKING:
    from stream import StreamError
    from train import Record

# Okabe and Ito's colours for the emphasized strategies; dashes show lines that
# coincide.
STYLES = (
    ("#000000", "-"),
    ("#D55E00", "-"),
    ("#009E73", (0, (4, 2))),
    ("#0072B2", (2, (4, 4))),
    ("#CC79A7", (0, (1, 1.5))),
    ("#E69F00", (4, (2, 6))),
)
MUTED = {"color": "#BBBBBB", "linewidth": 0.8, "zorder": 1}
NOTE = "#444444"
# The height of a line of text, as a fraction of a panel's.
LINE = 0.07
# The number of bars that fit into a low figure.
FEW = 10


@dataclasses.dataclass(frozen=True)
class Curve:
    """A run's line in one panel."""

    strategy: str
    steps: np.ndarray
    values: np.ndarray

    def end(self) -> float:
        """Returns the last value, or infinity, above every panel, if it is not
        finite."""
        return float(self.values[-1]) if np.isfinite(self.values[-1]) else math.inf


class Runs:
    """The records, and the data about them that all panels need."""

    def __init__(self, records: list[Record]):
        self.records = records
        names = [record.strategy for record in records]
        losses = {record.strategy: record.train_loss for record in records}
        self.diverged = outcomes.diverged(losses)
        self.converged = outcomes.converged(losses) or names
        self.styles = dict(zip(outcomes.emphasized(names), STYLES))
        self.steps = max(map(len, losses.values()))

    def style(self, strategy: str) -> dict[str, object]:
        """Returns the style of a strategy's line in every panel."""
        if strategy not in self.styles:
            return MUTED
        color, dashes = self.styles[strategy]
        return {"color": color, "linestyle": dashes, "linewidth": 2, "zorder": 3}

    def color(self, strategy: str) -> str:
        """Returns the colour of a strategy's labels and bars."""
        return str(self.style(strategy)["color"])

    def smoothed(self, strategy: str, values: list[float]) -> Curve:
        """Returns a running mean over a twentieth of the run."""
        return Curve(strategy, *outcomes.smooth(values, max(5, len(values) // 20)))

    def curves(self, name: str) -> list[Curve]:
        """Returns the smoothed curves of the records' list `name`."""
        return [self.smoothed(r.strategy, getattr(r, name)) for r in self.records]

    def differences(self) -> tuple[str, list[Curve]]:
        """Returns the baseline and the training losses minus its loss, which cancels
        the batches' noise."""
        base = next((r for r in self.records if r.strategy == "fp32"), self.records[0])
        return base.strategy, [
            self.smoothed(r.strategy, np.subtract(r.train_loss, base.train_loss).tolist())
            for r in self.records
        ]

    def validations(self) -> list[Curve]:
        """Returns the validation losses, at the steps after which they were
        measured."""
        return [
            Curve(r.strategy, np.array(r.validation_steps), np.array(r.validation_loss))
            for r in self.records
        ]


def limits(curves: list[Curve], shown: Runs) -> tuple[float, float]:
    """Returns the range of the emphasized converged runs after the first fifth,
    extended to nine tenths of the ends of all converged runs."""
    kept = [c for c in curves if c.strategy in shown.converged]
    vivid = [c for c in kept if c.strategy in shown.styles] or kept
    values = np.concatenate([c.values[c.steps > shown.steps / 5] for c in vivid])
    ends = np.array([c.end() for c in kept if np.isfinite(c.end())] or [0.0])
    values = np.append(values[np.isfinite(values)], np.quantile(ends, (0.05, 0.95)))
    low, high = values.min(), values.max()
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin, high + margin


def draw_panel(
    axes: Axes, curves: list[Curve], shown: Runs, title: str, notes: bool = False
) -> None:
    """Draws a line for each strategy; notes name the runs that leave the panel."""
    for curve in curves:
        marker = "o" if len(curve.steps) < 20 else ""
        style = shown.style(curve.strategy)
        axes.plot(curve.steps, curve.values, marker=marker, markersize=3, **style)
    # Beyond the last step there is room for half a marker.
    axes.set_xlim(0, 1.01 * shown.steps)
    axes.set_ylim(limits(curves, shown))
    axes.set_title(title)
    axes.set_xlabel("step")
    if notes:
        name_clipped(axes, curves, shown)


def clipped(curves: list[Curve], shown: Runs, top: float) -> list[tuple[int, str, str]]:
    """Returns (step, strategy, note) for the runs that diverged or end above the
    panel."""
    diverging = [(s, name, f"diverges at step {s}") for name, s in shown.diverged.items()]
    above = [
        (shown.steps, curve.strategy, f"ends at {curve.end():.2f}")
        for curve in curves
        if curve.strategy not in shown.diverged and curve.end() > top
    ]
    return sorted(diverging + above)


def name_clipped(axes: Axes, curves: list[Curve], shown: Runs) -> None:
    """Names the runs that leave the panel, in a free area at its top."""
    bottom, top = axes.get_ylim()
    notes = clipped(curves, shown, top)
    room = min(LINE * len(notes), 0.5)
    axes.set_ylim(bottom, bottom + (top - bottom) / (1 - room))
    for row, (step, strategy, fate) in enumerate(notes):
        height = 1 - room * (row + 0.5) / len(notes)
        color = shown.color(strategy) if strategy in shown.styles else NOTE
        draw_note(axes, step, height, f"{strategy} {fate}", color)


def draw_note(axes: Axes, step: int, height: float, text: str, color: str) -> None:
    """Draws a mark at the upper edge, and the text below it, on the side with more
    room."""
    where = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 4}
    axes.plot([step], [1], marker="^", markersize=6, color=color, **where)
    end = axes.get_xlim()[1]
    side, shift = ("right", -0.015) if step > end / 2 else ("left", 0.015)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
    place = step + shift * end, height
    axes.text(*place, text, color=color, ha=side, va="center", bbox=box, **where)


def draw_losses(panels: list[Axes], shown: Runs) -> None:
    """Draws the panels of losses, the first of which names the runs that leave it."""
    loss, difference, validation = panels
    title = "Training loss (running mean)"
    draw_panel(loss, shown.curves("train_loss"), shown, title, notes=True)
    loss.set_ylabel("nats per character")
    baseline, differences = shown.differences()
    title = f"Training loss above {baseline}'s, same batches"
    draw_panel(difference, differences, shown, title)
    draw_panel(validation, shown.validations(), shown, "Validation loss")


def draw_metrics(panels: list[Axes], shown: Runs) -> None:
    """Draws the panels of the optimizers' metrics."""
    ratio, lost = panels
    draw_panel(ratio, shown.curves("edq_ratio"), shown, "EDQ / norm of the intended update")
    draw_panel(lost, shown.curves("lost_share"), shown, "Share of lost updates")
    lost.yaxis.set_major_formatter(PercentFormatter(1.0))


def draw_errors(axes: Axes, errors: dict[str, StreamError], shown: Runs) -> None:
    """Draws a bar per strategy for the stored weight, and a mark for the visible
    one."""
    names = [record.strategy for record in shown.records]
    stored = [errors[name].stored for name in names]
    visible = [errors[name].visible for name in names]
    known = [e for e in stored + visible if e > 0 and math.isfinite(e)] or [1.0]
    axes.set_xscale("log")
    axes.set_xlim(min(known) / 10, max(known) * 2)
    axes.barh(names, stored, color=[shown.color(name) for name in names])
    axes.plot(visible, names, "|", color="#444444", markersize=12)
    for row, error in enumerate(stored):
        place = {"transform": axes.get_yaxis_transform(), "va": "center"}
        axes.text(1.02, row, f"{error:.1e}", **place)
    axes.set_ylim(max(len(names), 6) - 0.4, -0.6)
    axes.set_axisbelow(True)
    axes.set_title("Weight error against float64 AdamW,\nfixed gradients")
    axes.set_xlabel(
        "relative to the distance moved\n"
        "bar, number: the stored weight; mark: the visible weight"
    )
    emphasize_names(axes, shown)


def emphasize_names(axes: Axes, shown: Runs) -> None:
    """Sets the names of the emphasized strategies in their colours."""
    for label in axes.get_yticklabels():
        if label.get_text() in shown.styles:
            label.set_color(shown.color(label.get_text()))
            label.set_fontweight("bold")


def draw_legend(figure: Figure, shown: Runs) -> None:
    """Names the lines of all panels, in a row above them."""
    lines = {name: Line2D([], [], **shown.style(name)) for name in shown.styles}
    if len(shown.records) > len(lines):
        lines["other strategies"] = Line2D([], [], **MUTED)
    legend = figure.legend(
        lines.values(),
        lines,
        loc="outside upper left",
        ncols=len(lines),
        frameon=False,
        handlelength=3,
    )
    for text in legend.get_texts():
        if text.get_text() in shown.styles:
            text.set(color=shown.color(text.get_text()), fontweight="bold")


def make_panels(strategies: int) -> tuple[Figure, list[Axes], Axes]:
    """Creates five panels over the steps, and one of bars over the whole height."""
    figure = plt.figure(figsize=(18, 12 if strategies > FEW else 9), layout="constrained")
    grid = figure.add_gridspec(3, 3, width_ratios=(1, 1, 0.8))
    places = [grid[0, :2], grid[1, 0], grid[1, 1], grid[2, 0], grid[2, 1], grid[:, 2]]
    *panels, bars = [figure.add_subplot(place) for place in places]
    return figure, panels, bars


def draw(path: Path, records: list[Record], errors: dict[str, StreamError]) -> None:
    """Writes the figure as a PNG."""
    shown = Runs(records)
    figure, panels, bars = make_panels(len(records))
    draw_losses(panels[:3], shown)
    draw_metrics(panels[3:], shown)
    draw_errors(bars, errors, shown)
    draw_legend(figure, shown)
    save_figure(figure, path)
