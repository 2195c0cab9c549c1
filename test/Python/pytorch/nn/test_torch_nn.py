#===- test_torch_nn.py - Modules with compressed activations ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.nn against PyTorch's modules, and compress_activations.
#
#===----------------------------------------------------------------------===#

import copy
import functools
import math

import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch
from tandem.torch import nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

#: The relative error of gradients that a recipe's storages allow.
ALLOWED = {"fp32": 1e-6, "bf16": 4e-3, "te-current": 4e-2, "te-delayed": 4e-2,
           "coat": 4e-2, "coat-flow": 5e-2, "coat-fp8": 5e-2, "mxfp8": 5e-2, "block-128": 4e-2,
           "mxfp4": 3e-1, "nvfp4": 3e-1, "linear4": 3e-1}


class Gated(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, gate, up):
        return self.function(gate) * up


gelu_tanh = functools.partial(torch.nn.functional.gelu, approximate="tanh")

MODULES = {
    "RMSNorm": (lambda **o: nn.RMSNorm(48, 1e-6, **o), lambda: torch.nn.RMSNorm(48, 1e-6)),
    "LayerNorm": (lambda **o: nn.LayerNorm(48, **o), lambda: torch.nn.LayerNorm(48)),
    "SiLU": (lambda **o: nn.SiLU(**o), torch.nn.SiLU),
    "GELU": (lambda **o: nn.GELU(**o), torch.nn.GELU),
    "GELU by tanh": (lambda **o: nn.GELU("tanh", **o), lambda: torch.nn.GELU("tanh")),
    "SwiGLU": (lambda **o: nn.SwiGLU(**o), lambda: Gated(torch.nn.functional.silu)),
    "GeGLU": (lambda **o: nn.GeGLU(**o), lambda: Gated(torch.nn.functional.gelu)),
    "GeGLU by tanh": (lambda **o: nn.GeGLU("tanh", **o), lambda: Gated(gelu_tanh)),
    "Linear": (lambda **o: nn.Linear(48, 20, **o), lambda: torch.nn.Linear(48, 20)),
}


def error(got, want):
    got, want = got.detach().double(), want.detach()
    return float((got - want).norm() / want.norm().clamp_min(1e-30))


def pair(name, recipe, dtype=torch.float32):
    """Returns our module and PyTorch's in f64, with the same random parameters."""
    torch.manual_seed(7)
    ours, theirs = MODULES[name][0](recipe=recipe).to(dtype), MODULES[name][1]()
    for p in theirs.parameters():
        torch.nn.init.normal_(p)
    theirs.to(dtype)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs.double()


def inputs_of(name, shape=(3, 5, 48), dtype=torch.float32):
    count = 2 if "GLU" in name else 1
    torch.manual_seed(3)
    return [torch.randn(shape, dtype=dtype).requires_grad_() for _ in range(count)]


def both(ours, theirs, inputs):
    """Returns both results: outputs, and gradients of inputs and parameters."""
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got, want = ours(*inputs), theirs(*wide)
    dy = torch.randn(want.shape, generator=torch.Generator().manual_seed(5))
    got.backward(dy.to(got.dtype))
    want.backward(dy.to(got.dtype).double())
    return ([got, *(x.grad for x in inputs), *(p.grad for p in ours.parameters())],
            [want, *(x.grad for x in wide), *(p.grad for p in theirs.parameters())])


@pytest.mark.parametrize("recipe", tandem.recipes())
@pytest.mark.parametrize("name", MODULES)
def test_gradients(name, recipe):
    ours, theirs = pair(name, recipe)
    got, want = both(ours, theirs, inputs_of(name))
    # The forward pass is exact if tensors keep their types between layers.
    assert error(got[0], want[0]) < (5e-2 if recipe in ("coat-flow", "coat-fp8") else 1e-6)
    assert all(error(g, w) < ALLOWED[recipe] for g, w in zip(got[1:], want[1:]))
    assert all(g.dtype is torch.float32 for g in got)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("name", MODULES)
