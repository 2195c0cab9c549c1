#===- collage_rows.py - Tables and figures of Collage ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the results of Collage, with the numbers as printed there.
#
#===----------------------------------------------------------------------===#
"""The rows of Collage (Yu et al. 2024) in docs/Papers.md."""

import dataclasses
import math
import statistics
import struct
from collections.abc import Callable

import torch

from margins import difference
from paper_rows import (QUALITY, RATES, Found, Paper, Results, Row, above_at_all_rates, by_margins,
                        ends_where, exact, mean_excess, named, quality, validation)
from studies import OPTIONS

#: Table 1: beta2 and the two components, as printed.
TABLE_1 = {0.999: ("1", "-0.001"), 0.99: ("0.9893", "0.0017"), 0.95: ("0.9492", "0.0008")}
#: Table 2: bytes per parameter.
TABLE_2 = {"A": 8, "B": 10, "C": 12, "D": 16}
#: Table 3: perplexities of BERT-base after phase 1, at a beta2 of 0.999.
TABLE_3 = {"A": 8.67, "B": 5.99, "C": 5.26, "D-MW": 6.23, "D": 5.26}

#: Table 9: the distance between 1 and the next number of a format.
TABLE_9 = {"float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7, "float8_e4m3fn": 2**-3,
           "float8_e5m2": 2**-2}


def bf16(value: float) -> float:
    """Rounds a number to the nearest bf16, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def expansion(beta: float) -> Callable[[Results], Found]:
    """Returns whether a beta2 splits into two bf16 numbers as in table 1, to its digits."""
    def find(results: Results) -> Found:
        high = bf16(beta)
        parts = (high, bf16(beta - high))
        same = all(abs(part - float(text)) <= 0.5 * 10.0 ** -len(text.partition(".")[2])
                   for part, text in zip(parts, TABLE_1[beta]))
        return exact(same, f"({parts[0]:g}, {parts[1]:.3g})")
    return find


def bytes_of(results: Results) -> Found:
    """Compares the bytes of the options with table 2."""
    found = {}
    for option in TABLE_2:
        kept = results["live_bytes"]["strategies"][OPTIONS[option]]["kept"]
        found[option] = sum(kept[part] for part in ("weights", "working", "gradients", "states"))
    return exact(found == TABLE_2, ", ".join(f"{o} {b:g}" for o, b in found.items()))


def order_of_losses(results: Results) -> Found:
    """Returns the margins by which each option ends above the next, at each rate."""
    cells = quality(results)
    names = [OPTIONS[option] for option in ("A", "D-MW", "B", "C")]
    return by_margins((named(difference(cells, a, b, validation, lr), lr)
                       for a, b in zip(names, names[1:]) for lr in RATES),
                      excesses(results))


def excesses(results: Results) -> str:
    """States the mean excess of each option over D in nats."""
    return ", ".join(f"{option} {mean_excess(results, OPTIONS[option], OPTIONS['D']):+.3f}"
                     for option in ("A", "D-MW", "B", "C"))


def lost(cell: dict) -> float:
    return cell["lost_share"]


def edq(cell: dict) -> float:
    return cell["edq_ratio"]


def ordered_edq(results: Results) -> Found:
    """Returns the margins by which EDQ over the update's norm grows from A to B to C."""
    cells = quality(results)
    names = [OPTIONS[option] for option in ("C", "B", "A")]
    return by_margins((named(difference(cells, a, b, edq, lr), lr)
                       for a, b in zip(names, names[1:]) for lr in RATES), means(results, edq))


def means(results: Results, figure: Callable[[dict], float]) -> str:
    """States the mean of a figure under A, B and C, over rates and seeds."""
    cells = quality(results)
    return ", ".join(f"{option} {statistics.fmean(found):.4f}" for option in ("A", "B", "C")
                     for found in [[figure(cell) for lr in RATES
                                    for cell in cells.of(OPTIONS[option], lr).values()]])


def more_lost(results: Results) -> Found:
    """Returns the margins by which A loses more updates than C, at each rate."""
    found = above_at_all_rates(OPTIONS["A"], OPTIONS["C"], lost)(results)
    return dataclasses.replace(found, here=f"{means(results, lost)}; {found.here}")


def speed(results: Results) -> Found:
    """States the time of an optimizer's step on a CPU, which is not what table 7 has."""
    sizes = results["cpu_step"]["sizes"]
    step = {option: sizes["16M"][OPTIONS[option]]["threads_2"]["step"]
            for option in ("A", "B", "C", "D")}
    text = ", ".join(f"{o} {step['D'] / step[o]:.2f}" for o in ("A", "B", "C"))
    return Found("gpu", f"the optimizer's step on a CPU, D's time over theirs: {text}")


def distances(results: Results) -> Found:
    """Compares the distances between 1 and the next number with table 9."""
    found = [torch.finfo(getattr(torch, name)).eps for name in TABLE_9]
    return exact(found == list(TABLE_9.values()),
                 ", ".join(f"2^{math.log2(each):g}" for each in found), trivial=True)


def printed(option: str) -> str:
    return f"{option} {TABLE_3[option]:.2f}"


#: The remark on losses.
NOTE = ("The schedule is the demo's, beta2 is 0.999, and layers compute in f32. Since then the files "
        "of these strategies have changed only in their comments")

