#===- test_torch_flow.py - Stored tensors between layers -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests recipes that store the tensors passed between layers.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch
from tandem.torch import StoredTensor, nn
from tandem.torch.nn import _saved_inputs
from torch.utils.checkpoint import checkpoint

E4M3 = "#tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>"
E5M2 = "#tandem.scaled<#scaled.float<f8E5M2>, group = tensor, scale = f32>"
GROUPS = "#tandem.scaled<#scaled.float<f8E4M3FN>, group = 16, scale = bf16>"


def relative(got, want):
    return float((got.detach().double() - want.detach().double()).norm() / want.detach().double().norm())


def recipe_file(tmp_path, name, *rules):
    """Writes a recipe with these rules, and plain storages for everything else."""
    plain = ("saved per(row) = #tandem.float<f32>", "input per(row) = #tandem.float<f32>",
             f"saved = {GROUPS}")
    body = "".join(f"  tandem.assign {rule}\n" for rule in (*rules, *plain))
    (tmp_path / f"{name}.mlir").write_text(
        f"tandem.strategy @{name} compute(<f32, f32>) {{\n{body}}}\n")
    return {"recipe": name, "path": (tmp_path,)}


def normed(recipe="coat-flow", shape=(2, 6, 64), **options):
    torch.manual_seed(1)
    x = torch.randn(shape, requires_grad=True)
    weight = torch.linspace(0.5, 1.5, shape[-1]).requires_grad_()
    return x, weight, nn.rms_norm(x * 1, weight.shape, weight, 1e-6, recipe=recipe, **options)


def test_what_goes_into_linear_layers_is_stored():
    x, weight, y = normed()
    assert isinstance(y, StoredTensor) and y.storage == E4M3
    assert y.shape == x.shape and y.dtype is torch.float32 and y.requires_grad
    assert {name: plane.dtype for name, plane in y.planes.items()} == {
        "": torch.uint8, ".scale": torch.float32}
    exact = torch.nn.functional.rms_norm(x, (64,), weight, 1e-6)
    assert 0 < relative(y.decode(), exact.detach()) < 0.04


def test_codes_are_those_that_keeping_makes():
    """The flow rounds y once; saving y of a plain norm gives the same codes."""
    _, _, y = normed()
    _, _, plain = normed("coat")
    layer = nn.functional._layer("keep", "coat", (), x=plain)
    kept, _ = _saved_inputs.SavedInputs().keep(
        layer, nn.functional._history(layer, None, plain), plain.detach())
    assert all(torch.equal(a, b) for a, b in zip(y.planes.values(), kept, strict=True))


def kept_bytes(function):
    """Returns the bytes that autograd saves while a function runs, and its result."""
    kept = {}

    def pack(x):
        kept[x.data_ptr()] = x.numel() * x.element_size()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result = function()
    return sum(kept.values()), result


def test_linear_layers_keep_the_codes_they_get():
    _, _, y = normed()
    layers = [nn.Linear(64, 32, bias=False, recipe="coat-flow") for _ in range(3)]
    count, products = kept_bytes(lambda: [layer(y) for layer in layers])
    codes = y.planes[""].numel() + 4
    assert count == codes + 3 * layers[0].weight.numel() * 4
    for layer, product in zip(layers, products, strict=True):
        assert torch.equal(product, torch.nn.functional.linear(y.decode(), layer.weight))


def test_gradients_go_back_in_e5m2():
    seen = []
    torch.manual_seed(2)
    x = torch.randn(12, 64, requires_grad=True)
    first, second = (nn.Linear(64, 64, recipe="coat-flow") for _ in range(2))
    h = first(x)
    h.register_hook(seen.append)
    second(nn.silu(h, recipe="coat-flow")).square().mean().backward()
    assert isinstance(seen[0], StoredTensor) and seen[0].storage == E5M2
    exact = torch.nn.functional.silu(torch.nn.functional.linear(x, first.weight, first.bias))
    exact = torch.nn.functional.linear(exact, second.weight, second.bias).square().mean()
    want = torch.autograd.grad(exact, (x, first.weight, second.weight, first.bias))
    got = x.grad, first.weight.grad, second.weight.grad, first.bias.grad
    assert all(type(g) is torch.Tensor and relative(g, w) < 0.15
               for g, w in zip(got, want, strict=True))


def test_gradients_of_leaves_are_plain():
    gate, up = (torch.randn(3, 32, requires_grad=True) for _ in range(2))
    nn.swiglu(gate, up, recipe="coat-flow").sum().backward()
    assert type(gate.grad) is torch.Tensor and type(up.grad) is torch.Tensor
    want = torch.autograd.grad((torch.nn.functional.silu(gate) * up).sum(), (gate, up))
    assert relative(gate.grad, want[0]) < 0.04 and relative(up.grad, want[1]) < 0.04


