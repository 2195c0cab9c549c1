#===- test_torch_codes.py - Weights and gradients in codes -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests PyTorch optimizers whose weights or gradients have no PyTorch dtype: their
# results, and what is in memory at what time.
#
#===----------------------------------------------------------------------===#

import copy
import gc
import io
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from model import Strategy, cases, step
from model.formats import decode, encode
from model.codes import FloatCode, PairCode
from model.scaled import Residual, Scaled
from model.storage import Draw, Expansion, Plain, Remainder, nearest
from support.kernels import write_strategies
from support.torch_bits import (LIBRARY, assert_same_bits, bits, parameters, params_of,
                                set_gradients, train)
from support.torch_needs import needs_hooks_around, needs_names
from tandem.torch._layout import is_placeholder, placeholder
from torch.utils.checkpoint import checkpoint

SHAPES = [(150,), (1, 279), (), (1, 4, 7), (0, 3)]
E4M3 = Scaled(FloatCode("f8E4M3FN"), 32, "f32", "pow2")
BF16 = Plain("bf16")
MINE = {
    "grad-only": Strategy(E4M3, Expansion("bf16", 2), BF16, BF16),
    "grad-f32-weight": Strategy(E4M3, Plain("f32"), Plain("f32"), Plain("f32")),
    "weight-only": Strategy(BF16, Scaled(PairCode("f8E4M3FN"), 64, "bf16"), BF16, BF16),
    "f16-codes": Strategy(Plain("f16"), Scaled(FloatCode("f16"), 16, "f32"), BF16, BF16),
    "f8-pair": Strategy(BF16, Expansion("f8E4M3FN", 2), BF16, BF16),
    "e5m2": Strategy(Plain("f8E5M2"), BF16, BF16, BF16),
    "grad-pair": Strategy(Expansion("bf16", 2), BF16, BF16, BF16),
    "grad-residual": Strategy(Residual("bf16", "i8"), BF16, BF16, BF16),
    "grad-remainder": Strategy(Remainder(), BF16, BF16, BF16),
}
CODES = {n: LIBRARY[n] for n in ("fp8-collage-light", "fp8-collage-plus")} | MINE
NAMES = pytest.mark.parametrize("name", CODES)
WEIGHTS = pytest.mark.parametrize("name", [
    "fp8-collage-light", "fp8-collage-plus", "weight-only", "f16-codes", "f8-pair"])
GRADIENTS = pytest.mark.parametrize("name", [
    "fp8-collage-plus", "grad-only", "grad-f32-weight", "e5m2", "grad-pair", "grad-residual",
    "grad-remainder"])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("codes")
    write_strategies(directory, MINE)
    return [directory]


def dtype_of(name):
    return torch.float32 if name == "grad-f32-weight" else torch.bfloat16


def make(name, path, params=None, **options):
    params = parameters(SHAPES, dtype_of(name)) if params is None else params
    # Codes are used everywhere, also in the smallest tensors.
    return tt.AdamW(params, lr=1e-2, strategy=name, path=path, min_8bit_size=0, **options)


def model_of(dtype=torch.bfloat16, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(24, 48), torch.nn.GELU(), torch.nn.LayerNorm(48),
        torch.nn.Linear(48, 48), torch.nn.Tanh(), torch.nn.Linear(48, 8)).to(dtype)


def loss_of(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 24, generator=generator).to(next(model.parameters()).dtype)
    return model(x).float().square().mean()


#===----------------------------------------------------------------------===#
# Bit for bit
#===----------------------------------------------------------------------===#

FORMATS = {torch.bfloat16: "bf16", torch.float32: "f32", torch.float16: "f16"}


def value_of(tensor):
    return decode(FORMATS[tensor.dtype], bits(tensor))


def initial_planes(strategy, param):
    zero = np.zeros(param.numel(), np.float32)
    return (nearest(strategy.param).encode("param", value_of(param), Draw())
            | strategy.first.encode("exp_avg", zero, Draw())
            | strategy.second.encode("exp_avg_sq", zero, Draw()))


