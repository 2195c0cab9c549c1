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
from studies import BATCHES, BETAS, OPTIONS, betas_label  # noqa: E402

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


def by_seed(result: dict) -> dict[str, list[dict]]:
    """Returns the cells of all seeds by variant, at its first learning rate."""
    return {name: list(next(iter(by_lr.values())).values())
            for name, by_lr in result["cells"].items()}


def watched(axes, result: dict, first: tuple[str, ...] = ()) -> None:
    """Plots sharpness by step: the mean over the seeds, and the range from the least to the
    greatest. Variants are in the order given, then in that of the result."""
    cells = by_seed(result)
    for index, name in enumerate([*first, *(name for name in cells if name not in first)]):
        if name not in cells:
            continue  # its colour stays free, so that formats have the same colours everywhere
        runs = [[_floats([point["sharpness"]["0.0005"]])[0] for point in cell["checkpoints"]]
                for cell in cells[name]]
        count = min(map(len, runs))
        if not count:
            continue
        steps = [point["step"] for point in cells[name][0]["checkpoints"][:count]]
        values = np.array([run[:count] for run in runs])
        style = _style(index)
        axes.plot(steps, values.mean(0), label=name, marker="o", markersize=3, **style)
        axes.fill_between(steps, values.min(0), values.max(0), color=style["color"], alpha=0.15,
                          linewidth=0)
    axes.set_xlabel("steps")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_ylabel("sharpness in percent")


def sharpness(result: dict | None, path: pathlib.Path) -> None:
    """Plots sharpness by step, in the paper and here."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8))
    for index, (name, values) in enumerate(TABLE_1.items()):
        left.plot(TABLE_1_STEPS, values, label=name, marker="o", **_style(index))
    left.set_title("the paper: Llama 7B, table 1", fontsize=10)
    left.set_xlabel("steps")
    left.set_ylabel("sharpness in percent")
    if result is None:
        right.text(0.5, 0.5, "not run yet", ha="center", transform=right.transAxes)
    else:
        watched(right, result, tuple(TABLE_1))
    right.set_title("here: the toy model, mean and range of the seeds", fontsize=10)
    for axes in (left, right) if result else (left,):
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.legend(fontsize=8, frameon=False)
    save_figure(figure, path)


def curves(result: dict) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns steps and losses of each variant, the mean over its seeds. Variants with equal
    losses share one curve."""
    names: dict[tuple, list[str]] = {}
    for name, cells in by_seed(result).items():
        count = min(len(cell["curve"]) for cell in cells)
        mean = np.mean([_floats(cell["curve"][:count]) for cell in cells], axis=0)
        key = (cells[0]["steps"], *(None if math.isnan(value) else value for value in mean))
        names.setdefault(key, []).append(name)
    found = {}
    for (steps, *values), same in names.items():
        places = (np.arange(len(values)) + 0.5) * steps / len(values)
        found["\n= ".join(same)] = places, np.array(_floats(values))
    return found


def losses(result: dict, path: pathlib.Path, reference: str | None = None,
           top: float = math.inf) -> None:
    """Plots the losses of each variant, and their differences from the reference's (by default
    the first variant's), up to a number of nats."""
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


def losses_below(result: dict, path: pathlib.Path) -> None:
    """Plots losses, and compares those with the first variant's that are near it."""
    losses(result, path, top=0.3)


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


def steps(result: dict, path: pathlib.Path) -> None:
    """Plots sharpness by step on a logarithmic scale, and marks a switch."""
    figure, axes = plt.subplots(figsize=(8.5, 3.8))
    watched(axes, result)
    switches = {cell["switch"] for cells in by_seed(result).values() for cell in cells
                if "switch" in cell and cell["switch"] < cell["steps"]}
    for switch in switches:
        axes.axvline(switch, color="gray", linewidth=1, linestyle=":", label="the switch")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save_figure(figure, path)


def rates(result: dict, path: pathlib.Path) -> None:
    """Plots the final losses and the largest attention logits by learning rate: the mean over the
    seeds."""
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 3.8))
    for index, (name, by_lr) in enumerate(result["cells"].items()):
        order = sorted(by_lr, key=float)
        for axes, key in zip(panels, ("train_loss", "attention_logits")):
            values = [np.mean(_floats([cell[key] for cell in by_lr[lr].values()]))
                      for lr in order]
            axes.plot([float(lr) for lr in order], values, label=name, marker="o",
                      **_style(index))
    for axes, text in zip(panels, ("final loss in nats", "largest attention logit")):
        axes.set_xscale("log")
        axes.set_xlabel("learning rate")
        axes.set_ylabel(text)
    panels[1].set_yscale("log")
    panels[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save_figure(figure, path)


def landscape(result: dict, path: pathlib.Path) -> None:
    """Plots the planes of the first seed's losses at the checkpoints, with a row for each
    variant."""
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


def collage(result: dict, path: pathlib.Path) -> None:
    """Plots the EDQ, and the norms of weights and updates, by step for each option at the largest
    beta2 and the smallest batch: the mean over the seeds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.8))
    cells = by_seed(result)
    for index, option in enumerate(OPTIONS):
        runs = cells.get(betas_label(option, BETAS[-1], BATCHES[0]), [])
        for axes, name, dash in ((left, "edq", "-"), (right, "weight_norm", "-"),
                                 (right, "update_norm", "--")):
            if runs:
                _by_step(axes, runs, name, _style(index) | {"linestyle": dash},
                         option if dash == "-" else f"{option}, updates")
    left.set_ylabel("effective descent quality")
    right.set_ylabel("norms of weights and of updates")
    for axes in (left, right):
        axes.set_xlabel("steps")
        axes.set_yscale("log")
    right.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save_figure(figure, path)


def _by_step(axes, runs: list[dict], name: str, style: dict, label: str) -> None:
    """Plots what was noted at equal distances in runs: their mean."""
    values = np.mean([np.atleast_1d(_floats(run[name])) for run in runs], axis=0)
    steps = (np.arange(len(values)) + 0.5) * runs[0]["steps"] / len(values)
    axes.plot(steps, values, label=label, **style)


#: The function that draws the plot of each study, docs/images/papers-STUDY.png.
PLOTS = {"exponents": losses, "sharpness": sharpness_losses, "divergence": steps,
         "recovery": steps, "remedies": steps, "few-bits": steps, "rates": rates, "size": steps,
         "spikes": seeds, "seeds": seeds, "landscape": landscape, "fp8-lm-head": losses,
         "long": losses, "long-wide": losses, "coat": losses, "collage": collage, "fp8-collage": losses, "fp8-lm": losses_below,
         "fp8-lm-long": losses,
         "published": losses}


def write(results: dict[str, dict | None], folder: pathlib.Path) -> None:
    """Writes the plots of the studies that have results."""
    sharpness(results["sharpness"], folder / "papers.png")
    for name, plot in PLOTS.items():
        if results[name]:
            plot(results[name], folder / f"papers-{name}.png")
