#===- fp8_arithmetic.py - Collage computed in 8-bit floats -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements Collage's AdamW with every operation rounded to E4M3's four significant bits.
#
#===----------------------------------------------------------------------===#
"""Runs Collage in FP8 as its appendix D describes: every operation of Algorithm 2, including those of
Grow and Mul, takes and returns FP8 numbers. Tandem's strategies for FP8 compute in f32 instead, and
store results in E4M3.

An E4M3 number has a smallest magnitude, below which products of moments and learning rates fall. So
the result of each operation has a power-of-two scale for each group of elements or, as a bound for
all ways to choose scales, exponents without limits. A second moment that would become zero or
negative keeps the smallest number, as it does under Tandem's strategies.
"""

from collections.abc import Callable

import torch
from tandem.torch.nn._masks import Mask

Rounding = Callable[[torch.Tensor], torch.Tensor]
#: E4M3's significant bits with f32's exponents.
MASK = Mask("E8M3", rounding="nearest")
#: The binade of E4M3 that the largest magnitude of a group moves to, whose numbers never saturate.
TOP = 7
#: The elements that share a scale.
GROUP = 128
#: The exponent of E4M3's smallest number.
SMALLEST = -9


def unlimited(x: torch.Tensor) -> torch.Tensor:
    """Rounds to four significant bits, ties to even, with f32's exponents."""
    return MASK(x.float())


def scaled(x: torch.Tensor) -> torch.Tensor:
    """Rounds to E4M3 after a power-of-two scale for each group."""
    groups = in_groups(x)
    shift = shifts(groups)
    codes = torch.ldexp(groups, shift).to(torch.float8_e4m3fn)
    return torch.ldexp(codes.float(), -shift).flatten()[:x.numel()].view(x.shape)


def in_groups(x: torch.Tensor) -> torch.Tensor:
    """Returns the elements as f32 with a group in each row, the last one padded with zeros."""
    flat = x.float().flatten()
    return torch.nn.functional.pad(flat, (0, -flat.numel() % GROUP)).view(-1, GROUP)


def shifts(groups: torch.Tensor) -> torch.Tensor:
    """Returns the logarithm of the factor of each group."""
    _, exponent = torch.frexp(groups.abs().amax(1, keepdim=True))
    return TOP + 1 - exponent


def least(x: torch.Tensor) -> torch.Tensor:
    """Returns the smallest number that each element's scale allows, 0 in a group of zeros."""
    groups = in_groups(x)
    is_used = groups.any(1, keepdim=True).float()
    smallest = torch.ldexp(is_used, SMALLEST - shifts(groups))
    return smallest.expand_as(groups).flatten()[:x.numel()].view(x.shape)


ROUNDINGS: dict[str, Rounding] = {"unlimited": unlimited, "scaled": scaled}


class Arithmetic:
    """Operations whose results are rounded."""

    def __init__(self, rounding: Rounding):
        self.round = rounding

    def number(self, value: float) -> torch.Tensor:
        """Returns a scalar, computed in f64, after it is rounded."""
        return unlimited(torch.tensor([value]))

    def pair(self, value: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns a scalar as the sum of two numbers."""
        head = self.number(value)
        return head, self.number(value - head.item())

    def add(self, a, b):
        return self.round(a + b)

    def mul(self, a, b):
        return self.round(a * b)

    def grow(self, x, y, a):
        """Adds to the sum of x and y, where |x| need not be above |a| (Algorithm 1)."""
        u = self.add(x, a)
        v = self.add(a, -self.add(u, -x))
        return self.fast_two_sum(u, self.add(y, v))

    def fast_two_sum(self, a, b):
        s = self.add(a, b)
        return s, self.add(b, -self.add(s, -a))

    def mul_pair(self, factor, x, y):
        """Multiplies the sum of x and y by a scalar that is a pair (Algorithm 7)."""
        head, tail = factor
        product = self.mul(x, head)
        error = self.round(x * head - product)  # exact before it is rounded, as by an FMA
        error = self.add(error, self.add(self.mul(y, head), self.mul(x, tail)))
        return self.fast_two_sum(product, error)


class CollageAdamW(torch.optim.Optimizer):
    """AdamW of Collage, whose parameters hold the sums of both components in f32.

    Args:
        rounding: a name of :data:`ROUNDINGS`.
        plus: whether second moments have two components, too (Collage-plus).
    """

    def __init__(self, params, lr: float, betas: tuple[float, float], weight_decay: float,
                 rounding: str, plus: bool, eps: float = 1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay,
                                  "eps": eps})
        self.arithmetic, self.plus = Arithmetic(ROUNDINGS[rounding]), plus
        self.has_floor = rounding == "scaled"

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step(p, group, self.state[p])

    def _begin(self, p: torch.Tensor, state: dict) -> None:
        """Splits a weight into its components."""
        head = self.arithmetic.round(p)
        state |= {"step": 0, "head": head, "tail": self.arithmetic.round(p - head)}
        state |= {name: torch.zeros_like(head) for name in ("m", "v", "dv")}

    def _step(self, p: torch.Tensor, group: dict, state: dict) -> None:
        a = self.arithmetic
        if not state:
            self._begin(p, state)
        state["step"] += 1
        (beta1, beta2), g = group["betas"], a.round(p.grad)
        state["m"] = a.add(a.mul(state["m"], a.number(beta1)), a.mul(g, a.number(1 - beta1)))
        self._second(state, a.mul(a.mul(g, g), a.number(1 - beta2)), beta2)
        mean = a.mul(state["m"], a.number(1 / (1 - beta1 ** state["step"])))
        square = a.mul(state["v"], a.number(1 / (1 - beta2 ** state["step"])))
        # A scale can make eps zero, by which nothing may be divided.
        root = a.add(a.round(self._positive(square).sqrt()), a.number(group["eps"]))
        root = root.clamp(min=group["eps"])
        update = a.add(a.round(mean / root), a.mul(state["head"], a.number(group["weight_decay"])))
        state["head"], state["tail"] = a.grow(
            state["head"], state["tail"], a.mul(update, a.number(-group["lr"])))
        p.copy_(state["head"] + state["tail"])

    def _second(self, state: dict, added: torch.Tensor, beta2: float) -> None:
        """Updates the second moment."""
        a = self.arithmetic
        if self.plus:
            product = a.mul_pair(a.pair(beta2), state["v"], state["dv"])
            state["v"], state["dv"] = a.grow(*product, added)
        else:
            state["v"] = a.add(a.mul(state["v"], a.number(beta2)), added)
        state["v"] = self._positive(state["v"])

    def _positive(self, square: torch.Tensor) -> torch.Tensor:
        """Returns a mean of squares in which those that a scale has made zero are the smallest
        number."""
        return torch.where(square <= 0, least(square), square) if self.has_floor else square
