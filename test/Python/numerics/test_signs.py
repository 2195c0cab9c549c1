#===- test_signs.py - Signs of zeros and of NaNs ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that -0 is less than +0 and that NaNs have no sign, in code for every target,
# although processors' own instructions differ.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from support.kernels import ISAS, require_isa
from support.launch import Tensor, aligned_copy, launch

GRAPH = """
#id = affine_map<(i) -> (i)>
func.func @f(%x: tensor<?xf32> {{tandem.role = #tandem.role<grad "x">}},
             %y: tensor<?xf32> {{tandem.role = #tandem.role<param "y">}}) -> tensor<?xf32> {{
  %r = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%x : tensor<?xf32>) outs(%y : tensor<?xf32>) {{
  ^bb0(%a: f32, %b: f32):
    {expression}
    linalg.yield %c : f32
  }} -> tensor<?xf32>
  return %r : tensor<?xf32>
}}
"""

VALUES = np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F810000,
                   0xFF810000, 0x3F800000, 0xBF800000, 0x00010000, 0x80010000], np.uint32)
X, Y = (a.reshape(-1) for a in np.meshgrid(VALUES, VALUES))


def ordered(bits):
    """Returns sort keys for numbers, with -0 before +0."""
    return np.where(bits >> 31, ~bits, bits | 1 << 31)


def is_nan(bits):
    return (bits & 0x7FFFFFFF) > 0x7F800000


def choose(x, y, is_first, number_wins):
    other = np.where(is_nan(x), y, x) if number_wins else np.uint32(0x7FC00000)
    return np.where(is_nan(x) | is_nan(y), other, np.where(is_first, x, y))


def copy_sign(x, sign):
    negative = (sign >> 31).astype(bool) & ~is_nan(sign)
    return (x & 0x7FFFFFFF) | negative.astype(np.uint32) << 31


def of_invalid(x, y):
    """Returns the signs of the NaNs of inf - inf, 0 * inf and similar operations."""
    with np.errstate(all="ignore"):
        a, b = x.view(np.float32), y.view(np.float32)
        return (a - b * a).view(np.uint32)


def times(x, y):
    with np.errstate(all="ignore"):
        return (x.view(np.float32) * y.view(np.float32)).view(np.uint32)


OPERATIONS = {
    "maxnumf": ("%c = arith.maxnumf %a, %b : f32",
                lambda x, y: choose(x, y, ordered(x) > ordered(y), True)),
    "minnumf": ("%c = arith.minnumf %a, %b : f32",
                lambda x, y: choose(x, y, ordered(x) < ordered(y), True)),
    "maximumf": ("%c = arith.maximumf %a, %b : f32",
                 lambda x, y: choose(x, y, ordered(x) > ordered(y), False)),
    "minimumf": ("%c = arith.minimumf %a, %b : f32",
                 lambda x, y: choose(x, y, ordered(x) < ordered(y), False)),
    "copysign": ("%c = math.copysign %a, %b : f32", copy_sign),
    "copysign of another": (
        "%p = arith.mulf %b, %a : f32\n    %d = arith.subf %a, %p : f32\n"
        "    %c = math.copysign %b, %d : f32",
        lambda x, y: copy_sign(y, of_invalid(x, y))),
    # These store NaNs that no arithmetic has made.
    "select": ("%q = arith.cmpf ogt, %a, %b : f32\n    %c = arith.select %q, %a, %b : f32",
               lambda x, y: np.where(x.view(np.float32) > y.view(np.float32), x, y)),
    "times one": ("%u = arith.constant 1.0 : f32\n    %c = arith.mulf %b, %u : f32",
                  lambda x, y: y),
    "negated factor": ("%m = arith.negf %b : f32\n    %c = arith.mulf %m, %a : f32",
                       lambda x, y: times(y ^ np.uint32(1 << 31), x)),
}


def given(strategy):
    if strategy == "fp32":
        return {"x": X.copy(), "y": Y.copy()}
    return {"x": (X >> 16).astype(np.uint16), "y": (Y >> 16).astype(np.uint16)}


def interpreted(graph, strategy):
    arrays = given(strategy)
    tandem.interpret(graph, strategy, arrays, {})
    return arrays["y"]


def on_each(test):
    test = pytest.mark.parametrize("strategy", ("fp32", "bf16"))(test)
    return pytest.mark.parametrize("name", OPERATIONS)(test)


def graph_of(name):
    return GRAPH.format(expression=OPERATIONS[name][0])


@on_each
def test_interpreter(name, strategy):
    got = interpreted(graph_of(name), strategy)
    shift = 0 if strategy == "fp32" else 16
    want = OPERATIONS[name][1](X, Y) >> shift
    nan = is_nan(got.astype(np.uint32) << shift)
    assert (nan == is_nan(want.astype(np.uint32) << shift)).all()
    assert (nan | (got == want)).all()


@pytest.mark.parametrize("isa, width", ((ISAS[0], 1), *((isa, 0) for isa in ISAS)))
@on_each
def test_cpu(name, strategy, isa, width):
    require_isa(isa)
    arrays = given(strategy)
    tandem.compile(graph_of(name), strategy, isa=isa, width=width)(arrays)
    assert (arrays["y"] == interpreted(graph_of(name), strategy)).all()


@pytest.mark.parametrize("chip", ("sm_80", "sm_90", "sm_100"))
@on_each
def test_ptx(name, strategy, chip):
    kernel = tandem.compile(graph_of(name), strategy, target=chip)
    arrays = {name: aligned_copy(array) for name, array in given(strategy).items()}
    launch(kernel, [Tensor(arrays)], [{}])
    assert (arrays["y"] == interpreted(graph_of(name), strategy)).all()