def test_everything_else_gets_values():
    _, _, y = normed()
    values = y.decode()
    assert type(y + 1) is torch.Tensor and torch.equal(y + 1, values + 1)
    assert torch.equal(y.transpose(0, 1).contiguous(), values.transpose(0, 1))
    assert torch.equal(torch.cat([y, y]), torch.cat([values, values]))
    assert torch.equal(y.to(torch.bfloat16), values.to(torch.bfloat16))
    assert "tensor(" in repr(y) and E4M3 in repr(y)


def test_memory_has_values():
    _, _, y = normed()
    values = y.decode().numpy()
    for read in (np.from_dlpack, np.asarray, lambda x: x.numpy(), torch.from_dlpack):
        assert np.array_equal(read(y.detach()), values)
        with pytest.raises((RuntimeError, BufferError), match="grad"):
            read(y)
    assert np.array_equal(y.numpy(force=True), values) and y.tolist() == values.tolist()


def test_views_of_whole_rows_stay_stored():
    _, _, y = normed()
    for view in (y.view(12, 64), y.reshape(-1, 64), y.view(2, 3, 2, 64), y.detach()):
        assert isinstance(view, StoredTensor) and view.planes[""] is y.planes[""]
        assert torch.equal(view.decode().flatten(), y.decode().flatten())
    other = y.view(12, 8, 8)
    assert type(other) is torch.Tensor and other.shape == (12, 8, 8)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        y.view(5, 64)


def test_writing_is_refused():
    _, _, y = normed()
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"write into x\.decode"):
        y.add_(1)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"write into x\.decode"):
        torch.add(y, 1, out=y)


def test_a_residual_stream_that_is_stored(tmp_path):
    """The next norm reads the stored output of a norm, and saves no other copy."""
    options = recipe_file(tmp_path, "stream", f"output consumer(nonlinear) = {GROUPS}",
                          "output per(column) = #tandem.float<f32>")
    torch.manual_seed(3)
    x, residual = (torch.randn(5, 48, requires_grad=True) for _ in range(2))
    weight = torch.ones(48)
    h, y = nn.add_rms_norm(x * 1, residual * 1, (48,), weight, 1e-6, **options)
    assert isinstance(h, StoredTensor) and h.storage == GROUPS and type(y) is torch.Tensor
    count, (again, z) = kept_bytes(
        lambda: nn.add_rms_norm(h, torch.zeros(5, 48), (48,), weight, 1e-6, **options))
    # These are codes and scales of the new stream, inverse norms, and weights.
    assert count == 5 * 48 + 5 * 3 * 2 + 5 * 4 + 48 * 4
    (z.square().sum() + y.sum() + again.sum()).backward()
    stream = (x + residual)
    want = (torch.nn.functional.rms_norm(stream, (48,), weight, 1e-6).square().sum()
            + torch.nn.functional.rms_norm(stream, (48,), weight, 1e-6).sum() + stream.sum())
    want = torch.autograd.grad(want, (x, residual))
    assert relative(x.grad, want[0]) < 0.1 and relative(residual.grad, want[1]) < 0.1


def test_transposed_copies():
    """Layers and PyTorch's products read only the rows; the copies are the only addition."""
    results = []
    for recipe in ("coat-flow", "coat-fp8"):
        torch.manual_seed(7)
        x, first, second = torch.randn(9, 64, requires_grad=True), nn.Linear(
            64, 48, recipe=recipe), nn.Linear(48, 17, recipe=recipe)
        y = nn.rms_norm(x * 1, (64,), torch.ones(64), 1e-6, recipe=recipe)
        h = first(y)
        seen = []
        h.register_hook(seen.append)
        z = second(nn.silu(h, recipe=recipe))
        again = nn.rms_norm(y, (64,), torch.ones(64), 1e-6, recipe="coat")
        (z.square().sum() + again.sum()).backward()
        results.append([y.decode(), z, seen[0].decode(), x.grad, first.weight.grad,
                        second.weight.grad, again])
    assert all(map(torch.equal, *results))
    assert y.storage == f"{E4M3[:-1]}, transposed = true>"
    assert seen[0].storage == f"{E5M2[:-1]}, transposed = true>"
    for stored, columns in ((y, 64), (y.view(3, 3, 64), 64), (seen[0], 48)):
        codes, turned = stored.planes[""].view(9, columns), stored.planes[".transposed"]
        assert torch.equal(turned.view(columns, 9), codes.t())


