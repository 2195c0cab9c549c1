#===- test_torch_compile.py - Compressed layers in torch.compile -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that torch.compile leaves compressed layers as they are, and compiles
# what stands between them.
#
#===----------------------------------------------------------------------===#

import warnings

import pytest
import torch

import tandem.torch
from tandem.torch import _layer

RECIPES = ["bf16", "coat", "coat-flow", "te-delayed"]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.RMSNorm(64, 1e-6)
        self.gate_proj = torch.nn.Linear(64, 96)
        self.up_proj = torch.nn.Linear(64, 96)
        self.down_proj = torch.nn.Linear(96, 64)
        self.act_fn = torch.nn.SiLU()

    def forward(self, x):
        y = self.norm(x * 2)
        y = self.down_proj(self.act_fn(self.gate_proj(y)) * self.up_proj(y))
        return x + torch.tanh(y)


def passes(recipe, wrap):
    """Output and gradients of three steps, which delayed scales remember."""
    torch.manual_seed(0)
    model = Block().bfloat16()
    tandem.torch.compress_activations(model, recipe=recipe)
    call, found = wrap(model), []
    for step in range(3):
        x = torch.randn(4, 8, 64, generator=torch.Generator().manual_seed(step)).bfloat16()
        y = call(x)
        y.sum().backward()
        found += [y.detach(), *(p.grad.clone() for p in model.parameters())]
    return found


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_bit_stays(recipe):
    want = passes(recipe, lambda model: model)
    got = passes(recipe, lambda model: torch.compile(model, backend="eager"))
    assert len(got) == len(want) and all(map(torch.equal, got, want))


def test_what_stands_between_is_compiled():
    graphs = []

    def backend(module, inputs):
        graphs.append({node.target for node in module.graph.nodes})
        return module.forward

    passes("coat", lambda model: torch.compile(model, backend=backend))
    assert any(torch.tanh in targets for targets in graphs)


def test_layers_are_not_traced():
    """Nothing of them is compiled anew, and torch.compile sees none of their caches."""
    passes("coat", lambda model: model)
    known = _layer.compiled.cache_info().misses
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*lru_cache")
        passes("coat", lambda model: torch.compile(model, backend="eager"))
    assert _layer.compiled.cache_info().misses == known
