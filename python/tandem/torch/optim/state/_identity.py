"""The identity of state dicts: the graph, the strategies and the version of what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from tandem._companions import AVERAGE, kinds_of, rules_of
from tandem._kernel import Rules
from tandem._storages import described
from tandem.torch.optim.state._specs import StateSpecs

#: The key of the identity in state dicts and in their param groups.
KEY = "tandem"
#: The fields of a strategy in a state dict.
_STORAGES = ("compute", "storages")
#: The version of the encoding of a state's bytes. In version 1, which state dicts do not record,
#: code 1 of the signed dynamic code and code 254 of the unsigned one were numbers; now they are
#: NaN. Before version 3, groups that share a scale continued over the ends of rows. Before version
#: 4, planes had types that not every collective carries.
VERSION = 4


def _described(specs: StateSpecs, strategy: str) -> dict:
    """Returns a strategy's compute policy and the storages of the graph's tensors."""
    storages: dict[str, str] = {}
    for spec in (found := specs.of_strategy(strategy)):
        storages |= spec.kernel.storages
    return dict(zip(_STORAGES, (found[0].kernel.compute, storages)))


def identity(specs: StateSpecs, strategies: Sequence[str]) -> dict:
    """Returns the properties that an optimizer and the state dict it loads must share.

    Args:
        specs: the specs of the optimizer.
        strategies: the strategies of its param groups. Those other than the specs' own are
            described under "strategies".
    """
    others = {name: _described(specs, name) for name in strategies
              if name != specs.strategy}
    more = {"vectors": specs.vectors and specs.vectors.kernel.name, "count": specs.count,
            "strategies": others}
    return {
        "graph": specs.main.kernel.name,
        "strategy": specs.strategy,
        "version": VERSION,
    } | _described(specs, specs.strategy) | {k: v for k, v in more.items() if v}


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
    texts = dict.fromkeys(group[KEY] for group in groups if group.get(KEY))
    if not texts:
        return state_dict
    if len(texts) > 1 and "tandem" not in state_dict:
        raise ValueError(
            "the param groups of the state dict are of optimizers with other graphs or "
            f"strategies, {', '.join(texts)}; load those of one optimizer")
    found = {"tandem": json.loads(next(iter(texts)))} | state_dict
    return found | {"param_groups": [
        {name: value for name, value in group.items() if name != "tandem"} for group in groups]}


def strategies_of(groups: Sequence[Mapping], identity: Mapping) -> list[str]:
    """Returns the strategies of a state dict's param groups."""
    return [group.get("strategy", identity["strategy"]) for group in groups]


def differences(theirs: Mapping, ours: Mapping, used: Iterable[str]) -> list[str]:
    """Returns the differences between two identities, for groups of these strategies."""
    names = [name for name in ("graph", "vectors", "count")
             if theirs.get(name) != ours.get(name)]
    for strategy in dict.fromkeys(used):
        one, other = (part_of(identity, strategy) for identity in (theirs, ours))
        names += [name for name in _STORAGES if one.get(name) != other.get(name)]
    return list(dict.fromkeys(names))


def _same_states(theirs: Mapping, ours: Mapping, used: Iterable[str],
                 specs: StateSpecs) -> bool:
    """Returns whether strategies of two identities have the same states: they may differ in
    storages of gradients without a history, as with and without ``grad_accumulation``."""
    gradients = {plane.role for spec in specs.of_strategy(specs.strategy)
                 for plane in spec.grad_planes}

    def states(part: Mapping) -> dict:
        kept = {role: text for role, text in part.get("storages", {}).items()
                if role not in gradients or described(text).without_history != text}
        return {"compute": part.get("compute"), "storages": kept}

    return all(states(part_of(theirs, name)) == states(part_of(ours, name)) for name in used)


def written(specs: StateSpecs, identity: Mapping, strategy: str) -> Rules | None:
    """Returns the rules of a strategy from an identity, or None if it does not describe them.

    Args:
        specs: specs of the identity's graphs, under any strategy.
        identity: the identity of a state dict.
        strategy: the name of a strategy of its param groups.
    """
    theirs = part_of(identity, strategy)
    if not all(name in theirs for name in _STORAGES):
        return None
    kinds: dict = {}
    for spec in specs.of_strategy(specs.strategy):
        kinds |= kinds_of(spec.kernel)
    storages = {role: text for role, text in theirs["storages"].items() if role in kinds}
    return rules_of(theirs["compute"], kinds, storages)


def part_of(identity: Mapping, strategy: str) -> Mapping:
    """Returns the part of an identity that describes a strategy; empty if there is none."""
    if identity["strategy"] == strategy:
        return identity
    return identity.get("strategies", {}).get(strategy, {})


def has_average(identity: Mapping) -> bool:
    """Returns whether the states of an identity have averages of weights."""
    return AVERAGE in identity.get("storages", {})


def version_of(state_dict: Mapping) -> int:
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


def spelled(strategies: Sequence[str]) -> str:
    """Returns strategies for messages: a single name, or those of the groups in order."""
    alike = len(set(strategies)) < 2
    return repr(strategies[0]) if alike else repr(list(strategies))


def check_graph(state_dict: Mapping, specs: StateSpecs) -> None:
    """Refuses a state dict with the identity of another graph."""
    theirs, ours = state_dict.get(KEY), identity(specs, ())
    differing = theirs and differences(theirs, ours, ())
    if differing:
        raise ValueError(
            f"the state dict is of graph {theirs.get('graph')!r}, this optimizer runs "
            f"{ours['graph']!r} (they differ in {', '.join(differing)}); create the optimizer "
            "with the graph of the state dict")


def difference(state_dict: Mapping, specs: StateSpecs, groups: Sequence[Mapping]) -> str | None:
    """Returns why a state dict with an identity has other strategies than an optimizer, as a
    message; None if it has the same."""
    theirs, wanted = state_dict[KEY], [group["strategy"] for group in groups]
    found = strategies_of(state_dict["param_groups"], theirs)
    ours = identity(specs, wanted)
    both = [name for name in wanted if name in found]
    differing = differences(theirs, ours, [] if _same_states(theirs, ours, both, specs) else both)
    differing += ["strategy"] * (wanted != found)
    if not differing:
        return None
    return (f"the state dict is under strategy {spelled(found)}, this optimizer under "
            f"{spelled(wanted)} (they differ in {', '.join(differing)}); leave convert=False out, "
            "convert it with tandem.torch.convert_state, or create the optimizer with the strategy "
            "of the state dict")
