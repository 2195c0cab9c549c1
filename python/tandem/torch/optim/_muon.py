"""Muon, whose orthogonalization is an external step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from tandem.torch.optim._hypers import Hypers
from tandem.torch.optim._library import _given, _Library
from tandem.torch.optim._wrappers import is_flattened, refuse_division
from tandem.torch.optim._newton_schulz import check_coefficients, newton_schulz
from tandem.torch.optim.advice import _roles
from tandem.torch.optim.state._matching import IncompatibleKeys

#: The factors of the learning rate by the shape of a matrix, under the names of torch.optim.Muon.
_ADJUSTMENTS: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


def _rows_of(shape: Sequence[int], group: Mapping) -> tuple[list[int], int]:
    """Returns the rows of each of the matrices that are orthogonalized in a parameter, which are
    below each other, and their columns."""
    rows = shape[-2] if group["stacked"] else shape[0]
    columns = math.prod(shape[-1:] if group["stacked"] else shape[1:])
    split = group["split"]
    if split is None:
        return [rows], columns
    if isinstance(split, int):
        return [rows // split] * split, columns
    return list(split), columns


def orthogonalize(given: list[torch.Tensor], group: Mapping) -> torch.Tensor:
    """Computes the external step of the graph "muon" for one parameter."""
    (direction,) = given
    shape = direction.shape
    rows, columns = _rows_of(shape, group)
    folded = direction.reshape(*(shape[:-2] if group["stacked"] else ()), sum(rows), columns)
    parts = [newton_schulz(part, group["ns_coefficients"], group["ns_steps"], group["eps"],
                           group["precision"])
             for part in folded.split(rows, dim=-2)]
    if len(set(rows)) > 1:
        scale = _ADJUSTMENTS[group["adjust_lr_fn"]]
        parts = [part.float() * scale(own, columns) for part, own in zip(parts, rows)]
    return (torch.cat(parts, dim=-2) if len(parts) > 1 else parts[0]).reshape(shape)


class _MuonHypers(Hypers):
    """Muon's hyperparameters: the learning rate depends on the shape of the matrix."""

    is_shaped = True

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        return shape if len(shape) > 1 else None

    def value_at(self, name: str, group: Mapping, index: int, step: int,
                 dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> float:
        if name == "nesterov":
            # torch.lerp subtracts in float32.
            momentum = torch.tensor(self.number("momentum", group, index), dtype=torch.float32)
            return float(1 - momentum) if group["nesterov"] else 0.0
        if name == "scale":
            rows, columns = _rows_of(shape, group) if shape else ([1, 2], 1)
            is_one = len(set(rows)) == 1  # others are scaled one by one
            return _ADJUSTMENTS[group["adjust_lr_fn"]](rows[0], columns) if is_one else 1.0
        if name == "eps":
            return self.number("adamw_eps", group, index)
        return super().value_at(name, group, index, step, dtype, shape)

    def exchange_of(self, group: Mapping) -> str | None:
        # A direction in bf16 would take the precision of wider products away.
        is_wide = group["use_muon"] and group["precision"] != "bf16"
        return "f32" if is_wide else None

    def check(self, group: Mapping, index: int) -> None:
        if group["adjust_lr_fn"] not in _ADJUSTMENTS:
            raise ValueError(
                f"adjust_lr_fn of param group {index} is {group['adjust_lr_fn']!r}; take "
                + " or ".join(map(repr, _ADJUSTMENTS)))
        check_coefficients(group, index)
        for param in group["params"] if group["use_muon"] else ():
            _check_shape(tuple(param.shape), group, index)


def _check_shape(shape: tuple[int, ...], group: Mapping, index: int) -> None:
    """Refuses a parameter that is not a matrix, or not the matrices that its group says."""
    if not math.prod(shape):
        raise ValueError(
            f"param group {index} has use_muon=True and a parameter of the shape {shape}, which "
            "cannot be orthogonalized; give it to a group with use_muon=False")
    if len(shape) < 2:
        return  # refused by its name
    if len(shape) == 3 and group["stacked"] is None:
        raise ValueError(
            f"param group {index} has a parameter of the shape {shape}: give stacked=True to the "
            "group if it is a stack of matrices, such as those of experts, which are "
            "orthogonalized one by one, or stacked=False if its rows are the first dimension, as "
            "in a convolution")
    split, rows = group["split"], shape[-2] if group["stacked"] else shape[0]
    if split is not None and (rows % split if isinstance(split, int) else sum(split) != rows):
        raise ValueError(
            f"param group {index} has split={split!r} and a parameter of the shape {shape}; "
            f"split says into how many equal parts its {rows} rows are divided, or the number of "
            "rows of each part")


class Muon(_Library):
    """Muon (Jordan et al. 2024) for matrices, as in torch.optim.Muon, and AdamW for the others.

    The momentum's direction is orthogonalized by a Newton-Schulz iteration, whose products
    PyTorch computes; everything else is two kernels. A param group with ``use_muon=True`` has
    Muon's parameters, one with ``use_muon=False`` AdamW's (decay before the update, as in
    torch.optim.AdamW). Groups without it are divided: parameters of two and more dimensions are
    matrices, unless their names say that they are embeddings or a head.

    Args:
        params: named parameters, such as ``model.named_parameters()``, or param groups. Of
            parameters without names, all with two and more dimensions are matrices.
        lr: the learning rate of matrices.
        weight_decay: the decay of matrices, and of others if they have no ``adamw_weight_decay``.
        momentum: the factor of the momentum, an average of gradients.
        nesterov: whether the direction is Nesterov's.
        ns_coefficients: three coefficients of the iteration's polynomial, or a list of three for
            each step (the last ones are repeated); "polar_express" for those of Amsel et al. 2025.
        eps: the least norm by which a direction is divided.
        ns_steps: the number of steps of the iteration.
        adjust_lr_fn: the factor of the learning rate of a matrix: "original", the root of
            max(1, rows / columns), or "match_rms_adamw", 0.2 times the root of the larger, with
            which ``lr`` and ``weight_decay`` of AdamW suit matrices.
        adamw_lr: the learning rate of parameters that are not matrices; None for ``lr``, which
            needs ``adjust_lr_fn="match_rms_adamw"``.
        betas: AdamW's.
        adamw_eps: AdamW's epsilon.
        adamw_weight_decay: AdamW's decay.
        precision: the type that the iteration computes in: "bf16", as in torch.optim.Muon, "f16"
            or "f32". Directions and results are bfloat16 for "bf16", and float32 otherwise.
        stacked: whether parameters of three and more dimensions are stacks of matrices (True), or
            matrices with the first dimension as rows (False). None refuses three dimensions.
        split: into how many matrices of the same number of rows a parameter is divided, such as 3
            for queries, keys and values in one; or the number of rows of each.
    """

    _HYPERS = _MuonHypers

    #: The settings of AdamW's parameters; pickles of early versions lack them.
    _adamw: Mapping = {"lr": None, "weight_decay": None}

    def __init__(self, params: Iterable, lr=None, weight_decay=None, momentum=None,
                 nesterov: bool = True, ns_coefficients=(3.4445, -4.7750, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, *,
                 adamw_lr=None, betas=(0.9, 0.95), adamw_eps: float = 1e-8,
                 adamw_weight_decay=None, precision: str = "bf16", stacked: bool | None = None,
                 split: int | Sequence[int] | None = None, **options):
        self._own = {
            "nesterov": nesterov, "ns_coefficients": ns_coefficients, "eps": eps,
            "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn or "original",
            "precision": precision, "stacked": stacked, "split": split, "adamw_eps": adamw_eps,
            "use_muon": True,
        }
        self._adamw = {"lr": adamw_lr, "weight_decay": adamw_weight_decay}
        hypers = _given(lr=lr, weight_decay=weight_decay, momentum=momentum, betas=betas)
        super().__init__(_divided(params, self._adamw), "muon", vectors="adamw_decay_before",
                         external={"orthogonalize": orthogonalize}, **hypers, **options)

    def _defaults(self) -> dict:
        """Returns the defaults of a param group. The kernels know only some of them."""
        defaults = super()._defaults()
        return {name: value for name, value in defaults.items()
                if name not in ("scale", "eps")} | self._own

    def __getstate__(self) -> dict:
        return super().__getstate__() | {"_adamw": self._adamw}

    def add_param_group(self, param_group: dict) -> None:
        """Adds a param group, as the constructor takes it; without ``use_muon`` it has to be
        either of matrices or of others."""
        if isinstance(param_group, dict) and "use_muon" not in param_group:
            groups = _divided([param_group], self._adamw)
            if len(groups) > 1:
                raise ValueError(
                    "the param group has matrices and other parameters; give each a group, with "
                    "use_muon=True and use_muon=False")
            param_group = groups[0]
        self._check_rate(param_group)
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict, strict: bool = True,
                        convert: bool = True) -> IncompatibleKeys | None:
        """Loads a state, which may be one of torch.optim.Muon, whose adjust_lr_fn=None stands for
        "original"."""
        groups = [group | {"adjust_lr_fn": "original"}
                  if group.get("adjust_lr_fn", "") is None else group
                  for group in state_dict["param_groups"]]
        return super().load_state_dict({**state_dict, "param_groups": groups}, strict, convert)

    def _check_rate(self, group: object) -> None:
        """Refuses AdamW's parameters without a rate of their own where it would not suit them."""
        if not isinstance(group, dict) or group.get("use_muon") is not False or "lr" in group:
            return
        if group.get("adjust_lr_fn", self.defaults["adjust_lr_fn"]) == "original":
            raise ValueError(
                "a param group with use_muon=False has no learning rate of its own, and Muon's is "
                "too high for AdamW: give it lr=, or the optimizer adamw_lr=3e-4, or take "
                "adjust_lr_fn='match_rms_adamw', with which both have one")


def _divided(params: Iterable, adamw: Mapping) -> list[dict]:
    """Returns param groups of matrices and of other parameters."""
    given = list(params)
    groups = [dict(group) if isinstance(group, Mapping) else None for group in given]
    if None in groups:
        groups = [{"params": given}]
    divided = [part for group in groups for part in _parts(group, adamw)]
    refuse_division(len(groups), len(divided), "Muon divides them into matrices and other "
                    "parameters; give it groups with use_muon=True and use_muon=False, the latter "
                    "with lr=")
    return divided


def _parts(group: dict, adamw: Mapping) -> list[dict]:
    """Returns the param groups that a group becomes."""
    given = group["params"]
    members = [given] if isinstance(given, torch.Tensor) else list(given)
    if "use_muon" in group:
        wanted = {bool(group["use_muon"]): members}
    else:
        wanted = {True: [m for m in members if _is_matrix(m)],
                  False: [m for m in members if not _is_matrix(m)]}
    made = []
    for use_muon, own in wanted.items():
        if own or not members:
            rest = {} if use_muon else _given(**{k: v for k, v in adamw.items() if k not in group})
            made.append(group | rest | {"params": own, "use_muon": use_muon})
    return made[:1] if not members else made


def _is_matrix(member: object) -> bool:
    """Returns whether a parameter, or a pair of a name and a parameter, is a matrix, but not an
    embedding or a head."""
    name, param = member if isinstance(member, tuple) else (None, member)
    if is_flattened(param):
        raise ValueError(
            f"{name or 'a parameter'} is sharded by FSDP1, which flattens matrices, so that they "
            "cannot be orthogonalized; shard the model with fully_shard (FSDP2)")
    if param.dim() < 2:
        return False
    return _roles.role_of_name(name) not in _roles.ROWS_OF_TOKENS
