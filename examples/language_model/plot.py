# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's plot: six panels, the colours of Okabe and Ito, one legend."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.ticker import PercentFormatter  # noqa: E402

from stream import StreamError  # noqa: E402
from train import Record  # noqa: E402

# A colour for each family; the dashes tell its members apart.
STYLES = {
    "fp32": ("#000000", "-"),
    "bf16": ("#D55E00", "-"),
    "bf16-stochastic": ("#D55E00", ":"),
    "bf16-kahan": ("#E69F00", "-"),
    "collage-light": ("#56B4E9", "--"),
    "collage-light-f32": ("#56B4E9", ":"),
    "collage-plus": ("#0072B2", "--"),
    "collage-plus-f32": ("#0072B2", ":"),
    "fp32-optim": ("#CC79A7", "--"),
    "master-weights": ("#009E73", "-."),
    "remainder": ("#009E73", ":"),
    "residual-softsign-root": ("#F0E442", "-"),
    "residual-softsign-root+coat": ("#8B5E00", "--"),
}
OTHER_STYLE = ("#777777", "-.")


def smooth(values: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """A running mean over a fiftieth of the run, with the steps it ends at."""
    window = max(5, len(values) // 50)
    mean = np.convolve(values, np.full(window, 1 / window), mode="valid")
    return np.arange(window, len(values) + 1), mean


def style_of(strategy: str) -> dict[str, object]:
    """How a strategy's line looks in every panel: in f16 as in bf16, but paler."""
    names = (strategy, strategy.removeprefix("f16-"))
    colour, dashes = next((STYLES[n] for n in names if n in STYLES), OTHER_STYLE)
    alpha = 0.5 if strategy.startswith("f16") else 1.0
    return {"color": colour, "linestyle": dashes, "linewidth": 1.6, "alpha": alpha}


def draw_curves(axes: Axes, records: list[Record], name: str, title: str) -> None:
    """One smoothed line per strategy of the record's list `name`."""
    for record in records:
        steps, values = smooth(getattr(record, name))
        axes.plot(steps, values, label=record.strategy, **style_of(record.strategy))
    label_steps(axes, title)


def label_steps(axes: Axes, title: str) -> None:
    """Title, axis and grid of a panel over the steps."""
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)


def draw_loss(axes: Axes, records: list[Record]) -> None:
    """Training loss, without the steep start that would hide the rest."""
    draw_curves(axes, records, "train_loss", "Training loss (running mean)")
    axes.set_ylabel("nats per character")
    curves = [smooth(record.train_loss)[1] for record in records]
    early = max(curve[len(curve) // 10] for curve in curves)
    lowest = min(curve.min() for curve in curves)
    axes.set_ylim(lowest - 0.05 * (early - lowest), early + 0.1 * (early - lowest))


def draw_difference(axes: Axes, records: list[Record]) -> None:
    """Training loss against one strategy's, which cancels the batches' noise."""
    baseline = next((r for r in records if r.strategy == "fp32"), records[0])
    for record in records:
        gap = np.subtract(record.train_loss, baseline.train_loss)
        axes.plot(*smooth(gap.tolist()), **style_of(record.strategy))
    label_steps(axes, f"Training loss above {baseline.strategy}'s, same batches")


def draw_validation(axes: Axes, records: list[Record]) -> None:
    """Validation loss after the steps where it was taken."""
    for record in records:
        steps, losses = record.validation_steps, record.validation_loss
        axes.plot(steps, losses, marker=".", **style_of(record.strategy))
    label_steps(axes, "Validation loss")


def draw_errors(
    axes: Axes, records: list[Record], errors: dict[str, StreamError]
) -> None:
    """A bar per strategy for the stored weight, a mark for the visible one."""
    names = [record.strategy for record in records]
    stored = [errors[name].stored for name in names]
    visible = [errors[name].visible for name in names]
    floor = min(filter(None, stored), default=1e-8) / 3
    colours = [style_of(name)["color"] for name in names]
    axes.barh(names, stored, color=colours)
    axes.plot(visible, names, "k|", markersize=14)
    for row, error in enumerate(stored):
        place = {"transform": axes.get_yaxis_transform(), "ha": "right"}
        axes.text(0.985, row, f"{error:.1e}", va="center", fontsize=9, **place)
    axes.set_xscale("log")
    axes.set_xlim(floor, max(visible + stored) * 50)
    axes.invert_yaxis()
    axes.set_title("Weight error against float64 AdamW, fixed gradients")
    axes.set_xlabel(
        "relative to the distance moved\n"
        "bar, number: the stored weight; mark: the visible weight"
    )
    axes.grid(alpha=0.3, axis="x")


def draw(path: Path, records: list[Record], errors: dict[str, StreamError]) -> None:
    """Writes the figure as a PNG."""
    figure, panels = plt.subplots(2, 3, figsize=(17, 9))
    (loss, difference, validation), (ratio, lost, error) = panels
    draw_loss(loss, records)
    draw_difference(difference, records)
    draw_validation(validation, records)
    draw_curves(ratio, records, "edq_ratio", "EDQ / norm of the intended update")
    draw_curves(lost, records, "lost_share", "Share of lost updates")
    lost.yaxis.set_major_formatter(PercentFormatter(1.0))
    draw_errors(error, records, errors)
    handles, labels = loss.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)
