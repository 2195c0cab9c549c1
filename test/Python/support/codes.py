#===- codes.py - Codes, scales, and values for them ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements what tests of scaled storages share: every code and scale type, a graph that
# stores and reads a value, and edge cases.
#
#===----------------------------------------------------------------------===#
"""Defines `CODES`, `SCALES`, their valid combinations, the graph `SWAP`, and values."""

import numpy as np

from model.codes import (DynamicCode, ExpandedCode, FloatCode, LinearCode, MinifloatCode, MuLawCode,
                         PairCode, RootCode, SoftsignCode)

# The new value is the gradient; the old one is written where f32 shows every bit.
SWAP = """
#p = #tandem.role<param "w">
#s = #tandem.role<state "read">
#g = #tandem.role<grad "g">
func.func @swap(%w: tensor<?xf32> {tandem.role = #p},
                %s: tensor<?xf32> {tandem.role = #s},
                %g: tensor<?xf32> {tandem.role = #g})
    -> (tensor<?xf32>, tensor<?xf32>) {
  return %g, %w : tensor<?xf32>, tensor<?xf32>
}
"""

CODES = {"e4m3": FloatCode("f8E4M3FN"), "e5m2": FloatCode("f8E5M2"),
         "f16": FloatCode("f16"), "pair": PairCode("f8E4M3FN"),
         "low-pair": PairCode("f8E5M2"), "softsign": SoftsignCode(), "root": RootCode(),
         "expanded": ExpandedCode(FloatCode("f8E4M3FN"), 229376.0),
         "normal-expanded": ExpandedCode(FloatCode("f8E4M3FN"), 28672.0),
         "signed": DynamicCode(True), "unsigned": DynamicCode(False),
         "signed-expanded": ExpandedCode(DynamicCode(True), 1e6),
         "unsigned-expanded": ExpandedCode(DynamicCode(False), 3e5),
         "e2m1": MinifloatCode(2, 1, specials="none"),
         "e4m2": MinifloatCode(4, 2, specials="negative_zero"),
         "e3m4": MinifloatCode(3, 4, 5, rounding="toward_zero"),
         "tiny": MinifloatCode(3, 2, 9), "e5m6": MinifloatCode(5, 6, specials="ieee"),
         "clamped": MinifloatCode(5, 2, None, "none", "nearest", (-6, 7)),
         "drawn": MinifloatCode(4, 3, rounding="stochastic"),
         "low-drawn": MinifloatCode(6, 0, None, "negative_zero", "stochastic"),
         "wide-drawn": MinifloatCode(6, 9, None, "ieee", "stochastic"),
         "low-expanded": ExpandedCode(FloatCode("f8E5M2"), 57344 * 2.0**16),
         "e4m3-dither": FloatCode("f8E4M3FN", "dither"),
         "e5m2-dither": FloatCode("f8E5M2", "dither"),
         "f16-dither": FloatCode("f16", "dither"), "f16-drawn": FloatCode("f16", "stochastic"),
         "pair-dither": PairCode("f8E4M3FN", "dither"),
         "softsign-dither": SoftsignCode("dither"), "softsign-drawn": SoftsignCode("stochastic"),
         "root-dither": RootCode("dither"), "signed-dither": DynamicCode(True, "dither"),
         "unsigned-dither": DynamicCode(False, "dither"),
         "expanded-dither": ExpandedCode(FloatCode("f8E4M3FN", "dither"), 28672.0),
         "signed-expanded-dither": ExpandedCode(DynamicCode(True, "dither"), 1e6),
         "minifloat-dither": MinifloatCode(5, 6, None, "ieee", "dither"),
         "wide-dither": MinifloatCode(8, 3, None, "ieee", "dither"),
         "mulaw": MuLawCode(True), "mulaw-drawn": MuLawCode(True, "stochastic"),
         "mulaw-dither": MuLawCode(True, "dither"), "unsigned-mulaw": MuLawCode(False),
         "unsigned-mulaw-dither": MuLawCode(False, "dither"),
         "mulaw4": MuLawCode(True, size=4), "mulaw4-dither": MuLawCode(True, "dither", 4),
         "linear4": LinearCode(4), "linear4-dither": LinearCode(4, "dither"),
         "linear4-drawn": LinearCode(4, "stochastic"), "linear8-dither": LinearCode(8, "dither"),
         "unsigned-mulaw4": MuLawCode(False, size=4),
         "unsigned-mulaw4-dither": MuLawCode(False, "dither", 4),
         "tf32": MinifloatCode(8, 10, None, "ieee"),
         "tf32-drawn": MinifloatCode(8, 10, None, "ieee", "stochastic"),
         "e8m23": MinifloatCode(8, 23, None, "ieee", "dither")}
SCALES = [("f32", "current"), ("bf16", "current"), ("f16", "current"),
          ("f32", "mx_floor"), ("f16", "pow2"), ("bf16", "pow2"),
          ("f8E8M0FNU", "pow2"), ("f8E8M0FNU", "mx_floor"),
          ("f32", "given"), ("f16", "given"), ("f8E8M0FNU", "given")]
#: Codes that can represent nonfinite values without a group.
WITH_NAN = [name for name, code in CODES.items() if code.has_nan]


def storages(scales=SCALES):
    """Returns the names of codes with their supported scales and recipes."""
    made = [(scale, recipe) for scale, recipe in scales
            if recipe in ("current", "pow2") and scale != "f16"]
    return [(name, *scale) for name in CODES
            for scale in (scales if name in WITH_NAN else made)]


def values(rng, size):
    """Returns all exponents and signs, and some of each kind of special value."""
    any_bits = rng.integers(0, 1 << 32, size, dtype=np.uint64).astype(np.uint32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, -448.0, 449.0,
                        57344.0, 61440.0, 65504.0, 65519.0, 65520.0], np.float32)
    return np.where(rng.random(size) < 0.9, any_bits.view(np.float32),
                    rng.choice(special, size))


def groups_of_values(largest):
    """Returns groups of 16 with similar magnitudes, so that their codes vary."""
    rng = np.random.default_rng(3)
    count = 3000
    peak = np.exp2(rng.uniform(-140, 127.9, (count, 1)))
    share = rng.choice([1, 1, 2.0**-6, 2.0**-12], (count, 1)) ** rng.random((count, 16))
    x = peak * rng.uniform(-1, 1, (count, 16)) * share
    # These are ties: multiples of half a unit, under power-of-two scales.
    whole = rng.integers(-1024, 1025, (count, 16)) * np.exp2(rng.integers(-30, 9))
    whole[:, 0] = largest
    with np.errstate(over="ignore"):
        return np.concatenate([x, whole]).astype(np.float32).ravel()
