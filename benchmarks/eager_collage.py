#===- eager_collage.py - Collage-plus op by op in torch --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements AdamW under collage-plus with bf16 tensor operations, as it must be written
# without a compiler that keeps roundings.
#
#===----------------------------------------------------------------------===#
"""`step(planes, hypers)` updates bf16 tensors in place with the same bits as Tandem."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Hypers:
    lr: float = 1e-5
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    step: int = 10


def _power(base: float, exponent: int) -> float:
    """Computes a power by square and multiply, lowest bit first."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def _bf16(value: float) -> float:
    return torch.tensor(value, dtype=torch.float64).to(torch.bfloat16).item()


def _grow(x, y, a):
    u = x + a
    v = a - (u - x)
    t = y + v
    s = u + t
    return s, t - (s - u)


def _scale_by_scalar(b, db, v, dv):
    """Returns mul((b, db), (v, dv)) for scalars b and db."""
    x = v * b
    e = torch.add(-x, v, alpha=b)  # the residual of x, exact
    e = e + (dv * b + v * db)
    s = x + e
    return s, e - (s - x)


def update(param, param_lo, grad, exp_avg, exp_avg_sq, exp_avg_sq_lo, h: Hypers):
    """Returns the new planes; each operation rounds once to bf16."""
    b = _bf16(h.beta2)
    db = _bf16(h.beta2 - b)
    m = exp_avg * h.beta1 + grad * (1.0 - h.beta1)
    a = (grad * grad) * (1.0 - h.beta2)
    x, e = _scale_by_scalar(b, db, exp_avg_sq, exp_avg_sq_lo)
    v, dv = _grow(x, e, a)
    m_hat = m * (1.0 / (1.0 - _power(h.beta1, h.step)))
    v_hat = v * (1.0 / (1.0 - _power(h.beta2, h.step)))
    d = torch.sqrt(v_hat) + h.eps
    u = m_hat / d + param * h.weight_decay
    delta = u * -h.lr
    th, dth = _grow(param, param_lo, delta)
    return th, dth, m, v, dv


def step(planes: dict, h: Hypers, function=update) -> None:
    """Takes one step in place; ``function`` is `update` or its compiled form."""
    names = ("param", "param.lo", "exp_avg", "exp_avg_sq", "exp_avg_sq.lo")
    new = function(planes["param"], planes["param.lo"], planes["grad"],
                   planes["exp_avg"], planes["exp_avg_sq"],
                   planes["exp_avg_sq.lo"], h)
    for name, value in zip(names, new):
        planes[name].copy_(value)
