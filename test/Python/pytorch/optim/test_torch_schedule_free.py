#===- test_torch_schedule_free.py - Schedule-Free AdamW --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests AdamWScheduleFree against its authors' package, in train and eval mode.
#
#===----------------------------------------------------------------------===#

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
schedulefree = pytest.importorskip("schedulefree")

import tandem
import tandem.torch as tt

#: Strategies with every kind of storage; those of four bits store m / sqrt(v), which this optimizer
#: does not keep.
STRATEGIES = ("adam8bit", "bf16", "bf16-dither", "coat", "collage-light", "collage-plus",
              "collage-plus-f32", "dither-mulaw", "dither-softsign-root", "f16-fp32-optim",
              "flash-f16", "fp32", "fp32-optim", "fp8-collage-plus", "fp8-lm", "remainder",
              "residual-mulaw")
SHAPES = (64, 48), (40,)
OPTIONS = {"lr": 1e-2, "betas": (0.9, 0.99), "weight_decay": 0.05}
VARIANTS = ({}, {"warmup_steps": 12}, {"r": 1.0, "warmup_steps": 5}, {"weight_lr_power": 0.0},
            {"betas": (0.98, 0.999)})


def params_of(dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
            for shape in SHAPES]


def gradient_of(param, step):
    """Returns the gradient of a quadratic with a minimum at 0.5, with noise."""
    generator = torch.Generator().manual_seed(1000 * step + param.dim())
    noise = torch.randn(param.shape, generator=generator)
    return (param.detach().double() - 0.5 + 0.3 * noise).to(param.dtype)


def train(params, optimizer, steps, start=0):
    for step in range(start, start + steps):
        for param in params:
            param.grad = gradient_of(param, step)
        optimizer.step()


def reference_of(params, **options):
    optimizer = schedulefree.AdamWScheduleFree(params, **options)
    optimizer.train()
    return optimizer


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_has_the_weights_of_the_package(variant):
    ours, theirs = params_of(), params_of()
    optimizer = tt.AdamWScheduleFree(ours, strategy="fp32", **OPTIONS | variant)
    reference = reference_of(theirs, **OPTIONS | variant)
    train(ours, optimizer, 50)
    train(theirs, reference, 50)
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=2e-6)
    optimizer.eval()
    reference.eval()
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=2e-6)


def test_a_rate_that_changes():
    """A step counts by the largest rate so far, as in the package."""
    ours, theirs = params_of(), params_of()
    optimizer = tt.AdamWScheduleFree(ours, strategy="fp32", **OPTIONS)
    reference = reference_of(theirs, **OPTIONS)
    for params, one in ((ours, optimizer), (theirs, reference)):
        for step, lr in enumerate((1e-3, 2e-2, 5e-3, 3e-2)):
            one.param_groups[0]["lr"] = lr
            train(params, one, 8, 8 * step)
    assert optimizer.param_groups[0]["weight_sum"] == pytest.approx(
        reference.param_groups[0]["weight_sum"])
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_follows(strategy):
    """Weights and averages are near those of float64 after 400 steps. The last step mixes 1 / 400 of the
    offset."""
    kernel = tandem.compile("adamw_schedule_free", strategy)
    visible = next(p.type for p in kernel.planes if p.role == "param")
    dtype = {"f32": torch.float32, "f16": torch.float16}.get(visible, torch.bfloat16)
    eps = {"eps": 1e-7} if strategy.startswith("f16") else {}
    params = params_of(dtype)[:1]
    start = params[0].detach().double().clone()
    exact = [torch.nn.Parameter(start.clone())]
    optimizer = tt.AdamWScheduleFree(params, strategy=strategy, min_8bit_size=0, **OPTIONS | eps)
    reference = reference_of(exact, **OPTIONS)
    train(params, optimizer, 400)
    train(exact, reference, 400)
    errors = [error(dict(tt.weights(optimizer))["0"], exact[0], start)]
    reference.eval()
    errors.append(error(dict(tt.averages(optimizer))["0"], exact[0], start))
    # Weights in bf16 to nearest lose small steps under any optimizer.
    loses = strategy in ("bf16", "fp32-optim")
    assert min(errors) > 0.3 if loses else max(errors) < 0.1, errors


