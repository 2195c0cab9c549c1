#===- trainings.py - The trainings of docs/Quality.md ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the parts of the page that compare the losses of trainings.
#
#===----------------------------------------------------------------------===#
"""Compares losses under strategies with those under fp32, by seed and learning rate."""

import math
import pathlib
import statistics

from common import load, origin, table

#: The sizes of the model, from the smallest.
TITLES = {
    "64k": "64 thousand parameters",
    "246k": "246 thousand parameters",
    "1M": "1 million parameters",
    "3M": "3.2 million parameters",
}

LOSS = "validation_loss"
#: The size under which all strategies were trained.
ALL = "64k"
LONG = "0.999"
PARTS = ("table", "matrices")


def result_name(size: str, quick: bool = False) -> str:
    """Returns the name of a size's result file."""
    return "quality_quick" if quick else f"quality_{size}"


def load_all(folder: pathlib.Path) -> dict[str, dict]:
    """Returns the results of all measured sizes. Those of a brief run replace missing ones."""
    found = {size: load(result_name(size), folder) for size in TITLES}
    found[ALL] = found[ALL] or load(result_name(ALL, quick=True), folder)
    return {size: result for size, result in found.items() if result and result["cells"]}

#===------------------------------------------------------------------------===#
# Losses above fp32's
#===------------------------------------------------------------------------===#


def gaps(cells: dict, strategy: str, lr: str) -> dict[str, float] | None:
    """Returns losses minus fp32's for the same seed and rate; None if one diverged."""
    ours, wide = cells[strategy].get(lr, {}), cells.get("fp32", {}).get(lr, {})
    pairs = {seed: (ours[seed][LOSS], wide[seed][LOSS]) for seed in ours if seed in wide}
    if any(None in pair for pair in pairs.values()):
        return None
    return {seed: a - b for seed, (a, b) in pairs.items()}


def rates(cells: dict) -> list[str]:
    return sorted({lr for by_lr in cells.values() for lr in by_lr}, key=float)


def all_gaps(cells: dict, strategy: str) -> list[float] | None:
    """Returns the mean over the rates for each seed, or None if one cell diverged. Between seeds
    there is chance, and between rates there is not."""
    found = [gaps(cells, strategy, lr) for lr in rates(cells)]
    if None in found:
        return None
    seeds = sorted({seed for one in found for seed in one})
    return [statistics.fmean(one[seed] for one in found if seed in one) for seed in seeds]


def spread(values: list[float], sign: str = "+") -> str:
    """Formats a mean and a standard deviation."""
    mean = statistics.fmean(values)
    return f"{mean:{sign}.4f}" + (f" ± {statistics.stdev(values):.4f}"
                                  if len(values) > 1 else "")


def gap_text(found: list[float] | None) -> str:
    return "diverged" if found is None else spread(found) if found else ""


def loss_text(by_lr: dict, lr: str) -> str:
    losses = [cell[LOSS] for cell in by_lr.get(lr, {}).values()]
    if None in losses:
        return "diverged"
    return spread(losses, "") if losses else ""


def cells_of(by_lr: dict) -> list[dict]:
    return [cell for by_seed in by_lr.values() for cell in by_seed.values()]


def bytes_of(by_lr: dict) -> float:
    """Returns the bytes of a parameter with its gradient and states."""
    return cells_of(by_lr)[0]["bytes_per_parameter"]

#===------------------------------------------------------------------------===#
# The summary at the top of the page
#===------------------------------------------------------------------------===#


def value(results: dict, size: str, name: str) -> str:
    """Formats a strategy's mean gap in a size."""
    cells = results.get(size, {"cells": {}})["cells"]
    return gap_text(all_gaps(cells, name)) if name in cells else "not trained"


def cheapest_without_loss(cells: dict) -> tuple[str, float, float]:
    """Returns the name, bytes and gap of the narrowest strategy whose loss is as far from fp32's as
    two standard deviations of the seeds or a thousandth, or nearer."""
    found = []
    for name, by_lr in cells.items():
        gap = all_gaps(cells, name)
        if not gap or name == "fp32":
            continue
        margin = 2 * statistics.stdev(gap) if len(gap) > 1 else 0.0
        if abs(statistics.fmean(gap)) <= max(margin, 1e-3):
            found.append((bytes_of(by_lr), statistics.fmean(gap), name))
    narrow, gap, name = min(found)
    return name, narrow, gap


