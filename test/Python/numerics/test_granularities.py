#===- test_granularities.py - Scales of rows and blocks ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests scales shared by a row or a block of a matrix, in graphs of flat tensors and of
# matrices: CPU code, PTX and the interpreter against the NumPy model.
#
#===----------------------------------------------------------------------===#

import functools
from dataclasses import replace

import numpy as np
import pytest

import tandem
from model import SCALED_LIBRARY, STRATEGIES, cases, matrix_state, matrix_step
from model.codes import (DynamicCode, ExpandedCode, FloatCode, MinifloatCode, PairCode,
                         RootCode)
from model.matrices import matrix_graph, storage_of
from model.strategies import Strategy
from model.scaled import ROW, WHOLE, Scaled
from model.storage import Draw, Expansion, Plain, nearest
from support.fake_gpu import FakeGPU
from support.kernels import ISAS, SEED, STEP, assert_same, write_strategies
from support.launch import Tensor, Tiles, aligned_copy, launch


def blocks(code, size, scale, recipe="current"):
    return Scaled(code, size, scale, recipe, rows=size)


E4M3, E5M2 = FloatCode("f8E4M3FN"), FloatCode("f8E5M2")
# Every code and scale type, combined with other kinds of groups in the same kernel.
TABLE = {
    "rows": Strategy(Scaled(E5M2, ROW, "f32"), Scaled(PairCode("f8E4M3FN"), ROW, "f32"),
                     Scaled(E4M3, ROW, "bf16"), Scaled(RootCode(), ROW, "f16")),
    "expanded-rows": Strategy(
        Plain("bf16"), Expansion("bf16", 2),
        Scaled(ExpandedCode(DynamicCode(True), 1e6), ROW, "f32"),
        Scaled(ExpandedCode(E4M3, 2.0**18), ROW, "bf16")),
    "blocks-16": Strategy(
        blocks(E4M3, 16, "f32"), blocks(PairCode("f8E5M2"), 16, "bf16"),
        blocks(E4M3, 16, "f8E8M0FNU", "pow2"), blocks(RootCode(), 16, "f32")),
    "blocks-128": Strategy(
        Plain("bf16"), blocks(FloatCode("f16"), 128, "f32"),
        blocks(ExpandedCode(E4M3, 2.0**18), 128, "bf16"),
        blocks(MinifloatCode(5, 2, rounding="stochastic"), 128, "f32", "mx_floor")),
    "blocks-256": Strategy(Plain("f32"), Plain("f32"), blocks(E4M3, 256, "f32"),
                           Scaled(E4M3, 32, "f32")),
    "mixed": Strategy(Scaled(E5M2, WHOLE, "f32"), blocks(E4M3, 64, "f32"),
                      Scaled(E4M3, ROW, "f32"), Scaled(E4M3, 128, "f8E8M0FNU", "pow2")),
    "given": Strategy(Scaled(E4M3, ROW, "f32", "given"), Plain("bf16"),
                      blocks(E4M3, 32, "f32", "given"), Scaled(RootCode(), ROW, "f32")),
}
# Vectors per row or column have no row or block scales.
FOR_ADAFACTOR = {name + "-factored": Strategy(s.grad, s.param, s.first, Plain("f32"))
                 for name, s in TABLE.items()}
LIBRARY = TABLE | FOR_ADAFACTOR
CASES = [*((graph, name) for graph in ("adamw", "lamb", "sgd_momentum") for name in TABLE),
         *(("adafactor", name) for name in FOR_ADAFACTOR)]
SHAPES = ((1, 1), (1, 7), (7, 1), (3, 5), (16, 16), (64, 64), (33, 130), (257, 300))
KINDS = [kind for kind in cases.SCALED_KINDS if kind != "mixed"]


@pytest.fixture(scope="module", autouse=True)
def directory(tmp_path_factory):
    """Returns the folder of the strategies."""
    path = tmp_path_factory.mktemp("strategies")
    write_strategies(path, LIBRARY)
    compiled.path = str(path)
    yield path
    kernels.cache_clear()


@functools.cache
def kernels(graph, strategy, target, options):
    return tandem.compile(graph, strategy, target, path=[compiled.path], **dict(options))


def compiled(graph, strategy, target="cpu", **options):
    return kernels(graph, strategy, target, tuple(options.items()))


def hypers_of(graph):
    return {name: cases.TYPICAL[name] for name in matrix_graph(graph).hypers}


def by_model(graph, strategy, planes, key=0):
    return planes | matrix_step(graph, LIBRARY[strategy], planes, hypers_of(graph), STEP,
                                SEED, key)


