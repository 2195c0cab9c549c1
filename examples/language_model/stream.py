# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares strategies with float64 AdamW on one recorded stream of gradients.

A float32 training run of the real model supplies the gradients; a few of its
tensors are kept, rounded to bfloat16. The stream does not depend on the optimizer that
consumes it, so a strategy's error comes only from its arithmetic and is the same on
every run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from data import Corpus, batches
from model import make_model
from optimizers import (
    Hyperparameters,
    make_optimizer,
    parameter_dtype,
    set_lr,
    stored_weights,
)
from progress import Progress
from train import Config

# A table whose rows are rarely updated, matrices that are always updated, and gains.
RECORDED = ("tokens.", "blocks.0.attention")


@dataclasses.dataclass(frozen=True)
class Stream:
    """The initial weights and the gradients of each of them, step by step."""

    weights: list[torch.Tensor]
    gradients: list[torch.Tensor]
    hyper: Hyperparameters
    steps: int

    def lr_at(self, step: int) -> float:
        """Returns the recorded run's learning rate of a step."""
        return self.hyper.lr_at(step, self.steps)

    def numel(self) -> int:
        """Returns the number of weights in the stream."""
        return sum(weight.numel() for weight in self.weights)


@dataclasses.dataclass(frozen=True)
class StreamError:
    """The distance from float64 AdamW, relative to the distance that it moved the
    weights.

    `stored` uses every plane that the strategy has for a weight, `visible` only the
    weight that the model computes with.
    """

    stored: float
    visible: float


def record(corpus: Corpus, config: Config, progress: Progress) -> Stream:
    """Trains in float32 with torch's own AdamW and keeps RECORDED's gradients."""
    model = make_model(len(corpus.vocabulary), config.shape, config.seed, torch.float32)
    hyper, steps = config.hyper, config.stream_steps
    optimizer = torch.optim.AdamW(
        model.parameters(), hyper.lr, hyper.betas, hyper.eps, hyper.weight_decay
    )
    kept = [p for name, p in model.named_parameters() if name.startswith(RECORDED)]
    gradients = [torch.empty(steps, *p.shape, dtype=torch.bfloat16) for p in kept]
    stream = Stream([p.detach().clone() for p in kept], gradients, hyper, steps)
    drawn = batches(
        corpus.train, steps, config.batch, config.shape.context, config.seed
    )
    for step, batch in enumerate(drawn):
        set_lr(optimizer, stream.lr_at(step))
        optimizer.zero_grad()
        loss = model.loss(*batch)
        loss.backward()
        for kept_gradient, parameter in zip(gradients, kept):
            kept_gradient[step].copy_(parameter.grad)
        optimizer.step()
        progress.update(step + 1, f"loss {loss.item():.3f}")
    progress.finish(f"{stream.numel()} weights, {steps} steps kept")
    return stream


def adamw_float64(
    weight: torch.Tensor, gradients: torch.Tensor, stream: Stream
) -> torch.Tensor:
    """Returns the weight after AdamW in float64, with decoupled decay inside the
    update."""
    (beta1, beta2), decay = stream.hyper.betas, stream.hyper.weight_decay
    weight = weight.double()
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    for step, gradient in enumerate(gradients):
        gradient = gradient.double()
        first = beta1 * first + (1 - beta1) * gradient
        second = beta2 * second + (1 - beta2) * gradient * gradient
        unbiased = second / (1 - beta2 ** (step + 1))
        update = first / (1 - beta1 ** (step + 1))
        update = update / (unbiased.sqrt() + stream.hyper.eps) + decay * weight
        weight = weight - stream.lr_at(step) * update
    return weight


def reference(stream: Stream) -> list[torch.Tensor]:
    """Returns the stream's final weights under float64 AdamW."""
    pairs = zip(stream.weights, stream.gradients)
    return [adamw_float64(*pair, stream) for pair in pairs]


def relative_error(
    found: list[torch.Tensor], exact: list[torch.Tensor], start: list[torch.Tensor]
) -> float:
    """Returns |found - exact| / |exact - start| over all tensors together."""
    missed = sum(float((a - b).square().sum()) for a, b in zip(found, exact))
    moved = sum(float((b - c).square().sum()) for b, c in zip(exact, start))
    return (missed / moved) ** 0.5


def replay_weights(
    strategy: str, stream: Stream, path: Sequence[str] = ()
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Feeds the stream to a strategy and returns its final stored and visible
    weights."""
    dtype = parameter_dtype(strategy, path)
    weights = [torch.nn.Parameter(w.to(dtype, copy=True)) for w in stream.weights]
    optimizer = make_optimizer(strategy, weights, stream.hyper, path=path)
    for step in range(stream.steps):
        set_lr(optimizer, stream.lr_at(step))
        for weight, gradients in zip(weights, stream.gradients):
            weight.grad = gradients[step].to(dtype)
        optimizer.step()
    visible = [weight.detach().double() for weight in weights]
    return stored_weights(optimizer, path), visible


def replay(strategy: str, stream: Stream, exact: list[torch.Tensor]) -> StreamError:
    """Measures the distance from a strategy's final weights to the exact ones."""
    stored, visible = replay_weights(strategy, stream)
    return StreamError(
        relative_error(stored, exact, stream.weights),
        relative_error(visible, exact, stream.weights),
    )
