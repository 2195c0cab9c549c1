#===- test_matrices.py - Graphs of matrices --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests graphs with states per row or column: the NumPy model against PyTorch's optimizer,
# and the interpreter against the model.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import (MATRIX_GRAPHS, SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY, cases,
                   matrix_plane_types, matrix_state, matrix_step, metrics)
from model.storage import Draw
from support.kernels import SEED, STEP, STRATEGY_PATH, assert_same, strategy_text
from support.matrix_graphs import generate

LIBRARY = STRATEGIES | SCALED_LIBRARY | TENSOR_LIBRARY
# One strategy of each kind: expansions, random bits, and scales of groups within rows, of rows, and
# of whole tensors.
VARIED = ("fp32", "bf16", "collage-plus", "bf16-stochastic", "coat", "fp8-collage-plus",
          "fp8-lm")
KINDS = [kind for kind in cases.SCALED_KINDS if kind != "mixed"]
GENERATED = range(100)
SHAPES = ((1, 1), (1, 7), (7, 1), (3, 5), (64, 64), (33, 130), (257, 300))


def hypers_of(graph, strategy=None, **changed):
    return cases.typical(MATRIX_GRAPHS[graph].hypers, strategy) | changed


#===----------------------------------------------------------------------===#
# The model
#===----------------------------------------------------------------------===#


def by_torch(planes, grads, **options):
    """Returns the results of torch.optim.Adafactor on f32 planes after each step."""
    torch = pytest.importorskip("torch")
    param = torch.from_numpy(planes["param"].view(np.float32).copy())
    optimizer = torch.optim.Adafactor([param], **options)
    for grad in grads:
        param.grad = torch.from_numpy(grad)
        optimizer.step()
        state = optimizer.state[param]
        yield {"param": param.numpy(), "row_var": state["row_var"].numpy().reshape(-1),
               "col_var": state["col_var"].numpy().reshape(-1)}


@pytest.mark.parametrize("lr, d, decay, size", (
    (0.01, 1.2, 0.0, 1.0), (0.9, 1.0, 0.1, 1e-9), (0.2, 1e9, 0.5, 1e5)))
@pytest.mark.parametrize("shape", SHAPES)
def test_adafactor_against_torch(shape, lr, d, decay, size):
    """The cases include clipped and unclipped updates, means and weights below their minimum,
    and step sizes of lr and of 1/sqrt(t)."""
    rng = np.random.default_rng([shape[0], shape[1]])
    planes = {name: np.zeros(n, np.uint32) for name, n in
              zip(("param", "row_var", "col_var"), (shape, shape[0], shape[1]))}
    planes["param"] = (size * rng.standard_normal(shape)).astype(np.float32).view(np.uint32)
    grads = [(t * size * rng.standard_normal(shape)).astype(np.float32) for t in range(4)]
    want = by_torch(planes, grads, lr=lr, d=d, weight_decay=decay)
    for t, (grad, expected) in enumerate(zip(grads, want), 1):
        hypers = hypers_of("adafactor", lr=lr, rho=min(lr, t**-0.5), mixing=t**-0.8, d=d,
                           weight_decay=decay)
        planes["grad"] = grad.view(np.uint32)
        planes |= matrix_step("adafactor", STRATEGIES["fp32"], planes, hypers, t)
        for name, value in expected.items():
            assert planes[name].shape == value.shape
            assert np.allclose(planes[name].view(np.float32), value, rtol=1e-5,
                               atol=1e-6 * np.abs(value).max()), (name, t)


#===----------------------------------------------------------------------===#
# The interpreter
#===----------------------------------------------------------------------===#


def interpreted(graph, strategy, planes, hypers, path=(), **options):
    got = {name: plane.copy() for name, plane in planes.items()}
    flags = tandem.interpret(graph, strategy, got, hypers, path=[*path, STRATEGY_PATH],
                             step=STEP, seed=SEED, **options)
    return got, flags


