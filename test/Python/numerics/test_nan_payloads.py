#===- test_nan_payloads.py - NaNs of all kinds -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that a NaN in a graph's text stays a NaN, for any sign and payload.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from support.emulation import emulated, needs_emulator
from support.kernels import ISAS, STRATEGY_PATH

GRAPH = """
#id = affine_map<(i) -> (i)>
func.func @f(%lr: f64 {{tandem.role = #tandem.role<hyper "lr">}},
             %w: tensor<?xf32> {{tandem.role = #tandem.role<param "w">}},
             %g: tensor<?xf32> {{tandem.role = #tandem.role<grad "g">}}) -> tensor<?xf32> {{
  %c = arith.constant {literal} : f32
  %zero = arith.constant 0.0 : f32
  %wide = arith.extf %c : f32 to f64
  %product = arith.mulf %lr, %wide : f64
  %uniform = arith.truncf %product : f64 to f32
  %r = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%g : tensor<?xf32>) outs(%w : tensor<?xf32>) {{
  ^bb0(%x: f32, %old: f32):
    %positive = arith.cmpf ogt, %x, %zero : f32
    {expression}
    linalg.yield %y : f32
  }} -> tensor<?xf32>
  return %r : tensor<?xf32>
}}
"""

LITERALS = ("0x7FFFFFFF", "0xFFFFFFFF", "0x7F800001", "0x7FC00000", "1.0")
EXPRESSIONS = {
    "chosen": "%y = arith.select %positive, %c, %x : f32",
    "sum": "%y = arith.addf %x, %c : f32",
    "product": "%chosen = arith.select %positive, %c, %x : f32\n"
               "    %y = arith.mulf %chosen, %x : f32",
    "larger": "%y = arith.maximumf %x, %c : f32",
    "uniform": "%y = arith.mulf %uniform, %x : f32",
    "sign": "%y = math.copysign %c, %x : f32",
}


STRATEGIES = ("fp32", "bf16", "f16", "fp32-optim", "master-weights", "remainder")


def check(expression, strategy, isas, compile=tandem.compile):
    """Compares kernels for instruction sets with the interpreter."""
    for literal in LITERALS:
        graph = GRAPH.format(literal=literal, expression=EXPRESSIONS[expression])
        want = None
        for isa in isas:
            kernel = compile(graph, strategy, path=[STRATEGY_PATH], isa=isa)
            arrays = {plane.name: np.zeros(4, f"u{plane.bits // 8}")
                      for plane in kernel.planes}
            # The arrays contain 1 or a small number, and -1 or another number.
            arrays["g"].view(np.uint8)[...] = np.resize(
                [0x80, 0x3F, 0x80, 0xBF], arrays["g"].nbytes)
            if want is None:
                want = {name: array.copy() for name, array in arrays.items()}
                tandem.interpret(graph, strategy, want, {"lr": 1.0},
                                 path=[STRATEGY_PATH])
            kernel(arrays, lr=1.0)
            for name, array in arrays.items():
                assert array.tobytes() == want[name].tobytes(), (literal, isa, name)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_nans(expression, strategy):
    check(expression, strategy, (ISAS[0], "native"))


@needs_emulator
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_nans_on_aarch64(expression, strategy):
    """The NaN that Arm's instructions return has a different sign from that of x86's."""
    check(expression, strategy, ("aarch64",), emulated.compile)
