#===- test_torch_fsdp2.py - Optimizers of DTensors -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests optimizers over DTensors, as fully_shard (FSDP2) makes them: weights and states
# have the bits of one process for any number of ranks.
#
#===----------------------------------------------------------------------===#

import re

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

from support.fsdp2_cases import CASES
from support.gloo import run_ranks

MODULE = "support.fsdp2_ranks"
CHECKED = ("fsdp2", "wide", "convert", "disagree", "nan_on_one_rank", "other_placements",
           "columns", "all_reduce", "empty_step", "refusals", "convert_while_loading", "offload",
           "joined_rows", "gradient_scales", "flat", "copies", "no_gradient",
           "outside")
RELEASED = "ValueError: parameter 0 .*gradient_release=True would have taken the step; leave it out"


@pytest.fixture(scope="module")
def two(made_once):
    """Returns the results of each function on two ranks."""
    import json

    def run(folder):
        (folder / "results").write_text(json.dumps(run_ranks(MODULE, CHECKED, 2, folder)))
    return json.loads((made_once("fsdp2", run) / "results").read_text())


@pytest.mark.parametrize("name", CASES)
def test_has_the_bits_of_one_process(name, two):
    for rank in two["fsdp2"]:
        if name == "release":
            assert re.search(RELEASED, rank[name])
        else:
            assert rank[name] == []


def test_wide_weights(two):
    assert two["wide"] == [[], []]


def test_flat_state_dicts(two):
    for saved, loaded, error in two["flat"]:
        assert saved == loaded
        assert re.match("ValueError: the state dict is of graph 'adamw_clip', this optimizer "
                        "runs 'adamw'", error), error


def test_copies(two):
    assert two["copies"] == [[], []]


def test_a_rank_without_a_gradient(two):
    for rank, found in enumerate(two["no_gradient"]):
        for error, kept in (found["gathered"], found["encoded"]):
            assert error.startswith(
                "RuntimeError: ranks are about to take different steps with adamw")
            assert len(kept) == 6
        assert found["by itself"] == ["no error", ["first.bias"] * rank]


def test_strategies_change(two):
    for rank in two["convert"]:
        assert all(problems == [] for problems in rank.values()), rank


def test_scales_of_gradients_are_those_of_the_whole(two):
    assert two["gradient_scales"] == [[], []]


def test_joined_rows(two):
    """16 rows of 9 share scales in groups of 256; the state has a step, two moments and scales."""
    assert two["joined_rows"] == [[True, [4, 1], 5]] * 2


def test_an_empty_step_leaves_no_trace(two):
    assert two["empty_step"] == [[], []]


@pytest.mark.parametrize("case, message", [
    ("strategy", "no error$"),  # it is converted
    ("kept", "adam8bit$"),
    ("plain", "ValueError: 'param.master' in the state of parameter 0 is a DTensor, but the "
              "parameter is none; join .* full_state_dict=True"),
    ("spread", "ValueError: 'param.master' in the state of parameter 0 is a whole tensor, but "
               "the parameter is a DTensor; divide .* full_state_dict=True"),
    ("in place", "RuntimeError: the state of parameter 0 has been written into since "
                 "get_optimizer_state_dict .*hand what was loaded to set_optimizer_state_dict"),
    ("bitsandbytes", "ValueError: weights that are DTensors .*pass a full state dict"),
])
def test_refusals_of_states(case, message, two):
    assert all(re.match(message, rank[case]) for rank in two["refusals"]), two["refusals"]


def test_converts_while_loading(two):
    assert all(changed == loaded for changed, loaded in two["convert_while_loading"])


def test_offload(two):
    for rank in two["offload"]:
        assert all(problems == [] for problems in rank.values()), rank


def test_ranks_that_differ_raise_on_all(two):
    for rank in two["disagree"]:
        assert re.match("RuntimeError: ranks are about to take different steps with adamw_clip",
                        rank[0])
        assert rank[1] == "no error"  # an absent gradient counts as zeros


