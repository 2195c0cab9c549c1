"""Changes of an optimizer's strategy during training."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tandem.torch._layout import is_placeholder
from tandem.torch.optim.state._convert import convert_state
from tandem.torch.optim._optimizer import Optimizer


def check_strategy(optimizer: Optimizer, strategy: str) -> None:
    """Refuses a strategy to which an optimizer's parameters and states cannot be converted.

    Raises:
        ValueError: the strategy does not exist or does not compile, the optimizer decodes
            weights on demand, or there are pending encoded gradients.
        TypeError: the strategy does not support the type of a parameter or is not a string, or
            the optimizer does not belong to :mod:`tandem.torch`.
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} has no strategy; take an optimizer of "
                        "tandem.torch, such as tandem.torch.AdamW")
    if not isinstance(strategy, str):
        raise TypeError(f"a strategy is a name such as 'fp32', got {strategy!r}")
    groups = optimizer._groups
    for index, param, group in groups:
        if not param.requires_grad:
            continue
        label = groups.label(index)
        if is_placeholder(param):
            raise ValueError(f"{label} is decoded on demand, so its strategy cannot change; "
                             "convert its state for a new optimizer: tandem.torch.convert_state")
        if optimizer._gradients.get(param) is not None:
            raise ValueError(f"the gradient of {label} is in codes of the strategy "
                             f"{group['strategy']!r}; change it after step() or zero_grad()")
        groups.checked(param, label, {**group, "strategy": strategy})


@torch.no_grad()
def change_strategy(optimizer: Optimizer, strategy: str) -> None:
    """Converts an optimizer's states, including its weights in them, to another strategy.

    Values are converted as by :func:`convert_state`: exactly if the new storage can represent
    them. Parameters stay the same objects with the same types; their values are converted to the
    new strategy. Counts of steps, seeds and hyperparameters do not change.

    Args:
        optimizer: any :class:`Optimizer`, between two steps.
        strategy: the strategy for all of its param groups.

    Raises:
        ValueError, TypeError: as in :func:`check_strategy`. Nothing has changed then.
    """
    check_strategy(optimizer, strategy)
    optimizer._store.check_expected()
    arguments, params = optimizer._arguments, optimizer._groups.params
    state_dict, values = convert_state(
        optimizer.state_dict(), params, strategy, graph=arguments["graph"],
        vectors=arguments["vectors"], path=arguments["path"], keep_types=True)
    # Parameters without a state, such as frozen ones, begin anew under the new strategy.
    kept = {key for key, param in enumerate(params) if optimizer.state.get(param)}
    state_dict["state"] = {key: state for key, state in state_dict["state"].items() if key in kept}
    states = dict(optimizer.state)
    before = [group["strategy"] for group in optimizer.param_groups]
    optimizer.state.clear()
    _set_strategies(optimizer, [strategy] * len(before))
    try:
        optimizer.load_state_dict(state_dict)
    except Exception:
        _set_strategies(optimizer, before)
        optimizer.state.update(states)
        raise
    for key, (param, value) in enumerate(zip(params, values, strict=True)):
        if key in kept:
            param.copy_(value)


def _set_strategies(optimizer: Optimizer, strategies: Sequence[str]) -> None:
    for group, strategy in zip(optimizer.param_groups, strategies, strict=True):
        group["strategy"] = strategy