def assert_holds(optimizer, param, strategy, planes):
    """Asserts that state and parameter are the model's planes and their decoded values."""
    got = {"param": param} | optimizer.state[param]
    for name in set(planes) - set(strategy.grad.planes("grad")):
        if name in optimizer.state[param]:
            assert np.array_equal(bits(got[name]), planes[name]), name
    weight = strategy.param.decode(planes, "param")
    if isinstance(strategy.param, Expansion) and "param" not in optimizer.state[param]:
        weight = decode(strategy.param.format, planes["param"])
    format = FORMATS[param.dtype]
    assert np.array_equal(bits(param), encode(format, weight))


@NAMES
def test_follows_the_model(name, path):
    """Three steps with gradients set manually in p.grad follow the model."""
    strategy, hypers = CODES[name], cases.hypers("adamw", CODES[name], lr=1e-2)
    optimizer = make(name, path, **{k: hypers[k] for k in ("eps", "weight_decay")})
    params = params_of(optimizer)
    planes = [initial_planes(strategy, p) for p in params]
    for t in range(1, 4):
        set_gradients(params, t)
        for key, (param, state) in enumerate(zip(params, planes)):
            state |= strategy.grad.encode("grad", value_of(param.grad), Draw())
            state |= step("adamw", strategy, state, hypers, t, key=key)
        optimizer.step()
    for param, state in zip(params, planes):
        assert_holds(optimizer, param, strategy, state)


@GRADIENTS
def test_backward_passes_add_up(name, path):
    """Each pass decodes, adds in f32 and encodes, in the order of the passes."""
    strategy, (p,) = CODES[name], parameters([(70,)], dtype_of(name))
    storage, hypers = strategy.grad, cases.hypers("adamw", strategy, lr=1e-2)
    optimizer = make(name, path, [p], **{k: hypers[k] for k in ("eps", "weight_decay")})
    state, planes = initial_planes(strategy, p), None
    for seed in range(4):
        torch.manual_seed(seed)
        coefficients = torch.randn(70).to(p.dtype)
        (p * coefficients).sum().backward()
        assert p.grad is None
        value = value_of(coefficients)
        if planes is not None:
            value = storage.decode(planes, "grad") + value
        planes = storage.encode("grad", value, Draw())
        want = encode(FORMATS[p.dtype], storage.decode(planes, "grad"))
        assert np.array_equal(bits(optimizer.gradient(p)), want)
    state |= planes
    state |= step("adamw", strategy, state, hypers, 1)
    optimizer.step()
    assert_holds(optimizer, p, strategy, state)


@GRADIENTS
def test_a_step_releases_gradients(name, path):
    model = model_of(dtype_of(name))
    optimizer = make(name, path, model.parameters())
    loss_of(model).backward()
    assert all(p.grad is None for p in model.parameters())
    held = optimizer.live_bytes()["gradients"]
    assert 0 < held < sum(p.nbytes for p in model.parameters()) * 2.1
    optimizer.step()
    assert optimizer.live_bytes()["gradients"] == 0
    assert all(optimizer.gradient(p) is None for p in model.parameters())
    before = [bits(p) for p in model.parameters()]
    optimizer.step()
    assert all(np.array_equal(bits(p), b) for p, b in zip(model.parameters(), before))


