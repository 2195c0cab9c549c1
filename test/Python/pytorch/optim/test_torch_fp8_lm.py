#===- test_torch_fp8_lm.py - FP8-LM's levels -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests fp8_lm: what it converts and refuses, the states of each level, sums over ranks,
# and training.
#
#===----------------------------------------------------------------------===#

import copy

import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from support.thread_ranks import Threads, one_rank
from tandem.torch import nn

pytestmark = [pytest.mark.filterwarnings("ignore:.*stores gradients in codes"),
              pytest.mark.filterwarnings("ignore:.*backward passes take the steps")]

F32, F16, E4M3 = torch.float32, torch.float16, torch.float8_e4m3fn
WORDS = 40


class Layer(torch.nn.Module):
    """A norm and a block with a residual connection."""

    def __init__(self, size):
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)
        self.up = torch.nn.Linear(size, 2 * size)
        self.act = torch.nn.SiLU()
        self.down = torch.nn.Linear(2 * size, size)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Model(torch.nn.Module):
    """Predicts the next token."""

    def __init__(self, size=32):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, size)
        self.layers = torch.nn.ModuleList([Layer(size), Layer(size)])
        self.lm_head = torch.nn.Linear(size, WORDS, bias=False)

    def forward(self, words):
        x = self.words(words)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


def make(dtype=torch.bfloat16, **options):
    torch.manual_seed(0)
    return Model(**options).to(dtype)


