# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The one place where the demo meets tandem.torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import tandem
import tandem.torch
import torch

PAPER_STRATEGIES = (
    "fp32",
    "bf16",
    "bf16-kahan",
    "collage-light",
    "collage-plus",
    "master-weights",
)
ALL_STRATEGIES = PAPER_STRATEGIES + (
    "bf16-stochastic",
    "collage-light-f32",
    "collage-plus-f32",
    "fp32-optim",
    "remainder",
    "f16",
    "f16-kahan",
    "f16-stochastic",
    "f16-collage-light",
    "f16-collage-plus",
    "f16-collage-light-f32",
    "f16-collage-plus-f32",
    "f16-fp32-optim",
    "f16-master-weights",
    "flash",
    "coat",
    "fp8-collage-light",
    "fp8-collage-plus",
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
        """Linear warm-up, then half a cosine down to final_lr; step from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, steps - self.warmup)
        cosine = 0.5 * (1 + math.cos(math.pi * done))
        return self.final_lr + (self.lr - self.final_lr) * cosine


def parameter_dtype(strategy: str) -> torch.dtype:
    """The format of the weights and gradients that the model computes with."""
    planes = tandem.compile("adamw", strategy).planes
    for plane in planes:
        if plane.name == "param" and plane.visible:
            return DTYPES[plane.type]
    raise ValueError("PyTorch has no type for weights that it stores as codes")


def make_optimizer(
    strategy: str,
    parameters: Iterable[torch.nn.Parameter],
    hyper: Hyperparameters,
    metrics: bool = False,
) -> tandem.torch.AdamW:
    """Tandem's AdamW under a strategy."""
    return tandem.torch.AdamW(
        parameters,
        lr=hyper.lr,
        betas=hyper.betas,
        eps=hyper.eps,
        weight_decay=hyper.weight_decay,
        strategy=strategy,
        metrics=metrics,
    )


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Sets the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def check_strategy(strategy: str) -> None:
    """Compiles and runs the strategy on one number, so that errors come early."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=parameter_dtype(strategy)))
    weight.grad = torch.ones_like(weight)
    make_optimizer(strategy, [weight], Hyperparameters(), metrics=True).step()


def join_remainder(weight: np.ndarray, remainder: np.ndarray) -> np.ndarray:
    """The float32 whose upper bits, rounded, and lower bits are stored apart."""
    low = remainder.astype(np.uint32)
    high = (weight.astype(np.uint32) - (low >> 15)) & np.uint32(0xFFFF)
    return (high << 16 | low).view(np.float32)


def half_ulp(weight: torch.Tensor) -> torch.Tensor:
    """Half a unit in the last place of each finite weight, in float64."""
    info = torch.finfo(weight.dtype)
    exponent = torch.frexp(weight.double().abs().clamp(min=info.smallest_normal))[1]
    quarter = torch.full_like(weight, info.eps / 4, dtype=torch.float64)
    return torch.ldexp(quarter, exponent)


def stored_weight(
    optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter
) -> torch.Tensor:
    """The weight with everything the strategy keeps about it, in float64."""
    state = optimizer.state[parameter]
    weight = parameter.detach()
    if "param.master" in state:
        return state["param.master"].double().view_as(weight)
    if "param.remainder" in state:
        bits = weight.view(torch.int16).numpy().view(np.uint16)
        low = state["param.remainder"].view(torch.int16).numpy().view(np.uint16)
        joined = join_remainder(bits, low.reshape(bits.shape))
        return torch.from_numpy(joined).double()
    if "param.residual" in state:
        residual = state["param.residual"]
        fraction = residual.double() / torch.iinfo(residual.dtype).max
        return weight.double() + fraction * half_ulp(weight)
    total = weight.double()
    for plane in ("param.lo", "param.lo2", "param.compensation"):
        if plane in state:
            total = total + state[plane].double().view_as(weight)
    return total