def scales_of(param):
    """Returns the number of groups of 128, which two rows of 48 or four of 24 share."""
    rows = {(48, 24): 12, (48, 48): 24, (8, 48): 4}.get(param.shape, 1)
    return rows * -(-param.numel() // rows // 128)


def test_bytes_of_gradients():
    model = model_of()
    optimizer = make("fp8-collage-plus", [], model.parameters())
    loss_of(model).backward()
    want = sum(p.numel() + 4 * scales_of(p) for p in model.parameters())
    assert optimizer.live_bytes()["gradients"] == want


@pytest.mark.parametrize("to_none", [True, False])
def test_zero_grad(to_none, path):
    model = model_of()
    optimizer = make("grad-only", path, model.parameters())
    loss_of(model).backward()
    optimizer.zero_grad(to_none)
    assert optimizer.live_bytes()["gradients"] == 0
    loss_of(model, 1).backward()
    other = model_of()
    twin = make("grad-only", path, other.parameters())
    loss_of(other, 1).backward()
    optimizer.step()
    twin.step()
    assert_same_bits(optimizer, twin)


def test_a_gradient_by_hand_takes_the_place_of_the_planes(path):
    """For example, clipping reads gradient() and writes p.grad."""
    model = model_of()
    optimizer = make("grad-only", path, model.parameters())
    loss_of(model).backward()
    norm = sum(optimizer.gradient(p).float().square().sum() for p in model.parameters())
    for p in model.parameters():
        p.grad = optimizer.gradient(p) * 0.25
    twin_params = [torch.nn.Parameter(p.detach().clone()) for p in model.parameters()]
    twin = make("grad-only", path, twin_params)
    for p, q in zip(model.parameters(), twin_params):
        q.grad = p.grad.clone()
    optimizer.step()
    twin.step()
    assert norm > 0
    assert_same_bits(optimizer, twin)


def test_the_newest_optimizer_takes_the_gradient(path):
    model = model_of()
    old = make("grad-only", path, model.parameters())
    new = make("grad-only", path, model.parameters())
    loss_of(model).backward()
    assert old.live_bytes()["gradients"] == 0 < new.live_bytes()["gradients"]
    del old, new
    gc.collect()
    loss_of(model).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_failed_step_keeps_the_gradients(path):
    model = model_of()
    optimizer = make("grad-only", path, model.parameters())
    loss_of(model).backward()
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="'lr' of param group 0 is -1"):
        optimizer.step()
    assert optimizer.live_bytes()["gradients"]
    optimizer.param_groups[0]["lr"] = 1e-2
    optimizer.step()
    assert optimizer.state[next(model.parameters())]["step"] == 1


def test_sparse_gradients_in_codes(path):
    table = torch.nn.Embedding(4, 2, sparse=True).bfloat16()
    optimizer = make("grad-only", path, table.parameters())
    assert optimizer.gradient(table.weight) is None
    with pytest.raises(RuntimeError, match="gradient of parameter 0 is sparse"):
        table(torch.tensor([1])).sum().backward()


def test_loss_scaling_has_no_gradients_to_look_at(path):
    """torch raises the error; docs/Torch.md gives the remedy."""
    model = model_of()
    optimizer = make("grad-only", path, model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss_of(model)).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        scaler.step(optimizer)


#===----------------------------------------------------------------------===#
# Weights in codes, parameters in memory
#===----------------------------------------------------------------------===#


@WEIGHTS
@pytest.mark.parametrize("layout", ["transposed", "gaps", "channels_last"])
def test_layouts(name, layout, path):
    torch.manual_seed(0)
    value = {"transposed": lambda: torch.randn(70, 9).bfloat16().t(),
             "gaps": lambda: torch.randn(9, 140).bfloat16()[:, ::2],
             "channels_last": lambda: torch.randn(2, 3, 4, 5).bfloat16().to(
                 memory_format=torch.channels_last)}[layout]()
    dense = torch.empty_like(value).copy_(value)
    order = sorted(range(value.dim()), key=lambda d: -dense.stride(d))
    strided = torch.nn.Parameter(value)
    plain = torch.nn.Parameter(value.permute(order).contiguous().clone())
    ours, want = make(name, path, [strided]), make(name, path, [plain])
    for seed in range(3):
        set_gradients([strided], seed)
        plain.grad = strided.grad.permute(order).contiguous()
        ours.step()
        want.step()
    assert np.array_equal(bits(strided.permute(order)), bits(plain))
    for plane, tensor in want.state[plain].items():
        other = ours.state[strided][plane]
        if plane != "step":
            other = other.permute(order) if other.dim() == len(order) else other
            assert np.array_equal(bits(other), bits(tensor)), plane


