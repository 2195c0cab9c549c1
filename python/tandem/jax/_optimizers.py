"""Functions that create the library's optimizers."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from tandem import _graphs
from tandem.jax._launch import DTYPES, Scalar
from tandem.jax._optimizer import Optimizer

_OPTIONS = """

    Hyperparameters that are None have the graph's defaults; each may be a function of the count
    of steps, such as an optax schedule. Further arguments are those of :class:`Optimizer`:
    ``strategy`` ("flash-f16"), ``path``, ``seed``, ``threads``, ``metrics``,
    ``skip_nonfinite``, ``ema_decay``, ``min_8bit_size`` and ``min_8bit_vector_size``.
    """


def _documented(function):
    """Appends the common options to a function's docstring."""
    function.__doc__ = function.__doc__.rstrip() + _OPTIONS
    return function


def _without_own(given: Mapping, names: tuple[str, ...], source: str) -> dict:
    """Refuses hyperparameters that an optimizer computes from others."""
    if taken := sorted(set(names) & set(given)):
        raise TypeError(f"{taken[0]} follows from {source}; leave it out")
    return dict(given)


@_documented
def adamw(lr=None, betas=None, eps=None, weight_decay=None, *, decay: str = "inside",
          eps_inside_root: bool = False, max_norm=None, stores_ratio: bool = False,
          cautious: bool = False, **options) -> Optimizer:
    """AdamW (Loshchilov and Hutter 2019).

    Args:
        decay: where weight decay is applied: "inside" the update, as in Collage; "before" it, as
            in torch.optim.AdamW; or "after" it.
        eps_inside_root: whether epsilon is added inside the square root; only for decay
            "inside".
        max_norm: the maximum norm of all gradients together, to which they are scaled down in
            the same step; only for decay "inside".
        stores_ratio: whether the state is the ratio m / sqrt(v) of the first moment to the root of
            the second in place of m, as strategies with moments of four bits need; only for decay
            "inside", or "before" without max_norm.
        cautious: whether only elements move whose momentum agrees with the gradient in its sign, and
            the others of a leaf farther instead (Liang et al. 2024); only for decay "before" without
            max_norm.
    """
    graph = _graphs.adamw(decay, eps_inside_root, max_norm, stores_ratio,
                          "tandem.jax.Optimizer", cautious)
    return Optimizer(graph, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                     max_norm=max_norm, **options)


@_documented
def adam(lr=None, betas=None, eps=None, weight_decay=None, **options) -> Optimizer:
    """Adam (Kingma and Ba 2015), with weight decay added to the gradient."""
    return Optimizer("adam", lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **options)


@_documented
def lamb(lr=None, betas=None, eps=None, weight_decay=None, **options) -> Optimizer:
    """LAMB (You et al. 2020): AdamW's update, scaled for each leaf by the norm of the parameter
    divided by that of the update."""
    return Optimizer("lamb", lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **options)


@_documented
def sgd(lr=None, momentum: float = 0.0, *, weight_decay=None, nesterov: bool = False,
        **options) -> Optimizer:
    """Stochastic gradient descent, with weight decay added to the gradient.

    Args:
        momentum: 0 means no momentum and no state.
        nesterov: whether to use Nesterov momentum.
    """
    graph = _graphs.sgd(momentum, nesterov)
    return Optimizer(graph, lr=lr, momentum=momentum or None, weight_decay=weight_decay, **options)


@_documented
def ademamix(lr=None, betas=None, alpha=None, eps=None, weight_decay=None, **options) -> Optimizer:
    """AdEMAMix (Pagliardini et al. 2024): AdamW with a second, slow average of gradients.

    Args:
        betas: the decays of the fast average, of the second moment, and of the slow average. For a
            schedule, give ``beta1``, ``beta2`` and ``beta3`` one by one.
        alpha: the factor of the slow average.
    """
    return Optimizer("ademamix", lr=lr, betas=betas, alpha=alpha, eps=eps,
                     weight_decay=weight_decay, **options)


