#===- test_long_kernels.py - Kernels of many operations --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests graphs that are so long that code is generated without optimization: their bits,
# and that compile time is linear.
#
#===----------------------------------------------------------------------===#

import time

import numpy as np

import tandem

GRAPH = """
#id = affine_map<(i) -> (i)>
func.func @chain(
    %param: tensor<?xf32> {{tandem.role = #tandem.role<param "param">}},
    %grad: tensor<?xf32> {{tandem.role = #tandem.role<grad "grad">}}) -> tensor<?xf32> {{
  %new = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%grad : tensor<?xf32>) outs(%param : tensor<?xf32>) {{
  ^bb0(%d: f32, %s0: f32):
{additions}
    linalg.yield %s{count} : f32
  }} -> tensor<?xf32>
  return %new : tensor<?xf32>
}}"""


def chain(count):
    """Returns a graph that adds the gradient `count` times, each time with compensation."""
    return GRAPH.format(count=count, additions="\n".join(
        f"    %s{i + 1} = arith.addf %s{i}, %d : f32" for i in range(count)))


def compile_seconds(count):
    start = time.process_time()
    tandem.compile(chain(count), "collage-light")
    return time.process_time() - start


def test_a_long_kernel_has_the_same_bits():
    graph, random = chain(150), np.random.default_rng(1)
    got = {"param": random.integers(0x3F80, 0x4000, 300).astype(np.uint16),
           "param.lo": np.zeros(300, np.uint16),
           "grad": random.integers(0x3A00, 0x3B00, 300).astype(np.uint16)}
    want = {name: plane.copy() for name, plane in got.items()}
    tandem.compile(graph, "collage-light")(got)
    tandem.interpret(graph, "collage-light", want, {})
    for name, plane in want.items():
        np.testing.assert_array_equal(got[name], plane, err_msg=name)
    assert got["param.lo"].any()


def test_compile_time_is_linear():
    """Four times as many additions once took eleven times as long."""
    short, long = (min(compile_seconds(count) for _ in range(2)) for count in (100, 400))
    assert long < 8 * short
