#===- paper_rows.py - Results of Collage, FP8-LM and COAT ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file defines the rows of docs/Papers.md that state results of Collage, FP8-LM and COAT.
#
#===----------------------------------------------------------------------===#
"""Rows of papers whose numbers other pages or studies measured, and the verdicts on them.

A row computes its number and its outcome from the committed results. A row without a measurement
says what it would need.
"""

import dataclasses
import pathlib
import statistics
import sys
from collections.abc import Callable, Iterable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import load  # noqa: E402
from margins import (LOST_NATS, Cells, Margin, NotRun, TooFew, difference, loss,  # noqa: E402
                     margin)

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: The learning rates of the small model of docs/Quality.md.
RATES = (1e-3, 2e-3, 4e-3)
#: A strategy ends where another does if it loses less than this share of what the worst loses.
NEGLIGIBLE = 0.1
#: A run ends where bf16 does if it ends fewer nats than this above it. In COAT's table 3 COAT ends
#: 0.013 above.
ENDS_NATS = 0.02

#: Outcomes, in the order of the table of counts, and the words for them.
WORDS = {
    "holds": "reproduces", "trivial": "holds trivially", "fails": "does not reproduce",
    "few": "undecided: fewer than three seeds", "not run": "not run yet",
    "gpu": "needs a GPU", "large": "needs a large model"}
UNDECIDED = ("few",)


class Results:
    """The committed results, by name."""

    def __init__(self, changed: dict[str, dict | None] | None = None):
        self._changed = changed or {}

    def __getitem__(self, name: str) -> dict:
        found = self._changed[name] if name in self._changed else load(name)
        if found is None:
            raise NotRun(name)
        return found


@dataclasses.dataclass(frozen=True)
class Found:
    """The number of a row, and its outcome."""

    outcome: str
    here: str
    margins: tuple[Margin, ...] = ()
    #: Whether the number has no error, since it is a count or follows from formulas.
    exact: bool = False

    @property
    def words(self) -> str:
        return WORDS[self.outcome] + (", exact" if self.exact else "")


def by_margins(margins: Iterable[Margin], here: str = "") -> Found:
    """Returns what margins over seeds say; the narrowest is stated."""
    margins = tuple(margins)
    text = str(min(margins, key=lambda each: each.clearance))
    return Found("holds" if all(each.holds for each in margins) else "fails",
                 f"{here}; {text}" if here else text, margins)


def exact(holds: bool, here: str, trivial: bool = False) -> Found:
    """Returns what a number without an error says."""
    return Found(("trivial" if trivial else "holds") if holds else "fails", here, exact=True)


