#===- test_kernels.py - Compiled kernels against the model -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that kernels compiled for CPUs have the bits of the NumPy model for all ways to
# compile and launch them.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import (BF16_STRATEGIES, EXTERNAL_GRAPHS, GRAPHS, MATRIX_GRAPHS, OUTSIDE_STRATEGIES, SCALED_LIBRARY,
                   STRATEGIES, TENSOR_LIBRARY, bytes_per_parameter, cases, plane_types,
                   step, takes_whole_tensors)
from model.formats import encode
from model.philox import half_words
from support.kernels import (ISAS, SEED, STEP, STRATEGY_PATH, assert_kernel, assert_same,
                             compiled, integers_of, require_isa, run, seed_of)

SIZES = (1, 15, 17, 4097)
SIZED_KINDS = ("ordinary", "mixed")
KEY, FIRST = 9, 5

pairs = pytest.mark.parametrize(
    "graph, strategy", [(g, s) for g in GRAPHS for s in STRATEGIES])
WIDTHS = (1, 8, 16, 32, 64)


def example(graph, strategy, kind="mixed", size=300):
    """Returns (planes, hypers) of a case."""
    planes = cases.state(graph, STRATEGIES[strategy], kind, size,
                         seed_of(graph, strategy, kind, size))
    return planes, cases.hypers(graph, STRATEGIES[strategy])


def check_example(graph, strategy, kind, size):
    planes, hypers = example(graph, strategy, kind, size)
    first = 0 if takes_whole_tensors(graph, STRATEGIES[strategy]) else FIRST
    want = step(graph, STRATEGIES[strategy], planes, hypers, STEP, SEED, KEY, first)
    assert_kernel(compiled(graph, strategy), planes, want, hypers,
                  f"{graph} under {strategy}, {kind}, {size}", key=KEY, first=first)


#===----------------------------------------------------------------------===#
# Every graph under every strategy
#===----------------------------------------------------------------------===#


def test_library_is_the_models():
    """The tests below cover every graph and strategy of the library."""
    assert set(tandem.graphs()) == set(GRAPHS) | set(MATRIX_GRAPHS) | set(EXTERNAL_GRAPHS)
    library = STRATEGIES.keys() | SCALED_LIBRARY.keys() | TENSOR_LIBRARY.keys()
    assert set(tandem.strategies()) == library - OUTSIDE_STRATEGIES.keys()
    assert {file.stem for file in STRATEGY_PATH.glob("*.mlir")} == OUTSIDE_STRATEGIES.keys()


@pytest.mark.thinned(1, times=4)
@pairs
def test_kinds(graph, strategy):
    for kind in cases.KINDS:
        check_example(graph, strategy, kind, 300)


# Sizes and widths affect planes, not formats, so a few f16 strategies suffice.
FEW_F16 = ("f16-collage-plus", "f16-stochastic", "f16-master-weights")
VARIED = [*BF16_STRATEGIES, "fp32", *FEW_F16]


@pytest.mark.thinned(1, times=4)
@pytest.mark.parametrize("graph, strategy", [(g, s) for g in GRAPHS for s in VARIED])
def test_sizes(graph, strategy):
    for kind in SIZED_KINDS:
        for size in SIZES:
            check_example(graph, strategy, kind, size)


def test_empty():
    """An empty tensor is not an error."""
    for graph in GRAPHS:
        for strategy in STRATEGIES:
            check_example(graph, strategy, "mixed", 0)


@pairs
def test_signature(graph, strategy):
    kernel = compiled(graph, strategy)
    types = plane_types(graph, STRATEGIES[strategy])
    assert {p.name: p.bits for p in kernel.planes} == {
        name: 8 * dtype.itemsize for name, dtype in types.items()}
    assert set(kernel.hypers) == set(GRAPHS[graph].hypers)
    written = {p.name for p in kernel.planes if p.written}
    assert written == {name for name in types if not name.startswith("grad")}


@pairs
def test_bytes_per_parameter(graph, strategy):
    assert (compiled(graph, strategy).bytes_per_parameter
            == bytes_per_parameter(graph, STRATEGIES[strategy]))


