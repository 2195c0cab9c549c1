#===- papers_figures.py - Plots of docs/Papers.md --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file draws the plots of the page on papers and writes them to docs/images.
#
#===----------------------------------------------------------------------===#
"""Draws sharpness, loss curves and landscapes."""

import math
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.ticker import MaxNLocator  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import save_figure  # noqa: E402
from paper import TABLE_1, TABLE_1_STEPS  # noqa: E402

# Okabe and Ito's colours; curves after the last colour are dashed.
COLOURS = ("#D55E00", "#E69F00", "#009E73", "#56B4E9", "#0072B2", "#CC79A7", "#000000")
DASHES = ("-", "--", ":")
#: Plotted losses are cut off at this value.
TOP_NATS = 5.0


def _style(index: int) -> dict:
    return {"color": COLOURS[index % len(COLOURS)], "linewidth": 1.5,
            "linestyle": DASHES[index // len(COLOURS) % len(DASHES)]}


def _floats(values: list) -> list[float]:
    """Converts values for plotting; null in JSON marks a non-finite value, which becomes NaN."""
    return [math.nan if value is None else value for value in values]


def first_cells(result: dict) -> dict[str, dict]:
    """Returns the first cell of each variant by the variant's name."""
    return {name: next(iter(next(iter(by_lr.values())).values()))
            for name, by_lr in result["cells"].items()}


def sharpness(result: dict | None, path: pathlib.Path) -> None:
    """Plots sharpness by step, in the paper and here."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8))
    for index, (name, values) in enumerate(TABLE_1.items()):
        left.plot(TABLE_1_STEPS, values, label=name, marker="o", **_style(index))
    left.set_title("the paper: Llama 7B, table 1", fontsize=10)
    if result is None:
        right.text(0.5, 0.5, "not run yet", ha="center", transform=right.transAxes)
    cells = first_cells(result) if result else {}
    for index, name in enumerate([*TABLE_1, *sorted(cells.keys() - TABLE_1.keys(), reverse=True)]):
        if name in cells:
            points = cells[name]["checkpoints"]
            right.plot([point["step"] for point in points],
                       _floats([point["sharpness"]["0.0005"] for point in points]),
                       label=name, marker="o", markersize=4, **_style(index))
    right.set_title("here: the toy model", fontsize=10)
    for axes in (left, right):
        axes.set_xlabel("steps")
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    left.set_ylabel("sharpness in percent")
    for axes in (left, right) if cells else (left,):
        axes.legend(fontsize=8, frameon=False)
    save_figure(figure, path)


def curves(result: dict) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns steps and losses of each variant's first cell. Variants with equal losses share
    one curve."""
    names: dict[tuple, list[str]] = {}
    cells = first_cells(result)
    for name, cell in cells.items():
        names.setdefault((cell["steps"], *cell["curve"]), []).append(name)
    found = {}
    for (steps, *values), same in names.items():
        places = (np.arange(len(values)) + 0.5) * steps / len(values)
        found["\n= ".join(same)] = places, np.array(_floats(values))
    return found


def losses(result: dict, path: pathlib.Path, reference: str | None = None,
           top: float = math.inf) -> None:
    """Plots the losses of each variant's first cell, and their differences from the reference's
    (by default the first variant's), up to a number of nats."""
    found = curves(result)
    lead = next(label for label in found
                if reference is None or reference in label.split("\n= "))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.8))
    for index, (label, (steps, values)) in enumerate(found.items()):
        left.plot(steps, np.minimum(values, TOP_NATS), **_style(index))
        common = min(len(values), len(found[lead][1]))
        above = values[:common] - found[lead][1][:common]
        right.plot(steps[:common], np.where(above > top, math.nan, above), label=label,
                   **_style(index))
    is_cut = any((values > TOP_NATS).any() for _, values in found.values())
    left.set_ylabel(f"loss in nats{f', cut off at {TOP_NATS:g}' if is_cut else ''}")
    right.set_ylabel(f"nats above {lead.split(chr(10))[0]}")
    for axes in (left, right):
        axes.set_xlabel("steps")
        axes.xaxis.set_major_locator(MaxNLocator(5))
    right.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save_figure(figure, path)


