"""Optimizers whose second moments are means over rows or columns of matrices: CAME and Adam-mini."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from tandem import _graphs
from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._library import _given, _Library
from tandem.torch.optim._wrappers import refuse_division

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


#===------------------------------------------------------------------------===#
# Adam-mini
#===------------------------------------------------------------------------===#

#: The components of dotted names that models use for the projections to queries and keys.
_QUERIES_AND_KEYS = frozenset(("q_proj", "k_proj", "wq", "wk", "query", "key", "q", "k"))


class _AdamMiniHypers(Hypers):
    """Adam-mini's hyperparameters."""

    def check(self, group: Mapping, index: int) -> None:
        rows = group["head_dim"]
        if rows is None:
            return
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise ValueError(f"head_dim of param group {index} is {rows!r}; it must be the number of "
                             "rows of an attention head, or None")
        for param in group["params"]:
            if param.dim() > 1 and len(param) % rows:
                raise ValueError(
                    f"param group {index} has head_dim={rows} and a parameter of the shape "
                    f"{tuple(param.shape)}, whose {len(param)} rows are not a multiple of it; give "
                    "the parameter a param group of its own, with head_dim=None")


class AdamMini(_Library):
    """Adam-mini (Zhang et al. 2024): AdamW whose second moment is one number for each row of a
    matrix, which is an output neuron or a token, or for each attention head of queries and keys.

    Weight decay is applied before the update, as in torch.optim.AdamW. Parameters with fewer than
    two dimensions are updated by AdamW; those with more are refused.

    Args:
        params: named parameters, such as ``model.named_parameters()``, or param groups.
        lr: the learning rate (1e-3).
        betas: the decays of both moments (0.9, 0.999).
        eps: the number that is added to the root of the second moment (1e-8).
        weight_decay: the weight decay (0, as in the authors' code).
        head_dim: the number of rows of an attention head, an option of param groups. The rows of a
            head have one second moment, as the paper advises for queries and keys. The optimizer's
            own applies to the parameters whose names say that they project to queries or keys, and
            divides groups into these and others; that of a param group applies to all of its
            matrices. None for a second moment of each row.
    """

    _HYPERS = _AdamMiniHypers

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None, weight_decay=None, *,
                 head_dim: int | None = None, **options):
        if options.get("metrics"):
            raise ValueError("AdamMini has no metrics, as kernels of matrices have none; leave "
                             "metrics=True out")
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(_with_heads(params, head_dim), "adam_mini", vectors="adamw_decay_before",
                         **hypers, **options)

    def _defaults(self) -> dict:
        """Returns the defaults of a param group, with those of the graph of matrices."""
        return super()._defaults() | {"weight_decay": 0.0, "head_dim": None}


def _with_heads(params: Iterable, head_dim: int | None) -> Iterable:
    """Returns param groups of which those of queries and keys have a dimension of heads."""
    if head_dim is None:
        return params
    given = list(params)
    groups = [dict(group) if isinstance(group, Mapping) else None for group in given]
    if None in groups:
        groups = [{"params": given}]
    divided = [part for group in groups for part in _parts(group, head_dim)]
    if not any(group.get("head_dim") for group in divided):
        raise ValueError(
            f"head_dim={head_dim} is for queries and keys, but no parameter has a name of these "
            f"({', '.join(sorted(_QUERIES_AND_KEYS))}); pass model.named_parameters(), or give "
            "head_dim to the param group of queries and keys, and not to the optimizer")
    refuse_division(len(groups), len(divided), "AdamMini divides them into queries and keys, and "
                    "others; give head_dim to a param group of queries and keys")
    return divided


def _parts(group: dict, head_dim: int) -> list[dict]:
    """Returns a param group as those of queries and keys, and of others."""
    given = group["params"]
    members = [given] if isinstance(given, torch.Tensor) else list(given)
    heads = [member for member in members if _projects_to_heads(member)]
    if "head_dim" in group or not heads:
        return [group | {"params": members}]
    others = [member for member in members if not _projects_to_heads(member)]
    made = [group | {"params": heads, "head_dim": head_dim}]
    return [*([group | {"params": others}] if others else []), *made]


def _projects_to_heads(member: object) -> bool:
    """Returns whether a parameter is named, and is a projection to queries or keys."""
    if not isinstance(member, tuple):
        return False
    name, param = member
    return param.dim() > 1 and not _QUERIES_AND_KEYS.isdisjoint(name.split("."))
