#===- test_muon_step.py - The benchmark of Muon's steps --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the cases of benchmarks/muon_step.py take the same steps, and that docs/Muon.md has
# the results on record.
#
#===----------------------------------------------------------------------===#

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import muon_step as benchmark  # noqa: E402
from common import load  # noqa: E402


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_cases_take_the_same_step():
    shapes = benchmark.shapes_of(32, 1)
    ours, theirs = (benchmark.optimizer_of(strategy, torch.float32, shapes)
                    for strategy in ("fp32", None))
    products = benchmark.Timed(benchmark.orthogonalize)
    ours._arguments["external"]["orthogonalize"] = products
    total, own = benchmark.step(ours, products)
    assert total > own > 0
    theirs.step()
    for a, b in zip(ours.param_groups[0]["params"], theirs.param_groups[0]["params"]):
        assert torch.allclose(a, b, rtol=0, atol=1e-8)


def test_the_page_has_the_results():
    assert benchmark.rows(load("muon_step")) in benchmark.PAGE.read_text()
