#===- test_torch_recommend_ranks.py - Choices for ranks --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests strategies that are chosen for parameters which fully_shard shards over gloo
# ranks.
#
#===----------------------------------------------------------------------===#

import json

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

from support.gloo import run_ranks  # noqa: E402

#: The processes of the fixture take long.
pytestmark = pytest.mark.long_setup("outcomes")

CASES = ("everything", "middle", "little")


@pytest.fixture(scope="module")
def outcomes(made_once):
    """Returns the results of each function on two ranks."""
    def run(folder):
        results = run_ranks("support.recommend_ranks", [*CASES, "far_too_little"], 2, folder)
        (folder / "results").write_text(json.dumps(results))
    return json.loads((made_once("recommend", run) / "results").read_text())


@pytest.mark.parametrize("case", CASES)
def test_ranks_choose_alike(outcomes, case):
    """The choice is that of recommend() without ranks. The first rank has the planned bytes, and
    the other one at most as many."""
    first, second = outcomes[case]
    assert first["strategies"] == second["strategies"]
    assert first["strategies"][0] == first["strategies"][1]
    assert first["same"] and second["same"]
    assert first["live"] == first["planned"] == second["planned"]
    assert all(second["live"][part] <= first["live"][part] for part in first["live"])


def test_strategies_differ_by_memory(outcomes):
    chosen = [outcomes[case][0]["strategies"][0]["matrices"] for case in CASES]
    assert chosen == ["remainder", "flash-f16", "dither-mulaw"]


def test_too_little_on_every_rank(outcomes):
    first, second = outcomes["far_too_little"]
    assert first == second and "the least on each of 2 ranks is" in first
