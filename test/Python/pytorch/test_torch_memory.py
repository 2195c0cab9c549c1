#===- test_torch_memory.py - Bytes predicted and measured ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.memory: what it predicts for configurations and models is what
# training them takes.
#
#===----------------------------------------------------------------------===#

import os
from types import SimpleNamespace

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
import tandem.torch as tt  # noqa: E402

BATCH, LENGTH = 2, 128
SIZES = dict(hidden_size=256, intermediate_size=688, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=1000, max_position_embeddings=256)
#: Configurations by the names of their classes, and how far activations may be from the measured,
#: as a ratio: Transformers computes experts in ways that depend on the device.
CONFIGS = {
    "Llama": (SIZES, 0.0),
    "Mistral": (SIZES | {"head_dim": 32, "sliding_window": None}, 0.0),
    "Qwen2": (SIZES | {"tie_word_embeddings": True}, 0.0),
    "Qwen3": (SIZES | {"head_dim": 64}, 0.0),
    "GPT2": (dict(n_embd=256, n_layer=2, n_head=4, n_positions=256, vocab_size=1000,
                  attn_pdrop=0.0), 0.001),
    "Mixtral": (SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2}, 0.06),
}
PARTS = ("weights", "gradients", "states")


def saved(run, model):
    """Returns the bytes that autograd holds after a forward pass, except parameters."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    sizes = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes(), tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = run()
    return sum(size for size, _ in sizes.values()), loss


def measured(model, run, strategy, recipe, **options):
    """Returns the bytes of a model that is trained for a step, between its passes."""
    if recipe:
        tt.compress_activations(model, recipe=recipe, **options)
    optimizer = tt.AdamW(model.parameters(), strategy=strategy)
    activations, loss = saved(run, model)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    run().backward()
    live = optimizer.live_bytes()
    optimizer.close()
    return live | {"activations": activations}


def make(name, **more):
    """Returns a configuration of Transformers and its model."""
    transformers = pytest.importorskip("transformers")
    fields, tolerance = CONFIGS[name]
    config = getattr(transformers, f"{name}Config")(**fields, **more)
    kind = getattr(transformers, "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")
    torch.manual_seed(0)
    return config, kind(config).bfloat16().train(), tolerance


@pytest.mark.filterwarnings("ignore:.*stores gradients in codes")
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("strategy", "recipe"), (
    ("remainder", None), ("flash-f16", "coat"), ("dither-softsign-root", "mxfp8")))
def test_a_configuration_takes_what_is_predicted(name, strategy, recipe):
    config, model, tolerance = make(name)
    found = tt.memory(config, strategy, recipe, batch=BATCH, length=LENGTH)
    exact = tt.memory(model, strategy, recipe, batch=BATCH, length=LENGTH)
    ids = torch.randint(1000, (BATCH, LENGTH))
    live = measured(model, lambda: model(input_ids=ids, labels=ids).loss, strategy, recipe)
    for part in PARTS:
        assert getattr(found, part) == getattr(exact, part) == live[part], part
    assert abs(found.activations / live["activations"] - 1) <= tolerance
    # PyTorch's own LayerNorm keeps means and deviations in bf16 on CPUs, and in f32 elsewhere.
    assert abs(exact.activations / live["activations"] - 1) <= 0.001
    assert found.tokens == BATCH * LENGTH
    assert found.total == sum(getattr(found, part) for part in (*PARTS, "activations", "working"))


class Block(torch.nn.Module):
    """A model that is not of Transformers."""

    def __init__(self):
        super().__init__()
        self.norm, self.up = torch.nn.LayerNorm(192), torch.nn.Linear(192, 320)
        self.act, self.down = torch.nn.GELU(), torch.nn.Linear(320, 192)
        self.frozen = torch.nn.Linear(192, 192)
        self.frozen.requires_grad_(False)

    def forward(self, x, scale=1.0):
        return (self.frozen(x) + scale * self.down(self.act(self.up(self.norm(x))))).sum()


@pytest.mark.parametrize("recipe", (None, "bf16", "coat", "te-current", "te-delayed"))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32))
def test_a_model_takes_what_is_predicted(recipe, dtype):
    model, x = Block().to(dtype), torch.randn(3, 50, 192).to(dtype)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = tt.memory(model, "flash-f16", recipe, inputs={"x": x, "scale": 2.0})
    assert type(model.up) is torch.nn.Linear
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    live = measured(model, lambda: model(x, scale=2.0), "flash-f16", recipe)
    assert all(getattr(found, part) == live[part] for part in PARTS)
    # PyTorch's own LayerNorm keeps means and deviations in bf16 on CPUs, and in f32 elsewhere.
    tolerance = 0.003 if recipe is None and dtype == torch.bfloat16 else 0.0
    assert abs(found.activations / live["activations"] - 1) <= tolerance
    assert found.tokens is None


def test_products_of_8_bit_floats_save_codes_of_weights():
    model, x = Block().bfloat16(), torch.randn(3, 50, 192, dtype=torch.bfloat16)
    without, found = (tt.memory(model, "coat", "coat-fp8", inputs=x, products=products)
                      for products in ("bf16", "fp8"))
    live = measured(model, lambda: model(x), "coat", "coat-fp8", products="fp8")
    assert all(getattr(found, part) == live[part] for part in PARTS)
    assert found.activations == live["activations"] > without.activations
    with pytest.raises(ValueError, match="products is 'fp8', and PyTorch's own layers have no"):
        tt.memory(model, "coat", inputs=x, products="fp8")


def test_a_model_on_the_meta_device():
    with torch.device("meta"):
        model = Block()
    found = tt.memory(model, "remainder", inputs=torch.empty(3, 50, 192))
    assert found.weights == tt.memory(Block(), "remainder", inputs=torch.empty(1, 192)).weights


def test_fields_of_a_mapping_and_of_an_object():
    mapping = tt.memory(SIZES, "remainder", "coat")
    assert repr(mapping) == repr(tt.memory(SimpleNamespace(**SIZES), "remainder", "coat"))
    assert mapping.tokens == 256  # the configuration's positions
    assert tt.memory(SIZES | {"max_position_embeddings": 1 << 17}, "remainder").tokens == 2048


def test_ranks_share_what_fully_shard_shares():
    whole, half = (tt.memory(SIZES, "flash-f16", ranks=ranks) for ranks in (1, 2))
    assert half.activations == whole.activations and half.ranks == 2
    for part in PARTS:
        # Norms that are smaller than groups stay whole.
        assert 0.5 <= getattr(half, part) / getattr(whole, part) < 0.51, part
    assert "on each of 2 ranks" in repr(half)


def test_strategies_by_role_are_those_of_recommend():
    with torch.device("meta"):
        model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(1000, 256),
                                     "up": torch.nn.Linear(256, 512)}).bfloat16()
    model.forward = lambda x: model["up"](model["embed"](x))
    found = tt.recommend(model, memory="3.5MiB")
    told = tt.memory(model, found.strategies, inputs=torch.zeros(4, 7, dtype=torch.int64))
    assert (told.weights, told.gradients, told.states) == (
        found.bytes.weights, found.bytes.gradients, found.bytes.states)
    with pytest.raises(ValueError, match="has embeddings, which strategy lacks; add 'embeddings'"):
        tt.memory(model, {"matrices": "flash"}, inputs=torch.zeros(4, 7, dtype=torch.int64))
    with pytest.raises(ValueError, match="no role 'matrix'; roles are matrices, "):
        tt.memory(model, {"matrix": "flash"}, inputs=torch.zeros(4, 7, dtype=torch.int64))


def test_released_gradients_take_working_memory():
    kept, released = (tt.memory(SIZES, "flash-f16", gradient_release=release)
                      for release in (False, True))
    assert released.gradients == 0 and released.working == 2 * 1000 * 256
    assert released.total < kept.total


@pytest.mark.parametrize(("arguments", "error", "text"), (
    (({"hidden_size": 64, "vocab_size": 10},), ValueError,
     "lacks 'num_hidden_layers' or 'n_layer', 'num_attention_heads' or 'n_head', "
     "'intermediate_size' or 'n_inner'; pass one of a decoder"),
    (({"n_embd": 64, "n_layer": 1, "n_head": 2, "vocab_size": 10},), ValueError,
     "lacks 'max_position_embeddings' or 'n_positions' or 'n_ctx'"),
    (("gpt2",), TypeError, "a value of type str is neither a configuration nor a model"),
    ((SIZES, "no-such"), ValueError, "no-such"),
    ((SIZES, "flash", "no-such"), ValueError, "no-such"),
    ((SIZES, "flash", None, 0), ValueError, "ranks must be a whole number of at least 1, got 0"),
    ((torch.nn.Linear(4, 4),), TypeError, "Linear does not say what it takes; pass inputs="),
))
def test_errors_name_the_fix(arguments, error, text):
    with pytest.raises(error, match=text):
        tt.memory(*arguments)


def test_layers_refuse_the_meta_device_outside_of_a_prediction():
    tt.memory(SIZES, "flash", "coat")
    with pytest.raises(ValueError, match="is on meta"):
        tt.nn.functional.silu(torch.ones(2, 8, device="meta"))