def loss_of(model, seed):
    words = torch.randint(WORDS, (64,), generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.cross_entropy(model(words).float(), (7 * words + 3) % WORDS)


def train(model, optimizer, steps):
    losses = []
    for seed in range(steps):
        loss = loss_of(model, seed)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def names_of(model, params):
    known = {id(p): name for name, p in model.named_parameters()}
    return [known[id(p)] for p in params]


#===----------------------------------------------------------------------===#
# Levels
#===----------------------------------------------------------------------===#

STATES = {
    "O1": {"param": F16, "param.scale": F32, "exp_avg": F32, "exp_avg_sq": F32},
    "O2": {"param": F16, "param.scale": F32, "exp_avg": E4M3, "exp_avg.scale": F32,
           "exp_avg_sq": F16, "exp_avg_sq.scale": F32},
}


@pytest.mark.parametrize("level", STATES)
def test_levels(level):
    model = make()
    optimizer = tt.fp8_lm(model, level, lr=1e-3, exclude=["lm_head"], min_8bit_size=0)
    linears = [f"layers.{i}.{name}" for i in range(2) for name in ("up", "down")]
    assert list(optimizer.converted.swapped) == linears and not optimizer.converted.left
    assert {name for name, m in model.named_modules() if isinstance(m, nn.Linear)} == set(linears)
    assert all(m.products == "fp8" and m.recipe == "te-current" and m._label == name
               for name, m in model.named_modules() if isinstance(m, nn.Linear))
    assert type(model.lm_head) is torch.nn.Linear and type(model.layers[0].act) is torch.nn.SiLU
    weights, others = (names_of(model, g["params"]) for g in optimizer.param_groups)
    assert weights == [f"{name}.weight" for name in linears]
    assert sorted(weights + others) == sorted(n for n, _ in model.named_parameters())
    loss_of(model, 0).backward()
    gradient = optimizer.gradient(model.layers[0].up.weight)
    assert model.layers[0].up.weight.grad is None and gradient.isfinite().all()
    optimizer.step()
    state = optimizer.state[model.layers[0].up.weight]
    assert {k: v.dtype for k, v in state.items() if k != "step"} == STATES[level]
    wide = optimizer.state[model.words.weight]
    assert wide["exp_avg"].dtype is F32 and wide["exp_avg_sq"].dtype is F32


@pytest.mark.parametrize("level, count", (("O1", 11), ("O2", 6)))
def test_bytes(level, count):
    model = torch.nn.Sequential(torch.nn.Linear(512, 512, bias=False)).bfloat16()
    optimizer = tt.fp8_lm(model, level, lr=1e-3)
    assert optimizer.bytes_per_parameter == pytest.approx(count, abs=1e-3)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_types_of_other_parameters(dtype):
    """Norms may be f32 between layers that encode f32 inputs and return f32."""
    model = make(dtype)
    for layer in model.layers:
        layer.norm.float()
    model.words.float()
    model.lm_head.float()
    optimizer = tt.fp8_lm(model, "O2", lr=1e-2, exclude=["lm_head"])
    narrow = "master-weights" if dtype is torch.bfloat16 else "f16-master-weights"
    assert [g["strategy"] for g in optimizer.param_groups] == ["fp8-lm", "fp32", narrow]
    losses = train(model, optimizer, 3)
    assert losses[2] < losses[0]


def test_options_are_those_of_adamw():
    optimizer = tt.fp8_lm(make(), "O1", lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1,
                          decay="before")
    for group in optimizer.param_groups:
        assert group["lr"] == 3e-4 and group["betas"] == (0.9, 0.95)
        assert group["weight_decay"] == 0.1
    assert optimizer.kernel.name == "adamw_decay_before"


@pytest.mark.parametrize("level", STATES)
@pytest.mark.parametrize("options", ({"gradient_release": True}, {"max_norm": 0.5}), ids=str)
def test_options_that_change_a_step(level, options):
    model = make()
    optimizer = tt.fp8_lm(model, level, lr=1e-2, **options)
    losses = train(model, optimizer, 4)
    assert losses[3] < losses[0]
    if "max_norm" in options:
        model.layers[0].norm.float()
        with pytest.raises(ValueError, match="max_norm takes parameters of one type, .* the model "
                           "has torch.bfloat16, torch.float32: convert"):
            tt.fp8_lm(model, level, lr=1e-2, **options)
    else:
        with pytest.raises(ValueError, match="create the optimizer without gradient_release"):
            tt.fp8_lm(make(), level, lr=1e-2, ranks=one_rank(), **options)


def test_a_model_that_was_compressed_before():
    model = make()
    tt.compress_activations(model, "coat-fp8")
    optimizer = tt.fp8_lm(model, "O2", lr=1e-3, recipe="coat-fp8", strict=True)
    assert len(optimizer.converted.swapped) == 5
    assert model.layers[0].act.recipe == model.layers[0].up.recipe == "coat-fp8"
    assert model.layers[0].up.products == "fp8" and model.layers[0].up.strict
    train(model, optimizer, 1)
    single = nn.Linear(64, 64, dtype=torch.bfloat16)
    assert tt.fp8_lm(single, lr=1e-3).converted.swapped == {
        "(the model)": "Linear under coat, bf16 products -> "
        "Linear under te-current, fp8 products"}


def test_shared_modules_and_weights():
    shared = torch.nn.Linear(64, 64)
    model = torch.nn.ModuleDict({"a": shared, "b": shared, "c": torch.nn.Linear(64, 64)})
    model.bfloat16()["c"].weight = shared.weight
    optimizer = tt.fp8_lm(model, "O2", lr=1e-3)
    assert model["a"] is model["b"] and isinstance(model["a"], nn.Linear)
    assert len(optimizer.param_groups[0]["params"]) == 1


def test_frozen_weights():
    model = make()
    model.layers[0].requires_grad_(False)
    optimizer = tt.fp8_lm(model, "O2", lr=1e-3, exclude=["lm_head"])
    assert names_of(model, optimizer.param_groups[0]["params"]) == [
        "layers.1.up.weight", "layers.1.down.weight"]
    assert isinstance(model.layers[0].up, nn.Linear)
    train(model, optimizer, 1)


#===----------------------------------------------------------------------===#
# Excluded layers
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("exclude, left", (
    (["lm_head"], 4), (["layers.0"], 3), (["layers.*.up"], 3), (["*.down", "lm_head"], 2),
    (["layers.[01].up", "layers.1"], 2), ((), 5)))
def test_exclude(exclude, left):
    optimizer = tt.fp8_lm(make(), "O2", lr=1e-3, exclude=exclude)
    assert len(optimizer.converted.swapped) == left


@pytest.mark.parametrize("pattern, near", (
    ("lm_heat", "'lm_head'"), ("up", "'layers.0.up', 'layers.1.up'"), ("layers.2", "'layers.0'"),
    ("norm", "'layers.0.up', 'layers.0.down', 'layers.1.up', 'layers.1.down', 'lm_head'")))
def test_a_pattern_without_a_match(pattern, near):
    with pytest.raises(ValueError) as refusal:
        tt.fp8_lm(make(), "O2", lr=1e-3, exclude=["lm_head", pattern])
    start, names = str(refusal.value).split("; near names are ")
    assert start == (f"exclude has {pattern!r}, which is not a linear layer of the model, nor a "
                     "module with one")
    assert near in names


#===----------------------------------------------------------------------===#
# Refusals
#===----------------------------------------------------------------------===#


class Scaled(torch.nn.Linear):
    """A linear layer that computes something additional."""

    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize("options, why", (
    ({"level": "O4"}, "level is 'O1', 'O2' or 'O3', got 'O4'"),
    ({"recipe": "te-currant"}, "unknown recipe 'te-currant'"),
    ({"recipe": "mxfp8"}, "takes a recipe that keeps inputs of linear layers in E4M3"),
    ({"strategy": "coat"}, "fp8_lm takes no strategy, since a level is one"),
    ({"exclude": ["*"]}, "exclude leaves no linear layer"),
    ({"lr": -1}, "lr")))
def test_refused_calls_leave_the_model(options, why):
    model = make()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=why):
        tt.fp8_lm(model, **{"level": "O2", "lr": 1e-3} | options)
    assert not any(isinstance(m, nn.Linear) for m in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values()))


