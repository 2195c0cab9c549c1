#===- demo_model.py - The demo's model, trained ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the training whose states and gradients are measured.
#
#===----------------------------------------------------------------------===#
"""Trains the demo's language model in f32 and returns its states and gradients."""

import dataclasses
import pathlib
import sys
from collections.abc import Callable

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/language_model"))

import demo  # noqa: E402
import stream  # noqa: E402,F401
from data import batches, load_corpus  # noqa: E402
from model import make_model  # noqa: E402
from optimizers import check_strategy, make_optimizer, set_lr, split_name  # noqa: E402,F401
from progress import Progress  # noqa: E402
from train import Config, train, validate  # noqa: E402,F401


def config(quick: bool, steps: int, seed: int = 0, lr: float | None = None,
           path: tuple[str, ...] = ()) -> Config:
    """Returns the demo's configuration, limited to a number of steps."""
    base = demo.QUICK if quick else demo.FULL
    rate = lr or base.hyper.lr
    hyper = dataclasses.replace(base.hyper, lr=rate, final_lr=rate / 100,
                                warmup=min(base.hyper.warmup, steps // 5))
    return dataclasses.replace(
        base, steps=steps, validate_every=min(base.validate_every, steps), hyper=hyper,
        seed=seed, path=path)


def trained_loss(label: str, setting: Config, dtype: torch.dtype, make: Callable,
                 share: Callable[[int], float]) -> float:
    """Trains one model with any optimizer, and returns its validation loss: of what it holds in
    eval mode, if the optimizer has one.

    Args:
        label: the name of the run, for its progress.
        setting: the configuration.
        dtype: the type of the parameters.
        make: returns the optimizer of a model with hyperparameters.
        share: the factor of the groups' learning rates in a step.
    """
    corpus = load_corpus()
    model = make_model(len(corpus.vocabulary), setting.shape, setting.seed, dtype)
    optimizer, progress = make(model, setting.hyper), Progress(label, setting.steps)
    rates = [group["lr"] for group in optimizer.param_groups]
    drawn = batches(corpus.train, setting.steps, setting.batch, setting.shape.context, setting.seed)
    for step, batch in enumerate(drawn):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * share(step)
        optimizer.zero_grad()
        loss = model.loss(*batch)
        loss.backward()
        optimizer.step()
        progress.update(step + 1, f"loss {loss.item():.3f}")
    getattr(optimizer, "eval", lambda: None)()
    wide = dataclasses.replace(setting, validation_batches=4 * setting.validation_batches)
    found = validate(model, corpus, wide)
    progress.finish(f"{found:.4f}")
    getattr(optimizer, "close", lambda: None)()
    return found


class Trained:
    """The model after some steps of Tandem's AdamW in f32."""

    def __init__(self, setting: Config):
        self.setting, self.corpus = setting, load_corpus()
        self.model = make_model(len(self.corpus.vocabulary), setting.shape,
                                setting.seed, torch.float32)
        self.optimizer = make_optimizer("fp32", self.model.parameters(), setting.hyper)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self._train()

    def _train(self) -> None:
        hyper, progress = self.setting.hyper, Progress("training", self.setting.steps)
        drawn = self.draw(self.setting.steps, self.setting.batch, self.setting.seed)
        for step, batch in enumerate(drawn):
            # The learning rate does not decay: the states represent the middle of a run.
            warm = min(1.0, (step + 1) / max(1, hyper.warmup))
            set_lr(self.optimizer, hyper.lr * warm)
            loss = self.backward(batch)
            self.optimizer.step()
            progress.update(step + 1, f"loss {loss:.3f}")
        progress.finish(f"loss {loss:.3f}")

    def draw(self, count: int, batch: int, seed: int):
        """Yields batches of the training text."""
        return batches(self.corpus.train, count, batch, self.setting.shape.context, seed)

    def backward(self, batch) -> float:
        """Computes the gradients of a batch."""
        self.optimizer.zero_grad()
        loss = self.model.loss(*batch)
        loss.backward()
        return loss.item()

    def states(self, name: str) -> list[np.ndarray]:
        """Returns a state of each parameter: "exp_avg" or "exp_avg_sq"."""
        return [self.optimizer.state[p][name].numpy().ravel()
                for p in self.model.parameters()]

    def gradients(self, batch) -> list[np.ndarray]:
        """Returns each parameter's gradient for a batch."""
        self.backward(batch)
        return [p.grad.numpy().ravel().copy() for p in self.model.parameters()]
