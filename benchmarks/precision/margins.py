#===- margins.py - Differences of means with their errors ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares variants over seeds: a difference counts if it is more than two standard
# errors from a bound.
#
#===----------------------------------------------------------------------===#
"""Means of differences that are paired by seed, and the cells of a result that they come from."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping

from measures import EPSILON

#: A mean needs this many seeds, and must be this many standard errors from its bound.
LEAST_SEEDS, ERRORS = 3, 2.0
#: A loss that is not finite counts as this many nats, a sharpness as this many percent. Both are
#: more than any run has that ends with numbers.
LOST_NATS, LOST_PERCENT = 20.0, 100.0

Figure = Callable[[dict], float]


class NotRun(Exception):
    """Raised if cells that a check compares are missing."""


class TooFew(Exception):
    """Raised if fewer seeds have run than a margin needs."""


class Cells:
    """The cells of a result, by variant."""

    def __init__(self, result: dict | None):
        self._cells = (result or {"cells": {}})["cells"]

    def of(self, variant: str, lr: float | None = None) -> dict[str, dict]:
        """Returns the cells of a variant by seed, for the given learning rate or the only one."""
        by_lr = self._cells.get(variant, {})
        key = f"{lr:g}" if lr is not None else next(iter(by_lr), None)
        if not by_lr.get(key):
            raise NotRun(variant)
        return by_lr[key]

    def pairs(self, first: str, second: str, lr: float | None = None) -> list[tuple]:
        """Returns pairs of the two variants' cells with the same seed."""
        one, other = self.of(first, lr), self.of(second, lr)
        common = [(one[seed], other[seed]) for seed in one if seed in other]
        if not common:
            raise NotRun(f"{first} and {second}")
        return common

    def mean(self, variant: str, figure: Figure) -> float:
        """Returns the mean of a figure over the seeds."""
        return statistics.fmean(map(figure, self.of(variant).values()))


@dataclasses.dataclass(frozen=True)
class Margin:
    """A mean over seeds, its standard error, and the bound that it must clear."""

    what: str
    mean: float
    error: float
    bound: float = 0.0
    #: Whether the mean must be below the bound instead of above it.
    below: bool = False

    @property
    def slack(self) -> float:
        """The distance of the mean from the bound, positive on the right side."""
        return self.bound - self.mean if self.below else self.mean - self.bound

    @property
    def holds(self) -> bool:
        """Whether the mean is more than two standard errors on the right side of the bound."""
        return self.slack > ERRORS * self.error

    @property
    def clearance(self) -> float:
        """The slack in standard errors."""
        if self.error:
            return self.slack / self.error
        return math.inf if self.slack > 0 else -math.inf

    def __str__(self) -> str:
        two = ERRORS * self.error
        digits = min(5, max(0, 1 - math.floor(math.log10(two)))) if two else 3
        text = f"{self.what} {self.mean:+.{digits}f} ± {two:.{digits}f}"
        if self.bound or self.below:
            text += f", must be {'below' if self.below else 'above'} {self.bound:g}"
        return text


def margin(what: str, values: Iterable[float], bound: float = 0.0, below: bool = False) -> Margin:
    """Returns the margin of values, one for each seed.

    Raises:
        TooFew: there are fewer than three.
    """
    values = list(values)
    if len(values) < LEAST_SEEDS:
        raise TooFew(f"{len(values)} of {LEAST_SEEDS} seeds")
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Margin(what, statistics.fmean(values), error, bound, below)


def difference(cells: Cells, first: str, second: str, figure: Figure, lr: float | None = None,
               **bound) -> Margin:
    """Returns the margin of a figure's difference between two variants, paired by seed."""
    return margin(f"{first} - {second}",
                  [figure(one) - figure(other) for one, other in cells.pairs(first, second, lr)],
                  **bound)


def ordered(cells: Cells, names: Iterable[str], figure: Figure) -> list[Margin]:
    """Returns the margins by which each variant is above the next."""
    names = list(names)
    return [difference(cells, a, b, figure) for a, b in zip(names, names[1:])]


#===------------------------------------------------------------------------===#
# Figures of a cell
#===------------------------------------------------------------------------===#


def loss(cell: dict) -> float:
    """Returns the final loss in nats."""
    return LOST_NATS if cell["train_loss"] is None else cell["train_loss"]


def diverged(cell: dict) -> float:
    """Returns 1 if the run diverged, and otherwise 0."""
    return float(cell["diverged"])


def percent(point: Mapping, epsilon: float = EPSILON) -> float:
    """Returns the sharpness at a checkpoint."""
    found = point["sharpness"][f"{epsilon:g}"]
    return LOST_PERCENT if found is None else found


def late(cell: dict, epsilon: float = EPSILON) -> float:
    """Returns the mean sharpness over the later half of a run, between its first and its last
    checkpoint. At a constant rate that of a single step fluctuates."""
    points = cell["checkpoints"]
    if not points or cell["train_loss"] is None:
        return LOST_PERCENT
    middle = (points[0]["step"] + points[-1]["step"]) / 2
    return statistics.fmean(percent(point, epsilon) for point in points
                            if point["step"] >= middle)


def growth(cell: dict) -> float:
    """Returns the factor by which sharpness has grown since the first checkpoint."""
    return late(cell) / percent(cell["checkpoints"][0]) if cell["checkpoints"] else LOST_PERCENT
