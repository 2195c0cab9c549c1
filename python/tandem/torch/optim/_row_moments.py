"""Optimizers whose second moments are means over rows or columns of matrices: CAME and Adam-mini."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from tandem import _graphs
from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._library import _given, _Library
from tandem.torch.optim._wrappers import refuse_division


def _refuse_metrics(name: str, options: Mapping) -> None:
    """Refuses metrics, which kernels of matrices do not have."""
    if options.get("metrics"):
        raise ValueError(f"{name} has no metrics, as kernels of matrices have none; leave "
                         "metrics=True out")


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
        _refuse_metrics(type(self).__name__, options)
        hypers = _given(lr=lr, eps=eps, clip_threshold=clip_threshold, betas=betas,
                        weight_decay=weight_decay)
        super().__init__(params, "came", vectors="came_vector", **hypers, **options)


#===------------------------------------------------------------------------===#
# Adam-mini
#===------------------------------------------------------------------------===#

#: The components of dotted names that models use for the projections to queries and keys.
_QUERIES_AND_KEYS = frozenset(("q_proj", "k_proj", "wq", "wk", "query", "key", "q", "k"))


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

    def __init__(self, params: Iterable, lr=None, betas=None, eps=None, weight_decay=None, *,
                 head_dim: int | None = None, **options):
        _refuse_metrics(type(self).__name__, options)
        self._own = {"weight_decay": 0.0, "head_dim": head_dim}
        hypers = _given(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, "adam_mini", vectors="adamw_decay_before", **hypers, **options)
        if head_dim is not None and not any(group["head_dim"] for group in self.param_groups):
            raise ValueError(
                f"head_dim={head_dim} is for queries and keys, but no parameter has a name of these "
                f"({', '.join(sorted(_QUERIES_AND_KEYS))}); pass model.named_parameters(), or give "
                "head_dim to the param group of queries and keys, and not to the optimizer")

    def _defaults(self) -> dict:
        """Returns the defaults of a param group. The vectors' graph has another weight decay."""
        return super()._defaults() | self._own

    def add_param_group(self, param_group: dict) -> None:
        """Adds a param group. One without ``head_dim`` becomes two if the optimizer has one, and
        the group has queries or keys and other parameters."""
        parts = (_parts(param_group, self.defaults["head_dim"])
                 if isinstance(param_group, dict) and "params" in param_group else [param_group])
        refuse_division(1, len(parts), "AdamMini divides them into queries and keys, and others; "
                        "give head_dim to a param group of queries and keys")
        count = len(self.param_groups)
        try:
            for part in parts:
                super().add_param_group(part)
        except Exception:
            del self.param_groups[count:]
            raise


def _parts(group: dict, head_dim: int | None) -> list[dict]:
    """Divides a param group, and gives ``head_dim`` to the part with queries and keys."""
    if "head_dim" in group:
        return [group]
    given = group["params"]
    members: dict[int | None, list] = {None: [], head_dim: []}
    for member in [given] if isinstance(given, torch.Tensor) else given:
        members[head_dim if _projects_to_heads(member) else None].append(member)
    parts = [group | {"params": own, "head_dim": rows} for rows, own in members.items() if own]
    return parts or [group | {"params": [], "head_dim": None}]


def _projects_to_heads(member: object) -> bool:
    """Returns whether a parameter is named, and is a projection to queries or keys."""
    if not isinstance(member, tuple):
        return False
    name, param = member
    return param.dim() > 1 and not _QUERIES_AND_KEYS.isdisjoint(name.split("."))
