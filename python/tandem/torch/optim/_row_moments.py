"""MARS, whose moments are of corrected gradients, and CAME, whose second moments are means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from tandem import _graphs
from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._library import _given, _Library

#===------------------------------------------------------------------------===#
# MARS
#===------------------------------------------------------------------------===#


#: Options of the authors' MARS and of pytorch_optimizer's, and their values with which these take our
#: steps.
_PEERS_OPTIONS = {"mars_type": ("adamw", "mars-adamw"), "ams_bound": (False,), "cautious": (False,),
                  "weight_decouple": (True,), "fixed_decay": (False,)}


class _MARSHypers(Hypers):
    """MARS's hyperparameters: those of parameters of fewer than two dimensions are AdamW's."""

    is_shaped = True

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

    @property
    def flags(self) -> list[str]:
        return [*super().flags, *_PEERS_OPTIONS]

    def check_flags(self, group: Mapping, index: int) -> None:
        for name, ours in _PEERS_OPTIONS.items():
            if group.get(name, ours[0]) not in ours:
                raise ValueError(f"param group {index} has {name}={group[name]!r}, which the kernel "
                                 "of MARS does not compute; leave it out")
        super().check_flags({k: v for k, v in group.items() if k not in _PEERS_OPTIONS}, index)


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


#===------------------------------------------------------------------------===#
# CAME
#===------------------------------------------------------------------------===#


class _CAMEHypers(Hypers):
    """CAME's hyperparameters."""

    _PAIRS = {"betas": ("beta1", "beta2", "beta3"), "eps": ("eps1", "eps2")}

    def check(self, group: Mapping, index: int) -> None:
        _graphs.check_clip_threshold(self.number("clip_threshold", group, index),
                                     f" of param group {index}")


class CAME(_Library):
    """CAME (Luo et al. 2023): Adafactor's update, whose momentum is divided by the root of its
    instability, which is the squared distance of updates from the momentum.

    The second moment and the instability of a matrix are stored as means along rows and columns;
    a vector or scalar has a second moment for each element, and no instability. Parameters with
    more dimensions are refused.

    Args:
        lr: the learning rate (2e-4).
        eps: a pair of numbers that are added to the squared gradient and to the instability,
            (1e-30, 1e-16).
        clip_threshold: the maximum root mean square of updates, to which they are scaled down
            (1).
        betas: the decays of the momentum, the second moment and the instability,
            (0.9, 0.999, 0.9999).
    """

    _HYPERS = _CAMEHypers

    def __init__(self, params: Iterable, lr=None, eps=None, clip_threshold=None, betas=None,
                 weight_decay=None, **options):
        if options.get("metrics"):
            raise ValueError("CAME has no metrics, as kernels of matrices have none; leave "
                             "metrics=True out")
        hypers = _given(lr=lr, eps=eps, clip_threshold=clip_threshold, betas=betas,
                        weight_decay=weight_decay)
        super().__init__(params, "came", vectors="came_vector", **hypers, **options)
