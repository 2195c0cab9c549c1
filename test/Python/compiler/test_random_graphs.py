#===- test_random_graphs.py - Random graphs -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that random optimizer graphs under random strategies have the bits of the
# reference interpreter and the NumPy model.
#
#===----------------------------------------------------------------------===#

import pytest

import tandem
from model.scaled import WHOLE
from support.evaluate import NotCompensated
from support.graph_text import write_graph
from support.launch import Tensor, aligned_copy, launch
from support.random_examples import KEY, SEED, STEP, Example
from support.random_graphs import generate

SEEDS = range(100)
interpret = getattr(tandem, "interpret", None)
needs_interpreter = pytest.mark.skipif(
    interpret is None, reason="this build has no reference interpreter in Python")


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
    """Reductions over the model cover all tensors of a launch, on CPU and GPU."""
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
    """The random graphs contain the features under test."""
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
                     "Scaled", "Coded", "Masked"}
    codes = {type(r.storage.code).__name__ for g in graphs for r in g.roles
             if hasattr(r.storage, "code")}
    assert codes == {"FloatCode", "PairCode", "ExpandedCode", "DynamicCode",
                     "MinifloatCode", "MuLawCode", "SoftsignCode", "RootCode"}