@_documented
def lion(lr=None, betas=None, weight_decay=None, *, cautious: bool = False,
         **options) -> Optimizer:
    """Lion (Chen et al. 2023), the sign of an interpolated momentum.

    Args:
        cautious: whether only elements move whose sign is that of the gradient, and the others of a
            leaf farther instead (Liang et al. 2024). Decay is then before the update.
    """
    return Optimizer("lion_cautious" if cautious else "lion", lr=lr, betas=betas,
                     weight_decay=weight_decay, **options)


@_documented
def adadelta(lr=None, rho=None, eps=None, weight_decay=None, **options) -> Optimizer:
    """Adadelta (Zeiler 2012), with weight decay added to the gradient."""
    return Optimizer("adadelta", lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, **options)


@_documented
def adamax(lr=None, betas=None, eps=None, weight_decay=None, **options) -> Optimizer:
    """Adamax (Kingma and Ba 2015), with weight decay added to the gradient."""
    return Optimizer("adamax", lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **options)


@_documented
def rprop(lr=None, etas=None, step_sizes=None, **options) -> Optimizer:
    """Rprop (Riedmiller and Braun 1993), for gradients of whole data sets.

    Args:
        lr: the first step size of each element.
        etas: the factors by which a step size shrinks and grows, (0.5, 1.2) by default.
        step_sizes: the least and the largest step size, (1e-6, 50) by default.
    """
    return _Rprop("rprop", lr=lr, etas=etas, step_sizes=step_sizes, **options)


class _Rprop(Optimizer):
    """Rprop, some of whose hyperparameters are given as pairs."""

    _PAIRS = {"etas": ("etaminus", "etaplus"), "step_sizes": ("least", "most")}

    def _check_known(self) -> None:
        super()._check_known()
        known = (self._hypers[name] for name in ("etaminus", "etaplus", "least", "most"))
        _graphs.check_rprop(*(None if callable(value) else value for value in known))


@_documented
def adan(lr=None, betas=None, eps=None, weight_decay=None, **options) -> Optimizer:
    """Adan (Xie et al. 2024), with Nesterov's momentum of differences of gradients.

    Args:
        betas: the decays of the gradients', their differences' and the second moment.
    """
    return _Adan("adan", lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **options)


class _Adan(Optimizer):
    """Adan, whose first step has no previous gradient."""

    def _named(self, hypers: Mapping) -> dict:
        return _without_own(super()._named(hypers), ("difference",), "the step")

    def _scalar(self, name: str, numbers: Mapping[str, Scalar], step: jax.Array,
                type: str) -> Scalar:
        if name == "difference":
            return jnp.where(step > 1, jnp.float32(1), jnp.float32(0))
        return super()._scalar(name, numbers, step, type)


@_documented
def radam(lr=None, betas=None, eps=None, weight_decay=None, **options) -> Optimizer:
    """RAdam (Liu et al. 2020), with weight decay added to the gradient. The rectification is
    computed in f32."""
    return _RAdam("radam", lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **options)


class _RAdam(Optimizer):
    """RAdam, whose steps are adaptive and rectified as their number says (Algorithm 2)."""

    def _named(self, hypers: Mapping) -> dict:
        return _without_own(super()._named(hypers), ("adaptive", "scale"), "beta2 and the step")

    def _scalar(self, name: str, numbers: Mapping[str, Scalar], step: jax.Array,
                type: str) -> Scalar:
        if name not in ("adaptive", "scale"):
            return super()._scalar(name, numbers, step, type)
        beta2, count = jnp.float32(numbers["beta2"]), step.astype(jnp.float32)
        # 1 - beta2^t loses less than beta2^t in f32.
        rest = -jnp.expm1(count * jnp.log(beta2))
        most = 2 / (1 - beta2) - 1
        length = most - 2 * count * (1 - rest) / rest
        is_adaptive = length > 5
        if name == "adaptive":
            return jnp.where(is_adaptive, jnp.float32(1), jnp.float32(0))
        safe = jnp.where(is_adaptive, length, most)
        ratio = (safe - 4) * (safe - 2) * most / ((most - 4) * (most - 2) * safe)
        return jnp.where(is_adaptive, jnp.sqrt(ratio * rest), jnp.float32(1))


