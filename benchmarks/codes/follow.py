#===- follow.py - Whether moments in a few bits follow ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file gives moments in a few bits the tests of docs/Following.md.
#
#===----------------------------------------------------------------------===#
"""Measures whether moments in a few bits follow, as benchmarks/following does for strategies."""

import copy
import math
import pathlib
import sys

import numpy as np
from race import BETA1, EPS, AdamW, Contender

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "following"))
from following import LEVELS, SIZE, WARM, Elements, Stream, rest_steps  # noqa: E402

#: The time constants of m after which no update may remain, and the steps of watching.
DECAYED, WATCHED = 20, 100


class Pair:
    """Stored moments and exact ones under one beta2."""

    def __init__(self, contender: Contender, beta2: float, steps: int):
        elements = np.arange(SIZE)
        self.stored = AdamW(contender, 1, elements, steps, 1, (beta2,))
        self.exact = AdamW(Contender(), 1, elements, steps, 1, (beta2,), exact=True)

    def step(self, gradient: np.ndarray) -> None:
        self.stored.step(gradient)
        self.exact.step(gradient)

    def update(self) -> np.ndarray:
        """Returns the step that the stored moments stand for, in learning rates."""
        one = self.stored
        first, second = 1 - BETA1**one.steps, 1 - one.betas**one.steps
        return (one.m / first / (np.sqrt(one.v / second) + EPS))[0, 0]

    def ratio(self) -> np.ndarray:
        """Returns the stored sqrt(v), divided by its exact value."""
        return np.sqrt(self.stored.v / self.exact.v)[0, 0]


def _by_level(elements: Elements, values: np.ndarray, join) -> dict[str, float]:
    return {str(level): float(join(values[~elements.is_neighbour & (elements.level == level)]))
            for level in LEVELS}


def ghosts(contender: Contender, beta2: float) -> float:
    """Returns the largest update that remains after the gradients have stopped."""
    elements = Elements.make()
    decayed = DECAYED * math.ceil(1 / (1 - BETA1))
    pair, stream = Pair(contender, beta2, WARM + decayed + WATCHED), Stream(elements)
    for _ in range(WARM):
        pair.step(stream.gradient())
    largest = np.zeros(SIZE)
    for step in range(decayed + WATCHED):
        pair.step(stream.gradient(0.0))
        if step >= decayed:
            largest = np.maximum(largest, np.abs(pair.update()))
    return float(largest[~elements.is_neighbour].max())


def _after(pair: Pair, stream: Stream, factor: float, steps: int) -> np.ndarray:
    """Returns the ratios of sqrt(v) after the gradients have changed, averaged over 60 steps."""
    pair, stream, ratios = copy.deepcopy(pair), copy.deepcopy(stream), []
    for step in range(steps + 60):
        pair.step(stream.gradient(factor))
        if step >= steps and step % 10 == 0:
            ratios.append(pair.ratio())
    return np.mean(ratios, axis=0)


def amplitude(contender: Contender, beta2: float) -> dict[str, dict[str, float]]:
    """Returns the mean ratios of sqrt(v) by factor and level."""
    elements, steps = Elements.make(), 3 * math.ceil(1 / (1 - beta2))
    pair, stream = Pair(contender, beta2, 2 * steps + 60), Stream(elements)
    for _ in range(steps):
        pair.step(stream.gradient())
    return {f"x{factor:g}": _by_level(elements, _after(pair, stream, factor, steps), np.mean)
            for factor in (3.0, 0.3)}


def rest(contender: Contender, beta2: float) -> float:
    """Returns the sum of v at rest, divided by its exact value."""
    steps = rest_steps(beta2)
    pair, stream = Pair(contender, beta2, WARM + steps), Stream(Elements.make())
    for step in range(WARM + steps):
        pair.step(stream.gradient() if step < WARM else np.zeros(SIZE, np.float32))
    return float(pair.stored.v.sum() / pair.exact.v.sum())


def measure(contender: Contender, beta2: float) -> dict:
    """Returns the figures of all tests."""
    return {"ghost": ghosts(contender, beta2), **amplitude(contender, beta2),
            "rest": rest(contender, beta2)}


def follows(figures: dict) -> bool:
    """Returns whether the figures meet the bounds of docs/Following.md."""
    near = [figures[key][str(level)] for key in ("x3", "x0.3") for level in LEVELS[:2]]
    return figures["ghost"] < 0.01 and all(
        abs(ratio - 1) < 0.15 for ratio in (*near, figures["rest"]))
