"""Measurements of the library's strategies: whether their states follow, and what they lose."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

#: The file that benchmarks/choosing/measured_file.py writes from the results in
#: benchmarks/results. A test compares it with them.
FILE = Path(__file__).with_name("measured.json")


@dataclass(frozen=True)
class Measured:
    """The measurements of one of the library's strategies under AdamW.

    Attributes:
        name: the name of the strategy.
        weights, gradients, states: bytes per parameter, in a model of the strategy's own type,
            without the overhead of small tensors and incomplete groups.
        hidden: whether weights are codes, which are decoded for modules.
        stores_ratio: whether the strategy is for AdamW with ``stores_ratio``, with which it was
            measured.
        follows: for each measured beta2, whether moments follow their averages
            (docs/Following.md).
        others: whether the states of graphs other than AdamW's follow, by the graph's name.
        errors: the distance of weights from float64's, divided by the distance moved
            (docs/Accuracy.md), by the parameters' type, the kind of gradients ("dense" for
            matrices; "rare" for rows that get one in 1 % to 50 % of the steps) and beta2.
        lost: the fraction of updates without any effect on the stored weight in the demo's
            model, from 0 to 1; None if it was not measured.
        kept: the fraction of the intended change of weights that took place, 1 if nothing is
            lost or losses cancel out; None if it was not measured.
    """

    name: str
    weights: float
    gradients: float
    states: float
    hidden: bool
    stores_ratio: bool
    follows: Mapping[str, bool]
    others: Mapping[str, bool]
    errors: Mapping[str, Mapping[str, Mapping[str, float]]]
    lost: float | None
    kept: float | None

    @property
    def codes(self) -> int:
        """0 if weights and gradients have PyTorch's types, 1 if gradients are codes, 2 if
        weights are codes."""
        return 2 if self.hidden else 1 if self.gradients < 2 else 0

    def codes_for(self, dtype: torch.dtype) -> int:
        """Returns :attr:`codes` for parameters of a type; those in float32 have no codes."""
        return 0 if dtype == torch.float32 else self.codes

    def follows_at(self, beta2: float) -> bool:
        """Returns whether moments follow at the measured values of beta2 on both sides."""
        return all(self.follows[key] for key in _around(self.follows, beta2))

    def error(self, dtype: torch.dtype, kind: str, beta2: float) -> float | None:
        """Returns the larger error at the measured values of beta2 on both sides, or None if
        there is none for parameters of this type."""
        of = self.errors.get(str(dtype).removeprefix("torch."), {}).get(kind)
        return of and max(of[key] for key in _around(of, beta2))

    def bytes_of(self, dtype: torch.dtype, releases: bool) -> float:
        """Returns the bytes per parameter of a type. Float32 parameters keep float32 weights and
        gradients."""
        wide = dtype == torch.float32
        gradients = 0 if releases else 4 if wide else self.gradients
        return (4 if wide else self.weights) + gradients + self.states


def _around(keys: Iterable[str], value: float) -> set[str]:
    """Returns the keys of the numbers on both sides of a value, or a single key at the ends and
    if the value is one of the numbers."""
    known = sorted(keys, key=float)
    below = [key for key in known if float(key) <= value]
    above = [key for key in known if float(key) >= value]
    return {(below or above)[-1 if below else 0], (above or below)[0 if above else -1]}


@lru_cache(maxsize=None)
def measured() -> dict[str, Measured]:
    """Returns the measured strategies of the library, by name."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Measured(name, **of) for name, of in content["strategies"].items()}


def largest_beta2() -> float:
    """Returns the largest beta2 that was measured."""
    return max(float(key) for of in measured().values() for key in of.follows)
