"""Measurements of the library's strategies: whether they follow, and what they lose."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

#: Written by benchmarks/choosing/measured_file.py of the results in benchmarks/results; a test
#: holds it against them.
FILE = Path(__file__).with_name("measured.json")


@dataclass(frozen=True)
class Measured:
    """A strategy of the library under AdamW, as it was measured.

    Attributes:
        name: the strategy's.
        weights, gradients, states: bytes per parameter, in a model of the strategy's own
            type, without what small tensors and scales of groups that end early add.
        hidden: whether weights are codes, which modules need decoded.
        follows: for each beta2 that was measured whether moments follow their averages
            (docs/Following.md).
        others: whether the states of other graphs than AdamW's follow, by the graph's name.
        errors: the distance of weights from float64's over the distance moved
            (docs/Accuracy.md), by the parameters' type, the gradients ("dense": those of
            matrices; "rare": rows that get one in 1 % to 50 % of the steps) and beta2.
        lost: the share of updates without any effect on the stored weight in the demo's
            model, from 0 to 1; None where it was not measured.
        kept: the share of the intended change of weights that took place, 1 where nothing is
            lost or where what is lost evens out; None where it was not measured.
    """

    name: str
    weights: float
    gradients: float
    states: float
    hidden: bool
    follows: Mapping[str, bool]
    others: Mapping[str, bool]
    errors: Mapping[str, Mapping[str, Mapping[str, float]]]
    lost: float | None
    kept: float | None

    @property
    def codes(self) -> int:
        """0 where weights and gradients are as PyTorch makes them, 1 where gradients are
        codes, 2 where weights are."""
        return 2 if self.hidden else 1 if self.gradients < 2 else 0

    def codes_for(self, dtype: torch.dtype) -> int:
        """:attr:`codes` of parameters of a type: those in float32 stay as they are."""
        return 0 if dtype == torch.float32 else self.codes

    def follows_at(self, beta2: float) -> bool:
        """Whether moments follow at both measured values of beta2 that are nearest."""
        return all(self.follows[key] for key in _around(self.follows, beta2))

    def error(self, dtype: torch.dtype, kind: str, beta2: float) -> float | None:
        """The larger error at the measured values of beta2 that are nearest; None if there is
        none for parameters of this type."""
        of = self.errors.get(str(dtype).removeprefix("torch."), {}).get(kind)
        return of and max(of[key] for key in _around(of, beta2))

    def bytes_of(self, dtype: torch.dtype, releases: bool) -> float:
        """Bytes per parameter of a type; those in float32 keep weights and gradients so."""
        wide = dtype == torch.float32
        gradients = 0 if releases else 4 if wide else self.gradients
        return (4 if wide else self.weights) + gradients + self.states


def _around(keys: Iterable[str], value: float) -> set[str]:
    """The keys of the numbers on both sides of a value: one at the ends, and where it is one
    of them."""
    known = sorted(keys, key=float)
    below = [key for key in known if float(key) <= value]
    above = [key for key in known if float(key) >= value]
    return {(below or above)[-1 if below else 0], (above or below)[0 if above else -1]}


@lru_cache(maxsize=None)
def measured() -> dict[str, Measured]:
    """The strategies of the library that were measured, by name."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Measured(name, **of) for name, of in content["strategies"].items()}


def largest_beta2() -> float:
    """The largest beta2 that was measured."""
    return max(float(key) for of in measured().values() for key in of.follows)
