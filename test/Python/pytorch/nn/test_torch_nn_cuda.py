#===- test_torch_nn_cuda.py - Compressed modules on a GPU ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that modules of tandem.torch.nn have the same bits on a GPU as on the CPU, with a
# driver without a GPU and the PTX evaluator in its place: both passes, graphs, several GPUs, and
# errors.
#
#===----------------------------------------------------------------------===#

import copy
import threading

import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch
from support.torch_on_gpu import TorchGPU
from tandem.torch import nn
from tandem.torch.nn import _layer
from torch.utils.checkpoint import checkpoint

WIDTH = 40

#: Modules, and the number of tensors that each takes.
MODULES = {
    "RMSNorm": (lambda **o: nn.RMSNorm(WIDTH, 1e-6, **o), 1),
    "LayerNorm": (lambda **o: nn.LayerNorm(WIDTH, **o), 1),
    "SiLU": (nn.SiLU, 1), "GELU": (nn.GELU, 1),
    "SwiGLU": (nn.SwiGLU, 2), "GeGLU": (nn.GeGLU, 2),
    "Linear": (lambda **o: nn.Linear(WIDTH, 24, **o), 1),
}


@pytest.fixture(scope="module")
def gpu():
    return TorchGPU(2)


def make(name, recipe="coat", dtype=torch.float32):
    torch.manual_seed(7)
    module = MODULES[name][0](recipe=recipe)
    for p in module.parameters():
        torch.nn.init.normal_(p)
    return module.to(dtype)


def inputs_of(name, shape=(3, 5, WIDTH), dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_()
            for _ in range(MODULES[name][1])]


def step(module, inputs, seed=5):
    """Returns the output and all gradients of a step."""
    y = module(*inputs)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed))
    leaves = [*inputs, *module.parameters()]
    return [y.detach(), *torch.autograd.grad(y, leaves, dy.to(y.dtype))]


def bits(tensor):
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[
        tensor.element_size()])


def assert_same(got, want):
    assert all(torch.equal(bits(g), bits(w)) for g, w in zip(got, want, strict=True))


def assert_same_on(gpu, use, launches=True):
    """Checks that the results of `use` on the GPU have the bits of those on the CPU."""
    want = use()
    gpu.launched.clear()
    with gpu.holds_torch():
        got = use()
    assert bool(gpu.launched) == launches
    assert_same(got, want)


#===----------------------------------------------------------------------===#
# Both passes
#===----------------------------------------------------------------------===#


@pytest.mark.thinned(1, times=4)
@pytest.mark.parametrize("recipe", tandem.recipes())
@pytest.mark.parametrize("name", MODULES)
def test_modules(gpu, name, recipe):
    def use():
        module = make(name, recipe)
        return step(module, inputs_of(name)) + step(module, inputs_of(name, (7, WIDTH)))

    # No kernel writes or reads a tensor that a linear layer saves unchanged.
    assert_same_on(gpu, use, launches=(name, recipe) != ("Linear", "fp32"))


@pytest.mark.parametrize("recompute", (False, True))
def test_codes_between_layers(gpu, recompute):
    """Stored tensors pass between layers on the GPU in both passes, and are decoded there."""
    def use():
        torch.manual_seed(2)
        parts = [torch.nn.Linear(WIDTH, 56), torch.nn.Linear(WIDTH, 56),
                 torch.nn.Linear(56, WIDTH)]
        block = nn.GatedMLP(*parts, nn.SwiGLU(recipe="coat-flow"), recompute=recompute)
        model = torch.nn.Sequential(torch.nn.RMSNorm(WIDTH), block)
        tandem.torch.compress_activations(model, "coat-flow")
        (x,) = inputs_of("RMSNorm")
        return step(model, [x])

    assert_same_on(gpu, use)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("name", MODULES)
def test_types(gpu, name, dtype):
    assert_same_on(gpu, lambda: step(make(name, dtype=dtype), inputs_of(name, dtype=dtype)))


def behind(x, elements=1):
    """Returns the same numbers at an address with only the elements' alignment."""
    room = torch.empty(x.numel() + elements, dtype=x.dtype)
    return room[elements:].view(x.shape).copy_(x.detach()).requires_grad_()