def test_types(name, dtype):
    ours, theirs = pair(name, "coat", dtype)
    got, want = both(ours, theirs, inputs_of(name, dtype=dtype))
    assert all(g.dtype is dtype for g in got)
    assert all(error(g, w) < 5e-2 for g, w in zip(got, want))


def test_types_of_norms():
    """A norm's weights may be wider than its tensors."""
    norm = nn.RMSNorm(48, recipe="coat")
    x = torch.randn(4, 48, dtype=torch.bfloat16)
    norm(x).sum().backward()
    assert norm(x).dtype is torch.bfloat16 and norm.weight.grad.dtype is torch.float32


@pytest.mark.parametrize("shape", ((48,), (0, 48), (2, 0, 48), (1, 48)))
@pytest.mark.parametrize("name", MODULES)
def test_shapes(name, shape):
    ours, theirs = pair(name, "coat")
    got, want = both(ours, theirs, inputs_of(name, shape))
    assert [g.shape for g in got] == [w.shape for w in want]
    assert all(error(g, w) < 5e-2 for g, w in zip(got, want) if w.numel())


@pytest.mark.parametrize("name", MODULES)
def test_strides(name):
    """Tensors with gaps and transposed tensors are copied."""
    ours, theirs = pair(name, "fp32")
    base = [x.detach().transpose(0, 1) for x in inputs_of(name)]
    got, want = both(ours, theirs, [x.requires_grad_() for x in base])
    assert all(error(g, w) < 1e-6 for g, w in zip(got, want))


@pytest.mark.parametrize("name", MODULES)
def test_checkpoints(name):
    """Recomputing a forward pass gives gradients with the same bits."""
    ours, _ = pair(name, "coat")
    grads = []
    for run in (lambda *x: ours(*x), lambda *x: checkpoint(ours, *x, use_reentrant=False)):
        inputs = inputs_of(name)
        run(*inputs).square().sum().backward()
        grads.append([x.grad for x in inputs])
    assert all(torch.equal(a, b) for a, b in zip(*grads))


@pytest.mark.parametrize("name", MODULES)
def test_no_grad(name):
    ours, theirs = pair(name, "coat")
    inputs = inputs_of(name)
    with torch.no_grad():
        y = ours(*inputs)
    assert not y.requires_grad
    assert error(y, theirs(*(x.double() for x in inputs)).detach()) < 1e-6


def test_autocast():
    model = torch.nn.Sequential(nn.LayerNorm(48, recipe="coat"), nn.Linear(48, 20, recipe="coat"))
    x = torch.randn(6, 48)
    with torch.autocast("cpu", torch.bfloat16):
        y = model(x)
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    assert all(p.grad.dtype is torch.float32 for p in model.parameters())