@_documented
def came(lr=None, eps=None, clip_threshold=None, betas=None, weight_decay=None,
         **options) -> Optimizer:
    """CAME (Luo et al. 2023): Adafactor's update, whose momentum is divided by the root of its
    instability. Leaves with more than two dimensions are refused.

    Args:
        eps: a pair of numbers that are added to the squared gradient and to the instability.
        clip_threshold: the maximum root mean square of updates.
        betas: the decays of the momentum, the second moment and the instability.
    """
    if options.get("metrics"):
        raise ValueError("came has no metrics, as kernels of matrices have none; leave "
                         "metrics=True out")
    return _CAME("came", vectors="came_vector", lr=lr, eps=eps, clip_threshold=clip_threshold,
                 betas=betas, weight_decay=weight_decay, **options)


class _CAME(Optimizer):
    """CAME, whose updates are scaled down to a root mean square above 0."""

    def _check_known(self) -> None:
        super()._check_known()
        if not callable(value := self._hypers["clip_threshold"]):
            _graphs.check_clip_threshold(value)


@_documented
def rmsprop(lr=None, alpha=None, eps=None, weight_decay=None, **options) -> Optimizer:
    """RMSprop (Hinton 2012), with weight decay added to the gradient."""
    return Optimizer("rmsprop", lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, **options)


@_documented
def adagrad(lr=None, lr_decay=None, weight_decay=None, *, eps=None, **options) -> Optimizer:
    """Adagrad (Duchi et al. 2011), with weight decay added to the gradient."""
    return Optimizer("adagrad", lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                     **options)


@_documented
def adafactor(lr=None, beta2_decay=None, eps=None, d=None, weight_decay=None,
              **options) -> Optimizer:
    """Adafactor (Shazeer and Stern 2018), as in torch.optim.Adafactor.

    The second moment of a matrix is stored as means along rows and columns, and that of a vector
    or scalar for each element. Leaves with more dimensions are refused.

    Args:
        lr: the maximum relative step size, which is min(lr, 1 / sqrt(step)).
        beta2_decay: the second moment decays by 1 - step ** beta2_decay.
        eps: a pair of lower bounds, for the root of the second moment and for the root mean
            square of the weights. None for the first means the machine epsilon of the leaf's
            type.
        d: the maximum root mean square of updates, to which they are scaled down.
    """
    if options.get("metrics"):
        raise ValueError("adafactor has no metrics, as kernels of matrices have none; leave "
                         "metrics=True out")
    return _Adafactor("adafactor", vectors="adafactor_vector", lr=lr, beta2_decay=beta2_decay,
                      eps=eps, d=d, weight_decay=weight_decay, **options)


class _Adafactor(Optimizer):
    """Adafactor, which computes some hyperparameters from others and the step, in f32."""

    def _own_defaults(self) -> dict:
        return {"beta2_decay": -0.8, "eps1": None, "rho": None, "mixing": None}

    def _named(self, hypers: Mapping) -> dict:
        given = _without_own(super()._named(hypers), ("rho", "mixing"),
                             "lr, beta2_decay and the step")
        return {name: value for name, value in given.items() if value is not None}

    def _check_known(self) -> None:
        super()._check_known()
        for name, holds, domain in (("beta2_decay", lambda x: x <= 0, "at most 0"),
                                    ("d", lambda x: x >= 1, "at least 1")):
            value = self._hypers[name]
            if isinstance(value, float) and not holds(value):
                raise ValueError(f"{name} is {value:g}; it must be {domain}")

    def _scalar(self, name: str, numbers: Mapping[str, Scalar], step: jax.Array,
                type: str) -> Scalar:
        count = step.astype(jnp.float32)
        if name == "rho":
            return jnp.minimum(jnp.float32(numbers["lr"]), 1 / jnp.sqrt(count))
        if name == "mixing":
            return count ** jnp.float32(numbers["beta2_decay"])
        if name == "eps1" and numbers[name] is None:
            return float(jnp.finfo(DTYPES[type]).eps)
        return super()._scalar(name, numbers, step, type)
