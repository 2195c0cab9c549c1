#===- following.py - Whether states follow their averages ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures what happens to the moments of AdamW under a strategy when gradients stop or
# change.
#
#===----------------------------------------------------------------------===#
"""Measures whether AdamW's stored moments follow what they average.

A low-precision state does not move if the change of one step is less than half a step of its code
or of its scale. Three streams of gradients show it per element, compared with float64:

- ghosts: one steady neighbour keeps the scale of each group while the gradients of the
other elements stop. The remaining update, in learning rates, must go to zero.
- amplitude: the gradients of the other elements become 3 or 0.3 times as large.
The ratio of sqrt(v) to its exact value must return to 1.
- rest: the gradients of whole groups stop. The ratio of v to its exact value must stay 1.

states.py does the same for the states of other graphs; libraries.py records bitsandbytes, torchao
and torch.
"""

import argparse
import copy
import math
import pathlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import graph_of, load, update  # noqa: E402

import tandem  # noqa: E402

#: The number of elements of a tensor: 16 of the longest groups.
SIZE = 4096
#: The distance between neighbours, the elements whose gradients continue.
STRIDE = 32
#: Sizes of gradients relative to the neighbour's, which elements have in turn.
LEVELS = (0.2, 0.02, 0.002)
#: The size of the neighbours' gradients.
GRADIENT = 1e-3
LR, EPS = 1e-3, 1e-8
#: The minimum number of steps before gradients change.
WARM = 200
BETA2 = (0.9, 0.95, 0.99, 0.999, 0.9999)
#: Strategies whose drift is recorded step by step after the gradients have stopped; the last two
#: store states without dither.
TRACED = ("adam8bit", "flash", "adam8bit-nearest", "flash-nearest")
TRACED_BETA2, TRACED_STEPS = 0.999, 400
#: The folder of the strategies without dither.
PATH = pathlib.Path(__file__).resolve().parent / "strategies"
PLAIN = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