def states(graph, strategy, shapes, kind="ordinary"):
    return [matrix_state(graph, LIBRARY[strategy], kind, shape, seed)
            for seed, shape in enumerate(shapes)]


def scalars(kernel, graph):
    given = dict.fromkeys(kernel.hypers) | hypers_of(graph) | {"step": STEP, "seed": SEED}
    return {name: given[name] for name in [*kernel.hypers, *kernel.integers]}


def by_cpu(graph, kernel, tensors, shapes, threads=2):
    """Updates copies of the planes in one launch."""
    copies = [{name: p.copy() for name, p in planes.items()} for planes in tensors]
    plan = tandem.Plan(kernel)
    plan.update(list(shapes), [[copy[p.name].ctypes.data for p in kernel.planes]
                               for copy in copies])
    hypers, integers = kernel.scalars(scalars(kernel, graph))
    plan.launch([hypers], [integers], threads=threads)
    return copies


def by_ptx(graph, kernel, tensors, shapes, **options):
    """Updates copies of the planes in the evaluator."""
    copies = [{name: aligned_copy(p.reshape(-1)) for name, p in planes.items()}
              for planes in tensors]
    launch(kernel, [Tensor(copy, key=key, shape=shape)
                    for key, (copy, shape) in enumerate(zip(copies, shapes))],
           [scalars(kernel, graph)], **options)
    return [{name: copy[name].reshape(p.shape) for name, p in planes.items()}
            for copy, planes in zip(copies, tensors)]


def check(graph, strategy, got, before):
    for key, (new, old) in enumerate(zip(got, before)):
        assert_same(new, by_model(graph, strategy, old, key), f"{graph}, {strategy}")


#===----------------------------------------------------------------------===#
# Kernels
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("graph, strategy", CASES)
def test_cpu(graph, strategy):
    for kind in KINDS:
        before = states(graph, strategy, SHAPES, kind)
        check(graph, strategy, by_cpu(graph, compiled(graph, strategy), before, SHAPES),
              before)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("graph, strategy", CASES)
def test_interpreter(graph, strategy):
    for kind, shape in zip(KINDS, SHAPES[1:]):
        planes = matrix_state(graph, LIBRARY[strategy], kind, shape, 3)
        got = {name: plane.copy() for name, plane in planes.items()}
        tandem.interpret(graph, strategy, got, hypers_of(graph), step=STEP, seed=SEED,
                         key=5, path=[compiled.path])
        assert_same(got, by_model(graph, strategy, planes, 5), f"{kind}, {shape}")


PTX_SHAPES = ((1, 1), (1, 70), (7, 1), (18, 300), (33, 40))


@pytest.mark.parametrize("graph, strategy", CASES)
def test_ptx(graph, strategy):
    chip = ("sm_80", "sm_90", "sm_100")[CASES.index((graph, strategy)) % 3]
    before = states(graph, strategy, PTX_SHAPES)
    check(graph, strategy,
          by_ptx(graph, compiled(graph, strategy, chip), before, PTX_SHAPES, blocks=2),
          before)


@pytest.mark.parametrize("strategy", ("rows", "blocks-16", "blocks-128", "mixed"))
def test_launches_agree(strategy):
    """Threads, vector widths, instructions and tiles do not change bits."""
    shapes = ((140, 4500), (4500, 70), (3, 5))
    before = states("adamw", strategy, shapes)
    want = by_cpu("adamw", compiled("adamw", strategy), before, shapes, threads=1)
    for options in (*({"isa": isa} for isa in ISAS[:2]), {"width": 1}, {"width": 16}):
        kernel = compiled("adamw", strategy, **options)
        for got, expected in zip(by_cpu("adamw", kernel, before, shapes), want):
            assert_same(got, expected, str(options))


@pytest.mark.parametrize("tiles", (Tiles(1, 16), Tiles(16, 512), Tiles(8, 256)))
def test_tiles_agree(tiles):
    for strategy in ("rows", "blocks-16"):
        before = states("adamw", strategy, PTX_SHAPES)
        kernel = compiled("adamw", strategy, "sm_90")
        check("adamw", strategy,
              by_ptx("adamw", kernel, before, PTX_SHAPES, threads=64, tiles=tiles), before)


