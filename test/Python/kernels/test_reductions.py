#===- test_reductions.py - Sums and extremes of a graph --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests reductions that a graph contains explicitly: their results, their order, and
# errors.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model.metrics import tree_sum
from support.kernels import check_all, run_plan
from support.launch import Tensor, aligned_copy, launch

GRAPH = """
#p = #tandem.role<param "p">
func.func @graph(%p: tensor<?xf32> {{tandem.role = #p}}) -> tensor<?xf32> {{
  %c0 = arith.constant 0 : index
  %size = tensor.dim %p, %c0 : tensor<?xf32>
  %init = arith.constant dense<{init}> : tensor<f32>
  %sum = linalg.reduce {{ {op} }} ins(%p : tensor<?xf32>) outs(%init : tensor<f32>)
      dimensions = [0] {{tandem.scope = "{scope}"}}
  %x = tensor.extract %sum[] : tensor<f32>
  %all = tensor.splat %x[%size] : tensor<?xf32>
  return %all : tensor<?xf32>
}}
"""


@pytest.mark.parametrize("scope", ("tensor", "model"))
def test_order_matters(scope):
    """With cancellation, the result shows that the tree follows the order of elements and
    tensors."""
    text = GRAPH.format(op="arith.addf", scope=scope, init="0.0")
    kernel = tandem.compile(text, "fp32")
    rng, seen = np.random.default_rng(4), set()
    tensors = [(rng.standard_normal(n) * np.exp2(rng.uniform(-9, 9))).astype(np.float32)
               for n in (1, 4099, 0, 5, 70, 1, 2, 33, 9001)]
    for _ in range(10):
        order = [tensors[i] for i in rng.permutation(len(tensors))]
        own = [tree_sum(x) for x in order]
        want = [tree_sum(np.array(own))] * len(own) if scope == "model" else own
        want = [{"p": np.full(len(x), s, np.float32).view(np.uint32)}
                for x, s in zip(order, want)]
        before = [{"p": x.view(np.uint32)} for x in order]
        check_all(run_plan(kernel, before, [{}], threads=2), before, want, scope)
        seen.add(max(int(w["p"][0]) for w in want if len(w["p"])))
    assert (len(seen) > 1) == (scope == "model")


EXTREMES = [(), (0.0, -0.0), (-0.0,), (-np.inf, -3.0), (np.inf, 2.0, 1e-45, -1e-45),
            (3.0, np.nan, np.inf, -np.inf), (-np.float32(np.nan), 0.0)]


@pytest.mark.parametrize("chip", (None, "sm_90"))
@pytest.mark.parametrize("scope", ("tensor", "model"))
@pytest.mark.parametrize("op", ("maximumf", "minimumf"))
def test_extremes(op, scope, chip):
    """-0 is less than 0, and any NaN gives a NaN with fixed bits."""
    largest = op == "maximumf"
    text = GRAPH.format(op=f"arith.{op}", scope=scope,
                        init="0xFF800000" if largest else "0x7F800000")
    rng = np.random.default_rng(8)
    tensors = [np.concatenate([rng.standard_normal(n).astype(np.float32) * np.float32(0.1),
                               np.array(x, np.float32)])
               for n in (0, 1, 5000) for x in EXTREMES]
    if scope == "model":
        tensors = [x for x in tensors if not np.isnan(x).any()]

    def extreme(x):
        if np.isnan(x).any():
            return 0x7FFFFFFF
        bits = x.view(np.int32).astype(np.int64)
        key = np.where(bits < 0, -1 - (bits & 0x7FFFFFFF), bits)
        return int(x.view(np.uint32)[key.argmax() if largest else key.argmin()])

    groups = [np.concatenate(tensors)] * len(tensors) if scope == "model" else tensors
    want = [{"p": np.full(len(x), extreme(of) if len(x) else 0, np.uint32)}
            for x, of in zip(tensors, groups)]
    planes = [{"p": x.view(np.uint32)} for x in tensors]
    if chip is None:
        got = run_plan(tandem.compile(text, "fp32"), planes, [{}], threads=2)
    else:
        launched = [Tensor({"p": aligned_copy(x["p"])}, key=i)
                    for i, x in enumerate(planes)]
        launch(tandem.compile(text, "fp32", chip), launched, [{}])
        got = [tensor.planes for tensor in launched]
    check_all(got, planes, want, f"{op} over {scope}")
    for x, w in zip(tensors, want):
        if len(x) and scope == "tensor" and chip is None:
            given = {"p": x.view(np.uint32).copy()}
            tandem.interpret(text, "fp32", given, {})
            assert np.array_equal(given["p"], w["p"])


@pytest.mark.parametrize("changed, why, diagnostic", [
    ({"op": "arith.maxnumf"}, "is not the sum", "reduction"),
    ({"op": "arith.maximumf"}, "begins with a number other than 0 for a sum, -inf for a "
     "maximum or inf for a minimum", "reduction"),
    ({"op": "arith.minimumf", "init": "0xFF800000"}, "begins with a number other", "reduction"),
    ({"scope": "rank"}, *2 * ["'tandem.scope' must be \"tensor\" or \"model\", got"]),
    ({"init": "1.0"}, "begins with a number other than 0", "reduction")])
