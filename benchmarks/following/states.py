#===- states.py - Whether the states of other graphs follow ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures what happens to the states of graphs other than AdamW's forms when gradients stop
# or change.
#
#===----------------------------------------------------------------------===#
"""Measures whether the states of graphs other than AdamW follow.

The graph runs under a strategy and, with the same gradients, under fp32. A momentum or the root of
a second moment follows if its average over elements of one size is within 15 % of fp32's three time
constants after the gradients have become three times as large, after they have become 0.3 times as
large, and after whole groups have come to rest. At most a hundredth of a momentum may remain 20
time constants after the gradients next to a steady neighbour have stopped.
"""

import argparse
import copy
import math
import pathlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import load, update  # noqa: E402
from following import EPS, LEVELS, LR, WARM, Elements, Stored, Stream  # noqa: E402

import tandem  # noqa: E402


@dataclass(frozen=True)
class Graph:
    """A graph, its hyperparameters, the number of steps in which a state forgets (Adagrad's grows
    and does not forget), whether that is a momentum, and which state it is, if there are others,
    which are AdamW's."""

    name: str
    hypers: dict[str, float]
    constant: int
    is_momentum: bool = False
    state: str | None = None


GRAPHS = (
    Graph("sgd_momentum", {"lr": LR, "momentum": 0.9, "weight_decay": 0.0}, 10, True),
    Graph("lion", {"lr": LR, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0}, 100, True),
    Graph("muon", {"lr": LR, "momentum": 0.95, "weight_decay": 0.0, "nesterov": 0.05,
                   "scale": 1.0}, 20, True),
    Graph("ademamix", {"lr": LR, "beta1": 0.9, "beta2": 0.999, "beta3": 0.999, "alpha": 5.0,
                       "eps": EPS, "weight_decay": 0.0}, 1000, True, "exp_avg_slow"),
    Graph("adamw_schedule_free", {"lr": LR, "beta1": 0.9, "beta2": 0.999, "eps": EPS,
                                  "weight_decay": 0.0, "mixing": 0.005}, 200, True, "offset"),
    Graph("rmsprop", {"lr": LR, "alpha": 0.99, "eps": EPS, "weight_decay": 0.0}, 100),
    Graph("adagrad", {"lr": LR, "eps": EPS, "lr_decay": 0.0,
                      "weight_decay": 0.0}, 100),
)


class Pair:
    """A graph under a strategy and under fp32, with the same gradients."""

    def __init__(self, graph: Graph, strategy: str):
        hypers = dict(graph.hypers)
        if strategy.startswith("f16") and "eps" in hypers:
            hypers["eps"] = 1e-7
        self.stored, self.exact = (Stored(name, hypers, graph=graph.name)
                                   for name in (strategy, "fp32"))
        self.graph, self.stream = graph, Stream(Elements.make())

    def copy(self) -> "Pair":
        other = copy.copy(self)
        other.stored, other.exact = self.stored.copy(), self.exact.copy()
        other.stream = copy.deepcopy(self.stream)
        return other

    def run(self, steps: int, factor: float | None = 1.0) -> "Pair":
        """Takes steps with scaled gradients, or with zero gradients if the factor is None."""
        for _ in range(steps):
            gradient = self.stream.gradient(0.0 if factor is None else factor)
            if factor is None:
                gradient = np.zeros_like(gradient)
            self.stored.step(gradient)
            self.exact.step(gradient)
        return self

    def sizes(self, stored: Stored, join: Callable) -> list[float]:
        """Returns the magnitude of the state (of the root, for a second moment), joined over the
        elements of each size, for the levels that an 8-bit code has."""
        state = stored.values()[stored.states.index(self.graph.state) if self.graph.state else 0]
        size = np.abs(state) if self.graph.is_momentum else np.sqrt(state)
        elements = self.stream.elements
        return [float(join(size[~elements.is_neighbour & (elements.level == level)]))
                for level in LEVELS[:2]]

    def ratio(self) -> float:
        """Returns the ratio of the mean size to fp32's, for the level where it is farthest from
        1."""
        ratios = np.divide(self.sizes(self.stored, np.mean), self.sizes(self.exact, np.mean))
        return float(max(ratios, key=lambda ratio: abs(math.log(max(ratio, 1e-30)))))


def measure(graph: Graph, strategy: str) -> dict:
    """Returns the figures of a strategy's state in each test, and whether it follows."""
    steps = 3 * graph.constant
    warm = Pair(graph, strategy).run(max(WARM, steps))
    figures = {f"x{factor:g}": warm.copy().run(steps, factor).ratio() for factor in (3.0, 0.3)}
    figures["rest"] = warm.copy().run(steps, None).ratio()
    if graph.is_momentum:
        stopped = warm.copy().run(20 * graph.constant, 0.0)
        figures["left"] = float(np.max(np.divide(stopped.sizes(stopped.stored, np.max),
                                                 warm.sizes(warm.stored, np.mean))))
    return figures | {"follows": follows(figures)}


def follows(figures: dict) -> bool:
    near = all(abs(figures[key] - 1) < 0.15 for key in ("x3", "x0.3", "rest"))
    return near and figures.get("left", 0.0) < 0.01


def measure_all(graphs: tuple[Graph, ...], strategies: list[str]
                ) -> Iterator[tuple[Graph, str, dict]]:
    for graph in graphs:
        for strategy in strategies:
            yield graph, strategy, measure(graph, strategy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", help="all by default")
    parser.add_argument("--folder", type=pathlib.Path, help="for following.json, "
                        "benchmarks/results by default")
    options = parser.parse_args()
    # Keep the figures of strategies that are not named.
    before = (load("following", options.folder) or {}).get("graphs", {})
    results: dict[str, dict] = dict(before) if options.strategies else {}
    print(f"{'graph':20}{'strategy':24}{'x3':>8}{'x0.3':>8}{'left':>10}{'rest':>8}")
    for graph, strategy, figures in measure_all(GRAPHS,
                                                options.strategies or tandem.strategies()):
        results.setdefault(graph.name, {})[strategy] = figures
        cells = "".join(f"{figures[key]:8.3f}" for key in ("x3", "x0.3"))
        print(f"{graph.name:20}{strategy:24}{cells}{figures.get('left', 0):10.2g}"
              f"{figures['rest']:8.3f}  {'follows' if figures['follows'] else 'does not'}",
              flush=True)
    update("following", {"graphs": results}, options.folder)


if __name__ == "__main__":
    main()
