"""The identity of state dicts, and exact loading of their bits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import torch

from tandem._companions import kinds_of, rules_of
from tandem._kernel import Rules
from tandem.torch.optim import _dynamic_map
from tandem.torch.optim._bindings import KernelBindings
from tandem.torch.optim._callers import STATE_DICTS, caller
from tandem.torch.optim._groups import OPTIONS

#: The fields of a strategy in a state dict.
_STORAGES = ("compute", "storages")
#: The version of the encoding of a state's bytes. In version 1, which state dicts do not record,
#: code 1 of the signed dynamic code and code 254 of the unsigned one were numbers; now they are
#: NaN. Before version 3, groups that share a scale continued over the ends of rows.
VERSION = 3


def _described(bindings: KernelBindings, strategy: str) -> dict:
    """Returns a strategy's compute policy and the storages of the graph's tensors."""
    storages: dict[str, str] = {}
    for binding in (found := bindings.of_strategy(strategy)):
        storages |= binding.kernel.storages
    return dict(zip(_STORAGES, (found[0].kernel.compute, storages)))


def identity(bindings: KernelBindings, strategies: Sequence[str]) -> dict:
    """Returns the properties that an optimizer and the state dict it loads must share.

    Args:
        bindings: the bindings of the optimizer.
        strategies: the strategies of its param groups. Those other than the bindings' own are
            described under "strategies".
    """
    others = {name: _described(bindings, name) for name in strategies
              if name != bindings.strategy}
    more = {"vectors": bindings.vectors and bindings.vectors.kernel.name, "count": bindings.count,
            "strategies": others}
    return {
        "graph": bindings.main.kernel.name,
        "strategy": bindings.strategy,
        "version": VERSION,
    } | _described(bindings, bindings.strategy) | {k: v for k, v in more.items() if v}


def signed(state_dict: dict, identity: Mapping) -> dict:
    """Returns a state dict with an identity under "tandem", and as text in each param group,
    because torch.distributed.checkpoint preserves only states and groups."""
    text = json.dumps(identity)
    return state_dict | {
        "param_groups": [group | {"tandem": text} for group in state_dict["param_groups"]],
        "tandem": identity}


def identified(state_dict: Mapping) -> Mapping:
    """Returns a state dict with its identity, if it has one, only under "tandem".

    Raises:
        ValueError: its param groups come from different optimizers.
    """
    groups = state_dict.get("param_groups", ())
    texts = dict.fromkeys(group["tandem"] for group in groups if "tandem" in group)
    if not texts:
        return state_dict
    if len(texts) > 1 and "tandem" not in state_dict:
        raise ValueError(
            "the param groups of the state dict are of optimizers with other graphs or "
            f"strategies, {', '.join(texts)}; load those of one optimizer")
    found = {"tandem": json.loads(next(iter(texts)))} | state_dict
    return found | {"param_groups": [
        {name: value for name, value in group.items() if name != "tandem"} for group in groups]}


def with_flat_identity(state_dict: Mapping) -> Mapping:
    """Restores the identity in param groups if set_optimizer_state_dict passes a state dict that
    was flat (``flatten_optimizer_state_dict=True``). From a flat one, PyTorch restores only the
    options that param groups have outside of state dicts."""
    groups = state_dict.get("param_groups", ())
    if "tandem" in state_dict or any("tandem" in group for group in groups):
        return state_dict
    frame = caller(STATE_DICTS, "_load_optim_state_dict")
    flat = frame.f_locals.get("state_dict") if frame else None
    if not isinstance(flat, Mapping):
        return state_dict
    def own(group: Mapping) -> dict:
        keys = (f"param_groups.{name}.tandem" for name in group["params"])
        return next(({"tandem": flat[key]} for key in keys if key in flat), {})
    return {**state_dict, "param_groups": [group | own(group) for group in groups]}


def strategies_of(groups: Sequence[Mapping], identity: Mapping) -> list[str]:
    """Returns the strategies of a state dict's param groups."""
    return [group.get("strategy", identity["strategy"]) for group in groups]


def differences(theirs: Mapping, ours: Mapping, used: Iterable[str]) -> list[str]:
    """Returns the differences between two identities, for groups of these strategies."""
    names = [name for name in ("graph", "vectors", "count")
             if theirs.get(name) != ours.get(name)]
    for strategy in dict.fromkeys(used):
        one, other = (_of_strategy(identity, strategy) for identity in (theirs, ours))
        names += [name for name in _STORAGES if one.get(name) != other.get(name)]
    return list(dict.fromkeys(names))


def written(bindings: KernelBindings, identity: Mapping, strategy: str) -> Rules | None:
    """Returns the rules of a strategy from an identity, or None if it does not describe them.

    Args:
        bindings: bindings of the identity's graphs, under any strategy.
        identity: the identity of a state dict.
        strategy: the name of a strategy of its param groups.
    """
    theirs = _of_strategy(identity, strategy)
    if not all(name in theirs for name in _STORAGES):
        return None
    kinds: dict = {}
    for binding in bindings.of_strategy(bindings.strategy):
        kinds |= kinds_of(binding.kernel)
    storages = {role: text for role, text in theirs["storages"].items() if role in kinds}
    return rules_of(theirs["compute"], kinds, storages)


