#===- test_torch_weight_operands.py - Operands that steps write -*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests `write_operands`: training has the bits that it has without it, layers encode no
# weight, and other changes to weights are found out.
#
#===----------------------------------------------------------------------===#

import copy
import io

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.torch_bits import bits
from support.torch_on_gpu import TorchGPU
from tandem._matrix_codes import storage_of
from tandem.torch._weight_codes import Codes
from tandem.torch.nn import _products
from tandem.torch.nn._products import quantize

WIDTH, HIDDEN = 48, 96
STRATEGIES = ("fp32", "flash-f16", "dither-softsign-root", "fp8-lm", "coat", "collage-plus",
              "coded-ratio4", "remainder")


@pytest.fixture(scope="module")
def gpu():
    return TorchGPU(1)


def model_of(dtype=torch.bfloat16, products="fp8"):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, HIDDEN), torch.nn.GELU(),
                                torch.nn.Linear(HIDDEN, WIDTH, bias=False)).to(dtype)
    return tt.compress_activations(model, recipe="te-current", products=products) and model


def optimizer_of(model, strategy="flash-f16", cls=tt.AdamW, **options):
    return cls(model.named_parameters(), lr=1e-2, strategy=strategy, **options)


def step(model, optimizer, seed):
    x = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(seed))
    x = x.to(next(model.parameters()).dtype)
    loss = (model(x).float() - x.float()).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


class Encoded:
    """Counts the weights that layers encode in a context."""

    def __init__(self, monkeypatch, model):
        self.count = 0
        weights = {id(p) for p in model.parameters()}

        def counting(x, *rest, **options):
            self.count += id(x) in weights
            return quantize(x, *rest, **options)

        monkeypatch.setattr(_products, "quantize", counting)


def weights_of(model):
    return [p for p in model.parameters() if p.dim() == 2]


def assert_codes(operands, model):
    """Checks that the operands are what a layer would make of the weights."""
    for weight in weights_of(model):
        want, got = quantize(weight.detach().clone(), "f8E4M3FN"), operands[weight]
        assert torch.equal(got.rows.view(torch.uint8), want.rows.view(torch.uint8))
        assert torch.equal(got.scale, want.scale)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_same_bits_without_encoding(strategy, monkeypatch):
    dtype = torch.float32 if strategy == "fp32" else torch.bfloat16
    plain, model = model_of(dtype), model_of(dtype)
    other, optimizer = optimizer_of(plain, strategy), optimizer_of(model, strategy)
    operands = tt.write_operands(model, optimizer)
    assert operands.names == ["0.weight", "2.weight"] and not operands.left
    want = [step(plain, other, seed) for seed in range(4)]
    encoded = Encoded(monkeypatch, model)
    assert [step(model, optimizer, seed) for seed in range(4)] == want
    assert encoded.count == 2  # in the first pass, before any step
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters()))
    assert_codes(operands, model)


@pytest.mark.parametrize("level", ("O1", "O2"))
def test_levels_of_fp8_lm(level, monkeypatch):
    """The optimizers of `fp8_lm` write the operands of the layers that it converts."""
    models = [torch.nn.Sequential(torch.nn.Linear(WIDTH, HIDDEN), torch.nn.GELU(),
                                  torch.nn.Linear(HIDDEN, WIDTH)).bfloat16() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    plain, optimizer = (tt.fp8_lm(model, level, lr=1e-2) for model in models)
    operands = tt.write_operands(models[1], optimizer)
    want = [step(models[0], plain, seed) for seed in range(3)]
    encoded = Encoded(monkeypatch, models[1])
    assert [step(models[1], optimizer, seed) for seed in range(3)] == want
    assert encoded.count == 2 and not operands.left
    assert_codes(operands, models[1])


@pytest.mark.parametrize("cls, options", (
    (tt.Lion, {}), (tt.SGD, {"momentum": 0.9}), (tt.LAMB, {}), (tt.AdEMAMix, {}),
    (tt.Muon, {"adamw_lr": 1e-3}), (tt.AdamW, {"ema_decay": 0.9}),
    (tt.AdamW, {"gradient_release": True}), (tt.AdamW, {"grad_accumulation": "f32"}),
    (tt.AdamW, {"metrics": True}), (tt.AdamW, {"skip_nonfinite": True})))
def test_optimizers(cls, options, monkeypatch):
    plain, model = model_of(), model_of()
    other = optimizer_of(plain, "flash-f16", cls, **options)
    optimizer = optimizer_of(model, "flash-f16", cls, **options)
    operands = tt.write_operands(model, optimizer)
    want = [step(plain, other, seed) for seed in range(3)]
    encoded = Encoded(monkeypatch, model)
    assert [step(model, optimizer, seed) for seed in range(3)] == want
    assert encoded.count == 2
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters()))
    assert_codes(operands, model)


