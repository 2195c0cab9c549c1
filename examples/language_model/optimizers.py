# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's only module that calls tandem.torch's optimizers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import tandem
import tandem.torch
import torch

# The two extremes, the three that the library recommends, two from papers, and an 8-bit
# optimizer with 8-bit activations.
DEFAULT_STRATEGIES = (
    "fp32",
    "bf16",
    "remainder",
    "flash-f16",
    "dither-softsign-root",
    "coat",
    "collage-plus",
    "residual-softsign-root+coat",
)
ALL_STRATEGIES = DEFAULT_STRATEGIES[:-1] + tuple(
    name for name in tandem.strategies() if name not in DEFAULT_STRATEGIES
)
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """AdamW's settings and the schedule of its learning rate."""

    lr: float = 1e-3
    final_lr: float = 1e-5
    warmup: int = 50
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.1

    def lr_at(self, step: int, steps: int) -> float:
        """Returns the learning rate of a step, from 0: linear warm-up, then half a
        cosine to final_lr."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, steps - self.warmup)
        cosine = 0.5 * (1 + math.cos(math.pi * done))
        return self.final_lr + (self.lr - self.final_lr) * cosine


def split_name(name: str) -> tuple[str, str | None]:
    """Splits STRATEGY or STRATEGY+RECIPE into the optimizer's strategy and the
    activations' recipe."""
    strategy, _, recipe = name.partition("+")
    if recipe and recipe not in tandem.recipes():
        raise ValueError(
            f"unknown recipe '{recipe}'; there are {', '.join(tandem.recipes())}"
        )
    return strategy, recipe or None


def stores_ratio(strategy: str) -> bool:
    """Returns whether a strategy is made for AdamW's graph that stores m / sqrt(v)."""
    return "-ratio" in strategy


def parameter_dtype(name: str, path: Sequence[str] = ()) -> torch.dtype:
    """Returns the format of the weights and gradients that the model computes with."""
    planes = tandem.compile("adamw", split_name(name)[0], path=path).planes
    for plane in planes:
        if plane.name == "param" and plane.visible:
            return DTYPES[plane.type]
    return torch.bfloat16  # weights in codes are decoded to bf16


def make_optimizer(
    name: str,
    parameters: Iterable[torch.nn.Parameter],
    hyper: Hyperparameters,
    metrics: bool = False,
    path: Sequence[str] = (),
) -> tandem.torch.AdamW:
    """Creates Tandem's AdamW under a strategy from the library or a folder in path."""
    return tandem.torch.AdamW(
        parameters,
        lr=hyper.lr,
        betas=hyper.betas,
        eps=hyper.eps,
        weight_decay=hyper.weight_decay,
        strategy=split_name(name)[0],
        metrics=metrics,
        path=path,
        stores_ratio=stores_ratio(split_name(name)[0]),
        # The runs compare strategies, which therefore apply to norms as well.
        min_8bit_size=0,
    )


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Sets the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def check_strategy(strategy: str, path: Sequence[str] = ()) -> None:
    """Compiles and runs the strategy on one number, so that errors come early."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=parameter_dtype(strategy, path)))
    weight.grad = torch.ones_like(weight)
    make_optimizer(
        strategy, [weight], Hyperparameters(), metrics=True, path=path
    ).step()


def stored_weights(
    optimizer: tandem.torch.Optimizer, path: Sequence[str] = ()
) -> list[torch.Tensor]:
    """Returns the weights from all of the strategy's planes for them, in float64.

    They are rounded to float32, which loses bits only of an expansion whose components
    are far apart.
    """
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    wide = tandem.torch.convert_state(
        optimizer.state_dict(), weights, "fp32", path=path
    )[1]
    return [weight.double() for weight in wide]
