#===- test_torch_compress.py - Replaced modules ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that compress_activations replaces modules that compute the same function, reports
# others, and changes nothing while it checks.
#
#===----------------------------------------------------------------------===#

import copy
import re

import pytest

torch = pytest.importorskip("torch")

import tandem.torch
from support.torch_needs import needs_fully_shard
from tandem.torch import nn
from torch.nn import functional

SIZE = 24


class Block(torch.nn.Module):
    """A gated block like Llama's."""

    def __init__(self, act=torch.nn.SiLU, size=SIZE):
        super().__init__()
        self.gate_proj = torch.nn.Linear(size, 2 * size, bias=False)
        self.up_proj = torch.nn.Linear(size, 2 * size, bias=False)
        self.down_proj = torch.nn.Linear(2 * size, size, bias=False)
        self.act_fn = act()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Norm(torch.nn.Module):
    """An RMSNorm like Llama's."""

    def __init__(self, size=SIZE):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))
        self.eps = 1e-6

    def normalized(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self.weight * self.normalized(x)


def compressed(module, recipe="fp32", **options):
    """Compresses a module within a model; returns its replacement and the report."""
    model = torch.nn.ModuleDict({"it": module})
    done = tandem.torch.compress_activations(model, recipe, **options)
    return model["it"], done


def assert_left(module, why):
    now, done = compressed(module)
    assert now is module and "it" not in done.swapped
    assert re.search(why, done.left["it"]), done.left["it"]


def assert_swapped(module, kind):
    """Asserts that a module is replaced and computes the same function in both modes."""
    old = copy.deepcopy(module)
    now, done = compressed(module)
    assert type(now) is kind and "it" not in done.left, done
    x = torch.randn(3, 4, SIZE, dtype=next(iter([*old.parameters(), torch.ones(1)])).dtype)
    for training in (True, False):
        got, want = (m.train(training)(x).double() for m in (now, old))
        assert (got - want).norm() <= (1e-2 if x.dtype.itemsize < 4 else 1e-6) * want.norm()


#===----------------------------------------------------------------------===#
# Gated blocks
#===----------------------------------------------------------------------===#


class Scaled(Block):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        gate = self.act_fn(self.gate_proj(x) * self.by)
        return self.down_proj(self.up_proj(x) * gate)


class Clamped(Block):
    def forward(self, x):
        gate = self.gate_proj(x).clamp(max=10.0)
        return self.down_proj(self.act_fn(gate) * self.up_proj(x))


class Sparse(Block):
    def forward(self, x):
        gate = self.gate_proj(x)
        gate = torch.relu(gate - gate.mean(-1, keepdim=True))
        return self.down_proj(self.act_fn(gate) * self.up_proj(x))


class Dropping(Block):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return functional.dropout(super().forward(x), self.p, self.training)


class EvaluatedOtherwise(Block):
    def forward(self, x):
        return super().forward(x) * (1.0 if self.training else 0.5)


class WithoutUpGradient(Block):
    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x).detach())


class Merging(Block):
    """A block that computes more than a gated block before that block."""

    def __init__(self):
        super().__init__()
        self.proj, self.norm = torch.nn.Linear(SIZE, SIZE), torch.nn.LayerNorm(SIZE)

    def forward(self, x):
        return super().forward(self.norm(self.proj(x)))


class Weighted(Block):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return super().forward(x) * self.scale


class Counting(Block):
    def __init__(self):
        super().__init__()
        self.count, self.seen = 0, []

    def forward(self, x):
        self.count += 1
        self.seen.append(x.shape)
        return super().forward(x)


class TakingMore(Block):
    def forward(self, x, scale=None):
        return super().forward(x) if scale is None else super().forward(x) * scale


class Paired(Block):
    def forward(self, x):
        return super().forward(x), None


class Loading(Block):
    def _load_from_state_dict(self, *arguments):
        super()._load_from_state_dict(*arguments)


