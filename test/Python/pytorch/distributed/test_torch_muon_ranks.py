#===- test_torch_muon_ranks.py - Muon on ranks -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests Muon under fully_shard: whole matrices go to the ranks that own them, and weights
# and states have the bits of one process.
#
#===----------------------------------------------------------------------===#

import json

import pytest

torch = pytest.importorskip("torch")

from support.gloo import run_ranks

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="torch has no gloo here")


def run_on(made_once, count, names):
    def run(folder):
        (folder / "results").write_text(json.dumps(run_ranks(
            "support.muon_ranks", names, count, folder)))
    return json.loads((made_once(f"muon_ranks_{count}", run) / "results").read_text())


@pytest.fixture(scope="module", params=(2, 3))
def ranks(request, made_once):
    return run_on(made_once, request.param, ("fsdp2", "clipped", "owners", "states"))


def test_fsdp2_has_the_bits_of_one_process(ranks):
    for rank in ranks["fsdp2"]:
        assert len(rank) == 6 and not any(rank.values()), rank


def test_scaled_weights_have_the_bits_of_one_process(ranks):
    assert not any(ranks["clipped"]), ranks["clipped"]


def test_each_matrix_has_an_owner(ranks):
    """Each matrix is orthogonalized once, whole."""
    done = sorted(tuple(shape) for rank in ranks["owners"] for shape in rank)
    assert done == [(133, 24), (256, 133)]
    assert max(map(len, ranks["owners"])) == 1


def test_tensor_parallel_has_the_bits_of_one_process(made_once):
    for rank in run_on(made_once, 4, ("tensor_parallel",))["tensor_parallel"]:
        assert not rank


def test_states(ranks):
    for rank in ranks["states"]:
        assert rank["first.weight"] == ["momentum_buffer", "momentum_buffer.scale", "step"]
        assert "exp_avg_sq" in rank["first.bias"]
