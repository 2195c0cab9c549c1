#===- test_torch_recommend.py - Strategies that are chosen -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.recommend and strategy="auto".
#
#===----------------------------------------------------------------------===#

import pickle
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tandem.torch as tt  # noqa: E402
from support.torch_needs import needs_dtensors, needs_names  # noqa: E402
from tandem.torch.optim.advice._kinds import KINDS  # noqa: E402
from tandem.torch.optim.advice._measured import measured  # noqa: E402
from tandem.torch.optim.advice._memory import Footprints, in_bytes, text_of  # noqa: E402
from tandem.torch.optim.advice._recommend import TOLERANCE, Search  # noqa: E402
from tandem.torch.optim.advice._roles import describe  # noqa: E402

GIB = 1 << 30
#: Bytes per parameter of the model below, from more than it can use to nearly the minimum.
BUDGETS = (100, 13, 9, 8, 7, 6.8)


class Model(torch.nn.Module):
    """A model with at least one parameter of each role, and rows that no group size divides."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(130, 96)
        self.position = torch.nn.Embedding(10, 96)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({"norm": torch.nn.LayerNorm(96), "up": torch.nn.Linear(96, 300),
                                 "output": torch.nn.Linear(300, 96)}) for _ in range(2))
        self.lm_head = torch.nn.Linear(96, 130, bias=False)

    def forward(self, at):
        x = self.embed(at) + self.position(at % 10)
        for layer in self.layers:
            x = x + layer["output"](layer["up"](layer["norm"](x)).relu())
        return self.lm_head(x)


def make(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return Model().to(dtype)


def elements(model):
    return sum(p.numel() for p in model.parameters())


def backward(model, step=0):
    generator = torch.Generator().manual_seed(step)
    at = torch.randint(130, (4, 8), generator=generator)
    model(at).float().square().mean().backward()


def train(model, optimizer, steps=2):
    for step in range(steps):
        backward(model, step)
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([p.detach().float().flatten() for p in model.parameters()])


def names_of(found):
    return {choice.role: choice.strategy for choice in found.choices}

#===----------------------------------------------------------------------===#
# Amounts of memory
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize(("memory", "count"), (
    ("24GiB", 24 * GIB), (" 1.5 gib ", 3 * GIB // 2), ("2TB", 2 * 10**12), ("10 kB", 10000),
    ("7B", 7), (100, 100), (2.5e9, 2500000000)))
def test_amounts(memory, count):
    assert in_bytes(memory) == count


@pytest.mark.parametrize("memory", ("24", "24G", "GiB", "", "1 2 GiB", "24 gallons", "nanGiB",
                                    "infB", "-1GiB", 0, -5, float("nan"), float("inf")))
def test_amounts_that_are_none(memory):
    with pytest.raises(ValueError, match="memory"):
        in_bytes(memory)


@pytest.mark.parametrize("memory", (None, True, [24], b"24GiB"))
def test_memory_of_other_types(memory):
    with pytest.raises(TypeError, match="memory must be a number of bytes or a text"):
        in_bytes(memory)


@pytest.mark.parametrize("count", (1, 1023, 1024, 999999, 5 * GIB // 3, 7 << 40))
def test_texts_suffice(count):
    assert count <= in_bytes(text_of(count)) <= 1.01 * count + 1

#===----------------------------------------------------------------------===#
# Roles
#===----------------------------------------------------------------------===#


def test_roles_of_a_module():
    roles = {tensor.name: tensor.role for tensor in describe(make())}
    assert roles["embed.weight"] == "embeddings" and roles["lm_head.weight"] == "head"
    assert roles["position.weight"] == "small tensors"
    assert roles["layers.0.norm.weight"] == roles["layers.1.up.bias"] == "norms and biases"
    # The output projection of a layer is not a head.
    assert roles["layers.0.up.weight"] == roles["layers.0.output.weight"] == "matrices"


@pytest.mark.parametrize(("name", "role"), (
    ("model.embed_tokens.weight", "embeddings"), ("transformer.wte.weight", "embeddings"),
    ("lm_head.weight", "head"), ("gpt_neox.embed_out.weight", "head"),
    ("model.layers.3.mlp.up_proj.weight", "matrices"),
    ("encoder.layer.0.attention.output.dense.weight", "matrices"),
    ("output.weight", "head"), ("layers.0.embedding_norm.weight", "embeddings")))
def test_roles_of_names(name, role):
    assert describe({name: (64, 64)})[0].role == role
    assert describe({name: (64,)})[0].role == "norms and biases"
    assert describe({name: (8, 8)})[0].role == "small tensors"


def test_a_tied_head_is_an_embedding():
    model = make()
    model.lm_head.weight = model.embed.weight
    assert "head" not in {tensor.role for tensor in describe(model)}


def test_inputs_that_say_the_same():
    model, meta = make(), None
    with torch.device("meta"):
        meta = Model().bfloat16()
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    wanted = tt.recommend(model, "1GiB")
    for other in (meta, model.named_parameters(), dict(model.named_parameters()), shapes):
        assert tt.recommend(other, "1GiB") == wanted


def test_modules_say_what_names_do_not():
    model = torch.nn.Sequential(torch.nn.Embedding(200, 64)).bfloat16()
    assert describe(model)[0].role == "embeddings"
    assert describe(model.named_parameters())[0].role == "matrices"


class LlamaConfig:
    """Represents a configuration of transformers."""

    def to_dict(self):
        return {}


@pytest.mark.parametrize(("model", "message"), (
    (LlamaConfig(), "of type LlamaConfig does not say which parameters there are; make the model"),
    ({"hidden_size": 64}, "'hidden_size' must have a shape"),
    ({"w": np.ones((2, 2))}, "'w' must have a shape, as (4096, 1024), or a tensor, got an array"),
    (7, "a value of type int is not a model; pass a torch.nn.Module"),
    ("llama", "of type str is not a model"),
    ([torch.zeros(4)], "without names does not say which are embeddings; pass the model"),
    ([("a", "b")], "'a' must have a shape"), (torch.zeros(3), "of type Tensor is not a model"),
    ({"w": torch.zeros(64, 64, dtype=torch.float16, requires_grad=True)},
     "'w' is torch.float16, for which no errors were measured")))
def test_what_is_no_model(model, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        tt.recommend(model, "1GiB")

#===----------------------------------------------------------------------===#
# Recommendations
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32))
@pytest.mark.parametrize("budget", (100, 9, 6.8))
def test_bytes_are_those_in_memory(budget, dtype):
    """Bytes match memory for each role of a model, and in total."""
    model = make(dtype)
    budget += 4 if dtype == torch.float32 and budget < 100 else 0
    found = tt.recommend(model, budget * elements(model), codes=False)
    assert found.bytes.total <= budget * elements(model)
    optimizer = tt.AdamW(found.param_groups(model))
    train(model, optimizer, 1)
    backward(model)
    live = optimizer.live_bytes()
    assert found.bytes.working == live["working"] == 0
    assert [found.bytes.weights, found.bytes.gradients, found.bytes.states] == [
        live["weights"], live["gradients"], live["states"]]


@pytest.mark.filterwarnings("ignore:strategy 'dither-softsign-root' stores gradients in codes")
def test_codes_are_taken_where_nothing_else_fits():
    """Codes are chosen only if no other strategy fits, with their bytes for weights decoded on
    demand."""
    model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(8))).bfloat16()
    plain = tt.recommend(model, 6.6 * elements(model))
    found = tt.recommend(model, 5.95 * elements(model))
    assert names_of(plain)["matrices"] == "coat-bf16" and not plain.notes
    assert names_of(found)["matrices"] == "dither-softsign-root"
    assert "Weights are codes" in str(found) and "decode_weights" in found.code
    names = {"model": model, "tandem": __import__("tandem")}
    exec(found.code, names)
    optimizer = names["optimizer"]
    for step in range(2):
        optimizer.step() if step else None
        model(torch.ones(1, 128, dtype=torch.bfloat16)).sum().backward()
    live = optimizer.live_bytes()
    assert [found.bytes.weights, found.bytes.gradients, found.bytes.states] == [
        live["weights"], live["gradients"], live["states"]]
    assert found.bytes.working == 2 * 2 * 128 * 128 and live["working"] == 0
    names["decoded"].remove()


def test_moments_of_four_bits_are_taken_where_nothing_else_fits():
    """Without codes they are the next choice, and with codes the last one."""
    model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(32))).bfloat16()
    budget = 5.75 * elements(model)
    with_codes, found = (tt.recommend(model, budget, codes=codes) for codes in (True, False))
    assert names_of(with_codes)["matrices"] == "dither-softsign-root"
    assert not with_codes.stores_ratio and "stores_ratio" not in str(with_codes)
    assert names_of(found)["matrices"] == "dither-ratio4" and found.stores_ratio
    assert 0.1 < found.error < 0.25 and "Moments have four bits" in str(found)
    names = {"model": model, "tandem": __import__("tandem")}
    exec(found.code, names)
    model(torch.ones(1, 128, dtype=torch.bfloat16)).sum().backward()
    names["optimizer"].step()
    live = names["optimizer"].live_bytes()
    assert [found.bytes.weights, found.bytes.gradients, found.bytes.states] == [
        live["weights"], live["gradients"], live["states"]]
    assert names["optimizer"].kernel.name == "adamw_ratio"
    last = tt.recommend({f"w{i}": (512, 512) for i in range(64)}, 4.4 * 64 * 512 * 512)
    assert names_of(last)["matrices"] == "coded-ratio4" and "decode_weights" in last.code
    for options in ({"optimizer": "Adam"}, {"optimizer": "LAMB"}):
        with pytest.raises(ValueError, match="too little memory"):
            tt.recommend(model, budget, codes=False, **options)
    with pytest.raises(ValueError, match="the least is .* under dither-ratio4, remainder"):
        tt.recommend(model, 4 * elements(model), codes=False)


def test_types_within_a_role():
    """Under the same strategy, a float32 matrix among others has different bytes."""
    model = make()
    model.layers[0]["up"].weight.data = model.layers[0]["up"].weight.data.float()
    found = tt.recommend(model, "1GiB", codes=False)
    assert names_of(found)["matrices"] == "remainder" and found.error < 1e-5
    assert found.bytes.total == tt.recommend(make(), "1GiB").bytes.total + 2 * 96 * 300
    matrix = tt.recommend({"w": torch.zeros(64, 64, requires_grad=True)}, "1GiB")
    assert names_of(matrix) == {"matrices": "fp32"} and matrix.bytes.total == 16 * 64 * 64


@pytest.mark.parametrize("codes", (False, True))
def test_the_least(codes):
    model = make()
    with pytest.raises(ValueError, match="1000 B is too little memory .* the least is") as error:
        tt.recommend(model, 1000, codes=codes)
    least = int(re.search(r"\((\d+) bytes\)", str(error.value))[1])
    assert tt.recommend(model, least, codes=codes).bytes.total == least
    with pytest.raises(ValueError, match=f"{least} bytes"):
        tt.recommend(model, least - 1, codes=codes)


def test_released_gradients_take_less():
    model = make()
    kept, released = (tt.recommend(model, "1GiB", gradient_release=of) for of in (False, True))
    assert released.bytes.gradients == 0 < kept.bytes.gradients
    assert released.bytes.working == 2 * 300 * 96
    assert "56.3 KiB more are for the largest tensor" in str(released)
    assert "gradient_release=True)" in released.code
    with pytest.raises(ValueError, match="the least is.*with more ranks of fully_shard$"):
        tt.recommend(model, 1000, gradient_release=True)


@pytest.mark.parametrize("beta2", (0.9, 0.95, 0.97, 0.99, 0.999, 0.9995))
def test_choices_follow_and_are_the_best(beta2):
    """No other combination that fits has a much smaller error, and less memory never reduces the
    error."""
    model, errors = make(), []
    for budget in BUDGETS:
        memory = int(budget * elements(model))
        found = tt.recommend(model, memory, betas=(0.9, beta2), codes=False)
        errors.append(found.error)
        search = Search(describe(model), [beta2], 0, Footprints(), "AdamW")
        fitting = [search._error(names) for names in search._combinations(0)
                   if search._nominal(names) <= 0.99 * memory]
        assert found.error <= TOLERANCE * min(fitting)
        assert all(choice.follows for choice in found.choices)
        near = [key for key in measured()["bf16"].follows if abs(float(key) - beta2) < 1e-4]
        assert all(measured()[choice.strategy].follows[key]
                   for choice in found.choices for key in near)
    assert errors == sorted(errors)


def test_a_smaller_beta2_lets_more_strategies_follow():
    model = torch.nn.Linear(1024, 1024, bias=False).bfloat16()
    memory = 11 * elements(model)
    assert names_of(tt.recommend(model, memory, betas=(0.9, 0.95)))["matrices"] == (
        "collage-light-f32")
    assert names_of(tt.recommend(model, memory))["matrices"] == "flash-f16"


def test_embeddings_and_heads_have_no_fewer_bytes_than_matrices():
    model = make()
    order = {name: of.weights + of.gradients + of.states for name, of in measured().items()}
    for budget in BUDGETS:
        names = names_of(tt.recommend(model, budget * elements(model)))
        assert min(order[names["embeddings"]], order[names["head"]]) >= order[names["matrices"]]


@needs_dtensors
def test_more_ranks_need_less_of_each():
    model = make()
    one, four = (tt.recommend(model, "1GiB", ranks=ranks) for ranks in (1, 4))
    assert one.bytes.total / 4 < four.bytes.total < one.bytes.total / 3
    assert "on each rank" in str(four) and "# after fully_shard(model), over 4 ranks" in four.code
    with pytest.raises(ValueError, match="the least on each of 4 ranks is"):
        tt.recommend(model, 1000, ranks=4)
    with pytest.raises(ValueError, match="'scale' is a scalar, which fully_shard does not"):
        tt.recommend({"scale": ()}, "1GiB", ranks=4)


def test_what_is_frozen_counts():
    model = make()
    model.embed.weight.requires_grad_(False)
    found = tt.recommend(model, "1GiB")
    frozen = found.choices[-1]
    assert (frozen.role, frozen.strategy, frozen.bytes.total) == ("frozen", None, 2 * 130 * 96)
    assert "embeddings" not in found.strategies
    for param in model.parameters():
        param.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameters that need a gradient"):
        tt.recommend(model, "1GiB")


def test_text():
    model = make()
    text = str(tt.recommend(model, "1GiB", betas=(0.8, 0.99)))
    assert "of 1 GiB for weights, gradients and states" in text
    assert re.search(r"^embeddings +remainder +1\.248e\+04 .* yes +3\.7e-06", text, re.MULTILINE)
    assert "Measured is beta1 = 0.9, not 0.8." in text and "betas=(0.8, 0.99)" in text


@pytest.mark.parametrize(("options", "kind", "message"), (
    ({"ranks": 0}, ValueError, "ranks must be a whole number of at least 1, got 0"),
    ({"ranks": True}, ValueError, "ranks must be"), ({"ranks": 1.5}, ValueError, "ranks must be"),
    ({"betas": 0.9}, TypeError, "betas must be two numbers, got 0.9"),
    ({"betas": (0.9, 1.0)}, ValueError, "betas must be numbers from 0 to below 1"),
    ({"betas": (0.9, "x")}, ValueError, "betas must be numbers"),
    ({"betas": (0.9, 0.99999)}, ValueError, "beyond the measurements, which end at 0.9999")))
def test_arguments_out_of_their_domain(options, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        tt.recommend({"w": (64, 64)}, "1GiB", **options)


@pytest.mark.parametrize(("strategies", "message"), (
    ({"matrix": "coat"}, "there is no role 'matrix'; roles are matrices, embeddings"),
    ({"matrices": "coat"}, "the model has embeddings, which strategies lacks")))
def test_groups_of_other_roles(strategies, message):
    with pytest.raises(ValueError, match=message):
        tt.param_groups(make(), strategies)


def test_groups_of_shapes():
    with pytest.raises(TypeError, match="'w' is a shape, and no parameter; pass the model"):
        tt.param_groups({"w": (64, 64)}, {"matrices": "coat"})

#===----------------------------------------------------------------------===#
# strategy="auto"
#===----------------------------------------------------------------------===#


@needs_names
@pytest.mark.parametrize("budget", (8, 100))
def test_auto_is_what_is_recommended(budget):
    model, other = make(), make()
    memory = budget * elements(model)
    auto = tt.AdamW(model.named_parameters(), lr=1e-2, strategy="auto", memory=memory)
    found = tt.recommend(other, memory)
    named = tt.AdamW(found.param_groups(other), lr=1e-2)
    assert [group["strategy"] for group in auto.param_groups] == [
        group["strategy"] for group in named.param_groups]
    assert auto.recommendation.bytes == found.bytes
    assert torch.equal(train(model, auto), train(other, named))
    copy = pickle.loads(pickle.dumps(auto))
    assert copy.recommendation is None and repr(copy) == repr(auto)


def test_auto_without_names():
    """Without names, all large parameters have one strategy, and the text says so."""
    model = make()
    optimizer = tt.AdamW(model.parameters(), strategy="auto", memory=8 * elements(model))
    names = optimizer.recommendation.strategies
    assert set(names) == {"matrices", "norms and biases", "small tensors"}
    assert "embeddings and the head cannot be told" in str(optimizer.recommendation)
    assert optimizer.strategy == names["matrices"]
    train(model, optimizer)


def test_auto_keeps_param_groups_apart():
    model = make()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = tt.AdamW([{"params": decayed, "weight_decay": 0.5},
                          {"params": rest, "weight_decay": 0.0, "lr": 0.1}],
                         strategy="auto", memory="1GiB")
    groups = [(len(group["params"]), group["weight_decay"], group["lr"] == 0.1)
              for group in optimizer.param_groups]
    assert groups == [(6, 0.5, False), (1, 0.5, False), (8, 0.0, True)]


def test_auto_obeys_each_groups_betas():
    layers = [torch.nn.Linear(1024, 1024, bias=False).bfloat16() for _ in range(2)]
    memory = 11 * sum(map(elements, layers))
    groups = [{"params": layers[0].parameters(), "betas": (0.9, 0.999)},
              {"params": layers[1].parameters()}]
    optimizer = tt.AdamW(groups, betas=(0.9, 0.95), strategy="auto", memory=memory)
    assert {group["strategy"] for group in optimizer.param_groups} == {"flash-f16"}


@pytest.mark.parametrize(("options", "kind", "message"), (
    ({}, TypeError, "strategy='auto' needs memory="),
    ({"memory": 10}, ValueError, "too little memory"),
    ({"memory": "1GiB", "max_norm": 1.0}, ValueError, "takes one strategy for all"),
    ({"memory": "1GiB", "path": ["."]}, ValueError, "among the library's strategies"),
    ({"memory": "1GiB", "strategy": "coat"}, TypeError, "pass both or neither"),
    ({"memory": "1GiB", "betas": (0.9, 0.99999)}, ValueError, "beyond the measurements")))
def test_auto_refuses(options, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        tt.AdamW(make().parameters(), **{"strategy": "auto", **options})


@pytest.mark.parametrize(("params", "kind", "message"), (
    ([], ValueError, "got no parameters"), (torch.zeros(3), TypeError, "got a Tensor"),
    ([3], TypeError, "takes tensors, got a int"), (7, TypeError, "got a int"),
    ([{"params": [torch.zeros(64, 64, requires_grad=True)], "strategy": "coat"}], ValueError,
     "param group 0 has strategy='coat' beside strategy='auto'"),
    ([{"params": []}, 3], TypeError, "param groups must all be dicts")))
def test_auto_refuses_params(params, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        tt.AdamW(params, strategy="auto", memory="1GiB")


@pytest.mark.parametrize("kind", (tt.LAMB, tt.SGD, tt.Lion, tt.RMSprop, tt.Adagrad, tt.Adafactor))
def test_auto_is_of_what_was_measured(kind):
    with pytest.raises(ValueError, match=f"does not choose for {kind.__name__}: .* only under AdamW "
                                         "and Adam; name a strategy, such as 'remainder'.*"
                                         rf"recommend\(.*optimizer='{kind.__name__}'\) says"):
        kind(make().parameters(), strategy="auto", memory="1GiB")


def test_auto_is_no_strategy():
    """Optimizers of arbitrary graphs, groups and conversions require a named strategy."""
    with pytest.raises(ValueError, match="does not choose for Optimizer: .*docs/Following.md"):
        tt.Optimizer(make().parameters(), "lion", "auto")
    groups = [{"params": make().parameters(), "strategy": "auto"}]
    with pytest.raises(ValueError, match="strategy of param group 0 is 'auto', which AdamW and Adam"):
        tt.Lion(groups)
    optimizer = tt.Lion(make().parameters())
    with pytest.raises(ValueError, match="strategy of param group 0 is 'auto', .* name one here"):
        tt.convert_state(optimizer.state_dict(), make().parameters(), "auto")


def test_auto_of_adam():
    """Adam has the choices of AdamW and prints code for Adam."""
    found = tt.recommend(make(), "1MiB", optimizer="Adam")
    assert found.strategies == tt.recommend(make(), "1MiB").strategies
    assert "optimizer = tandem.torch.Adam(groups, lr=1e-3" in found.code
    optimizer = tt.Adam(make().parameters(), strategy="auto", memory="1MiB")
    assert optimizer.recommendation.optimizer == "Adam"
    with pytest.raises(ValueError, match="too little memory for Adam over"):
        tt.Adam(make().parameters(), strategy="auto", memory=10)
    with pytest.raises(TypeError, match="pass both or neither"):
        tt.Adam(make().parameters(), memory="1MiB")


@pytest.mark.parametrize("strategy", ("fp32", "collage-plus", "adam8bit"))
def test_adam_is_adamw_without_weight_decay(strategy):
    """The errors were measured without weight decay and apply to both."""
    draw = torch.Generator().manual_seed(1)
    dtype = torch.float32 if strategy == "fp32" else torch.bfloat16
    pair = [torch.nn.Parameter(torch.ones(64, 80, dtype=dtype)) for _ in range(2)]
    optimizers = [kind([p], lr=1e-2, weight_decay=0.0, strategy=strategy)
                  for kind, p in zip((tt.Adam, tt.AdamW), pair)]
    for _ in range(3):
        pair[0].grad = pair[1].grad = torch.randn(64, 80, generator=draw).to(dtype)
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(*pair)
    one, other = (optimizer.state[p] for optimizer, p in zip(optimizers, pair))
    assert all(torch.equal(torch.as_tensor(one[name]), torch.as_tensor(other[name])) for name in one)

#===----------------------------------------------------------------------===#
# Optimizers without measured errors
#===----------------------------------------------------------------------===#

OTHERS = ("LAMB", "NAdam", "RAdam", "AdEMAMix", "AdamWScheduleFree", "Muon", "SGD", "Lion",
          "RMSprop", "Adagrad", "Adafactor")


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("budget", (100, 6.8))
def test_bytes_under_other_optimizers(name, budget):
    """Bytes match the memory of an optimizer made by the printed code; nothing else was
    measured."""
    # AdEMAMix has a third state, and Muon sends directions in bfloat16 to the host.
    model, budget = make(), budget + {"AdEMAMix": 1.2, "Muon": 2.0}.get(name, 0.0)
    found = tt.recommend(model, budget * elements(model), codes=False, optimizer=name)
    names = {"model": model, "tandem": __import__("tandem")}
    exec(found.code, names)
    optimizer = names["optimizer"]
    assert type(optimizer).__name__ == name
    train(model, optimizer, 1)
    backward(model)
    live = optimizer.live_bytes()
    assert [found.bytes.weights, found.bytes.gradients, found.bytes.states] == [
        live["weights"], live["gradients"], live["states"]]
    assert found.bytes.total <= budget * elements(model)
    assert found.error is None and all(
        choice.error is choice.lost is choice.kept is None and choice.follows
        for choice in found.choices)
    assert f"was not measured under {name}; strategies are in the order of" in str(found)
    assert str(found).count("not measured") == 3 * len(found.choices) + 1


@pytest.mark.parametrize(("name", "follows"), (
    ("Lion", lambda of: of.others["lion"]), ("SGD", lambda of: of.others["sgd_momentum"]),
    ("LAMB", lambda of: of.follows["0.999"]),
    # Strategies that compute in bf16 also keep its moments in bf16.
    ("Adafactor", lambda of: of.name not in ("bf16", "bf16-kahan", "collage-light",
                                             "collage-plus"))))
def test_what_follows_under_other_optimizers(name, follows):
    """No strategy is chosen whose states do not follow, even if one that follows does not fit."""
    model, kind = torch.nn.Linear(256, 256, bias=False).bfloat16(), KINDS[name]
    search = Search(describe(model), [0.999], 2, Footprints(kind=kind), name)
    able = {of for of in measured() if search._is_able("matrices", of, 2)}
    wanted = {of.name for of in measured().values()
              if not of.stores_ratio and follows(of)
              and search._error_of("matrices", of.name) is not None}
    assert able == wanted and able != set(measured())


def test_settings_of_other_optimizers():
    """LAMB has the betas of AdamW's moments; other optimizers have different settings."""
    shapes = {"w": (1024, 1024)}
    memory = 11 * 2**20
    found = [tt.recommend(shapes, memory, betas=(0.9, beta2), optimizer="LAMB").strategies
             for beta2 in (0.95, 0.999)]
    assert found == [{"matrices": "collage-light-f32"}, {"matrices": "flash-f16"}]
    lion = tt.recommend(shapes, memory, optimizer="Lion")
    assert lion.betas is None and "Whether states follow was measured with betas=(0.9, 0.99)." in str(lion)
    assert "tandem.torch.Lion(groups, lr=1e-3, betas=(0.9, 0.99))" in lion.code
    released = tt.recommend(shapes, memory, optimizer="Adagrad", gradient_release=True)
    assert "tandem.torch.Adagrad(groups, lr=1e-3, gradient_release=True)" in released.code
    assert "Whether states follow" not in str(released)


