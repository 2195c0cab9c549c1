#===- papers_tables.py - Tables of docs/Papers.md --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file formats the results of each study as tables.
#
#===----------------------------------------------------------------------===#
"""Formats the results of the studies, as means over seeds."""

import math
import pathlib
import statistics

from common import load, table
from landscape import minima
from margins import ERRORS, Cells, NotRun, loss
from measures import EPSILON
from paper import TABLE_1, TABLE_1_STEPS, TABLE_2, TABLE_3
from rates import logits, sensitivity, spikes_by_rate
from runs import result_name
from studies import BATCHES, BETAS, OPTIONS, RATES, STUDIES, betas_label

#: The parts of a step's bytes, and all of them.
PARTS = ("weights", "gradients", "states", "activations", "total")


class Shown:
    """The result of a study that the page shows: the full one if it exists, or else the quick
    one."""

    def __init__(self, name: str, folder: pathlib.Path):
        self.name, self.study = name, STUDIES[name]
        self.full = load(result_name(name, quick=False), folder)
        self.result = self.full or load(result_name(name, quick=True), folder)
        self.quick = self.full is None

    @property
    def cells(self) -> list[dict]:
        return [cell for by_lr in self.result["cells"].values() for by_seed in by_lr.values()
                for cell in by_seed.values()]

    def rows(self):
        """Yields (variant, learning rate, cells of its seeds)."""
        for variant, by_lr in self.result["cells"].items():
            for lr, by_seed in by_lr.items():
                yield variant, lr, list(by_seed.values())


def decimals(value: float | None, digits: int = 3) -> str:
    return "not finite" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def mean(cells: list[dict], key: str) -> float | None:
    values = [cell[key] for cell in cells]
    return None if None in values else statistics.fmean(values)


def spread(cells: list[dict], key: str) -> str:
    """Formats the mean over the seeds, and two standard errors if there are several."""
    text = decimals(mean(cells, key))
    values = [cell[key] for cell in cells]
    if None in values or len(values) < 2:
        return text
    return f"{text} ± {ERRORS * statistics.stdev(values) / math.sqrt(len(values)):.3f}"


def loss_rows(shown: Shown) -> str:
    """Formats the losses, and the differences of each seed's from the first variant's."""
    first = next(cells for _, _, cells in shown.rows())
    return table(["", "training loss", "validation loss", "above the first, seed by seed",
                  "diverged", "seeds"], [
        [variant, decimals(mean(cells, "train_loss")), decimals(mean(cells, "validation_loss")),
         ", ".join(above(cell, other) for cell, other in zip(cells, first)),
         str(sum(cell["diverged"] for cell in cells)), str(len(cells))]
        for variant, _, cells in shown.rows()])


def above(cell: dict, other: dict) -> str:
    """Formats the difference of a final loss from another, with its sign."""
    losses = cell["train_loss"], other["train_loss"]
    return "not finite" if None in losses else f"{losses[0] - losses[1]:+.3f}"


def exponent_rows(shown: Shown) -> str:
    paper = {"E8M7": "trains", "E7M7": "does not train", "E7M7, inside": "trains",
             "E7M7, outside": "does not train", "E7M7, LM head unmasked": "trains, less stable"}
    rows = []
    for variant, _, cells in shown.rows():
        ends = [f"{pick(cell[key] for cell in cells):.1e}" if all(key in c for c in cells) else ""
                for key, pick in (("smallest", min), ("largest", max)) for cell in cells[:1]]
        rows.append([variant, paper.get(variant.replace(", f32's bias", ""), ""),
                     spread(cells, "train_loss"), decimals(mean(cells, "validation_loss")), *ends])
    return table(["", "the paper", "training loss here", "validation loss", "smallest", "largest"],
                 rows) + (
        "\n\n*Smallest* and *largest* are the magnitudes of factors, results and gradients of "
        "linear layers after training, before they are masked. Centred, E7 can hold 2^-62 (2e-19) to 2^64 "
        "(2e19), and with f32's bias magnitudes below 2.")


def by_step(shown: Shown) -> dict[str, dict[int, float | None]]:
    """Returns the mean sharpness at EPSILON over the seeds that have it, by variant and step."""
    found: dict[str, dict[int, list]] = {}
    for variant, _, cells in shown.rows():
        at = found.setdefault(variant, {})
        for point in (point for cell in cells for point in cell["checkpoints"]):
            at.setdefault(point["step"], []).append(point["sharpness"][f"{EPSILON:g}"])
    return {variant: {step: None if None in values else statistics.fmean(values)
                      for step, values in sorted(at.items())} for variant, at in found.items()}


