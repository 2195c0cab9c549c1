#===- test_ptx_check.py - Operations that PTX may merge -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that kernels compile in which LLVM could merge or simplify operations, and that
# their PTX computes the interpreter's bits.
#
#===----------------------------------------------------------------------===#

import re

import numpy as np
import pytest

import tandem
from support.kernels import STRATEGY_PATH, compiled
from support.launch import Tensor, aligned_copy, launch

# th - g occurs as an update, which adds -g, and as an operand.
REPEATED = """
func.func @repeated(%th: tensor<?xf32> {tandem.role = #tandem.role<param "th">},
                    %s: tensor<?xf32> {tandem.role = #tandem.role<state "s">},
                    %g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %new = arith.subf %th, %g : tensor<?xf32>
  %again = arith.subf %th, %g : tensor<?xf32>
  %most = arith.maximumf %s, %again : tensor<?xf32>
  return %new, %most : tensor<?xf32>, tensor<?xf32>
}"""


@pytest.mark.parametrize("chip", ("sm_80", "sm_90"))
def test_repeated_difference(chip):
    """LLVM would compute both with one operation; the PTX keeps the graph's two."""
    text = tandem.compile(REPEATED, "fp32", target=chip).ptx.split(".entry tandem_repeated(")[1]
    assert len(re.findall(r"\b(?:add|sub)\.rn\.f32\b", text)) == 16


GRAPH = """
#id = affine_map<(i) -> (i)>
func.func @f(%first: f64 {{tandem.role = #tandem.role<hyper "first">}},
             %second: f64 {{tandem.role = #tandem.role<hyper "second">}},
             %x: tensor<?xf32> {{tandem.role = #tandem.role<grad "x">}},
             %y: tensor<?xf32> {{tandem.role = #tandem.role<param "y">}}) -> tensor<?xf32> {{
  %h = arith.truncf %first : f64 to f32
  %k = arith.truncf %second : f64 to f32
  %r = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%x : tensor<?xf32>) outs(%y : tensor<?xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %is_less = arith.cmpf olt, %a, %b : f32
    %minus_a = arith.negf %a : f32
    %minus_b = arith.negf %b : f32
    %size_a = math.absf %a : f32
    {expression}
    %sum = arith.addf %p, %b : f32
    %result = arith.mulf %sum, %q : f32
    linalg.yield %result : f32
  }} -> tensor<?xf32>
  return %r : tensor<?xf32>
}}
"""

#: Pairs of values p and q, or a selection p between two, that one operation could compute.
PAIRS = {
    "quotients": "%p = arith.divf %a, %b : f32\n%q = arith.divf %minus_a, %b : f32",
    "products": "%p = arith.mulf %a, %b : f32\n%q = arith.mulf %minus_a, %minus_b : f32",
    "fused": "%p = math.fma %a, %minus_b, %a : f32\n%q = math.fma %minus_a, %b, %a : f32",
    "sums": "%p = arith.addf %a, %minus_b : f32\n%q = arith.subf %a, %b : f32",
    "magnitudes": "%m = math.absf %minus_a : f32\n%p = arith.divf %size_a, %b : f32\n"
                  "%q = arith.divf %m, %b : f32",
    "odd functions": "%p = math.tanh %a : f32\n%q = math.tanh %minus_a : f32",
    "functions of magnitudes": "%p = math.erf %a : f32\n%q = math.erf %size_a : f32",
    "factors": "%l = arith.mulf %a, %h : f32\n%m = arith.mulf %a, %k : f32\n"
               "%p = arith.select %is_less, %l, %m : f32\n%q = math.absf %b : f32",
    "addends": "%l = arith.addf %h, %a : f32\n%m = arith.addf %a, %k : f32\n"
               "%p = arith.select %is_less, %l, %m : f32\n%q = math.absf %b : f32",
    "divisors": "%l = arith.divf %a, %b : f32\n%m = arith.divf %a, %h : f32\n"
                "%p = arith.select %is_less, %l, %m : f32\n%q = math.absf %b : f32",
    "signs": "%s = math.copysign %a, %b : f32\n%t = math.copysign %minus_a, %b : f32\n"
             "%p = arith.mulf %s, %h : f32\n%q = arith.mulf %t, %h : f32",
    "negated": "%l = arith.mulf %a, %h : f32\n%m = arith.mulf %a, %k : f32\n"
               "%n = arith.negf %l : f32\n%o = arith.negf %m : f32\n"
               "%p = arith.select %is_less, %n, %o : f32\n%q = math.absf %b : f32",
    "nested": "%l = arith.mulf %a, %h : f32\n%m = arith.mulf %a, %k : f32\n"
              "%n = arith.subf %l, %b : f32\n%o = arith.subf %m, %b : f32\n"
              "%p = arith.select %is_less, %n, %o : f32\n%q = math.absf %b : f32",
    "signs of magnitudes": "%s = math.copysign %a, %b : f32\n"
                           "%t = math.copysign %size_a, %b : f32\n"
                           "%p = arith.mulf %s, %h : f32\n%q = arith.mulf %t, %h : f32",
    "choices of choices": "%l = arith.mulf %a, %h : f32\n%m = arith.mulf %a, %k : f32\n"
                          "%n = arith.mulf %a, %b : f32\n%c = arith.cmpf olt, %a, %h : f32\n"
                          "%o = arith.select %c, %l, %m : f32\n"
                          "%p = arith.select %is_less, %o, %n : f32\n%q = math.absf %b : f32",
}