@pytest.mark.parametrize("strategy, count", [
    ("bf16", 8), ("bf16-kahan", 10), ("collage-light", 10), ("collage-plus", 12),
    ("fp32-optim", 12), ("remainder", 14), ("master-weights", 16), ("fp32", 16),
    ("f16", 8), ("f16-kahan", 10), ("f16-collage-light", 10), ("f16-collage-plus", 12),
    ("f16-fp32-optim", 12), ("f16-master-weights", 16)])
def test_bytes_of_adamw(strategy, count):
    """Bytes are those of table 2 of the Collage paper, and of the other strategies."""
    assert compiled("adamw", strategy).bytes_per_parameter == count


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_steps(strategy):
    """A step reads the states that the previous step has written."""
    graph, hypers = "adamw", cases.hypers("adamw", STRATEGIES[strategy])
    planes = cases.state(graph, STRATEGIES[strategy], "ordinary", 100, 3)
    mine = planes
    for number in range(1, 21):
        gradient = cases.state(graph, STRATEGIES[strategy], "ordinary", 100,
                               100 + number)["grad"]
        planes, mine = planes | {"grad": gradient}, mine | {"grad": gradient}
        planes = planes | step(graph, STRATEGIES[strategy], planes, hypers, number,
                               SEED, KEY)
        mine = run(compiled(graph, strategy), mine, hypers, step=number, key=KEY)
        assert_same(mine, planes, f"{strategy}, step {number}")


#===----------------------------------------------------------------------===#
# Ways to compile
#===----------------------------------------------------------------------===#

# Together these contain every storage and every kind of arithmetic.
SHAPES = [("adamw", s) for s in VARIED] + [
    ("lion", "collage-plus"), ("adagrad", "collage-plus"),
    ("adamw_decay_after", "bf16-kahan"), ("sgd_nesterov", "remainder")]


@pytest.mark.parametrize("width", (2, 4, *WIDTHS))
def test_random_bits(width):
    """Groups of eight half-words begin anywhere in a block; counters have 64 bits."""
    graph, strategy = "sgd", "bf16-stochastic"
    planes, hypers = example(graph, strategy, "ordinary", 150)
    kernel = compiled(graph, strategy, width=width)
    for first in (*range(9), 2**35 - 64, 2**35 - 20):
        want = step(graph, STRATEGIES[strategy], planes, hypers, STEP, SEED, KEY, first)
        assert_kernel(kernel, planes, want, hypers, f"first is {first}", key=KEY,
                      first=first)


@pytest.mark.parametrize("strategy, dropped",
                         [("bf16-stochastic", 16), ("f16-stochastic", 13)])
def test_stochastic_thresholds(strategy, dropped):
    """The test uses the smallest number that an element's random bits round up, and its
    predecessor."""
    size, kernel = 40, compiled("sgd", strategy)
    planes = {"param": np.zeros(size, np.uint16),
              "grad": encode(strategy.split("-")[0], np.full(size, -1, np.float32))}
    one = int(encode(strategy.split("-")[0], np.ones(1, np.float32))[0])
    random = half_words(size, 0, SEED, KEY, STEP)
    for element in range(size):
        up = -((int(random[element]) - 0x10000) >> (16 - dropped))
        for fraction, code in ((up - 1, one), (up, one + 1)):
            hypers = {"lr": 1 + fraction * 2.0**-23, "weight_decay": 0.0}
            want = step("sgd", STRATEGIES[strategy], planes, hypers, STEP, SEED, KEY)
            assert want["param"][element] == code
            assert_kernel(kernel, planes, want, hypers, f"element {element}", key=KEY)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("graph, strategy", SHAPES)
def test_instruction_sets(graph, strategy, isa):
    require_isa(isa)
    for kind in ("mixed", "bits"):
        planes, hypers = example(graph, strategy, kind, 333)
        want = step(graph, STRATEGIES[strategy], planes, hypers, STEP, SEED)
        assert_kernel(compiled(graph, strategy, isa=isa), planes, want, hypers, isa)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("graph, strategy", SHAPES)
