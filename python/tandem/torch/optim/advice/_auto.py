"""The choice of strategies for an optimizer's param groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch

from tandem.torch._versions import at_least
from tandem.torch.optim.advice._memory import Footprints, in_bytes
from tandem.torch.optim.advice._kinds import KINDS
from tandem.torch.optim.advice._recommend import (Recommendation, Search, checked_betas,
                                           on_first_rank, ranks_of)
from tandem.torch.optim.advice._roles import ROLES, describe_parameter
from tandem.torch.optim._wrappers import has_ranks

#: Whether optimizers take named parameters, which PyTorch supports from 2.6 on.
TAKES_NAMES = at_least(2, 6)


class Chosen(NamedTuple):
    """Param groups with strategies, the main strategy, and the recommendation."""

    params: list[dict]
    strategy: str
    recommendation: Recommendation


def choose(optimizer: str, params: Iterable, memory: object, betas: object,
           options: Mapping) -> Chosen:
    """Splits the param groups of an optimizer by role, and sets the strategy for each.

    Args:
        optimizer: "AdamW" or "Adam".
        params: parameters, named parameters or param groups, as the optimizer takes them.
        memory: the number of bytes on this rank, or a text such as "24GiB".
        betas: the betas of groups without their own; None for the graph's defaults.
        options: further arguments of the optimizer.

    Raises:
        TypeError, ValueError: as in :func:`recommend`, or a group or an option leaves no choice.
    """
    if memory is None:
        raise TypeError("strategy='auto' needs memory=, what there is on this rank for weights, "
                        "gradients and states, as memory='24GiB'")
    limit, groups = in_bytes(memory), _groups(params)
    _refuse(groups, options)
    pairs = [checked_betas(group.get("betas") or betas or (0.9, 0.999)) for group in groups]
    members = [list(map(_named, group["params"])) for group in groups]
    found = [[on_first_rank(describe_parameter(param, name)) for name, param in own]
             for own in members]
    tensors = [tensor for own in found for tensor in own]
    codes = 0 if has_ranks() or any(_maximizes(group, options) for group in groups) else 1
    footprints = Footprints(bool(options.get("gradient_release")),
                            options.get("min_8bit_size", 4096), KINDS[optimizer])
    search = Search(tensors, [second for _, second in pairs], codes, footprints,
                    optimizer)
    recommendation = search.best(limit, ranks_of(tensors), pairs[0])
    strategies = recommendation.strategies
    divided = [part for group, own in zip(groups, found)
               for part in _divided(group, own, strategies)]
    return Chosen(divided, next(iter(strategies.values())), recommendation)


def _groups(params: Iterable) -> list[dict]:
    """Returns parameters as a list of param groups whose parameters are lists."""
    if isinstance(params, (torch.Tensor, set, Mapping, str)) or not isinstance(params, Iterable):
        raise TypeError("strategy='auto' takes a list of parameters, named parameters or param "
                        f"groups, got a {type(params).__name__}")
    given = list(params)
    if not given:
        raise ValueError("strategy='auto' got no parameters")
    groups = given if isinstance(given[0], dict) else [{"params": given}]
    if others := [group for group in groups if not isinstance(group, dict)]:
        raise TypeError(f"param groups must all be dicts, got a {type(others[0]).__name__}")
    return [{**group, "params": _listed(group.get("params", ()))} for group in groups]


def _listed(params: object) -> list:
    return [params] if isinstance(params, torch.Tensor) else list(params)


def _named(param: object) -> tuple[str | None, torch.Tensor]:
    """Returns the name of a parameter, if it has one, and the parameter."""
    name, tensor = param if isinstance(param, tuple) and len(param) == 2 else (None, param)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"strategy='auto' takes tensors, got a {type(tensor).__name__}")
    return name, tensor


def _maximizes(group: Mapping, options: Mapping) -> bool:
    return bool(group.get("maximize", options.get("maximize")))


def _refuse(groups: list[dict], options: Mapping) -> None:
    """Refuses options that leave no choice of a strategy."""
    for index, group in enumerate(groups):
        for option in ("strategy", "min_8bit_size", "min_8bit_vector_size"):
            if option in group:
                raise ValueError(f"param group {index} has {option}={group[option]!r} beside "
                                 "strategy='auto'; leave that out, or name the strategies of all "
                                 "groups: tandem.torch.recommend says which")
    if "max_norm" in options:
        raise ValueError("max_norm sums over all parameters in one launch, which takes one "
                         "strategy for all; with strategy='auto' clip by torch.nn.utils."
                         "clip_grad_norm_, or name a strategy")
    if options.get("ema_decay") is not None:
        raise ValueError("strategy='auto' does not count the bytes of an average of weights; leave "
                         "ema_decay= out, or name a strategy")
    if options.get("path"):
        raise ValueError("strategy='auto' chooses among the library's strategies; leave path= "
                         "out, or name a strategy")


def _divided(group: Mapping, own: list, strategies: Mapping[str, str]) -> Iterator[dict]:
    """Yields the parts of a param group by role. Parameters without gradients are added to the
    matrices or to the first part."""
    default = next(iter(strategies))
    roles = [tensor.role if tensor.role in strategies else default for tensor in own]
    for role in ROLES:
        params = [param if TAKES_NAMES else _named(param)[1]
                  for param, of in zip(group["params"], roles) if of == role]
        if params:
            yield {**group, "params": params, "strategy": strategies[role]}
