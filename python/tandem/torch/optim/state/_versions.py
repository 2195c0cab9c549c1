"""States of earlier versions, converted to the current encoding of their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim.peers import _dynamic_map
from tandem.torch.optim.state import _layouts
from tandem.torch.optim.state._identity import VERSION, part_of, strategies_of, version_of


def with_rows(state_dict: Mapping, owners: Iterable[tuple]) -> Mapping:
    """Converts a state dict with current codes to version 3 or later, whose groups start anew in
    each row.

    Args:
        state_dict: the result of :func:`recoded`.
        owners: for each state, the key, the spec and the parameter, which may be followed by
            other values.
    """
    if version_of(state_dict) >= 3:
        return state_dict
    states = dict(state_dict["state"])
    for key, spec, param, *_ in owners:
        if states.get(key):
            states[key] = _layouts.with_rows(spec, states[key], param)
    return {**state_dict, "state": states,
            "tandem": {**state_dict["tandem"], "version": VERSION}}


def recoded(state_dict: Mapping) -> Mapping:
    """Converts the codes of a state dict to their current meaning. Returns the same dict if they
    have it already.

    Raises:
        ValueError: it was saved by a later version of Tandem.
    """
    if version_of(state_dict) > 1:
        return state_dict
    theirs = state_dict["tandem"]
    strategies = strategies_of(state_dict["param_groups"], theirs)
    states = dict(state_dict["state"])
    for group, strategy in zip(state_dict["param_groups"], strategies):
        signs = _dynamic_signs(theirs, strategy)
        states |= {key: _recoded(states[key], signs) for key in group["params"]
                   if states.get(key)}
    return {**state_dict, "state": states, "tandem": {**theirs, "version": 2}}


def _dynamic_signs(identity: Mapping, strategy: str) -> dict[str, bool]:
    """Returns the tensors that a strategy stores in the dynamic code, and whether it is
    signed."""
    storages = part_of(identity, strategy).get("storages", {})
    signs = {role: _dynamic_map.sign_in(text) for role, text in storages.items()}
    return {role: signed for role, signed in signs.items() if signed is not None}


def _recoded(state: Mapping, signs: Mapping[str, bool]) -> dict:
    """Returns a parameter's state with the nearest codes in place of those that are now NaN."""
    return dict(state) | {
        role: _dynamic_map.recoded(state[role].view(torch.uint8), signed, signed,
                                   has_nan=True).view(state[role].dtype)
        for role, signed in signs.items() if role in state}


def update(groups: ParamGroups, states: Mapping, version: int) -> None:
    """Converts the states of an unpickled optimizer from before version 3."""
    for index, param, group in groups if version < 3 else ():
        if state := states.get(param):
            spec = groups.checked(param, groups.label(index), group)
            state.update(_layouts.with_rows(spec, state, param))