def sharpness_losses(result: dict, path: pathlib.Path) -> None:
    """Plots the losses of the formats and compares them with bf16's."""
    losses(result, path, "E8M7", top=0.3)


def seeds(result: dict, path: pathlib.Path) -> None:
    """Plots the losses of all seeds: a column for each variant, a row for each learning rate."""
    cells = result["cells"]
    rates = list(dict.fromkeys(lr for by_lr in cells.values() for lr in by_lr))
    figure, grid = plt.subplots(len(rates), len(cells), sharex=True, sharey=True, squeeze=False,
                                figsize=(3.2 * len(cells), 2.8 * len(rates)))
    for column, (name, by_lr) in zip(grid.T, cells.items()):
        for axes, lr in zip(column, rates):
            _curves(axes, by_lr.get(lr, {}).values())
            axes.set_title(f"{name}, lr {lr}", fontsize=10)
        column[-1].set_xlabel("steps")
    for row in grid:
        row[0].set_ylabel("loss in nats")
    save_figure(figure, path)


def _curves(axes, cells) -> None:
    """Plots the losses of cells that differ only in their seeds."""
    for index, cell in enumerate(cells):
        values = np.minimum(_floats(cell["curve"]), TOP_NATS)
        axes.plot((np.arange(len(values)) + 0.5) * cell["steps"] / len(values), values,
                  color=COLOURS[index % len(COLOURS)], linewidth=0.8)


def recovery(result: dict, path: pathlib.Path) -> None:
    """Plots sharpness by step on a logarithmic scale, and marks the switch."""
    figure, axes = plt.subplots(figsize=(8.5, 3.8))
    cells = first_cells(result)
    for index, (name, cell) in enumerate(cells.items()):
        points = cell["checkpoints"]
        axes.plot([point["step"] for point in points],
                  _floats([point["sharpness"]["0.0005"] for point in points]),
                  label=name, marker="o", markersize=4, **_style(index))
    axes.axvline(next(iter(cells.values()))["switch"], color="gray", linewidth=1, linestyle=":",
                 label="the switch")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.set_xlabel("steps")
    axes.set_ylabel("sharpness in percent")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save_figure(figure, path)


def landscape(result: dict, path: pathlib.Path) -> None:
    """Plots the planes of losses at the checkpoints, with a row for each variant."""
    cells = first_cells(result)
    count = max(len(cell["planes"]) for cell in cells.values())
    figure, grid = plt.subplots(len(cells), count, squeeze=False,
                                figsize=(4.6 * count, 3.8 * len(cells)))
    for panels, (name, cell) in zip(grid, cells.items()):
        for axes, plane in zip(panels, cell["planes"]):
            values = np.array([_floats(row) for row in plane["losses"]])
            places = np.linspace(-1, 1, len(values))
            drawn = axes.contourf(places, places, np.log(values), levels=24, cmap="viridis")
            figure.colorbar(drawn, ax=axes, label="log of the loss")
            axes.set_title(f"{name}, step {plane['step']}", fontsize=10)
            axes.set_xlabel("second direction")
        panels[0].set_ylabel("first direction")
    save_figure(figure, path)


#: The function that draws the plot of each study, docs/images/papers-STUDY.png.
PLOTS = {"exponents": losses, "sharpness": sharpness_losses, "recovery": recovery,
         "spikes": seeds, "seeds": seeds, "landscape": landscape, "fp8-lm-head": losses,
         "long": losses}


def write(results: dict[str, dict | None], folder: pathlib.Path) -> None:
    """Writes the plots of the studies that have results."""
    sharpness(results["sharpness"], folder / "papers.png")
    for name, plot in PLOTS.items():
        if results[name]:
            plot(results[name], folder / f"papers-{name}.png")
