#===- test_torch_saved_inputs.py - Inputs of linear layers ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the inputs saved by linear layers are written by the preceding kernel, once,
# and only if the layers use them.
#
#===----------------------------------------------------------------------===#

import weakref

import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch
from tandem.torch import nn
from tandem.torch.nn import _saved_inputs, _layer

#: Recipes whose linear layers save something other than the bf16 tensor itself.
PLAIN = ("bf16", "coat-flow", "coat-fp8")
CODED = [recipe for recipe in tandem.recipes() if recipe not in PLAIN]
#: Recipes under which each pass draws other bits.
DITHERED = ("mxfp4", "nvfp4", "linear4")


@pytest.fixture
def launches(monkeypatch):
    """Records the names of the kernels that run."""
    names = []
    run = _layer.Pass.run

    def counted(self, shape, tensors, hypers=()):
        names.append(self.kernel.name)
        return run(self, shape, tensors, hypers)

    monkeypatch.setattr(_layer.Pass, "run", counted)
    return names


def model(recipe="coat", norm=torch.nn.RMSNorm):
    torch.manual_seed(1)
    layers = torch.nn.Sequential(norm(64), torch.nn.Linear(64, 48), torch.nn.SiLU(),
                                 torch.nn.Linear(48, 32)).to(torch.bfloat16)
    tandem.torch.compress_activations(layers, recipe)
    return layers


def step(layers, x):
    layers.zero_grad()
    layers(x).float().square().mean().backward()
    return [p.grad.clone() for p in layers.parameters()]


def batch(seed=2):
    return torch.randn(4, 6, 64, generator=torch.Generator().manual_seed(seed)).bfloat16()


@pytest.mark.parametrize("norm", (torch.nn.RMSNorm, torch.nn.LayerNorm))
@pytest.mark.parametrize("recipe", tandem.recipes())
def test_nothing_passes_over_what_a_kernel_has_made(recipe, norm, launches):
    layers = model(recipe, norm)
    for _ in range(2):
        launches.clear()
        step(layers, batch())
        forward = [name for name in launches if not name.endswith("_backward")]
        name = "rms_norm" if norm is torch.nn.RMSNorm else "layer_norm"
        # A layer that saves its input unchanged launches nothing.
        assert [n for n in forward if n != "keep"] == [name, "silu"]
        assert forward.count("keep") == 0 or recipe in PLAIN


@pytest.mark.parametrize("recipe", [recipe for recipe in CODED if recipe not in DITHERED])
def test_codes_are_those_of_the_unrounded_output(recipe):
    """In f32, where outputs are not rounded, the codes are those of saving the output."""
    weight = torch.linspace(0.5, 1.5, 64)
    memory, x = _saved_inputs.LayerState(), batch().float().requires_grad_()
    y = nn.rms_norm(x, (64,), weight, 1e-6, recipe=recipe, state=memory)
    layer = nn.functional._layer("keep", recipe, (), x=y)
    state = nn.functional._history(layer, {}, y)
    apart, _ = _saved_inputs.SavedInputs().keep(layer, state, y.detach())
    if recipe == "fp32":  # the output itself
        assert memory._claim is None
        return
    offered = _saved_inputs.SAVED_INPUTS._offered[y]
    assert offered.storage == layer.backward.storages["kept"] and not memory._claim.taken
    got, shape = _saved_inputs.SAVED_INPUTS.keep(layer, nn.functional._history(layer, {}, y), y)
    assert shape == (24, 64) and memory._claim.taken
    assert all(torch.equal(a, b) for a, b in zip(got, apart, strict=True))


def test_gradients():
    """The gradients are those of exact layers up to the precision of codes."""
    torch.manual_seed(1)
    exact = torch.nn.Sequential(torch.nn.RMSNorm(64), torch.nn.Linear(64, 48),
                                torch.nn.SiLU(), torch.nn.Linear(48, 32)).bfloat16().double()
    x = batch()
    want = step(exact, x.double())
    for got, w in zip(step(model(), x), want, strict=True):
        assert (got.double() - w).norm() < 0.05 * w.norm()


