#===- test_torch_versions.py - Older versions of PyTorch ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests behaviour that differs between versions of PyTorch, by removing what older
# versions lack from the installed one.
#
#===----------------------------------------------------------------------===#

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import tandem.torch as tt  # noqa: E402
from tandem.torch import _shards, _versions  # noqa: E402
from tandem.torch.optim.advice import _auto, _recommend  # noqa: E402


def test_versions_are_numbers(monkeypatch):
    for version, at_least in (("2.4.1", False), ("2.13.0+cpu", True), ("2.5.0a0+git12", True),
                              ("3.0", True)):
        monkeypatch.setattr(torch, "__version__", version)
        assert _versions.at_least(2, 5) is at_least


@pytest.mark.parametrize(("before", "message"), (
    ("import sys; sys.modules['torch'] = None",
     "needs PyTorch 2.4 or later, and this Python has none; install it with pip install"),
    ("import torch; torch.__version__ = '2.3.1+cpu'",
     "is for PyTorch 2.4 and later, and this is 2.3.1+cpu; update it with pip install -U torch")))
def test_no_pytorch_or_an_old_one(before, message):
    program = f"{before}\nimport tandem\nassert tandem.__version__\nimport tandem.torch"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 1 and f"ImportError: tandem.torch {message}" in result.stderr


def test_imports_without_newer_names():
    """PyTorch 2.4 has neither of these names, and a step runs without them."""
    program = """
import torch
import torch._dynamo  # which asks for the type itself
import torch.distributed.tensor as spread
newer = [(of, name) for of, name in ((torch, "float8_e8m0fnu"), (spread, "DTensor"))
         if name in vars(of)]
kept = [vars(of).pop(name) for of, name in newer]
import tandem.torch
try:
    tandem.torch.distributed.FP8ColwiseParallel
except ImportError as error:
    assert "needs more of torch.distributed.tensor than this PyTorch has" in str(error)
else:
    raise AssertionError("was imported")
for (of, name), value in zip(newer, kept):
    setattr(of, name, value)
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
            raise RuntimeError("increment_version expect a Tensor as input")
        increment(tensor)

    monkeypatch.setattr(torch.autograd.graph, "increment_version", only_one)
    _versions.increment_versions(tensors)
    assert [tensor._version for tensor in tensors] == [2, 2]


def test_state_dicts_have_hooks_under_private_names(monkeypatch):
    """As in PyTorch 2.4, weights decoded on demand are saved and loaded, and hooks are removed."""
    for name in ("register_state_dict_post_hook", "register_load_state_dict_pre_hook"):
        monkeypatch.delattr(torch.nn.Module, name, raising=False)
    model = torch.nn.Linear(8, 8, bias=False, dtype=torch.bfloat16)
    weight = torch.linspace(-1, 1, 64, dtype=torch.bfloat16).view(8, 8)
    model.weight.data.copy_(weight)
    optimizer = tt.AdamW(model.parameters(), strategy="fp8-collage-plus", min_8bit_size=0)
    decoded = tt.decode_weights(model, optimizer)
    saved = model.state_dict()["weight"]
    torch.testing.assert_close(saved, weight, rtol=2e-2, atol=2e-3)
    model.load_state_dict({"weight": -saved})
    assert torch.equal(model.state_dict()["weight"], -saved)
    decoded.remove()
    assert not model._state_dict_hooks and not model._load_state_dict_pre_hooks
    assert torch.equal(model.weight, -saved)


class NoFloat8(TorchDispatchMode):
    """Refuses to fill float8 tensors, which PyTorch 2.4 cannot do on CPUs."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket in (torch.ops.aten.zero_, torch.ops.aten.fill_):
            if "float8" in str(args[0].dtype):
                raise RuntimeError(f"\"fill_cpu\" not implemented for {args[0].dtype}")
        return function(*args, **(kwargs or {}))


def test_planes_of_float8_are_zero_without_a_fill():
    with NoFloat8():
        with pytest.raises(RuntimeError, match="fill_cpu"):
            torch.empty(4, dtype=torch.float8_e4m3fn).zero_()
        for dtype in (torch.float8_e4m3fn, torch.bfloat16, torch.float32, torch.bool):
            memory = torch.full((4, 6), 0x7F, dtype=torch.uint8).view(-1)[:8].clone()
            plane = _versions.zeroed(memory.view(dtype).view(2, -1).T)
            assert not memory.any() and plane.dtype == dtype
        weight = torch.nn.Parameter(torch.ones(64, 8, dtype=torch.bfloat16))
        optimizer = tt.AdamW([weight], lr=0.5, strategy="coat", min_8bit_size=0)
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        tt.convert_state(optimizer.state_dict(), [weight], "fp8-collage-plus")
    assert any("float8" in str(plane.dtype) for plane in optimizer.state[weight].values()
               if torch.is_tensor(plane))
    assert (weight < 0.6).all()


class DTensor(torch.Tensor):
    """Represents the class of PyTorch 2.4, which is recognized in a different way."""


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