@pytest.mark.parametrize("name", MODULES)
def test_second_derivatives_are_refused(name):
    ours, _ = pair(name, "coat")
    inputs = inputs_of(name)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(ours(*inputs).square().sum(), inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.functional.hessian(lambda x: ours(x, *inputs[1:]).square().sum(),
                                          inputs[0].detach())


@pytest.mark.parametrize("recipe", ("fp32", "bf16", "coat"))
def test_residual_and_norm(recipe):
    torch.manual_seed(2)
    x, residual, weight = (torch.randn(shape).requires_grad_()
                           for shape in ((6, 48), (6, 48), (48,)))
    wide = [t.detach().double().requires_grad_() for t in (x, residual, weight)]
    dh, dy = torch.randn(6, 48), torch.randn(6, 48)
    h, y = nn.add_rms_norm(x, residual, (48,), weight, 1e-6, recipe=recipe)
    torch.autograd.backward([h, y], [dh, dy])
    sum_ = wide[0] + wide[1]
    norm = torch.nn.functional.rms_norm(sum_, (48,), wide[2], 1e-6)
    torch.autograd.backward([sum_, norm], [dh.double(), dy.double()])
    assert error(h, sum_.detach()) < 1e-6 and error(y, norm.detach()) < 1e-6
    for got, want in zip((x, residual, weight), wide):
        assert error(got.grad, want.grad) < ALLOWED[recipe]
    with pytest.raises(ValueError, match=r"input of add_rms_norm is \(6, 48\) of .*, residual is"):
        nn.add_rms_norm(x, residual[:2], (48,), weight)


#===----------------------------------------------------------------------===#
# Cross entropy
#===----------------------------------------------------------------------===#


def losses(x, target, ours=True, **options):
    """Returns the loss and its gradient: ours, or PyTorch's in f64."""
    x = x.detach().to(x.dtype if ours else torch.float64).requires_grad_()
    function = nn.cross_entropy if ours else torch.nn.functional.cross_entropy
    loss = function(x, target, **options)
    (loss * torch.linspace(1, 2, max(1, loss.numel())).to(loss.dtype).view_as(loss)).sum().backward()
    return loss, x.grad


def logits(rows=37, classes=100, seed=4):
    """Returns logits, some of whose rows are nearly certain, and classes, some of which are -100
    (ignored)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, classes, generator=generator) * 3
    target = torch.randint(classes, (rows,), generator=generator)
    x[torch.arange(0, rows, 3), target[::3]] += 25
    target[1::5] = -100
    return x, target


@pytest.mark.parametrize("recipe", tandem.recipes())
@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
def test_cross_entropy(reduction, recipe):
    x, target = logits()
    got = losses(x, target, reduction=reduction, recipe=recipe, state={})
    want = losses(x, target, ours=False, reduction=reduction)
    assert error(got[0], want[0]) < 2e-6
    assert error(got[1], want[1]) < ALLOWED[recipe]
    # For certain predictions, p rounded to f32 would give a zero gradient.
    sure = (torch.arange(0, 37, 3), target[::3])
    keep = sure[1] >= 0
    at = (sure[0][keep], sure[1][keep])
    assert torch.all(want[1][at] < 0)
    assert torch.allclose(got[1][at].double(), want[1][at], rtol=1e-5, atol=0)


def test_cross_entropy_of_bf16():
    x, target = logits()
    got = losses(x.bfloat16(), target)
    want = losses(x.bfloat16(), target, ours=False)
    assert got[0].dtype is got[1].dtype is torch.bfloat16
    assert error(got[0], want[0]) < 4e-3 and error(got[1], want[1]) < 4e-2


def test_cross_entropy_of_extremes():
    """The cases are one row, no rows, certain and impossible classes, and NaN."""
    x = torch.tensor([0.0, 3e38, -3e38])
    for target in range(3):
        got = losses(x, torch.tensor(target))
        assert torch.equal(got[0].double(), losses(x, torch.tensor(target), ours=False)[0]
                           .detach().float().double())
    assert losses(torch.empty(0, 4), torch.empty(0, dtype=torch.long), reduction="sum")[0] == 0
    assert losses(torch.tensor([[1.0, float("nan")]]), torch.tensor([0]))[0].isnan()
    got = losses(torch.ones(1, 20000), torch.tensor([19999]))
    assert error(got[0], torch.tensor(20000.0).double().log()) < 1e-6


def test_saved_bytes_of_cross_entropy():
    """Saved are codes with their scales, and four numbers per row: classes, sums, the rest, and
    those of columns."""
    x, target = logits(64, 512)
    x.requires_grad_()
    kept = saved_bytes(lambda: nn.cross_entropy(x, target, recipe="coat"))
    assert kept == 64 * 512 * (1 + 2 / 16) + 3 * 64 * 4 + 512 * 4 + 9


@pytest.mark.parametrize("x,target,options,kind,message", [
    (torch.ones(2, 3, 4), torch.zeros(2, 4).long(), {}, ValueError, "flatten both, classes last"),
    (torch.ones(2, 3), torch.zeros(2), {}, ValueError, "of torch.float32; flatten both"),
    (torch.ones(2, 3), torch.tensor([0, 3]), {}, IndexError, "target 3 is none of 3 classes"),
    (torch.ones(2, 3), torch.tensor([0, -1]), {}, IndexError, "target -1 is none of 3"),
    (torch.ones(2, 3), torch.tensor([0, 1]), {"reduction": "max"}, ValueError,
     "reduction is 'mean', 'sum' or 'none', got 'max'"),
    (torch.empty(0, (1 << 24) + 1), torch.empty(0).long(), {}, ValueError,
     "knows 2\\*\\*24 classes, got 16777217")])
def test_cross_entropies_that_are_refused(x, target, options, kind, message):
    with pytest.raises(kind, match=message):
        nn.cross_entropy(x, target, **options)


#===----------------------------------------------------------------------===#
# Memory
#===----------------------------------------------------------------------===#


def saved_bytes(run):
    """Returns the bytes of distinct tensors that autograd saves."""
    sizes = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = run()
    del result
    return sum(sizes.values())


def test_saved_bytes():
    """Saved are one code per element, and a two-byte scale per 16 elements."""
    gate, up = (torch.randn(64, 512, dtype=torch.bfloat16, requires_grad=True)
                for _ in range(2))
    coat = saved_bytes(lambda: nn.SwiGLU(recipe="coat")(gate, up))
    assert coat == 2 * 64 * 512 * (1 + 2 / 16)
    assert saved_bytes(lambda: nn.SwiGLU(recipe="bf16")(gate, up)) == 2 * 64 * 512 * 2


def test_one_tensor_is_kept_once():
    x = torch.randn(64, 512, dtype=torch.bfloat16, requires_grad=True)
    layers = [nn.Linear(512, 16, dtype=torch.bfloat16, recipe="coat") for _ in range(3)]
    weights = 3 * 512 * 16 * 2
    assert saved_bytes(lambda: [layer(x) for layer in layers]) == weights + 64 * 512 + 4
    with torch.no_grad():
        x.mul_(2)  # the value has changed, so it is saved again
    grads = []
    for layer in layers:
        layer(x).sum().backward()
        grads.append(layer.weight.grad)
    assert torch.equal(grads[0], grads[1])
    assert error(grads[0], x.double().sum(0).expand(16, 512)) < 4e-2


def test_delayed_scaling_remembers():
    """The scale of a step depends on earlier steps' magnitudes."""
    layer = nn.Linear(48, 8, bias=False, recipe="te-delayed")
    x = torch.ones(4, 48)
    for size in (1.0, 64.0):
        layer(x * size).sum().backward()
    # The third step has a scale for 64 that it does not need.
    layer.weight.grad = None
    layer(x * 3).sum().backward()
    assert error(layer.weight.grad, torch.full((8, 48), 12.0).double()) < 0.07


def test_nothing_outlives_a_step():
    """Tensors saved for products of one input are freed with the graph."""
    layer = nn.Linear(512, 16, recipe="coat")
    x = torch.randn(64, 512)
    y = layer(x)
    planes = [plane() for plane in nn._saved_inputs.SAVED_INPUTS._last.kept[2].values()]
    assert planes and all(plane is not None for plane in planes)
    del planes
    y.sum().backward()
    del y
    assert all(plane() is None for plane in nn._saved_inputs.SAVED_INPUTS._last.kept[2].values())


def test_random_bits_are_torchs(tmp_path):
    """Stochastic rounding differs between steps, but not in a checkpoint's second forward pass."""
    (tmp_path / "drawn.mlir").write_text("""
        tandem.strategy @drawn compute(<f32, f32>) {
          tandem.assign saved = #tandem.float<bf16, stochastic>
        }""")
    x = torch.linspace(1, 2, 4096).view(1, -1)

    def gradient(run):
        torch.manual_seed(3)
        up = torch.ones_like(x).requires_grad_()
        first, second = (run(x, up) for _ in range(2))
        return [torch.autograd.grad(y.sum(), up)[0] for y in (first, second)]

    swiglu = nn.SwiGLU(recipe="drawn", path=[tmp_path])
    a, b = gradient(swiglu)
    assert not torch.equal(a, b)
    again = gradient(lambda *inputs: checkpoint(swiglu, *inputs, use_reentrant=False))
    assert all(map(torch.equal, (a, b), again))


#===----------------------------------------------------------------------===#
# Models
#===----------------------------------------------------------------------===#


class LlamaRMSNorm(torch.nn.Module):
    """The class as in Transformers."""

    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(size) + 0.5)
        self.variance_epsilon = 1e-6

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.variance_epsilon))