def test_other_changes_are_found(monkeypatch):
    """Layers encode a weight that was written in other ways, and the next step writes codes."""
    model = model_of()
    optimizer = optimizer_of(model)
    operands = tt.write_operands(model, optimizer)
    step(model, optimizer, 0)
    with torch.no_grad():
        model[0].weight.mul_(0.5)
    with pytest.raises(RuntimeError, match="no step has written the operand of this weight since"):
        operands[model[0].weight]
    encoded = Encoded(monkeypatch, model)
    plain = model_of()
    plain.load_state_dict(model.state_dict())
    x = torch.randn(8, WIDTH).bfloat16()
    assert torch.equal(model(x), plain(x))
    assert encoded.count == 1
    step(model, optimizer, 1)
    assert_codes(operands, model)


def test_a_skipped_step_keeps_nothing(monkeypatch):
    model = model_of()
    optimizer = optimizer_of(model, skip_nonfinite=True)
    operands = tt.write_operands(model, optimizer)
    step(model, optimizer, 0)
    model(torch.randn(8, WIDTH).bfloat16()).sum().backward()
    model[0].weight.grad[0, 0] = torch.nan
    optimizer.step()
    assert optimizer.skipped
    with pytest.raises(RuntimeError, match="take a step first"):
        operands[model[0].weight]
    optimizer.zero_grad()
    step(model, optimizer, 1)
    assert_codes(operands, model)


