#===- test_torch_products.py - Products of 8-bit floats --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests linear layers with products of 8-bit floats. Libraries without a GPU replace
# CUDA's driver and cuBLASLt; the latter computes in f64 from the codes' bits.
#
#===----------------------------------------------------------------------===#

import contextlib
import ctypes

import pytest

torch = pytest.importorskip("torch")

import tandem.torch
from support import fake_gpu
from support.torch_on_gpu import TorchGPU
from tandem.torch import nn
from tandem.torch.nn import _saved_inputs, _layer, _products

_LIBRARY = fake_gpu._LIBRARY.with_name("libtandem_fake_cublaslt.so")


@pytest.fixture(scope="module")
def gpu():
    return TorchGPU()


@pytest.fixture(autouse=True)
def products(gpu, monkeypatch):
    """Returns the number of products computed since the test began."""
    monkeypatch.setenv("TANDEM_CUBLASLT", str(_LIBRARY))
    library = ctypes.CDLL(str(_LIBRARY))
    library.fake_cublaslt_violations.restype = ctypes.c_char_p
    before = library.fake_cublaslt_products()
    yield lambda: library.fake_cublaslt_products() - before
    assert library.fake_cublaslt_violations() == b""


def make(inputs=64, outputs=48, dtype=torch.bfloat16, recipe="coat", **options):
    torch.manual_seed(1)
    return nn.Linear(inputs, outputs, dtype=dtype, recipe=recipe, products="fp8", **options)


def input_of(rows=32, inputs=64, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, inputs, generator=generator).bfloat16().requires_grad_()


def step(layer, x, seed=3):
    """Returns the output and the gradients of a step."""
    y = layer(x)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed)).to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, [x, *layer.parameters()], dy)], dy


def values(x, code):
    """Returns the values of a matrix after encoding on the CPU, in f64."""
    codes, scale, _ = _products.quantize(x.detach(), code)
    kind = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}[code]
    return codes.view(kind).double() * scale.double()


def expected(layer, x, dy):
    """Returns the products of the CPU's codes, in f64, rounded once."""
    x, dy = x.detach().reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    a, b = values(x, "f8E4M3FN"), values(layer.weight, "f8E4M3FN")
    d = values(dy, "f8E5M2")
    y = a @ b.T
    if layer.bias is not None:
        y = y + layer.bias.detach().bfloat16().double()
    bias = [] if layer.bias is None else [dy.sum(0)]
    return [y, d @ b, d.T @ a, *bias]


def assert_close(got, want):
    for g, w in zip(got, want, strict=True):
        w = w.float().bfloat16().to(g.dtype).view(g.shape)
        # f64 sums in a different order may round to a neighbour.
        assert torch.allclose(g.float(), w.float(), rtol=2**-7, atol=1e-6)
        assert (g != w).float().mean() < 0.01


@pytest.mark.parametrize("bias", (True, False))
@pytest.mark.parametrize("recipe", ("coat", "te-current", "coat-fp8"))
def test_a_step(gpu, products, recipe, bias):
    layer, x = make(recipe=recipe, bias=bias), input_of()
    with gpu.holds_torch():
        got, dy = step(layer, x)
    assert products() == 3
    assert_close(got, expected(layer, x, dy))


def test_batches_and_autocast(gpu, products):
    """The weight is encoded from f32, and its gradient is f32."""
    layer = make(dtype=torch.float32)
    x = input_of(32).detach().view(2, 16, 64).requires_grad_()
    with gpu.holds_torch(), torch.autocast("cpu", torch.bfloat16):
        got, dy = step(layer, x)
    assert products() == 3 and [g.dtype for g in got] == [
        torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]
    assert_close(got, expected(layer, x, dy))


@pytest.fixture
def quantized(monkeypatch):
    """Records the shapes that kernels processed only to quantize them."""
    shapes, run = [], _layer.Pass.run

    def counted(self, shape, tensors, hypers=()):
        if self.kernel.name == "keep" and any(p.written for p in self.kernel.planes):
            shapes.append(shape)
        run(self, shape, tensors, hypers)

    monkeypatch.setattr(_layer.Pass, "run", counted)
    return shapes


