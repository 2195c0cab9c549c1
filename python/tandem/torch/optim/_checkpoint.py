"""State dicts: whose they are, and how their bits survive loading."""

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
#: The version of the encoding of a state's bytes. In version 1, which state dicts did not name,
#: code 1 of the signed dynamic code and code 254 of the unsigned one were numbers; now they are
#: NaN. Before version 3, groups that share a scale went on over the ends of rows.
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
        bindings: the optimizer's.
        strategies: those of its param groups; those other than the bindings' own are
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
    """A state dict with an identity under "tandem", and as text in each param group:
    torch.distributed.checkpoint hands on nothing else than states and groups."""
    text = json.dumps(identity)
    return state_dict | {
        "param_groups": [group | {"tandem": text} for group in state_dict["param_groups"]],
        "tandem": identity}


def identified(state_dict: Mapping) -> Mapping:
    """A state dict with its identity under "tandem" and nowhere else, if it has one.

    Raises:
        ValueError: its param groups are of optimizers that differ.
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
    """A state dict with the identity in its param groups, where set_optimizer_state_dict hands it
    over and was given a flat one (``flatten_optimizer_state_dict=True``): of a flat one PyTorch
    hands on only what param groups have between state dicts."""
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
    """The strategies of a state dict's param groups."""
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
    """The rules of a strategy that an identity describes; None if it does not.

    Args:
        bindings: of the identity's graphs, under any strategy.
        identity: a state dict's.
        strategy: the name of one that its param groups have.
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
    """Returns the part of an identity that describes a strategy; nothing if it has none."""
    if identity["strategy"] == strategy:
        return identity
    return identity.get("strategies", {}).get(strategy, {})


def _version(state_dict: Mapping) -> int:
    """The version of a state dict's states; a dict of torch.optim's has none.

    Raises:
        ValueError: it is a later one than this Tandem knows.
    """
    theirs = state_dict.get("tandem")
    version = VERSION if theirs is None else theirs.get("version", 1)
    if not isinstance(version, int) or version > VERSION:
        raise ValueError(
            f"the state dict says that its states are of version {version!r}, but this "
            f"Tandem knows those up to version {VERSION}; load it with a later Tandem")
    return version


def with_rows(state_dict: Mapping, owners: Iterable[tuple]) -> Mapping:
    """A state dict of this version, made from one whose codes mean what they do now.

    Args:
        state_dict: what :func:`recoded` has returned.
        owners: of each state the key, the binding and the parameter, and what else.
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
    """A state dict whose codes mean what they mean now; the same one if they do already.

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
    """The tensors that a strategy stores by the dynamic code, and whether that is signed."""
    storages = _of_strategy(identity, strategy).get("storages", {})
    signs = {role: _dynamic_map.sign_in(text) for role, text in storages.items()}
    return {role: signed for role, signed in signs.items() if signed is not None}


def _recoded(state: Mapping, signs: Mapping[str, bool]) -> dict:
    """A parameter's state with the nearest codes in place of those that are NaN now."""
    return dict(state) | {
        role: _dynamic_map.recoded(state[role].view(torch.uint8), signed, signed,
                                   has_nan=True).view(state[role].dtype)
        for role, signed in signs.items() if role in state}


def completed(state_dict: Mapping, groups: Sequence[Mapping]) -> list[dict]:
    """A state dict's param groups, with the options of Tandem's that they do not have, as
    those of torch.optim do not, from the groups of an optimizer."""
    theirs = [dict(group) for group in state_dict["param_groups"]]
    for group, own in zip(theirs, groups):
        for name in (*OPTIONS, "seed"):
            if name in own:
                group.setdefault(name, own[name])
    return theirs


def spelled(strategies: Sequence[str]) -> str:
    """Strategies as messages name them: one, or those of the groups in order."""
    alike = len(set(strategies)) < 2
    return repr(strategies[0]) if alike else repr(list(strategies))


def check_identity(state_dict: dict, bindings: KernelBindings, groups: Sequence[Mapping]) -> None:
    """Refuses a state of another graph or of other strategies, as far as the dict says."""
    theirs = state_dict.get("tandem")
    if len(state_dict["param_groups"]) != len(groups):
        return  # torch's own message says that the groups differ
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
    """Refuses a state dict whose groups name other strategies, of which it says no more."""
    if found != wanted:
        raise ValueError(
            f"the param groups of the state dict are under strategy {spelled(found)}, those of "
            f"this optimizer under {spelled(wanted)}; create the optimizer with the strategy of "
            "the state dict, and change it after loading, by tandem.torch.change_strategy")


class Sealed:
    """A tensor that torch.optim hands on, instead of casting it to the weight's type."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor


def sealed(state_dict: dict) -> dict:
    """The state dict with every tensor of a parameter's state sealed."""
    states = {
        key: {
            name: Sealed(value) if isinstance(value, torch.Tensor) else value
            for name, value in state.items()
        } if isinstance(state, dict) else state
        for key, state in state_dict["state"].items()
    }
    return state_dict | {"state": states}


def unsealed(state: dict) -> dict:
    """An optimizer's state with copies of the tensors that were sealed in it."""
    for param, planes in state["state"].items():
        device = getattr(param, "device", "cpu")
        if isinstance(planes, dict):
            for name, value in planes.items():
                if isinstance(value, Sealed):
                    planes[name] = value.tensor.detach().to(device, copy=True)
    return state