def error(found, exact, start):
    return float((found.double() - exact.detach()).norm() / (exact.detach() - start).norm())


@pytest.mark.parametrize("strategy", ("fp32", "flash-f16", "dither-mulaw", "remainder",
                                      "dither-softsign-root"))
def test_train_mode_has_its_bits_again(strategy):
    dtype = torch.float32 if strategy == "fp32" else torch.bfloat16
    kept, same = params_of(dtype), params_of(dtype)
    optimizer, other = (tt.AdamWScheduleFree(params, strategy=strategy, **OPTIONS)
                        for params in (kept, same))
    for start in (0, 10, 20):
        train(kept, optimizer, 10, start)
        train(same, other, 10, start)
        before = [param.detach().clone() for param in kept]
        optimizer.eval()
        averages = [value for _, value in tt.averages(other)]
        for param, average, value in zip(kept, averages, before):
            assert torch.equal(param, average.to(dtype)) and not torch.equal(param, value)
        optimizer.eval()
        optimizer.train()
        optimizer.train()
        assert all(map(torch.equal, kept, before))
    assert all(map(torch.equal, kept, same))


def test_the_package_loses_bits_of_bfloat16():
    """This is what keeping the difference avoids."""
    params = params_of(torch.bfloat16)
    reference = reference_of(params, **OPTIONS)
    train(params, reference, 10)
    before = [param.detach().clone() for param in params]
    reference.eval()
    reference.train()
    assert not any(map(torch.equal, params, before))


def test_eval_before_the_first_step_shows_the_weights():
    params = params_of()
    optimizer = tt.AdamWScheduleFree(params, strategy="fp32")
    optimizer.eval()
    assert all(map(torch.equal, params, params_of()))
    optimizer.train()


@pytest.mark.parametrize("evaluates", (False, True))
@pytest.mark.parametrize("named", (False, True))
def test_checkpoints_of_both_modes_continue(evaluates, named):
    """Trainers save after an evaluation, in eval mode, when the model has its averages."""
    def make(params):
        given = list(zip("ab", params)) if named else params
        return tt.AdamWScheduleFree(given, strategy="flash-f16", warmup_steps=15, **OPTIONS)

    params, same = (params_of(torch.bfloat16) for _ in range(2))
    optimizer, other = make(params), make(same)
    train(params, optimizer, 10)
    train(same, other, 20)
    if evaluates:
        optimizer.eval()
    model, state = [p.detach().clone() for p in params], copy.deepcopy(optimizer.state_dict())
    assert optimizer._store.shows_averages == evaluates
    loaded = [torch.nn.Parameter(p.clone()) for p in model]
    resumed = make(loaded)
    resumed.load_state_dict(state)
    assert all(map(torch.equal, loaded, model))
    resumed.train()
    train(loaded, resumed, 10, 10)
    assert all(map(torch.equal, loaded, same))
    assert resumed.param_groups[0]["weight_sum"] == other.param_groups[0]["weight_sum"]


class Texts(torch.utils.data.Dataset):
    """Random tokens."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def with_trainer(folder, resume=None):
    """Trains with the Trainer of transformers, which evaluates before it saves."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=32)).bfloat16()
    optimizer = tt.AdamWScheduleFree(model.named_parameters(), lr=5e-3, warmup_steps=3,
                                     strategy="flash-f16")
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=8, per_device_train_batch_size=4, report_to=[],
        save_steps=4, eval_strategy="steps", eval_steps=2, use_cpu=True, disable_tqdm=True)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Texts(),
                                   eval_dataset=Texts(), optimizers=(optimizer, constant))
    trainer.train(resume_from_checkpoint=resume)
    return model, optimizer


def test_the_trainer_of_transformers(tmp_path):
    """Its checkpoints have the averages as weights, and a run goes on from one bit for bit."""
    model, optimizer = with_trainer(tmp_path / "whole")
    resumed, other = with_trainer(tmp_path / "half", str(tmp_path / "whole/checkpoint-4"))
    for each in (optimizer, other):
        each.train()
    assert all(map(torch.equal, model.parameters(), resumed.parameters()))
    assert optimizer.param_groups[0]["k"] == other.param_groups[0]["k"] == 8