@pytest.fixture
def turned(monkeypatch):
    """Records the shapes that PyTorch transposed."""
    shapes, t = [], torch.Tensor.t

    def counted(self):
        shapes.append(tuple(self.shape))
        return t(self)

    monkeypatch.setattr(torch.Tensor, "t", counted)
    return shapes


@pytest.mark.parametrize("recipe", ("coat-flow", "coat-fp8"))
def test_codes_of_layers_in_front(gpu, products, quantized, turned, recipe):
    """A product reads the codes that an activation has written, and likewise for gradients; only
    other tensors are quantized. Under coat-fp8, the same kernels write transposed codes."""
    layers = torch.nn.Sequential(make(64, 96, recipe=recipe), nn.SiLU(recipe=recipe),
                                 make(96, 48, recipe=recipe))
    x = input_of(16)
    with gpu.holds_torch():
        got, dy = step(layers, x)
    assert products() == 6
    # These are the input of the second product, its output's gradient, and the first input, which a
    # different kernel encodes.
    assert sorted(turned) == ([] if recipe == "coat-fp8" else [(16, 64), (16, 96), (16, 96)])
    # These are the first input, two weights and the last gradient.
    assert sorted(quantized) == [(16, 48), (16, 64), (48, 96), (96, 64)]
    exact = torch.nn.functional.linear(x, layers[0].weight, layers[0].bias)
    exact = torch.nn.functional.linear(torch.nn.functional.silu(exact), layers[2].weight,
                                       layers[2].bias)
    want = torch.autograd.grad(exact, [x, *layers.parameters()], dy)
    for g, w in zip(got, [exact, *want], strict=True):
        assert (g - w).float().norm() < 0.15 * w.float().norm()


def test_scales_of_earlier_steps(gpu, products):
    layer = make(recipe="te-delayed")
    with gpu.holds_torch():
        for seed in range(3):
            got, _ = step(layer, input_of(seed=seed))
    exact = torch.nn.functional.linear(input_of(seed=2), layer.weight, layer.bias)
    assert products() == 9
    assert (got[0] - exact).float().norm() < 0.05 * exact.float().norm()


def test_without_gradients(gpu, products):
    layer, x = make(), input_of()
    with gpu.holds_torch():
        with torch.no_grad():
            y = layer(x)
        assert torch.equal(y, layer(x)) and products() == 2


@pytest.fixture
def unwarned(monkeypatch):
    """Resets the process's warnings."""
    monkeypatch.setattr(_products, "_warned", set())


@pytest.mark.parametrize("rows,inputs,outputs", ((24, 64, 48), (32, 40, 48), (32, 64, 20)))
def test_sizes_that_are_pytorchs(gpu, products, unwarned, rows, inputs, outputs):
    """A single warning names the layer and the sizes."""
    layer, x = make(inputs, outputs), input_of(rows, inputs)
    layer.products = "bf16"
    want, _ = step(layer, x)
    layer.products = "fp8"
    text = (f"a linear layer of {inputs} inputs and {outputs} outputs was given "
            f"products='fp8', but multiplies in bfloat16: it has {rows} rows, {inputs} inputs "
            f"and {outputs} outputs, and on a GPU each of these has to be a multiple of 16")
    with gpu.holds_torch():
        with pytest.warns(UserWarning) as warned:
            got, _ = step(layer, x)
        assert [str(w.message) for w in warned] == [text]
        step(layer, x)
    assert products() == 0 and all(map(torch.equal, got, want))


def test_types_that_are_pytorchs(gpu, products, unwarned):
    layer = make(dtype=torch.float32)
    x = input_of().detach().float()
    with gpu.holds_torch(), pytest.warns(UserWarning, match="multiplies in float32: on a GPU "
                                         "products of 8-bit floats take tensors of bfloat16"):
        y = layer(x)
    exact = torch.nn.functional.linear(x, layer.weight, layer.bias)
    assert products() == 0 and torch.equal(y, exact)