#: Pairs of selections with equal or opposite conditions.
CHOICES = {
    "order": ("%c = arith.cmpf ogt, %b, %a : f32", "%is_less, %a, %b", "%c, %a, %b"),
    "opposite": ("%c = arith.cmpf uge, %a, %b : f32", "%is_less, %a, %b", "%c, %b, %a"),
    "opposite order": ("%c = arith.cmpf ule, %b, %a : f32", "%is_less, %a, %b", "%c, %b, %a"),
    "negated": ("%c = arith.cmpf ogt, %minus_a, %minus_b : f32",
                "%is_less, %a, %b", "%c, %a, %b"),
    "one negated": ("%c = arith.cmpf olt, %a, %minus_b : f32\n"
                    "%d = arith.cmpf ogt, %minus_a, %b : f32", "%c, %a, %b", "%d, %a, %b"),
    "both": ("%e = arith.cmpf oeq, %a, %h : f32\n%f = arith.cmpf une, %h, %a : f32\n"
             "%g = arith.cmpf uge, %a, %b : f32\n%c = arith.andi %is_less, %e : i1\n"
             "%d = arith.ori %f, %g : i1", "%c, %a, %b", "%d, %b, %a"),
    "one of them": ("%e = arith.cmpf oeq, %a, %h : f32\n%f = arith.cmpf une, %h, %a : f32\n"
                    "%g = arith.cmpf uge, %a, %b : f32\n%c = arith.xori %is_less, %e : i1\n"
                    "%d = arith.xori %f, %g : i1", "%c, %a, %b", "%d, %a, %b"),
    "negative": ("%c = arith.negf %b : f32", "%is_less, %a, %b", "%is_less, %minus_a, %c"),
}

PAIRS.update(
    (f"choices: {name}", f"{text}\n%l = arith.select {one} : f32\n"
                         f"%m = arith.select {two} : f32\n"
                         "%p = arith.divf %l, %k : f32\n%q = arith.divf %m, %k : f32")
    for name, (text, one, two) in CHOICES.items())

HYPERS = {"first": 0.3, "second": -1.7}
CHIPS = ("sm_80", "sm_90", "sm_100")


def pairs_of_numbers(form):
    """Returns all pairs of some numbers, as bits of a format."""
    x = np.concatenate([np.linspace(-3, 3, 41), [0.0, -0.0, np.inf, np.nan, 1e-6]])
    for a in np.meshgrid(x, x):
        a = a.reshape(-1).astype(np.float32)
        if form == "bf16":
            a = (a.view(np.uint32) >> 16).astype(np.uint16)
        yield a.astype(np.float16).view(np.uint16) if form == "f16" else a


