"""Optimizers that keep Adam's moments and others, or mix them in another way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

import torch

from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._library import _given, _Library

#===------------------------------------------------------------------------===#
# AdEMAMix
#===------------------------------------------------------------------------===#


def _growing(first: float, last: float, share: float) -> float:
    """Returns a decay that grows from one to another (equation 4 of the paper): the number of steps
    in which the average forgets half grows linearly."""
    if share >= 1 or not first > 0 < last:
        return last
    near, far = math.log(first), math.log(last)
    return min(math.exp(near * far / ((1 - share) * far + share * near)), last)


class _AdEMAMixHypers(Hypers):
    """AdEMAMix's hyperparameters, two of which can grow over the first steps."""

    _PAIRS = {"betas": ("beta1", "beta2", "beta3")}

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        value = super().value_at(name, group, index, step, dtype, shape)
        if name == "alpha" and group["t_alpha"]:
            return min(step / group["t_alpha"], 1.0) * value
        if name == "beta3" and group["t_beta3"]:
            return _growing(self.number("beta1", group, index), value, step / group["t_beta3"])
        return value

    def check(self, group: Mapping, index: int) -> None:
        if self.is_captured and (group["t_alpha"] or group["t_beta3"]):
            raise ValueError(f"param group {index} has t_alpha or t_beta3, with which AdEMAMix reads "
                             "the count of steps on the CPU, so that its steps cannot be captured; "
                             "leave capturable out")
        for name in ("t_alpha", "t_beta3"):
            steps = group[name]
            if steps is not None and not steps > 0:
                raise ValueError(f"{name} of param group {index} is {steps!r}; it is a number of steps "
                                 "above 0, or None to begin with the final value")
        if group["t_beta3"] and not (self.number("beta1", group, index) > 0
                                     < self.number("beta3", group, index)):
            raise ValueError(f"betas of param group {index} are {group['betas']}; with t_beta3 the "
                             "first and the third must be above 0")


class AdEMAMix(_Library):
    """AdEMAMix (Pagliardini et al. 2024): AdamW with a second, slow average of gradients.

    The slow average forgets over thousands of steps, so that a step changes it by less than what
    bfloat16 or an 8-bit code to nearest can show. It is stored as the strategy stores the other
    first moment, and in place of bfloat16 to nearest dithered, or as an expansion under a
    strategy that computes in components.

    Args:
        betas: the decays of the fast average, of the second moment, and of the slow average;
            (0.9, 0.999, 0.9999) by default.
        alpha: the factor of the slow average, 5 by default.
        t_alpha: the number of steps over which alpha grows linearly from 0; None for none.
        t_beta3: the number of steps over which the third beta grows from the first; None for
            none.
    """

    _HYPERS = _AdEMAMixHypers

    def __init__(self, params: Iterable, lr=None, betas=None, alpha=None, t_alpha=None,
                 t_beta3=None, eps=None, weight_decay=None, **options):
        hypers = _given(lr=lr, betas=betas, alpha=alpha, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "ademamix", t_alpha=t_alpha, t_beta3=t_beta3, **hypers, **options)

    def _defaults(self) -> dict:
        return super()._defaults() | {"t_alpha": None, "t_beta3": None}


#===------------------------------------------------------------------------===#
# NAdam, RAdam and Adamax
#===------------------------------------------------------------------------===#


def _momentum(beta1: float, momentum_decay: float, step: int) -> float:
    """Returns NAdam's momentum in a step."""
    return beta1 * (1 - 0.5 * 0.96**(step * momentum_decay))


@lru_cache(maxsize=64)
def _products(beta1: float, momentum_decay: float) -> list[float]:
    """Returns a list that begins with the products of the momenta of the first steps."""
    return [1.0]


def _product(beta1: float, momentum_decay: float, steps: int) -> float:
    """Returns the product of NAdam's momenta up to a step."""
    known = _products(beta1, momentum_decay)
    while len(known) <= steps:
        known.append(known[-1] * _momentum(beta1, momentum_decay, len(known)))
    return known[steps]