@pytest.mark.parametrize("name", MODULES)
def test_addresses_and_layouts(gpu, name):
    def use():
        module, results = make(name, dtype=torch.bfloat16), []
        for shape in ((WIDTH,), (1, WIDTH), (3, WIDTH), (2, 3, WIDTH)):
            inputs = inputs_of(name, shape, torch.bfloat16)
            results += step(module, [behind(x) for x in inputs])
        wide = inputs_of(name, (4, 2 * WIDTH), torch.bfloat16)
        gaps = [x.detach()[:, ::2].requires_grad_() for x in wide]
        turned = [x.detach().transpose(0, 1).requires_grad_()
                  for x in inputs_of(name, dtype=torch.bfloat16)]
        return results + step(module, gaps) + step(module, turned)

    assert_same_on(gpu, use)


@pytest.mark.parametrize("name", MODULES)
def test_no_rows(gpu, name):
    def use():
        return step(make(name), inputs_of(name, (0, WIDTH)))

    with gpu.holds_torch():
        got = use()
    assert_same(got, use())


def test_residual_and_norm(gpu):
    def use():
        torch.manual_seed(2)
        x, residual = (torch.randn(6, WIDTH, requires_grad=True) for _ in range(2))
        weight = torch.randn(WIDTH, requires_grad=True)
        h, y = nn.add_rms_norm(x, residual, (WIDTH,), weight)
        return [h.detach(), y.detach(), *torch.autograd.grad(
            [h, y], [x, residual, weight], [torch.randn(6, WIDTH), torch.randn(6, WIDTH)])]

    assert_same_on(gpu, use)


@pytest.mark.parametrize("recipe", ("bf16", "coat", "te-delayed"))
@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
def test_cross_entropy(gpu, reduction, recipe):
    def use():
        torch.manual_seed(2)
        x = (3 * torch.randn(9, 50)).requires_grad_()
        target = torch.randint(50, (9,))
        target[2] = -100
        loss = nn.CrossEntropyLoss(reduction=reduction, recipe=recipe)(x, target)
        return [loss.detach(), *torch.autograd.grad(loss.sum(), [x])]

    assert_same_on(gpu, use)


def test_classes_that_are_none(gpu):
    with gpu.holds_torch():
        with pytest.raises(RuntimeError, match="a target is none of the classes"):
            nn.cross_entropy(torch.ones(2, 3), torch.tensor([0, 3]))


def test_autocast_and_checkpoints(gpu):
    def use():
        torch.manual_seed(1)
        model = torch.nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.SiLU())
        x = torch.randn(6, WIDTH)
        with torch.autocast("cpu", torch.bfloat16):
            y = checkpoint(model, x, use_reentrant=False)
        return [y.detach(), *torch.autograd.grad(y.float().sum(), list(model.parameters()))]

    assert_same_on(gpu, use)


def test_random_bits(gpu, tmp_path):
    """Seeds come from PyTorch's CPU generator."""
    (tmp_path / "drawn.mlir").write_text("""
        tandem.strategy @drawn compute(<f32, f32>) {
          tandem.assign saved = #tandem.float<bf16, stochastic>
        }""")

    def use():
        torch.manual_seed(3)
        swiglu = nn.SwiGLU(recipe="drawn", path=[tmp_path])
        return [g for _ in range(2) for g in step(swiglu, inputs_of("SwiGLU"))]

    assert_same_on(gpu, use)


def test_delayed_scaling(gpu):
    """The history is on the tensors' device, and moves with a module."""
    def steps(layer, sizes):
        return [g for size in sizes for g in step(
            layer, [(torch.ones(4, WIDTH) * size).requires_grad_()])]

    layer = make("Linear", "te-delayed")
    want = steps(layer, (1.0, 64.0, 3.0, 5.0))
    layer = make("Linear", "te-delayed")
    got = steps(layer, (1.0, 64.0))
    with gpu.holds_torch():
        layer.to("cpu")
        got += steps(layer, (3.0,))
    assert_same(got + steps(layer, (5.0,)), want)


