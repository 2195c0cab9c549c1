"""State dicts: whose they are, and how their bits survive loading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from tandem.torch._groups import OPTIONS
from tandem.torch._lanes import Lanes

#: What a state dict says of a strategy.
_STORAGES = ("compute", "storages")


def _described(lanes: Lanes, strategy: str) -> dict:
    """How a strategy computes with the graph's tensors, and stores them."""
    storages: dict[str, str] = {}
    for lane in (found := lanes.of_strategy(strategy)):
        storages |= lane.kernel.storages
    return dict(zip(_STORAGES, (found[0].kernel.compute, storages)))


def identity(lanes: Lanes, strategies: Sequence[str]) -> dict:
    """What must agree between an optimizer and the state dict that it loads.

    Args:
        lanes: the optimizer's.
        strategies: those of its param groups; what the lanes' own is not comes under
            "strategies".
    """
    others = {name: _described(lanes, name) for name in strategies
              if name != lanes.strategy}
    more = {"vectors": lanes.vectors and lanes.vectors.kernel.name, "count": lanes.count,
            "strategies": others}
    return {
        "graph": lanes.main.kernel.name,
        "strategy": lanes.strategy,
    } | _described(lanes, lanes.strategy) | {k: v for k, v in more.items() if v}


def strategies_of(groups: Sequence[Mapping], identity: Mapping) -> list[str]:
    """The strategies of a state dict's param groups."""
    return [group.get("strategy", identity["strategy"]) for group in groups]


def differences(theirs: Mapping, ours: Mapping, used: Iterable[str]) -> list[str]:
    """What two identities do not agree in, for groups of these strategies."""
    names = [name for name in ("graph", "vectors", "count")
             if theirs.get(name) != ours.get(name)]
    for strategy in dict.fromkeys(used):
        one, other = (i if i["strategy"] == strategy else i.get("strategies", {}).get(
            strategy, {}) for i in (theirs, ours))
        names += [name for name in _STORAGES if one.get(name) != other.get(name)]
    return list(dict.fromkeys(names))


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


def check_identity(state_dict: dict, lanes: Lanes, groups: Sequence[Mapping]) -> None:
    """Refuses a state of another graph or of other strategies, as far as the dict says."""
    theirs = state_dict.get("tandem")
    if theirs is None or len(state_dict["param_groups"]) != len(groups):
        return  # torch's own message says that the groups differ
    wanted = [group["strategy"] for group in groups]
    found = strategies_of(state_dict["param_groups"], theirs)
    ours = identity(lanes, wanted)
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
