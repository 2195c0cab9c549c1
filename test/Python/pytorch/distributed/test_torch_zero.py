#===- test_torch_zero.py - ZeRO with whole tensors -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests FP8-LM's partition of tensors among ranks and ZeroRedundancyOptimizer: the bits of
# one process on 2 ranks, and nightly on 3 and 4.
#
#===----------------------------------------------------------------------===#

import random
import re

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.gloo import run_ranks
from tandem.torch.distributed import greedy_partition, stored_bytes
from tandem.torch.optim import _wrappers

#: The processes of the fixture take long.
pytestmark = pytest.mark.long_setup("two")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

NAMES = ("cases", "groups", "skips", "checkpoints", "few", "under_ddp", "weight_codes", "level_o3",
         "refusals")


@pytest.fixture(scope="module")
def two(made_once):
    import json
    folder = made_once("zero", lambda folder: (folder / "all.json").write_text(json.dumps(
        run_ranks("support.zero_ranks", NAMES, 2, folder))))
    return json.loads((folder / "all.json").read_text())


@pytest.mark.parametrize("name", NAMES[1:-1])
def test_two_ranks(name, two):
    assert two[name] == ["right"] * 2


def test_strategies(two):
    for rank in two["cases"]:
        assert rank and {k: v for k, v in rank.items() if v != "right"} == {}


@pytest.mark.parametrize("name, text", [
    ("class", "optimizer_class is AdamW, which is none of tandem.torch.optim's"),
    ("overlap", "overlap_with_ddp=True needs PyTorch's functional optimizers"),
    ("max_norm", "adamw_clip sums over all parameters.*leave max_norm out"),
    ("bucket", "these are torch.bfloat16, torch.float32; leave it out"),
    ("shapes", "ranks have given .* other parameters.*alike on every rank"),
    ("seeds", "ranks have given .* or other strategies or seeds"),
    ("visible", "weight_codes needs a strategy that keeps weights in its state.*'flash-f16'"),
    ("unknown", "a tensor that is none of the optimizer's parameters"),
    ("views", "weight_codes sends parameters one by one; leave parameters_as_bucket_view")])
def test_refusals(name, text, two):
    for told in two["refusals"]:
        assert re.search(text, told[name]), told[name]


# An ordinary run uses only the first value.
@pytest.mark.parametrize("ranks", (2, 3, 4))
@pytest.mark.thinned(0)
def test_ranks(ranks, two, tmp_path):
    results = two if ranks == 2 else run_ranks("support.zero_ranks", NAMES[:-1], ranks, tmp_path)
    for name in NAMES[:-1]:
        for rank in results[name]:
            assert rank == "right" or set(rank.values()) == {"right"}, (name, rank)


#===----------------------------------------------------------------------===#
# The partition
#===----------------------------------------------------------------------===#


def follows_algorithm_1(sizes, ranks):
    """Implements FP8-LM's algorithm 1 line by line."""
    order = sorted(range(len(sizes)), key=lambda i: sizes[i], reverse=True)
    usage, parts = [0] * ranks, [set() for _ in range(ranks)]
    for i in order:
        j = min(range(ranks), key=lambda rank: usage[rank])
        parts[j].add(i)
        usage[j] += sizes[i]
    return parts


@pytest.mark.parametrize("seed", range(20))
def test_algorithm(seed):
    rng = random.Random(seed)
    sizes = [rng.choice((0, 1, 5, 5, 100, rng.randrange(1000))) for _ in range(rng.randrange(40))]
    ranks = rng.randrange(1, 9)
    parts = greedy_partition(sizes, ranks)
    assert [set(part) for part in parts] == follows_algorithm_1(sizes, ranks)
    loads = [sum(sizes[i] for i in part) for part in parts]
    assert sum(loads) == sum(sizes)
    # Graham's bound: no rank exceeds the mean by more than the largest tensor.
    assert max(loads) <= sum(sizes) / ranks + max(sizes, default=0)


def test_loads():
    assert greedy_partition([4, 4], 2, loads=[10, 0]) == [[], [0, 1]]


@pytest.mark.parametrize("given, text", [
    (([1], 0), "ranks is 0"), (([1, -2], 2), "sizes has -2"),
    (([1], 2, [3]), "loads has 1 entries for 2 ranks")])
def test_wrong_partitions(given, text):
    with pytest.raises(ValueError, match=text):
        greedy_partition(*given)


def test_bytes():
    params = [torch.nn.Parameter(torch.zeros(shape, dtype=torch.bfloat16))
              for shape in ((64, 64), (64,))]
    frozen = torch.nn.Parameter(torch.zeros(9), requires_grad=False)
    optimizer = tt.AdamW([*params, frozen], strategy="fp8-lm")
    # The weight has 2 bytes, the moments 1 and 2, and there are three scales; a vector's moments
    # are f32.
    assert stored_bytes(optimizer) == [4096 * 5 + 12, 64 * 10 + 4, 0]


def test_o3_needs_ranks():
    assert not _wrappers.has_ranks()
    with pytest.raises(RuntimeError, match="'O3' divides tensors.*or take level='O2'"):
        tt.fp8_lm(torch.nn.Sequential(torch.nn.Linear(8, 8)).bfloat16(), "O3")
