"""The optimizers that PyTorch users know, as graphs of the library."""

from __future__ import annotations

from collections.abc import Iterable

from tandem.torch._optimizer import Optimizer


def _given(**values) -> dict:
    """The arguments that were given; the graph's defaults stand for the others."""
    return {name: value for name, value in values.items() if value is not None}


_OPTIONS = """
    Hyperparameters that are not given have the graph's defaults. Further arguments
    are those of :class:`Optimizer`: ``strategy`` ("collage-plus"), ``path``,
    ``seed``, ``threads`` and ``metrics``.
    """


class _Library(Optimizer):
    """An optimizer of the library, whose documentation ends with the options."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.__doc__ = (cls.__doc__ or "") + _OPTIONS


class AdamW(_Library):
    """AdamW (Loshchilov and Hutter 2019).

    Args:
        decay: where weight decay takes place: "inside" the update, as in Collage;
            "before" it, as in torch.optim.AdamW; or "after" it.
        eps_inside_root: whether epsilon is added under the root; only for decay
            "inside".
        max_norm: where the norm of all gradients together exceeds it, they are
            scaled down to it in the same step, as by
            torch.nn.utils.clip_grad_norm_; only for decay "inside".
    """

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None,
                 weight_decay=None, *, decay: str = "inside",
                 eps_inside_root: bool = False, max_norm=None, **options):
        graphs = {"inside": "adamw", "before": "adamw_decay_before",
                  "after": "adamw_decay_after"}
        if decay not in graphs:
            raise ValueError(
                f"decay must be 'inside', 'before' or 'after', got {decay!r}"
            )
        graph = graphs[decay]
        if max_norm is not None:
            if decay != "inside" or eps_inside_root:
                raise ValueError(
                    "max_norm needs decay='inside' and eps_inside_root=False; for "
                    "others, write the graph and pass it to tandem.torch.Optimizer"
                )
            graph = "adamw_clip"
        if eps_inside_root:
            if decay != "inside":
                raise ValueError(
                    f"eps_inside_root needs decay='inside', got decay={decay!r}; for "
                    "both, write the graph and pass it to tandem.torch.Optimizer"
                )
            graph = "adamw_eps_inside_root"
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                        max_norm=max_norm)
        super().__init__(params, graph, **hypers, **options)


class LAMB(_Library):
    """LAMB (You et al. 2020): AdamW's update, scaled for each parameter tensor by
    the norm of the parameter divided by that of the update."""

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None,
                 weight_decay=None, **options):
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "lamb", **hypers, **options)


class Adam(_Library):
    """Adam (Kingma and Ba 2015), with weight decay added to the gradient."""

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None,
                 weight_decay=None, **options):
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adam", **hypers, **options)


class SGD(_Library):
    """Stochastic gradient descent, with weight decay added to the gradient.

    Args:
        momentum: 0 for none, which needs no state; then no group can have any.
        nesterov: whether momentum looks ahead.
    """

    def __init__(self, params: Iterable, lr=None, momentum: float = 0.0,
                 weight_decay=None, nesterov: bool = False, **options):
        if nesterov and not momentum:
            raise ValueError("nesterov needs a momentum above 0")
        graph = "sgd_nesterov" if nesterov else "sgd_momentum" if momentum else "sgd"
        hypers = _given(lr=lr, weight_decay=weight_decay)
        if momentum:
            hypers["momentum"] = momentum
        super().__init__(params, graph, **hypers, **options)

    def add_param_group(self, param_group: dict) -> None:
        """Adds a param group; without momentum in SGD there is none in a group."""
        if isinstance(param_group, dict) and "momentum" not in self.defaults:
            if param_group.get("momentum"):
                raise ValueError(
                    "a param group has momentum, but this SGD was created without; "
                    "pass a momentum to SGD, and 0 to the groups that have none"
                )
        super().add_param_group(param_group)


class Lion(_Library):
    """Lion (Chen et al. 2023), the sign of an interpolated momentum."""

    def __init__(self, params: Iterable, lr=None, betas=None, weight_decay=None,
                 **options):
        hypers = _given(lr=lr, betas=betas, weight_decay=weight_decay)
        super().__init__(params, "lion", **hypers, **options)


class RMSprop(_Library):
    """RMSprop (Hinton 2012), with weight decay added to the gradient."""

    def __init__(self, params: Iterable, lr=None, alpha=None, eps=None,
                 weight_decay=None, **options):
        hypers = _given(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "rmsprop", **hypers, **options)


class Adagrad(_Library):
    """Adagrad (Duchi et al. 2011), with weight decay added to the gradient."""

    def __init__(self, params: Iterable, lr=None, lr_decay=None, weight_decay=None,
                 eps=None, **options):
        hypers = _given(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adagrad", **hypers, **options)
