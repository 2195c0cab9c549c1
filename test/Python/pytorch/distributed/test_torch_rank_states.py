#===- test_torch_rank_states.py - States of shards -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests full state dicts of DTensors, under strategies whose planes have types that gloo
# does not carry, and gradients that only some ranks have.
#
#===----------------------------------------------------------------------===#

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

from support.gloo import run_ranks


CASES = ("full", "absent", "foreign", "begins_at_rate_0", "unfreezes", "converts_states_of_some",
         "experts_apart")


@pytest.fixture(scope="module")
def two(made_once):
    """Returns the results of each function on two ranks."""
    import json

    def run(folder):
        (folder / "results").write_text(json.dumps(
            run_ranks("support.state_ranks", CASES, 2, folder)))
    return json.loads((made_once("state_ranks", run) / "results").read_text())


def test_full_state_dicts(two):
    assert two["full"][0] == two["full"][1] and len(two["full"][0]) == 7
    for sharded, plain, again, broadcast, weights in two["full"][0]:
        assert sharded == plain == again == broadcast and weights


def test_an_absent_gradient_counts_as_zeros_in_sums(two):
    for rank in two["absent"]:
        assert rank["max_norm"] and rank["skip"]


def test_states_of_torch_are_those_of_one_process(two):
    """FSDP2's states of torch.optim.AdamW are converted shard by shard."""
    assert two["foreign"][0] == two["foreign"][1] and len(two["foreign"][0]) == 4
    for sharded, plain, steps in two["foreign"][0].values():
        assert sharded == plain and steps == [2]


def test_ranks_decide_together_whether_a_step_is_empty(two):
    """A warmup from a rate of 0 begins with a step that counts."""
    for rank in two["begins_at_rate_0"]:
        assert rank == {"max_norm": [3], "nothing": [3]}


def test_a_parameter_that_is_unfrozen_is_summed(two):
    assert two["unfreezes"] == ["no error"] * 2


def test_states_of_some_ranks_are_not_converted(two):
    for error in two["converts_states_of_some"]:
        assert error.startswith("RuntimeError: ranks are about to take different steps")


def test_experts_with_meshes_of_their_own_are_not_clipped_apart(two):
    for expert, replica in two["experts_apart"]:
        assert expert.startswith("ValueError: parameter 6 is a DTensor of a mesh of some ranks")
        assert replica == "no error"
