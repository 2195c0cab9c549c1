#===- test_torch_compile.py - Compressed layers in torch.compile -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that torch.compile traces compressed layers or leaves them out of its graphs, with
# the same bits and messages as without it.
#
#===----------------------------------------------------------------------===#

import warnings

import pytest
import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

import tandem.torch
from tandem.torch import nn
from tandem.torch.nn import _layer
from tandem.torch.nn._history import Mode

#: The recipes that torch.compile traces, and others.
TRACED, APART = ["bf16", "coat", "fp32", "mxfp8"], ["coat-flow", "te-delayed"]


class FeedForward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = torch.nn.Linear(64, 96)
        self.up_proj = torch.nn.Linear(64, 96)
        self.down_proj = torch.nn.Linear(96, 64)
        self.act_fn = torch.nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.RMSNorm(64, 1e-6)
        self.mlp = FeedForward()

    def forward(self, x):
        return x + torch.tanh(self.mlp(self.norm(x * 2)))


def compressed(recipe, make=Block, **options):
    """Returns a compressed model whose layers offer no codes to linear layers, as in graphs."""
    torch.manual_seed(0)
    model = make().bfloat16()
    tandem.torch.compress_activations(model, recipe=recipe, **options)
    for module in model.modules():
        if hasattr(module, "_kept"):
            module._kept._unused = set(Mode)
    return model


def passes(model, call=None, shapes=((4, 8),) * 3):
    """Returns outputs and gradients of several steps, which affect delayed scales."""
    call, found = model if call is None else call, []
    for step, shape in enumerate(shapes):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(*shape, 64, generator=generator).bfloat16().requires_grad_()
        y = call(x)
        y.sum().backward()
        found += [y.detach(), x.grad, *(p.grad.clone() for p in model.parameters())]
    return found


def assert_same(got, want):
    assert len(got) == len(want) and all(map(torch.equal, got, want))


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Graphs:
    """A backend that runs graphs unchanged and records their operators."""

    def __init__(self):
        self.targets = []

    def __call__(self, module, inputs):
        self.targets.append([str(node.target) for node in module.graph.nodes])
        return module.forward

    def has(self, name):
        return any(name in target for targets in self.targets for target in targets)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("recipe", TRACED)
def test_one_graph(recipe, backend):
    model = compressed(recipe)
    got = passes(model, torch.compile(model, backend=backend, fullgraph=True))
    assert_same(got, passes(compressed(recipe)))


@pytest.mark.parametrize("recipe", APART)
def test_others_stay_apart(recipe):
    model, graphs = compressed(recipe), Graphs()
    assert_same(passes(model, torch.compile(model, backend=graphs)), passes(compressed(recipe)))
    assert graphs.has("mul")


class Everything(torch.nn.Module):
    """Each layer that a graph can contain."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(64))
        self.bias = torch.nn.Parameter(torch.rand(64))

    def forward(self, x):
        how = {"recipe": "coat"}
        y = nn.layer_norm(nn.silu(x, **how), (64,), self.weight, self.bias, **how)
        y, total = nn.add_rms_norm(y, x, (64,), self.weight, 1e-6, **how)
        y = nn.geglu(y, total, approximate="tanh", **how)
        return nn.swiglu(nn.gelu(y, **how), x, **how)


def test_every_layer():
    model = compressed("coat", Everything)
    got = passes(model, torch.compile(model, backend="eager", fullgraph=True))
    model.zero_grad()
    assert_same(got, passes(model))


def test_sizes_may_change():
    shapes = ((4, 8), (3, 7), (5, 9), (1, 1))
    model = compressed("coat")
    call = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    assert_same(passes(model, call, shapes), passes(compressed("coat"), None, shapes))


def test_empty_batches():
    model = compressed("coat")
    call = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_same(passes(model, call, ((0, 8),)), passes(compressed("coat"), None, ((0, 8),)))


def test_what_is_shared_is_kept_once():
    """The gate and the other factor share their input."""
    model, seen = compressed("coat"), []

    def compile_forward(module, inputs):
        seen.append([n for n in module.graph.nodes if "run_pass" in str(n.target)])
        return module.forward

    backend = aot_autograd(fw_compiler=compile_forward,
                           bw_compiler=lambda module, _: module.forward,
                           partition_fn=min_cut_rematerialization_partition)
    passes(model, torch.compile(model, backend=backend, fullgraph=True))
    # These are the norm, the coded product input, the activation, and the last product's input.
    assert len(seen[0]) == 4


def test_recomputing_stays_apart():
    model, graphs = compressed("coat", recompute=True), Graphs()
    assert_same(passes(model, torch.compile(model, backend=graphs)),
                passes(compressed("coat", recompute=True)))
    assert graphs.has("mul")


def test_autocast():
    model = compressed("coat").float()

    def run(call):
        with torch.autocast("cpu", torch.bfloat16):
            y = call(torch.ones(2, 64))
        y.sum().backward()
        return [y.detach(), *(p.grad.clone() for p in model.parameters())]

    got = run(torch.compile(model, backend="aot_eager", fullgraph=True))
    model.zero_grad()
    assert_same(got, run(model))


def test_without_gradients():
    model = compressed("coat")
    call = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.ones(2, 64).bfloat16()
    with torch.no_grad():
        assert torch.equal(call(x), model(x))


def test_layers_are_not_traced():
    """The layers are not recompiled, and torch.compile does not trace their caches."""
    passes(compressed("coat"))
    known = _layer.compiled.cache_info().misses
    model = compressed("coat")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*lru_cache")
        passes(model, torch.compile(model, backend="eager"))
    assert _layer.compiled.cache_info().misses == known


def test_messages_stay():
    with pytest.raises(ValueError, match="unknown recipe 'cote'; built-in ones are"):
        torch.compile(nn.SwiGLU(recipe="cote"), backend="eager")(torch.ones(1, 8),
                                                                 torch.ones(1, 8))


def test_places_are_looked_at():
    """A tensor on a different device from the layer's input is in no graph and no kernel."""
    norm = torch.compile(nn.rms_norm, backend="eager")
    with pytest.raises(ValueError, match="weight of rms_norm is on meta"):
        norm(torch.ones(2, 8), (8,), torch.ones(8, device="meta"), 1e-6)


def test_random_rounding_stays_apart(tmp_path):
    """torch.compile would merge operators with equal inputs."""
    (tmp_path / "random.mlir").write_text("""
        tandem.strategy @random compute(<f32, f32>) {
          tandem.assign saved = #tandem.float<bf16, stochastic>
        }""")
    norm = nn.RMSNorm(8, 1e-6, recipe="random", path=[tmp_path])
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"torch\.(compiler|_dynamo)\.disable"):
        torch.compile(norm, backend="eager", fullgraph=True)(torch.ones(2, 8))