def test_widths(graph, strategy, width):
    for kind in ("mixed", "bits"):
        planes, hypers = example(graph, strategy, kind, 333)
        want = step(graph, STRATEGIES[strategy], planes, hypers, STEP, SEED)
        assert_kernel(compiled(graph, strategy, width=width), planes, want, hypers,
                      f"width {width}")


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("width", (1, 64))
def test_width_that_the_isa_lacks(isa, width):
    """The width is a number of elements, not of registers."""
    require_isa(isa)
    for strategy in ("collage-plus", "bf16-stochastic"):
        planes, hypers = example("adamw", strategy, "mixed", 200)
        want = step("adamw", STRATEGIES[strategy], planes, hypers, STEP, SEED)
        assert_kernel(compiled("adamw", strategy, isa=isa, width=width), planes, want,
                      hypers, f"{isa}, width {width}")


#===----------------------------------------------------------------------===#
# Ways to launch
#===----------------------------------------------------------------------===#

LAUNCHED = ("bf16-stochastic", "collage-plus", "master-weights", "remainder")
launched = pytest.mark.parametrize("strategy", LAUNCHED)


def row_hypers(strategy, count):
    """Returns hyperparameters of `count` parameter groups, all different."""
    return [cases.hypers("adamw", STRATEGIES[strategy], lr=1e-3 * (i + 1),
                         weight_decay=0.1 * i) for i in range(count)]


@launched
@pytest.mark.parametrize("threads", (1, 2, 3))
def test_plan(strategy, threads):
    """A plan has many tensors, groups with their own scalars, and any number of threads."""
    kernel = compiled("adamw", strategy)
    sizes = [1, 0, 70001, 17, 4096, 4097, 300, 64, 9000, 2]
    rows = [i % 3 for i in range(len(sizes))]
    keys = [3 * i + 1 for i in range(len(sizes))]
    firsts = [i * i for i in range(len(sizes))]
    groups = row_hypers(strategy, 3)
    before = [example("adamw", strategy, "mixed", size)[0] for size in sizes]
    after = [{n: a.copy() for n, a in planes.items()} for planes in before]
    plan = tandem.Plan(kernel)
    plan.update(sizes, [[t[p.name].ctypes.data for p in kernel.planes] for t in after],
                rows=rows, keys=keys, firsts=firsts)
    scalars = [kernel.scalars(group | integers_of(kernel)) for group in groups]
    plan.launch([h for h, _ in scalars], [i for _, i in scalars], threads=threads)
    for i, got in enumerate(after):
        want = step("adamw", STRATEGIES[strategy], before[i], groups[rows[i]], STEP,
                    SEED, keys[i], firsts[i])
        assert_same(got, want, f"tensor {i} of {sizes[i]}")
        assert_same(got, {"grad": before[i]["grad"]}, f"tensor {i}")


@launched
def test_plan_again(strategy):
    """A plan keeps its tables: a second launch continues from the first."""
    kernel = compiled("adamw", strategy)
    planes, hypers = example("adamw", strategy, "ordinary", 1000)
    got = {n: a.copy() for n, a in planes.items()}
    plan = tandem.Plan(kernel)
    plan.update([1000], [[got[p.name].ctypes.data for p in kernel.planes]], keys=[KEY])
    for number in (1, 2, 3):
        scalars = kernel.scalars(hypers | integers_of(kernel, number))
        plan.launch([scalars[0]], [scalars[1]])
        planes |= step("adamw", STRATEGIES[strategy], planes, hypers, number, SEED, KEY)
    assert_same(got, planes)


@launched
@pytest.mark.parametrize("cuts", [(1,), (8, 16), (5, 6, 7, 1000), (4096,)])
def test_chunks(strategy, cuts):
    """Shards launched with `first` have the bits of the whole tensor."""
    size, start = 4500, 2**33 + 3
    kernel = compiled("adamw", strategy)
    planes, hypers = example("adamw", strategy, "ordinary", size)
    whole = run(kernel, planes, hypers, key=KEY, first=start)
    shards = []
    for begin, end in zip((0, *cuts), (*cuts, size)):
        part = {n: a[begin:end] for n, a in planes.items()}
        shards.append(run(kernel, part, hypers, key=KEY, first=start + begin))
    assert_same({n: np.concatenate([s[n] for s in shards]) for n in planes}, whole)


