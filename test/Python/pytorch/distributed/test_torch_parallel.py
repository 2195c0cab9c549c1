#===- test_torch_parallel.py - Layers that ranks share ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tensor and sequence parallelism with 8-bit codes: the bits of one process with the
# same encodings, on 2 ranks, and nightly on 3 and 4.
#
#===----------------------------------------------------------------------===#

import json
import re

import pytest

torch = pytest.importorskip("torch")

from support.gloo import run_ranks

#: The processes of the fixture take long.
pytestmark = pytest.mark.long_setup("two")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

NAMES = ("block", "replicated", "kept", "compressed", "column_gathers", "zeros", "accumulates",
         "refusals")
REFUSALS = {
    "layout": r"ValueError: output_layouts of FP8ColwiseParallel is Shard\(-1\), got Replicate",
    "row layout": r"ValueError: input_layouts of FP8RowwiseParallel is Shard\(-1\), got Replic",
    "features": r"ValueError: input_layouts .*Shard\(-1\) is the dimension of features",
    "dtensor": "ValueError: FP8SequenceParallel gathers codes, which no DTensor holds",
    "embedding": "NotImplementedError: .*got Embedding; take .*'?s ColwiseParallel for it",
    "subclass": "NotImplementedError: Scaled has a forward pass of its own",
    "double": "TypeError: .* got torch.float64; convert the module",
    "out": "ValueError: FP8ColwiseParallel divides out_features=.* make it a multiple of",
    "in": "ValueError: FP8RowwiseParallel divides in_features=.* make it a multiple of",
    "container": "NotImplementedError: .*got Sequential; name its parts",
    "rows": r"ValueError: dimension 1 of Linear\(in_features.* pad it to a multiple of",
    "uneven": r"ValueError: the input of Linear\(.* has 64 elements on one rank and \d+ on ano",
    "matrix": r"ValueError: Shard\(dim=1\) is not a dimension of the rows",
    "placement": r"ValueError: .* a DTensor with placements \(Replicate\(\),\).*input_layouts=",
    "integers": "TypeError: .* is torch.int64; codes are made from bfloat16",
}


@pytest.fixture(scope="module")
def two(made_once):
    folder = made_once("parallel", lambda folder: (folder / "all.json").write_text(json.dumps(
        run_ranks("support.parallel_ranks", NAMES, 2, folder))))
    return json.loads((folder / "all.json").read_text())


@pytest.mark.parametrize("name", NAMES[:-1])
def test_two_ranks(name, two):
    assert two[name] == ["right"] * 2


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name, two):
    for told in two["refusals"]:
        assert re.search(REFUSALS[name], told[name]), told[name]


# An ordinary run uses only the first value.
@pytest.mark.parametrize("ranks", (2, 3, 4))
@pytest.mark.thinned(0)
def test_ranks(ranks, two, tmp_path):
    results = two if ranks == 2 else run_ranks(
        "support.parallel_ranks", NAMES[:-1], ranks, tmp_path)
    assert {name: results[name] for name in NAMES[:-1]} == {
        name: ["right"] * ranks for name in NAMES[:-1]}