def _of_strategy(identity: Mapping, strategy: str) -> Mapping:
    """Returns the part of an identity that describes a strategy; empty if there is none."""
    if identity["strategy"] == strategy:
        return identity
    return identity.get("strategies", {}).get(strategy, {})


def _version(state_dict: Mapping) -> int:
    """Returns the version of a state dict's states; dicts of torch.optim count as current.

    Raises:
        ValueError: the version is later than this Tandem supports.
    """
    theirs = state_dict.get("tandem")
    version = VERSION if theirs is None else theirs.get("version", 1)
    if not isinstance(version, int) or version > VERSION:
        raise ValueError(
            f"the state dict says that its states are of version {version!r}, but this "
            f"Tandem knows those up to version {VERSION}; load it with a later Tandem")
    return version


def with_rows(state_dict: Mapping, owners: Iterable[tuple]) -> Mapping:
    """Converts a state dict with current codes to this version.

    Args:
        state_dict: the result of :func:`recoded`.
        owners: for each state, the key, the binding and the parameter, which may be followed by
            other values.
    """
    if _version(state_dict) == VERSION:
        return state_dict
    states = dict(state_dict["state"])
    for key, binding, param, *_ in owners:
        if states.get(key):
            states[key] = binding.with_rows(states[key], param)
    return {**state_dict, "state": states,
            "tandem": {**state_dict["tandem"], "version": VERSION}}


def recoded(state_dict: Mapping) -> Mapping:
    """Converts the codes of a state dict to their current meaning. Returns the same dict if they
    have it already.

    Raises:
        ValueError: it was saved by a later version of Tandem.
    """
    if _version(state_dict) > 1:
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
    storages = _of_strategy(identity, strategy).get("storages", {})
    signs = {role: _dynamic_map.sign_in(text) for role, text in storages.items()}
    return {role: signed for role, signed in signs.items() if signed is not None}


def _recoded(state: Mapping, signs: Mapping[str, bool]) -> dict:
    """Returns a parameter's state with the nearest codes in place of those that are now NaN."""
    return dict(state) | {
        role: _dynamic_map.recoded(state[role].view(torch.uint8), signed, signed,
                                   has_nan=True).view(state[role].dtype)
        for role, signed in signs.items() if role in state}


def completed(state_dict: Mapping, groups: Sequence[Mapping]) -> list[dict]:
    """Returns a state dict's param groups, with missing options of Tandem, as in dicts of
    torch.optim, filled in from the groups of an optimizer."""
    theirs = [dict(group) for group in state_dict["param_groups"]]
    for group, own in zip(theirs, groups):
        for name in (*OPTIONS, "seed"):
            if name in own:
                group.setdefault(name, own[name])
    return theirs


def spelled(strategies: Sequence[str]) -> str:
    """Returns strategies for messages: a single name, or those of the groups in order."""
    alike = len(set(strategies)) < 2
    return repr(strategies[0]) if alike else repr(list(strategies))


def check_identity(state_dict: dict, bindings: KernelBindings, groups: Sequence[Mapping]) -> None:
    """Refuses a state with another graph or other strategies, if the dict records them."""
    theirs = state_dict.get("tandem")
    if len(state_dict["param_groups"]) != len(groups):
        return  # PyTorch's own error says that the groups differ
    wanted = [group["strategy"] for group in groups]
    if theirs is None:
        return _check_strategies([group["strategy"] for group in state_dict["param_groups"]],
                                 wanted)
    found = strategies_of(state_dict["param_groups"], theirs)
    ours = identity(bindings, wanted)
    differing = differences(theirs, ours, [name for name in wanted if name in found])
    differing += ["strategy"] * (wanted != found)
    if not differing:
        return
    fix = "create the optimizer with the graph and strategy of the state dict"
    if "graph" not in differing:
        fix = ("take it over with tandem.torch.convert_state(state_dict, weights, "
               f"{spelled(wanted)}), or {fix}")
    raise ValueError(
        f"the state dict is of graph {theirs.get('graph')!r} under strategy "
        f"{spelled(found)}, this optimizer runs {ours['graph']!r} under "
        f"{spelled(wanted)} (they differ in {', '.join(differing)}); {fix}"
    )


def _check_strategies(found: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuses a state dict whose groups have other strategies that it does not describe."""
    if found != wanted:
        raise ValueError(
            f"the param groups of the state dict are under strategy {spelled(found)}, those of "
            f"this optimizer under {spelled(wanted)}; create the optimizer with the strategy of "
            "the state dict, and change it after loading, by tandem.torch.change_strategy")


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