def test_a_nan_on_one_rank_skips_the_step_of_all(two):
    for rank in two["nan_on_one_rank"]:
        assert len(rank) == 3 and all(found == [True, True] for found in rank.values()), rank


def test_a_gradient_of_other_placements(two):
    assert all(re.search(r"the gradient of parameter 0 is spread as .*, the parameter is spread "
                         r"as .*; redistribute it", found) for found in two["other_placements"])


def test_sums_of_gradients_are_refused(two):
    assert all(re.search("parameter 0 .*is a DTensor, .*FP8ReduceScatter in place of", found)
               for found in two["all_reduce"])


def test_columns_that_are_spread(two):
    assert all(re.search("in pieces that are not whole rows, and strategy 'coat' has scales .*"
                         "; shard its rows evenly", found) for found in two["columns"])


#===----------------------------------------------------------------------===#
# More ranks
#===----------------------------------------------------------------------===#


def test_more_ranks(tmp_path):
    found = run_ranks(MODULE, ["fsdp2"], 3, tmp_path)["fsdp2"]
    for rank in found:
        assert {name: problems for name, problems in rank.items() if name != "release"} == {
            name: [] for name in CASES if name != "release"}


def test_meshes_of_two_dimensions(tmp_path):
    found = run_ranks(MODULE, ["groups_made", "hybrid", "tensor_parallel", "meshes_disagree"], 4,
                      tmp_path)
    assert found["groups_made"] == [[0, 1]] * 4
    for rank in found["hybrid"]:
        assert all(problems == [] for problems in rank.values()), rank
    for rank in found["tensor_parallel"]:
        assert all(problems == [] for problems in rank.values()), rank


    for error, skipped, same in found["meshes_disagree"]:
        assert re.match("RuntimeError: ranks are about to take different steps with adamw_clip",
                        error)
        assert skipped and same


def test_a_rank_outside_of_a_mesh(two):
    inside, other = two["outside"]
    assert inside == "no error"
    assert re.match("ValueError: parameter 0 is a DTensor of a mesh that rank 1 is not in; give "
                    "each rank's optimizer the parameters of meshes that the rank is in", other)


def test_a_rank_that_dies(tmp_path):
    """The other rank gets an error without writing anything, and both resume from the
    checkpoint."""
    folders = [tmp_path / name for name in ("before", "after")]
    for folder in folders:
        folder.mkdir()
    found = run_ranks(MODULE, ["crash"], 2, folders[0])["crash"]
    assert found[0]["error"] == "RuntimeError" and found[0]["untouched"]
    resumed = run_ranks(MODULE, ["resume"], 2, folders[1])["resume"]
    assert resumed == [rank["uninterrupted"] for rank in found]


@pytest.mark.parametrize("ranks", (2, 4))
def test_random_meshes_and_placements(ranks, tmp_path):
    found = run_ranks(MODULE, ["random_runs"], ranks, tmp_path)["random_runs"]
    assert all(rank == found[0] for rank in found)
    for seed, outcome in found[0].items():
        assert outcome == [] or outcome.startswith("refused: parameter"), (seed, outcome)
    assert sum(outcome == [] for outcome in found[0].values()) > len(found[0]) // 2


def test_shapes_and_scales(tmp_path):
    """Every shape has the bits of one process under scales of groups, rows, blocks and none, and
    its states have the same shapes as there."""
    assert run_ranks(MODULE, ["granularities"], 3, tmp_path)["granularities"] == [{}] * 3


def test_checkpoints_go_to_other_ranks(tmp_path):
    """A checkpoint of three ranks loads on two, and in a process without fully_shard."""
    folders = [tmp_path / name for name in ("three", "two", "one")]
    for folder in folders:
        folder.mkdir()
    saved = run_ranks(MODULE, ["save"], 3, folders[0])["save"]
    loaded = run_ranks(MODULE, ["load"], 2, folders[1])["load"]
    alone = run_ranks(MODULE, ["load_plain"], 1, folders[2])["load_plain"]
    assert saved == [saved[0]] * 3 and loaded == [saved[0]] * 2 and alone == [saved[0]]