def test_other_reductions(changed, why, diagnostic):
    """The compiler and the interpreter refuse unknown reductions."""
    text = GRAPH.format(**{"op": "arith.addf", "scope": "tensor", "init": "0.0"} | changed)
    with pytest.raises(ValueError, match=why):
        tandem.interpret(text, "fp32", {"p": np.zeros(3, np.uint32)}, {})
    with pytest.raises(ValueError, match=diagnostic):
        tandem.compile(text, "fp32")


def test_elements_that_meet():
    """A graph is element-wise except for its reductions; the interpreter reports violations."""
    def graph(body, type="tensor<?xf32>"):
        return f"""
            func.func @graph(%p: {type} {{tandem.role = #tandem.role<param "p">}}) -> {type} {{
              %i = arith.constant 0 : index
              %size = tensor.dim %p, %i : {type}
              {body}
              %all = tensor.splat %x[%size] : {type}
              return %all : {type}
            }}"""

    picked = graph("%x = tensor.extract %p[%i] : tensor<?xf32>")
    with pytest.raises(ValueError, match="'tensor.extract' picks one element of many"):
        tandem.interpret(picked, "fp32", {"p": np.zeros(3, np.uint32)}, {})
    rows = graph("%n = arith.index_cast %size : index to i64\n"
                 "%x = arith.sitofp %n : i64 to f32", "tensor<?x4xf32>")
    with pytest.raises(ValueError, match="'tensor.dim' .* where the tensor has one dimension"):
        tandem.interpret(rows, "fp32", {"p": np.zeros(8, np.uint32)}, {})


UNIFORM = """
func.func @uniform(%w: tensor<?xf32> {tandem.role = #tandem.role<param "w">}) -> tensor<?xf32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %two = arith.constant 2.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %w, %c0 : tensor<?xf32>
  %twos = tensor.splat %two[%n] : tensor<?xf32>
  %sum = linalg.reduce { arith.addf } ins(%twos : tensor<?xf32>) outs(%zero : tensor<f32>)
      dimensions = [0]
  %new = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
                         iterator_types = ["parallel"]}
      ins(%sum : tensor<f32>) outs(%w : tensor<?xf32>) {
  ^bb0(%s: f32, %x: f32):
    %r = arith.addf %x, %s : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  return %new : tensor<?xf32>
}
"""


@pytest.mark.parametrize("size", (0, 1, 5, 100))
def test_a_sum_of_what_all_elements_share_counts_them(size):
    got, want = ({"w": np.ones(size, np.float32)} for _ in range(2))
    tandem.compile(UNIFORM, "fp32")(got)
    tandem.interpret(UNIFORM, "fp32", want, {})
    assert got["w"].tobytes() == want["w"].tobytes()
    assert (got["w"] == 1 + 2 * size).all()


def with_sums(count):
    """Returns a graph that adds up the sums of `count` multiples of its tensor."""
    lines = []
    for i in range(count):
        lines.append(f"""
  %h{i} = arith.constant dense<{i + 1}.0> : tensor<f32>
  %m{i} = linalg.generic {{indexing_maps = [#none, #id], iterator_types = ["parallel"]}}
      ins(%h{i} : tensor<f32>) outs(%p : tensor<?xf32>) {{
  ^bb0(%h: f32, %x: f32):
    %y = arith.mulf %h, %x : f32
    linalg.yield %y : f32
  }} -> tensor<?xf32>
  %r{i} = linalg.reduce {{ arith.addf }} ins(%m{i} : tensor<?xf32>) outs(%init : tensor<f32>)
      dimensions = [0]
  %s{i} = tensor.extract %r{i}[] : tensor<f32>
  %t{i} = arith.addf %{'zero' if i == 0 else f't{i - 1}'}, %s{i} : f32""")
    return f"""
#id = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>
func.func @graph(%p: tensor<?xf32> {{tandem.role = #tandem.role<param "p">}}) -> tensor<?xf32> {{
  %c0 = arith.constant 0 : index
  %size = tensor.dim %p, %c0 : tensor<?xf32>
  %init = arith.constant dense<0.0> : tensor<f32>
  %zero = arith.constant 0.0 : f32
  {"".join(lines)}
  %all = tensor.splat %t{count - 1}[%size] : tensor<?xf32>
  return %all : tensor<?xf32>
}}"""


def test_sums_of_a_block():
    """Sums are combined in a block's shared memory, which limits them; CPUs have no limit."""
    x = np.linspace(-1, 2, 300).astype(np.float32)
    for count in (80, 90):
        want = {"p": x.copy()}
        tandem.interpret(with_sums(count), "fp32", want, {})
        got = {"p": x.copy()}
        tandem.compile(with_sums(count), "fp32")(got)
        assert (got["p"] == want["p"]).all()
        if count == 90:
            with pytest.raises(ValueError, match="bytes of a block's shared memory for its "
                                                 "reductions, which may take 49152; make"):
                tandem.compile(with_sums(count), "fp32", target="sm_90")
            continue
        planes = {"p": aligned_copy(x)}
        launch(tandem.compile(with_sums(count), "fp32", target="sm_90"), [Tensor(planes)], [{}])
        assert (planes["p"] == want["p"]).all()
