#===- test_torch_versions.py - What older PyTorch lacks --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tests of what differs between versions of PyTorch, by taking
# away from this one what older ones lack.
#
#===----------------------------------------------------------------------===#

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import tandem.torch as tt  # noqa: E402
from tandem.torch import _shards, _versions  # noqa: E402
from tandem.torch.optim import _auto, _recommend  # noqa: E402


def test_versions_are_numbers(monkeypatch):
    for version, at_least in (("2.4.1", False), ("2.13.0+cpu", True), ("2.5.0a0+git12", True),
                              ("3.0", True)):
        monkeypatch.setattr(torch, "__version__", version)
        assert _versions.at_least(2, 5) is at_least


def test_imports_without_newer_names():
    """As PyTorch 2.4 has neither of these; a step runs all the same."""
    program = """
import torch
import torch._dynamo  # which asks for the type itself
import torch.distributed.tensor as spread
kept = vars(torch).pop("float8_e8m0fnu", None), vars(spread).pop("DTensor")
import tandem.torch
try:
    tandem.torch.distributed.FP8ColwiseParallel
except ImportError as error:
    assert "needs more of torch.distributed.tensor than this PyTorch has" in str(error)
else:
    raise AssertionError("was imported")
torch.float8_e8m0fnu, spread.DTensor = kept
weight = torch.nn.Parameter(torch.ones(8, 8))
optimizer = tandem.torch.AdamW([weight], strategy="fp32", lr=0.5)
weight.grad = torch.ones_like(weight)
optimizer.step()
assert (weight < 0.6).all()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_versions_of_tensors_go_up_one_by_one(monkeypatch):
    tensors = [torch.zeros(3) for _ in range(2)]
    _versions.increment_versions(tensors)
    increment = torch.autograd.graph.increment_version

    def only_one(tensor):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError("increment_version takes a tensor")
        increment(tensor)

    monkeypatch.setattr(torch.autograd.graph, "increment_version", only_one)
    _versions.increment_versions(tensors)
    assert [tensor._version for tensor in tensors] == [2, 2]


class DTensor(torch.Tensor):
    """Stands for the class of PyTorch 2.4, which is not recognized as a newer one is."""


DTensor.__module__ = "torch.distributed._tensor.api"


def test_dtensors_of_older_versions_are_refused():
    with pytest.raises(RuntimeError, match=r"DTensors, as fully_shard makes them, need PyTorch "
                                           r"2\.5 or newer; this is"):
        _shards.is_dtensor(torch.zeros(3).as_subclass(DTensor))


def test_ranks_need_dtensors(monkeypatch):
    monkeypatch.setattr(_recommend, "at_least", lambda *version: False)
    _recommend._rows.cache_clear()
    with pytest.raises(RuntimeError, match=r"ranks above 1 .* need PyTorch 2\.5"):
        tt.recommend({"weight": (64, 64)}, "1GiB", ranks=2)


def test_names_are_left_out_where_optimizers_take_none(monkeypatch):
    monkeypatch.setattr(_auto, "TAKES_NAMES", False)
    model = torch.nn.Sequential(torch.nn.Embedding(128, 64)).bfloat16()
    named = [("embed.weight", param) for param in model.parameters()]
    optimizer = tt.AdamW(named, strategy="auto", memory="1GiB")
    assert optimizer.param_groups[0]["params"] == list(model.parameters())
    assert optimizer.recommendation.strategies == {"embeddings": "remainder"}
    assert "param_names" not in optimizer.param_groups[0]
