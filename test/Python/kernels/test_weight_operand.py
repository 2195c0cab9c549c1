#===- test_weight_operand.py - Operands that steps write -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the operand of the next forward pass that a step writes beside the new weight:
# against the NumPy model and the interpreter, on CPUs and in code for GPUs.
#
#===----------------------------------------------------------------------===#

import functools
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tandem
from model import (BF16_STRATEGIES, SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY, cases,
                   matrix_state, matrix_step, step)
from model.codes import FloatCode, MinifloatCode
from model.formats import decode
from model.scaled import WHOLE, Scaled
from model.storage import Draw
from support.kernels import (SEED, STEP, assert_same, compiled, integers_of, run, seed_of,
                             storage_text)
from support.launch import Tensor, aligned_copy, launch
from tandem._companions import with_copy, with_operand
from tandem._kernel import compile_rules
from tandem._plane import RoleKind

TANDEM_OPT = Path(tandem._tandem.__file__).parents[2] / "bin/tandem-opt"
ALL = STRATEGIES | SCALED_LIBRARY | TENSOR_LIBRARY
NAMES = tandem.strategies()
CODE = FloatCode("f8E4M3FN")
#: Operands of flat tensors: MXFP8, current scaling, and NVFP4.
FLAT = {
    "mxfp8": Scaled(CODE, 32, "f8E8M0FNU", "mx_floor"),
    "current": Scaled(CODE, WHOLE, "f32"),
    "nvfp4": Scaled(MinifloatCode(2, 1, specials="none"), 16, "f8E4M3FN", tensor_scale=True),
    "bf16": None,
}


def text_of(storage, *, transposed=False):
    if storage is None:
        return "#tandem.float<bf16>"
    text = storage_text(storage)
    return text[:-1] + ", transposed = true>" if transposed else text


@functools.cache
def operating(graph, strategy, storage, target="cpu", copy=None, **options):
    """Compiles a graph that writes an operand, under a strategy with a copy of coded weights."""
    kernel = compiled(graph, strategy)
    if copy:
        own = with_copy(kernel, copy)
        kernel = compile_rules(graph, own.name, own.rules)
    found = with_operand(kernel, storage)
    return compile_rules(graph, found.name, found.rules, target, weight_operand=True, **options)


def visible(planes):
    """Returns the weight that a framework computes with, in f32."""
    bits = planes.get("param.working", planes.get("param"))
    return decode("f32" if bits.dtype == np.uint32 else "bf16", bits.reshape(-1))


def is_coded(strategy):
    """Returns whether a framework computes with no plane of the weight."""
    return not any(p.visible and p.bits >= 16 for p in compiled("adamw", strategy).planes
                   if p.role == "param")


def operand_of(storage, planes):
    """Returns the planes of the operand by the model."""
    if storage is None:
        return {"operand": planes["param"].copy()}
    return storage.encode("operand", visible(planes), Draw())


def with_empty(planes, kernel, columns, rows=1):
    """Returns the planes with ones of the operand that a kernel must overwrite."""
    dtypes = {8: np.uint8, 16: np.uint16, 32: np.uint32}
    empty = {p.name: np.full(p.entries(columns, rows), 0x7B, dtypes[p.bits])
             for p in kernel.planes if p.kind == RoleKind.OUTPUT}
    return planes | empty


F16 = [name for name in NAMES if name.startswith("f16")]
PLAIN = [name for name in NAMES if not is_coded(name) and name not in F16]


HALVES = [name for name in PLAIN if name in BF16_STRATEGIES]


@pytest.mark.parametrize("strategy, operand", (
    *((name, operand) for name in PLAIN for operand in FLAT if operand != "bf16"),
    *((name, "bf16") for name in HALVES)))