@dataclasses.dataclass(frozen=True)
class Row:
    """A result of a paper."""

    #: The tables and figures that state it, such as "table 3" or "figure 4a".
    places: tuple[str, ...]
    claim: str
    #: The paper's number.
    says: str
    #: Returns the number here and its outcome; None if nothing has measured it.
    find: Callable[[Results], Found] | None = None
    #: The outcome without a measurement.
    missing: str = "not run"
    command: str = ""
    #: The size of the run here, or a function that reads it from the results.
    size: str | Callable[[Results], str] = ""
    #: The reason why a result does not reproduce, or a remark on any other.
    remark: str = ""
    #: The study that measures it; empty if another page does.
    study: str = ""

    def found(self, results: Results) -> Found:
        """Returns the number and the outcome for the given results."""
        if self.find is None:
            return Found(self.missing, "")
        try:
            return self.find(results)
        except NotRun:
            return Found("not run", "")
        except TooFew:
            return Found("few", "")

    def size_here(self, results: Results) -> str:
        """Returns the size of the run, or nothing if its result is missing."""
        try:
            return self.size(results) if callable(self.size) else self.size
        except NotRun:
            return ""

    @property
    def place(self) -> str:
        """The places, in which more than two in a row are named by the first and the last."""
        kinds = {place.split()[0] for place in self.places}
        numbers = [place.split()[1] for place in self.places]
        if len(kinds) > 1 or len(numbers) == 1:
            return ", ".join(self.places)
        in_a_row = len(numbers) > 2 and all(number.isdigit() for number in numbers) and [
            int(number) - int(numbers[0]) for number in numbers] == list(range(len(numbers)))
        return f"{kinds.pop()}s " + (f"{numbers[0]} to {numbers[-1]}" if in_a_row
                                     else ", ".join(numbers))


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper, what it claims, and its rows."""

    name: str
    introduction: str
    rows: tuple[Row, ...]
    #: The text after the table: remarks on several rows, and tables and figures without a result.
    notes: str = ""


#===------------------------------------------------------------------------===#
# Losses of the small model of docs/Quality.md
#===------------------------------------------------------------------------===#


def validation(cell: dict) -> float:
    """Returns the validation loss in nats."""
    return LOST_NATS if cell["validation_loss"] is None else cell["validation_loss"]


def quality(results: Results) -> Cells:
    """Returns the cells of the small model."""
    return Cells(results["quality_64k"])


def training_size(results: Results) -> str:
    """Describes the trainings of the small model."""
    steps = results["quality_64k"]["setting"]["steps"]
    seeds = len(quality(results).of("fp32", RATES[0]))
    return f"64 thousand parameters, {steps:,} steps, {len(RATES)} rates, {seeds} seeds"


#: The command and the size of the trainings.
QUALITY = {"command": "`scripts/quality.sh --sizes 64k`", "size": training_size}


def above_at_all_rates(first: str, second: str, figure=validation) -> Callable[[Results], Found]:
    """Returns the margins by which a strategy's figure is above another's at each rate."""
    return lambda results: by_margins(
        named(difference(quality(results), first, second, figure, lr), lr) for lr in RATES)


def named(found: Margin, lr: float) -> Margin:
    return dataclasses.replace(found, what=f"lr {lr:g}: {found.what}")


def by_seed(cells: Cells, name: str, lr: float | None, figure=validation) -> dict[str, float]:
    return {seed: figure(cell) for seed, cell in cells.of(name, lr).items()}


def ends_where(name: str, reference: str, worst: str) -> Callable[[Results], Found]:
    """Returns the margins by which a strategy loses less than a tenth of what the worst loses,
    both above the reference."""
    def slack(cells: Cells, lr: float) -> Margin:
        own, base, bad = (by_seed(cells, each, lr) for each in (name, reference, worst))
        return margin(f"lr {lr:g}: a tenth of {worst}'s excess - {name}'s",
                      [NEGLIGIBLE * (bad[seed] - base[seed]) - (own[seed] - base[seed])
                       for seed in own if seed in base and seed in bad])
    return lambda results: by_margins(slack(quality(results), lr) for lr in RATES)


def mean_excess(results: Results, name: str, reference: str) -> float:
    """Returns the mean excess of a loss over a reference's, over all rates and seeds."""
    pairs = [pair for lr in RATES for pair in quality(results).pairs(name, reference, lr)]
    return statistics.fmean(validation(one) - validation(other) for one, other in pairs)


#===------------------------------------------------------------------------===#
# Studies of whole systems
#===------------------------------------------------------------------------===#


def studied(results: Results, name: str) -> Cells:
    """Returns the cells of a study."""
    return Cells(results[f"precision/{name}"])


def study_size(name: str) -> Callable[[Results], str]:
    """Returns a function that describes the runs of a study."""
    def size(results: Results) -> str:
        result = results[f"precision/{name}"]
        cells = [cell for by_lr in result["cells"].values() for by_seed in by_lr.values()
                 for cell in by_seed.values()]
        seeds = max(len(by_seed) for by_lr in result["cells"].values()
                    for by_seed in by_lr.values())
        return (f"{round(cells[0]['parameters'], -3) // 1000} thousand parameters, "
                f"{result['setting']['steps']:,} steps, {seeds} seeds")
    return size


def of_study(name: str) -> dict:
    """Returns the fields of a row that a study measures."""
    return {"command": f"`scripts/papers.sh {name}`", "size": study_size(name), "study": name}


def share_of_worst(cells: Cells, name: str, reference: str, worst: str, what: str = "",
                   exceeds: bool = False) -> Margin:
    """Returns the margin by which a variant loses less than a tenth of what the worst loses, or
    more, both above the reference."""
    own, base, bad = (by_seed(cells, each, None, loss) for each in (name, reference, worst))
    slack = [NEGLIGIBLE * (bad[seed] - base[seed]) - (own[seed] - base[seed])
             for seed in own if seed in base and seed in bad]
    text = f"a tenth of {worst}'s excess - {name}'s" if not exceeds else (
        f"{name}'s excess - a tenth of {worst}'s")
    return margin(what or text, [-each if exceeds else each for each in slack])


#===------------------------------------------------------------------------===#
# Text
#===------------------------------------------------------------------------===#


def cells_of(results: Results, row: Row) -> list[str]:
    """Returns the cells of the table for a row."""
    found = row.found(results)
    return [row.claim, row.place, row.says, row.command, row.size_here(results), found.here,
            found.words + (f". {row.remark}" if row.remark else "")]


HEADER = ["result", "place", "the paper", "command", "size here", "here", "verdict"]