def test_moving_a_module():
    layer = make("Linear", "te-delayed")
    step(layer, inputs_of("Linear"))
    before = {name: kept.clone() for name, kept in layer._kept.items()}
    assert before
    layer.to(torch.bfloat16).to("cpu")
    assert all(torch.equal(layer._kept[name], kept) and kept.dtype is torch.float32
               for name, kept in before.items())
    again = copy.deepcopy(layer)
    assert all(torch.equal(again._kept[name], kept) for name, kept in before.items())
    layer.to_empty(device="meta")
    assert not layer._kept and again._kept


#===----------------------------------------------------------------------===#
# Models
#===----------------------------------------------------------------------===#


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = torch.nn.Linear(WIDTH, 56)
        self.up_proj = torch.nn.Linear(WIDTH, 56)
        self.down_proj = torch.nn.Linear(56, WIDTH)
        self.act_fn = torch.nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


def compressed(**options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.RMSNorm(WIDTH), MLP(), torch.nn.GELU("tanh"),
                                torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 8))
    tandem.torch.compress_activations(model, **options)
    return model


@pytest.mark.parametrize("options", ({}, {"recompute": True}, {"recipe": "te-delayed"}))
def test_models(gpu, options):
    def use():
        model = compressed(**options)
        x = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(2))
        return [g for _ in range(2) for g in step(model, [x.clone().requires_grad_()])]

    assert_same_on(gpu, use)


def test_halves_of_a_model(gpu):
    """One half of the model and its tensors are on the second GPU."""
    x = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(2)).requires_grad_()
    want = step(compressed(recipe="te-delayed"), [x])
    model = compressed(recipe="te-delayed")
    gpu.launched.clear()
    half = [0]
    with gpu.holds_torch(lambda tensor: half[0]):
        def enter(number):
            return lambda *_: half.__setitem__(0, number)

        for at, module in enumerate(model):
            module.register_forward_pre_hook(enter(int(at > 1)))
            module.register_full_backward_pre_hook(enter(int(at > 1)))
        got = step(model, [x])
    assert_same(got, want)
    assert gpu.launched


def test_products_of_one_input(gpu):
    """Products of one input save it once, except for a different stream."""
    layer, x = make("Linear"), inputs_of("Linear")[0]
    made, ys = [], []

    def keep():
        ys.append(layer(x))
        made.append([plane() for plane in nn._saved_inputs.SAVED_INPUTS._last.kept[2].values()])

    with gpu.holds_torch():
        keep()
        keep()
        before = gpu.executors[0]._stream
        gpu.executors[0]._stream = gpu.library.fake_cuda_create_stream()
        try:
            keep()
        finally:
            gpu.executors[0]._stream = before
    assert all(a is b for a, b in zip(made[0], made[1], strict=True))
    assert not any(a is b for a, b in zip(made[0], made[2], strict=True))


def test_threads(gpu):
    """Each thread has separate plans, at the same time."""
    def use():
        results, work = [None] * 4, [
            [(make("RMSNorm"), inputs_of("RMSNorm", (i + 1, WIDTH))) for _ in range(3)]
            for i in range(4)]

        def run(i):
            results[i] = [step(*each) for each in work[i]]

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [array for steps in results for arrays in steps for array in arrays]

    assert_same_on(gpu, use)


#===----------------------------------------------------------------------===#
# Graphs
#===----------------------------------------------------------------------===#


@pytest.fixture
def pool(monkeypatch):
    """Keeps allocations of the passes alive during the test, as a graph's memory pool does."""
    def allocate(step, *given):
        planes = plain(step, *given)
        kept.append(planes)
        return planes

    kept, plain = [], _layer.Pass.allocate
    monkeypatch.setattr(_layer.Pass, "allocate", allocate)


