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
from margins import Cells, Margin, difference, loss, margin
from paper_rows import (NEGLIGIBLE, QUALITY, RATES, Found, Paper, Results, Row,
                        above_at_all_rates, by_margins, ends_where, exact, mean_excess, named,
                        of_study, quality, share_of_worst, studied, validation)
from studies import BATCHES, BETAS, OPTIONS, betas_label

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


#===------------------------------------------------------------------------===#
# Table 6, and figures by step
#===------------------------------------------------------------------------===#


def at(option: str, beta2: float, batch: int, cells: Cells, exceeds: bool = False) -> Margin:
    """Returns the margin by which an option's loss above D's is less than a tenth of A's, or
    more."""
    names = [betas_label(each, beta2, batch) for each in (option, "D", "A")]
    text = f"{option}, beta2 {beta2:g}, batch {batch}: "
    text += "excess - a tenth of A's" if exceeds else "a tenth of A's excess - its own"
    return share_of_worst(cells, *names, what=text, exceeds=exceeds)


def by_beta2(options: tuple[str, ...], betas: tuple[float, ...], exceeds: bool = False,
             batches: tuple[int, ...] = BATCHES) -> Callable[[Results], Found]:
    """Returns whether options end where D does, or do not, at some values of beta2."""
    def find(results: Results) -> Found:
        cells = studied(results, "collage")
        return by_margins((at(option, beta2, batch, cells, exceeds) for option in options
                           for beta2 in betas for batch in batches),
                          "; ".join(mean_excesses(cells, beta2, options, batches)
                                    for beta2 in betas))
    return find


def mean_excesses(cells: Cells, beta2: float, options: tuple[str, ...],
                  batches: tuple[int, ...]) -> str:
    """States the mean excess over D in nats of A and of options, over batches and seeds."""
    found = {option: statistics.fmean(
        loss(one) - loss(other) for batch in batches for one, other in cells.pairs(
            betas_label(option, beta2, batch), betas_label("D", beta2, batch)))
        for option in ("A", *options)}
    return f"{beta2:g}: " + ", ".join(f"{option} {each:+.3f}" for option, each in found.items())


def grows(results: Results) -> Found:
    """Returns the margins by which A's excess over D at a beta2 of 0.999 is above the others'."""
    cells = studied(results, "collage")

    def excess(beta2: float, batch: int) -> dict[str, float]:
        own, base = (cells.of(betas_label(option, beta2, batch)) for option in ("A", "D"))
        return {seed: loss(own[seed]) - loss(base[seed]) for seed in own if seed in base}

    def more(beta2: float, batch: int) -> Margin:
        high, low = excess(BETAS[-1], batch), excess(beta2, batch)
        return margin(f"batch {batch}: A's excess at {BETAS[-1]:g} - that at {beta2:g}",
                      [high[seed] - low[seed] for seed in high if seed in low])
    return by_margins((more(beta2, batch) for beta2 in BETAS[:-1] for batch in BATCHES),
                      "; ".join(mean_excesses(cells, beta2, (), BATCHES) for beta2 in BETAS))


