#===- test_reports_ranks.py - Reports about several ranks ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tries what users of other optimizers reported about shards, checkpoints of several ranks
# and clipping over device meshes. docs/Reports.md lists the reports.
#
#===----------------------------------------------------------------------===#

import json

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

from tandem.torch._versions import at_least

if not at_least(2, 6):
    pytest.skip("torch.distributed.fsdp.fully_shard is in PyTorch 2.6", allow_module_level=True)

from support.gloo import run_ranks
from support.report_ranks import STRATEGIES

NAMES = ("few_rows", "precision", "flat_precision", "two_meshes", "groups", "zero")


@pytest.fixture(scope="module")
def three(made_once):
    """Returns the results of each function on three ranks."""
    def run(folder):
        results = run_ranks("support.report_ranks", NAMES, 3, folder)
        (folder / "results").write_text(json.dumps(results))
    return json.loads((made_once("report_ranks", run) / "results").read_text())


# databricks/flashoptim#6, NVIDIA-NeMo/RL#2434, pytorch/pytorch#108869
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_with_fewer_rows_than_ranks_are_saved_and_loaded(strategy, three):
    assert [rank[strategy] for rank in three["few_rows"]] == [[]] * 3


# pytorch/ao#4912
def test_sharding_does_not_change_the_type_of_a_state(three):
    for sharded, whole in three["precision"]:
        assert sharded == whole == ["torch.float32", "torch.int8", "torch.int8"]


# bitsandbytes-foundation/bitsandbytes#2080
def test_wrapping_does_not_change_the_type_of_a_flat_state(three):
    assert three["flat_precision"] == [[["torch.float32"]] * 2] * 3


# pytorch/pytorch#180346
@pytest.mark.parametrize("strategy", ["fp32", "remainder"])
def test_a_norm_over_two_meshes_is_that_of_one_process(strategy, three):
    assert [rank[strategy] for rank in three["two_meshes"]] == [[True, True]] * 3


# pytorch/pytorch#140900, pytorch/pytorch#129079, PrimeIntellect-ai/prime-rl#3561
def test_a_distributed_checkpoint_restores_counts_and_hyperparameters(three):
    for kept, steps in three["groups"]:
        assert kept == [
            {"lr": 5e-3, "initial_lr": 1e-2, "weight_decay": 0.25, "betas": [0.9, 0.999],
             "strategy": "remainder"},
            {"lr": 5e-3, "initial_lr": 1e-2, "weight_decay": 0.01, "betas": [0.5, 0.75],
             "strategy": "remainder"}]
        assert steps == [1, 1, 1]


# pytorch/pytorch#124133
def test_a_zero_redundancy_optimizer_loads_what_it_has_consolidated(three):
    assert three["zero"] == [["no error", [True, True, True]]] * 3