def test_model(strategy, operand):
    """The operand is what the model makes of the new weight, and all else is as without it."""
    storage = FLAT[operand]
    kernel = operating("adamw", strategy, text_of(storage))
    for kind in ("ordinary", "mixed", "huge", "nans", "zeros"):
        planes = cases.state("adamw", ALL[strategy], kind, 300,
                             seed_of(strategy, operand, kind))
        hypers = cases.hypers("adamw", ALL[strategy])
        want = step("adamw", ALL[strategy], planes, hypers, STEP, SEED, 9)
        got = run(kernel, with_empty(planes, kernel, 300), hypers, key=9)
        assert_same(got, want | operand_of(storage, want), f"{strategy}, {operand}, {kind}")


@pytest.mark.parametrize("graph", ("sgd", "lion", "adamw_clip", "lamb", "ademamix"))
def test_graphs(graph):
    """Graphs with reductions of their own, and with several states."""
    storage = FLAT["current"]
    kernel = operating(graph, "flash-f16", text_of(storage))
    planes = cases.state(graph, ALL["flash-f16"], "ordinary", 300, 1)
    hypers = cases.hypers(graph, ALL["flash-f16"])
    want = step(graph, ALL["flash-f16"], planes, hypers, STEP, SEED, 0)
    got = run(kernel, with_empty(planes, kernel, 300), hypers)
    assert_same(got, want | operand_of(storage, want), graph)


MATRICES = {
    "transposed": (lambda rows, columns: Scaled(CODE, WHOLE, "f32", transposed=columns), True),
    "blocks": (lambda rows, columns: Scaled(CODE, 128, "f32", columns=columns, rows=128), False),
}
BLOCKS = "#tandem.scaled<#scaled.float<f8E4M3FN>, group = 128x128, scale = f32>"


def matrix_text(name):
    return BLOCKS if name == "blocks" else text_of(FLAT["current"], transposed=True)


def shaped(planes, kernel, shape):
    """Returns planes in the shapes that a kernel of matrices takes."""
    return {p.name: planes[p.name].reshape(
        (shape[::-1] if p.transposed else shape) if p.sets_size else -1) for p in kernel.planes}


@pytest.mark.parametrize("operand", MATRICES)
@pytest.mark.parametrize("shape", ((1, 7), (9, 17), (130, 257)))
@pytest.mark.parametrize("strategy", ("fp32", "collage-plus", "flash-f16", "dither-mulaw", "coat"))
def test_matrices(strategy, shape, operand):
    """Transposed copies and blocks are those of the new weight."""
    kernel = operating("adamw", strategy, matrix_text(operand))
    planes = matrix_state("adamw", ALL[strategy], "ordinary", shape, 3)
    hypers = cases.hypers("adamw", ALL[strategy])
    want = matrix_step("adamw", ALL[strategy], planes, hypers, STEP, SEED, 5)
    want |= operand_of(MATRICES[operand][0](*shape), want)
    got = with_empty({n: p.copy() for n, p in planes.items()}, kernel, shape[1], shape[0])
    got = shaped(got, kernel, shape)
    kernel(got, key=5, **hypers, **integers_of(kernel))
    flat = {name: plane.reshape(-1) for name, plane in got.items()}
    assert_same(flat, {name: plane.reshape(-1) for name, plane in want.items()}, str(shape))


@pytest.mark.parametrize("strategy", [name for name in NAMES if is_coded(name)])
def test_coded_weights(strategy):
    """Where the weight is in codes, the operand is that of the copy that modules compute with."""
    storage = FLAT["current"]
    kernel = operating("adamw", strategy, text_of(storage), copy="bf16")
    planes = cases.state("adamw", ALL[strategy], "ordinary", 300, 1)
    planes = {"param.working": np.zeros(300, np.uint16)} | planes
    hypers = cases.hypers("adamw", ALL[strategy])
    got = run(kernel, with_empty(planes, kernel, 300), hypers)
    assert visible(got).any()
    assert_same(got, operand_of(storage, got), strategy)