def test_what_nobody_takes_is_kept_once_only(launches):
    """A norm before a different kind of layer stops saving codes for linear layers."""
    norm = nn.RMSNorm(64)
    names = []
    for _ in range(3):
        norm(batch().requires_grad_()).float().sum().backward()
        names.append(not norm._kept._unused)
    assert names == [True, False, False]


def test_without_gradients_nothing_is_kept():
    layers = model()
    with torch.no_grad():
        layers(batch())
    assert layers[0]._kept._claim is None
    step(layers, batch())
    assert not layers[0]._kept._unused and layers[0]._kept._claim.taken


def test_a_changed_output_is_kept_anew():
    memory, linear = _saved_inputs.LayerState(), nn.Linear(64, 8)
    y = nn.rms_norm(batch().float(), (64,), torch.ones(64), state=memory)
    y.mul_(3)
    linear(y).sum().backward()
    assert not memory._claim.taken
    want = y.sum((0, 1))
    assert (linear.weight.grad[0] - want).norm() < 0.06 * want.norm()


def test_linear_layers_of_another_recipe_keep_their_own():
    norm, linear = nn.RMSNorm(64, recipe="coat"), nn.Linear(64, 8, recipe="mxfp8")
    linear(norm(batch().float())).sum().backward()
    assert not norm._kept._claim.taken and linear.weight.grad is not None


def test_products_of_one_input_share_what_is_offered(launches):
    norm, products = nn.RMSNorm(64), [nn.Linear(64, 8) for _ in range(3)]
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
            lambda x: kept.append(x.data_ptr()) or x, lambda x: x):
        y = norm(batch().float())
        total = sum(product(y) for product in products)
    assert "keep" not in launches
    codes = _saved_inputs.SAVED_INPUTS._offered[y].planes[""].data_ptr()
    assert kept.count(codes) == 3
    total.sum().backward()


def test_what_is_offered_lives_as_long_as_the_output():
    norm = nn.RMSNorm(64)
    y = norm(batch().float())
    before = len(_saved_inputs.SAVED_INPUTS._offered)
    codes = weakref.ref(_saved_inputs.SAVED_INPUTS._offered[y].planes[""])
    assert codes() is not None
    del y
    assert len(_saved_inputs.SAVED_INPUTS._offered) < before
    assert codes() is None


#===------------------------------------------------------------------------===#
# Hadamard transforms
#===------------------------------------------------------------------------===#


def test_hadamard_is_the_signed_orthogonal_matrix():
    """The transform is the product with a matrix of 1/4 and -1/4, and its inverse the transpose."""
    unit = _saved_inputs.hadamard(torch.eye(16))
    assert set(unit.unique().tolist()) == {-0.25, 0.25}
    assert torch.equal(unit @ unit.T, torch.eye(16))
    x = torch.randint(-64, 65, (5, 48), generator=torch.Generator().manual_seed(0)).float()
    kept = x.clone()
    mixed = _saved_inputs.hadamard(x)
    assert torch.equal(mixed, (x.view(-1, 16) @ unit).view(5, 48))
    assert torch.equal(x, kept)  # the input is not written
    assert torch.equal(_saved_inputs.hadamard(mixed, back=True), x)
    assert _saved_inputs.hadamard(x.bfloat16()).dtype is torch.bfloat16
    # Equal numbers do not add up to one outlier.
    assert (_saved_inputs.hadamard(torch.ones(1, 16)).abs() == 1).all()


def linears(recipe, hadamard, dtype=torch.bfloat16):
    torch.manual_seed(3)
    return [nn.Linear(64, 32, recipe=recipe, hadamard=hadamard, dtype=dtype) for _ in range(3)]


def gradients(layers, x):
    for layer in layers:
        layer.zero_grad()
    x = x.clone().requires_grad_()
    sum(layer(x).float().square().sum() for layer in layers).backward()
    return [*(layer.weight.grad for layer in layers), x.grad]