class GELUActivation(torch.nn.Module):
    """Transformers' "gelu"."""

    def forward(self, x):
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


class NewGELUActivation(torch.nn.Module):
    """Transformers' "gelu_new"."""

    def forward(self, x):
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


class LlamaMLP(torch.nn.Module):
    def __init__(self, size, act):
        super().__init__()
        self.gate_proj = torch.nn.Linear(size, 2 * size, bias=False)
        self.up_proj = torch.nn.Linear(size, 2 * size, bias=False)
        self.down_proj = torch.nn.Linear(2 * size, size, bias=False)
        self.act_fn = act

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Block(torch.nn.Module):
    def __init__(self, size=48, act=None):
        super().__init__()
        self.norm = LlamaRMSNorm(size)
        self.mlp = LlamaMLP(size, act or torch.nn.SiLU())

    def forward(self, x):
        return x + self.mlp(self.norm(x))


def test_a_model_is_swapped():
    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(), Block())
    exact, names = copy.deepcopy(model).double(), list(model.state_dict())
    parameters = list(model.parameters())
    done = tandem.torch.compress_activations(model, recipe="coat")
    assert done.swapped["0.norm"] == "LlamaRMSNorm -> RMSNorm"
    assert done.swapped["0.mlp"] == "LlamaMLP -> GatedMLP"
    assert done.swapped["1.mlp.down_proj"] == "Linear -> Linear"
    assert len(done.swapped) == 10 and not done.left
    assert list(model.state_dict()) == names
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    got, want = both(model, exact, [torch.randn(6, 48).requires_grad_()])
    assert all(error(g, w) < 8e-2 for g, w in zip(got, want))
    again = tandem.torch.compress_activations(model)
    assert not again.swapped and not again.left


