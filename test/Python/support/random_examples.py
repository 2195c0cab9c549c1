#===- random_examples.py - Random graphs and their data --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file generates random graphs with planes and hyperparameters.
#
#===----------------------------------------------------------------------===#
"""`Example(seed, directory)` makes a random graph, its files and its data."""

import numpy as np

import tandem
from model import cases, storage
from model.scaled import WHOLE
from support.evaluate import evaluate, evaluate_model
from support.graph_text import write_graph, write_strategy
from support.kernels import assert_same
from support.random_graphs import generate

SIZE, STEP, SEED, KEY = 67, 5, 99, 3


def random_values(rng, size):
    """Returns ordinary numbers, and some of every special kind."""
    ordinary = rng.standard_normal(size) * np.exp2(rng.uniform(-8, 8, size))
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1.0, -1e-8,
                          65504.0, 6e-8], size)
    with np.errstate(over="ignore"):
        return np.where(rng.random(size) < 0.7, ordinary, special).astype(np.float32)


def random_planes(graph, seed, size=SIZE):
    """Returns planes of encoded values, and bit patterns that no encoding gives. In half of the
    roles, all values are ordinary, so that not every sum is NaN."""
    rng, planes = np.random.default_rng([seed, size]), {}
    for role in graph.roles:
        values = random_values(rng, size)
        is_ordinary = rng.random() < 0.5
        if is_ordinary:
            values = (rng.standard_normal(size) / 8).astype(np.float32)
        encoded = cases.stored(role.storage, role.name, values, rng)
        for name, dtype in role.storage.planes(role.name).items():
            count = len(encoded[name])
            bits = rng.integers(0, 1 << 8 * dtype.itemsize, count, dtype=np.uint64)
            keep = is_ordinary | (rng.random(count) < 0.85)
            planes[name] = np.where(keep, encoded[name], bits).astype(dtype)
    return planes


def random_hypers(graph, seed):
    rng = np.random.default_rng(seed)
    return {hyper.name: float(rng.choice([0.0, 0.25, 0.9, 0.999, 2.0**-10]))
            if hyper.domain != "any" else float(rng.standard_normal())
            for hyper in graph.hypers}


class Example:
    """A graph with its files and data."""

    def __init__(self, seed, directory):
        self.seed, self.graph = seed, generate(seed)
        self.text = write_graph(self.graph, seed)
        self.path = str(directory)
        (directory / f"{self.graph.strategy}.mlir").write_text(
            write_strategy(self.graph))
        self.planes = random_planes(self.graph, seed)
        self.hypers = random_hypers(self.graph, seed)
        # Tensors and chunks begin at a multiple of every group.
        groups = self.graph.groups
        self.first, self.chunk_size = (11, 64) if groups <= {1, WHOLE} else (2816, 256)
        if self.graph.reduces or WHOLE in groups:
            self.first = 0

    def compile(self, target="cpu", **options):
        return tandem.compile(self.text, self.graph.strategy, target, path=[self.path],
                              **options)

    def evaluate(self):
        return evaluate(self.graph, self.planes, self.hypers, STEP, SEED, KEY,
                        self.first)

    def model(self):
        """Returns tensors of several sizes, and their results."""
        tensors = [random_planes(self.graph, self.seed + i, size)
                   for i, size in enumerate((SIZE, 0, 1, 300))]
        draws = [storage.Draw(SEED, key, 0, STEP) for key in range(len(tensors))]
        return tensors, evaluate_model(self.graph, tensors, self.hypers, draws)

    def integers(self, kernel):
        kinds = {"STEP": STEP, "SEED": SEED}
        return {name: kinds[kind.name] for name, kind in kernel.integers.items()}

    def check(self, got, want):
        context = f"{self.text}\n{write_strategy(self.graph)}\n{self.hypers}"
        assert_same(got, want, context)