@dataclass
class Elements:
    """The role and size of each of the tensor's elements."""

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
    """A graph's update of one tensor under a strategy."""

    def __init__(self, strategy: str, hypers: dict[str, float], seed: int = 1,
                 graph: str = "adamw"):
        self.strategy, self.graph, self.hypers = strategy, graph, hypers
        self.kernel = tandem.compile(graph, strategy, path=[PATH])
        exchanged = {p.role for p in self.kernel.planes if p.external}
        self.states = [role for role in self.kernel.storages
                       if role not in {"param", "grad"} | exchanged]
        self.planes = self._stored(("param", "grad", *self.states))
        self.seed, self.steps = seed, 0
        self.plan = self._plan()

    def _stored(self, roles, **values: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the planes of these roles; roles without a value are zero."""
        start = {role: values.get(role, np.zeros(SIZE, np.float32)) for role in roles}
        return tandem.convert_state(self.graph, start, "fp32", self.strategy, path=[PATH],
                                    threads=1)

    def _plan(self) -> tandem.Plan:
        plan = tandem.Plan(self.kernel)
        # An external step returns what it is sent, which are bf16 numbers.
        exchanged = np.zeros(SIZE, np.uint16)
        if self.kernel.externals:
            plan.set_external({name: lambda stream: None for name in self.kernel.externals})
        plan.update([SIZE], [[self.planes.get(p.name, exchanged).ctypes.data
                              for p in self.kernel.planes]])
        self.exchanged = exchanged
        return plan

    def copy(self) -> "Stored":
        """Returns an independent copy that can continue from here."""
        other = copy.copy(self)
        other.planes = {name: plane.copy() for name, plane in self.planes.items()}
        other.plan = other._plan()
        return other

    def step(self, gradient: np.ndarray) -> None:
        self.steps += 1
        for name, plane in self._coded(gradient).items():
            self.planes[name][...] = plane
        integers = {"STEP": self.steps, "SEED": self.seed}
        given = self.hypers | {name: integers[kind.name]
                               for name, kind in self.kernel.integers.items()}
        hypers, numbers = self.kernel.scalars(given)
        self.plan.launch([hypers], [numbers], threads=1)

    def _coded(self, gradient: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the gradient's planes."""
        planes = [p for p in self.kernel.planes if p.role == "grad"]
        if len(planes) == 1 and planes[0].type in PLAIN:
            plane = gradient.astype(PLAIN[planes[0].type])
            return {"grad": plane.view(self.planes["grad"].dtype)}
        made = self._stored(("param", "grad", *self.states), grad=gradient)
        return {p.name: made[p.name] for p in planes}

    def values(self) -> list[np.ndarray]:
        """Returns the decoded states."""
        wide = tandem.convert_state(self.graph, self.planes, self.strategy, "fp32", path=[PATH],
                                    threads=1)
        return [wide[name].astype(np.float64) for name in self.states]


class AdamW(Stored):
    """AdamW without weight decay."""

    def __init__(self, strategy: str, beta1: float, beta2: float, seed: int = 1):
        self.betas = beta1, beta2
        #: A smaller eps rounds to zero in f16 and is rejected.
        self.eps = 1e-7 if strategy.startswith("f16") else EPS
        super().__init__(strategy, {"lr": LR, "eps": self.eps, "weight_decay": 0.0,
                                    "beta1": beta1, "beta2": beta2}, seed, graph_of(strategy))

    def values(self) -> list[np.ndarray]:
        """Returns the decoded moments."""
        first, second = super().values()
        return [first * np.sqrt(second) if self.graph == "adamw_ratio" else first, second]

    def update(self) -> np.ndarray:
        """Returns the bias-corrected m / (sqrt(v) + eps), the step in units of the learning
        rate."""
        m, v = self.values()
        first, second = (1 - beta**self.steps for beta in self.betas)
        return m / first / (np.sqrt(v / second) + self.eps)


@dataclass
class Stream:
    """The gradients of one seed."""

    elements: Elements
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def gradient(self, factor: float = 1.0) -> np.ndarray:
        """Returns normal numbers with mean 0.5 times a factor; neighbours always have 1."""
        noise = factor * (0.5 + self.random.standard_normal(SIZE))
        steady = np.where(self.elements.is_neighbour, 1.0, noise)
        return (GRADIENT * self.elements.level * steady).astype(np.float32)


def measure_ghosts(strategy: str, beta1: float, beta2: float, steps: int) -> dict:
    """Returns the largest update of an element after its gradients have stopped, from 20 time
    constants of m onwards, by level."""
    elements = Elements.make()
    stream, stored = Stream(elements), AdamW(strategy, beta1, beta2)
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
    """Returns the mean distance that elements other than neighbours have moved since their
    gradients stopped, in learning rates, for each step."""
    elements = Elements.make()
    stream, stored = Stream(elements), AdamW(strategy, beta1, beta2)
    for _ in range(WARM):
        stored.step(stream.gradient())
    moved, drift = np.zeros(SIZE), []
    for _ in range(TRACED_STEPS):
        drift.append(float(np.abs(moved[~elements.is_neighbour]).mean()))
        stored.step(stream.gradient(0.0))
        moved += stored.update()
    return drift


def measure_amplitude(strategy: str, beta1: float, beta2: float) -> dict[str, dict]:
    """Returns the ratio of sqrt(v) to its exact value, averaged from three time constants after
    the gradients became three times as large, and after they became 0.3 times as large."""
    elements, constants = Elements.make(), math.ceil(1 / (1 - beta2))
    stream = Stream(elements)
    stored, exact = AdamW(strategy, beta1, beta2), Exact(beta1, beta2)
    for _ in range(3 * constants):
        gradient = stream.gradient()
        stored.step(gradient)
        exact.step(gradient)
    return {f"x{factor:g}": _by_level(elements, ratios, np.mean) for factor in (3.0, 0.3)
            for ratios in [_ratios(stored.copy(), copy.deepcopy(exact), copy.deepcopy(stream),
                                   factor, 3 * constants)]}


def _ratios(stored: AdamW, exact: Exact, stream: Stream, factor: float,
            steps: int) -> np.ndarray:
    """Returns the ratio of sqrt(v) to its exact value after a number of steps with scaled
    gradients, averaged over 60 more."""
    ratios = []
    for step in range(steps + 60):
        gradient = stream.gradient(factor)
        stored.step(gradient)
        exact.step(gradient)
        if step >= steps and step % 10 == 0:
            ratios.append(np.sqrt(stored.values()[1] / exact.v))
    return np.mean(ratios, axis=0)


def measure_rest(strategy: str, beta1: float, beta2: float, steps: int) -> float:
    """Returns the ratio of the second moments of elements at rest to their exact values."""
    elements = Elements.make()
    stream = Stream(elements)
    stored, exact = AdamW(strategy, beta1, beta2), Exact(beta1, beta2)
    for step in range(WARM + steps):
        gradient = stream.gradient() if step < WARM else np.zeros(SIZE, np.float32)
        stored.step(gradient)
        exact.step(gradient)
    return float(stored.values()[1].sum() / exact.v.sum())


def _by_level(elements: Elements, values: np.ndarray, join) -> dict[str, float]:
    return {str(level): float(join(values[~elements.is_neighbour & (elements.level == level)]))
            for level in LEVELS}


def rest_steps(beta2: float) -> int:
    """Returns three time constants, but at most 3000 steps."""
    return min(3000, 3 * math.ceil(1 / (1 - beta2)))


def measure(strategy: str, beta1: float, beta2: float) -> dict:
    """Returns all figures of a strategy for a pair of betas."""
    return {"beta1": beta1, "beta2": beta2,
            "bytes": tandem.compile("adamw", strategy, path=[PATH]).bytes_per_parameter,
            "ghosts": measure_ghosts(strategy, beta1, beta2, 100),
            **measure_amplitude(strategy, beta1, beta2),
            "rest": measure_rest(strategy, beta1, beta2, rest_steps(beta2))}


def follows(figures: dict) -> bool:
    """Returns whether a strategy follows: no ghost above 0.01 learning rates, sqrt(v) within 15
    % of its exact value at the levels that an 8-bit code has, and v at rest within 15 %."""
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
    """Formats a line of the table."""
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
    # Keep the entries of libraries.py and states.py, and those of strategies that are not named.
    before = (load("following", options.folder) or {}).get("strategies", {})
    results: dict[str, list] = {name: figures for name, figures in before.items()
                                if options.strategies and name not in options.strategies}
    print(HEAD)
    for strategy, figures in measure_all(options.strategies or known, options.beta1,
                                         tuple(options.beta2)):
        results.setdefault(strategy, []).append(figures)
        figures["follows"] = follows(figures)
        print(row(strategy, figures), flush=True)
    traces = {name: trace(name, options.beta1, TRACED_BETA2) for name in TRACED}
    ordered = {name: results[name] for name in known if name in results}
    update("following", {"beta1": options.beta1, "strategies": ordered, "traces": traces},
           options.folder)


if __name__ == "__main__":
    main()