def test_activations_and_losses_are_swapped():
    model = torch.nn.ModuleDict({
        "silu": torch.nn.SiLU(), "gelu": torch.nn.GELU(), "tanh": torch.nn.GELU("tanh"),
        "bert": GELUActivation(), "gpt2": NewGELUActivation(),
        "loss": torch.nn.CrossEntropyLoss(ignore_index=3, reduction="sum")})
    done = tandem.torch.compress_activations(model)
    assert done.swapped == {"silu": "SiLU -> SiLU", "gelu": "GELU -> GELU",
                            "tanh": "GELU -> GELU", "bert": "GELUActivation -> GELU",
                            "gpt2": "NewGELUActivation -> GELU",
                            "loss": "CrossEntropyLoss -> CrossEntropyLoss"}
    assert all(isinstance(m, nn._modules._Compressed) for m in model.values())
    assert [model[name].approximate for name in ("gelu", "tanh", "bert", "gpt2")] == [
        "none", "tanh", "none", "tanh"]
    x, target = logits(8, 9)
    target = target.where(target >= 0, 3)
    assert error(model["loss"](x, target), torch.nn.functional.cross_entropy(
        x.double(), target, ignore_index=3, reduction="sum")) < 1e-6


@pytest.mark.parametrize("act", (torch.nn.SiLU(), torch.nn.GELU(), torch.nn.GELU("tanh"),
                                 GELUActivation(), NewGELUActivation()))
