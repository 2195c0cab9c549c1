#===- layer_peers.py - Other layers on a GPU -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the layers that PyTorch users would otherwise use in place of
# tandem.torch.nn's, for benchmarks/gpu/peers.py.
#
#===----------------------------------------------------------------------===#
"""Times forward and backward passes of norms, gated activations and cross entropy in bf16:
torch, torch.compile, Liger and Transformer Engine."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A peer's layer: its owner, the layer of Tandem's that it corresponds to, its number of
    tensors, and its factory, which raises ImportError if the owner is not installed."""

    whose: str
    name: str
    inputs: int
    make: Callable


def _torch(name: str, compiles: bool = False):
    """Returns a factory of a PyTorch layer for rows of a given width."""
    def make(width: int, device: str):
        import torch
        from torch.nn import functional as f

        vector = {"device": device, "dtype": torch.bfloat16, "requires_grad": True}
        weight, bias = torch.ones(width, **vector), torch.zeros(width, **vector)
        function = {
            "rms_norm": lambda x: f.rms_norm(x, (width,), weight),
            "layer_norm": lambda x: f.layer_norm(x, (width,), weight, bias),
            "gelu": lambda x: f.gelu(x, approximate="tanh"),
            "swiglu": lambda gate, up: f.silu(gate) * up,
            "cross_entropy": lambda x: f.cross_entropy(x, _classes(x)),
        }[name]
        return torch.compile(function) if compiles else function

    return make


def _classes(x):
    """Returns class 0 for each row."""
    import torch

    return torch.zeros(x.shape[0], dtype=torch.long, device=x.device)


def _liger(name: str):
    def make(width: int, device: str):
        import liger_kernel.transformers as liger
        import torch

        if name == "rms_norm":
            return liger.LigerRMSNorm(width).to(device, torch.bfloat16)
        if name == "swiglu":
            from liger_kernel.ops.swiglu import LigerSiLUMulFunction
            return LigerSiLUMulFunction.apply
        loss = liger.LigerCrossEntropyLoss()
        return lambda x: loss(x, _classes(x))

    return make


def _transformer_engine(name: str):
    def make(width: int, device: str):
        import torch
        import transformer_engine.pytorch as engine

        kind = engine.RMSNorm if name == "rms_norm" else engine.LayerNorm
        return kind(width, device=device, params_dtype=torch.bfloat16)

    return make


_NAMES = {"rms_norm": 1, "layer_norm": 1, "gelu": 1, "swiglu": 2, "cross_entropy": 1}

LAYERS = (
    [Layer("torch", name, inputs, _torch(name)) for name, inputs in _NAMES.items()]
    + [Layer("torch.compile", name, inputs, _torch(name, True))
       for name, inputs in _NAMES.items()]
    + [Layer("Liger", name, _NAMES[name], _liger(name))
       for name in ("rms_norm", "swiglu", "cross_entropy")]
    + [Layer("Transformer Engine", name, 1, _transformer_engine(name))
       for name in ("rms_norm", "layer_norm")])


def passes(layer: Layer, rows: int, width: int, device: str) -> Callable[[], None]:
    """Returns a function that runs both passes once, over rows of random numbers."""
    import torch

    function = layer.make(width, device)
    inputs = [torch.randn(rows, width, device=device).to(torch.bfloat16).requires_grad_()
              for _ in range(layer.inputs)]

    def run():
        y = function(*inputs)
        torch.autograd.grad(y, inputs, torch.ones_like(y))

    return run
