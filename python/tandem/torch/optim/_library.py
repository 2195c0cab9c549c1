"""The optimizers of PyTorch, as graphs of the library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch

from tandem import _graphs
from tandem.torch.optim.advice import _auto
from tandem.torch.optim.advice._recommend import AUTO
from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim.state._identity import identified
from tandem.torch.optim.state._matching import IncompatibleKeys
from tandem.torch.optim.peers._dropin import refuse, without_torch_options
from tandem.torch.optim._optimizer import Optimizer


def _given(**values) -> dict:
    """Returns the arguments that are not None; the graph's defaults apply to the others."""
    return {name: value for name, value in values.items() if value is not None}


_OPTIONS = """
    Hyperparameters that are not given have the graph's defaults. Further arguments
    are those of :class:`Optimizer`: ``strategy`` ("flash-f16"), ``path``,
    ``seed``, ``threads``, ``metrics``, ``capturable``, ``skip_nonfinite``,
    ``gradient_release``, ``grad_accumulation``, ``ema_decay``, ``min_8bit_size``,
    ``min_8bit_vector_size`` and ``maximize``.
    torch.optim's ``foreach`` and ``fused`` are taken and change nothing, since a step is one
    kernel; its ``differentiable``, ``amsgrad`` and what else a kernel does not compute may be
    None, False or 0.
    """


class _Library(Optimizer):
    """An optimizer of the library, to whose docstring the common options are appended."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.__doc__ = (cls.__doc__ or "") + _OPTIONS

    def __init__(self, params: Iterable, graph: str, **options):
        super().__init__(params, graph,
                         **without_torch_options(type(self).__name__, options))


class _Choosing(_Library):
    """An optimizer that supports ``strategy="auto"``, which chooses its strategies."""

    #: The :class:`Recommendation` of ``strategy="auto"``; None otherwise, and after pickling.
    recommendation = None

    def _chosen(self, optimizer: str, params: Iterable, memory: object, betas: object,
                options: dict, **others) -> Iterable:
        """Returns the parameters, split into groups with strategies for ``strategy="auto"``. The
        option ``strategy`` is then set to the main one."""
        if options.get("strategy") == AUTO:
            params, options["strategy"], self.recommendation = _auto.choose(
                optimizer, params, memory, betas, options | others)
        elif memory is not None:
            raise TypeError("memory= says what strategy='auto' may use; pass both or neither")
        return params


class AdamW(_Choosing):
    """AdamW (Loshchilov and Hutter 2019).

    Args:
        decay: where weight decay is applied: "inside" the update, as in Collage; "before" it, as
            in torch.optim.AdamW; or "after" it.
        eps_inside_root: whether epsilon is added inside the square root; only for decay
            "inside".
        max_norm: the maximum norm of all gradients together, to which they are scaled down in
            the same step, as by ``torch.nn.utils.clip_grad_norm_``; only for decay "inside".
        stores_ratio: whether the state is the ratio m / sqrt(v) of the first moment to the root of
            the second in place of m, as strategies with moments of four bits need
            ("coded-ratio4", "dither-ratio4", "residual-ratio4"); only for decay "inside", or "before"
            without max_norm.
        cautious: whether only elements move whose momentum agrees with the gradient in its sign, and
            the others of a tensor farther instead (Liang et al. 2024); only for decay "before"
            without max_norm, and not measured, so that ``strategy="auto"`` refuses it.
        memory: with ``strategy="auto"``, the memory on this rank for weights, gradients and
            states: a number of bytes, or a text such as "24GiB". Each param group is split by
            the roles of parameters, as in :func:`recommend`; embeddings are recognized only by
            the names of named parameters. :attr:`recommendation` has the choice.
    """

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None,
                 weight_decay=None, *, decay: str = "inside",
                 eps_inside_root: bool = False, max_norm=None, stores_ratio: bool = False,
                 cautious: bool = False, memory=None, **options):
        graph = _graphs.adamw(decay, eps_inside_root, max_norm, stores_ratio,
                              "tandem.torch.Optimizer", cautious)
        if stores_ratio and options.get("strategy") == AUTO:
            raise ValueError("strategy='auto' does not choose for stores_ratio=True: how far "
                             "weights end from float64's was measured for graphs that store m; "
                             "name a strategy, such as 'residual-ratio4'")
        if cautious and options.get("strategy") == AUTO:
            raise ValueError("strategy='auto' does not choose for cautious=True, which was not "
                             "measured; name a strategy, such as 'flash-f16'")
        params = self._chosen("AdamW", params, memory, betas, options,
                              **_given(max_norm=max_norm))
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                        max_norm=max_norm)
        super().__init__(params, graph, **hypers, **options)

    @property
    def grad_norm(self) -> float:
        """The norm of all gradients in the last step with ``max_norm``, before they were scaled
        down, as ``torch.nn.utils.clip_grad_norm_`` returns it; on a GPU this waits for the step."""
        if "max_norm" not in self.defaults:
            raise RuntimeError("this optimizer computes no norm; create it with max_norm=, which may "
                               "be a number that no norm reaches")
        if not self._runner.measured:
            raise RuntimeError("the last step updated nothing, so that there is no norm")
        return math.sqrt(self._runner.measured[0].plan.sum(0))


class LAMB(_Library):
    """LAMB (You et al. 2020): AdamW's update, scaled for each parameter tensor by
    the norm of the parameter divided by that of the update."""

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None,
                 weight_decay=None, **options):
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "lamb", **hypers, **options)


class Adam(_Choosing):
    """Adam (Kingma and Ba 2015), with weight decay added to the gradient.

    Args:
        memory: with ``strategy="auto"``, as for :class:`AdamW`.
    """

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None,
                 weight_decay=None, *, memory=None, **options):
        params = self._chosen("Adam", params, memory, betas, options)
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adam", **hypers, **options)


class _SGDHypers(Hypers):
    """SGD's hyperparameters."""

    def check_flags(self, group: Mapping, index: int) -> None:
        """Also refuses a kind of momentum other than the one that the optimizer was created
        with."""
        ours = self.graph == "sgd_nesterov"
        if group.get("nesterov", ours) != ours:
            raise ValueError(
                f"param group {index} has nesterov={group['nesterov']!r}, but this SGD was "
                f"created with nesterov={ours}; create another one")
        super().check_flags({k: v for k, v in group.items() if k != "nesterov"}, index)


