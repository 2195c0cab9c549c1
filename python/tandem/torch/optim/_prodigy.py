"""Prodigy, which estimates its learning rate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch

from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim.gradients._coded import CodedGradients
from tandem.torch.optim._library import _given, _Library

#: The entries of a param group that a step updates; "k" counts the steps. All groups have the same
#: values.
_RUNNING = ("d", "d_max", "d_numerator", "k")
#: The number of steps after which an estimate that has not grown is reported.
_PATIENCE = 100
#: The sums over the model in the graph, by their indices among its reductions.
_GAINED, _SIZE = 0, 1
#: Features of optimizers that this one lacks, and the reasons.
_REASONS = {
    "gradient_release": "the estimate is computed from sums over all parameters",
    "capturable": "the estimate is computed on the CPU",
}
#: A factor by which no d grows in float32.
_UNLIMITED = 2.0**100


class _ProdigyHypers(Hypers):
    """Prodigy's hyperparameters, with truth values as numbers."""

    running = _RUNNING
    peers_options = {"decouple": (True,), "slice_p": (1,)}

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name == "s_beta":
            return _s_beta(group, index)
        if name == "fresh":
            return float(group["d"] == group["d0"])
        if name == "growth_rate":  # kernels take no infinity
            return min(self.number(name, group, index), _UNLIMITED)
        key = {"bias_correction": "use_bias_correction", "safeguard": "safeguard_warmup"}.get(name)
        return float(bool(group[key])) if key else super().value_at(name, group, index, step, dtype)

    def check(self, group: Mapping, index: int) -> None:
        for name in ("d", "d0"):
            if not self.number(name, group, index) > 0:
                raise ValueError(f"{name!r} of param group {index} is {group[name]!r}; it must be above "
                                 "0, since d grows from it by factors")


def _s_beta(group: Mapping, index: int) -> float:
    """Returns the decay of the sums from which the rate is estimated."""
    if (beta := group["beta3"]) is None:
        return math.sqrt(float(group["betas"][1]))
    if not (isinstance(beta, (int, float)) and 0 <= beta < 1):
        raise ValueError(f"beta3 of param group {index} is {beta!r}; it must be a number from 0 to "
                         "below 1, or None for the root of the second of betas")
    return float(beta)


class Prodigy(_Library):
    """Prodigy (Mishchenko and Defazio 2024), as ``prodigyopt.Prodigy``: AdamW that estimates its
    learning rate.

    The rate is ``lr * d``. An estimate d of the distance from the first weights to a solution grows
    from ``d0`` within the first steps. ``param_groups`` has it under "d", with "d_max" and
    "d_numerator", after each step, which waits for the GPU for this. All groups have one d, and a
    group whose lr is 0 takes no step.

    Args:
        lr: a factor of the estimated rate (1.0), which a schedule may change.
        betas: the decays of both moments (0.9, 0.999).
        beta3: the decay of the sums from which d is estimated; None for the root of the second
            of ``betas``.
        weight_decay: the decay, independent of the gradient.
        use_bias_correction: whether the rate has AdamW's correction of the first steps.
        safeguard_warmup: whether the estimate's denominator does not count lr, so that a warm-up of
            lr does not raise d.
        d0: the first d (1e-6).
        d_coef: a factor of the estimates (1.0), the way to change the rate.
        growth_rate: the maximum factor by which d grows in a step (infinity).
    """

    _HYPERS = _ProdigyHypers

    def __init__(self, params: Iterable, lr=None, betas=None, beta3: float | None = None, eps=None,
                 weight_decay=None, *, use_bias_correction: bool = False,
                 safeguard_warmup: bool = False, d0=None, d_coef=None, growth_rate=None, **options):
        for option, reason in _REASONS.items():
            if options.get(option):
                raise ValueError(f"Prodigy does not take {option}: {reason}")
        self._own = {"beta3": beta3, "use_bias_correction": bool(use_bias_correction),
                     "safeguard_warmup": bool(safeguard_warmup), "growth_rate": math.inf,
                     "k": 0}
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, d0=d0,
                        d_coef=d_coef, growth_rate=growth_rate)
        if d0 is not None:
            hypers |= {"d": d0, "d_max": d0}
        super().__init__(params, "prodigy", **hypers, **options)

    def _defaults(self) -> dict:
        """Returns the defaults of a param group. The kernel does not know all of them."""
        known = super()._defaults()
        return {name: value for name, value in known.items()
                if name not in ("s_beta", "fresh", "bias_correction", "safeguard")} | self._own

    def add_param_group(self, param_group: dict) -> None:
        """Adds a param group, which has the optimizer's estimate."""
        super().add_param_group(param_group)
        self._share_estimate()

    def _share_estimate(self) -> None:
        """Gives all param groups the estimate of the first."""
        first, *others = self.param_groups
        for group in others:
            group.update((name, first[name]) for name in _RUNNING)

    #===--------------------------------------------------------------------===#
    # Steps
    #===--------------------------------------------------------------------===#

    def _update(self) -> None:
        self._share_estimate()
        rates = {float(group["lr"]) for group in self.param_groups} - {0.0}
        if len(rates) > 1:
            raise ValueError(f"param groups have the learning rates {sorted(rates)}, but Prodigy "
                             "estimates one for all; give each group the same lr, or 0 for no step")
        if not rates:
            return
        with _resting(self.param_groups, self._gradients):
            super()._update()
        for launch in self._runner.measured or ():
            self._estimate(launch.plan.sum(_GAINED), launch.plan.sum(_SIZE))
            self._share_estimate()

    def _estimate(self, gained: float, size: float) -> None:
        """Computes d from the sums of a step, as the kernel has in float32.

        Args:
            gained: what the step has added to the numerator.
            size: the denominator.
        """
        group = self.param_groups[0]
        group["k"] += 1
        numerator = _s_beta(group, 0) * group["d_numerator"] + gained
        if not (math.isfinite(numerator) and math.isfinite(size)):
            warnings.warn("Prodigy keeps its estimate d, since gradients of this step are not finite; "
                          "skip_nonfinite=True skips such steps", stacklevel=4)
            return
        if not size:  # all gradients have been zeros so far
            return
        d, found = float(group["d"]), float(group["d_coef"]) * numerator / size
        if d == group["d0"]:
            d = max(d, found)
        group["d_max"] = max(float(group["d_max"]), found)
        group["d"] = min(group["d_max"], d * float(group["growth_rate"]))
        group["d_numerator"] = numerator
        if group["k"] == _PATIENCE and group["d"] == group["d0"]:
            warnings.warn(
                f"Prodigy's estimate d is d0 = {group['d0']:g} after {_PATIENCE} steps. Steps of this rate "
                f"may be lost in weights under strategy {self.strategy!r}: take one whose weights are "
                "dithered or have more than bf16's bits, such as 'flash-f16', or a larger d0",
                stacklevel=4)


@contextmanager
def _resting(groups: Iterable[Mapping], coded: CodedGradients) -> Iterator[None]:
    """Returns a context in which parameters of groups with a rate of 0 have no gradients."""
    held = [(param, param.grad, coded.take(param)) for group in groups if not group["lr"]
            for param in group["params"] if coded.has(param)]
    for param, _, _ in held:
        param.grad = None
    try:
        yield
    finally:
        for param, grad, codes in held:
            param.grad = grad
            if codes:
                coded.put(param, codes)
