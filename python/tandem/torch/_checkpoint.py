"""State dicts: whose they are, and how their bits survive loading."""

from __future__ import annotations

import torch

from tandem.torch._lanes import Lanes


def identity(lanes: Lanes) -> dict:
    """What must agree between an optimizer and the state dict that it loads."""
    kernel, storages = lanes.main.kernel, {}
    for lane in lanes.narrow:
        storages |= lane.kernel.storages
    more = {"vectors": lanes.vectors and lanes.vectors.kernel.name, "count": lanes.count}
    return {
        "graph": kernel.name,
        "strategy": kernel.strategy,
        "compute": kernel.compute,
        "storages": storages,
    } | {name: value for name, value in more.items() if value}


def check_identity(state_dict: dict, lanes: Lanes) -> None:
    """Refuses a state of another graph or strategy, as far as the dict says."""
    theirs, ours = state_dict.get("tandem"), identity(lanes)
    if theirs is None or theirs == ours:
        return
    differing = [key for key in ours | theirs if theirs.get(key) != ours.get(key)]
    fix = "create the optimizer with the graph and strategy of the state dict"
    if "graph" not in differing:
        fix = ("take it over with tandem.torch.convert_state(state_dict, weights, "
               f"{ours['strategy']!r}), or {fix}")
    raise ValueError(
        f"the state dict is of graph {theirs.get('graph')!r} under strategy "
        f"{theirs.get('strategy')!r}, this optimizer runs {ours['graph']!r} under "
        f"{ours['strategy']!r} (they differ in {', '.join(differing)}); {fix}"
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