class QuickGELU(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


@pytest.mark.parametrize("make, why", [
    (lambda: Scaled(0.5), "relative error of its"),
    (lambda: Scaled(1.001), "relative error of its"),
    (Clamped, "relative error of its"), (Sparse, "relative error of its"),
    (lambda: Block(torch.nn.ReLU), "does not compute SwiGLU, or GeGLU by erf, or GeGLU by tanh"),
    (lambda: Block(QuickGELU), "relative error of its"),
    (lambda: Dropping(0.1), "draws random numbers, as dropout does"),
    (EvaluatedOtherwise, "relative error of its output is 1$"),
    (WithoutUpGradient, "input's gradient is 1"),
    (Merging, "has modules that the new module would lack: norm, proj"),
    (Weighted, "has parameters that the new module would lack: scale"),
    (Counting, "changes its attributes"), (TakingMore, "takes more than one tensor"),
    (Paired, "does not run on drawn inputs: AttributeError"),
    (Loading, "a method _load_from_state_dict of its own")])
def test_blocks_that_compute_something_else_are_left(make, why):
    assert_left(make(), why)


class ByFunction(Block):
    def __init__(self):
        super().__init__()
        del self.act_fn

    def forward(self, x):
        return self.down_proj(functional.gelu(self.gate_proj(x)) * self.up_proj(x))


@pytest.mark.parametrize("make", (
    Block, lambda: Block(torch.nn.GELU), lambda: Block(lambda: torch.nn.GELU("tanh")),
    lambda: Scaled(1), lambda: Dropping(0.0), ByFunction))
def test_blocks_that_compute_the_same_are_swapped(make):
    assert_swapped(make(), nn.GatedMLP)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_blocks_in_16_bits_are_compared_exactly(dtype):
    """In their own dtype, a difference of less than a percent would be invisible."""
    assert_swapped(Block().to(dtype), nn.GatedMLP)
    assert_left(Scaled(1.001).to(dtype), "relative error of its")


@pytest.mark.parametrize("make", (
    lambda: Scaled(0.5), Clamped, lambda: Block(QuickGELU)))
def test_weights_do_not_hide_differences(make):
    """Weights of a new layer may be zero, and those on meta have no values."""
    module = make()
    torch.nn.init.zeros_(module.down_proj.weight)
    assert_left(module, "relative error")
    assert_left(make().to("meta"), "relative error")


def test_each_layer_is_probed_by_itself():
    """A result only applies to layers with the same attributes."""
    model = torch.nn.Sequential(Scaled(1), Scaled(2), Scaled(1), Scaled(2))
    done = tandem.torch.compress_activations(model)
    assert [type(m) for m in model] == [nn.GatedMLP, Scaled, nn.GatedMLP, Scaled]
    assert {"1", "3"} == set(done.left)
    assert "1.gate_proj" in done.swapped, "what is below a block that stays is swapped"


def hooked_act():
    block = Block()
    block.act_fn.register_forward_hook(lambda *_: None)
    return block


def tied():
    block = Block()
    block.up_proj.weight = block.gate_proj.weight
    return block


def parametrized():
    block = Block()
    torch.nn.utils.parametrizations.weight_norm(block.up_proj)
    return block


class Adapted(torch.nn.Module):
    """A linear layer with a low-rank adapter."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora = torch.nn.Linear(base.in_features, base.out_features)

    def forward(self, x):
        return self.base_layer(x) + self.lora(x)


def adapted():
    block = Block()
    block.gate_proj = Adapted(block.gate_proj)
    return block


@pytest.mark.parametrize("make, why", [
    (hooked_act, "its act_fn stays: it has hooks"), (tied, "gate_proj.weight is tied"),
    (parametrized, "its up_proj is a ParametrizedLinear, and no torch.nn.Linear"),
    (adapted, "its gate_proj is a Adapted, and no torch.nn.Linear"),
    (lambda: Block().double(), "its weight is of torch.float64")])
def test_blocks_with_other_parts_are_left(make, why):
    assert_left(make(), why)


def test_layers_of_an_adapter_are_swapped():
    block, done = compressed(adapted())
    assert {"it.gate_proj.base_layer", "it.gate_proj.lora", "it.down_proj"} <= set(done.swapped)
    block(torch.randn(2, SIZE)).sum().backward()


#===----------------------------------------------------------------------===#
# Norms and activations
#===----------------------------------------------------------------------===#


class OffsetNorm(Norm):
    def forward(self, x):
        return (1 + self.weight) * self.normalized(x)


class OtherEpsilonNorm(Norm):
    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


class CenteredNorm(Norm):
    def forward(self, x):
        return super().forward(x - x.mean(-1, keepdim=True))


class BufferedNorm(Norm):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))


class GatedNorm(Norm):
    def forward(self, x, gate=None):
        return super().forward(x)


class BatchOfOneNorm(torch.nn.Module):
    """A norm that equals a layer norm on matrices, and fails on batches of them."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(SIZE))
        self.bias = torch.nn.Parameter(torch.zeros(SIZE))
        self.eps = 1e-5

    def forward(self, x):
        return functional.group_norm(x, 1, self.weight, self.bias, self.eps)


class GainNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain, self.eps = torch.nn.Parameter(torch.ones(SIZE)), 1e-6


@pytest.mark.parametrize("make, why", [
    (OffsetNorm, "does not compute RMSNorm: the relative error of its"),
    (OtherEpsilonNorm, "relative error of its"), (CenteredNorm, "relative error"),
    (BufferedNorm, "has buffers that the new module would lack: count"),
    (GatedNorm, "takes more than one tensor"),
    (BatchOfOneNorm, "does not run on drawn inputs: RuntimeError"),
    (GainNorm, "has parameters that the new module would lack: gain"),
    (lambda: torch.nn.BatchNorm1d(SIZE), "BatchNorm1d is not a norm that is known here")])
def test_norms_that_compute_something_else_are_left(make, why):
    assert_left(make(), why)


class TheirLayerNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(SIZE))
        self.bias = torch.nn.Parameter(torch.rand(SIZE))
        self.variance_epsilon = 1e-12

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        variance = x.square().mean(-1, keepdim=True)
        return x / torch.sqrt(variance + self.variance_epsilon) * self.weight + self.bias


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_norms_that_compute_the_same_are_swapped(dtype):
    assert_swapped(Norm().to(dtype), nn.RMSNorm)
    assert_swapped(TheirLayerNorm().to(dtype), nn.LayerNorm)


