#===- figures.py - Plots of the quality page ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file draws the plots of docs/Quality.md and writes them to docs/images.
#
#===----------------------------------------------------------------------===#
"""Draws losses by bytes, errors by range, and sums of gradients by number of ranks."""

import math
import pathlib
import statistics

import matplotlib
import trainings

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's colours; curves after the last colour are dashed.
COLOURS = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", ":")
MARKERS = "os^x"


def _style(number: int) -> dict:
    return {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.5,
            "linestyle": DASHES[number // len(COLOURS)]}


def _save(figure, path: pathlib.Path) -> None:
    figure.tight_layout()
    # Omit the version of matplotlib, so that equal numbers give equal files.
    figure.savefig(path, dpi=90, metadata={"Software": None})
    plt.close(figure)


def _bits(ranges: list[int], rows: dict, label: str, top: float, path) -> None:
    figure, axes = plt.subplots(figsize=(9, 4.5))
    for number, (name, row) in enumerate(rows.items()):
        values = [top if bits is None else math.nan if math.isinf(bits) else max(bits, 0)
                  for bits in row]
        axes.plot(ranges, values, label=name, **_style(number))
    axes.set_xlabel(label)
    axes.set_ylabel("bits that are right")
    axes.set_ylim(0, top + 1)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    _save(figure, path)


def representation(result: dict, folder: pathlib.Path) -> None:
    """Plots bits of weights by exponent and of moments by range; exact results are at the top."""
    _bits(result["exponents"], result["weights"], "exponent of the weight", 32,
          folder / "quality-weights.png")
    _bits(result["binades"], result["moments"], "binades that a group spans", 12,
          folder / "quality-moments.png")


def gradient_sum(result: dict, folder: pathlib.Path) -> None:
    """Plots signal-to-noise ratio, underflow and overflow by number of ranks."""
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.6))
    titles = {"snr": "signal to noise, dB", "underflow": "underflow, share of values",
              "overflow": "overflow, share of sums"}
    for axes, (key, title) in zip(panels, titles.items()):
        for number, (name, by_ranks) in enumerate(result["schemes"].items()):
            ranks = [int(n) for n in by_ranks]
            axes.plot(ranks, [one[key] for one in by_ranks.values()], label=name,
                      marker=MARKERS[number], fillstyle="none", **_style(number))
        axes.set_xscale("log", base=2)
        if key != "snr":
            axes.set_yscale("symlog", linthresh=1e-6)
            axes.set_ylim(bottom=0, top=1)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("ranks")
        axes.grid(alpha=0.3)
    panels[0].legend(fontsize=8, frameon=False)
    _save(figure, folder / "quality-gradients.png")


#: The kinds of strategies in the plot of losses, with their prefixes.
KINDS = {
    "published forms": ("-published",),
    "four bits": ("-ratio4",),
    "dithered, residual and scaled codes": ("dither-", "residual-", "flash-f16"),
}
#: A run that ends this far above f32 lies at the top of the plot, in nats.
TOP = 1.5


def kind_of(name: str) -> str:
    return next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)),
                "others of the library")


def training(results: dict, folder: pathlib.Path) -> None:
    """Plots losses above fp32's by bytes under all strategies, and by size under some."""
    if trainings.ALL not in results:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5.5), width_ratios=(3, 2))
    _by_bytes(left, results[trainings.ALL]["cells"])
    _by_size(right, results)
    for axes in (left, right):
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_ylim(-0.1, 2 * TOP)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_ylabel("loss above f32, nats per character")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, frameon=False, loc="upper right")
    _save(figure, folder / "quality-training.png")


def _points(cells: dict, name: str) -> tuple[float, float]:
    """Returns the mean and the deviation of a strategy's gaps; those that diverge lie at TOP."""
    found = trainings.all_gaps(cells, name)
    if not found:
        return TOP, 0.0
    return (min(statistics.fmean(found), TOP),
            statistics.stdev(found) if len(found) > 1 else 0.0)


def _labels(cells: dict, names: list[str]) -> dict[tuple[float, float], list[str]]:
    """Returns the names to print, together if their points coincide: those far from f32's loss, and
    those of four bits."""
    found = {}
    for name in names:
        y, _ = _points(cells, name)
        if abs(y) > 0.006 or "ratio4" in name:
            found.setdefault((trainings.bytes_of(cells[name]), round(y, 3)), []).append(name)
    return found


def _by_bytes(axes, cells: dict) -> None:
    names = sorted(set(cells) - {"fp32"},
                   key=lambda name: (trainings.bytes_of(cells[name]), name))
    kinds = ["others of the library", *KINDS]
    for number, kind in enumerate(kinds):
        of = [name for name in names if kind_of(name) == kind]
        if not of:
            continue
        points = [_points(cells, name) for name in of]
        axes.errorbar([trainings.bytes_of(cells[name]) for name in of], [y for y, _ in points],
                      [deviation for _, deviation in points], linestyle="none", capsize=2,
                      marker=MARKERS[number], markersize=6, fillstyle="none",
                      color=COLOURS[number], label=kind)
    for (x, _), labels in _labels(cells, names).items():
        axes.annotate(" ".join(labels), (x, _points(cells, labels[0])[0]), fontsize=6.5,
                      xytext=(5, 3), textcoords="offset points")
    axes.set_xlabel("bytes of a parameter with its gradient and states")
    axes.set_title(f"{trainings.TITLES[trainings.ALL]}, all strategies", fontsize=10)


def _by_size(axes, results: dict) -> None:
    sizes = list(results)
    names = {name: None for size in sizes if size != trainings.ALL
             for name in results[size]["cells"] if name != "fp32"}
    for number, name in enumerate(names):
        at = [i for i, size in enumerate(sizes) if name in results[size]["cells"]]
        points = [_points(results[sizes[i]]["cells"], name) for i in at]
        axes.errorbar([i + 0.03 * number for i in at], [y for y, _ in points],
                      [deviation for _, deviation in points], capsize=2, label=name,
                      marker=MARKERS[number % len(MARKERS)], fillstyle="none", **_style(number))
    axes.set_xticks(range(len(sizes)), [trainings.TITLES[size].replace(" parameters", "")
                                        for size in sizes], fontsize=8)
    axes.set_title("by size of the model", fontsize=10)
