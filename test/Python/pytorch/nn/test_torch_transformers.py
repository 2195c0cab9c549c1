#===- test_torch_transformers.py - Hugging Face's models --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests compress_activations on all norms and gated blocks of Hugging Face transformers,
# and on small models of it.
#
#===----------------------------------------------------------------------===#

import copy
import os
from collections import Counter

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tandem.torch

SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, vocab_size=100,
             num_attention_heads=4, num_key_value_heads=2)

#: Blocks that look like Llama's but compute something else with these configurations or with their
#: defaults.
DIFFERENT = ("BitNetMLP", "DeepseekV4MLP", "DogeCDMoE", "FalconH1MLP", "Gemma3nTextMLP",
             "Glm4vVisionPatchMerger", "GteMLP", "InklingMLP", "SeedOssMLP", "T5GemmaMLP")


def error(got, want):
    got, want = got.detach().double(), want.detach().double()
    return float((got - want).norm() / want.norm().clamp_min(1e-30))


def scramble(module):
    """Sets parameters to values that are not special, unlike ones and zeros."""
    generator = torch.Generator().manual_seed(11)
    for p in module.parameters():
        values = torch.randn(p.shape, generator=generator)
        p.data.copy_(values / p.shape[-1] ** 0.5 if p.dim() == 2 else values * 0.3 + 0.7)


def results(module, x):
    torch.manual_seed(0)
    x = x.clone().requires_grad_()
    y = module(x)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(12))
    parameters = [p for _, p in sorted(module.named_parameters())]
    return [y, *torch.autograd.grad(y, [x, *parameters], dy)]


def largest_error(new, old):
    """Returns the largest error of an output or gradient, in both modes."""
    columns = old.gate_proj.in_features if hasattr(old, "gate_proj") else old.weight.shape[0]
    largest = 0.0
    for training in (True, False):
        for size in (0.1, 60.0):
            x = torch.randn((4, 9, columns), generator=torch.Generator().manual_seed(13)) * size
            pairs = zip(results(new.train(training), x), results(old.train(training), x),
                        strict=True)
            largest = max(largest, *(error(a, b) for a, b in pairs))
    return largest


def swapped(module):
    """Returns the module's replacement or None, and the reason."""
    model = torch.nn.ModuleDict({"it": copy.deepcopy(module)})
    done = tandem.torch.compress_activations(model, "fp32")
    assert "it" in done.swapped or "it" in done.left
    return (model["it"], "") if "it" in done.swapped else (None, done.left["it"])


def test_classes():
    """Replaced classes compute the same function for every configuration. (Classes that cannot
    be instantiated here require more than a configuration.)"""
    from support.transformers_modules import all_modules

    counts, left, wrong = Counter(), {}, {}
    for kind, modules in all_modules():
        sort = "norm" if kind.__name__.endswith("Norm") else "block"
        counts[sort, "made"] += bool(modules)
        for module in modules:
            scramble(module)
            new, why = swapped(module)
            if new is None:
                left.setdefault(kind.__name__, []).append(why)
            elif not (off := largest_error(new, module)) < 1e-4:
                wrong[kind.__name__] = off
        counts[sort, "swapped"] += len(left.get(kind.__name__, ())) < len(modules)
    print(dict(counts), *left.items(), sep="\n")
    assert not wrong
    assert all(name in left for name in DIFFERENT)
    assert counts["block", "made"] > 150 and counts["block", "swapped"] > 130
    assert counts["norm", "made"] > 250 and counts["norm", "swapped"] > 160


def logits(model):
    ids = torch.arange(14).view(2, 7)
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    return model(input_ids=ids, **more).logits


@pytest.mark.parametrize("config, left", [
    (lambda: transformers.LlamaConfig(**SIZES, tie_word_embeddings=True), {"loss_function"}),
    (lambda: transformers.FalconH1Config(
        **SIZES, mlp_multipliers=[2.0, 0.25], mamba_d_ssm=64, mamba_n_heads=8, mamba_d_head=8),
     {"loss_function", "feed_forward"}),
    (lambda: transformers.SeedOssConfig(**SIZES, head_dim=16, residual_dropout=0.1),
     {"loss_function", "mlp"}),
    (lambda: transformers.GPT2Config(n_layer=1, n_embd=64, n_head=4, vocab_size=100),
     {"loss_function", "c_attn", "c_proj", "c_fc"}),
    (lambda: transformers.MixtralConfig(**SIZES), {"loss_function", "experts"})])
def test_models(config, left):
    """Models keep their logits and all gradients, also in training mode."""
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(config())
    old, names = copy.deepcopy(model), list(model.state_dict())
    done = tandem.torch.compress_activations(model, "fp32")
    assert {name.rpartition(".")[2] for name in done.left} == left
    assert list(model.state_dict()) == names
    for training in (True, False):
        pair = []
        for each in (model, old):
            torch.manual_seed(4)
            y = logits(each.train(training))
            parameters = [p for p in each.parameters() if p.requires_grad]
            pair.append([y, *torch.autograd.grad(y.square().mean(), parameters,
                                                 allow_unused=True)])
        assert all(a is b or error(a, b) < 1e-4 for a, b in zip(*pair, strict=True))


def test_tied_weights_stay_tied():
    config = transformers.LlamaConfig(**SIZES, tie_word_embeddings=True)
    model = transformers.AutoModelForCausalLM.from_config(config)
    tandem.torch.compress_activations(model)
    assert isinstance(model.lm_head, tandem.torch.nn.Linear)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    model.tie_weights()
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_model_on_meta_is_probed():
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            transformers.LlamaConfig(**SIZES), dtype=torch.bfloat16)
    done = tandem.torch.compress_activations(model)
    assert done.swapped["model.layers.1.mlp"] == "LlamaMLP -> GatedMLP"
    assert done.swapped["model.norm"] == "LlamaRMSNorm -> RMSNorm"
    assert all(p.device.type == "meta" for p in model.parameters())
