#===- test_torch_coded_weights.py - Weights gathered as codes --*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests fp8_all_gather: the bits of one process and of uncoded gathers, half of the bytes,
# and the parameters that are gathered uncoded.
#
#===----------------------------------------------------------------------===#

import json
import re

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

from support.gloo import run_ranks

#: The processes of the fixture take long.
pytestmark = pytest.mark.long_setup("two")

MODULE = "support.coded_weights_ranks"
NAMES = ("training", "written", "of_recipes", "wide_weights", "report", "changes", "values", "refusals", "reasons")
#: The elements of weights that are gathered as codes, of others, and of vectors.
CODED, WIDE, VECTORS = 24 * 48 + 133 * 24, 48 * 48 + 48 * 133, 24 + 24 + 48 + 48
REFUSALS = {
    "late": "RuntimeError: .*weight has been gathered already, .*before the model's first pass",
    "twice": "ValueError: .*weight says already how it is gathered; .*once for a model",
    "no layer": r"ValueError: the model has no layer with products of 8-bit .*products='fp8'\) fir",
    "no ranks": "ValueError: .* whose weight FSDP2 manages; .*and then fully_shard",
}
REASONS = {"tied": "is tied to a layer without 8-bit products",
           "columns": "is sharded in dimension 1, not by rows",
           "divided": "is divided by tensor parallelism too",
           "kept": "is kept in part after the forward pass (reshard_after_forward as a number)"}


@pytest.fixture(scope="module")
def two(made_once):
    folder = made_once("coded_weights", lambda folder: (folder / "all.json").write_text(
        json.dumps(run_ranks(MODULE, NAMES, 2, folder, timeout=500))))
    return json.loads((folder / "all.json").read_text())


@pytest.mark.parametrize("name", ("layers", "gated"))
def test_has_the_bits_of_one_process_and_of_wide_gathers(name, two):
    assert [rank[name] for rank in two["training"]] == [[True] * 3] * 2


def test_codes_that_steps_write(two):
    """Ranks gather the codes that steps have written, whose scale they then share."""
    for same, encoded, names, left in two["written"]:
        assert same
        assert encoded == 2 * 2  # two weights in the two passes before the first step
        assert names == ["up.weight", "down.weight"]
        assert left.keys() == {"odd.weight"} and "call tandem.torch.dist" in left["odd.weight"]


def test_ranks_write_their_rows_of_operands(two):
    """Ranks agree on NVFP4's scale of the tensor."""
    for rank in two["of_recipes"]:
        assert rank == {"nvfp4": [True] * 3, "mxfp4": [True] * 2, "mxfp8": [True] * 2}


def test_codes_of_wide_weights(two):
    assert two["wide_weights"] == [[True, "torch.float32"]] * 2


def test_report(two):
    for rank in two["report"]:
        assert rank["coded"] == ["up.weight", "down.weight"]
        assert rank["wide"] == {"odd.weight": "has 133 rows, which 2 ranks do not share evenly"}
        assert len(rank["told"]) == 1 and re.search(
            "1 of 3 weights .* odd.weight has 133 rows", rank["told"][0])
        assert rank["text"].startswith("WeightGather(coded=['up.weight', 'down.weight'], wide=")


def test_bytes(two):
    """A coded element takes one byte; others and their padding take two."""
    padding = 2 * (48 + 1)  # one row, and one element of the bias
    others = 2 * (WIDE + VECTORS + 133) + padding
    for rank in two["report"]:
        assert rank["bytes"] == [(2 * CODED + others) // 2, (CODED + others) // 2]


def test_one_exchange_for_each_forward_pass(two):
    """There were two forward passes, and a backward pass, which gathers again."""
    assert [rank["exchanges"] for rank in two["report"]] == [2, 2]


def test_weights_that_change(two):
    for rank in two["changes"]:
        assert rank and all(rank.values()), rank


def test_others_get_values(two):
    assert two["values"] == [[True, "torch.bfloat16", True]] * 2


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name, two):
    for told in two["refusals"]:
        assert re.search(REFUSALS[name], told[name]), told[name]


@pytest.mark.parametrize("name", ("tied", "columns", "divided"))
def test_reasons(name, two):
    assert [rank[name] for rank in two["reasons"]] == [[REASONS[name]]] * 2


# The nightly run takes 20 seconds.
@pytest.mark.parametrize("ranks", (2, 4))
@pytest.mark.thinned(0)
def test_ranks(ranks, two, tmp_path):
    names = ("training", "hybrid", "reasons")
    found = two if ranks == 2 else run_ranks(MODULE, names, ranks, tmp_path, timeout=500)
    assert all(all(all(case) for case in rank.values()) for rank in found["training"])
    if ranks == 4:
        assert found["hybrid"] == [True] * 4
        assert all(rank["kept"] == [REASONS["kept"]] for rank in found["reasons"])
