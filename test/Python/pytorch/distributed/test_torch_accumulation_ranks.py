#===- test_torch_accumulation_ranks.py - Sums on ranks ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests grad_accumulation on two ranks: under fully_shard each pass adds the reduced
# gradient to the sum; under DistributedDataParallel the sum of a rank's passes is rounded once and
# then averaged.
#
#===----------------------------------------------------------------------===#

import json

import pytest

torch = pytest.importorskip("torch")

from support.gloo import run_ranks
from support.torch_needs import needs_grad_dtype

pytestmark = [needs_grad_dtype, pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="torch has no gloo here")]

#: Bounds of the error of sums, relative to their norm.
BOUNDS = {"f32": 1e-7, "bf16x2": 1e-5, "bf16+i8": 1e-4}


@pytest.fixture(scope="module")
def two(made_once):
    def run(folder):
        (folder / "results").write_text(json.dumps(run_ranks(
            "support.accumulation_ranks", ("fsdp2", "ddp", "ddp_in_bf16", "refusals"), 2,
            folder)))
    return json.loads((made_once("accumulation_ranks", run) / "results").read_text())


def test_fsdp2_adds_up_reduced_gradients(two):
    for rank in two["fsdp2"]:
        assert len(rank) == 9
        for name, (error, differing) in rank.items():
            assert error < BOUNDS[name.split(", ")[1]], name
            assert not differing, name


def test_ddp_averages_the_sums_of_passes(two):
    """A sum in p.grad is off by more than what one rounding of each rank's sum takes."""
    for rank, in_bf16 in zip(two["ddp"], two["ddp_in_bf16"]):
        assert len(rank) == 6
        for name, (error, differing) in rank.items():
            assert error < 0.6 * in_bf16, (name, error, in_bf16)
            assert not differing, name


@pytest.mark.parametrize("case,message", {
    "no wrapper": "nothing that it knows averages gradients over the 2 ranks: wrap the model in "
                  "fully_shard or DistributedDataParallel, or leave grad_accumulation out",
    "FSDP1": "is sharded by FSDP1, which adds up gradients itself; leave grad_accumulation='f32' "
             "out, or shard the model with fully_shard",
    "ZeRO": "ZeroRedundancyOptimizer gives it an optimizer for some of them; leave "
            "grad_accumulation='f32' out, or shard the model with fully_shard",
}.items())
def test_refusals(two, case, message):
    for rank in two["refusals"]:
        assert message in rank[case]
