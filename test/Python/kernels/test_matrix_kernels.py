#===- test_matrix_kernels.py - Kernels of matrices -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests kernels that distinguish rows and columns: CPU code and PTX against the NumPy
# model.
#
#===----------------------------------------------------------------------===#

import functools

import numpy as np
import pytest

import tandem
from model import (MATRIX_GRAPHS, SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY, cases,
                   matrix_state, matrix_step)
from model.storage import Draw
from support.kernels import ISAS, SEED, STEP, assert_same, strategy_text
from support.launch import Tensor, Tiles, aligned_copy, launch
from support.matrix_graphs import generate

LIBRARY = STRATEGIES | SCALED_LIBRARY | TENSOR_LIBRARY
# One strategy of each kind: expansions, random bits, and scales of groups within rows, of rows, and
# of whole tensors.
VARIED = ("fp32", "bf16", "collage-plus", "bf16-stochastic", "coat", "fp8-collage-plus",
          "fp8-lm")
SHAPES = ((1, 1), (1, 7), (7, 1), (3, 5), (64, 64), (33, 130), (257, 300))
HYPERS = {name: cases.TYPICAL[name] for graph in MATRIX_GRAPHS.values() for name in graph.hypers}
graphs = pytest.mark.parametrize("graph", sorted(MATRIX_GRAPHS))


@functools.cache
def compiled(strategy, target="cpu", graph="adafactor", **options):
    return tandem.compile(graph, strategy, target=target, **options)


def by_model(strategy, planes, key=0, graph="adafactor"):
    return matrix_step(graph, LIBRARY[strategy], planes, HYPERS, STEP, SEED, key)


def scalars(kernel):
    given = HYPERS | {"step": STEP, "seed": SEED}
    return {name: given[name] for name in [*kernel.hypers, *kernel.integers]}


def states(strategy, shapes, kind="ordinary", graph="adafactor"):
    return [matrix_state(graph, LIBRARY[strategy], kind, shape, seed)
            for seed, shape in enumerate(shapes)]


#===----------------------------------------------------------------------===#
# CPU
#===----------------------------------------------------------------------===#


def by_cpu(kernel, tensors, shapes, threads=2):
    """Updates copies of the planes in one launch."""
    copies = [{name: p.copy() for name, p in planes.items()} for planes in tensors]
    plan = tandem.Plan(kernel)
    plan.update(list(shapes), [[copy[p.name].ctypes.data for p in kernel.planes]
                               for copy in copies])
    hypers, integers = kernel.scalars(scalars(kernel))
    plan.launch([hypers], [integers], threads=threads)
    return copies


def check(strategy, got, before, graph="adafactor"):
    for key, (new, old) in enumerate(zip(got, before)):
        want = by_model(strategy, old, key, graph)
        assert_same(new, want | {"grad": old["grad"]} if "grad" in old else want)


@graphs
@pytest.mark.parametrize("kind", [k for k in cases.SCALED_KINDS if k != "mixed"])
@pytest.mark.parametrize("strategy", VARIED)
def test_cpu_against_model(strategy, kind, graph):
    before = states(strategy, SHAPES, kind, graph)
    check(strategy, by_cpu(compiled(strategy, graph=graph), before, SHAPES), before, graph)


def test_launches_agree():
    """Threads, vector widths and other tensors in the launch do not change bits."""
    shapes = ((70, 5000), (5000, 70), (3, 5))
    before = states("fp8-collage-plus", shapes)
    want = by_cpu(compiled("fp8-collage-plus"), before, shapes, threads=1)
    for options in (*({"isa": isa} for isa in ISAS[:2]), {"width": 1}, {"width": 16}):
        kernel = compiled("fp8-collage-plus", **options)
        for got, expected in zip(by_cpu(kernel, before, shapes), want):
            assert_same(got, expected, str(options))


#===----------------------------------------------------------------------===#
# PTX
#===----------------------------------------------------------------------===#


def by_ptx(kernel, tensors, shapes, **options):
    """Updates copies of the planes in the evaluator."""
    copies = [{name: aligned_copy(p.reshape(-1)) for name, p in planes.items()}
              for planes in tensors]
    launch(kernel, [Tensor(copy, key=key, shape=shape)
                    for key, (copy, shape) in enumerate(zip(copies, shapes))],
           [scalars(kernel)], **options)
    return [{name: copy[name].reshape(p.shape) for name, p in planes.items()}
            for copy, planes in zip(copies, tensors)]


PTX_SHAPES = ((1, 1), (1, 70), (7, 1), (13, 300), (6, 512))