def step_rows(shown: Shown, steps: list[int]) -> str:
    """Formats sharpness at some steps, and the final loss."""
    count = max(len(cells) for _, _, cells in shown.rows())
    return table(["", *(f"{step:,}" for step in steps), "loss", "diverged"], [
        [name, *(decimals(points[step]) if step in points else "" for step in steps),
         spread(cells, "train_loss"),
         f"{sum(cell['diverged'] for cell in cells)} of {len(cells)}"]
        for (name, points), (_, _, cells) in zip(by_step(shown).items(), shown.rows())]) + (
        f"\n\nThe columns are steps, the numbers percent: means of up to {count} seeds.")


def some_steps(shown: Shown, count: int) -> list[int]:
    """Returns about `count` of the steps at which sharpness was measured, with the last."""
    steps = sorted({step for points in by_step(shown).values() for step in points})
    return steps[::-1][::max(1, len(steps) // count)][::-1]


def sharpness_rows(shown: Shown) -> str:
    first = step_rows(shown, some_steps(shown, 5))
    paper = table(["the paper, table 1", *(f"{step:,}" for step in TABLE_1_STEPS)], [
        [name, *map(decimals, values)] for name, values in TABLE_1.items()])
    last = {name: [cell["checkpoints"][-1]["sharpness"] for cell in cells]
            for name, _, cells in shown.rows() if all(cell["checkpoints"] for cell in cells)}
    second = table(["epsilon", *last], [
        [epsilon, *(decimals(mean(last[name], epsilon)) + _paper_2(row, name) for name in last)]
        for epsilon, row in TABLE_2.items()])
    return "\n\n".join([
        "Sharpness here, at an epsilon of 5e-4, and in the paper:", first, paper,
        "Sharpness at the end by epsilon, in brackets that of table 2 after 5,000 steps:",
        second])


def _paper_2(row: dict, name: str) -> str:
    """Formats the paper's number in brackets: a question mark if it is illegible, nothing if the
    paper does not have the format."""
    if name not in row:
        return ""
    return " (?)" if row[name] is None else f" ({row[name]:.2f})"


def watched_rows(shown: Shown) -> str:
    return "Sharpness here, at an epsilon of 5e-4:\n\n" + step_rows(shown, some_steps(shown, 6))


def recovery_rows(shown: Shown) -> str:
    switch = shown.cells[0]["switch"]
    steps = sorted({switch, *some_steps(shown, 8)})
    paper = table(["the paper, thousands of steps", *map(str, TABLE_3)],
                  [["E8M3, then bf16", *(f"{value:.2f}" for value in TABLE_3.values())]])
    return (f"Sharpness here by step; the switch is after step {switch:,}:\n\n"
            f"{step_rows(shown, steps)}\n\nIn the paper the switch is after step 6,000:\n\n{paper}")


def few_bits_rows(shown: Shown) -> str:
    switch = next(cells[0]["switch"] for name, _, cells in shown.rows() if "then" in name)
    return (f"Sharpness here, where *then bf16* switches after step {switch:,}:\n\n"
            + step_rows(shown, sorted({switch, *some_steps(shown, 6)})))


def remedy_rows(shown: Shown) -> str:
    raises = ["; ".join(f"{name}: after step {', '.join(map(str, cell['raised'])) or 'none'}"
                        for cell in cells)
              for name, _, cells in shown.rows() if "raised" in cells[0]]
    return watched_rows(shown) + "".join(f"\n\nRaised, seed by seed: {text}." for text in raises)


def rate_rows(shown: Shown) -> str:
    """Formats the losses by rate, and what the sweep says about each format."""
    rates = sorted({lr for by_lr in shown.result["cells"].values() for lr in by_lr}, key=float)
    losses = table(["training loss at lr", *rates], [
        [name, *(decimals(mean(list(by_lr[lr].values()), "train_loss")) if lr in by_lr else ""
                 for lr in rates)] for name, by_lr in shown.result["cells"].items()])
    cells, rows = Cells(shown.result), []
    for name in shown.result["cells"]:
        try:
            found = [figure(cells, name) for figure in (sensitivity, logits, spikes_by_rate)]
        except NotRun:
            continue
        rows.append([name, *(f"{statistics.fmean(by_seed.values()):.{digits}f}"
                             for by_seed, digits in zip(found, (3, 2, 1))), str(len(found[0]))])
    return losses + "\n\n" + (table(
        ["over all rates", "sensitivity in nats", "log2 of the largest attention logit",
         "spikes in a seed's runs", "seeds"], rows) if rows else
        f"No seed has all of the {len(RATES)} rates yet.")


def spike_rows(shown: Shown) -> str:
    return table(["", "lr", "seeds", "spikes", "runs with spikes", "diverged", "training loss"], [
        [variant, lr, str(len(cells)), str(sum(cell["spikes"] for cell in cells)),
         str(sum(cell["spikes"] > 0 for cell in cells)),
         str(sum(cell["diverged"] for cell in cells)), decimals(mean(cells, "train_loss"))]
        for variant, lr, cells in shown.rows()])


def landscape_rows(shown: Shown) -> str:
    rows = []
    for variant, _, cells in shown.rows():
        for planes in zip(*(cell["planes"] for cell in cells)):
            plane = planes[0]
            known = [value for row in plane["losses"] for value in row if value is not None]
            middle = len(plane["losses"]) // 2
            rows.append([variant, str(plane["step"]), decimals(plane["losses"][middle][middle]),
                         decimals(max(known, default=None)),
                         ", ".join(str(minima(each["losses"])) for each in planes),
                         decimals(plane["sharpness"][f"{EPSILON:g}"])])
    return table(["", "step", "loss in the middle", "largest loss", "minima, seed by seed",
                  "sharpness"], rows) + "\n\nLosses and sharpness are the first seed's."


def long_rows(shown: Shown) -> str:
    rows = [[variant, f"{cells[0]['bytes_per_parameter']:.4g}", spread(cells, "train_loss"),
             decimals(mean(cells, "validation_loss")), str(len(cells))]
            for variant, _, cells in shown.rows()]
    return table(["", "bytes per parameter", "training loss", "validation loss", "seeds"], rows)


def memory_rows(shown: Shown) -> str:
    """Formats the bytes of a step by part, measured and predicted."""
    rows = [[f"{variant}, {kind}", *(f"{cells[0][kind][part] / 1e6:.3f}" for part in PARTS)]
            for variant, _, cells in shown.rows() for kind in ("measured", "predicted")]
    return "MB by part, and at the peak:\n\n" + table(["", *PARTS[:-1], "all at a time"], rows)


def collage_rows(shown: Shown) -> str:
    """Formats the losses of each option above D's, by beta2 and batch."""
    cells = Cells(shown.result)
    columns = [(beta2, batch) for beta2 in (*BETAS, 0.98) for batch in BATCHES
               if betas_label("D", beta2, batch) in shown.study.variants]
    rows = [[f"{option}, `{OPTIONS[option]}`", *(
        _above_d(cells, option, beta2, batch) for beta2, batch in columns)]
        for option in OPTIONS]
    return "Training loss of D, and nats above it:\n\n" + table(
        ["beta2, batch", *(f"{beta2:g}, {batch}" for beta2, batch in columns)], rows)


def _above_d(cells: Cells, option: str, beta2: float, batch: int) -> str:
    """Formats the mean excess of an option's loss over D's, or D's loss."""
    label = betas_label(option, beta2, batch)
    try:
        pairs = cells.pairs(label, betas_label("D", beta2, batch))
    except NotRun:
        return ""
    if option == "D":
        return decimals(statistics.fmean(loss(own) for own, _ in pairs))
    values = [loss(own) - loss(base) for own, base in pairs]
    error = (f" ± {ERRORS * statistics.stdev(values) / math.sqrt(len(values)):.3f}"
             if len(values) > 1 else "")
    return f"{statistics.fmean(values):+.3f}{error}"


TABLES = {"exponents": exponent_rows, "sharpness": sharpness_rows, "divergence": watched_rows,
          "recovery": recovery_rows, "remedies": remedy_rows, "few-bits": few_bits_rows,
          "rates": rate_rows, "size": watched_rows, "spikes": spike_rows, "seeds": spike_rows,
          "landscape": landscape_rows, "fp8-lm-head": loss_rows, "long": long_rows, "long-wide": long_rows,
          "coat": loss_rows, "memory": memory_rows, "collage": collage_rows,
          "fp8-collage": loss_rows, "fp8-lm": loss_rows,
          "fp8-lm-long": loss_rows,
          "published": long_rows}