@pytest.mark.parametrize("strategy", ["coat", "fp8-collage-plus"])
def test_groups_follow_a_change_of_layout(strategy):
    """Values stay with their elements, as far as the new groups can represent them."""
    (p,) = parameters([(4, 8, 4, 8)])
    optimizer = tt.AdamW([p], lr=1e-2, strategy=strategy, min_8bit_size=0)
    train(optimizer, range(2))
    binding = optimizer._groups.spec_of(p)
    before = values_of_state(optimizer, p)
    p.data = p.data.to(memory_format=torch.channels_last)
    train(optimizer, [2])
    steady = tt.AdamW(parameters([(4, 8, 4, 8)]), lr=1e-2, strategy=strategy,
                      min_8bit_size=0)
    train(steady, range(3))
    after, want = values_of_state(optimizer, p), values_of_state(steady, params_of(steady)[0])
    assert before.keys() == after.keys()
    for role in after:
        error = (after[role] - want[role]).norm() / want[role].norm()
        assert error < 0.08, (role, binding)


def values_of_state(optimizer, param):
    """Returns the decoded states of a parameter in C order."""
    state, weights = tt.convert_state(
        optimizer.state_dict(), [param], "fp32")
    return {"param": weights[0].detach().float().contiguous()} | {
        n: t.contiguous() for n, t in state["state"][0].items() if n != "step"}


def through_a_file(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@WEIGHTS
def test_resumes(name, path):
    optimizer = make(name, path)
    train(optimizer, range(2))
    resumed = make(name, path, [p.detach().clone().requires_grad_()
                                for p in params_of(optimizer)])
    resumed.load_state_dict(through_a_file(optimizer.state_dict()))
    train(optimizer, range(2, 4))
    train(resumed, range(2, 4))
    assert_same_bits(resumed, optimizer)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, through_a_file])
def test_copies(duplicate):
    optimizer = make("fp8-collage-plus", [])
    train(optimizer, range(2))
    twin = duplicate(optimizer)
    train(optimizer, [2])
    train(twin, [2])
    assert_same_bits(twin, optimizer)
    (p, *_) = params_of(twin)
    (p.float() ** 2).sum().backward()
    assert p.grad is None and twin.gradient(p) is not None


def test_norms_may_stay_in_float32():
    params = parameters([(40,)]) + parameters([(40,)], torch.float32)
    optimizer = make("fp8-collage-plus", [], params)
    train(optimizer, [0])
    assert "param.scale" in optimizer.state[params[0]]
    assert optimizer.state[params[1]].keys() == {"step", *(f"exp_avg{n}" for n in (
        "", ".scale", "_sq", "_sq.lo", "_sq.scale"))}
    (params[1] ** 2).sum().backward()
    assert params[1].grad is not None


def test_float16_parameters():
    name, hypers = "fp8-collage-plus", cases.hypers("adamw", lr=1e-2, weight_decay=0.01)
    (p,) = params = parameters([(300,)], torch.float16)
    optimizer, strategy = make(name, [], params), CODES[name]
    planes = initial_planes(strategy, p)
    set_gradients(params, 0)
    planes |= strategy.grad.encode("grad", value_of(p.grad), Draw())
    planes |= step("adamw", strategy, planes, hypers, 1)
    optimizer.step()
    assert_holds(optimizer, p, strategy, planes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float8_e4m3fn])
def test_refuses_types(dtype):
    with pytest.raises(TypeError, match="keeps weights that decode to torch.bfloat16 or "
                                        "torch.float16; convert it with"):
        make("fp8-collage-plus", [], [torch.nn.Parameter(torch.zeros(3).to(dtype))])