@pytest.mark.thinned(2)
@graphs
@pytest.mark.parametrize("chip", ("sm_80", "sm_90", "sm_100"))
@pytest.mark.parametrize("strategy", VARIED)
def test_ptx_against_model(strategy, chip, graph):
    before = states(strategy, PTX_SHAPES, graph=graph)
    kernel = compiled(strategy, chip, graph)
    check(strategy, by_ptx(kernel, before, PTX_SHAPES, blocks=2), before, graph)


@pytest.mark.parametrize("tiles", (Tiles(1, 8), Tiles(16, 512), Tiles(8, 16)))
def test_tiles_agree(tiles):
    """Tile shapes do not change bits."""
    before = states("fp32", PTX_SHAPES)
    kernel = compiled("fp32", "sm_90")
    check("fp32", by_ptx(kernel, before, PTX_SHAPES, threads=64, tiles=tiles), before)


#===----------------------------------------------------------------------===#
# Random graphs
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("seed", range(100))
def test_random_graphs(seed, tmp_path):
    """CPU code and, for every third graph, PTX agree with NumPy."""
    example = generate(seed, Draw(SEED, 0, 0, STEP))
    (tmp_path / "random.mlir").write_text(strategy_text("random", example.strategy))
    want = example.planes | example.want
    kernel = tandem.compile(example.text, "random", path=[tmp_path])
    got, = by_cpu(kernel, [example.planes], [example.shape])
    assert_same(got, want, example.text)
    if seed % 3 == 0:
        chip = ("sm_80", "sm_90", "sm_100")[seed // 3 % 3]
        kernel = tandem.compile(example.text, "random", chip, path=[tmp_path])
        got, = by_ptx(kernel, [example.planes], [example.shape])
        assert_same(got, want, example.text)


#===----------------------------------------------------------------------===#
# Vectors with equal entries
#===----------------------------------------------------------------------===#

ALIKE = """
func.func @alike(%w: tensor<?x?xf32> {{tandem.role = #tandem.role<param "w">}},
                 %r: tensor<?xf32> {{tandem.role = #tandem.role<state "r", per = row>}},
                 %c: tensor<?xf32> {{tandem.role = #tandem.role<state "c", per = column>}})
    -> (tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>) {{
  %third = arith.constant 0.333333343 : f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %w, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %w, %c1 : tensor<?x?xf32>
  %total = linalg.reduce {{ arith.addf }} ins(%w : tensor<?x?xf32>) outs(%none : tensor<f32>)
      dimensions = [0, 1]
  %value = tensor.extract %total[] : tensor<f32>
  {vector}
  %sum = linalg.reduce {{ arith.addf }} ins(%v : tensor<?xf32>) outs(%none : tensor<f32>)
      dimensions = [0] {{tandem.scope = "{scope}"}}
  %all = tensor.extract %sum[] : tensor<f32>
  %new = tensor.splat %all[%rows, %columns] : tensor<?x?xf32>
  return %new, %r, %c : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>
}}"""

_BROADCAST = """%v = linalg.broadcast ins(%total : tensor<f32>) outs({} : tensor<?xf32>)
      dimensions = [0]"""
# The values of the entries, and the axis along which they vary.
VECTORS = {
    "splat per row": ("%v = tensor.splat %value[%rows] : tensor<?xf32>", 0),
    "splat per column": ("%v = tensor.splat %value[%columns] : tensor<?xf32>", 1),
    "broadcast per row": (_BROADCAST.format("%r"), 0),
    "broadcast per column": (_BROADCAST.format("%c"), 1),
    "filled": ("%e = tensor.empty(%columns) : tensor<?xf32>\n  %v = linalg.fill "
               "ins(%third : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>", 1),
    "filled with the total": (
        "%e = tensor.empty(%rows) : tensor<?xf32>\n  %v = linalg.fill "
        "ins(%value : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>", 0),
    "literal": ("%v = tensor.splat %third[%rows] : tensor<?xf32>", 0),
}


UNIFORM = """
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#matrix = affine_map<(i, j) -> (i, j)>
func.func @uniform(%h: f64 {tandem.role = #tandem.role<hyper "h">},
                   %w: tensor<?x?xf32> {tandem.role = #tandem.role<param "w">},
                   %r: tensor<?xf32> {tandem.role = #tandem.role<state "r", per = row>})
    -> (tensor<?x?xf32>, tensor<?xf32>) {
  %x = arith.truncf %h : f64 to f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %w, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %w, %c1 : tensor<?x?xf32>
  %by_row = tensor.splat %x[%rows] : tensor<?xf32>
  %by_column = tensor.splat %x[%columns] : tensor<?xf32>
  %e = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %b = linalg.broadcast ins(%by_row : tensor<?xf32>) outs(%e : tensor<?x?xf32>) dimensions = [1]
  %m = linalg.generic {indexing_maps = [#row, #column, #matrix],
                       iterator_types = ["parallel", "parallel"]}
      ins(%by_row, %by_column : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %pq = arith.mulf %p, %q : f32
    linalg.yield %pq : f32
  } -> tensor<?x?xf32>
  %sum = arith.addf %b, %m : tensor<?x?xf32>
  %new = arith.addf %w, %sum : tensor<?x?xf32>
  %new_r = arith.mulf %r, %by_row : tensor<?xf32>
  return %new, %new_r : tensor<?x?xf32>, tensor<?xf32>
}"""


def test_uniform_vectors_meet_matrices():
    before = {name: array for name, array in alike((13, 70)).items() if name != "c"}
    want = {"w": before["w"] + np.float32(1.5 + 1.5 * 1.5),
            "r": np.full(13, 1.5, np.float32)}
    interpreted = {name: array.copy() for name, array in before.items()}
    tandem.interpret(UNIFORM, "fp32", interpreted, {"h": 1.5})
    compiled = {name: array.copy() for name, array in before.items()}
    tandem.compile(UNIFORM, "fp32")(compiled, h=1.5)
    for got in (interpreted, compiled):
        assert all((got[name] == want[name]).all() for name in want)


def tree(values):
    """Returns the tree sum of numbers, neighbours first."""
    values = np.asarray(values, np.float32)
    while len(values) > 1:
        values = np.append(values, [np.float32(-0.0)] * (len(values) % 2))
        values = (values[::2] + values[1::2]).astype(np.float32)
    return values[0]


def alike(shape):
    rng = np.random.default_rng(shape)
    return {"w": rng.standard_normal(shape).astype(np.float32),
            "r": np.ones(shape[0], np.float32), "c": np.ones(shape[1], np.float32)}


@pytest.mark.parametrize("vector", VECTORS)
def test_entries_alike_count_each(vector):
    text, axis = VECTORS[vector]
    graph = ALIKE.format(vector=text, scope="tensor")
    shapes = ((1, 1), (3, 5), (13, 300), (70, 7))
    before = [alike(shape) for shape in shapes]
    kernel = tandem.compile(graph, "fp32")
    by_chip = tandem.compile(graph, "fp32", target="sm_90")
    launched = by_ptx(by_chip, before, shapes, blocks=2)
    for arrays, cpu, ptx in zip(before, by_cpu(kernel, before, shapes), launched):
        entry = tree([tree(row) for row in arrays["w"]])
        if "third" in text:
            entry = np.float32(1 / 3)
        want = tree([entry] * arrays["w"].shape[axis])
        interpreted = {name: array.copy() for name, array in arrays.items()}
        tandem.interpret(graph, "fp32", interpreted, {})
        for got in (interpreted, cpu, ptx):
            assert (got["w"] == want).all()


#===----------------------------------------------------------------------===#
# Many sums
#===----------------------------------------------------------------------===#


def with_column_sums(count):
    """Returns a graph that sums the columns of `count` multiples of a matrix."""
    lines = [f"""
  %h{i} = arith.constant {i + 1}.0 : f32
  %t{i} = tensor.splat %h{i}[%rows, %columns] : tensor<?x?xf32>
  %m{i} = arith.mulf %w, %t{i} : tensor<?x?xf32>
  %r{i} = linalg.reduce {{ arith.addf }} ins(%m{i} : tensor<?x?xf32>) outs(%none : tensor<?xf32>)
      dimensions = [0]
  %a{i} = arith.addf %{f"a{i - 1}" if i else "c"}, %r{i} : tensor<?xf32>""" for i in range(count)]
    return f"""
func.func @sums(%w: tensor<?x?xf32> {{tandem.role = #tandem.role<param "w">}},
                %c: tensor<?xf32> {{tandem.role = #tandem.role<state "c", per = column>}})
    -> (tensor<?x?xf32>, tensor<?xf32>) {{
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %w, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %w, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%columns) : tensor<?xf32>
  %none = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  {"".join(lines)}
  return %w, %a{count - 1} : tensor<?x?xf32>, tensor<?xf32>
}}"""


def test_sums_fit_a_thread():
    """A thread's stack is large enough for the column sums."""
    graph = with_column_sums(30)
    before = {"w": alike((70, 300))["w"], "c": np.zeros(300, np.float32)}
    want = {name: array.copy() for name, array in before.items()}
    tandem.interpret(graph, "fp32", want, {})
    tandem.compile(graph, "fp32")(before, threads=2)
    assert (before["c"] == want["c"]).all()
    with pytest.raises(ValueError, match="bytes of a thread's stack for its reductions, "
                                         "which may take 2097152; make fewer"):
        tandem.compile(with_column_sums(50), "fp32")
