#===- steps_figure.py - The chart of optimizer steps -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file draws the chart at the beginning of docs/Benchmarks.md.
#
#===----------------------------------------------------------------------===#
"""Draws the time of each contender's step and that of streaming its memory."""

from pathlib import Path

from common import save_figure

#: The colours of contenders' markers.
OURS, OTHERS = "#0072B2", "#D55E00"


def draw(times: dict[str, tuple[float, float]], ours: set[str], path: Path) -> None:
    """Draws nanoseconds per parameter, for the step and for a stream over the same planes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = sorted(times, key=lambda name: -times[name][0])
    figure, axes = plt.subplots(figsize=(9, 0.22 * len(names) + 1))
    for place, name in enumerate(names):
        step, stream = times[name]
        axes.plot([stream, step], [place, place], color="lightgray", linewidth=2, zorder=1)
    for label, color, group in (("Tandem", OURS, True), ("others", OTHERS, False)):
        places = [i for i, name in enumerate(names) if (name in ours) is group]
        axes.plot([times[names[i]][0] for i in places], places, "o", color=color,
                  markersize=5, label=label)
    axes.plot([times[name][1] for name in names], range(len(names)), "|", color="black",
              markersize=9, label="the memory")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("nanoseconds a parameter")
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    save_figure(figure, path)