def summary(results: dict) -> str:
    """Returns five sentences, with numbers from the results."""
    cells = results.get(ALL, {"cells": {}})["cells"]
    if not {"bf16", "fp32"} <= set(cells):
        return ""
    name, narrow, gap = cheapest_without_loss(cells)
    lost = statistics.fmean(cell["lost_share"] for cell in cells_of(cells["bf16"]))
    sizes = ", ".join(f"{value(results, size, 'bf16')} with {TITLES[size]}"
                      for size in results if "bf16" in results[size]["cells"])
    return "\n".join([
        f"- Weights that are rounded to bf16 at each step lose most: under `bf16` "
        f"{100 * lost:.0f} % of the updates change nothing, and the loss ends above f32's by {sizes}.",
        f"- `{name}` is the strategy with the fewest bytes, {narrow:g}, that ends within the seeds' "
        f"spread of f32, {gap:+.4f}.",
        "- Moments of four bits cost "
        f"{value(results, ALL, 'residual-ratio4')} (`residual-ratio4`, 6.19 bytes) and "
        f"{value(results, ALL, 'dither-ratio4')} (`dither-ratio4`, 5.19 bytes).",
        "- The published forms of 8-bit optimizers end at "
        f"{value(results, ALL, 'adam8bit-published')} (8-bit Adam), "
        f"{value(results, ALL, 'coat-published')} (COAT) and "
        f"{value(results, ALL, 'fp8-lm-published')} (FP8-LM).",
        "- A loss below f32's does not mean greater accuracy: longer steps, or noise in them, can "
        "help a run this short, as [the rates](#appendix-all-strategies) show."])

#===------------------------------------------------------------------------===#
# The trainings
#===------------------------------------------------------------------------===#

TRAINING = """## Training

The demo's character model ([examples/language_model](../examples/language_model/README.md)) is
trained with the demo's schedule: a linear warm-up, half a cosine, beta2 .999, weight decay .1. The
text is Python's standard library. Numbers are the validation loss at the end, in nats per character,
minus that of fp32 with the same seed and rate: the mean over the rates, and the standard deviation
over the seeds; some strategies have two seeds. Negative is better than fp32. Without a deviation
there is one seed, and one seed shows only differences that are large beside the deviations of the
other sizes. `fp32+mxfp4` saves
[activations](Activations.md#four-bits) under the recipe `mxfp4`. An update is lost
if a weight, with everything that a strategy stores of it, did not change.
"""


def text(results: dict) -> str:
    """Returns the section of trainings: strategies by size."""
    if not results:
        return "## Training\n\nNot measured yet: run `scripts/quality.sh`, for some hours.\n"
    named = {name for size, result in results.items() if size != ALL for name in result["cells"]}
    wide = next(iter(results.values()))["cells"]
    rows = sorted(named or set(wide), key=lambda name: (_bytes(results, name), name))
    return "\n".join([
        TRAINING, *(f"- **{TITLES[size]}:** {setting_text(result)}"
                    for size, result in results.items()), "",
        table(["strategy", "bytes/param", *(TITLES[size] for size in results),
               f"lost updates, {ALL}"],
              [size_row(results, name) for name in rows]), "",
        chance_text(results.get(ALL, {"cells": {}})["cells"])])


def _bytes(results: dict, name: str) -> float:
    return next(bytes_of(result["cells"][name]) for result in results.values()
                if name in result["cells"])


def setting_text(result: dict) -> str:
    """Describes the cells of a size."""
    cells, setting = result["cells"], result["setting"]
    known = rates(cells)
    seeds = max(len(by_seed) for by_lr in cells.values() for by_seed in by_lr.values())
    return (f"{setting['steps']:,} steps, peak learning rate{'s' * (len(known) > 1)} "
            f"{', '.join(known)}, {seeds} seed{'s' * (seeds > 1)}, {len(cells)} strategies; fp32 ends "
            f"at {loss_text(cells.get('fp32', {}), known[len(known) // 2])} at a rate of "
            f"{known[len(known) // 2]} ({origin(result)}, torch {setting['torch']}).")


def size_row(results: dict, name: str) -> list[str]:
    cells = results.get(ALL, {"cells": {}})["cells"].get(name)
    lost = statistics.fmean(cell["lost_share"] or 0 for cell in cells_of(cells)) if cells else None
    return [name, f"{_bytes(results, name):g}",
            *(gap_text(all_gaps(result["cells"], name)) if name in result["cells"] else ""
              for result in results.values()),
            "" if lost is None else f"{100 * lost:.1f} %"]


def chance_text(cells: dict) -> str:
    """Describes the differences that arise by chance."""
    if "master-weights" not in cells or not (found := all_gaps(cells, "master-weights")):
        return ""
    return ("`master-weights` loses nothing in its states, and is off fp32 by "
            f"{spread(found)}, since its model computes with weights and gradients of "
            "bf16: that much is chance.\n")

#===------------------------------------------------------------------------===#
# All strategies
#===------------------------------------------------------------------------===#