def test_gpus_without_such_products(gpu, products, unwarned, monkeypatch):
    monkeypatch.setattr(gpu.executors[0], "target", "sm_80")
    x, weight = input_of(), make().weight
    why = "its tensors are on a GPU of sm_80, and GPUs have products of 8-bit floats from sm_89 on"
    with gpu.holds_torch():
        with pytest.warns(UserWarning, match=f"^here was given .*: {why}$"):
            assert not _products.is_served(x, weight, "here", strict=False)
        with pytest.raises(ValueError, match=f"^here .*: {why}; change that"):
            _products.is_served(x, weight, "here", strict=True)


def test_each_layer_of_a_model_is_named(gpu, unwarned, recwarn):
    model = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.Linear(40, 64)).bfloat16()
    tandem.torch.compress_activations(model, "te-current", products="fp8")
    with gpu.holds_torch():
        model(input_of())
        model(input_of())
    assert [str(w.message).split(" was")[0] for w in recwarn] == ["0", "1"]


def test_strict_layers(gpu, products, recwarn):
    layer = make(64, 40, strict=True)
    with gpu.holds_torch(), pytest.raises(ValueError, match="40 outputs, and on a GPU each of "
                                          "these .*; change that, or leave strict=True out"):
        layer(input_of())
    model = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.SiLU()).bfloat16()
    tandem.torch.compress_activations(model, "te-current", products="fp8", strict=True)
    with gpu.holds_torch(), pytest.raises(ValueError, match="^0 was given products='fp8'"):
        model(input_of())
    layer(input_of())  # CPUs support such products
    with gpu.holds_torch():
        assert layer(input_of(0)).shape == (0, 40)  # empty products are all the same
    assert products() == 0 and not recwarn.list


@pytest.mark.parametrize("recipe", ("coat", "coat-fp8", "te-current"))
def test_recomputed_products(gpu, products, recipe):
    """Gated blocks multiply codes, too, with the CPU's bits."""
    results, inputs = [], [input_of(32, 64, seed).detach() for seed in (1, 2)]
    for holds in (gpu.holds_torch, contextlib.nullcontext):
        gate, up = (x.clone().requires_grad_() for x in inputs)
        weight = make(bias=False).weight
        with holds():
            y = nn.gated_linear("swiglu", gate, up, weight, recipe=recipe, products="fp8")
            grads = torch.autograd.grad(y.float().square().sum(), (gate, up, weight))
        results.append([y.detach(), *grads])
    assert products() == 3
    for on_gpu, on_cpu in zip(*results, strict=True):
        assert torch.allclose(on_gpu.float(), on_cpu.float(), rtol=2**-7, atol=1e-3)
        assert (on_gpu != on_cpu).float().mean() < 0.01


def test_weights_are_coded_once(gpu, monkeypatch):
    coded = []

    def quantize(x, code, copy):
        coded.append(code)
        return plain(x, code, copy)

    plain = _products.quantize
    monkeypatch.setattr(_products, "quantize", quantize)
    layer, x = make(), input_of()
    with gpu.holds_torch():
        first = layer(x)
        layer(x)
        assert coded == ["f8E4M3FN"]
        with torch.no_grad():
            layer.weight.mul_(2)
        assert not torch.equal(layer(x), first)
    assert coded == 2 * ["f8E4M3FN"]


@pytest.mark.parametrize("recipe", ("coat", "coat-fp8"))
def test_one_input_is_kept_once(gpu, quantized, recipe):
    layers, x = [make(recipe=recipe) for _ in range(3)], input_of()
    with gpu.holds_torch():
        ys = [layer(x) for layer in layers]
        saved = [[s for s in y.grad_fn.saved_tensors if s is not None] for y in ys]
    assert len({s[0].data_ptr() for s in saved}) == 1
    assert quantized.count((32, 64)) == 1