class SGD(_Library):
    """Stochastic gradient descent, with weight decay added to the gradient.

    Args:
        momentum: 0 means no momentum and no state; groups then cannot have any either.
        nesterov: whether to use Nesterov momentum.
    """

    _HYPERS = _SGDHypers

    def __init__(self, params: Iterable, lr=None, momentum: float = 0.0, *,
                 weight_decay=None, nesterov: bool = False, **options):
        graph = _graphs.sgd(momentum, nesterov)
        hypers = _given(lr=lr, weight_decay=weight_decay)
        if momentum:
            hypers["momentum"] = momentum
        super().__init__(params, graph, **hypers, **options)

    def add_param_group(self, param_group: dict) -> None:
        """Adds a param group, which cannot have momentum if this was created without."""
        if isinstance(param_group, dict) and "momentum" not in self.defaults:
            if param_group.get("momentum"):
                raise ValueError(
                    "a param group has momentum, but this SGD was created without; "
                    "pass a momentum to SGD, and 0 to the groups that have none"
                )
        super().add_param_group(param_group)


class Lion(_Library):
    """Lion (Chen et al. 2023), the sign of an interpolated momentum.

    Args:
        cautious: whether only elements move whose sign is that of the gradient, and the others of a
            tensor farther instead (Liang et al. 2024). Decay is then before the update.
    """

    def __init__(self, params: Iterable, lr=None, betas=None, weight_decay=None, *,
                 cautious: bool = False, **options):
        hypers = _given(lr=lr, betas=betas, weight_decay=weight_decay)
        super().__init__(params, "lion_cautious" if cautious else "lion", **hypers, **options)