def check(strategy, kind, shape, graph="adafactor", **changed):
    planes = matrix_state(graph, LIBRARY[strategy], kind, shape, 3)
    hypers = hypers_of(graph, LIBRARY[strategy], **changed)
    want = matrix_step(graph, LIBRARY[strategy], planes, hypers, STEP, SEED, 5)
    assert set(want) == {name for name in matrix_plane_types(graph, LIBRARY[strategy])
                         if not name.startswith("grad")}
    got, flags = interpreted(graph, strategy, planes, hypers, key=5)
    assert_same(got, planes | want, f"{graph}, {strategy}, {kind}, {shape}")
    return flags


graphs = pytest.mark.parametrize("graph", sorted(MATRIX_GRAPHS))


@graphs
@pytest.mark.parametrize("strategy", LIBRARY)
def test_graphs(strategy, graph):
    """Every strategy of the library and those in f16 agree, on adversarial values too."""
    for i, kind in enumerate(KINDS):
        for shape in SHAPES[i % 2:4:2]:
            check(strategy, kind, shape, graph)


@graphs
@pytest.mark.parametrize("strategy", VARIED)
def test_shapes(strategy, graph):
    """Rows are longer or shorter than a group; some updates are clipped."""
    clipping = {"adafactor": {"d": 1e-3}, "came": {"clip_threshold": 1e-3}}.get(graph, {})
    for shape in SHAPES[4:6] + ((2, 257), (129, 2)):
        check(strategy, "ordinary", shape, graph)
        check(strategy, "large_update", shape, graph, weight_decay=0.0, **clipping)


@graphs
@pytest.mark.parametrize("strategy", ("collage-plus", "fp8-collage-plus"))
def test_sums_of_several_powers_of_two(strategy, graph):
    check(strategy, "ordinary", SHAPES[6], graph)


@pytest.mark.parametrize("shape", ((0, 0), (0, 3), (4, 0)))
def test_no_elements(shape):
    for strategy in VARIED:
        assert check(strategy, "ordinary", shape) == 0


def test_flags():
    """A gradient that is not finite is reported."""
    kinds = {"ordinary": 0, "zeros": 0, "nans": 1, "infinities": 1}
    assert {kind: check("bf16", kind, (33, 130)) for kind in kinds} == kinds


def test_many_steps():
    """A step reads the states that the previous step has written."""
    for strategy in VARIED:
        model, hypers = LIBRARY[strategy], hypers_of("adafactor")
        planes = mine = matrix_state("adafactor", model, "ordinary", (5, 19))
        for step in range(1, 6):
            fresh = matrix_state("adafactor", model, "ordinary", (5, 19), step)
            grad = {n: p for n, p in fresh.items() if n.startswith("grad")}
            planes = planes | grad
            planes |= matrix_step("adafactor", model, planes, hypers, step, SEED)
            mine = {n: p.copy() for n, p in (mine | grad).items()}
            tandem.interpret("adafactor", strategy, mine, hypers, step=step, seed=SEED)
            assert_same(mine, planes, f"{strategy}, step {step}")


ROW_NORM = """
#row = affine_map<(i, j) -> (i)>
#matrix = affine_map<(i, j) -> (i, j)>
func.func @row_norm(
    %mean: tensor<?xf32> {tandem.role = #tandem.role<state "mean", per = column>},
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<grad "x">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<param "y">})
    -> (tensor<?xf32>, tensor<?x?xf32>) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %mean, %c0 : tensor<?xf32>
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %by_column = tensor.empty(%columns) : tensor<?xf32>
  %row_none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %column_none = linalg.fill ins(%zero : f32) outs(%by_column : tensor<?xf32>) -> tensor<?xf32>
  %row_sum = linalg.reduce { arith.addf } ins(%x : tensor<?x?xf32>)
      outs(%row_none : tensor<?xf32>) dimensions = [1]
  %normal = linalg.generic {indexing_maps = [#row, #matrix, #matrix],
                            iterator_types = ["parallel", "parallel"]}
      ins(%row_sum, %x : tensor<?xf32>, tensor<?x?xf32>) outs(%y : tensor<?x?xf32>) {
  ^bb0(%s: f32, %e: f32, %out: f32):
    %root = math.sqrt %s : f32
    %quotient = arith.divf %e, %root : f32
    linalg.yield %quotient : f32
  } -> tensor<?x?xf32>
  %column_sum = linalg.reduce { arith.addf } ins(%normal : tensor<?x?xf32>)
      outs(%column_none : tensor<?xf32>) dimensions = [0]
  %count_int = arith.index_cast %rows : index to i64
  %count = arith.sitofp %count_int : i64 to f32
  %counts = tensor.splat %count[%columns] : tensor<?xf32>
  %means = arith.divf %column_sum, %counts : tensor<?xf32>
  return %means, %normal : tensor<?xf32>, tensor<?x?xf32>
}"""


