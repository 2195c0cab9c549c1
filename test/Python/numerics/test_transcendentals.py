#===- test_transcendentals.py - exp, log, tanh, erf ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests transcendental functions: compiled code against f64, on a lattice of f32 values
# (or on all of them with TANDEM_EXHAUSTIVE=1), and against the reference interpreter.
#
#===----------------------------------------------------------------------===#

import os

import numpy as np
import pytest
import torch

import tandem
from support.kernels import ISAS

#: The largest errors in ulps of the result, over all f32, as in docs/Numerics.md.
WORST = {"exp": 1.013, "log": 0.853, "tanh": 1.333, "erf": 0.986}

STEP = 1 if os.environ.get("TANDEM_EXHAUSTIVE") else 1021  # a prime
CHUNK = 1 << 22


def graph_of(function):
    return f"""
func.func @apply(%x: tensor<?xf32> {{tandem.role = #tandem.role<input "x">}},
                 %y: tensor<?xf32> {{tandem.role = #tandem.role<output "y">}}) -> tensor<?xf32> {{
  %0 = math.{function} %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}}"""


def chunks():
    for begin in range(0, 1 << 32, CHUNK * STEP):
        end = min(begin + CHUNK * STEP, 1 << 32)
        yield np.arange(begin, end, STEP, np.uint64).astype(np.uint32)


def in_f64(function, x):
    return torch.special.erf(torch.from_numpy(x)).numpy() if function == "erf" else (
        getattr(np, function)(x))


def ulps(got, exact):
    """Returns the distance of f32 numbers from f64 ones, in f32 ulps of the latter."""
    exponent = np.maximum(np.frexp(exact)[1], -125)
    return np.abs(got.astype(np.float64) - exact) / np.ldexp(1.0, exponent - 24)


def compare(bits, got, exact):
    """Returns the largest error of finite results; others must match the rounded f64 result."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    is_number = np.isfinite(rounded) & np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    # At the edge of the range, one may be infinite and the other the largest number.
    edge = np.abs(exact) >= float(np.finfo(np.float32).max)
    wrong = ~is_number & ~same & ~edge
    assert not wrong.any(), [hex(b) for b in bits[wrong][:5]]
    signs = np.signbit(got[is_number]) == np.signbit(rounded[is_number])
    assert signs.all()
    error = ulps(got[is_number], exact[is_number])
    return error.max(initial=0)


@pytest.mark.parametrize("function", WORST)
def test_errors(function):
    kernel = tandem.compile(graph_of(function), "fp32")
    worst = 0.0
    for bits in chunks():
        y = np.zeros_like(bits)
        kernel({"x": bits, "y": y})
        with np.errstate(all="ignore"):
            exact = in_f64(function, bits.view(np.float32).astype(np.float64))
        worst = max(worst, compare(bits, y.view(np.float32), exact))
    print(f"{function}: {worst:.4f} ulp")
    assert worst <= WORST[function]
    if STEP == 1:
        assert worst > WORST[function] - 0.002


EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 89.0, 88.72284, 88.7229, -104.0, -103.97, -87.4,
         1e-45, 1e-38, 1.1754944e-38, 0.625, 0.62499994, 0.70710677, 0.7071068, 1.4142135,
         3.4028235e38, 10.0, -10.0, 0.99999994, -1.0, 1.0000001, -3.9999998, 4.0, 4.0000005, 3.8]


@pytest.mark.parametrize("isa", ("native", ISAS[0]))
@pytest.mark.parametrize("function", WORST)
def test_against_the_interpreter(function, isa):
    rng = np.random.default_rng(1)
    bits = np.concatenate([np.array(EDGES, np.float32).view(np.uint32),
                           rng.integers(0, 1 << 32, 4000, np.uint32)])
    got, want = (np.zeros_like(bits) for _ in range(2))
    tandem.compile(graph_of(function), "fp32", isa=isa)({"x": bits, "y": got})
    tandem.interpret(graph_of(function), "fp32", {"x": bits.copy(), "y": want}, {})
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("function", WORST)
def test_in_bf16(function):
    """Under the component policy, functions are computed in f32 and rounded to bf16."""
    strategy = """
tandem.strategy @narrow compute(<component, bf16>) {
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
}"""
    bits = np.arange(1 << 16, dtype=np.uint16)
    got, want = (np.zeros_like(bits) for _ in range(2))
    tandem.compile(graph_of(function) + strategy, "narrow")({"x": bits, "y": got})
    wide, y = bits.astype(np.uint32) << 16, np.zeros(1 << 16, np.uint32)
    tandem.compile(graph_of(function), "fp32")({"x": wide, "y": y})
    rounded = ((y.astype(np.uint64) + 0x7FFF + ((y >> 16) & 1)) >> 16).astype(np.uint16)
    is_nan = (y & 0x7FFFFFFF) > 0x7F800000
    want[:] = np.where(is_nan, 0x7FFF, rounded)
    np.testing.assert_array_equal(got, want)