@pytest.mark.parametrize("recipe", ("coat", "te-delayed"))
@pytest.mark.parametrize("name", ("RMSNorm", "SwiGLU"))
def test_a_graph_has_the_bits_of_steps(gpu, pool, name, recipe):
    """Both passes run over tensors with new contents."""
    def fill(tensors, seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for tensor in tensors:
                tensor.copy_(torch.randn(tensor.shape, generator=generator))

    inputs = inputs_of(name)
    module, want = make(name, recipe), []
    dy = torch.ones(inputs[0].shape)
    for seed in (0, 1, 2, 3):
        fill([*inputs, dy], seed)
        want.append([y := module(*inputs), *torch.autograd.grad(y, inputs, dy)])
    with gpu.holds_torch():
        module = make(name, recipe)
        fill([*inputs, dy], 0)
        torch.autograd.grad(module(*inputs), inputs, dy)
        with gpu.captures() as graph:
            y = module(*inputs)
            grads = torch.autograd.grad(y, inputs, dy)
        for seed in (1, 2, 3):
            fill([*inputs, dy], seed)
            graph.replay()
            assert_same([y.detach(), *grads], [t.detach() for t in want[seed]])


def test_a_graph_remembers(gpu, pool):
    """The history of delayed scaling changes each time that the graph runs."""
    x, sizes = torch.ones(4, WIDTH), (1.0, 64.0, 3.0, 0.5)
    want = make("Linear", "te-delayed")
    for size in sizes:
        want(x * size)
    got = make("Linear", "te-delayed")
    with gpu.holds_torch():
        got(x)
        with gpu.captures() as graph:
            got(x)
        for size in sizes[1:]:
            x.fill_(size)
            graph.replay()
    assert want._kept.keys() == got._kept.keys()
    assert_same(got._kept.values(), want._kept.values())


def test_a_graph_draws_new_seeds(gpu, pool, tmp_path):
    (tmp_path / "drawn.mlir").write_text("""
        tandem.strategy @drawn compute(<f32, f32>) {
          tandem.assign saved = #tandem.float<bf16, stochastic>
        }""")
    swiglu, x = nn.SwiGLU(recipe="drawn", path=[tmp_path]), torch.linspace(1, 2, 400)
    up = torch.ones_like(x).requires_grad_()
    with gpu.holds_torch():
        torch.autograd.grad(swiglu(x, up).sum(), up)
        ones = torch.ones(400)
        with gpu.captures() as graph:
            (grad,) = torch.autograd.grad(swiglu(x, up), up, ones)
        graph.replay()
        first = grad.clone()
        graph.replay()
    assert not torch.equal(first, grad) and torch.allclose(first, grad, rtol=1e-2)


def test_what_cannot_be_captured(gpu):
    with gpu.holds_torch():
        with gpu.captures():
            with pytest.raises(RuntimeError, match="rms_norm has not run on this GPU yet, and "
                                                   "a CUDA graph cannot load its code; run a"):
                nn.RMSNorm(WIDTH, recipe="block-128").half()(
                    torch.ones(2, WIDTH, dtype=torch.float16))
            with pytest.raises(RuntimeError, match="begin with 'kept.next_scale' anew"):
                make("Linear", "te-delayed")(torch.ones(2, WIDTH))


#===----------------------------------------------------------------------===#
# Messages
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("name,use", [
    ("weight of rms_norm", lambda x, w: nn.rms_norm(x, (8,), w)),
    ("residual of add_rms_norm", lambda x, w: nn.add_rms_norm(x, w, (8,), x)),
    ("bias of layer_norm", lambda x, w: nn.layer_norm(x, (8,), x, w)),
    ("target of cross_entropy", lambda x, w: nn.cross_entropy(x, w)),
    ("up of swiglu", lambda x, w: nn.swiglu(x, w)),
    ("weight of linear", lambda x, w: nn.linear(x, w)),
    ("bias of linear", lambda x, w: nn.linear(x, x, w)),
    ("weight of gated_linear", lambda x, w: nn.gated_linear("swiglu", x, x, w))])
def test_tensors_apart_are_refused(gpu, name, use):
    here, there = torch.ones(8), torch.ones(8)
    for place in (lambda t: 1 if t is there else 0, lambda t: None if t is there else 0):
        with gpu.holds_torch(place), pytest.raises(
                ValueError, match=f"{name} is on cpu, but (input|gate) is on cpu; move one to the"):
            use(here, there)


def test_a_state_elsewhere_is_refused(gpu):
    layer = make("Linear", "te-delayed")
    layer(torch.ones(2, WIDTH))
    kept = list(layer._kept.values())
    with gpu.holds_torch(lambda t: None if any(t is k for k in kept) else 0):
        with pytest.raises(ValueError, match="kept.next_scale of keep is on cpu, but x is on"):
            layer(torch.ones(2, WIDTH))