@pytest.mark.parametrize(("options", "message"), (
    ({"optimizer": "Lion", "betas": (0.9, 0.99)},
     "Lion was measured with betas=(0.9, 0.99): leave betas out"),
    ({"optimizer": "Adagrad", "betas": (0.9, 0.99)}, "Adagrad was measured without any: leave"),
    ({"optimizer": "Sophia"}, "the library has no optimizer 'Sophia'; optimizers are AdamW, Adam"),
    ({"optimizer": "Adan"}, "whether the states of Adan follow was not measured; take 'remainder'"),
    ({"optimizer": None}, "the library has no optimizer None"),
    ({"optimizer": "Lion", "memory": 1000}, "too little memory for Lion over"),
    ({"optimizer": "Adafactor", "model": {"conv.weight": (8, 4, 3, 3)}},
     "parameter 'conv.weight' has the shape (8, 4, 3, 3), but adafactor updates matrices and "
     "vectors; keep it as a matrix")))
def test_other_optimizers_refuse(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        tt.recommend(**{"model": {"w": (64, 64)}, "memory": "1GiB", **options})


@needs_dtensors
def test_ranks_under_other_optimizers():
    one, four = (tt.recommend(make(), "1GiB", ranks=ranks, optimizer="Lion") for ranks in (1, 4))
    assert one.bytes.total / 4 < four.bytes.total < one.bytes.total / 3