@pytest.mark.parametrize("shape", SHAPES)
def test_row_norm(shape):
    """Rows are divided by the root of their sum, and the column means of the result agree."""
    x = np.random.default_rng(1).exponential(size=shape).astype(np.float32)
    x[-1, -1] = -np.inf
    with np.errstate(invalid="ignore"):
        y = x / np.sqrt(metrics.tree_sum(x))[:, None]
        mean = metrics.tree_sum(y.T) / np.float32(shape[0])
    got = {"mean": np.zeros(shape[1], np.float32), "x": x, "y": np.zeros(shape, np.float32)}
    assert tandem.interpret(ROW_NORM, "fp32", got, {}) == 1
    assert np.array_equal(got["y"], y, equal_nan=True)
    assert np.array_equal(got["mean"], mean, equal_nan=True)


@pytest.mark.parametrize("changed, why", (
    ({"param": np.zeros(15, np.uint32)}, "'param' belongs to a matrix, but its array has no rows"),
    ({"grad": np.zeros((5, 3), np.uint32)}, "'grad' is a matrix of 5 x 3, but 'param' is "
     "one of 3 x 5; all matrices have one shape"),
    ({"row_var": np.zeros(5, np.uint32)}, "'row_var' has 5 elements, but 'param' is a "
     "matrix of 3 x 5; it has an entry for each row"),
    ({"col_var": np.zeros(3, np.uint32)}, "it has an entry for each column")))
def test_shapes_that_do_not_fit(changed, why):
    planes = matrix_state("adafactor", STRATEGIES["fp32"], "ordinary", (3, 5)) | changed
    with pytest.raises(ValueError, match=why):
        tandem.interpret("adafactor", "fp32", planes, hypers_of("adafactor"))


def test_first():
    planes = matrix_state("adafactor", STRATEGIES["fp32"], "ordinary", (3, 5))
    with pytest.raises(ValueError, match="element 0 is number 5 of the unsharded tensor"):
        tandem.interpret("adafactor", "fp32", planes, hypers_of("adafactor"), first=5)


@pytest.mark.parametrize("seed", GENERATED)
def test_random_graphs(seed, tmp_path):
    """The interpreter and NumPy agree on graphs made at random."""
    example = generate(seed, Draw(SEED, 5, 0, STEP))
    (tmp_path / "random.mlir").write_text(strategy_text("random", example.strategy))
    got, _ = interpreted(example.text, "random", example.planes, {}, key=5,
                         path=[tmp_path])
    assert_same(got, example.planes | example.want, example.text)


def test_generation_covers():
    """The random graphs have every kind of sum, and combine entries in every way."""
    examples = [generate(seed) for seed in GENERATED]
    assert set.union(*[e.features for e in examples]) == {
        "loop", "broadcast", ("element", "row"), ("element", "column"),
        ("element", "tensor"), ("row", "tensor"), ("column", "tensor")}
    assert {e.strategy.component for e in examples} == {None, "bf16", "f16"}
    assert len({e.shape for e in examples}) > 25
    assert generate(3).text == examples[3].text
