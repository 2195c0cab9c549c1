#===- figures.py - Plots of the quality page ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file draws the plots of docs/Quality.md and writes them to docs/images.
#
#===----------------------------------------------------------------------===#
"""Draws errors by range, and sums of gradients by number of ranks."""

import math
import pathlib

import matplotlib

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