@pytest.mark.parametrize("recipe", ("fp32", "bf16", "coat", "te-delayed"))
def test_products_are_computed_again(recipe, act):
    """The products are not saved; all gradients are the same, except that of the following
    matrix."""
    torch.manual_seed(1)
    kept, model = Block(act=act), Block(act=act)
    model.load_state_dict(kept.state_dict())
    exact = copy.deepcopy(model).double()
    tandem.torch.compress_activations(kept, recipe)
    done = tandem.torch.compress_activations(model, recipe, recompute=True)
    assert done.swapped["mlp"] == "LlamaMLP -> GatedMLP, whose product is computed again"
    x = torch.randn(2, 3, 48).requires_grad_()
    got, want = both(model, exact, [x])
    assert all(error(g, w) < 2 * ALLOWED[recipe] for g, w in zip(got, want))
    y = kept(x.detach())
    assert torch.equal(y, got[0])
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(5)))
    for (name, p), q in zip(kept.named_parameters(), model.parameters()):
        assert torch.equal(p.grad, q.grad) or name == "mlp.down_proj.weight"
    # The difference is one code per element and the tensor's scale; te-delayed also saves the next
    # scale and 16 magnitudes.
    difference = saved_bytes(lambda: kept(x)) - saved_bytes(lambda: model(x))
    element, tensor = {"fp32": (4, 0), "bf16": (2, 0), "coat": (1, 4), "te-delayed": (1, 72)}[recipe]
    assert difference == element * 6 * 96 + tensor


def test_recomputing():
    """Recomputing works with a bias, in bf16 under autocast, without rows, and for layers
    without a product."""
    torch.manual_seed(2)
    block = LlamaMLP(48, torch.nn.SiLU())
    block.down_proj = torch.nn.Linear(96, 48)
    model = torch.nn.Sequential(block)
    exact = copy.deepcopy(model).double()
    tandem.torch.compress_activations(model, recompute=True)
    got, want = both(model, exact, [torch.randn(5, 48).requires_grad_()])
    assert all(error(g, w) < 8e-2 for g, w in zip(got, want))
    with torch.autocast("cpu", torch.bfloat16):
        y = model(torch.randn(5, 48))
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    model.zero_grad()
    empty = torch.empty(0, 48, requires_grad=True)
    model(empty).sum().backward()
    assert empty.grad.shape == (0, 48) and not model[0].down_proj.weight.grad.any()

    class Doubled(torch.nn.Linear):
        pass

    block = LlamaMLP(48, torch.nn.SiLU())
    block.down_proj = Doubled(96, 48)
    done = tandem.torch.compress_activations(torch.nn.Sequential(block), recompute=True)
    assert done.left["0"] == "its down_proj is a Doubled, and no torch.nn.Linear"
    with pytest.raises(ValueError, match="weight of gated_linear is on meta"):
        nn.gated_linear("swiglu", torch.ones(2, 8), torch.ones(2, 8),
                        torch.ones(4, 8, device="meta"))
    with pytest.raises(ValueError, match="is of 'swiglu', 'geglu' or 'geglu_tanh', got 'silu'"):
        nn.gated_linear("silu", torch.ones(2, 8), torch.ones(2, 8), torch.ones(4, 8))