class SiLUActivation(torch.nn.Module):
    def forward(self, x):
        return functional.silu(x)


class MyGELU(torch.nn.Module):
    def forward(self, x):
        return functional.gelu(x, approximate="tanh")


def test_activations_are_what_they_compute():
    assert_swapped(SiLUActivation(), nn.SiLU)
    assert_swapped(MyGELU(), nn.GELU)
    assert compressed(MyGELU())[0].approximate == "tanh"
    assert_left(QuickGELU(), "does not compute SiLU, or GELU by erf, or GELU by tanh")
    assert_left(torch.nn.SiLU(inplace=True), "writes its output over its input")


#===----------------------------------------------------------------------===#
# State that a probe does not change
#===----------------------------------------------------------------------===#


def test_a_probe_changes_nothing():
    torch.manual_seed(5)
    model = torch.nn.ModuleList((Counting(), Norm(), Dropping(0.5).eval()))
    model[0].gate_proj.register_forward_hook(lambda *_: pytest.fail("a hook ran"))
    before = {name: p.clone() for name, p in model.named_parameters()}
    everywhere = torch.nn.modules.module.register_module_forward_hook(
        lambda *_: pytest.fail("a hook of all modules ran"))
    state = torch.get_rng_state()
    try:
        done = tandem.torch.compress_activations(model)
    finally:
        everywhere.remove()
    assert torch.equal(torch.get_rng_state(), state)
    assert {"0", "2"} <= set(done.left) and "0.gate_proj" in done.left
    assert model[0].count == 0 and model[0].seen == []
    assert model[0].training and model[1].training and not model[2].training
    assert all(torch.equal(p, before[name]) and p.grad is None
               for name, p in model.named_parameters())


@pytest.mark.parametrize("mode", (
    torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)))
def test_probes_in_other_modes(mode):
    with mode():
        now, _ = compressed(Block())
        assert_left(Scaled(1.001), "relative error")
    assert isinstance(now, nn.GatedMLP)


def test_a_default_type_is_not_a_probe_s():
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert isinstance(compressed(Block())[0], nn.GatedMLP)
        assert_left(Scaled(1.001), "relative error")
    finally:
        torch.set_default_dtype(torch.float32)


#===----------------------------------------------------------------------===#
# Special tensors and unsupported modules
#===----------------------------------------------------------------------===#


class Wrapped(torch.Tensor):
    """A tensor subclass, like those of libraries that quantize or shard."""


def with_weight(weight):
    layer = torch.nn.Linear(8, 8, bias=False)
    layer.weight = torch.nn.Parameter(weight, requires_grad=weight.is_floating_point())
    return layer


def compiled():
    layer = torch.nn.LayerNorm(8)
    layer.compile(backend="eager")
    return layer


def saving():
    layer = torch.nn.LayerNorm(8)
    layer.register_state_dict_pre_hook(lambda *_: None)
    return layer


@pytest.mark.parametrize("make, why", [
    (lambda: with_weight(torch.ones(8, 8).as_subclass(Wrapped)), "its weight is a Wrapped"),
    (lambda: with_weight(torch.ones(8, 8, dtype=torch.int8)), "its weight is of torch.int8"),
    (lambda: with_weight(torch.ones(8, 8, dtype=torch.float64)), "is of torch.float64"),
    (lambda: with_weight(torch.ones(0)), r"its weight is \(0,\) instead of \(8, 8\)"),
    (compiled, "it is compiled"), (saving, "it has hooks")])
def test_layers_that_are_not_plain_are_left(make, why):
    assert_left(make(), why)


