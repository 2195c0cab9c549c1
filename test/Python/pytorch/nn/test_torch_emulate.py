#===- test_torch_emulate.py - Masked products -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that `emulate` masks the products of linear layers as "To FP8 and
# Back Again" does, against masks by integer operations of PyTorch, and of NumPy for
# formats with f32's bias.
#
#===----------------------------------------------------------------------===#

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.nn import functional

import tandem.torch
from tandem.torch.nn._masks import Mask

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
FORMATS = ["E8M3", "E8M0", "E8M7", "E7M7", "E5M2", "E2M1", "E4M3"]


def widths(format):
    exponent, mantissa = format[1:].split("M")
    return int(exponent), int(mantissa)


def cut(x, mantissa):
    """Truncates the mantissa of x in float32 to its first bits."""
    bits = x.float().view(torch.int32)
    return (bits & -(1 << (23 - mantissa))).view(torch.float32)


def reduced(x, format, clamp="both"):
    """Applies the paper's mask: clamps magnitudes, then masks bits."""
    exponent, mantissa = widths(format)
    bias, value = (1 << (exponent - 1)) - 1, x.float()
    if clamp in ("both", "outside"):
        most = (2 - 2.0**-mantissa) * 2.0**bias
        value = torch.where(value.isfinite(), value.clamp(-most, most), value)
    if clamp in ("both", "inside") and exponent < 8:
        least = 2.0**(1 - bias)
        small = (value != 0) & (value.abs() < least)
        value = torch.where(small, torch.full_like(value, least).copysign(value), value)
    return torch.where(value.isfinite(), cut(value, mantissa), value).to(x.dtype)