def test_what_does_not_fit_is_left():
    class Doubled(torch.nn.Linear):
        pass

    model = torch.nn.ModuleDict({
        "wide": torch.nn.RMSNorm((4, 8)),
        "doubled": Doubled(8, 8),
        "other": torch.nn.GroupNorm(2, 8),
        "smooth": torch.nn.CrossEntropyLoss(label_smoothing=0.1),
        "block": LlamaMLP(8, torch.nn.ReLU())})
    done = tandem.torch.compress_activations(model)
    assert done.left.pop("block").startswith("it does not compute SwiGLU, or GeGLU by erf")
    assert done.left == {
        "wide": "it normalizes more than the last dimension",
        "other": "GroupNorm is not a norm that is known here",
        "smooth": "it weighs classes or smooths labels",
        "doubled": "Doubled may compute more than torch.nn.Linear"}
    assert "wide: left alone, it normalizes" in str(done)


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="unknown recipe 'cote'; built-in ones are"):
        nn.SwiGLU(recipe="cote")(torch.ones(1, 8), torch.ones(1, 8))
    with pytest.raises(TypeError, match="float32, bfloat16 or float16, got torch.float64"):
        nn.SwiGLU()(torch.ones(1, 8).double(), torch.ones(1, 8).double())
    with pytest.raises(ValueError, match=r"gate of swiglu is \(1, 8\) of torch.float32, up is \(1, 9\)"):
        nn.SwiGLU()(torch.ones(1, 8), torch.ones(1, 9))
    for use in (nn.GELU, nn.GeGLU, lambda how: nn.gelu(torch.ones(8), approximate=how)):
        with pytest.raises(ValueError, match="is 'none', for erf, or 'tanh', got 'erf'"):
            use("erf")
    with pytest.raises(ValueError, match=r"weight of rms_norm is \(9,\) of torch.float32; for an "
                                         r"input of \(2, 8\) it must be \(8,\) of"):
        nn.rms_norm(torch.ones(2, 8), (8,), torch.ones(9))
    with pytest.raises(ValueError, match=r"weight of add_rms_norm is \(1,\)"):
        nn.add_rms_norm(torch.ones(2, 8), torch.ones(2, 8), (8,), torch.ones(1))
    with pytest.raises(ValueError, match=r"bias of layer_norm is \(8,\) of torch.bfloat16; .* "
                                         r"must be \(8,\) of torch.float32"):
        nn.layer_norm(torch.ones(2, 8), (8,), torch.ones(8), torch.ones(8).bfloat16())
    (tmp_path / "mine.mlir").write_text("module {}")
    with pytest.raises(ValueError, match='does not define tandem.strategy @"mine"'):
        nn.SwiGLU(recipe="mine", path=[tmp_path])(torch.ones(1, 8), torch.ones(1, 8))


@pytest.mark.parametrize("name,use", [
    ("input of rms_norm", lambda m: m.RMSNorm(8)(torch.ones(2, 8, device="meta"))),
    ("weight of rms_norm", lambda m: m.RMSNorm(8, device="meta")(torch.ones(2, 8))),
    ("residual of add_rms_norm", lambda m: m.add_rms_norm(
        torch.ones(2, 8), torch.ones(2, 8, device="meta"), (8,), torch.ones(8))),
    ("input of layer_norm", lambda m: m.LayerNorm(8)(torch.ones(2, 8, device="meta"))),
    ("bias of layer_norm", lambda m: m.layer_norm(
        torch.ones(2, 8), (8,), torch.ones(8), torch.ones(8, device="meta"))),
    ("input of silu", lambda m: m.SiLU()(torch.ones(2, 8, device="meta"))),
    ("target of cross_entropy", lambda m: m.cross_entropy(
        torch.ones(2, 8), torch.zeros(2, device="meta"))),
    ("up of swiglu", lambda m: m.SwiGLU()(torch.ones(8), torch.ones(8, device="meta"))),
    ("gate of geglu", lambda m: m.GeGLU()(torch.ones(8, device="meta"), torch.ones(8))),
    ("input of linear", lambda m: m.Linear(8, 8)(torch.ones(2, 8, device="meta"))),
    ("weight of linear", lambda m: m.Linear(8, 8, device="meta")(torch.ones(2, 8)))])
