#===- test_wide_expansions.py - Expansions beyond two of bf16 --*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests optimizers under strategies that are not in the library: expansions of three bf16
# or f16 components, of f32 components, and mixed ones.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import Strategy, cases, step
from model.formats import decode
from model.storage import Expansion, Plain
from support.kernels import SEED, STEP, assert_kernel, assert_same, strategy_text
from support.launch import Tensor, aligned_copy, launch

GRAPHS = ("adamw", "adamw_decay_before", "adamw_decay_after", "rmsprop", "sgd_momentum")


def make(format, count):
    plain, wide = Plain(format), Expansion(format, count)
    return Strategy(plain, wide, plain, wide, format)


STRATEGIES = {f"{format}-{count}": make(format, count)
              for format, count in (("bf16", 3), ("f16", 3), ("f32", 2), ("f32", 3))}
KINDS = ("ordinary", "mixed", "bits", "large_update", "not_normalized")


def files(directory, name):
    (directory / "mine.mlir").write_text(strategy_text("mine", STRATEGIES[name]))
    return {"strategy": "mine", "path": [directory]}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_kernels(tmp_path, graph, name):
    """Compiled kernel, model and interpreter agree."""
    strategy, options = STRATEGIES[name], files(tmp_path, name)
    kernel = tandem.compile(graph, **options)
    hypers = cases.hypers(graph, strategy)
    for kind in KINDS:
        planes = cases.state(graph, strategy, kind, 100, seed=3)
        want = step(graph, strategy, planes, hypers, STEP, SEED)
        assert_kernel(kernel, planes, want, hypers, kind)
        got = {n: p.copy() for n, p in planes.items()}
        tandem.interpret(graph, "mine", got, hypers, path=[tmp_path], step=STEP,
                         seed=SEED)
        assert_same(got, want, f"{kind}, interpreter")


@pytest.mark.parametrize("name", STRATEGIES)
def test_ptx(tmp_path, name):
    strategy, options = STRATEGIES[name], files(tmp_path, name)
    kernel = tandem.compile("adamw", target="sm_90", **options)
    hypers = cases.hypers("adamw", strategy)
    for kind in ("mixed", "bits"):
        planes = cases.state("adamw", strategy, kind, 50, seed=4)
        tensor = Tensor({n: aligned_copy(p) for n, p in planes.items()})
        launch(kernel, [tensor], [hypers | {"step": STEP}])
        want = step("adamw", strategy, planes, hypers, STEP, SEED)
        assert_same(tensor.planes, want, kind)


def test_a_third_component_keeps_more(tmp_path):
    """Decay by 0.999 over 64 steps loses far less with a third component."""
    text = """func.func @shrink(
    %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
    %b: f64 {tandem.role = #tandem.role<hyper "b">}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %b32 = arith.truncf %b : f64 to f32
  %bs = tensor.splat %b32[%n] : tensor<?xf32>
  %r = arith.mulf %bs, %p : tensor<?xf32>
  return %r : tensor<?xf32>
}
"""
    error = {}
    for count in (2, 3):
        storage = Expansion("bf16", count)
        (tmp_path / "mine.mlir").write_text(strategy_text(
            "mine", Strategy(storage, storage, storage, storage, "bf16")))
        kernel = tandem.compile(text, "mine", path=[tmp_path])
        planes = {name: np.zeros(1, np.uint16) for name in storage.planes("p")}
        planes["p"][:] = 0x3F80
        for _ in range(64):
            kernel(planes, b=0.999)
        value = sum(float(decode("bf16", part)[0]) for part in planes.values())
        error[count] = abs(value - 0.999**64)
    assert 16 * error[3] < error[2] < 2.0**-10


# f32 cannot hold an expansion whose leading component is f32.
@pytest.mark.parametrize("leading, policy", (
    ("bf16", "component"), ("f16", "component"), ("f32", "component"),
    ("bf16", "f32"), ("f16", "f32")))
@pytest.mark.parametrize("trailing", ("f8E4M3FN", "f8E5M2"))
def test_mixed(tmp_path, leading, trailing, policy):
    """The interpreter agrees on mixed expansions, which the model does not have."""
    compute = f"component, {leading}" if policy == "component" else "f32, f32"
    (tmp_path / "mine.mlir").write_text("\n".join([
        f"tandem.strategy @mine compute(<{compute}>) {{",
        f"  tandem.assign grad = #tandem.float<{leading}>",
        f"  tandem.assign param = #tandem.expansion<{leading}, {trailing}>",
        f"  tandem.assign state moment(second) = #tandem.expansion<{leading}, {trailing}>",
        f"  tandem.assign state = #tandem.float<{leading}>", "}", ""]))
    kernel = tandem.compile("adamw_decay_before", "mine", path=[tmp_path])
    hypers = cases.hypers("adamw", make(leading, 2))
    rng = np.random.default_rng(5)
    for kind in ("ordinary", "mixed", "bits"):
        planes = cases.state("adamw", make(leading, 2), kind, 200, seed=5)
        for name in ("param.lo", "exp_avg_sq.lo"):
            planes[name] = rng.integers(0, 256, 200).astype(np.uint8)
        want = {n: p.copy() for n, p in planes.items()}
        tandem.interpret("adamw_decay_before", "mine", want, hypers, path=[tmp_path],
                         step=STEP)
        assert_kernel(kernel, planes, want, hypers, kind)
