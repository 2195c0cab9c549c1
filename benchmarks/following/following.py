#===- following.py - Whether states follow their averages ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the measurement of what happens to the moments of AdamW
# under a strategy when gradients stop or change.
#
#===----------------------------------------------------------------------===#
"""Measures whether AdamW's stored moments follow what they average.

A state in few bits stays where it is if one step's change is less than half a step of its
code or of its scale. Three streams of gradients show it, per element, beside float64:

- ghosts: one steady neighbour keeps the scale of each group while the other elements'
  gradients stop. The update that is left, in learning rates, must go to zero.
- amplitude: the other elements' gradients become three times as large, or 0.3 times.
  sqrt(v) by its exact value must become 1.
- rest: the gradients of whole groups stop. v by its exact value must stay 1.
"""

import argparse
import math
import pathlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import save  # noqa: E402

import tandem  # noqa: E402

#: Elements of a tensor: 16 of the longest groups.
SIZE = 4096
#: The first of so many elements is a neighbour whose gradients go on.
STRIDE = 32
#: The gradients' size beside the neighbour's, element by element in turn.
LEVELS = (0.2, 0.02, 0.002)
#: The neighbour's gradients.
GRADIENT = 1e-3
LR, EPS = 1e-3, 1e-8
#: The graph's names of the moments.
MOMENTS = "exp_avg", "exp_avg_sq"
#: Steps before gradients change, at least.
WARM = 200
BETA2 = (0.95, 0.999)
#: Strategies whose updates are recorded step by step after the gradients have stopped.
TRACED = ("fp32", "collage-plus", "coat", "adam8bit", "residual-softsign-root", "flash")
TRACED_STEPS = 400


@dataclass
class Elements:
    """What the elements of the tensor are."""

    is_neighbour: np.ndarray
    level: np.ndarray

    @staticmethod
    def make() -> "Elements":
        index = np.arange(SIZE)
        is_neighbour = index % STRIDE == 0
        level = np.array(LEVELS)[index % len(LEVELS)]
        return Elements(is_neighbour, np.where(is_neighbour, 1.0, level))


class Exact:
    """AdamW's moments in float64."""

    def __init__(self, beta1: float, beta2: float):
        self.betas = beta1, beta2
        self.m, self.v = np.zeros(SIZE), np.zeros(SIZE)

    def step(self, gradient: np.ndarray) -> None:
        beta1, beta2 = self.betas
        g = gradient.astype(np.float64)
        self.m = beta1 * self.m + (1 - beta1) * g
        self.v = beta2 * self.v + (1 - beta2) * g * g


class Stored:
    """AdamW under a strategy."""

    def __init__(self, strategy: str, beta1: float, beta2: float, seed: int):
        self.strategy, self.seed = strategy, seed
        self.kernel = tandem.compile("adamw", strategy)
        self.betas = {"beta1": beta1, "beta2": beta2}
        start = {name: np.zeros(SIZE, np.float32) for name in ("param", "grad", *MOMENTS)}
        self.planes = tandem.convert_state("adamw", start, "fp32", strategy)
        self.steps = 0

    def step(self, gradient: np.ndarray) -> None:
        self.steps += 1
        self.planes |= self._coded(gradient)
        seed = {"seed": self.seed} if "seed" in self.kernel.integers else {}
        self.kernel(self.planes, step=self.steps, lr=LR, eps=self.eps, weight_decay=0.0,
                    **self.betas, **seed)

    @property
    def eps(self) -> float:
        """What f16 has a number for: a smaller one is refused there."""
        return 1e-7 if self.strategy.startswith("f16") else EPS

    def _coded(self, gradient: np.ndarray) -> dict:
        """The gradient's planes, without those of the state."""
        zeros = {name: np.zeros(SIZE, np.float32) for name in ("param", *MOMENTS)}
        made = tandem.convert_state("adamw", zeros | {"grad": gradient}, "fp32", self.strategy)
        return {name: plane for name, plane in made.items() if name.startswith("grad")}

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        wide = tandem.convert_state("adamw", self.planes, self.strategy, "fp32")
        first, second = (wide[name].astype(np.float64) for name in MOMENTS)
        return first, second

    def update(self) -> np.ndarray:
        """m / (sqrt(v) + eps) with the biases corrected: the step in learning rates."""
        m, v = self.moments()
        first, second = (1 - beta**self.steps for beta in self.betas.values())
        return m / first / (np.sqrt(v / second) + self.eps)


@dataclass
class Stream:
    """Gradients of one seed."""

    elements: Elements
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def gradient(self, factor: float = 1.0) -> np.ndarray:
        """Normal numbers around a mean of 0.5; those of others than neighbours times a
        factor."""
        noise = 0.5 + self.random.standard_normal(SIZE)
        scale = np.where(self.elements.is_neighbour, 1.0, factor)
        return (GRADIENT * self.elements.level * scale * noise).astype(np.float32)


def measure_ghosts(strategy: str, beta1: float, beta2: float, steps: int) -> dict:
    """The largest update of an element whose gradients have stopped, 20 time constants of m
    later and from then on, by its level."""
    elements = Elements.make()
    stream, stored = Stream(elements), Stored(strategy, beta1, beta2, seed=1)
    for _ in range(WARM):
        stored.step(stream.gradient())
    constants = math.ceil(1 / (1 - beta1))
    largest = np.zeros(SIZE)
    for step in range(20 * constants + steps):
        stored.step(stream.gradient(0.0))
        if step >= 20 * constants and step % 10 == 0:
            largest = np.maximum(largest, np.abs(stored.update()))
    return _by_level(elements, largest, np.max)