#===----------------------------------------------------------------------===#
# Weights decoded on demand
#===----------------------------------------------------------------------===#


def pair_of_models(name, path):
    """Returns two equal models and optimizers, with weights in memory and on demand."""
    models = [model_of(), model_of()]
    optimizers = [make(name, path, m.parameters()) for m in models]
    # Both start from the values of the codes.
    for optimizer in optimizers:
        hidden = optimizer._store.start_hidden()
        with torch.no_grad():
            for p in hidden:
                p.copy_(optimizer._store.decode_weight(p))
    return models, optimizers, tt.decode_weights(models[1], optimizers[1])


@WEIGHTS
def test_trains_alike(name, path):
    models, optimizers, _ = pair_of_models(name, path)
    for seed in range(4):
        losses = []
        for model, optimizer in zip(models, optimizers):
            loss = loss_of(model, seed)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        assert losses[0] == losses[1]
    for p, q in zip(*(m.parameters() for m in models)):
        assert is_placeholder(q) and q.shape == p.shape and q.requires_grad
        assert np.array_equal(bits(q), bits(p))


def test_one_layer_at_a_time():
    """Working copies exist only for the running layer, and not between passes."""
    models, optimizers, handle = pair_of_models("fp8-collage-plus", [])
    model, optimizer = models[1], optimizers[1]
    layers = [m for m in model if list(m.parameters())]
    size = {m: sum(p.nbytes for p in m.parameters()) for m in layers}
    seen = []
    for layer in layers:
        layer.register_forward_pre_hook(
            lambda m, _: seen.append((size[m], optimizer.live_bytes()["working"])))
    assert optimizer.live_bytes()["working"] == 0
    loss = loss_of(model)
    assert [want for want, _ in seen] == [got for _, got in seen]
    assert optimizer.live_bytes()["working"] == 0
    peaks = []
    hooks = [p.register_post_accumulate_grad_hook(
        lambda _: peaks.append(optimizer.live_bytes()["working"]))
        for p in model.parameters()]
    loss.backward()
    for hook in hooks:
        hook.remove()  # hooks keep the optimizer alive
    assert len(peaks) == 8 and max(peaks) <= max(p.nbytes for p in model.parameters())
    assert optimizer.live_bytes()["working"] == 0
    optimizer.step()
    assert optimizer.live_bytes()["working"] == 0
    handle.remove()
    assert optimizer.live_bytes()["working"] == sum(size.values())


def test_live_bytes():
    """Live bytes measured on a model equal the derived bytes per parameter."""
    model = torch.nn.Linear(128, 512, bias=False, dtype=torch.bfloat16)
    optimizer = make("fp8-collage-plus", [], model.parameters())
    tt.decode_weights(model, optimizer)
    model(torch.ones(2, 128, dtype=torch.bfloat16)).sum().backward()
    live, count = optimizer.live_bytes(), 128 * 512
    assert live == {"weights": 2 * count + count // 32, "working": 0,
                    "gradients": count + count // 32, "states": 3 * count + count // 16}
    assert sum(live.values()) == optimizer.bytes_per_parameter * count
    optimizer.step()
    assert optimizer.live_bytes()["gradients"] == 0


def test_live_bytes_of_ordinary_weights():
    params = parameters([(1000,)])
    optimizer = tt.AdamW(params, strategy="master-weights")
    assert optimizer.live_bytes() == {
        "weights": 2000, "working": 0, "gradients": 0, "states": 0}
    train(optimizer, [0])
    assert optimizer.live_bytes() == {
        "weights": 6000, "working": 0, "gradients": 2000, "states": 8000}


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant):
    """Activation checkpoints recompute inside our hooks."""
    models, optimizers, _ = pair_of_models("fp8-collage-plus", [])
    runs = {m: 0 for m in models}

    def run(model):
        def block(y):
            runs[model] += 1
            return model[3](model[2](model[1](y)))
        x = torch.randn(16, 24, generator=torch.Generator().manual_seed(1)).bfloat16()
        y = checkpoint(block, model[0](x), use_reentrant=reentrant)
        model[5](model[4](y)).float().square().mean().backward()

    for model, optimizer in zip(models, optimizers):
        run(model)
        optimizer.step()
    assert list(runs.values()) == [2, 2]
    for p, q in zip(*(m.parameters() for m in models)):
        assert np.array_equal(bits(optimizers[1]._store.decode_weight(q)), bits(p))