@pytest.mark.parametrize("strategy", ("rows", "blocks-16", "mixed"))
def test_on_a_device(strategy):
    """The test uses the runtime's tables for CUDA, with the PTX evaluator in place of the
    device."""
    gpu, kernel = FakeGPU(), compiled("adamw", strategy, "sm_90")
    before = states("adamw", strategy, PTX_SHAPES)
    arrays = [gpu.arrays({n: p.reshape(-1) for n, p in planes.items()})
              for planes in before]
    plan = tandem.Plan(kernel, gpu.device)
    plan.update(list(PTX_SHAPES), [[planes[p.name].address for p in kernel.planes]
                                   for planes in arrays])
    hypers, integers = kernel.scalars(scalars(kernel, "adamw"))
    plan.launch_async([hypers], [integers])
    gpu.device.synchronize()
    got = [{name: planes[name].read().reshape(p.shape) for name, p in old.items()}
           for planes, old in zip(arrays, before)]
    check("adamw", strategy, got, before)
    gpu.check()


@pytest.mark.parametrize("strategy", ("rows", "blocks-16", "mixed"))
def test_package(strategy, tmp_path):
    """A saved and loaded kernel keeps its rows and blocks."""
    kernel, path = compiled("adamw", strategy), tmp_path / "rows.tdm"
    kernel.save(path)
    loaded = tandem.load(path)
    assert loaded.planes == kernel.planes and loaded.reductions == kernel.reductions
    assert loaded.is_matrix and loaded.is_flat_graph
    before = states("adamw", strategy, SHAPES)
    check("adamw", strategy, by_cpu("adamw", loaded, before, SHAPES), before)


@pytest.mark.parametrize("strategy", TABLE)
def test_signature(strategy):
    """The signature lists the arrays and their numbers of entries."""
    kernel = compiled("adamw", strategy)
    assert kernel.is_matrix and kernel.is_flat_graph
    planes = matrix_state("adamw", TABLE[strategy], "ordinary", (70, 300))
    assert {p.name: p.entries(300, 70) for p in kernel.planes} == {
        name: array.size for name, array in planes.items()}
    for role, storage in (("param", TABLE[strategy].param),
                          ("exp_avg", TABLE[strategy].first)):
        if isinstance(storage, Scaled):
            scale = next(p for p in kernel.planes if p.name == role + ".scale")
            shared = ("each row" if storage.group == ROW else
                      f"each {storage.rows}x{storage.rows}")
            assert scale.shared_by == shared and f"for {shared}" in kernel.signature
            assert scale.elements_per_entry == (
                0 if storage.group == ROW else storage.rows ** 2)


def test_bytes():
    """A block's scale is divided among its elements, and a row's scale does not count."""
    assert compiled("adamw", "blocks-16").bytes_per_parameter == (
        1 + 4 / 256 + 2 + 2 / 256 + 1 + 1 / 256 + 1 + 4 / 256)
    assert compiled("adamw", "rows").bytes_per_parameter == pytest.approx(5, abs=1e-9)


@pytest.mark.parametrize("shape", ((0, 0), (0, 3), (4, 0)))
def test_no_elements(shape):
    for strategy in TABLE:
        before = states("adamw", strategy, [shape])
        got, = by_cpu("adamw", compiled("adamw", strategy), before, [shape])
        assert_same(got, before[0])


#===----------------------------------------------------------------------===#
# Errors
#===----------------------------------------------------------------------===#


def arrays_of(strategy, shape=(20, 40)):
    return matrix_state("adamw", TABLE[strategy], "ordinary", shape)


@pytest.mark.parametrize("strategy, changed, why", (
    ("rows", {"exp_avg.scale": np.zeros(19, np.uint16)},
     "array 'exp_avg.scale' has 19 elements, 'param' has 20 rows of 40; one entry for "
     "each row makes 20"),
    ("blocks-16", {"exp_avg.scale": np.zeros(5, np.uint8)},
     "one entry for each 16x16 of them makes 6"),
    ("rows", {"grad": np.zeros(800, np.uint8)}, "updates matrices, so pass one with two")))
def test_arrays_that_do_not_fit(strategy, changed, why):
    kernel, arrays = compiled("adamw", strategy), arrays_of(strategy)
    with pytest.raises(ValueError, match=why):
        kernel(arrays | changed, lr=1e-3, step=1)


def test_shard():
    kernel = compiled("adamw", "rows")
    with pytest.raises(ValueError, match="works on whole tensors; pass the unsharded"):
        kernel(arrays_of("rows"), lr=1e-3, step=1, first=256)


def test_blocks_of_two_sizes(tmp_path):
    write_strategies(tmp_path, {"two": Strategy(
        Plain("bf16"), Plain("bf16"), blocks(E4M3, 32, "f32"), blocks(E4M3, 64, "f32"))})
    with pytest.raises(ValueError, match="the blocks of a kernel are of one size"):
        tandem.compile("adamw", "two", path=[tmp_path])