def later_half(cells: Cells, option: str, name: str) -> dict[str, float]:
    """Returns the mean of what was noted in the later half of a run, at a beta2 of 0.999, by
    seed."""
    return {seed: statistics.fmean(cell[name][len(cell[name]) // 2:])
            for seed, cell in cells.of(betas_label(option, BETAS[-1], BATCHES[0])).items()}


def edq_by_step(results: Results) -> Found:
    """Returns the margins by which C's EDQ is D's, and B's is below C's."""
    cells = studied(results, "collage")
    a, b, c, d = (later_half(cells, option, "edq") for option in "ABCD")
    seeds = [seed for seed in a if all(seed in other for other in (b, c, d))]
    same = margin("a tenth of A's distance from D - C's", [
        NEGLIGIBLE * abs(a[seed] - d[seed]) - abs(c[seed] - d[seed]) for seed in seeds])
    return by_margins([same, margin("C - B", [c[seed] - b[seed] for seed in seeds])], ", ".join(
        f"{option} {statistics.fmean(found.values()):.5f}"
        for option, found in zip("ABCD", (a, b, c, d))))


def norms_apart(results: Results) -> Found:
    """Returns the margin by which the norm of A's weights is more than 100 times that of its
    updates, in powers of ten."""
    cells = studied(results, "collage")
    weights, updates = (later_half(cells, "A", name) for name in ("weight_norm", "update_norm"))
    ratio = margin("log10 of the ratio", [math.log10(weights[seed] / updates[seed])
                                          for seed in weights], bound=2.0)
    return by_margins([ratio], f"{statistics.fmean(weights.values()):.1f} and "
                      f"{statistics.fmean(updates.values()):.3f}")


#===------------------------------------------------------------------------===#
# Other tables
#===------------------------------------------------------------------------===#


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
NOTE = "The schedule is the demo's, beta2 is 0.999, and layers compute in f32"
#: The remark on options that end where D does.

TENTH = "An option ends where D does if it loses less than a tenth of what A loses."

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
        by_beta2(("B", "C"), (0.98,), batches=BATCHES[:1]), **of_study("collage"),
        remark=TENTH),
    Row(("figure 3",), "Under A a large share of updates is lost, more than under C.",
        "a plot of A", more_lost, **QUALITY),
    Row(("figure 3",), "A has the lowest effective descent quality (EDQ), then come B and C.",
        "a plot, without numbers", ordered_edq, **QUALITY,
        remark="These are ratios of EDQ to the update's norm at the end of training. The figure "
        "has the EDQ itself by step, which is not kept."),
    Row(("figure 3",), "C's EDQ itself is D's, and B's is below them.",
        "a plot, without numbers", edq_by_step, **of_study("collage"),
        remark="The numbers are means of the later half of the steps."),
    Row(("figure 2",), "Norms of parameters are far above those of updates (here: more than 100 "
        "times).", "450 and 0.5 after 14,000 steps of BERT-base", norms_apart,
        **of_study("collage"), remark="The norms are A's, as means of the later half of the "
        "steps."),
    Row(("table 4",), "On GLUE, C is as good as D.", "average C 0.8100, D 0.8090, A 0.7796 (BERT)",
        missing="large"),
    Row(("table 5",), "GPT and OpenLLaMA-7B end under C where they end under D.",
        "GPT-6.7B, training perplexity A 9.87, B, C, D 8.17", missing="large"),
    Row(("table 6",), "B departs from D at a beta2 of 0.999.",
        "training perplexity, batches of 1,024: A 17.29, B 14.88, D 14.01",
        by_beta2(("B",), BETAS[-1:], exceeds=True), **of_study("collage"),
        remark="B departs if it loses more than a tenth of what A loses."),
    Row(("table 6",), "C ends where D does at a beta2 of 0.999.",
        "training perplexity, batches of 1,024: A 17.29, C 14.15, D 14.01",
        by_beta2(("C",), BETAS[-1:]), **of_study("collage"), remark=TENTH),
    Row(("table 6",), "B and C end where D does at a beta2 of 0.95 and 0.99.",
        "training perplexity at 0.95, batches of 1,024: A 14.73, B 14.01, C 14.01, D 13.87",
        by_beta2(("B", "C"), BETAS[:-1]), **of_study("collage"),
        remark=f"{TENTH} The paper's perplexities are powers of e to two decimals, so that a "
        "distance of 0.14 is one unit of the last. On average B and C end where D does here, but "
        "a tenth of what A loses is less than the seeds' spread at one of the batches."),
    Row(("table 6",), "A departs most from D at a beta2 of 0.999.",
        "training perplexity of A, batches of 1,024: 14.73, 14.88, 17.29", grows,
        **of_study("collage")),
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
    "those of [Quality](Quality.md#training), its [memory](Quality.md#appendix-memory) and [a study]"
    "(#collages-options-by-beta2-and-batch), where A is "
    "`bf16`, B `collage-light`, C `collage-plus`, D `master-weights` and D-MW `fp32-optim`.",
    ROWS, "Tables 10 and 11 list settings.")
