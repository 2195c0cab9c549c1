#===- test_jax_step.py - The measurement of JAX's steps --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/jax_step.py and its results in docs/JAX.md.
#
#===----------------------------------------------------------------------===#

import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="JAX is not installed")
pytest.importorskip("optax", reason="optax is not installed")

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import jax_step
from common import load


def test_all_contenders_take_turns():
    found = jax_step.measure("1M", rounds=1)
    assert len(found) == len(jax_step.PEERS) + len(jax_step.STRATEGIES) + len(jax_step.PLAIN)
    assert all(0 < one["least_ms"] <= one["ms"] for one in found.values())
    shown = jax_step.page_table({"sizes": {"1M": found}})
    assert all(f"| {name} | " in shown for name in found)
    costs = jax_step.costs_table({"1M": found}).splitlines()[2:]
    assert len(costs) == len(found) and costs[0].startswith("| optax.adamw, f32, 1M | ")
    assert all(one["processor_ms"] > 0 and one["pages"] >= 0 for one in found.values())


def test_the_page_has_the_results():
    assert jax_step.PAGE.read_text().endswith(
        jax_step.ABOVE + jax_step.page_text(load("jax_step"))), "run benchmarks/jax_step.py"
