#===- test_trainers.py - Trainers of other libraries -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests examples/trainers, and the statements of its README.md about Hugging Face's
# Trainer, Accelerate and Lightning.
#
#===----------------------------------------------------------------------===#

import importlib.util
import os
import runpy
import sys
import warnings
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

from support.thread_ranks import one_rank
import tandem.torch
from tandem.torch.optim import _notices
from torch.optim.optimizer import register_optimizer_step_post_hook

AdamW = tandem.torch.AdamW
EXAMPLES = Path(__file__).resolve().parents[4] / "examples/trainers"
sys.path.insert(0, str(EXAMPLES))
#: For each example, the checkpoint that it resumes from, and the losses per step.
CASES = {"trainer": ("checkpoint-10", 1), "accelerate_loop": ("", 2),
         "lightning_module": ("epoch=0.ckpt", 2)}


@pytest.fixture(params=CASES)
def name(request):
    if request.param == "lightning_module":
        pytest.importorskip("pytorch_lightning")
    return request.param


def load(name):
    spec = importlib.util.spec_from_file_location(f"trainers_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def use(monkeypatch, **options):
    """Makes the examples create their optimizers with other options."""

    class Ours(AdamW):
        def __init__(self, params, **given):
            super().__init__(params, **given | options)

    monkeypatch.setattr(tandem.torch, "AdamW", Ours)


def norm_of(optimizer):
    params = [p for group in optimizer.param_groups for p in group["params"]]
    grads = [p.grad for p in params if p.grad is not None]
    return float(torch.stack([g.float().norm() for g in grads]).norm()) if grads else 0.0


@pytest.fixture
def steps():
    """Records the gradient norm and the learning rate of each of our steps."""
    seen = []

    def note(optimizer, *_):
        if isinstance(optimizer, tandem.torch.Optimizer):
            seen.append((norm_of(optimizer), optimizer.param_groups[0]["lr"]))

    handle = register_optimizer_step_post_hook(note)
    yield seen
    handle.remove()


def same(a, b):
    """Returns whether two values of a state dict have the same bits."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, torch.Tensor):
        return a == b
    return a.dtype == b.dtype and torch.equal(a.contiguous().view(torch.uint8),
                                              b.contiguous().view(torch.uint8))


def check_resumed(name, folder, **options):
    """Trains, and resumes from the checkpoint after the first epoch, with the same losses,
    weights and states. Returns the losses."""
    module = load(name)
    losses, model, optimizer = module.train(str(folder), **options)
    again, resumed, other = module.train(str(folder), resume=str(folder / CASES[name][0]),
                                         **options)
    half = module.STEPS // module.EPOCHS * CASES[name][1]
    assert len(losses) == half * module.EPOCHS and again[-half:] == losses[-half:]
    assert same(dict(model.state_dict()), dict(resumed.state_dict()))
    assert optimizer is not other and same(optimizer.state_dict(), other.state_dict())
    return losses

#===----------------------------------------------------------------------===#
# Examples
#===----------------------------------------------------------------------===#


def test_prints(name, capsys):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    *_, printed, last = capsys.readouterr().out.splitlines()
    losses = list(map(float, printed.removeprefix("losses: ").split()))
    assert 4 < losses[0] < 4.5 and losses[-1] < 0.7
    assert last == "resumed from the first epoch: the same bits"


def test_resumes(name, tmp_path, steps):
    check_resumed(name, tmp_path)
    # Two batches are one step, and schedules continue.
    rates = [lr for _, lr in steps]
    assert len(rates) == 30 and rates[20:] == rates[10:20]
    assert max(rates) == 0.01 and 0 < rates[19] < 1e-4


def test_clips(name, tmp_path, steps):
    train = load(name).train
    free = train(str(tmp_path / "free"), max_norm=1e9)
    clipped = train(str(tmp_path / "clipped"), max_norm=0.5)
    norms = [norm for norm, _ in steps]
    assert max(norms[:20]) > 1 and 0.49 < max(norms[20:]) < 0.51
    assert free[0][0] == clipped[0][0] and free[0] != clipped[0]

#===----------------------------------------------------------------------===#
# Statements of README.md
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("strategy", ["fp8-collage-plus", "dither-softsign-root"])
def test_codes(name, strategy, tmp_path, monkeypatch, steps):
    """Coded weights and gradients resume, too, and the optimizer's max_norm clips."""
    monkeypatch.setattr(_notices, "_given", set())
    use(monkeypatch, strategy=strategy, max_norm=0.5)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*stores gradients in codes")
        losses = check_resumed(name, tmp_path, max_norm=0.0)
    assert losses[-1] < 1 and not any(norm for norm, _ in steps)
    use(monkeypatch, strategy=strategy, max_norm=1e9)
    assert load(name).train(str(tmp_path / "free"), max_norm=0.0)[0] != losses


def test_trainers_do_not_clip_codes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(_notices, "_given", set())
    use(monkeypatch, strategy="fp8-collage-plus")
    train = load(name).train
    with pytest.warns(UserWarning, match="clip nothing. To clip by the norm, pass max_norm="):
        clipped = train(str(tmp_path / "clipped"), max_norm=0.5)
    assert clipped[0] == train(str(tmp_path / "free"), max_norm=1e9)[0]


def test_release_needs_a_step_for_each_pass(name, tmp_path, monkeypatch):
    use(monkeypatch, strategy="flash", gradient_release=True)
    with pytest.raises(RuntimeError, match="has taken its step in a backward pass already"):
        load(name).train(str(tmp_path))

#===----------------------------------------------------------------------===#
# Wrappers of optimizers
#===----------------------------------------------------------------------===#


def with_accelerate(optimizer):
    return accelerate.Accelerator(cpu=True).prepare(optimizer)


def with_lightning(optimizer):
    lightning = pytest.importorskip("pytorch_lightning.core.optimizer")
    return lightning.LightningOptimizer(optimizer)


WRAPPERS = [with_accelerate, with_lightning, lambda o: with_accelerate(with_accelerate(o))]


def make(strategy, **options):
    model = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
    return model, tandem.torch.AdamW(model.parameters(), strategy=strategy, **options)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_decode_weights_finds_the_optimizer(wrap):
    model, optimizer = make("fp8-collage-plus")
    decoded = tandem.torch.decode_weights(model, wrap(optimizer))
    assert optimizer.live_bytes()["working"] == 0
    with pytest.raises(ValueError, match="decoded on demand already"):
        tandem.torch.decode_weights(model, optimizer)
    decoded.remove()
    assert optimizer._decoder is None


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_gradient_all_reduce_finds_the_optimizer(wrap):
    _, optimizer = make("fp8-lm")
    tandem.torch.GradientAllReduce(wrap(optimizer), ranks=one_rank())
    assert optimizer._hooks.sends_codes


def test_accumulate_of_lightning():
    model, optimizer = make("flash", gradient_release=True)
    wrapped, x = with_lightning(optimizer), torch.ones(1, 64, dtype=torch.bfloat16)
    before = model.weight.clone()
    with wrapped.accumulate():
        model(x).sum().backward()
    assert model.weight.grad is not None and torch.equal(model.weight, before)
    model(x).sum().backward()
    assert model.weight.grad is None and not torch.equal(model.weight, before)
