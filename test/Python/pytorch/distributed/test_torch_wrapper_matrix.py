#===- test_torch_wrapper_matrix.py - Strategies by wrapper -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests strategies under wrappers for several numbers of ranks: every pair of a strategy,
# a wrapper and a number of ranks has the bits of one process.
#
#===----------------------------------------------------------------------===#

from itertools import product

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

import tandem
from support.covering import Item, cover
from support.wrapper_cells import WRAPPERS, pairs_in, run_cells

RANKS = (1, 2, 3, 4)
#: The strategies that store gradients in codes, which GradientAllReduce sums.
CODED = ("dither-softsign-root", "fp8-collage-light", "fp8-collage-plus", "fp8-lm",
         "residual-softsign-f16", "residual-softsign-root")


def items(ranks):
    return [Item(f"{strategy} {wrapper} {count}", "cells",
                 {"strategy": strategy, "wrapper": wrapper, "ranks": count})
            for strategy, wrapper, count in product(tandem.strategies(), WRAPPERS, ranks)]


def chosen(which):
    """Returns the cells of a run: each value once on two ranks, or those of a covering of all
    pairs that have the given number of ranks."""
    if which == "values":
        found = cover(items([2]), lambda item: item.values.items())
    else:
        found = [item for item in cover(items(RANKS), pairs_in) if item.values["ranks"] == which]
    return [item.values for item in found]


def expected(cell):
    """Returns the beginning of a cell's outcome."""
    if cell["wrapper"] == "GradientAllReduce" and cell["strategy"] not in CODED:
        return f"ValueError: strategy '{cell['strategy']}' stores gradients as"
    return "right"


# An ordinary run uses only the first value. The nightly run of all pairs takes some 4 minutes on
# two idle cores.
@pytest.mark.parametrize("which", ("values", *RANKS))
@pytest.mark.thinned(0)
def test_cells(which, tmp_path):
    cells = chosen(which)
    found = run_cells(cells, 2 if which == "values" else which, tmp_path)
    wrong = [(cell, told) for cell, *outcomes in zip(cells, *found)
             for told in set(outcomes) if not told.startswith(expected(cell))]
    assert cells and not wrong, wrong


def test_all_pairs_are_covered():
    cells = [Item("", "", cell) for which in RANKS for cell in chosen(which)]
    pairs = {pair for item in cells for pair in pairs_in(item)}
    count = len(tandem.strategies()), len(WRAPPERS), len(RANKS)
    assert len(pairs) == count[0] * count[1] + count[0] * count[2] + count[1] * count[2]
