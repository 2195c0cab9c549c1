#===- papers_figures.py - Plots of docs/Papers.md --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the plots of the page on papers, written to docs/images.
#
#===----------------------------------------------------------------------===#
"""Sharpness, curves of losses and landscapes."""

import math
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import save_figure  # noqa: E402
from paper import TABLE_1, TABLE_1_STEPS  # noqa: E402

# Okabe and Ito's colours; dashes tell apart what follows.
COLOURS = ("#D55E00", "#E69F00", "#009E73", "#56B4E9", "#0072B2", "#CC79A7", "#000000")
DASHES = ("-", "--", ":")
#: Curves in the plots of losses show no more than this.
TOP_NATS = 5.0


def _style(index: int) -> dict:
    return {"color": COLOURS[index % len(COLOURS)], "linewidth": 1.5,
            "linestyle": DASHES[index // len(COLOURS) % len(DASHES)]}


def _floats(values: list) -> list[float]:
    """JSON's null is a value that is not finite, which a plot leaves out."""
    return [math.nan if value is None else value for value in values]


def first_cells(result: dict) -> dict[str, dict]:
    """The first cell of each variant, by the variant's name."""
    return {name: next(iter(next(iter(by_lr.values())).values()))
            for name, by_lr in result["cells"].items()}


def sharpness(result: dict | None, path: pathlib.Path) -> None:
    """Sharpness by step, in the paper and here."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8))
    for index, (name, values) in enumerate(TABLE_1.items()):
        left.plot(TABLE_1_STEPS, values, label=name, marker="o", **_style(index))
    left.set_title("the paper: Llama 7B, table 1", fontsize=10)
    if result is None:
        right.text(0.5, 0.5, "not run yet", ha="center", transform=right.transAxes)
    for index, name in enumerate(TABLE_1 if result else ()):
        if name in result["cells"]:
            points = first_cells(result)[name]["checkpoints"]
            right.plot([point["step"] for point in points],
                       _floats([point["sharpness"]["0.0005"] for point in points]),
                       label=name, marker="o", markersize=4, **_style(index))
    right.set_title("here: the toy model", fontsize=10)
    for axes in (left, right):
        axes.set_xlabel("steps")
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    left.set_ylabel("sharpness in percent")
    left.legend(fontsize=8, frameon=False)
    save_figure(figure, path)


def losses(result: dict, path: pathlib.Path) -> None:
    """The losses of each variant's first cell."""
    figure, axes = plt.subplots(figsize=(8.5, 3.8))
    for index, (name, cell) in enumerate(first_cells(result).items()):
        values = np.minimum(_floats(cell["curve"]), TOP_NATS)
        steps = (np.arange(len(values)) + 0.5) * cell["steps"] / len(values)
        axes.plot(steps, values, label=name, **_style(index))
    axes.set_xlabel("steps")
    axes.set_ylabel("loss in nats")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save_figure(figure, path)


def seeds(result: dict, path: pathlib.Path) -> None:
    """The losses of all seeds, a panel for each variant and rate."""
    panels = [(name, lr, by_seed) for name, by_lr in result["cells"].items()
              for lr, by_seed in by_lr.items()]
    figure, grid = plt.subplots(1, len(panels), sharey=True, squeeze=False,
                                figsize=(2.9 * len(panels), 3.2))
    for axes, (name, lr, by_seed) in zip(grid[0], panels):
        for index, cell in enumerate(by_seed.values()):
            values = np.minimum(_floats(cell["curve"]), TOP_NATS)
            axes.plot((np.arange(len(values)) + 0.5) * cell["steps"] / len(values), values,
                      color=COLOURS[index % len(COLOURS)], linewidth=0.8)
        axes.set_title(f"{name}, lr {lr}", fontsize=10)
        axes.set_xlabel("steps")
    grid[0][0].set_ylabel("loss in nats")
    save_figure(figure, path)


def landscape(result: dict, path: pathlib.Path) -> None:
    """The planes of losses at the checkpoints."""
    planes = next(iter(first_cells(result).values()))["planes"]
    figure, panels = plt.subplots(1, len(planes), figsize=(4.6 * len(planes), 4), squeeze=False)
    for axes, plane in zip(panels[0], planes):
        values = np.array([_floats(row) for row in plane["losses"]])
        places = np.linspace(-1, 1, len(values))
        drawn = axes.contourf(places, places, np.log(values), levels=24, cmap="viridis")
        figure.colorbar(drawn, ax=axes, label="log of the loss")
        axes.set_title(f"step {plane['step']}", fontsize=10)
    save_figure(figure, path)


#: The plot of each study, docs/images/papers-STUDY.png.
PLOTS = {"exponents": losses, "sharpness": losses, "spikes": seeds, "seeds": seeds,
         "landscape": landscape, "fp8-lm-head": losses, "long": losses}


def write(results: dict[str, dict | None], folder: pathlib.Path) -> None:
    """Writes the plots of the studies that have results."""
    sharpness(results["sharpness"], folder / "papers.png")
    for name, plot in PLOTS.items():
        if results[name]:
            plot(results[name], folder / f"papers-{name}.png")