@pytest.mark.parametrize("strategy", ("fp32", "bf16", "f16"))
@pytest.mark.parametrize("pair", PAIRS)
def test_same_numbers(pair, strategy):
    graph = GRAPH.format(expression=PAIRS[pair])
    x, y = pairs_of_numbers(strategy)
    want = {"x": x.copy(), "y": y.copy()}
    tandem.interpret(graph, strategy, want, HYPERS, path=[STRATEGY_PATH])
    for chip in CHIPS:
        got = {"x": aligned_copy(x), "y": aligned_copy(y)}
        launch(compiled(graph, strategy, chip), [Tensor(got)], [HYPERS])
        assert got["y"].tobytes() == want["y"].tobytes(), chip


KERNEL = """
tandem.kernel @f compute(<component, bf16>)
    tensors [#tandem.role<grad "x">, #tandem.role<param "y">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%x: !tandem.stored<tensor<?xf32>, #tandem.float<FORM>>,
     %y: !tandem.stored<tensor<?xf32>, #tandem.float<FORM>>):
  %one = arith.constant 1.0 : FORM
  %two = arith.constant 2.0 : FORM
  %minus_one = arith.constant -1.0 : FORM
  %zero = arith.constant 0.0 : FORM
  %minus_zero = arith.constant -0.0 : FORM
  %a = tandem.load_plane %x[0] : <tensor<?xf32>, #tandem.float<FORM>> -> FORM
  %b = tandem.load_plane %y[0] : <tensor<?xf32>, #tandem.float<FORM>> -> FORM
  EXPRESSION
  %is_nan = arith.cmpf uno, %r, %r : FORM
  %nan = arith.constant 0xNAN : FORM
  %result = arith.select %is_nan, %nan, %r : FORM
  tandem.store_plane %result, %y[0] : FORM, <tensor<?xf32>, #tandem.float<FORM>>
  tandem.yield
}
"""
NANS = {"f32": "7FC00000", "bf16": "7FFF", "f16": "7E00"}

#: Operations on constants that LLVM would simplify.
WITH_CONSTANTS = {
    "x * 2": "%r = arith.mulf %a, %two : FORM",
    "x * -1": "%q = arith.mulf %a, %minus_one : FORM\n%r = arith.addf %q, %b : FORM",
    "x * 1": "%r = arith.mulf %a, %one : FORM",
    "x / 2": "%r = arith.divf %a, %two : FORM",
    "x / -1": "%r = arith.divf %a, %minus_one : FORM",
    "1 / x": "%r = arith.divf %one, %a : FORM",
    "x + 0": "%r = arith.addf %a, %zero : FORM",
    "x + -0": "%r = arith.addf %a, %minus_zero : FORM",
    "-0 - x": "%r = arith.subf %minus_zero, %a : FORM",
    "fma(x, 1, y)": "%r = math.fma %a, %one, %b : FORM",
    "fma(x, -1, y)": "%r = math.fma %a, %minus_one, %b : FORM",
    "fma(x, y, -0)": "%r = math.fma %a, %b, %minus_zero : FORM",
    "sqrt(x) < 0": "%q = math.sqrt %a : FORM\n%c = arith.cmpf olt, %q, %zero : FORM\n"
                   "%r = arith.select %c, %a, %b : FORM",
}


@pytest.mark.parametrize("form", NANS)
@pytest.mark.parametrize("expression", WITH_CONSTANTS)
def test_constants(expression, form):
    kernel = KERNEL.replace("EXPRESSION", WITH_CONSTANTS[expression]).replace(
        "NAN", NANS[form]).replace("FORM", form)
    x, y = pairs_of_numbers(form)
    want = {"x": x.copy(), "y": y.copy()}
    tandem.interpret(kernel, None, want, {})
    for chip in CHIPS:
        got = {"x": aligned_copy(x), "y": aligned_copy(y)}
        launch(tandem.compile(kernel, None, chip), [Tensor(got)], [{}])
        assert got["y"].tobytes() == want["y"].tobytes(), chip