def numbers(dtype):
    """Returns numbers of all magnitudes, and zeros."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(1 << 31), 1 << 31, (4096,), generator=generator)
    x = bits.to(torch.int32).view(torch.float32)
    x = torch.where(x.isfinite(), x, 1.0)
    return torch.cat([x, torch.tensor([0.0, -0.0, 1.0, -1.5])]).to(dtype).view(-1, 4)


@pytest.mark.parametrize("clamp", ("both", "inside", "outside", "none"))
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("format", FORMATS)
def test_mask(format, dtype, clamp):
    x = numbers(dtype)
    assert torch.equal(Mask(format, clamp=clamp)(x), reduced(x, format, clamp))


def kept(x, format, clamp):
    """Applies a truncating mask with f32's bias by the fields of float32's bits: the exponent's
    field keeps its low bits, and a larger one becomes all ones, with all ones in the mantissa."""
    exponent, mantissa = widths(format)
    bits = x.float().numpy().view(np.uint32)
    sign, field = bits & 0x80000000, bits >> 23 & 0xFF
    most = np.uint32(2**exponent - 1)
    low = (bits & 0x7FFFFF) >> (23 - mantissa) << (23 - mantissa)
    if exponent < 8 and clamp in ("both", "outside"):
        ones = np.uint32((2**mantissa - 1) << (23 - mantissa))
        low, field = np.where(field > most, ones, low), np.minimum(field, most)
    found = (sign | field << 23 | low).astype(np.uint32).view(np.float32)
    return torch.where(x.isfinite(), torch.from_numpy(found).to(x.dtype), x)


@pytest.mark.parametrize("clamp", ("both", "inside", "outside", "none"))
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("format", ["E7M7", "E7M3", "E6M2", "E2M1", "E8M5"])
def test_mask_with_the_bias_of_f32(format, dtype, clamp):
    x = torch.cat([numbers(dtype), torch.tensor([[1.9999, -2.0, 2.5, torch.inf]]).to(dtype)])
    masked = Mask(format, clamp=clamp, bias="kept")(x)
    assert torch.equal(masked, kept(x, format, clamp))


def test_mask_with_the_bias_of_f32_at_its_ends():
    x = torch.tensor([[1.5, 1.9999, 2.0, -1e30, 2.0**-126, 2.0**-140, torch.nan, -torch.inf]])
    masked = Mask("E7M7", "nearest", bias="kept")(x)[0]
    largest = 2 - 2.0**-7
    assert masked[:6].tolist() == [1.5, largest, largest, -largest, 2.0**-126, 0.0]
    assert masked[6].isnan() and masked[7] == -torch.inf
    assert torch.equal(Mask("E7M7", "nearest", "inside", "kept")(x)[0, :4],
                       Mask("E8M7", "nearest")(x)[0, :4])


def test_emulates_the_bias_of_f32():
    """Factors, results and gradients of 2 and more are clamped below 2."""
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(3.0)
    x = torch.full((1, 1), 1.0, requires_grad=True)
    assert str(tandem.torch.emulate(layer, "E7M7", bias="kept")) == "(the model): E7M7"
    y = layer(x)
    y.backward(torch.full((1, 1), 5.0))
    largest = 2 - 2.0**-7
    assert y.item() == largest  # 1 * largest
    assert x.grad.item() == largest and layer.weight.grad.item() == largest
    tandem.torch.emulate(layer, "E7M7")
    assert layer(x).item() == 3.0
    schedule = tandem.torch.PrecisionSchedule(
        tandem.torch.MaskSetting(layer, bias="kept"), {0: "E7M7"})
    assert layer(x).item() == largest and schedule.value == "E7M7"


def test_mask_keeps_what_is_not_finite():
    x = torch.tensor([[torch.nan, torch.inf, -torch.inf, 1.0]])
    masked = Mask("E4M3")(x)
    assert masked[0, 0].isnan() and masked[0, 1:].tolist() == [torch.inf, -torch.inf, 1.0]
    # Without mantissa bits, infinity has no separate code.
    assert Mask("E8M0")(x)[0, :3].isnan().all()


def test_mask_rounds_to_nearest():
    x = torch.tensor([[1.0625, 1.1875, -1.07, 255.9]])
    assert Mask("E8M3", "nearest")(x).tolist() == [[1.0, 1.25, -1.125, 256.0]]
    assert Mask("E8M10", "nearest")(torch.tensor([[1 + 2.0**-11 + 2.0**-20]])).item() == 1 + 2.0**-10


def test_mask_rounds_stochastically():
    torch.manual_seed(1)
    x = torch.full((1000, 64), 1.03125)  # a quarter of the way from 1 to 1.125
    masked = Mask("E8M3", "stochastic")(x)
    assert set(masked.unique().tolist()) == {1.0, 1.125}
    assert abs((masked == 1.125).double().mean() - 0.25) < 0.01
    assert not torch.equal(masked, Mask("E8M3", "stochastic")(x))


def reference(x, weight, bias, dy, forward, backward):
    """Returns the output and the gradients of x, weight and bias (figures 4 and 11)."""
    def mask(tensor, format):
        return reduced(tensor, format) if format else tensor

    y = mask(functional.linear(mask(x, forward), mask(weight, forward)), forward) + bias
    x, weight, grad = (mask(tensor, backward) for tensor in (x, weight, dy))
    rows = grad.reshape(-1, grad.shape[-1])
    dx = mask(grad @ weight, backward)
    dweight = mask(rows.T @ x.reshape(-1, x.shape[-1]), backward)
    return y, dx, dweight, dy.reshape(-1, dy.shape[-1]).sum(0)


PASSES = {"both": ({}, "E8M3", "E8M3"), "forward": ({"backward": False}, "E8M3", None),
          "backward": ({"forward": False}, None, "E8M3"),
          "apart": ({"backward": "E5M2"}, "E8M3", "E5M2")}


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("passes", PASSES.values(), ids=PASSES)
def test_products(passes, dtype):
    options, forward, backward = passes
    torch.manual_seed(2)
    layer = torch.nn.Linear(48, 40, dtype=dtype)
    x = torch.randn(3, 5, 48, dtype=dtype, requires_grad=True)
    dy = torch.randn(3, 5, 40, dtype=dtype)
    report = tandem.torch.emulate(layer, "E8M3", **options)
    assert list(report.masked) == ["(the model)"] and not report.left
    y = layer(x)
    y.backward(dy)
    wanted = reference(x.detach(), layer.weight.detach(), layer.bias.detach(), dy, forward,
                       backward)
    for found, expected in zip((y, x.grad, layer.weight.grad, layer.bias.grad), wanted):
        assert torch.equal(found, expected)


def test_same_as_the_layer_with_all_bits():
    torch.manual_seed(3)
    layer, x = torch.nn.Linear(32, 32), torch.randn(4, 32)
    plain = layer(x)
    tandem.torch.emulate(layer, "E8M23")
    assert torch.equal(layer(x), functional.linear(x, layer.weight) + layer.bias)
    tandem.torch.emulate(layer, None)
    assert torch.equal(layer(x), plain)


def model():
    torch.manual_seed(4)
    blocks = [torch.nn.Sequential(torch.nn.LayerNorm(32), torch.nn.Linear(32, 32),
                                  torch.nn.GELU(), torch.nn.Linear(32, 32)) for _ in range(3)]
    return torch.nn.ModuleDict({"layers": torch.nn.Sequential(*blocks),
                                "lm_head": torch.nn.Linear(32, 100)})


def test_takes_back_and_keeps_everything_else():
    net = model()
    before = {name: (type(module), id(module)) for name, module in net.named_modules()}
    state = {name: (id(p), p.clone()) for name, p in net.named_parameters()}
    report = tandem.torch.emulate(net, "E8M3", exclude=["lm_head"])
    assert sorted(report.masked) == sorted(f"layers.{i}.{j}" for i in range(3) for j in (1, 3))
    assert report.left == {"lm_head": "exclude has 'lm_head'"}
    assert set(report.masked.values()) == {"E8M3"}
    assert "emulation=E8M3" in repr(net) and isinstance(net["layers"][0][1], torch.nn.Linear)
    assert set(net.state_dict()) == set(state)
    assert not tandem.torch.emulate(net, None, exclude=["*"]).masked
    assert {name: (type(module), id(module)) for name, module in net.named_modules()} == before
    for name, p in net.named_parameters():
        assert id(p) == state[name][0] and torch.equal(p, state[name][1])
    assert not any("emulation" in vars(module) for module in net.modules())


def test_formats_by_layer():
    net = model()
    report = tandem.torch.emulate(net, {"layers.0.*": "E8M7", "lm_head": None, "*": "E8M3"},
                                  backward={"layers.2.3": "E5M2", "*": "E8M5"})
    assert report.masked == {
        "layers.0.1": "E8M7 forward, E8M5 backward", "layers.0.3": "E8M7 forward, E8M5 backward",
        "layers.1.1": "E8M3 forward, E8M5 backward", "layers.1.3": "E8M3 forward, E8M5 backward",
        "layers.2.1": "E8M3 forward, E8M5 backward", "layers.2.3": "E8M3 forward, E5M2 backward",
        "lm_head": "unmasked forward, E8M5 backward"}
    # A call replaces earlier masks: modules that it does not mask become unmasked.
    assert list(tandem.torch.emulate(net, {"lm_head": "E8M3"}).masked) == ["lm_head"]
    assert type(net["layers"][0][1]) is torch.nn.Linear


def test_copies_and_pickles():
    layer, x = torch.nn.Linear(16, 16), torch.randn(2, 16)
    tandem.torch.emulate(layer, "E8M2")
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), layer(x))


def test_autocast():
    layer = torch.nn.Linear(16, 16)
    tandem.torch.emulate(layer, "E8M3")
    x = torch.randn(2, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert y.dtype is torch.bfloat16
    y.sum().backward()
    assert layer.weight.grad.dtype is torch.float32 and x.grad.dtype is torch.float32
    narrow, bias = (p.detach().bfloat16() for p in (layer.weight, layer.bias))
    product = functional.linear(*(reduced(t, "E8M3") for t in (x.detach().bfloat16(), narrow)))
    assert torch.equal(y.detach(), reduced(product, "E8M3") + bias)


def test_trains_and_fewer_bits_are_worse():
    """A regression with eight exponent bits is worse with fewer mantissa bits."""
    def loss(format):
        torch.manual_seed(5)
        net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(),
                                  torch.nn.Linear(64, 1))
        if format:
            tandem.torch.emulate(net, format)
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        x = torch.randn(256, 16)
        target = x.square().sum(1, keepdim=True).sqrt()
        for _ in range(200):
            optimizer.zero_grad()
            value = functional.mse_loss(net(x), target)
            value.backward()
            optimizer.step()
        return value.item()

    exact, fine, coarse = loss(None), loss("E8M10"), loss("E8M1")
    assert fine < 1.5 * exact + 1e-3 and coarse > 3 * exact


def test_empty_batches_and_frozen_weights():
    layer = torch.nn.Linear(8, 4)
    tandem.torch.emulate(layer, "E8M3")
    assert layer(torch.empty(0, 8)).shape == (0, 4)
    layer.weight.requires_grad_(False)
    x = torch.randn(2, 8, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None and x.grad is not None
    with torch.no_grad():
        assert layer(x).grad_fn is None


def test_leaves_what_computes_more():
    class Own(torch.nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    net = torch.nn.Sequential(torch.nn.Linear(8, 8), Own(8, 8), tandem.torch.nn.Linear(8, 8))
    report = tandem.torch.emulate(net, "E8M3")
    assert list(report.masked) == ["0"] and list(report.left) == ["1", "2"]
    assert "Own may compute more" in report.left["1"] and "recipe" in report.left["2"]


REFUSED = [
    (("E9M3",), {}, "there is no float 'E9M3'; write ExMy"),
    (("E1M3",), {}, "there is no float 'E1M3'"), (("fp8",), {}, "there is no float 'fp8'"),
    (("E8M3",), {"exclude": ["head"]}, "exclude has 'head', which is not a linear layer of the "
     "model, nor a module with one; near names are 'lm_head'"),
    (({"layers.9.*": "E8M3"},), {}, "format has 'layers.9.*', which is not a linear"),
    (("E8M3",), {"backward": {"x": "E8M3"}}, "backward has 'x', which is not a linear layer"),
    (("E8M3",), {"forward": "E8M99"}, "there is no float 'E8M99'"),
    (("E8M3",), {"rounding": "up"}, "rounding is one of toward_zero, nearest, stochastic, got 'up'"),
    (("E8M3",), {"clamp": "left"}, "clamp is one of both, inside, outside, none, got 'left'"),
    (("E7M7",), {"bias": "f32"}, "bias is one of centred, kept, got 'f32'"),
    (("E9M3",), {"bias": "kept"}, "there is no float 'E9M3'; write ExMy"),
    (("fp8",), {"bias": "kept"}, "there is no float 'fp8'"),
    (("",), {}, "there is no float ''"), (({"lm_head": ""},), {}, "there is no float ''"),
    (({},), {}, "format is an empty mapping"),
    (({"*": "E8M3", "lm_head": None},), {}, "format has 'lm_head' after patterns that match all "
     "of its layers"),
    (("E8M3",), {"exclude": ["*"]}, "exclude leaves no layer"),
    ((None,), {"backward": "E8M3", "exclude": ["*"]}, "exclude leaves no layer"),
    (("E8M3",), {"forward": False, "backward": False}, "forward and backward are both False"),
]


@pytest.mark.parametrize("given, options, message", REFUSED)
def test_refuses(given, options, message):
    net = model()
    with pytest.raises(ValueError, match=f"^{message.replace('*', '[*]')}"):
        tandem.torch.emulate(net, *given, **options)
    assert not any("emulation" in vars(module) for module in net.modules())


def test_refuses_narrow_tensors_and_models_without_products():
    narrow = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="cannot hold the numbers of E8M10, it is E8M7"):
        tandem.torch.emulate(narrow, "E8M10")
    with pytest.raises(ValueError, match="bf16 cannot hold the numbers of E7M10 with f32's bias, "
                                         "it is E8M7; use a float32 model"):
        tandem.torch.emulate(narrow, "E7M10", bias="kept")
    half = torch.nn.Linear(8, 8, dtype=torch.float16)
    with pytest.raises(ValueError, match="f16 cannot hold the numbers of E4M3 with f32's bias, "
                                         "which reach down to 2.-126; use a float32"):
        tandem.torch.emulate(half, "E4M3", bias="kept")
    with pytest.raises(TypeError, match="float32, bfloat16 or float16, got torch.float64"):
        tandem.torch.emulate(torch.nn.Linear(8, 8, dtype=torch.float64), "E8M3")
    with pytest.raises(TypeError, match=r"exclude is a list of names, such as \['0'\]"):
        tandem.torch.emulate(torch.nn.Sequential(torch.nn.Linear(8, 8)), "E8M3", exclude="0")
    for exclude in (None, iter(["0"])):  # an iterator can be read only once
        with pytest.raises(TypeError, match="exclude is a list of names, such as .*, got <?[lN]"):
            tandem.torch.emulate(model(), "E8M3", exclude=exclude)
    with pytest.raises(TypeError, match="exclude has 0; names of modules are strings"):
        tandem.torch.emulate(model(), "E8M3", exclude=[0])
    for format in (8, True, {"*": 8}):
        with pytest.raises(TypeError, match="a format is a string such as 'E8M3', got (8|True)"):
            tandem.torch.emulate(model(), format)
    with pytest.raises(ValueError, match="Sequential has no torch.nn.Linear"):
        tandem.torch.emulate(torch.nn.Sequential(torch.nn.ReLU()), "E8M3")