@needs_fully_shard
def test_sharded_modules_are_left():
    """FSDP assigns parameters only to the modules that it has seen."""
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        model = torch.nn.Sequential(Norm(), Block(), torch.nn.Linear(SIZE, SIZE))
        torch.distributed.fsdp.fully_shard(model, mesh=mesh)
        done = tandem.torch.compress_activations(model)
        assert list(done.swapped) == ["1.act_fn"]
        assert all(done.left[name] == "FSDP shards it; compress activations before"
                   for name in ("0", "1", "1.down_proj", "2"))
        model(torch.randn(2, SIZE)).sum().backward()
        model = torch.nn.Sequential(Norm(), Block(), torch.nn.Linear(SIZE, SIZE))
        assert len(tandem.torch.compress_activations(model).swapped) == 6
        torch.distributed.fsdp.fully_shard(model, mesh=mesh)
        model(torch.randn(2, SIZE)).sum().backward()
    finally:
        dist.destroy_process_group()


class Conv1D(torch.nn.Module):
    """A layer like GPT-2's."""

    def __init__(self, size):
        super().__init__()
        self.nf, self.weight = size, torch.nn.Parameter(torch.randn(size, size))

    def forward(self, x):
        return x @ self.weight


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up_proj = torch.nn.Parameter(torch.randn(4, 16, 8))
        self.down_proj = torch.nn.Parameter(torch.randn(4, 8, 8))
        self.act_fn = torch.nn.SiLU()


class LanguageModel(torch.nn.Module):
    loss_type = "ForCausalLM"

    def __init__(self):
        super().__init__()
        self.proj, self.experts, self.head = Conv1D(8), Experts(), torch.nn.Linear(8, 8)
        self.conv = torch.nn.Conv1d(8, 8, 3)

    @property
    def loss_function(self):
        return functional.cross_entropy


def test_what_is_not_served_is_named():
    done = tandem.torch.compress_activations(LanguageModel())
    assert {"experts.act_fn", "head"} == set(done.swapped)
    assert {"proj", "experts", "loss_function"} == set(done.left)
    assert "Conv1D, whose weight is that of a Linear transposed" in done.left["proj"]
    assert "weights of three dimensions" in done.left["experts"]
    assert "tandem.torch.nn.cross_entropy" in done.left["loss_function"]


#===----------------------------------------------------------------------===#
# A second call
#===----------------------------------------------------------------------===#


def test_a_second_call_changes_the_recipe(tmp_path):
    model = torch.nn.Sequential(Norm(), Block(), torch.nn.Linear(SIZE, SIZE))
    tandem.torch.compress_activations(model, "te-delayed")
    x = torch.randn(4, SIZE, requires_grad=True)
    model(x).sum().backward()
    assert model[2]._kept
    done = tandem.torch.compress_activations(model, "coat", recompute=True, products="fp8")
    assert done.swapped["0"] == "RMSNorm under te-delayed -> RMSNorm under coat"
    assert done.swapped["1"] == "GatedMLP -> GatedMLP, whose product is computed again"
    assert done.swapped["1.act"] == "SwiGLU under te-delayed -> SwiGLU under coat"
    assert done.swapped["2"] == ("Linear under te-delayed, bf16 products -> "
                                 "Linear under coat, fp8 products")
    assert len(done.swapped) == 7 and not done.left and not model[2]._kept
    assert all(m.recipe == "coat" for m in model.modules()
               if isinstance(m, nn._modules._Compressed))
    model(x).sum().backward()
    again = tandem.torch.compress_activations(model, "coat", recompute=True, products="fp8")
    assert not again.swapped and not again.left


def test_a_second_call_keeps_what_the_same_recipe_remembers():
    layer = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE))
    tandem.torch.compress_activations(layer, "te-delayed")
    layer(torch.randn(4, SIZE)).sum().backward()
    kept = dict(layer[0]._kept)
    tandem.torch.compress_activations(layer, "te-delayed")
    assert kept and dict(layer[0]._kept) == kept


def test_a_second_call_on_a_module_itself():
    norm = nn.RMSNorm(8)
    done = tandem.torch.compress_activations(norm, "bf16")
    assert done.swapped == {"(the model)": "RMSNorm under coat -> RMSNorm under bf16"}


def test_hooks_of_a_product_are_kept():
    block, ran = Block(), []
    block.down_proj.register_forward_hook(lambda *_: ran.append(1))
    now, done = compressed(block, recompute=True)
    assert done.swapped["it"] == ("Block -> GatedMLP, which keeps its product for the hooks of "
                                  "down_proj")
    now(torch.randn(2, SIZE))
    assert ran == [1] and not now.recompute


@pytest.mark.parametrize("options, why", [
    ({"recipe": "cote"}, "unknown recipe 'cote'; built-in ones are"),
    ({"products": "fp9"}, "products is 'bf16' or 'fp8', got 'fp9'")])
def test_a_refused_call_leaves_the_model(options, why):
    model = torch.nn.Sequential(Norm(), Block())
    with pytest.raises(ValueError, match=why):
        tandem.torch.compress_activations(model, **options)
    assert [type(m) for m in model] == [Norm, Block]
