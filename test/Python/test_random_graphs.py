#===- test_random_graphs.py - Graphs nobody has seen -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tests that random optimizer graphs under random
# strategies compute what the reference interpreter and NumPy say, bit for bit.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import cases, storage
from model.scaled import WHOLE
from support.evaluate import NotCompensated, evaluate, evaluate_model
from support.graph_text import write_graph, write_strategy
from support.kernels import assert_same
from support.launch import Tensor, aligned_copy, launch
from support.random_graphs import generate

SEEDS = range(100)
SIZE, STEP, SEED, KEY = 67, 5, 99, 3
interpret = getattr(tandem, "interpret", None)
needs_interpreter = pytest.mark.skipif(
    interpret is None, reason="this build has no reference interpreter in Python")


def random_values(rng, size):
    """Ordinary numbers, and some of every extraordinary kind."""
    ordinary = rng.standard_normal(size) * np.exp2(rng.uniform(-8, 8, size))
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1.0, -1e-8,
                          65504.0, 6e-8], size)
    with np.errstate(over="ignore"):
        return np.where(rng.random(size) < 0.7, ordinary, special).astype(np.float32)


def random_planes(graph, seed, size=SIZE):
    """Planes of encoded values, and bit patterns that nothing encodes to. In half of
    the roles all values are ordinary, lest every sum be NaN."""
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
    """A graph, its files and its data."""

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
        """Tensors of several sizes, and what they become."""
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


@pytest.fixture
def example(seed, tmp_path):
    result = Example(seed, tmp_path)
    try:
        result.want = result.evaluate()
    except NotCompensated as error:
        with pytest.raises(ValueError, match=f'the new value of "{error}" is not made'):
            result.compile()
        pytest.skip(f"the strategy cannot keep '{error}', and says so")
    return result


@pytest.mark.parametrize("seed", SEEDS)
def test_numpy(example):
    """The kernel and NumPy agree."""
    kernel = example.compile()
    assert {p.name for p in kernel.planes} == set(example.planes)
    got = {n: p.copy() for n, p in example.planes.items()}
    kernel(got, key=KEY, first=example.first, **example.hypers, **example.integers(kernel))
    example.check(got, example.planes | example.want)


@needs_interpreter
@pytest.mark.parametrize("seed", SEEDS)
def test_interpreter(example):
    """The interpreter of the source graph agrees with both."""
    got = {n: p.copy() for n, p in example.planes.items()}
    interpret(example.text, example.graph.strategy, got, example.hypers,
              path=[example.path], step=STEP, seed=SEED, key=KEY, first=example.first)
    example.check(got, example.planes | example.want)


@pytest.mark.parametrize("seed", SEEDS)
def test_ptx(example):
    """The PTX text agrees as well."""
    kernel = example.compile("sm_90")
    tensor = Tensor({n: aligned_copy(p) for n, p in example.planes.items()},
                    example.first, KEY)
    launch(kernel, [tensor], [example.hypers | example.integers(kernel)],
           chunk_size=example.chunk_size)
    example.check(tensor.planes, example.planes | example.want)


REDUCING = [seed for seed in SEEDS if generate(seed).reduces]


@pytest.mark.parametrize("seed", REDUCING)
def test_model(example):
    """Sums meet over all tensors of a launch, on CPU and GPU."""
    before, want = example.model()
    kernel, got = example.compile(), [{n: p.copy() for n, p in t.items()} for t in before]
    plan = tandem.Plan(kernel)
    sizes = [len(p[example.graph.roles[0].name]) for p in before]
    plan.update(sizes, [[p[q.name].ctypes.data for q in kernel.planes] for p in got])
    scalars = kernel.scalars(example.hypers | example.integers(kernel))
    plan.launch([scalars[0]], [scalars[1]], threads=2)
    ptx = example.compile("sm_90")
    tensors = [Tensor({n: aligned_copy(p) for n, p in planes.items()}, key=i)
               for i, planes in enumerate(before)]
    launch(ptx, tensors, [example.hypers | example.integers(ptx)],
           chunk_size=example.chunk_size, blocks=2, threads=64)
    for i, new in enumerate(want):
        example.check(got[i], before[i] | new)
        example.check(tensors[i].planes, before[i] | new)


def test_generation_is_deterministic():
    for seed in (0, 1, 2):
        texts = {write_graph(generate(seed), seed) for _ in range(2)}
        assert len(texts) == 1
    assert len({write_graph(generate(seed), seed) for seed in SEEDS}) == len(SEEDS)


def test_generation_covers():
    """The graphs have what the tests are about."""
    graphs = [generate(seed) for seed in SEEDS]
    assert {len(g.roles) for g in graphs} == {2, 3, 4, 5}
    assert {g.component for g in graphs} == {"bf16", "f16", "f32", None}
    assert {n.op for g in graphs for n in g.nodes} == {
        "add", "sub", "mul", "div", "sqrt", "neg", "abs", "max", "min", "select", "sum",
        "size"}
    assert len(REDUCING) > 15
    assert {n.value for g in graphs for n in g.nodes if n.op == "sum"} == {
        "tensor", "model"}
    assert sum(WHOLE in g.groups for g in graphs) > 5
    kinds = {type(r.storage).__name__ for g in graphs for r in g.roles}
    assert kinds == {"Plain", "Expansion", "Kahan", "Master", "Remainder", "Residual",
                     "Scaled", "Coded"}
    codes = {type(r.storage.code).__name__ for g in graphs for r in g.roles
             if hasattr(r.storage, "code")}
    assert codes == {"FloatCode", "PairCode", "ExpandedCode", "DynamicCode",
                     "MinifloatCode", "SoftsignCode", "RootCode"}