class _NAdamHypers(Hypers):
    """NAdam's hyperparameters: the shares of the gradient and of the first moment."""

    reads_step = True

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name not in ("ahead", "back"):
            return super().value_at(name, group, index, step, dtype, shape)
        schedule = self.number("beta1", group, index), self.number("momentum_decay", group, index)
        product, number = _product(*schedule, step), step if name == "ahead" else step + 1
        momentum = _momentum(*schedule, number)
        return (1 - momentum) / (1 - product) if name == "ahead" else (
            momentum / (1 - product * momentum))

    def check(self, group: Mapping, index: int) -> None:
        if not self.number("momentum_decay", group, index) >= 0:
            raise ValueError(f"momentum_decay of param group {index} is {group['momentum_decay']!r}; "
                             "it must be at least 0")


class NAdam(_Library):
    """NAdam (Dozat 2016), as in torch.optim.NAdam, with weight decay added to the gradient.

    Args:
        momentum_decay: how fast the momentum grows to betas[0], 0.004 by default.
    """

    _HYPERS = _NAdamHypers

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None, weight_decay=None,
                 momentum_decay: float = 4e-3, **options):
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "nadam", momentum_decay=momentum_decay, **hypers, **options)

    def _defaults(self) -> dict:
        defaults = super()._defaults()
        del defaults["ahead"], defaults["back"]
        return defaults | {"momentum_decay": 4e-3}


def _rectification(beta2: float, step: int) -> float | None:
    """Returns RAdam's rectification, or None in the steps that have none (Liu et al. 2020,
    Algorithm 2)."""
    most = 2 / (1 - beta2) - 1
    length = most - 2 * step * beta2**step / (1 - beta2**step)
    if length <= 5:
        return None
    return math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))


class _RAdamHypers(Hypers):
    """RAdam's hyperparameters: whether a step is adaptive, and its rectification."""

    reads_step = True

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name not in ("adaptive", "scale"):
            return super().value_at(name, group, index, step, dtype, shape)
        beta2 = self.number("beta2", group, index)
        found = _rectification(beta2, step)
        if name == "adaptive":
            return 0.0 if found is None else 1.0
        return 1.0 if found is None else found * math.sqrt(1 - beta2**step)


class RAdam(_Library):
    """RAdam (Liu et al. 2020), as in torch.optim.RAdam, with weight decay added to the
    gradient."""

    _HYPERS = _RAdamHypers

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None, weight_decay=None,
                 **options):
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "radam", **hypers, **options)

    def _defaults(self) -> dict:
        defaults = super()._defaults()
        del defaults["adaptive"], defaults["scale"]
        return defaults


class Adamax(_Library):
    """Adamax (Kingma and Ba 2015), with weight decay added to the gradient: Adam with the
    largest recent gradient in place of the root of the second moment."""

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None, weight_decay=None,
                 **options):
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adamax", **hypers, **options)


#===------------------------------------------------------------------------===#
# Adan
#===------------------------------------------------------------------------===#


class _AdanHypers(Hypers):
    """Adan's hyperparameters: a parameter's first step has no previous gradient."""

    _PAIRS = {"betas": ("beta1", "beta2", "beta3")}
    reads_step = True

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name == "difference":
            return 1.0 if step > 1 else 0.0
        return super().value_at(name, group, index, step, dtype, shape)


class Adan(_Library):
    """Adan (Xie et al. 2024), with Nesterov's momentum of differences of gradients. It keeps the
    previous gradient, and the decay divides weights by 1 + lr * weight_decay.

    Args:
        betas: the decays of the gradients', their differences' and the second moment;
            (0.98, 0.92, 0.99) by default.
    """

    _HYPERS = _AdanHypers

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None, weight_decay=None,
                 **options):
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adan", **hypers, **options)

    def _defaults(self) -> dict:
        defaults = super()._defaults()
        del defaults["difference"]
        return defaults
