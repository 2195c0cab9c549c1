"""State dicts from one strategy to another."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Sequence

import torch

import tandem
from tandem._convert import compiled, kept_roles, planes_of
from tandem.torch import _checkpoint
from tandem.torch._lane import Lane, convert, empty
from tandem.torch._layout import is_placeholder, laid_out


class _Lanes:
    """The lanes of an optimizer: of a strategy, and of weights kept in float32."""

    def __init__(self, graph, strategy: str, path):
        self.main = Lane(compiled(graph, strategy, path))
        self._wide = lambda: Lane(compiled(graph, "fp32", path))

    def of(self, dtype: torch.dtype) -> Lane | None:
        if dtype not in self.main.dtypes and dtype == torch.float32:
            return self._wide()
        return self.main if dtype in self.main.dtypes else None

    def follow(self, lane: Lane, dtype: torch.dtype, main: Lane):
        """The lane and type of a weight that has been in `lane`, not in `main` if
        it was kept in float32 beside a strategy."""
        if lane is not main:
            return self.of(torch.float32), torch.float32
        return self.main, dtype if dtype in self.main.dtypes else self.main.dtypes[0]


def _started(lane: Lane, weight: torch.Tensor, state: dict | None, label: str) -> dict:
    """The state of a parameter in one layout; that of a first step if it has none."""
    if not lane.state_names:
        return {}
    if not state:
        if is_placeholder(weight):
            raise ValueError(
                f"{label} has no state, and a weight that is decoded on demand has no "
                "value without; pass the state dict of its optimizer"
            )
        return lane.initial_state(weight)
    lane.check_state(state, weight, label)
    return lane.laid_out_state(weight, state)


def _planes(lane: Lane, role: str, weight: torch.Tensor, state: dict) -> list:
    """The planes of one tensor; the one that a state lacks is the weight."""
    return [
        state[plane.name] if plane.name in state
        else laid_out(weight.detach(), weight, weight.dtype)
        for plane in planes_of(lane.kernel, role)
    ]


def _carry(source: Lane, weight: torch.Tensor, state: dict, target: Lane,
           dtype: torch.dtype) -> tuple[dict, torch.Tensor]:
    """A parameter's state and weight in another lane."""
    like, made = source.like(weight, state), {}
    for role in kept_roles(source.kernel):
        planes = planes_of(target.kernel, role)
        tensors = [empty(plane, like) for plane in planes]
        convert([_planes(source, role, weight, state)], source.kernel.storages[role],
                [tensors], target.kernel.storages[role], planes)
        made |= {plane.name: tensor for plane, tensor in zip(planes, tensors)}
    # What gradients have left behind is of no use under another storage.
    made |= {plane.name: empty(plane, like).zero_() for plane in target.grad_planes
             if plane.kept}
    new = {name: state[name] if name == target.step else made[name]
           for name in target.state_names}
    if target.hidden:
        return new, target.decode_weights([new], dtype)[0]
    return new, next(t for name, t in made.items() if name not in new)


def _identity(state_dict: dict, graph) -> dict:
    """What a state dict says it is of."""
    identity = state_dict.get("tandem")
    if identity is None:
        raise ValueError(
            "the state dict does not say which graph and strategy it is of; pass "
            "what state_dict() of a tandem.torch optimizer has returned"
        )
    if graph is None and identity["graph"] not in tandem.graphs():
        raise ValueError(
            f"the state dict is of graph {identity['graph']!r}, which the library "
            "lacks; pass its file or text, graph=..."
        )
    return identity


def _check(state_dict: dict, identity: dict, ours: _Lanes, weights: list) -> None:
    """Refuses a state that is not of the lanes found, or of other weights."""
    if identity != (found := _checkpoint.identity(ours.main.kernel)):
        differing = [key for key in found if identity.get(key) != found[key]]
        raise ValueError(
            f"the state dict is not of what graph {found['graph']!r} under strategy "
            f"{found['strategy']!r} is here (they differ in {', '.join(differing)}); "
            "pass the graph and the path that it was made with"
        )
    count = sum(len(group["params"]) for group in state_dict["param_groups"])
    if count != len(weights):
        raise ValueError(
            f"the state dict is of {count} parameters, but there are "
            f"{len(weights)} weights; pass all of the optimizer's, in its order"
        )


@torch.no_grad()
def convert_state(
    state_dict: dict,
    weights: Iterable[torch.Tensor],
    strategy: str,
    *,
    graph: str | os.PathLike | None = None,
    path: Sequence[str | os.PathLike] = (),
) -> tuple[dict, list[torch.Tensor]]:
    """An optimizer's state dict and its weights under another strategy.

    Values are carried over as by :func:`tandem.convert_state`: exactly where the
    new storage can hold them. Steps, seeds and all else in the param groups stay.
    Weights that were float32 beside a strategy of 16 bits stay so.

    Args:
        state_dict: what ``state_dict()`` of a :class:`tandem.torch.Optimizer` has
            returned, under any strategy.
        weights: its parameters, or tensors that hold their values, in its order.
        strategy: the strategy to convert to.
        graph: the graph's file or text, if it is not of the library.
        path: directories searched for both strategies first.

    Returns:
        The state dict, for ``load_state_dict`` of an optimizer under the new
        strategy, and the values of its parameters. What was passed stays as it is.

    Raises:
        ValueError: the state dict is of another graph or strategy than those found,
            or of other weights.
    """
    identity, weights = _identity(state_dict, graph), list(weights)
    graph = identity["graph"] if graph is None else graph
    ours, theirs = (_Lanes(graph, s, path) for s in (identity["strategy"], strategy))
    _check(state_dict, identity, ours, weights)
    keys = [key for group in state_dict["param_groups"] for key in group["params"]]
    states, values = {}, []
    for index, (key, weight) in enumerate(zip(keys, weights)):
        state = state_dict["state"].get(key)
        lane = ours.of(weight.dtype)
        if lane is None and not state:
            values.append(weight.detach())  # frozen; no kernel updates it
            continue
        if lane is None:
            raise TypeError(
                f"weight {index} is {weight.dtype}, but strategy "
                f"{identity['strategy']!r} keeps weights in "
                f"{' or '.join(map(str, ours.main.dtypes))}; pass the weights as the "
                "optimizer had them"
            )
        state = _started(lane, weight, state, f"parameter {index}")
        target = theirs.follow(lane, weight.dtype, ours.main)
        new, value = _carry(lane, weight, state, *target)
        if new:
            states[key] = new
        values.append(value)
    return state_dict | {
        "state": states,
        "param_groups": copy.deepcopy(state_dict["param_groups"]),
        "tandem": _checkpoint.identity(theirs.main.kernel),
    }, values
