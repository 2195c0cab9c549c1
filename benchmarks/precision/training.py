#===- training.py - Training runs of the studies ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements one training run and the figures that studies derive from it.
#
#===----------------------------------------------------------------------===#
"""Trains the model and measures losses, spikes, divergence and sharpness."""

import dataclasses
import itertools
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tandem
import tandem.torch
import torch
from torch.func import functional_call

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/language_model"))

from data import Corpus, batches, load_corpus  # noqa: E402,F401
from llama import Llama, Shape, make_model  # noqa: E402
from optimizers import DTYPES  # noqa: E402
from progress import Progress  # noqa: E402

#: The number of points of a curve that are kept.
CURVE_POINTS = 60
#: A spike exceeds the median of this many preceding losses by this many deviations.
SPIKE_DEVIATIONS, SPIKE_WINDOW = 6.0, 64
#: Sharpness is measured on this many batches of sequences of held-out text. One sequence gives one
#: token, a noisy sample.
SHARPNESS_BATCHES, SHARPNESS_BATCH = 16, 64
#: A run has diverged if it ends this many nats above its lowest smoothed loss.
DIVERGED_NATS = 0.3


@dataclasses.dataclass(frozen=True)
class Setting:
    """The parameters of a run, except its precision."""

    shape: Shape
    batch: int
    steps: int
    lr: float
    seed: int = 0
    warmup: int = 50
    final_share: float = 0.1  # the final learning rate, relative to the peak
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    clip: float | None = 1.0
    drifts: bool = False  # whether batches come from a window that moves over the text
    before: int = 0  # the first steps, which belong to another study's run

    @property
    def is_constant(self) -> bool:
        """Whether a step after the warm-up does not depend on the number of steps."""
        return self.final_share == 1 and not self.drifts

    def lr_at(self, step: int) -> float:
        """Returns the learning rate: linear warm-up, then half a cosine. Steps start at 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        low = self.final_share
        return self.lr * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done)))

    def draw(self, corpus: Corpus) -> Iterator:
        """Yields the batches, which depend only on the seed."""
        context = self.shape.context
        if not self.drifts:
            return batches(corpus.train, self.steps, self.batch, context, self.seed)
        return drifting(corpus.train, self.steps, self.batch, context, self.seed)


#: With drift, batches come from a window that covers this fraction of the text.
WINDOW = 0.1


def drifting(text: np.ndarray, count: int, batch: int, context: int, seed: int) -> Iterator:
    """Yields batches from a window that moves once over the text, so that the data change."""
    size = max(int(WINDOW * len(text)), context + 2)
    for step in range(count):
        first = (len(text) - size) * step // count
        yield from batches(text[first:first + size], 1, batch, context, seed * count + step)


def parameter_dtype(strategy: str, path: Sequence[str] = ()) -> torch.dtype:
    """Returns the dtype of the weights that the model sees under a strategy."""
    planes = tandem.compile("adamw", strategy, path=path).planes
    return next((DTYPES[p.type] for p in planes if p.name == "param" and p.visible),
                torch.bfloat16)


#===------------------------------------------------------------------------===#
# A run
#===------------------------------------------------------------------------===#


class Run:
    """A model in training.

    The model computes in f32 also with bf16 weights, so that strategies differ only in their
    optimizers. ``options`` are further arguments of the optimizer; if ``prepare`` returns one, that
    is the run's, and the model computes in its own types.
    """

    def __init__(self, setting: Setting, corpus: Corpus, strategy: str = "fp32",
                 prepare: Callable[[Llama], object] | None = None, **options):
        self.setting, self.corpus = setting, corpus
        self.model = make_model(len(corpus.vocabulary), setting.shape, setting.seed)
        self.model.to(parameter_dtype(strategy, options.get("path", ())))
        self.prepared = prepare(self.model) if prepare else None
        self.optimizer = self._optimizer(strategy, options)
        self.losses: list[float] = []
        self.earlier_seconds = 0.0  # of the processor, before the state that the run loaded
        self._begun = time.process_time()
        self._batches = setting.draw(corpus)

    def _optimizer(self, strategy: str, options: dict) -> torch.optim.Optimizer:
        if isinstance(self.prepared, torch.optim.Optimizer):
            return self.prepared
        setting = self.setting
        return tandem.torch.AdamW(
            self.model.parameters(), lr=setting.lr, betas=setting.betas,
            weight_decay=setting.weight_decay, strategy=strategy, max_norm=setting.clip,
            min_8bit_size=0, **options)

    @property
    def seconds(self) -> float:
        """Returns the processor's time for the run so far."""
        return self.earlier_seconds + time.process_time() - self._begun

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """Computes the logits of the model with its weights in f32."""
        if all(p.dtype == torch.float32 for p in self.model.parameters()):
            return self.model(inputs)
        if isinstance(self.prepared, torch.optim.Optimizer):
            return self.model(inputs).float()  # the model computes with its own weights
        wide = {name: p.float() for name, p in self.model.named_parameters()}
        return functional_call(self.model, wide, (inputs,))

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.logits(inputs)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def step(self) -> float:
        """Takes one step and returns the loss before it."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.setting.lr_at(len(self.losses))
        self.optimizer.zero_grad()
        loss = self.loss(*next(self._batches))
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return self.losses[-1]

    def train(self, name: str, visit: Callable[[int], None] = lambda step: None,
              until: int | None = None) -> None:
        """Takes the remaining steps, or those up to the step `until`, and calls `visit` after
        each. A non-finite loss ends the run."""
        last = self.setting.steps if until is None else until
        progress = Progress(name, last)
        for step in range(len(self.losses) + 1, last + 1):
            if self.losses and not math.isfinite(self.losses[-1]):
                break
            loss = self.step()
            visit(step)
            progress.update(step, f"loss {loss:.3f}")
        progress.finish(f"loss {self.losses[-1]:.3f}")

    def state(self) -> dict:
        """Returns what the run needs to go on: weights, the optimizer's state, all losses."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "losses": self.losses, "seconds": self.seconds}

    def load_state(self, state: dict) -> None:
        """Goes on from a state of a run with the same setting, and with the batches that follow
        those of its steps."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses = list(state["losses"])
        self.earlier_seconds = state["seconds"]
        self._batches = itertools.islice(
            self.setting.draw(self.corpus), len(self.losses), None)

    @torch.no_grad()
    def validation_loss(self, count: int = 16) -> float:
        """Returns the mean loss over batches that are the same for every run."""
        drawn = batches(self.corpus.validation, count, 16, self.setting.shape.context, seed=1)
        return statistics.fmean(self.loss(*batch).item() for batch in drawn)

    @torch.no_grad()
    def sharpness(self, epsilons: tuple[float, ...],
                  count: int = SHARPNESS_BATCHES) -> dict[str, float | None]:
        """Returns the mean sharpness for the last tokens of the validation text, by epsilon.
        This is the exact maximum, which the paper's search approximates."""
        parts = [(self.logits(inputs)[:, -1].double(), targets[:, -1]) for inputs, targets in
                 batches(self.corpus.validation, count, SHARPNESS_BATCH,
                         self.setting.shape.context, seed=2)]
        logits, targets = (torch.cat(part).numpy() for part in zip(*parts))
        if not np.isfinite(logits).all():
            return {f"{epsilon:g}": None for epsilon in epsilons}
        return {f"{epsilon:g}": float(np.mean(tandem.sharpness(
            logits, targets, epsilon=epsilon, method="exact"))) for epsilon in epsilons}


