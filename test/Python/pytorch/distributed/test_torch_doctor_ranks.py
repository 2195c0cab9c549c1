#===- test_torch_doctor_ranks.py - A doctor on several ranks ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.doctor on parameters which fully_shard shards over gloo ranks.
#
#===----------------------------------------------------------------------===#

import json

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

from support.gloo import run_ranks  # noqa: E402
from support.torch_needs import needs_fully_shard  # noqa: E402

#: The processes of the fixture take long.
pytestmark = [pytest.mark.long_setup("outcomes"), needs_fully_shard]

CASES = ("torch_optimizer", "rounded_to_nearest", "with_codes")
ELEMENTS = 133 * 64 + 64 * 301 + 301 + 301 * 64 + 64 + 64 * 133


@pytest.fixture(scope="module")
def outcomes(made_once):
    """Returns the results of each function on two ranks."""
    def run(folder):
        results = run_ranks("support.doctor_ranks",
                            [*CASES, "from_the_first_step", "without_a_doctor",
                                                      "in_the_middle", "clipping"], 2, folder)
        (folder / "results").write_text(json.dumps(results))
    return json.loads((made_once("doctor", run) / "results").read_text())


@pytest.mark.parametrize("case", CASES)
def test_each_rank_watches_its_piece(outcomes, case):
    first, second = outcomes[case]
    assert first["elements"] + second["elements"] == ELEMENTS
    assert first["advice"].keys() == second["advice"].keys()
    assert abs(first["agreement"] - 1) < 0.02 and abs(second["agreement"] - 1) < 0.02
    matrices = [rank["verdicts"]["up.weight"] for rank in (first, second)]
    assert matrices == (["enough"] * 2 if case == "with_codes" else ["too little"] * 2)


@pytest.mark.parametrize("case", CASES)
def test_no_rank_changes_its_run(outcomes, case):
    for watched, plain in zip(outcomes[case], outcomes["without_a_doctor"]):
        assert watched["sums"] == plain[CASES.index(case)]["sums"]


def test_states_on_all_ranks_are_watched_from_the_first_step(outcomes):
    for rank in outcomes["from_the_first_step"]:
        assert rank["verdicts"]["up.bias"] in ("enough", "unclear")
        assert rank["verdicts"]["up.weight"] == "enough"
        assert abs(rank["agreement"] - 1) < 0.05


def test_what_needs_communication_is_refused(outcomes):
    for text in outcomes["in_the_middle"]:
        assert "is a DTensor whose state is on all ranks" in text and "from the first step" in text
    for text in outcomes["clipping"]:
        assert "for which a doctor would have to communicate; leave max_norm out" in text