def test_rows_of_a_vector():
    with pytest.raises(ValueError, match="stores \"row_var\" as .* but it is a vector with "
                                         "an entry per row, which has no rows or blocks"):
        compiled("adafactor", "rows")


@pytest.mark.parametrize("strategy", ("rows", "blocks-16"))
def test_interpreter_needs_matrices(strategy):
    arrays = arrays_of(strategy)
    flat = {name: p.reshape(-1) for name, p in arrays.items()}
    with pytest.raises(ValueError, match="belongs to a matrix, but its array has no rows"):
        tandem.interpret("adamw", strategy, flat, hypers_of("adamw"), path=[compiled.path])
    arrays["exp_avg.scale"] = arrays["exp_avg.scale"].reshape(-1)[1:]
    with pytest.raises(ValueError, match="each row" if strategy == "rows" else
                                         "each block of 16x16 makes 6"):
        tandem.interpret("adamw", strategy, arrays, hypers_of("adamw"),
                         path=[compiled.path])


#===----------------------------------------------------------------------===#
# Conversions
#===----------------------------------------------------------------------===#

# Strategies without groups, with flat groups, with rows, and with blocks of two sizes.
NAMES = ("fp32", "coat", "rows", "blocks-16", "blocks-128", "mixed", "given")
ALL = LIBRARY | {name: (STRATEGIES | SCALED_LIBRARY)[name] for name in ("fp32", "coat")}


def has_rows(strategy):
    """Returns whether tensors are matrices under a strategy."""
    return any(isinstance(s, Scaled) and (s.group == ROW or s.rows > 1)
               for s in (strategy.grad, strategy.param, strategy.first, strategy.second))


def stored_by(strategy, role, shape):
    """Returns a role's storage as a conversion reads and writes it."""
    if has_rows(strategy):
        return nearest(storage_of(strategy, role, "element", shape))
    return nearest(strategy.storage(role))


def made(storage):
    """Returns the storage that a conversion writes, which computes all scales."""
    is_given = isinstance(storage, Scaled) and storage.recipe == "given"
    return replace(storage, recipe="pow2") if is_given else storage


def converted(source, target, planes, shape):
    """Converts by decoding and encoding; equal storages are copied."""
    flat, want = {name: p.reshape(-1) for name, p in planes.items()}, {}
    for role in ("param", "exp_avg", "exp_avg_sq"):
        ours, theirs = (stored_by(ALL[name], role, shape) for name in (source, target))
        if ours == theirs:
            want |= {name: flat[name] for name in theirs.planes(role)}
            continue
        with np.errstate(all="ignore"):
            want |= made(theirs).encode(role, ours.decode(flat, role),
                                        Draw(floor=role == "exp_avg_sq"))
    return want


def state_of(strategy, shape):
    if has_rows(ALL[strategy]):
        return matrix_state("adamw", ALL[strategy], "ordinary", shape)
    # Flat scales are combined with elements in rows.
    flat = cases.state("adamw", ALL[strategy], "ordinary", int(np.prod(shape)))
    return {name: p.reshape(shape) if p.size == np.prod(shape) else p
            for name, p in flat.items()}


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
def test_convert_state(source, target):
    for shape in ((3, 70), (40, 130), (1, 300), (131, 1)):
        planes = state_of(source, shape)
        got = tandem.convert_state("adamw", {n: p for n, p in planes.items()
                                             if not n.startswith("grad")},
                                   source, target, path=[compiled.path])
        assert_same({name: p.reshape(-1).view(f"u{p.itemsize}") for name, p in got.items()},
                    converted(source, target, planes, shape), f"{shape}")
        if has_rows(ALL[target]):
            like = matrix_state("adamw", ALL[target], "ordinary", shape)
            assert {n: p.shape for n, p in got.items()} == {n: like[n].shape for n in got}


def test_convert_state_needs_rows():
    flat = cases.state("adamw", ALL["fp32"], "ordinary", 12)
    with pytest.raises(ValueError, match="updates matrices, so pass one with two"):
        tandem.convert_state("adamw", flat, "fp32", "rows", path=[compiled.path])
    square = {name: p.reshape(3, 4) for name, p in flat.items()}
    with pytest.raises(ValueError, match="first is 16, but adamw updates matrices"):
        tandem.convert_state("adamw", square, "fp32", "rows", path=[compiled.path], first=16)
