# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the model under one strategy and records the measurements."""

from __future__ import annotations

import dataclasses
import statistics
import time

import torch

from data import Corpus, batches
from model import ModelShape, Transformer, make_model, saved_bytes
from optimizers import (
    Hyperparameters,
    make_optimizer,
    parameter_dtype,
    set_lr,
    split_name,
)
from progress import Progress

TIMED_STEPS = 30


@dataclasses.dataclass(frozen=True)
class Config:
    """The configuration of a run, except for its strategy."""

    shape: ModelShape
    batch: int
    steps: int
    validate_every: int
    validation_batches: int
    stream_steps: int
    hyper: Hyperparameters = Hyperparameters()
    seed: int = 0
    path: tuple[str, ...] = ()  # folders with strategies that are not in the library


@dataclasses.dataclass
class Record:
    """The measurements of one training run.

    Lists have one entry per step, or per validation for the two of validation. step_ms
    is the wall time of a whole step with metrics, including validation.
    """

    strategy: str
    bytes_per_parameter: float = 0.0
    optimizer_ms: float = 0.0
    step_ms: float = 0.0
    parameters: int = 0
    saved_bytes: int = 0  # the activations of a batch, between the passes
    train_loss: list[float] = dataclasses.field(default_factory=list)
    edq: list[float] = dataclasses.field(default_factory=list)
    edq_ratio: list[float] = dataclasses.field(default_factory=list)
    lost_share: list[float] = dataclasses.field(default_factory=list)
    validation_steps: list[int] = dataclasses.field(default_factory=list)
    validation_loss: list[float] = dataclasses.field(default_factory=list)

    def final_train_loss(self) -> float:
        """Returns the mean loss of the last twentieth of the run, at least ten
        steps."""
        tail = max(10, len(self.train_loss) // 20)
        return statistics.fmean(self.train_loss[-tail:])


@torch.no_grad()
def validate(model: Transformer, corpus: Corpus, config: Config) -> float:
    """Returns the mean loss on validation batches, which are the same for every
    call."""
    drawn = batches(
        corpus.validation,
        config.validation_batches,
        config.batch,
        config.shape.context,
        seed=1,
    )
    return statistics.fmean(model.loss(*batch).item() for batch in drawn)


def time_optimizer(strategy: str, model: Transformer, config: Config) -> float:
    """Returns the median milliseconds of a step without metrics on the model's
    weights."""
    optimizer = make_optimizer(
        strategy, model.parameters(), config.hyper, path=config.path
    )
    weights = list(model.parameters())
    # A strategy that stores gradients in codes has released those from training.
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in weights]
    times = []
    for _ in range(TIMED_STEPS):
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient
        start = time.perf_counter()
        optimizer.step()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def note_metrics(record: Record, metrics: dict[str, float]) -> None:
    """Appends the optimizer's metrics of the last step."""
    record.edq.append(metrics["edq"])
    record.edq_ratio.append(metrics["edq_ratio"])
    record.lost_share.append(metrics["lost_share"])


def describe(record: Record) -> str:
    """Formats the state of a run for the progress line."""
    text = f"loss {record.train_loss[-1]:.3f}"
    if record.validation_loss:
        text += f"  validation {record.validation_loss[-1]:.3f}"
    return (
        f"{text}  EDQ ratio {record.edq_ratio[-1]:.3f}"
        f"  lost {100 * record.lost_share[-1]:.1f} %"
    )


def train(strategy: str, corpus: Corpus, config: Config, progress: Progress) -> Record:
    """Trains one run. The seed and the batches do not depend on the strategy."""
    dtype = parameter_dtype(strategy, config.path)
    model = make_model(
        len(corpus.vocabulary), config.shape, config.seed, dtype, split_name(strategy)[1]
    )
    optimizer = make_optimizer(
        strategy, model.parameters(), config.hyper, metrics=True, path=config.path
    )
    record = Record(strategy, float(optimizer.bytes_per_parameter))
    record.parameters = sum(p.numel() for p in model.parameters())
    drawn = batches(
        corpus.train, config.steps, config.batch, config.shape.context, config.seed
    )
    start = time.perf_counter()
    for step, batch in enumerate(drawn):
        record.saved_bytes = record.saved_bytes or saved_bytes(model, batch)
        set_lr(optimizer, config.hyper.lr_at(step, config.steps))
        optimizer.zero_grad()
        loss = model.loss(*batch)
        loss.backward()
        optimizer.step()
        record.train_loss.append(loss.item())
        note_metrics(record, optimizer.metrics())
        if (step + 1) % config.validate_every == 0 or step + 1 == config.steps:
            record.validation_steps.append(step + 1)
            record.validation_loss.append(validate(model, corpus, config))
        progress.update(step + 1, describe(record))
    record.step_ms = 1e3 * (time.perf_counter() - start) / config.steps
    optimizer.close()  # so that the next one may take the gradients
    record.optimizer_ms = time_optimizer(strategy, model, config)
    progress.finish(describe(record))
    return record
