#===- test_torch_sums.py - Sums of gradients on gloo ranks -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests 8-bit gradient sums over processes, with DistributedDataParallel's hook, FSDP2's
# reduce-scatter and GradientAllReduce, against the NumPy model.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from model.codes import FloatCode, SoftsignCode
from model.formats import encode
from model.scaled import WHOLE, Scaled
from model.storage import Draw
from support import sum_ranks
from support.sum_model import mean_of_values

#: The processes of the fixture take long.
pytestmark = pytest.mark.long_setup("found")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)


@pytest.fixture(params=(2, 3, 4))
def found(request, made_once):
    """Returns the findings of each rank. Three and four ranks take a minute on two cores."""
    count = request.param
    if count > 2 and request.config.option.tests_chosen != "whole":
        pytest.skip(f"{count} ranks run with --whole")
    folder = made_once(f"sums-{count}", lambda folder: sum_ranks.run(str(folder), count))
    return sum_ranks.findings(folder, count)


def raw(tensor):
    return tensor.contiguous().view(torch.uint16).numpy().ravel()


def wide(tensor):
    return tensor.float().numpy().ravel()


def check_ddp(found, name, storage, mus=(None,) * sum_ranks.STEPS):
    """Asserts that p.grad on every rank is the model's result for the ranks' own gradients."""
    for step, mu in enumerate(mus):
        owns, results = zip(*(rank[name][step][:2] for rank in found))
        for own, result in zip(zip(*owns), zip(*results)):
            mean = mean_of_values(storage, [wide(grad) for grad in own], mu)
            for grad in result:
                assert np.array_equal(raw(grad), encode("bf16", mean)), f"{name}, {step}"


def test_ddp_hook(found):
    check_ddp(found, "ddp", Scaled(FloatCode("f8E4M3FN"), WHOLE, "f32", "pow2"))


def test_ddp_hook_with_groups(found):
    check_ddp(found, "ddp_grouped", Scaled(SoftsignCode(), 64, "bf16"))


def test_ddp_hook_with_automatic_scaling(found):
    """The saturated share of a step is known when the next one begins; mu = 4 makes it large."""
    mus = [step[2] for step in found[0]["ddp_automatic"]]
    assert mus == [4.0, 2.0] == [step[2] for step in found[-1]["ddp_automatic"]]
    check_ddp(found, "ddp_automatic", Scaled(FloatCode("f8E4M3FN"), WHOLE, "f32", "pow2"), mus)
    assert 0 < found[0]["ddp_automatic"][1][3] < 0.5


def test_a_nan_of_one_rank_is_one_of_all(found):
    assert all(all(rank["ddp_nan"]) for rank in found)


def test_ddp_hook_of_ranks_that_differ(found):
    for number, rank in enumerate(found):
        assert "the ranks do not have the same factors mu; the factors mu of rank " \
            f"{number}: {1.0 + number}." in rank["ddp_differs"]


def test_a_strategy_with_codes_trains_under_the_hook(found):
    for rank in found:
        losses, weights = rank["ddp_trains"]
        assert losses[-1] < 0.5 * losses[0]
        for one, other in zip(weights, found[0]["ddp_trains"][1]):
            assert torch.equal(one, other)


def test_overlap_and_buckets_change_no_bit(found):
    """The sums of one pass, and then of two, have the same bits."""
    for rank in found:
        for first, runs in ((found[0]["overlap"][0], rank["overlap"][:4]),
                            (found[0]["overlap"][4], rank["overlap"][4:])):
            for planes, early, count in runs:
                for one, other in zip(planes, first[0]):
                    assert all(map(torch.equal, one, other))
            assert [early for _, early, _ in runs] == [0, 0, 1, runs[1][2]]
            assert runs[1][2] == runs[3][2] > 2


def test_ranks_that_differ(found):
    """Each rank gets an error, and none waits for another."""
    reasons = {"shapes": "the same shapes of parameters", "order": "the same shapes",
               "overlapped": "the same shapes", "seed": "the same seeds",
               "strategy": "the same strategies"}
    for rank in found:
        differing = rank["differing"]
        assert differing.pop("none") is None
        assert set(differing) == set(reasons)
        for name, reason in reasons.items():
            assert reason in differing[name], name


def test_a_pass_after_buckets_were_sent(found):
    for rank in found:
        assert "which GradientAllReduce has sent already" in rank["twice"]


def test_wide_gradients(found):
    total = wide(found[0]["wide"][0])
    for rank in found[1:]:
        total = total + wide(rank["wide"][0])
    for rank in found:
        assert np.array_equal(raw(rank["wide"][1]),
                              encode("bf16", total / np.float32(len(found))))


def test_fsdp2(found):
    """A shard is the mean of the ranks' decoded parts."""
    count, storage = len(found), Scaled(FloatCode("f8E4M3FN"), 128, "f32", "pow2")
    owns = [rank["fsdp2"][0] for rank in found]
    for number, rank in enumerate(found):
        parts = [np.concatenate([part_of(grad, number, count) for grad in own]) for own in owns]
        decoded = [storage.decode(storage.encode("g", part, Draw()), "g") for part in parts]
        total = decoded[0]
        for part in decoded[1:]:
            total = total + part
        mean, first = encode("bf16", total / np.float32(count)), 0
        for shard, grad in zip(rank["fsdp2"][1], owns[0]):
            assert np.array_equal(raw(shard), mean[first:first + shard.numel()])
            first += len(part_of(grad, number, count))


def part_of(grad, number, count):
    """Returns a rank's rows of a gradient, padded with zeros to the size of the first rank's."""
    rows = -(-len(grad) // count)
    part = grad[rows * number:rows * (number + 1)].float().numpy()
    missing = rows - len(part)
    return np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1)).ravel()