def test_linear_layers_keep_codes_in_rows_for_pytorchs_products():
    _, _, y = normed("coat-fp8")
    layer = nn.Linear(64, 32, bias=False, recipe="coat-fp8")
    count, _ = kept_bytes(lambda: layer(y))
    assert count == y.numel() + 4 + layer.weight.numel() * 4
    coat = nn.Linear(64, 32, bias=False, recipe="coat")
    count, _ = kept_bytes(lambda: coat(y))
    assert count == y.numel() + 4 + layer.weight.numel() * 4


def test_an_input_is_read_as_another_recipe_stored_it(tmp_path):
    """A recipe accepts a stored input, whatever its own rules would store."""
    _, _, y = normed()
    z = nn.rms_norm(y, (64,), torch.ones(64), 1e-6, recipe="coat")
    assert torch.equal(z, nn.rms_norm(y.decode(), (64,), torch.ones(64), 1e-6, recipe="coat"))


def test_histories_of_outputs(tmp_path):
    """Modules hold the delayed scales of outputs; gradients have none."""
    delayed = E4M3[:-1] + ", history = 4>"
    options = recipe_file(tmp_path, "later", f"output consumer(linear) flow(activation) = {delayed}",
                          "output per(column) = #tandem.float<f32>")
    norm = nn.RMSNorm(32, 1e-6, **options)
    x = torch.randn(4, 32)
    first, second = norm(x), norm(4 * x)
    assert first.storage == E4M3 and set(first.planes) == {"", ".scale"}
    assert first.planes[".scale"] != second.planes[".scale"]
    assert relative(second.decode(), torch.nn.functional.rms_norm(x, (32,), eps=1e-6)) < 0.2
    options = recipe_file(tmp_path, "back", f"output flow(gradient) = {delayed}")
    gate, up = torch.randn(2, 4, 32, requires_grad=True).unbind()
    with pytest.raises(ValueError, match="no place for them; give tandem.assign output"):
        nn.swiglu(gate * 1, up * 1, **options).sum().backward()


@pytest.mark.parametrize("recompute", (False, True))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("recipe", ("coat-flow", "coat-fp8"))
def test_gated_blocks(recipe, recompute, dtype):
    def block():
        torch.manual_seed(4)
        parts = [torch.nn.Linear(48, 80), torch.nn.Linear(48, 80), torch.nn.Linear(80, 48)]
        mlp = nn.GatedMLP(*parts, nn.SwiGLU(recipe=recipe), recompute=recompute)
        return torch.nn.Sequential(torch.nn.RMSNorm(48), mlp).to(dtype)

    ours, theirs = block(), block().double()
    del theirs[1].act
    theirs[1].act = lambda gate, up: torch.nn.functional.silu(gate) * up
    theirs[1].recompute = False
    tandem.torch.compress_activations(ours, recipe)
    x = torch.randn(2, 7, 48, generator=torch.Generator().manual_seed(5)).to(dtype)
    got, want = ours(x), theirs(x.double())
    assert got.dtype is dtype and relative(got, want) < 0.06
    got.square().sum().backward()
    want.square().sum().backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert p.grad.dtype is dtype and relative(p.grad, q.grad) < 0.15


def test_checkpoints_and_autocast():
    torch.manual_seed(6)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.RMSNorm(32),
                                torch.nn.Linear(32, 16), torch.nn.SiLU(), torch.nn.Linear(16, 4))
    tandem.torch.compress_activations(model, "coat-flow")
    x = torch.randn(8, 32)

    def gradients(run):
        model.zero_grad()
        run().square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    straight = gradients(lambda: model(x))
    again = gradients(lambda: checkpoint(model, x, use_reentrant=False))
    assert all(torch.equal(a, b) for a, b in zip(straight, again, strict=True))
    with torch.autocast("cpu", torch.bfloat16):
        cast = gradients(lambda: model(x))
    assert all(relative(a, b) < 0.2 for a, b in zip(cast, straight, strict=True))
    with torch.no_grad():
        assert type(model(x)) is torch.Tensor


@pytest.mark.parametrize("recipe", ("coat-flow", "coat-fp8"))
def test_empty_and_single_rows(recipe):
    for shape in ((0, 16), (1, 16), (16,)):
        x = torch.randn(shape, requires_grad=True)
        y = nn.silu(x * 1, recipe=recipe)
        assert isinstance(y, StoredTensor) and y.shape == shape
        nn.Linear(16, 3, recipe=recipe)(y).sum().backward()
        assert x.grad.shape == shape
