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


#===------------------------------------------------------------------------===#
# MARS
#===------------------------------------------------------------------------===#


class _MARSHypers(Hypers):
    """MARS's hyperparameters: those of parameters of fewer than two dimensions are AdamW's."""

    is_shaped = True
    peers_options = {"mars_type": ("adamw", "mars-adamw"), "ams_bound": (False,), "cautious": (False,),
                     "weight_decouple": (True,), "fixed_decay": (False,)}

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        return (1, 1) if len(shape) > 1 else None

    def given(self, name: str, group: Mapping, shape: tuple[int, ...] | None = None) -> object:
        found = super().given(name, group)
        if shape is not None or group["optimize_1d"] or name == "eps":
            return found
        if name == "lr" and isinstance(found, torch.Tensor) and group["lr_1d_factor"] != 1.0:
            raise ValueError("a learning rate in a tensor is that of all parameters; give vectors "
                             "a param group of their own, and leave lr_1d out")
        return found if name == "lr" else None

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if shape is None and not group["optimize_1d"]:
            return self._value_1d(name, group, index)
        return 1.0 if name == "limit" else self.number(name, group, index)

    def _value_1d(self, name: str, group: Mapping, index: int) -> float:
        """Returns a hyperparameter of AdamW, which has neither a correction nor a limit."""
        if name in ("beta1", "beta2"):
            return _pair_1d(group, index)[name == "beta2"]
        if name == "limit":
            return torch.finfo(torch.float32).max
        if name == "gamma":
            return 0.0
        if name == "weight_decay":
            return _positive_1d("weight_decay_1d", group, index)
        value = self.number(name, group, index)
        return value * _positive_1d("lr_1d_factor", group, index) if name == "lr" else value

    def check(self, group: Mapping, index: int) -> None:
        if (gamma := self.number("gamma", group, index)) > 1:
            raise ValueError(f"gamma of param group {index} is {gamma:g}; it must be from 0 to 1")


def _pair_1d(group: Mapping, index: int) -> tuple[float, float]:
    """Returns the decays of parameters of fewer than two dimensions."""
    betas = group["betas_1d"]
    if not (isinstance(betas, (tuple, list)) and len(betas) == 2
            and all(isinstance(beta, (int, float)) and 0 <= beta < 1 for beta in betas)):
        raise ValueError(f"betas_1d of param group {index} is {betas!r}; it must be a pair of "
                         "numbers from 0 to below 1")
    return float(betas[0]), float(betas[1])


def _positive_1d(name: str, group: Mapping, index: int) -> float:
    """Returns another option of these parameters."""
    value = group[name]
    if not (isinstance(value, (int, float)) and value >= 0):
        raise ValueError(f"{name} of param group {index} is {value!r}; it must be a number, at "
                         "least 0")
    return float(value)


class MARS(_Library):
    """MARS with AdamW's update (Yuan et al. 2024).

    Moments are averages of a corrected gradient: the gradient plus a share of its difference from
    the previous step's, scaled down to a norm of at most 1 in each parameter. (The paper calls this
    form "approximate", since its exact form needs the current batch's gradient at the previous
    weights.) Parameters of fewer than two dimensions are updated by AdamW.

    Args:
        lr: the learning rate (3e-3).
        betas: the decays of both moments (0.95, 0.99).
        gamma: the share of the difference, times (1 - beta1) / beta1 (0.025).
        optimize_1d: whether parameters of fewer than two dimensions are updated in the same way.
        lr_1d: the learning rate of these; None for ``lr``. A param group has its ratio to
            ``lr``, ``lr_1d_factor``, so that a scheduler changes both.
        betas_1d: the decays of these.
        weight_decay_1d: the decay of these.
    """

    _HYPERS = _MARSHypers

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None, weight_decay=None,
                 gamma=None, *, optimize_1d: bool = False, lr_1d=None, betas_1d=(0.9, 0.95),
                 weight_decay_1d: float = 0.1, **options):
        rate = 3e-3 if lr is None else float(lr)
        if lr_1d is not None and not rate:
            raise ValueError("lr_1d is a multiple of lr, which is 0; give vectors a param group of "
                             "their own, or leave lr_1d out")
        self._own = {"optimize_1d": bool(optimize_1d), "betas_1d": betas_1d,
                     "lr_1d_factor": 1.0 if lr_1d is None else float(lr_1d) / rate,
                     "weight_decay_1d": weight_decay_1d}
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, gamma=gamma)
        super().__init__(params, "mars", **hypers, **options)

    def _defaults(self) -> dict:
        """Returns the defaults of a param group. The kernel does not know all of them."""
        defaults = super()._defaults()
        del defaults["limit"]
        return defaults | self._own
