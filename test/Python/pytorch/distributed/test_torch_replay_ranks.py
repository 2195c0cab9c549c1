#===- test_torch_replay_ranks.py - Steps of DTensors -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that a step over DTensors reuses the checks of the previous one, and notices all
# changes since then.
#
#===----------------------------------------------------------------------===#

import json
import re

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

from support.gloo import run_ranks
from support.replay_ranks import CHANGES, OPTIMIZERS

MODULE = "support.replay_ranks"
CHECKED = ("repeats", "changes", "one_rank_looks", "disagree", "gathered")

pytestmark = [
    pytest.mark.skipif(not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
                       reason="this PyTorch has no exchange interface"),
    pytest.mark.long_setup("two")]
SPREAD = (r"RuntimeError: the gradient of parameter {} is {}, the parameter is spread as .*; "
          "redistribute it")
#: The errors for changes that are refused.
ERRORS = {"a sum": SPREAD.format(3, r"spread as \(P.*\)"),
          "another mesh": SPREAD.format(1, r"spread as \(R, S\(0\)\)"),
          "a whole gradient": SPREAD.format(1, "no DTensor")}
#: The number of five steps that check everything: the first, the one with a change, and in most
#: cases the next one, where the change is reverted.
LOOKS = {"nothing": 1, "a rate": 1, "a piece of the weight elsewhere": 2,
         "a piece of a plane elsewhere": 2, "a count": 2}


@pytest.fixture(scope="module")
def two(made_once):
    """Returns the results of each function on two ranks."""
    def run(folder):
        (folder / "results").write_text(json.dumps(run_ranks(MODULE, CHECKED, 2, folder)))
    return json.loads((made_once("replay", run) / "results").read_text())


def test_most_steps_look_little(two):
    for rank in two["repeats"]:
        assert rank == {name: [1, True] for name in OPTIMIZERS}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen(change, two):
    for rank in two["changes"]:
        looks, error, agree = rank[change]
        assert agree and re.match(ERRORS.get(change, "no error$"), error), error
        assert looks == LOOKS.get(change, 3), looks


def test_one_rank_may_look_while_others_do_not(two):
    assert two["one_rank_looks"] == [[1, True], [2, True]]


def test_ranks_that_differ_raise_on_all(two):
    for error, looks, untouched in two["disagree"]:
        assert re.match("RuntimeError: ranks are about to take different steps", error)
        assert looks == 0 and untouched


def test_gathered_parameters_are_asked_about_in_every_step(two):
    for looks, checks in two["gathered"]:
        assert looks == 3 and checks >= 3


def test_one_rank(tmp_path):
    found = run_ranks(MODULE, ["repeats"], 1, tmp_path)["repeats"]
    assert found == [{name: [1, True] for name in OPTIMIZERS}]