def test_a_graph_notices_new_codes():
    """A backward pass after a step would multiply codes of another weight, and raises an error."""
    model = model_of()
    optimizer = optimizer_of(model)
    tt.write_operands(model, optimizer)
    step(model, optimizer, 0)
    loss = model(torch.randn(8, WIDTH).bfloat16()).sum()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_recipes_as_operands():
    """Codes for other products, in the forms of recipes: MXFP8 has a scale for 32 elements."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False)).bfloat16()
    optimizer = optimizer_of(model)
    operands = tt.write_operands(model, optimizer, "mxfp8")
    model[0].weight.grad = torch.randn(32, 64).bfloat16()
    optimizer.step()
    codes = operands[model[0].weight]
    assert codes.rows.dtype == torch.float8_e4m3fn and codes.rows.shape == (32, 64)
    assert codes.scale.dtype == torch.float8_e8m0fnu and codes.scale.shape == (32, 2)
    values = codes.rows.float().view(32, 2, 32) * codes.scale.float()[..., None]
    weight = model[0].weight.detach().float()
    assert torch.allclose(values.view(32, 64), weight, rtol=0.13, atol=1e-3)
    assert operands.bytes == 32 * 64 + 64
    tiled, scale = codes.tiled_scale, codes.scale.view(torch.uint8)
    assert tiled.dtype == codes.scale.dtype and tiled.shape == (512,)
    tiled = tiled.view(torch.uint8)
    for row in range(32):
        for column in range(2):
            assert tiled[16 * (row % 32) + 4 * (row // 32) + column] == scale[row, column]
    assert tiled.count_nonzero() == scale.count_nonzero() == 64


#: E2M1's numbers by their codes.
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = torch.cat((E2M1, -E2M1))


def four_bits(weight, codes):
    """Returns the numbers of codes of four bits, without scales, the first of a byte in its low
    half."""
    rows = codes.rows
    assert rows.dtype == torch.uint8 and rows.shape == (weight.shape[0], weight.shape[1] // 2)
    return E2M1[torch.stack((rows & 15, rows >> 4), -1).view(weight.shape).long()]


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16", "dither-softsign-root", "collage-plus"))
def test_nvfp4(strategy):
    """NVFP4's two levels of scales are made as Transformer Engine makes them, and codes rounded to
    nearest, although the recipe for activations dithers."""
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(256, 32, bias=False)).to(
        torch.float32 if strategy == "fp32" else torch.bfloat16)
    optimizer = optimizer_of(model, strategy)
    operands, weight = tt.write_operands(model, optimizer, "nvfp4"), model[0].weight
    for seed in range(3):
        weight.grad = torch.randn(32, 256, generator=torch.Generator().manual_seed(seed)).to(
            weight.dtype)
        optimizer.step()
    codes, w = operands[weight], weight.detach().float()
    assert codes.scale.dtype == torch.float8_e4m3fn and codes.scale.shape == (32, 16)
    encode = 448 * 6 / w.abs().max().item()
    assert codes.tensor_scale.item() == pytest.approx(1 / encode, rel=1e-6)
    exact = w.view(32, 16, 16).abs().amax(-1).double() * (encode / 6)
    unit = torch.exp2(exact.log2().floor() - 3)  # of the last place of E4M3
    assert ((codes.scale.double() - exact).abs() <= unit * (0.5 + 1e-5)).all()
    scales = (codes.scale.float() * codes.tensor_scale).repeat_interleave(16, 1)
    distances = (w.double() / scales)[..., None] - E2M1
    lost = (w.double() / scales - four_bits(weight, codes)).abs()
    assert (lost <= distances.abs().amin(-1) + 1e-5).all()
    assert operands.bytes == 32 * 128 + 32 * 16 + 4
    assert codes.tiled_scale.view(torch.uint8).count_nonzero() == 32 * 16


def test_mxfp4_on_a_gpu(gpu):
    """A GPU has the CPU's codes of four bits, and training keeps its bits."""
    def trained(recipe):
        model = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False)).bfloat16()
        torch.nn.init.constant_(model[0].weight, 0.03)
        optimizer = optimizer_of(model)
        operands = tt.write_operands(model, optimizer, recipe) if recipe else None
        for seed in range(2):
            model[0].weight.grad = torch.randn(32, 64, generator=torch.Generator().manual_seed(
                seed)).bfloat16()
            optimizer.step()
        return model[0].weight.detach(), operands and operands[model[0].weight]

    plain, _ = trained(None)
    for recipe in ("mxfp4", "nvfp4"):
        weight, codes = trained(recipe)
        with gpu.holds_torch():
            other, found = trained(recipe)
        assert torch.equal(plain, weight) and torch.equal(weight, other)
        assert torch.equal(codes.rows, found.rows)
        assert torch.equal(codes.scale.view(torch.uint8), found.scale.view(torch.uint8))
        if recipe == "nvfp4":
            assert torch.equal(codes.tensor_scale, found.tensor_scale)
    numbers = four_bits(weight, codes) * codes.scale.float().repeat_interleave(16, 1)
    assert (numbers * codes.tensor_scale - weight.float()).abs().max() < 0.2 * weight.abs().max()


def test_layers_multiply_no_other_codes():
    """Codes of another recipe are for the user only: layers make their own E4M3 codes."""
    plain, model = model_of(), model_of()
    other, optimizer = optimizer_of(plain), optimizer_of(model)
    operands = tt.write_operands(model, optimizer, "mxfp8")
    want = [step(plain, other, seed) for seed in range(3)]
    assert [step(model, optimizer, seed) for seed in range(3)] == want
    model(torch.randn(8, WIDTH).bfloat16())
    assert operands[model[0].weight].scale.shape == (HIDDEN, 2)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters()))