def test_states_of_the_package_load():
    ours, theirs = params_of(), params_of()
    reference = reference_of(theirs, **OPTIONS)
    train(theirs, reference, 20)
    for param, other in zip(ours, theirs):
        param.data.copy_(other.data)
    optimizer = tt.AdamWScheduleFree(ours, strategy="fp32", **OPTIONS)
    optimizer.load_state_dict(copy.deepcopy(reference.state_dict()))
    train(ours, optimizer, 20, 20)
    train(theirs, reference, 20, 20)
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, rtol=2e-5, atol=2e-6)
    reference.eval()
    with pytest.raises(ValueError, match="saved in eval mode"):
        optimizer.load_state_dict(reference.state_dict())


def test_a_checkpoint_of_eval_mode_without_weights_is_refused():
    """torch.distributed.checkpoint restores only what a fresh optimizer has, which is in train mode."""
    params = params_of()
    optimizer = tt.AdamWScheduleFree(params, strategy="fp32", **OPTIONS)
    train(params, optimizer, 3)
    fresh = optimizer.state_dict()
    optimizer.eval()
    shown = optimizer.state_dict()
    assert shown["param_groups"][0].keys() == fresh["param_groups"][0].keys()
    assert shown["param_groups"][0]["train_mode"] is False
    for state in shown["state"].values():
        del state["train_weight"]
    with pytest.raises(ValueError, match="saved in eval mode and does not have the weights"):
        optimizer.load_state_dict(shown)
    before = [param.detach().clone() for param in params]
    with pytest.raises(ValueError):
        optimizer.load_state_dict(fresh | {"param_groups": []})
    assert all(map(torch.equal, params, before)) and optimizer._store.shows_averages
    optimizer.load_state_dict(fresh)
    assert not optimizer._store.shows_averages


def test_copies_and_pickles():
    params = params_of(torch.bfloat16)
    optimizer = tt.AdamWScheduleFree(params, strategy="dither-mulaw", **OPTIONS)
    train(params, optimizer, 5)
    copied = pickle.loads(pickle.dumps(optimizer))
    others = copied.param_groups[0]["params"]
    train(params, optimizer, 5, 5)
    train(others, copied, 5, 5)
    assert all(map(torch.equal, params, others))
    optimizer.eval()
    with pytest.raises(RuntimeError, match=r"call optimizer.train\(\) before it is copied"):
        copy.deepcopy(optimizer)


def test_a_step_that_fails_or_is_skipped_does_not_count():
    params = params_of()
    optimizer = tt.AdamWScheduleFree(params, strategy="fp32", skip_nonfinite=True, **OPTIONS)
    train(params, optimizer, 3)
    before = {key: optimizer.param_groups[0][key] for key in ("k", "weight_sum", "lr_max")}
    for param in params:
        param.grad = torch.full_like(param, float("nan"))
    optimizer.step()
    assert optimizer.skipped and before.items() <= optimizer.param_groups[0].items()
    optimizer.param_groups[0]["weight_decay"] = -1.0
    with pytest.raises(ValueError, match="weight_decay"):
        train(params, optimizer, 1)
    assert before.items() <= optimizer.param_groups[0].items()


def test_a_step_in_eval_mode_is_refused():
    params = params_of()
    optimizer = tt.AdamWScheduleFree(params, strategy="fp32")
    train(params, optimizer, 1)
    optimizer.eval()
    with pytest.raises(RuntimeError, match=r"is in eval mode.*call optimizer.train\(\)"):
        train(params, optimizer, 1)


@pytest.mark.parametrize("options, message", [
    ({"betas": (0.0, 0.999)}, r"betas\[0\] of param group 0 is 0.0; it must be above 0"),
    ({"warmup_steps": -1}, "'warmup_steps' of param group 0 is -1; it must be at least 0"),
    ({"weight_lr_power": -2.0}, "'weight_lr_power' of param group 0"),
    ({"ema_decay": 0.9}, "does not take ema_decay: it averages weights itself"),
    ({"gradient_release": True}, "does not take gradient_release"),
    ({"capturable": True}, "does not take capturable: .* on the CPU"),
    ({"mixing": 0.5}, "mixing"),
])
def test_refusals(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tt.AdamWScheduleFree(params_of(), strategy="fp32", **options)