@pytest.mark.parametrize("recipe", tandem.recipes())
def test_hadamard_changes_only_what_is_saved(recipe):
    """Outputs and gradients of inputs have the same bits, and gradients of weights are near those
    without transforms."""
    x = batch()
    with torch.no_grad():
        assert all(torch.equal(a(x), b(x)) for a, b in zip(linears(recipe, False),
                                                          linears(recipe, True)))
    *plain, dx = gradients(linears(recipe, False), x)
    *mixed, dx_mixed = gradients(linears(recipe, True), x)
    assert torch.equal(dx, dx_mixed)
    for one, other in zip(plain, mixed):
        assert (one - other).float().norm() < (0.4 if "4" in recipe else 0.06) * one.float().norm()
        assert recipe == "fp32" or not torch.equal(one, other)


@pytest.mark.parametrize("recipe, least", (("linear4", 1.5), ("mxfp4", 1.3)))
def test_hadamard_keeps_outliers_from_setting_scales(recipe, least):
    x = batch().float()
    x[..., 7] *= 40
    want = gradients(linears("fp32", False, torch.float32), x)[0]
    errors = [sum((gradients(linears(recipe, hadamard, torch.float32), x)[0] - want).square().sum()
                  for _ in range(8)) for hadamard in (False, True)]
    assert errors[0] > least**2 * errors[1]


def test_products_of_the_same_tensor_share_a_transform(launches):
    layers = linears("linear4", True)
    x = batch().requires_grad_()
    outputs = [layer(x) for layer in layers]
    assert launches == ["keep"]
    sum(y.float().sum() for y in outputs).backward()
    other = nn.Linear(64, 32, recipe="linear4", dtype=torch.bfloat16)
    launches.clear()
    (other(x).sum() + layers[0](x).sum()).backward()  # one with and one without a transform
    assert [name for name in launches if name == "keep"] == ["keep"] * 2


def test_hadamard_of_a_stored_tensor():
    """A norm that passes codes on is decoded first."""
    norm = nn.RMSNorm(64, recipe="coat-flow", dtype=torch.bfloat16)
    layer = nn.Linear(64, 32, recipe="linear4", hadamard=True, dtype=torch.bfloat16)
    y = norm(batch())
    layer(y).float().sum().backward()
    want = y.decode().reshape(-1, 64).float().sum(0)
    found = layer.weight.grad.float()
    assert (found - want).norm() < 0.3 * want.norm() * 32**0.5


def test_compress_activations_with_hadamard():
    layers = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.Linear(40, 32)).bfloat16()
    done = tandem.torch.compress_activations(layers, "linear4", hadamard=True)
    assert done.swapped["0"] == "Linear -> Linear, with Hadamard transforms"
    assert done.swapped["1"] == ("Linear -> Linear, whose 40 inputs Hadamard transforms of 16 do "
                                 "not divide")
    assert [layer.hadamard for layer in layers] == [True, False]
    done = tandem.torch.compress_activations(layers, "linear4")
    assert done.swapped == {"0": "Linear under linear4, bf16 products, Hadamard transforms -> "
                                 "Linear under linear4, bf16 products"}


def test_hadamard_refusals():
    with pytest.raises(ValueError, match="a linear layer of 40 inputs has hadamard=True, which mixes "
                                         "16 of them at a time; leave it out for this layer"):
        nn.Linear(40, 8, hadamard=True)
    with pytest.raises(ValueError, match="hadamard=True saves what products='fp8' do not "
                                         "multiply; leave out one of them"):
        tandem.torch.compress_activations(torch.nn.Linear(64, 8), "te-current", products="fp8",
                                          hadamard=True)


def test_hadamard_in_a_compiled_model():
    layer, x = nn.Linear(64, 32, recipe="bf16", hadamard=True), batch().float()
    layer(x).square().sum().backward()
    want, layer.weight.grad = layer.weight.grad, None
    torch.compile(layer, backend="eager")(x).square().sum().backward()
    assert torch.equal(layer.weight.grad, want)