@pytest.mark.parametrize("operand", ("mxfp8", "current"))
@pytest.mark.parametrize("strategy", ("collage-plus", "remainder", "flash-f16", "bf16-dither", "coat"))
def test_interpreter(strategy, operand, tmp_path):
    """The interpreter stores the operand once all else is stored."""
    kernel = operating("sgd", strategy, text_of(FLAT[operand]))
    rules = [f'  tandem.assign {kind} named("{role}") = {storage}' for role, storage, kind in (
        *((role, storage, "param" if role == "param" else "grad" if role == "grad" else "state")
          for role, storage in compiled("sgd", strategy).storages.items()),
        ("operand", text_of(FLAT[operand]), "output"))]
    policy, format = kernel.compute.split()
    (tmp_path / "own.mlir").write_text(
        f"tandem.strategy @own compute(<{policy}, {format}>) {{\n" + "\n".join(rules) + "\n}\n")
    planes = cases.state("sgd", ALL[strategy], "ordinary", 100, 1)
    hypers = cases.hypers("sgd", ALL[strategy])
    want = with_empty({n: p.copy() for n, p in planes.items()}, kernel, 100)
    tandem.interpret(GRAPH, "own", want, hypers, path=[tmp_path], step=STEP, seed=SEED)
    assert_same(run(kernel, with_empty(planes, kernel, 100), hypers), want, strategy)
    assert_same(run(tandem.compile("sgd", "own", path=[tmp_path], weight_operand=True),
                    with_empty(planes, kernel, 100), hypers), want, strategy)


def test_interpreter_refuses_codes(tmp_path):
    (tmp_path / "own.mlir").write_text(
        "tandem.strategy @own compute(<f32, f32>) {\n"
        "  tandem.assign param = #tandem.coded<#scaled.float<f8E4M3FN>>\n"
        "  tandem.assign grad = #tandem.float<bf16>\n"
        "  tandem.assign output = #tandem.float<bf16>\n}\n")
    arrays = {"param": np.zeros(8, np.uint8), "grad": np.zeros(8, np.uint16),
              "operand": np.zeros(8, np.uint16)}
    with pytest.raises(ValueError, match="'param' is stored as .*, which has no plane that a "
                                         "framework computes with; wrap it in #tandem.working"):
        tandem.interpret(GRAPH, "own", arrays, {"lr": 0.1, "weight_decay": 0.0}, path=[tmp_path])


@pytest.mark.skipif(not TANDEM_OPT.exists(), reason="tandem-opt is not built")
@pytest.mark.parametrize("passes", (
    ["-tandem-form-kernel"], ["-tandem-form-kernel", "-tandem-apply-policy"],
    ["-tandem-form-kernel", "-tandem-apply-policy", "-tandem-lower-storage"], ["-tandem-to-kernel"],
    ["-tandem-to-kernel", "-tandem-split-phases"]), ids=len)
