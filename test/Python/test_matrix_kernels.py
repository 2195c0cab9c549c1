#===- test_matrix_kernels.py - Kernels of matrices -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tests of kernels that know rows and columns: CPU code and
# PTX against the NumPy model.
#
#===----------------------------------------------------------------------===#

import functools

import numpy as np
import pytest

import tandem
from model import (MATRIX_GRAPHS, SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY, cases,
                   matrix_state, matrix_step)
from model.storage import Draw
from support.kernels import SEED, STEP, assert_same, strategy_text
from support.launch import Tensor, Tiles, aligned_copy, launch
from support.matrix_graphs import generate

LIBRARY = STRATEGIES | SCALED_LIBRARY | TENSOR_LIBRARY
# One of each kind: expansions, random bits, and scales of rows' groups, of a matrix's
# rows, and of whole tensors.
VARIED = ("fp32", "bf16", "collage-plus", "bf16-stochastic", "coat", "fp8-collage-plus",
          "fp8-lm")
SHAPES = ((1, 1), (1, 7), (7, 1), (3, 5), (64, 64), (33, 130), (257, 300))
HYPERS = {name: cases.TYPICAL[name] for name in MATRIX_GRAPHS["adafactor"].hypers}


@functools.cache
def compiled(strategy, target="cpu", **options):
    return tandem.compile("adafactor", strategy, target=target, **options)


def by_model(strategy, planes, key=0):
    return matrix_step("adafactor", LIBRARY[strategy], planes, HYPERS, STEP, SEED, key)


def scalars(kernel):
    given = dict.fromkeys(kernel.hypers) | HYPERS | {"step": STEP, "seed": SEED}
    return {name: given[name] for name in [*kernel.hypers, *kernel.integers]}


def states(strategy, shapes, kind="ordinary"):
    return [matrix_state("adafactor", LIBRARY[strategy], kind, shape, seed)
            for seed, shape in enumerate(shapes)]


#===----------------------------------------------------------------------===#
# CPU
#===----------------------------------------------------------------------===#


def by_cpu(kernel, tensors, shapes, threads=2):
    """Updates copies of the planes, all in one launch."""
    copies = [{name: p.copy() for name, p in planes.items()} for planes in tensors]
    plan = tandem.Plan(kernel)
    plan.update(list(shapes), [[copy[p.name].ctypes.data for p in kernel.planes]
                               for copy in copies])
    hypers, integers = kernel.scalars(scalars(kernel))
    plan.launch([hypers], [integers], threads=threads)
    return copies


def check(strategy, got, before):
    for key, (new, old) in enumerate(zip(got, before)):
        assert_same(new, by_model(strategy, old, key) | {"grad": old["grad"]}
                    if "grad" in old else by_model(strategy, old, key))


@pytest.mark.parametrize("kind", [k for k in cases.SCALED_KINDS if k != "mixed"])
@pytest.mark.parametrize("strategy", VARIED)
def test_cpu_against_model(strategy, kind):
    before = states(strategy, SHAPES, kind)
    check(strategy, by_cpu(compiled(strategy), before, SHAPES), before)


def test_launches_agree():
    """Threads, vector widths and shapes beside each other change no bit."""
    shapes = ((70, 5000), (5000, 70), (3, 5))
    before = states("fp8-collage-plus", shapes)
    want = by_cpu(compiled("fp8-collage-plus"), before, shapes, threads=1)
    for options in ({"isa": "x86-64"}, {"isa": "x86-64-v3"}, {"width": 1}, {"width": 16}):
        kernel = compiled("fp8-collage-plus", **options)
        for got, expected in zip(by_cpu(kernel, before, shapes), want):
            assert_same(got, expected, str(options))


#===----------------------------------------------------------------------===#
# PTX
#===----------------------------------------------------------------------===#


def by_ptx(kernel, tensors, shapes, **options):
    """Updates copies of the planes by the evaluator."""
    copies = [{name: aligned_copy(p.reshape(-1)) for name, p in planes.items()}
              for planes in tensors]
    launch(kernel, [Tensor(copy, key=key, shape=shape)
                    for key, (copy, shape) in enumerate(zip(copies, shapes))],
           [scalars(kernel)], **options)
    return [{name: copy[name].reshape(p.shape) for name, p in planes.items()}
            for copy, planes in zip(copies, tensors)]


PTX_SHAPES = ((1, 1), (1, 70), (7, 1), (13, 300), (6, 512))


@pytest.mark.parametrize("chip", ("sm_80", "sm_90", "sm_100"))
@pytest.mark.parametrize("strategy", VARIED)
def test_ptx_against_model(strategy, chip):
    before = states(strategy, PTX_SHAPES)
    kernel = compiled(strategy, chip)
    check(strategy, by_ptx(kernel, before, PTX_SHAPES, blocks=2), before)


@pytest.mark.parametrize("tiles", (Tiles(1, 8), Tiles(16, 512), Tiles(8, 16)))
def test_tiles_agree(tiles):
    """However a matrix is cut, the bits are the same."""
    before = states("fp32", PTX_SHAPES)
    kernel = compiled("fp32", "sm_90")
    check("fp32", by_ptx(kernel, before, PTX_SHAPES, threads=64, tiles=tiles), before)


#===----------------------------------------------------------------------===#
# Random graphs
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("seed", range(100))
def test_random_graphs(seed, tmp_path):
    """CPU code and, of every third graph, PTX agree with NumPy."""
    example = generate(seed, Draw(SEED, 0, 0, STEP))
    (tmp_path / "random.mlir").write_text(strategy_text("random", example.strategy))
    want = example.planes | example.want
    kernel = tandem.compile(example.text, "random", path=[tmp_path])
    got, = by_cpu(kernel, [example.planes], [example.shape])
    assert_same(got, want, example.text)
    if seed % 3 == 0:
        chip = ("sm_80", "sm_90", "sm_100")[seed // 3 % 3]
        kernel = tandem.compile(example.text, "random", chip, path=[tmp_path])
        got, = by_ptx(kernel, [example.planes], [example.shape])
        assert_same(got, want, example.text)