def test_tiles_of_scales():
    """Element (i, j) of a tile of 128 by 4 is at 16 (i mod 32) + 4 (i // 32) + j, as cuBLAS's manual
    says; tiles of a row are next to each other."""
    scale = torch.arange(300 * 7, dtype=torch.int32).remainder(251).to(torch.uint8).view(300, 7)
    tiled = Codes(None, scale).tiled_scale
    assert tiled.shape == (3 * 2 * 512,)
    row, column = torch.meshgrid(torch.arange(300), torch.arange(7), indexing="ij")
    tile = row // 128 * 2 + column // 4
    at = 512 * tile + 16 * (row % 32) + 4 * (row % 128 // 32) + column % 4
    assert torch.equal(tiled[at], scale)


def test_torch_multiplies_the_codes():
    """torch._scaled_mm takes rows and scale as they are."""
    model = model_of()
    optimizer = optimizer_of(model)
    operands = tt.write_operands(model, optimizer)
    step(model, optimizer, 0)
    x = quantize(torch.randn(32, WIDTH).bfloat16(), "f8E4M3FN")
    w = operands[model[0].weight]
    y = torch._scaled_mm(x.rows.view(w.rows.dtype), w.rows.t(), scale_a=x.scale, scale_b=w.scale,
                         out_dtype=torch.bfloat16)
    want = (x.rows.view(w.rows.dtype).float() * x.scale) @ (w.rows.float() * w.scale).t()
    assert torch.allclose(y.float(), want, rtol=0.02, atol=0.02)


def test_checkpoints_have_no_operands():
    """State dicts, pickles and copies are as without operands, which they do not contain."""
    model = model_of()
    optimizer = optimizer_of(model)
    before = {n: set(s) for n, s in enumerate(_after_a_step(model, optimizer))}
    tt.write_operands(model, optimizer)
    assert {n: set(s) for n, s in enumerate(_after_a_step(model, optimizer))} == before
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.load(file, weights_only=False)[0].weight._tandem_codes.codes is None
    copied = copy.deepcopy(model)
    assert copied[0].weight is not model[0].weight
    x = torch.randn(8, WIDTH).bfloat16()
    assert torch.equal(copied(x), model(x))
    resumed = model_of()
    resumed.load_state_dict(model.state_dict())
    other = optimizer_of(resumed)
    tt.write_operands(resumed, other)
    other.load_state_dict(optimizer.state_dict())
    assert step(resumed, other, 5) == step(model, optimizer, 5)
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), model.parameters()))


def _after_a_step(model, optimizer):
    step(model, optimizer, 0)
    return list(optimizer.state_dict()["state"].values())


def test_memory_and_removal(monkeypatch):
    model = model_of()
    optimizer = optimizer_of(model)
    operands = tt.write_operands(model, optimizer)
    step(model, optimizer, 0)
    assert len(operands) == 2 and model[0].weight in operands and [*operands] == weights_of(model)
    assert operands.bytes == 2 * (WIDTH * HIDDEN + 4)
    assert optimizer.live_bytes()["working"] == operands.bytes
    with pytest.raises(ValueError, match="0.weight has an operand already"):
        tt.write_operands(model, optimizer)
    operands.remove()
    assert optimizer.live_bytes()["working"] == 0 and operands.bytes == 0
    encoded = Encoded(monkeypatch, model)
    step(model, optimizer, 1)
    assert encoded.count == 2
    assert tt.write_operands(model, optimizer).names == operands.names


def test_weights_that_are_left():
    model = model_of()
    model[2].weight.requires_grad_(False)
    optimizer = optimizer_of(model)
    with pytest.warns(UserWarning, match="1 of 2 weights have no operand: 2.weight is frozen"):
        assert tt.write_operands(model, optimizer).left.keys() == {"2.weight"}
    narrow = torch.nn.Linear(16, 512, bias=False).bfloat16()
    other = optimizer_of(narrow)
    with pytest.raises(ValueError, match="weight has rows of 16 elements, which are shorter than a "
                                         "group"):
        tt.write_operands(narrow, other, "mxfp8")
    conv = torch.nn.Conv1d(16, 16, 3).bfloat16()
    with pytest.raises(ValueError, match=r"0 has the shape \(16, 16, 3\), and operands are matrices"):
        tt.write_operands([conv.weight], optimizer_of(conv))