def strategy_rows(cells: dict) -> list[list[str]]:
    """Returns a row for each strategy, ordered by bytes and then by loss."""
    known, rows = rates(cells), []
    for name, by_lr in cells.items():
        every = cells_of(by_lr)
        lost = statistics.fmean(cell["lost_share"] or 0 for cell in every)
        found = all_gaps(cells, name)
        order = bytes_of(by_lr), statistics.fmean(found) if found else math.inf
        of_rates = (gaps(cells, name, lr) for lr in known)
        rows.append((order, [
            name, f"{order[0]:g}", str(len(every)), loss_text(by_lr, known[len(known) // 2]),
            *(gap_text(one if one is None else list(one.values())) for one in of_rates),
            gap_text(found), f"{100 * lost:.1f} %"]))
    return [row for _, row in sorted(rows)]


def size_text(title: str, result: dict) -> str:
    """Lists the losses of a size by rate."""
    cells = result["cells"]
    refused = "".join(f"\n- `{name}`: {reason}" for name, reason in result["refused"].items())
    known = rates(cells)
    return "\n".join([
        f"### With {title}\n",
        table(["strategy", "bytes/param", "cells", f"loss, lr {known[len(known) // 2]}",
               *(f"lr {lr}" for lr in known), "all rates", "lost updates"],
              strategy_rows(cells)), "",
        "Refused by their own rules:\n" + refused + "\n" if refused else ""])


def appendix(results: dict) -> str:
    """Lists all strategies by rate, for sizes with several rates."""
    several = {size: result for size, result in results.items() if len(rates(result["cells"])) > 1
               or size == ALL}
    if not several:
        return ""
    return "\n".join([
        "## Appendix: all strategies\n",
        "`loss` is the mean over the seeds at the middle rate; columns by rate have the difference "
        "from fp32's.\n",
        *(size_text(TITLES[size], result) for size, result in several.items())])

#===------------------------------------------------------------------------===#
# Our strategies
#===------------------------------------------------------------------------===#

CHOICE = """## Strategies of ours

Tandem's own strategies combine the storages whose errors add up least. Here each is beside others
of as many bytes. In brackets are the [error that adds up](#errors-that-add-up) at a beta2 of .999, in
the table and in the matrices, and the difference from fp32's loss with 64 thousand parameters.
"""

# The strategies of ours, by bytes, and those that they are compared with.
CHOSEN = (
    ("8 bytes", ("flash-f16",), ("bf16", "bf16-dither", "flash-32", "coat-remainder")),
    ("7 bytes", ("residual-softsign-f16", "residual-mulaw"), ("flash",)),
    ("6 bytes", ("dither-mulaw", "residual-softsign-root", "residual-ratio4"),
     ("adam8bit-published", "adam8bit", "coat-bf16", "fp8-lm-published", "fp8-lm")),
    ("5 bytes", ("dither-ratio4", "dither-softsign-root"),
     ("fp8-collage-light", "fp8-lm-published-fp8-weight", "fp8-lm-published-fp8-moments")),
    ("4 bytes", ("coded-ratio4",), ()),
)

REASONS = """
- **8 and 7 bytes.** f16 with a scale keeps the decay of a thousandth per step that every 8-bit
  code without dithering loses; a weight needs no more than a residual of 8 bits.
- **6, 5 and 4 bytes.** Second moments of 8 bits follow because they are [dithered](Following.md);
  a dithered bf16 weight saves the residual's byte and adds its noise. Moments of four bits
  follow because [what is stored is m / sqrt(v)](Codes.md). The codes of `dither-softsign-root`
  save bytes in weights and gradients, which [modules decode](Torch.md#weights-in-codes).
- **Storages that lost.** Expansions of bf16 and f8E5M2 have 13.7 bits, and the residual has 17.3, in
  the same 3 bytes. COAT's E4M3 and companded codes in groups of 128 lose second moments where
  rows of a table share a group. A range far beyond E4M3's numbers helps first moments in one round
  trip, but harms them in the table over many. Scales in bf16 round up by more than a decay; for
  gradients, which do not decay, they suffice in half the bytes.
"""


def share(values: list[float]) -> str:
    """Formats the mean over the seeds."""
    return f"{statistics.fmean(values):.2g}"


def shares(one: dict, beta2: str = LONG) -> list[str]:
    """Returns the shares for the table and for the matrices."""
    return [share(one["errors"][beta2][part]) for part in PARTS]


def versus(name: str, accumulated: dict, cells: dict) -> str:
    """Formats a strategy's name and numbers."""
    one = accumulated["strategies"].get(name)
    errors = shares(one) if one else []
    gap = gap_text(all_gaps(cells, name)) if name in cells else "not trained"
    return f"`{name}` ({', '.join([*errors, gap])})"


def choice_text(accumulated: dict | None, results: dict) -> str:
    """Compares the strategies of ours with others of as many bytes."""
    if not accumulated or ALL not in results:
        return ""
    cells = results[ALL]["cells"]
    known = {*accumulated["strategies"], *cells}

    def named(names: tuple[str, ...]) -> str:
        return ", ".join(versus(name, accumulated, cells) for name in names if name in known)

    won = [f"- **{size}:** {named(ours)}, "
           + (f"against {named(others)}." if others else "against nothing else.")
           for size, ours, others in CHOSEN if known & set(ours)]
    return "\n".join([CHOICE, *won, "", "Why:", REASONS])