ROWS = (
    *(Row(("table 1",), f"In bf16 a beta2 of {beta:g} is the sum of these two numbers.",
          f"({', '.join(parts)})", expansion(beta), command="`papers_page.py`", size="one number",
          remark="0.9893 is not a bf16 number, and with 0.0017 it would be 0.991; we take it "
          "for a misprint of 0.9883." if beta == 0.99 else "")
      for beta, parts in TABLE_1.items()),
    Row(("table 2", "figure 1"), "Options A, B, C and D take 8, 10, 12 and 16 bytes a parameter.",
        ", ".join(f"{o} {b}" for o, b in TABLE_2.items()), bytes_of,
        command="`scripts/quality.sh`", size="a model of whole groups",
        remark="These are the sizes of the tensors between a backward pass and its step."),
    Row(("table 3", "figure 3"), "At a beta2 of 0.999 A ends at the highest loss, then come "
        "D-MW, B and C.",
        "perplexity " + ", ".join(map(printed, ("A", "D-MW", "B", "C"))), order_of_losses,
        **QUALITY, remark=f"{NOTE}. The sizes of the excesses over D are not the paper's."),
    Row(("table 3", "figure 3"), "Collage-plus (C) ends where D does: it loses less than a tenth "
        "of what A loses.", f"perplexity {printed('C')}, {printed('D')}",
        ends_where(OPTIONS["C"], OPTIONS["D"], OPTIONS["A"]), **QUALITY),
    Row(("table 3",), "For RoBERTa, at a beta2 of 0.98, B and C end close to D.",
        "perplexity A 3.82, B 3.49, C 3.49, D-MW 3.82, D 3.46",
        remark="Only beta2 = 0.999 was trained here."),
    Row(("figure 3",), "Under A a large share of updates is lost, more than under C.",
        "a plot of A", more_lost, **QUALITY),
    Row(("figure 3",), "A has the lowest effective descent quality (EDQ), then come B and C.",
        "a plot, without numbers", ordered_edq, **QUALITY,
        remark="These are ratios of EDQ to the update's norm at the end of training. The figure "
        "has the EDQ itself by step, which is not kept."),
    Row(("figure 3",), "At each step C's EDQ itself is D's, and B's is below them.",
        "a plot, without numbers", remark="Only the ratio is in the results."),
    Row(("figure 2",), "Norms of parameters are far above those of updates.",
        "450 and 0.5 after 14,000 steps of BERT-base"),
    Row(("table 4",), "On GLUE, C is as good as D.", "average C 0.8100, D 0.8090, A 0.7796 (BERT)",
        missing="large"),
    Row(("table 5",), "GPT and OpenLLaMA-7B end under C where they end under D.",
        "GPT-6.7B, training perplexity A 9.87, B, C, D 8.17", missing="large"),
    Row(("table 6",), "B departs from D at a beta2 of 0.999, not at 0.95 and 0.99; C never does.",
        "training perplexity at 0.999, batches of 1,024: A 17.29, B 14.88, C 14.15, D 14.01",
        remark="A [replay](Quality.md#errors-that-add-up) of recorded gradients has the errors at "
        "0.95 and 0.999, but it is not a training."),
    Row(("table 7",), "Options A, B and C train faster than D.",
        "GPT-6.7B: A 3.82, B 3.74, C 3.57", speed, command="`benchmarks/cpu_step.py`",
        size="16M parameters, 2 threads",
        remark="The paper times whole trainings on 8 A100."),
    Row(("table 8",), "Under B and C GPT-30B takes longer sequences or larger batches than under "
        "D.",
        "2,048 tokens fit under B and C, not under D", missing="gpu"),
    Row(("table 9",), "Formats have these distances between 1 and the next number.",
        "2^-23, 2^-10, 2^-7, 2^-3, 2^-2",
        distances, command="`papers_page.py`", size="5 formats",
        remark="The numbers of mantissa bits define them."),
    Row(("table 12", "figure 4"), "B and C save peak memory against D.",
        "OpenLLaMA-7B: B 27.8 %, C 18.5 %", missing="gpu"),
    Row(("figure 5", "figure 6"), "OpenLLaMA-7B is stable under C at a beta2 of 0.99, where D is "
        "not.",
        "training perplexity C 6.11, D 8.58", missing="large"),
    Row(tuple(f"figure {n}" for n in range(7, 13)),
        "GPT-125M's EDQ and perplexity, by beta2 and batch, are those of table 6 by step.",
        "plots, without numbers", missing="large"),
    Row(("figure 13", "figure 14", "figure 15"), "GPT of 1.3B to 6.7B trains under B and C as "
        "under D.",
        "plots, without numbers", missing="large"),
)

COLLAGE = Paper(
    "Collage",
    "*Collage* (Yu et al. 2024) stores weights and second moments as sums of two bf16 numbers, and "
    "claims that this trains as well as f32 master weights, in less memory. The measurements are "
    "those of [Quality](Quality.md#training) and its [memory](Quality.md#memory), where A is "
    "`bf16`, B `collage-light`, C `collage-plus`, D `master-weights` and D-MW `fp32-optim`.",
    ROWS, "Tables 10 and 11 list settings.")