@needs_hooks_around
def test_a_checkpoint_keeps_no_activation():
    """Its hooks see the saved tensors of ours, also for modules with decoded weights."""
    model = model_of()
    optimizer = make("fp8-collage-plus", [], model.parameters())
    tt.decode_weights(model, optimizer)
    seen = []

    def block(y):
        z = model[2](y)
        seen.append(weakref.ref(z.untyped_storage()))
        return model[3](z)

    x = torch.randn(4, 48).bfloat16().requires_grad_()
    y = checkpoint(block, x, use_reentrant=False)
    assert seen[0]() is None
    y.sum().backward()
    assert len(seen) == 2 and x.grad.isfinite().all()


class Tied(torch.nn.Module):
    """A weight in two modules, a weight that is used outside of a module, and attention."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(11, 16)
        self.position = torch.nn.Parameter(torch.randn(5, 16))
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = torch.nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        y = self.embed(x) + self.position
        y = y + self.attention(y, y, y, need_weights=False)[0]
        return self.head(y)


def test_tied_and_attention():
    models = [Tied().bfloat16(), Tied().bfloat16()]
    optimizers = [make("fp8-collage-plus", [], m.parameters()) for m in models]
    for optimizer in optimizers:
        with torch.no_grad():
            for p in optimizer._store.start_hidden():
                p.copy_(optimizer._store.decode_weight(p))
    tt.decode_weights(models[1], optimizers[1])
    x = torch.tensor([[1, 2, 3, 4, 10]])
    for _ in range(2):
        outputs = []
        for model, optimizer in zip(models, optimizers):
            output = model(x)
            output.float().square().mean().backward(retain_graph=True)
            output.float().mean().backward()
            optimizer.step()
            outputs.append(output)
        assert np.array_equal(*map(bits, outputs)) and outputs[0].isfinite().all()
    with torch.no_grad():
        assert np.array_equal(*(bits(m.eval()(x)) for m in models))


def test_state_dict_of_the_model():
    models, optimizers, handle = pair_of_models("fp8-collage-plus", [])
    for optimizer in optimizers:
        train(optimizer, range(3))
    want, got = (m.state_dict() for m in models)
    assert want.keys() == got.keys()
    assert all(np.array_equal(bits(want[n]), bits(got[n])) for n in want)
    assert np.array_equal(bits(models[1][0].state_dict()["weight"]), bits(want["0.weight"]))
    models[1].load_state_dict(got)  # loading the current values changes no bit
    for p, q in zip(*(m.parameters() for m in models)):
        for name in ("param", "param.lo", "param.scale"):
            assert np.array_equal(*(bits(o.state[r][name])
                                    for o, r in zip(optimizers, (p, q))))
    other = model_of(seed=3).state_dict()
    models[1].load_state_dict(other)
    assert optimizers[1].live_bytes()["working"] == 0
    twin = make("fp8-collage-plus", [], (m := model_of(seed=3)).parameters())
    twin._store.start_hidden()
    for p, q in zip(models[1].parameters(), m.parameters()):
        for name in ("param", "param.lo", "param.scale"):
            assert np.array_equal(bits(optimizers[1].state[p][name]),
                                  bits(twin.state[q][name]))
    handle.remove()
    assert not any(p.isnan().any() for p in models[1].parameters())
    assert loss_of(models[1]).isfinite()


def test_a_failing_forward_frees_its_weights():
    model = model_of()
    optimizer = make("fp8-collage-plus", [], model.parameters())
    tt.decode_weights(model, optimizer)
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.zeros(2, 23, dtype=torch.bfloat16))
    assert optimizer.live_bytes()["working"] == 0
    assert loss_of(model).isfinite()


def test_no_graph_no_decoding():
    model = model_of()
    optimizer = make("fp8-collage-plus", [], model.parameters())
    tt.decode_weights(model, optimizer)
    with torch.no_grad():
        loss = loss_of(model)
    assert loss.isfinite() and optimizer.live_bytes()["working"] == 0


def test_several_threads_run_a_model():
    model = model_of()
    optimizer = make("fp8-collage-plus", [], model.parameters())
    tt.decode_weights(model, optimizer)
    want = [loss_of(model, seed).item() for seed in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            got = list(pool.map(lambda i: loss_of(model, i % 4).item(), range(200)))
    finally:
        sys.setswitchinterval(interval)
    assert got == want * 50
    assert optimizer.live_bytes()["working"] == 0


@needs_names
def test_a_step_between_the_passes_is_noticed():
    model = model_of()
    optimizer = make("fp8-collage-plus", [], model.named_parameters())
    tt.decode_weights(model, optimizer)
    loss = loss_of(model)
    set_gradients(model.parameters(), 0)
    optimizer.step()
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: parameter "
                                           r"\d \('[0-9a-z.]+'\) is at version"):
        loss.backward()


def test_a_graph_without_its_optimizer():
    model = model_of()
    optimizer = make("fp8-collage-plus", [], model.parameters())
    tt.decode_weights(model, optimizer)
    loss = loss_of(model)
    del model, optimizer
    gc.collect()
    with pytest.raises(RuntimeError, match="optimizer that holds the weights of this graph"):
        loss.backward()


EXIT = """
import torch, tandem.torch
model = torch.nn.Linear(8, 8).bfloat16()
optimizer = tandem.torch.AdamW(model.parameters(), strategy="fp8-collage-plus")
decoded = tandem.torch.decode_weights(model, optimizer)
loss = model(torch.ones(2, 8).bfloat16()).sum()
loss.backward(retain_graph=True)
optimizer.step()
"""


def test_nothing_is_left_at_exit():
    """Neither graphs nor hooks keep a kernel alive; the extension would report leaks."""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", EXIT], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_decoding_messages(path):
    model = model_of()
    ordinary = tt.AdamW(model.parameters())
    with pytest.raises(ValueError, match="no parameter of the model is decoded under "
                                         "strategy 'flash-f16'"):
        tt.decode_weights(model, ordinary)
    optimizer = make("fp8-collage-plus", [], model.parameters())
    with pytest.raises(ValueError, match="no parameter of the model is decoded"):
        tt.decode_weights(model_of(), optimizer)
    handle = tt.decode_weights(model, optimizer)
    with pytest.raises(ValueError, match="decoded on demand already; remove"):
        tt.decode_weights(model, optimizer)
    with pytest.raises(TypeError, match="can be neither copied nor pickled"):
        copy.deepcopy(model)
    optimizer.state.pop(next(model.parameters()))
    set_gradients(model.parameters(), 0)
    with pytest.raises(RuntimeError, match="only in its state, which is gone"):
        optimizer.step()
    with pytest.raises(ValueError, match="state of parameter 0 lacks"):
        loss_of(model)
    with pytest.raises(ValueError, match="state of parameter 0 lacks"):
        handle.remove()


def test_a_write_stays_with_its_parameter():
    """Parameters with coded weights do not share decoded values."""
    first, second = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    for param in (first, second):
        param.data = placeholder(param)
    with torch.no_grad():
        first.fill_(1)
    assert second.isnan().all() and is_placeholder(first) and is_placeholder(second)
    second.data = torch.ones(3)
    assert not is_placeholder(second)