def test_tensors_elsewhere_are_refused(name, use):
    with pytest.raises(ValueError, match=f"{name} is on meta, and tandem.torch.nn computes on "
                                         "CPUs and CUDA devices; move it to one"):
        use(nn)


#===----------------------------------------------------------------------===#
# Behaviour of PyTorch's modules
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
def test_epsilon_that_is_not_given(dtype):
    """The default is PyTorch's, for any dtype of the tensors."""
    x = (torch.randn(8, 64) * 0.01).to(dtype)
    want = torch.nn.RMSNorm(64, dtype=dtype)(x)
    got = nn.RMSNorm(64, dtype=dtype, recipe="fp32")(x)
    assert (got.double() - want.double()).abs().max() < 0.02
    sums, norms = nn.add_rms_norm(x, torch.zeros_like(x), (64,), torch.ones(64, dtype=dtype))
    assert torch.equal(sums, x) and (norms - want).abs().max() < 0.02


@pytest.mark.parametrize("recipe", ("fp32", "bf16", "coat"))
@pytest.mark.parametrize("name", ("LayerNorm", "RMSNorm", "SiLU", "SwiGLU"))
def test_outputs_may_be_written(name, recipe):
    """Outputs can be modified in place like those of PyTorch's modules, unless the backward pass
    needs the old values."""
    ours, _ = pair(name, recipe)
    inputs = inputs_of(name)
    want = torch.autograd.grad(ours(*inputs).relu().sum(), inputs)
    y = ours(*inputs)
    torch.nn.functional.relu(y, inplace=True)
    got = torch.autograd.grad(y.sum(), inputs)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("reduction", ("mean", "sum"))
def test_rows_that_are_all_ignored_have_no_gradient(reduction):
    x = logits(4, 32)[0].requires_grad_()
    ours, theirs = (f(x, torch.full((4,), -100), reduction=reduction)
                    for f in (nn.cross_entropy, torch.nn.functional.cross_entropy))
    assert torch.equal(ours, theirs) or (ours.isnan() and theirs.isnan())
    (got,) = torch.autograd.grad(ours, [x])
    assert torch.equal(got, torch.zeros(4, 32))


class ShiftedRMSNorm(torch.nn.RMSNorm):
    def forward(self, x):
        return super().forward(x) + 1


class Prefixed(torch.nn.CrossEntropyLoss):
    pass


def pruned():
    return prune.l1_unstructured(torch.nn.Linear(8, 8), "weight", 0.5)


def hooked():
    module = torch.nn.LayerNorm(8)
    module.register_forward_hook(lambda *_: None)
    return module


def patched():
    module = torch.nn.LayerNorm(8)
    module.forward = lambda x: x
    return module


@pytest.mark.parametrize("make, why", [
    (lambda: ShiftedRMSNorm(8), "may compute more than torch.nn.RMSNorm"),
    (Prefixed, "may compute more than torch.nn.CrossEntropyLoss"),
    (pruned, "computed from other tensors"), (hooked, "has hooks"),
    (patched, "a forward of its own"),
    (lambda: torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 8)),
     "may compute more than torch.nn.Linear")])
def test_what_computes_something_else_is_left_alone(make, why):
    model = torch.nn.Sequential(make())
    before = model[0]
    done = tandem.torch.compress_activations(model)
    assert model[0] is before and not done.swapped and why in done.left["0"]


def test_a_module_in_two_places_is_swapped_in_both():
    norm = torch.nn.LayerNorm(8)
    model = torch.nn.Sequential(norm, torch.nn.ReLU(), norm)
    done = tandem.torch.compress_activations(model)
    assert model[0] is model[2] and isinstance(model[0], nn.LayerNorm)
    assert set(done.swapped) == {"0", "2"}
    assert "no parent" in str(tandem.torch.compress_activations(torch.nn.Linear(8, 8)))