def test_refusals():
    model = model_of()
    optimizer = optimizer_of(model)
    with pytest.raises(TypeError, match="SGD is no optimizer of tandem.torch"):
        tt.write_operands(model, torch.optim.SGD(model.parameters()))
    with pytest.raises(ValueError, match="adamw_clip sums over all parameters"):
        tt.write_operands(model, optimizer_of(model, max_norm=1.0))
    with pytest.raises(ValueError, match=r"no layer with products of 8-bit floats; call .*"
                                         r"compress_activations\(model, products='fp8'\)"):
        tt.write_operands(model_of(products="bf16"), optimizer)
    with pytest.raises(ValueError, match="0.weight is no parameter of the optimizer"):
        tt.write_operands(model_of(), optimizer)
    with pytest.raises(ValueError, match="unknown recipe 'mxfp'"):
        tt.write_operands(model, optimizer, "mxfp")
    for recipe in ("te-delayed", "bf16"):
        with pytest.raises(ValueError, match=f"recipe '{recipe}' does not keep inputs of linear "
                                             "layers as codes and scales of the same step"):
            tt.write_operands(model, optimizer, recipe)
    odd = torch.nn.Linear(33, 4, bias=False).bfloat16()
    with pytest.raises(ValueError, match="weight has rows of 33 elements, an odd number, so that a "
                                         "byte would hold codes of two rows; pad the layer"):
        tt.write_operands(odd, optimizer_of(odd), "nvfp4")
    with pytest.raises(KeyError, match="none of the weights that have operands: 0.weight"):
        tt.write_operands(model, optimizer)[torch.zeros(1)]


@pytest.mark.parametrize("strategy", ("flash-f16", "fp8-lm", "collage-plus"))
def test_on_a_gpu(strategy, gpu):
    """A GPU has the CPU's codes, and a transposed copy of them."""
    def trained():
        model = model_of()
        optimizer = optimizer_of(model, strategy)
        operands = tt.write_operands(model, optimizer)
        for seed in range(2):
            for index, p in enumerate(model.parameters()):
                p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(
                    10 * seed + index)).to(p.dtype)
            optimizer.step()
        return [(p.detach(), operands[p]) for p in weights_of(model)]

    want = trained()
    with gpu.holds_torch():
        got = trained()
    for (weight, codes), (other, wanted) in zip(got, want):
        assert (bits(weight) == bits(other)).all()
        assert torch.equal(codes.rows.view(torch.uint8), wanted.rows.view(torch.uint8))
        assert torch.equal(codes.scale, wanted.scale)
        assert torch.equal(codes.turned.view(torch.uint8), codes.rows.view(torch.uint8).t())
    assert storage_of("f8E4M3FN", True) != storage_of("f8E4M3FN")


def test_a_captured_step_that_is_skipped(gpu):
    """The codes stay those of the weight if only the GPU knows that a step is skipped."""
    with gpu.holds_torch():
        model = model_of()
        optimizer = optimizer_of(model, capturable=True, skip_nonfinite=True)
        operands = tt.write_operands(model, optimizer)
        for p in model.parameters():
            p.grad = torch.full_like(p, torch.nan)
        optimizer.step()
        assert optimizer.skipped
        for weight in weights_of(model):
            want, got = quantize(weight.detach().clone(), "f8E4M3FN", True), operands[weight]
            for wanted, plane in ((want.rows, got.rows), (want.turned, got.turned)):
                assert torch.equal(plane.view(torch.uint8), wanted.view(torch.uint8))
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        optimizer.step()
        with gpu.captures() as graph:
            optimizer.step()
        graph.replay()
        for weight in weights_of(model):
            want = quantize(weight.detach().clone(), "f8E4M3FN")
            assert torch.equal(operands[weight].rows.view(torch.uint8),
                               want.rows.view(torch.uint8))
