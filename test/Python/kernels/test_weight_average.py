#===- test_weight_average.py - Averages of weights in steps ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the average of weights that a step keeps as a further state: against the model for
# every graph and strategy, against float64 over many steps, and in code for GPUs.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import (GRAPHS, SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY, cases, step,
                   takes_whole_tensors)
from support.kernels import (SEED, STEP, assert_kernel, assert_same, check_all, compiled,
                             integers_of, run, seed_of)
from support.launch import Tensor, aligned_copy, launch

KEY, FIRST = 9, 512
ALL = STRATEGIES | SCALED_LIBRARY | TENSOR_LIBRARY
NAMES = tandem.strategies()


def averaging(graph, strategy, **options):
    return compiled(graph, strategy, weight_average=True, **options)


def check(graph, strategy, kind, size):
    name, storages = f"{graph}+ema", ALL[strategy]
    planes = cases.state(name, storages, kind, size, seed_of(graph, strategy, kind, size))
    hypers = cases.hypers(name, storages)
    first = 0 if takes_whole_tensors(name, storages) else FIRST
    want = step(name, storages, planes, hypers, STEP, SEED, KEY, first)
    assert_kernel(averaging(graph, strategy), planes, want, hypers,
                  f"{name} under {strategy}, {kind}, {size}", key=KEY, first=first)


@pytest.mark.parametrize("strategy", NAMES)
def test_adamw(strategy):
    for kind in ("ordinary", "mixed", "huge", "nans"):
        check("adamw", strategy, kind, 300)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("strategy", ("fp32", "bf16", "dither-mulaw", "fp8-lm"))
def test_graphs(graph, strategy):
    check(graph, strategy, "mixed", 257)


@pytest.mark.parametrize("strategy", NAMES)
def test_nothing_else_changes(strategy):
    """With an average, weights and other states have the bits that they have without it."""
    name = "adamw+ema"
    planes = cases.state(name, ALL[strategy], "ordinary", 300, 1)
    hypers = cases.hypers(name, ALL[strategy])
    got = run(averaging("adamw", strategy), planes, hypers)
    own = {n: p for n, p in planes.items() if not n.startswith("ema")}
    plain = {n: v for n, v in hypers.items() if n != "ema_decay"}
    assert_same(got, run(compiled("adamw", strategy), own, plain), strategy)


@pytest.mark.parametrize("chip", ("sm_90", "sm_100"))
@pytest.mark.parametrize("strategy", ("collage-plus", "dither-mulaw", "dither-ratio4", "coat"))
def test_ptx(strategy, chip):
    """The evaluator of PTX has the model's bits."""
    name, storages = "adamw+ema", ALL[strategy]
    ptx, hypers = averaging("adamw", strategy, target=chip), cases.hypers("adamw+ema", storages)
    planes = cases.state(name, storages, "mixed", 300, 5)
    tensor = Tensor({n: aligned_copy(p) for n, p in planes.items()}, first=FIRST, key=KEY)
    launch(ptx, [tensor], [hypers | integers_of(ptx)], chunk_size=256)
    want = step(name, storages, planes, hypers, STEP, SEED, KEY, FIRST)
    check_all([tensor.planes], [planes], [want], f"{strategy}, {chip}")


def test_first_step_copies():
    """After one step the average is the weight, whatever the state was before."""
    kernel = averaging("sgd", "fp32")
    arrays = {"param": np.float32([1, -2, 3e-30]).view(np.uint32),
              "grad": np.float32([1, 2, 0]).view(np.uint32), "ema": np.zeros(3, np.uint32)}
    got = run(kernel, arrays, {"lr": 0.1, "weight_decay": 0.0, "ema_decay": 0.9999}, step=1)
    assert_same({"ema": got["ema"]}, {"ema": got["param"]})


def test_constant_weights_are_their_average():
    """1 - ema_decay rounds, but an average of equal weights does not drift away from them."""
    kernel = averaging("sgd", "fp32")
    value = np.float32([1 / 3, -7.3, 1e-20]).view(np.uint32)
    arrays = {"param": value.copy(), "grad": np.zeros(3, np.uint32), "ema": np.zeros(3, np.uint32)}
    for t in range(1, 200):
        kernel(arrays, lr=0.1, weight_decay=0.0, ema_decay=0.9999, step=t)
    assert_same(arrays, {"ema": value})


@pytest.mark.parametrize("decay", (0.9, 0.999, 0.99999))
def test_average_in_float64(decay):
    """Each weight counts ema_decay times as much as the next, from the first step on."""
    kernel, rng = averaging("sgd", "fp32"), np.random.default_rng(3)
    arrays = {"param": rng.standard_normal(64).astype(np.float32).view(np.uint32),
              "grad": np.zeros(64, np.uint32), "ema": np.zeros(64, np.uint32)}
    total, weight = np.zeros(64), 0.0
    for t in range(1, 501):
        arrays["grad"][:] = rng.standard_normal(64).astype(np.float32).view(np.uint32)
        kernel(arrays, lr=0.01, weight_decay=0.0, ema_decay=decay, step=t)
        total = decay * total + arrays["param"].view(np.float32)
        weight = decay * weight + 1
    want = total / weight
    error = np.abs(arrays["ema"].view(np.float32) - want).max() / np.abs(want).max()
    moved = np.abs(arrays["param"].view(np.float32) - want).max() / np.abs(want).max()
    assert error < 1e-6 < 1e-2 < moved


def test_refusals():
    with pytest.raises(ValueError, match="graph 'rms_norm' has no param, so that there are no "
                                         "weights to average; leave the weight average out"):
        tandem.compile("rms_norm", "bf16", function="rms_norm", weight_average=True)
    kernel = averaging("adamw", "fp32")
    with pytest.raises(ValueError, match="'adamw' has its tensors already; give the weight average "
                                         "to the compilation of the graph"):
        tandem.compile(kernel.ir, weight_average=True)
    with pytest.raises(ValueError, match="hyper 'ema_decay' .* is 1; it must be at least 0 and "
                                         "less than 1"):
        run(averaging("sgd", "fp32"), {"param": np.zeros(1, np.uint32),
                                       "grad": np.zeros(1, np.uint32),
                                       "ema": np.zeros(1, np.uint32)},
            {"lr": 0.1, "weight_decay": 0.0, "ema_decay": 1.0})