@launched
@pytest.mark.parametrize("offset", (1, 3, 7))
def test_misaligned(strategy, offset):
    """Arrays need only the alignment of their elements."""
    kernel = compiled("adamw", strategy)
    planes, hypers = example("adamw", strategy, "mixed", 500)
    views = {}
    for i, (name, plane) in enumerate(planes.items()):
        begin = offset + i
        memory = np.full(len(plane) + begin + 16, 0xA5, dtype=plane.dtype)
        views[name] = memory[begin:begin + len(plane)]
        views[name][:] = plane
    want = step("adamw", STRATEGIES[strategy], planes, hypers, STEP, SEED)
    kernel(views, **hypers, **integers_of(kernel))
    assert_same(views, want)
    for i, view in enumerate(views.values()):
        assert (view.base[:offset + i] == 0xA5).all(), "wrote before the array"
        assert (view.base[offset + i + len(view):] == 0xA5).all(), "wrote after it"


@pytest.mark.parametrize("strategy", ("bf16", "collage-plus", "fp32"))
def test_hypers_at_run_time(strategy):
    """One compiled kernel accepts any hyperparameters."""
    kernel = compiled("adamw", strategy)
    planes, _ = example("adamw", strategy, "ordinary", 200)
    changes = [{"lr": 0.0}, {"lr": 1e-8}, {"lr": 3e4}, {"beta1": 0.0}, {"beta2": 0.0},
               {"beta2": 0.9999999}, {"eps": 0.0}, {"weight_decay": 0.0},
               {"weight_decay": 1e-40}, {"eps": 1.0, "beta1": 0.5}]
    for changed in changes:
        hypers = cases.hypers("adamw", STRATEGIES[strategy], **changed)
        for number in (1, 2, 63, 100_000, 2**40):
            want = step("adamw", STRATEGIES[strategy], planes, hypers, number)
            assert_kernel(kernel, planes, want, hypers, f"{changed}, step {number}",
                          step=number)


def test_defaults():
    """Hyperparameters that are not given have the graph's defaults."""
    kernel = compiled("adamw", "fp32")
    planes, _ = example("adamw", "fp32", "ordinary", 50)
    defaults = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
                "weight_decay": 0.01}
    assert kernel.hypers == defaults
    got = {n: a.copy() for n, a in planes.items()}
    kernel(got, step=1)
    assert_same(got, step("adamw", STRATEGIES["fp32"], planes, defaults, 1))


def test_seed_and_key_matter():
    """Stochastic rounding depends on everything that distinguishes elements."""
    kernel = compiled("adamw", "bf16-stochastic")
    planes, hypers = example("adamw", "bf16-stochastic", "ordinary", 400)
    options = {"seed": 1, "key": 1, "first": 8, "step": 5}
    params = [run(kernel, planes, hypers, **options)["param"]]
    for name in options:
        params.append(run(kernel, planes, hypers,
                          **options | {name: 2**31 + 16})["param"])
    for i, a in enumerate(params):
        for b in params[:i]:
            assert (a != b).any()


@pytest.mark.parametrize("name", ("bfloat16", "float32"))
def test_ml_dtypes(name):
    """Arrays of ml_dtypes' bfloat16 are accepted with their own dtype."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    strategy = {"bfloat16": "bf16", "float32": "fp32"}[name]
    dtype = {"bfloat16": ml_dtypes.bfloat16, "float32": np.float32}[name]
    planes, hypers = example("adamw", strategy, "ordinary", 100)
    typed = {n: a.copy().view(dtype) for n, a in planes.items()}
    compiled("adamw", strategy)(typed, **hypers, step=STEP)
    got = {n: a.view(planes[n].dtype) for n, a in typed.items()}
    assert_same(got, step("adamw", STRATEGIES[strategy], planes, hypers, STEP))