def saved_by(y):
    """Returns what a tensor's graph saves; PyTorch 2.4 frees it together with the tensor."""
    return y.grad_fn.saved_tensors


def test_only_what_is_multiplied_is_kept(gpu):
    """Saved are the transposed codes of x and of the weight, and nothing for gradients that are
    not required."""
    layer, x = make(recipe="coat-fp8", bias=False), input_of()
    with gpu.holds_torch():
        rows, scale, turned, weight, _ = saved_by(layer(x))
        assert rows is None and turned.shape == (64, 32) and weight.shape == (64, 48)
        plain = _products.quantize(x.detach(), "f8E4M3FN")
        assert torch.equal(turned.t(), plain.rows) and torch.equal(scale, plain.scale)
        saved = saved_by(layer(x.detach()))
        assert [s is None for s in saved] == [True, False, False, True, True]
        layer.weight.requires_grad_(False)
        saved = saved_by(layer(x))
        assert [s is None for s in saved] == [True, True, True, False, False]


def test_codes_do_not_outlive_their_tensor(gpu):
    """Codes in rows are kept only for other products of the same input."""
    layer, x = make(recipe="coat-fp8"), input_of()
    with gpu.holds_torch():
        y = layer(x)
        waiting = _saved_inputs.SAVED_INPUTS._last.kept[3]
        assert len(waiting) == 1
        del x, y
    assert not waiting


def test_a_graph(gpu, products, monkeypatch):
    """A graph encodes its weights, with the values that they have when it runs."""
    kept, plain, empty = [], _layer.Pass.allocate, torch.empty

    def allocate(step, *given):
        kept.append(plain(step, *given))
        return kept[-1]

    def keep_empty(*given, **options):
        kept.append(empty(*given, **options))
        return kept[-1]

    monkeypatch.setattr(_layer.Pass, "allocate", allocate)
    layer, x = make(bias=False), input_of()
    with gpu.holds_torch(), torch.no_grad():
        layer(x)
        monkeypatch.setattr(torch, "empty", keep_empty)
        with gpu.captures() as graph:
            y = layer(x)
        monkeypatch.setattr(torch, "empty", empty)
        layer.weight.mul_(3)
        x.copy_(input_of(seed=9))
        graph.replay()
        assert torch.equal(y, layer(x))


@pytest.mark.parametrize("recipe", ("coat", "coat-fp8"))
def test_models(gpu, products, quantized, turned, recipe):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.RMSNorm(64), torch.nn.Linear(64, 32)).bfloat16()
    tandem.torch.compress_activations(model, recipe, products="fp8")
    with gpu.holds_torch():
        model(input_of()).float().sum().backward()
    assert products() == 3 and all(p.grad is not None for p in model.parameters())
    # These are the weight and the gradient; the norm has already quantized its output.
    assert quantized == [(32, 64), (32, 32)]
    assert turned == ([] if recipe == "coat-fp8" else [(32, 64)])


def test_refusals(gpu, monkeypatch):
    x = input_of()
    with pytest.raises(ValueError, match="products is 'bf16' or 'fp8', got 'fp4'"):
        nn.linear(x, make().weight, products="fp4")
    with pytest.raises(ValueError, match="products is 'bf16' or 'fp8', got 'fp4'"):
        nn.Linear(64, 48, products="fp4")
    for recipe in ("bf16", "mxfp8", "block-128"):
        with pytest.raises(ValueError, match="takes a recipe that keeps inputs of linear"):
            make(recipe=recipe)(x)
    with pytest.raises(ValueError, match="'te-delayed' makes scales of earlier steps, and a "
                       "gated block with recompute=True"):
        nn.gated_linear("swiglu", x, x, make().weight, recipe="te-delayed", state={},
                        products="fp8")
    monkeypatch.setenv("TANDEM_CUBLASLT", "/nowhere/libcublasLt.so")
    _products._product.cache_clear()
    with gpu.holds_torch(), pytest.raises(RuntimeError, match="there is no cuBLASLt: "):
        make()(x)