#===------------------------------------------------------------------------===#
# Figures
#===------------------------------------------------------------------------===#


def number(value: float) -> float | None:
    """Rounds a value; returns None if it is not finite, since JSON has no NaN."""
    return round(value, 5) if math.isfinite(value) else None


def final_loss(losses: list[float]) -> float:
    """Returns the mean of the last twentieth, but of at least ten losses."""
    return statistics.fmean(losses[-max(10, len(losses) // 20):])


def curve(losses: list[float], points: int = CURVE_POINTS) -> list[float | None]:
    """Returns the means of equal parts of a run."""
    edges = np.linspace(0, len(losses), min(points, len(losses)) + 1).astype(int)
    return [number(statistics.fmean(losses[a:b])) for a, b in zip(edges, edges[1:])]


def smoothed(losses: list[float], window: int) -> np.ndarray:
    """Returns running means over windows that lie within the run."""
    window = min(window, len(losses))
    return np.convolve(losses, np.full(window, 1 / window), "valid")


def diverged(losses: list[float]) -> bool:
    """Returns whether a loss is not finite, or the last ones are far above the lowest."""
    if not all(map(math.isfinite, losses)):
        return True
    window = max(10, len(losses) // 20)
    return bool(final_loss(losses) > smoothed(losses, window).min() + DIVERGED_NATS)


def spikes(losses: list[float]) -> int:
    """Counts the spikes: sequences of losses that exceed the bound given by those before them. A
    deviation is 1.4826 times the median absolute deviation."""
    found, above = 0, False
    for index in range(SPIKE_WINDOW, len(losses)):
        window = np.array(losses[index - SPIKE_WINDOW:index])
        middle = np.median(window)
        deviation = 1.4826 * np.median(np.abs(window - middle))
        bound = middle + SPIKE_DEVIATIONS * deviation
        is_above = bool(not losses[index] <= bound)  # also true for NaN
        found, above = found + (is_above and not above), is_above
    return found


def figures(run: Run) -> dict:
    """Returns the figures that every study records of a run."""
    losses = run.losses
    return {"train_loss": number(final_loss(losses)), "steps": len(losses),
            "validation_loss": number(run.validation_loss()), "diverged": diverged(losses),
            "spikes": spikes(losses), "parameters": run.parameters,
            "seconds": round(run.seconds, 2), "curve": curve(losses)}