def test_refused_models():
    with pytest.raises(TypeError, match=r"such as \['lm_head'\], not one string"):
        tt.fp8_lm(make(), exclude="lm_head")
    with pytest.raises(ValueError, match="layers.0.up cannot be converted: its weight is "
                       "torch.float32, and FP8-LM's are half precision.*or add 'layers.0.up'"):
        tt.fp8_lm(make(F32))
    with pytest.raises(ValueError, match="the model cannot be converted: it is a linear layer "
                       "itself, .*; change that$"):
        tt.fp8_lm(torch.nn.Linear(8, 8).bfloat16())
    with pytest.raises(ValueError, match="LayerNorm has no linear layer"):
        tt.fp8_lm(torch.nn.LayerNorm(8))
    model = make()
    model.layers[1].down = Scaled(64, 32).bfloat16()
    with pytest.raises(ValueError, match="layers.1.down cannot be converted: "):
        tt.fp8_lm(model)
    model = make()
    model.layers[1].up.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="layers.1.up cannot be converted: it has hooks|hooks"):
        tt.fp8_lm(model)
    model = make().requires_grad_(False)
    with pytest.raises(ValueError, match="no weight of the layers to be converted requires"):
        tt.fp8_lm(model)
    model = make()
    model.words.double()
    with pytest.raises(TypeError, match="words.weight is torch.float64"):
        tt.fp8_lm(model)


#===----------------------------------------------------------------------===#
# Ranks
#===----------------------------------------------------------------------===#


def test_steps_begin_with_a_sum_over_ranks():
    models = [(make(), make()) for _ in range(2)]

    def train(rank):
        torch.set_num_threads(1)
        one, other = models[rank.rank]
        options = {"level": "O2", "lr": 1e-3, "min_8bit_size": 0}
        optimizer = tt.fp8_lm(one, ranks=rank, **options)
        plain = tt.fp8_lm(other, **options)
        reduce = tt.GradientAllReduce(plain, rank, tt.AutomaticScaling())
        for seed in range(3):
            loss_of(one, seed).backward()
            loss_of(other, seed).backward()
            reduce()
            plain.step()
            optimizer.step()
            optimizer.zero_grad()
            plain.zero_grad()
            assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))
        assert plain.all_reduce is None and reduce.saturated > 0
        assert optimizer.all_reduce.state_dict() == reduce.state_dict() != {}

    Threads(2).run(train)


def test_a_closure_comes_before_the_sum():
    model, other = make(), make()
    options = {"level": "O1", "lr": 1e-3, "ranks": one_rank(), "min_8bit_size": 0}
    optimizer, plain = tt.fp8_lm(model, **options), tt.fp8_lm(other, **options)

    def closure():
        loss = loss_of(model, 0)
        loss.backward()
        return loss

    loss_of(other, 0).backward()
    plain.step()
    assert optimizer.step(closure).isfinite()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))


def test_ranks_of_torch_distributed():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0,
                                         world_size=1)
    try:
        model = make()
        optimizer = tt.fp8_lm(model, "O2", lr=1e-2, min_8bit_size=0)
        losses = train(model, optimizer, 3)
    finally:
        torch.distributed.destroy_process_group()
    assert losses[2] < losses[0] and optimizer.all_reduce.scaling.mu < 1


#===----------------------------------------------------------------------===#
# Training
#===----------------------------------------------------------------------===#


@pytest.fixture(scope="module")
def reference():
    """Returns the final losses of training in bf16, with f32 master weights and states."""
    model = make()
    optimizer = tt.AdamW(model.parameters(), lr=3e-3, strategy="master-weights")
    return sum(train(model, optimizer, 60)[-10:]) / 10


@pytest.mark.parametrize("exclude", ([], ["lm_head"]))
@pytest.mark.parametrize("level", STATES)
def test_training(level, exclude, reference):
    model = make()
    optimizer = tt.fp8_lm(model, level, lr=3e-3, exclude=exclude, min_8bit_size=0)
    losses = train(model, optimizer, 60)
    assert sum(losses[-10:]) / 10 < min(1.5 * reference + 0.05, 0.3 * losses[0])


@pytest.mark.parametrize("level", STATES)
def test_checkpoints(level):
    """A run resumed from a checkpoint has the bits of an uninterrupted one."""
    model = make()
    optimizer = tt.fp8_lm(model, level, lr=3e-3, min_8bit_size=0)
    train(model, optimizer, 2)
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, optimizer, 2)
    again = make()
    resumed = tt.fp8_lm(again, level, lr=3e-3, min_8bit_size=0)
    again.load_state_dict(kept[0])
    resumed.load_state_dict(kept[1])
    train(again, resumed, 2)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters()))