def trace(strategy: str, beta1: float, beta2: float) -> list[float]:
    """The mean size of the updates of all elements but neighbours, in learning rates, at every
    fifth step after their gradients have stopped."""
    elements = Elements.make()
    stream, stored = Stream(elements), Stored(strategy, beta1, beta2, seed=1)
    for _ in range(WARM):
        stored.step(stream.gradient())
    sizes = []
    for step in range(TRACED_STEPS):
        if step % 5 == 0:
            sizes.append(float(np.abs(stored.update()[~elements.is_neighbour]).mean()))
        stored.step(stream.gradient(0.0))
    return sizes


def measure_amplitude(strategy: str, beta1: float, beta2: float, factor: float) -> dict:
    """sqrt(v) by its exact value, averaged from three time constants after a change of the
    gradients' size."""
    elements = Elements.make()
    stream = Stream(elements)
    stored, exact = Stored(strategy, beta1, beta2, seed=1), Exact(beta1, beta2)
    constants = math.ceil(1 / (1 - beta2))
    ratios = []
    for step in range(6 * constants + 60):
        gradient = stream.gradient(1.0 if step < 3 * constants else factor)
        stored.step(gradient)
        exact.step(gradient)
        if step >= 6 * constants and step % 10 == 0:
            ratios.append(np.sqrt(stored.moments()[1] / exact.v))
    return _by_level(elements, np.mean(ratios, axis=0), np.mean)


def measure_rest(strategy: str, beta1: float, beta2: float, steps: int) -> float:
    """The second moments of elements at rest by their exact values."""
    elements = Elements.make()
    stream = Stream(elements)
    stored, exact = Stored(strategy, beta1, beta2, seed=1), Exact(beta1, beta2)
    for step in range(WARM + steps):
        gradient = stream.gradient() if step < WARM else np.zeros(SIZE, np.float32)
        stored.step(gradient)
        exact.step(gradient)
    return float(stored.moments()[1].sum() / exact.v.sum())


def _by_level(elements: Elements, values: np.ndarray, join) -> dict[str, float]:
    return {str(level): float(join(values[~elements.is_neighbour & (elements.level == level)]))
            for level in LEVELS}


def rest_steps(beta2: float) -> int:
    """1000 steps, or as many as leave v an f32 far above the smallest."""
    return min(1000, int(12 * math.log(10) / (1 - beta2)))


def measure(strategy: str, beta1: float, beta2: float) -> dict:
    """All of a strategy's figures for a pair of betas."""
    return {"beta1": beta1, "beta2": beta2,
            "ghosts": measure_ghosts(strategy, beta1, beta2, 100),
            "x3": measure_amplitude(strategy, beta1, beta2, 3.0),
            "x0.3": measure_amplitude(strategy, beta1, beta2, 0.3),
            "rest": measure_rest(strategy, beta1, beta2, rest_steps(beta2))}


def follows(figures: dict) -> bool:
    """Whether a strategy follows: no ghost above 0.01 learning rates, sqrt(v) within 15 % of
    its exact value where the levels are those of an 8-bit code, v at rest within 15 %."""
    near = [figures[key][str(level)] for key in ("x3", "x0.3") for level in LEVELS[:2]]
    return (max(figures["ghosts"].values()) < 0.01
            and all(abs(ratio - 1) < 0.15 for ratio in near)
            and abs(figures["rest"] - 1) < 0.15)


def measure_all(strategies: list[str], beta1: float,
                beta2: tuple[float, ...]) -> Iterator[tuple[str, dict]]:
    for strategy in strategies:
        for beta in beta2:
            yield strategy, measure(strategy, beta1, beta)


def row(strategy: str, figures: dict) -> str:
    """A line of the table."""
    ghost = max(figures["ghosts"].values())
    cells = [f"{figures[key][str(level)]:6.3g}" for key in ("x3", "x0.3")
             for level in LEVELS[:2]]
    return (f"{strategy:24} {figures['beta2']:6} {ghost:9.3g}  {'  '.join(cells)}  "
            f"{figures['rest']:6.3g}  {'follows' if follows(figures) else 'does not'}")


HEAD = (f"{'strategy':24} {'beta2':>6} {'ghost/lr':>9}  sqrt(v) by exact: x3 at .2, .02; "
        "x0.3 at .2, .02;  at rest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", help="all by default")
    parser.add_argument("--beta1", type=float, default=0.9)
    parser.add_argument("--beta2", type=float, nargs="+", default=list(BETA2))
    parser.add_argument("--folder", type=pathlib.Path, help="for following.json, "
                        "benchmarks/results by default")
    options = parser.parse_args()
    known = tandem.strategies()
    for name in options.strategies:
        if name not in known:
            parser.error(f"there is no strategy '{name}'; choose from {', '.join(known)}")
    results: dict[str, list] = {}
    print(HEAD)
    for strategy, figures in measure_all(options.strategies or known, options.beta1,
                                         tuple(options.beta2)):
        results.setdefault(strategy, []).append(figures)
        figures["follows"] = follows(figures)
        print(row(strategy, figures), flush=True)
    traces = {name: trace(name, options.beta1, BETA2[0]) for name in TRACED
              if name in results}
    save("following", {"beta1": options.beta1, "strategies": results, "traces": traces},
         options.folder)


if __name__ == "__main__":
    main()