@pytest.mark.parametrize("param", ("float<bf16, dither>", "remainder", "residual<bf16, i8>"))
def test_stages(param, passes):
    """The interpreter has the same bits after each pass."""
    storage = text_of(FLAT["current"])
    strategy = (f"tandem.strategy @own compute(<f32, f32>) {{\n"
                f"  tandem.assign param = #tandem.{param}\n"
                "  tandem.assign grad = #tandem.float<bf16>\n"
                f"  tandem.assign output = {storage}\n}}\n")
    begin = (["-tandem-to-kernel=strategy=own"] if passes[0] == "-tandem-to-kernel" else
             ["-tandem-recognize-updates", "-tandem-apply-strategy=strategy=own", passes[0]])
    done = subprocess.run([TANDEM_OPT, *begin, *passes[1:]], input=GRAPH + strategy,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kernel = tandem.compile(GRAPH + strategy, "own")
    rng = np.random.default_rng(2)
    values = [rng.standard_normal(64).astype(np.float32).view(np.uint32) >> 16 for _ in range(2)]
    planes = {p.name: np.zeros(p.entries(64), {8: np.uint8, 16: np.uint16, 32: np.uint32}[p.bits])
              for p in kernel.planes}
    planes |= {name: bits.astype(np.uint16) for name, bits in zip(("param", "grad"), values)}
    hypers = {"lr": 0.1, "weight_decay": 0.01}
    got = {n: p.copy() for n, p in planes.items()}
    tandem.interpret(done.stdout, None, got, hypers, step=STEP, seed=SEED)
    assert_same(got, run(kernel, planes, hypers), str(passes))
    assert got["operand"].any()


#: The graph "sgd" after -tandem-add-weight-operand.
GRAPH = """
#id = affine_map<(i) -> (i)>
func.func @sgd(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %operand: tensor<?xf32> {tandem.role = #tandem.role<output "operand", consumer = linear>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %nlr = arith.negf %lr : f64
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %new = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>) outs(%param : tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32):
    %decay = arith.mulf %wd, %th : f32
    %u = arith.addf %g, %decay : f32
    %delta = arith.mulf %neg_lr, %u : f32
    %sum = arith.addf %th, %delta : f32
    linalg.yield %sum : f32
  } -> tensor<?xf32>
  %visible = tandem.visible %new of %param : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  return %new, %visible : tensor<?xf32>, tensor<?xf32>
}
"""


@pytest.mark.parametrize("chip", ("sm_90", "sm_100"))
@pytest.mark.parametrize("operand", ("mxfp8", "current", "transposed", "blocks"))
@pytest.mark.parametrize("strategy", ("collage-plus", "flash-f16", "bf16-dither"))
def test_ptx(strategy, operand, chip):
    """The evaluator of PTX has the CPU's bits."""
    is_matrix = operand in MATRICES
    text = matrix_text(operand) if is_matrix else text_of(FLAT[operand])
    kernel, shape = operating("adamw", strategy, text), (24, 160)
    hypers = cases.hypers("adamw", ALL[strategy])
    planes = matrix_state("adamw", ALL[strategy], "ordinary", shape, 5)
    planes = {n: p.reshape(-1) for n, p in planes.items()}
    planes = with_empty(planes, kernel, shape[1], shape[0]) if is_matrix else with_empty(
        planes, kernel, shape[0] * shape[1])
    want = shaped({n: p.copy() for n, p in planes.items()}, kernel,
                  shape if is_matrix else (shape[0] * shape[1],))
    kernel(want, **hypers, **integers_of(kernel))
    ptx = operating("adamw", strategy, text, chip)
    tensor = Tensor({n: aligned_copy(p) for n, p in planes.items()},
                    shape=shape if is_matrix else ())
    launch(ptx, [tensor], [hypers | integers_of(ptx)], blocks=2)
    assert_same(tensor.planes, {n: p.reshape(-1) for n, p in want.items()}, operand)


def test_threads_and_metrics():
    """Bits do not depend on threads, nor on the metrics, which need both weights at once."""
    storage = FLAT["current"]
    planes = cases.state("adamw", ALL["flash-f16"], "ordinary", 40000, 1)
    hypers = cases.hypers("adamw", ALL["flash-f16"])
    kernel = operating("adamw", "flash-f16", text_of(storage))
    want = run(kernel, with_empty(planes, kernel, 40000), hypers)
    assert_same(want, operand_of(storage, want))
    assert_same(run(kernel, with_empty(planes, kernel, 40000), hypers, threads=2), want)
    measuring = operating("adamw", "flash-f16", text_of(storage), metrics=True)
    assert_same(run(measuring, with_empty(planes, kernel, 40000), hypers), want)


def test_refusals():
    kernel = compiled("adamw", "fp32")
    with pytest.raises(ValueError, match="strategy 'fp32' has no rule for the output \"operand\"; "
                                         "add a tandem.assign that matches it"):
        tandem.compile("adamw", "fp32", weight_operand=True)
    with pytest.raises(ValueError, match="'adamw' has its tensors already; give the weight operand "
                                         "to the compilation of the graph"):
        tandem.compile(kernel.ir, weight_operand=True)
    with pytest.raises(ValueError, match="has no plane of floats that a framework computes with; "
                                         "wrap it in #tandem.working"):
        operating("adamw", "fp8-lm", text_of(FLAT["mxfp8"]))