class Adadelta(_Library):
    """Adadelta (Zeiler 2012), with weight decay added to the gradient, as in torch.optim.Adadelta."""

    def __init__(self, params: Iterable, lr=None, rho=None, eps=None, weight_decay=None,
                 **options):
        hypers = _given(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adadelta", **hypers, **options)


class RMSprop(_Library):
    """RMSprop (Hinton 2012), with weight decay added to the gradient."""

    def __init__(self, params: Iterable, lr=None, alpha=None, eps=None,
                 weight_decay=None, momentum: float = 0.0, **options):
        refuse("RMSprop", "momentum", momentum)
        hypers = _given(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "rmsprop", **hypers, **options)


class Adagrad(_Library):
    """Adagrad (Duchi et al. 2011), with weight decay added to the gradient."""

    def __init__(self, params: Iterable, lr=None, lr_decay=None, weight_decay=None, *,
                 eps=None, **options):
        hypers = _given(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adagrad", **hypers, **options)


class _ASGDHypers(Hypers):
    """ASGD's hyperparameters: the rate of a step, and its share in the average."""

    count = "step"

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name == "mixing":
            return 1 / max(1.0, step - 1 - self.number("t0", group, index))
        value = super().value_at(name, group, index, step, dtype, shape)
        if name == "lr":
            decay = 1 + self.number("lambd", group, index) * value * (step - 1)
            return value / decay**self.number("alpha", group, index)
        return value


class ASGD(_Library):
    """Averaged SGD (Polyak and Juditsky 1992), as in torch.optim.ASGD: the state "ax" is the
    average of the weights, stored like the weights.

    Args:
        lambd: the decay of weights, which are multiplied by 1 - lambd * rate.
        alpha: the power with which the rate falls.
        t0: the step from which on weights are averaged.
    """

    _HYPERS = _ASGDHypers

    def __init__(self, params: Iterable, lr=None, lambd=None, alpha: float = 0.75,
                 t0: float = 1e6, weight_decay=None, **options):
        hypers = _given(lr=lr, lambd=lambd, weight_decay=weight_decay)
        super().__init__(params, "asgd", alpha=alpha, t0=t0, **hypers, **options)

    def _defaults(self) -> dict:
        defaults = super()._defaults()
        del defaults["mixing"]
        return defaults | {"alpha": 0.75, "t0": 1e6}


class _RpropHypers(Hypers):
    """Rprop's hyperparameters."""

    _PAIRS = {"etas": ("etaminus", "etaplus"), "step_sizes": ("least", "most")}

    def check(self, group: Mapping, index: int) -> None:
        _graphs.check_rprop(*(self.number(name, group, index) for name in
                              ("etaminus", "etaplus", "least", "most")),
                            owner=f" of param group {index}")


class Rprop(_Library):
    """Rprop (Riedmiller and Braun 1993), as in torch.optim.Rprop, for gradients of whole data
    sets.

    Args:
        lr: the first step size of each element.
        etas: the factors by which a step size shrinks and grows, (0.5, 1.2) by default.
        step_sizes: the least and the largest step size, (1e-6, 50) by default.
    """

    _HYPERS = _RpropHypers

    def __init__(self, params: Iterable, lr=None, etas=None, step_sizes=None, **options):
        super().__init__(params, "rprop", **_given(lr=lr, etas=etas, step_sizes=step_sizes),
                         **options)


def _with_flat_means(state_dict: dict) -> dict:
    """Returns a state dict of torch.optim.Adafactor with vectors in place of its matrices of one
    column or row."""
    means = ("row_var", -1), ("col_var", -2)
    states = {key: dict(state) for key, state in state_dict["state"].items()}
    for state in states.values():
        for name, at in means:
            if name in state and state[name].dim() == 2:
                state[name] = state[name].squeeze(at)
    return {**state_dict, "state": states}


class _AdafactorHypers(Hypers):
    """Adafactor's hyperparameters, some of which depend on the step."""

    count = "step"

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name == "rho":
            return min(self.number("lr", group, index), 1 / step**0.5)
        if name == "mixing":
            return float(step) ** self.number("beta2_decay", group, index)
        eps = group["eps"]
        if name == "eps1" and isinstance(eps, Sequence) and eps and eps[0] is None:
            return torch.finfo(dtype).eps
        return super().value_at(name, group, index, step, dtype, shape)

    def check(self, group: Mapping, index: int) -> None:
        for name, holds, domain in (
                ("beta2_decay", lambda x: x <= 0, "at most 0"),
                ("d", lambda x: x >= 1, "at least 1")):
            if not holds(value := self.number(name, group, index)):
                raise ValueError(
                    f"{name!r} of param group {index} is {value:g}; it must be {domain}")


class Adafactor(_Library):
    """Adafactor (Shazeer and Stern 2018), as in torch.optim.Adafactor.

    The second moment of a matrix is stored as means along rows and columns, and that of a vector
    or scalar for each element. Parameters with more dimensions are refused.

    Args:
        lr: the maximum relative step size, which is min(lr, 1 / sqrt(step)).
        beta2_decay: the second moment decays by 1 - step ** beta2_decay.
        eps: a pair of lower bounds, for the root of the second moment and for the root mean
            square of the weights. None means the machine epsilon of the parameter's type.
        d: the maximum root mean square of updates, to which they are scaled down.
    """

    _HYPERS = _AdafactorHypers

    def __init__(self, params: Iterable, lr=None, beta2_decay=None, eps=None, d=None,
                 weight_decay=None, **options):
        if options.get("metrics"):
            raise ValueError(
                "Adafactor has no metrics, as kernels of matrices have none; leave "
                "metrics=True out"
            )
        hypers = _given(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d,
                        weight_decay=weight_decay)
        super().__init__(params, "adafactor", vectors="adafactor_vector", **hypers,
                         **options)

    def _defaults(self) -> dict:
        """Returns the defaults without hyperparameters that depend on the step. The first
        epsilon depends on the type."""
        defaults = super()._defaults()
        del defaults["rho"], defaults["mixing"]
        return defaults | {"beta2_decay": -0.8, "eps": (None, defaults["eps"][1])}

    def load_state_dict(self, state_dict: dict, strict: bool = True,
                        convert: bool = True) -> IncompatibleKeys | None:
        """Loads a state, which may be one of torch.optim.Adafactor, whose means along rows and
        columns have two dimensions."""
        state_dict = identified(state_dict)
        return super().load_state_dict(state_dict if "tandem" in state_dict else
                                       _with_flat_means(state_dict), strict, convert)
