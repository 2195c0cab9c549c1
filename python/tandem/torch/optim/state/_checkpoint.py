"""State dicts: what is saved, checks of what is loaded, and exact loading of its bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from tandem.torch.optim._groups import OPTIONS, ParamGroups, check_options
from tandem.torch.optim.state._check import check_state, shaped
from tandem.torch.optim.state._identity import check_identity, identified
from tandem.torch.optim.state._versions import recoded, with_rows


def prepared(state_dict: Mapping, groups: ParamGroups) -> dict:
    """Returns a state dict as torch.optim loads it into an optimizer with these param groups,
    after all checks.

    Raises:
        ValueError: the state has another graph, or other strategies or parameters.
    """
    state_dict = dict(recoded(identified(state_dict)))
    state_dict["param_groups"] = completed(state_dict, groups.list)
    for index, group in enumerate(state_dict["param_groups"]):
        groups.hypers.check_flags(group, index)
        check_options(group, index)
    check_identity(state_dict, groups.specs, groups.list)
    state_dict = with_rows(state_dict, _owners(state_dict, groups))
    return _checked(state_dict, groups)


def _owners(state_dict: Mapping, groups: ParamGroups) -> Iterator[tuple]:
    """Yields the key of each state, the spec, the parameter, and its index."""
    theirs = state_dict["param_groups"]
    if [len(g["params"]) for g in theirs] != [len(g["params"]) for g in groups.list]:
        return  # PyTorch's own error says so
    keys = [(k, g) for g in theirs for k in g["params"]]
    for (index, param, _), (key, group) in zip(groups, keys):
        if state_dict["state"].get(key):
            yield key, groups.checked(param, groups.label(index), group), param, index


def _checked(state_dict: Mapping, groups: ParamGroups) -> dict:
    """Returns a state dict after checking that its planes match the parameters' kernels, with
    planes in their current shapes."""
    states = dict(state_dict["state"])
    for key, spec, param, index in _owners(state_dict, groups):
        check_state(spec, states[key], param, groups.label(index), moves=True)
        states[key] = shaped(spec, states[key], param)
    return {**state_dict, "state": states}


def completed(state_dict: Mapping, groups: Sequence[Mapping]) -> list[dict]:
    """Returns a state dict's param groups, with missing options of Tandem, as in dicts of
    torch.optim, filled in from the groups of an optimizer."""
    theirs = [dict(group) for group in state_dict["param_groups"]]
    for group, own in zip(theirs, groups):
        for name in (*OPTIONS, "seed"):
            if name in own:
                group.setdefault(name, own[name])
    return theirs


class Sealed:
    """A tensor that torch.optim passes through instead of casting it to the weight's type."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor


def sealed(state_dict: dict) -> dict:
    """Returns the state dict with every tensor of a parameter's state sealed."""
    states = {
        key: {
            name: Sealed(value) if isinstance(value, torch.Tensor) else value
            for name, value in state.items()
        } if isinstance(state, dict) else state
        for key, state in state_dict["state"].items()
    }
    return state_dict | {"state": states}


def unsealed(state: dict) -> dict:
    """Returns an optimizer's state with copies of the sealed tensors."""
    for param, planes in state["state"].items():
        device = getattr(param, "device", "cpu")
        if isinstance(planes, dict):
            for name, value in planes.items():
                if isinstance(value, Sealed):
                    planes[name] = value.tensor.detach().to(device, copy=True)
    return state
