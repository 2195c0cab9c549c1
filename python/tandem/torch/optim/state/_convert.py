"""Conversions of state dicts from one strategy to another."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

import tandem
from tandem._convert import WIDE_PLANE, Stored, compiled, kept_roles, planes_of
from tandem._kernel import Rules
from tandem._plane import Granularity
from tandem._storages import floats
from tandem.torch._layout import empty_plane, is_placeholder, laid_out
from tandem.torch._shards import shard_of, whole_of
from tandem.torch._versions import zeroed
from tandem.torch.optim.state import _identity
from tandem.torch.optim.state._carriers import packed, unpacked
from tandem.torch.optim.state._check import check_state
from tandem.torch.optim.state._checksum import is_other
from tandem.torch.optim.state._layouts import laid_out_state
from tandem.torch.optim.state._sharding import divided
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._specs import Key, StateSpecs
from tandem.torch.optim.state._values import convert, decode_weights, initial_state
from tandem.torch.optim.state._versions import recoded, with_rows
from tandem.torch.optim._groups import check_options


def _started(spec: StateSpec, weight: torch.Tensor, state: dict | None, label: object) -> dict:
    """Returns the state of a parameter in one layout, or the initial state if it has none."""
    if not spec.state_names:
        return {}
    if not state:
        if is_placeholder(weight):
            raise ValueError(
                f"{label} has no state, and a weight that is decoded on demand has no "
                "value without; pass the state dict of its optimizer"
            )
        return initial_state(spec, weight)
    check_state(spec, state, weight, label)
    return laid_out_state(spec, weight, state)


def _followed(theirs: StateSpecs, key: Key, group: Mapping, weight: torch.Tensor,
              keep_types: bool) -> tuple[StateSpec, torch.dtype]:
    """Returns the spec and type of a weight in its new param group. Float32 weights under a
    16-bit strategy stay float32."""
    strategy = group["strategy"]
    types = theirs[Key(strategy)].dtypes
    dtype = (torch.float32 if key.is_wide or keep_types and weight.dtype is torch.float32 else
             weight.dtype if weight.dtype in types else types[0])
    spec = theirs[key._replace(strategy=strategy, is_wide=dtype not in types,
                                  is_small=theirs.is_small(weight.shape, group))]
    return spec, dtype


def _planes(spec: StateSpec, role: str, weight: torch.Tensor, state: dict) -> list:
    """Returns the planes of one tensor. The plane that is not in the state is the weight."""
    return [
        state[plane.name] if plane.name in state
        else laid_out(weight.detach(), spec.like(weight, state), weight.dtype)
        for plane in planes_of(spec.kernel, role)
    ]


def _shape_of(stored: Stored, like: torch.Tensor, spec: StateSpec) -> torch.Tensor:
    """Returns a tensor of the shape of one of a parameter's states: the parameter's, or that of a
    vector with an entry for each of the kernel's rows or columns."""
    rows, columns = spec.size_of(like)
    shape = {Granularity.ROW: (rows,), Granularity.COLUMN: (columns,)}.get(stored.planes[0].per)
    return like if shape is None else torch.empty(shape, device="meta")


def _carry_role(ours: Stored, theirs: Stored, source: StateSpec, target: StateSpec, planes: list,
                like: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
    """Returns the planes of one tensor in another spec."""
    # Bytes of several codes are in C order, which their number does not show.
    in_order = not target.packs or like.is_contiguous()
    if in_order and ours.meets(theirs) and (source.group == target.group or not (
            ours.is_grouped and theirs.is_grouped)):
        spec = source if ours.is_grouped else target
        tensors = [target.empty(plane, like) for plane in theirs.planes]
        convert(spec, [planes], ours.storage, [tensors], theirs.storage, theirs.planes,
                        matrix=ours.matrix if ours.is_grouped else theirs.matrix,
                        floor=theirs.floor, likes=[_shape_of(ours, like, source)])
        return tensors
    # The two storages group different elements, so convert through f32.
    wide = empty_plane(like, torch.float32, target.device)
    convert(source, [planes], ours.storage, [wide], floats("f32"), [WIDE_PLANE],
                   matrix=ours.matrix)
    like = target.like(weight, None)
    tensors = [target.empty(plane, like) for plane in theirs.planes]
    convert(target, [laid_out(wide, like, torch.float32)], floats("f32"), [tensors],
                   theirs.storage, theirs.planes, matrix=theirs.matrix, floor=theirs.floor)
    return tensors


def carried(source: StateSpec, weight: torch.Tensor, state: dict, target: StateSpec,
           dtype: torch.dtype) -> tuple[dict, torch.Tensor]:
    """Returns a parameter's state and weight in another spec."""
    like, made = source.like(weight, state), {}
    for role in kept_roles(target.kernel):
        # An average begins as the weight.
        origin = role if role in source.kernel.storages else source.weight_planes[0].role
        ours, theirs = Stored.of(source.kernel, origin), Stored.of(target.kernel, role)
        tensors = _carry_role(ours, theirs, source, target,
                              _planes(source, origin, weight, state), like, weight)
        made |= {plane.name: tensor for plane, tensor in zip(theirs.planes, tensors)}
    # The history of gradients is useless under another storage.
    made |= {plane.name: zeroed(target.empty(plane, like)) for plane in target.grad_planes
             if plane.persistent}
    new = {name: state.get(name, 0) if name == target.step else made[name]
           for name in target.state_names}
    kept = {name: state[name] for name in source.external_names(state)}
    if target.hidden:
        return new | kept, decode_weights(target, [new], dtype)[0]
    return new | kept, next(t for name, t in made.items() if name not in new)


def _identity_of(state_dict: dict, graphs: dict) -> dict:
    """Returns the identity that a state dict records."""
    identity = state_dict.get("tandem")
    if identity is None:
        raise ValueError(
            "the state dict does not say which graph and strategy it is of; pass "
            "what state_dict() of a tandem.torch optimizer has returned"
        )
    for key, graph in graphs.items():
        name = identity.get(key)
        if graph is None and name is not None and name not in tandem.graphs():
            raise ValueError(
                f"the state dict is of graph {name!r}, which the library lacks; pass "
                f"its file or text, {key}=..."
            )
    return identity


def _specs(identity: dict, graphs: Mapping, strategies: Sequence[str],
           path: Sequence[str | os.PathLike], averages: bool = False,
           rules: Mapping[str, Rules] = {}) -> StateSpecs:
    """Returns the specs of a state dict's graphs, or of given graphs, under other strategies,
    some of which have their own rules. `averages` says whether states have averages of weights."""
    graph, vectors = (identity.get(key) if given is None else given
                      for key, given in graphs.items())

    def build(graph: str, strategy: str, target: str, own: Rules | None) -> tandem.Kernel:
        return compiled(graph, strategy, path, target, own or rules.get(strategy),
                        weight_average=averages)

    return StateSpecs(build, graph, strategies[0], vectors, identity.get("count"))


def _source_specs(identity: dict, graphs: Mapping, strategies: Sequence[str],
                     path: Sequence[str | os.PathLike]) -> StateSpecs:
    """Returns the specs that created a state dict, with strategies as it describes them,
    because strategies of the same name may have changed or no longer exist."""
    averages = _identity.has_average(identity)
    wide = _specs(identity, graphs, ["fp32"], path, averages)
    rules = {name: found for name in dict.fromkeys(strategies)
             if (found := _identity.written(wide, identity, name))}
    return _specs(identity, graphs, strategies, path, averages, rules)


def _regrouped(state_dict: dict, strategy: str | Sequence[str],
               min_8bit_size: int | None,
               min_8bit_vector_size: int | None = None) -> list[dict]:
    """Returns the param groups of a state dict with the strategies to convert to."""
    groups = copy.deepcopy(state_dict["param_groups"])
    names = [strategy] * len(groups) if isinstance(strategy, str) else list(strategy)
    if len(names) != len(groups):
        raise ValueError(f"there are {len(groups)} param groups, but {len(names)} "
                         "strategies; give one for each, or one for all")
    for index, (group, name) in enumerate(zip(groups, names)):
        group["strategy"] = name
        if min_8bit_size is not None:
            group["min_8bit_size"] = min_8bit_size
        if min_8bit_vector_size is not None:
            group["min_8bit_vector_size"] = min_8bit_vector_size
        check_options({"maximize": False, **group}, index)
    return groups


def _check(state_dict: dict, identity: dict, ours: StateSpecs, weights: list) -> None:
    """Refuses a state that does not match the specs or the weights."""
    names = _identity.strategies_of(state_dict["param_groups"], identity)
    found = _identity.identity(ours, names)
    if differing := _identity.differences(identity, found, names):
        raise ValueError(
            f"the state dict is not of what graph {found['graph']!r} under strategy "
            f"{_identity.spelled(names)} is here (they differ in {', '.join(differing)}); "
            "pass the graph and the path that it was made with"
        )
    count = sum(len(group["params"]) for group in state_dict["param_groups"])
    if count != len(weights):
        raise ValueError(
            f"the state dict is of {count} parameters, but there are "
            f"{len(weights)} weights; pass all of the optimizer's, in its order"
        )


def _check_weight(saved: list | None, weight: torch.Tensor, index: int) -> None:
    """Refuses a weight that its state does not complete."""
    if saved and is_other(saved, weight):
        raise ValueError(
            f"weight {index} is not the one that its state completes, which a conversion "
            "needs; pass the weights that were saved with the state dict, or load the model's "
            "weights before the optimizer's state")


def _with_rows(state_dict: Mapping, specs: StateSpecs, strategies: Sequence[str],
               weights: Sequence[torch.Tensor]) -> Mapping:
    """Converts a state dict to this version. Its weights and specs have been checked."""
    groups = [{**group, "strategy": name}
              for group, name in zip(state_dict["param_groups"], strategies)]
    keys = [(key, group) for group in groups for key in group["params"]]
    owners = ((key, specs.of(weight, group), weight)
              for weight, (key, group) in zip(weights, keys))
    return with_rows(state_dict, (owner for owner in owners if owner[1]))


def _with_groups(sources: Sequence[Mapping], strategies: Sequence[str],
                 targets: Sequence[Mapping]) -> Iterator[tuple]:
    """Yields the key of each parameter in a state dict, its param group, and its new param
    group."""
    for source, strategy, target in zip(sources, strategies, targets):
        for key in source["params"]:
            yield key, {**source, "strategy": strategy}, target


def _convert(ours: StateSpecs, theirs: StateSpecs, weight: torch.Tensor, state: dict | None,
             source: Mapping, target: Mapping, index: int,
             keep_types: bool) -> tuple[dict, torch.Tensor]:
    """Converts a parameter's state and weight to its new param group. For a DTensor, all ranks
    gather it and keep their pieces."""
    if (shard := shard_of(weight)) is not None:
        state = {name: whole_of(value) if isinstance(value, torch.Tensor) else value
                 for name, value in (state or {}).items()}
        state, value, spec = _convert_whole(ours, theirs, shard.gather(weight.detach()), state,
                                               source, target, index, keep_types)
        value = shard.like(shard.piece_of(value).clone())
        return divided(spec, state, shard) if spec else state, value
    return _convert_whole(ours, theirs, weight, state, source, target, index, keep_types)[:2]


def _convert_whole(ours: StateSpecs, theirs: StateSpecs, weight: torch.Tensor,
                   state: dict | None, source: Mapping, target: Mapping, index: int,
                   keep_types: bool) -> tuple[dict, torch.Tensor, StateSpec | None]:
    """Converts a whole tensor's state and weight to its new param group, and returns them with
    the new spec."""
    key = ours.key_of(weight, source)
    if key is None and not state:
        return {}, weight.detach(), None  # frozen; no kernel updates it
    if key is None:
        raise ours.refusal(weight, f"weight {index}", source["strategy"],
                           "pass the weights as the optimizer had them")
    state = _started(ours[key], weight, unpacked(ours[key], state or {}), f"parameter {index}")
    spec = ours[key]
    if spec.hidden and not is_placeholder(weight) and _is_written(spec, weight, state):
        spec = ours.of_step(weight, source)
    followed = _followed(theirs, key, target, weight, keep_types)
    return *carried(spec, weight, state, *followed), followed[0]


def _is_written(spec: StateSpec, weight: torch.Tensor, state: dict) -> bool:
    """Returns whether a weight no longer equals its decoded codes."""
    return not torch.equal(decode_weights(spec, [state], weight.dtype)[0], weight)


@torch.no_grad()
def convert_state(
    state_dict: dict,
    weights: Iterable[torch.Tensor],
    strategy: str | Sequence[str],
    *,
    min_8bit_size: int | None = None,
    min_8bit_vector_size: int | None = None,
    graph: str | os.PathLike | None = None,
    vectors: str | os.PathLike | None = None,
    path: Sequence[str | os.PathLike] = (),
    keep_types: bool = False,
    weight_average: bool | None = None,
) -> tuple[dict, list[torch.Tensor]]:
    """Converts an optimizer's state dict and its weights to other strategies.

    Values are converted as by :func:`tandem.convert_state`: exactly if the new storage can
    represent them. Steps, seeds and all other options of the param groups do not change. Weights
    that were float32 under a 16-bit strategy stay float32. ``min_8bit_size`` determines which
    states are float32 because of their parameter's size.

    Args:
        state_dict: the result of ``state_dict()`` of a :class:`tandem.torch.Optimizer` under any
            strategy.
        weights: its parameters, or tensors with their values, in its order.
        strategy: the strategy to convert to, or one for each param group.
        min_8bit_size: the new value for all param groups, 0 for no limits; None keeps the
            current values.
        min_8bit_vector_size: the same for vectors.
        graph: the graph's file or text, if it is not in the library.
        vectors: the same for the graph of vectors.
        path: directories that are searched for both strategies first.
        keep_types: whether all float32 weights stay float32 if the new strategy has 16-bit
            weights; otherwise only those do that were float32 under such a strategy.
        weight_average: whether the new states have an average of weights, as those of optimizers
            with ``ema_decay``; None if the current ones have. An average that there was not
            begins as the weight, as if that had never changed.

    Returns:
        The state dict, for ``load_state_dict`` of an optimizer whose groups have the new
        strategies, and the values of its parameters. The arguments are not changed.

    Raises:
        ValueError: the state dict does not match the graphs or strategies found, or the weights.
    """
    graphs = {"graph": graph, "vectors": vectors}
    state_dict = recoded(_identity.identified(state_dict))
    identity, weights = _identity_of(state_dict, graphs), list(weights)
    groups = _regrouped(state_dict, strategy, min_8bit_size, min_8bit_vector_size)
    before = _identity.strategies_of(state_dict["param_groups"], identity)
    after = [group["strategy"] for group in groups]
    ours = _source_specs(identity, graphs, before, path)
    averages = _identity.has_average(identity) if weight_average is None else weight_average
    theirs = _specs(identity, graphs, after, path, averages)
    _check(state_dict, identity, ours, weights)
    state_dict = _with_rows(state_dict, ours, before, weights)
    states, values, sums = {}, [], identity.get("checksums", {})
    for index, (weight, (key, *pair)) in enumerate(zip(
            weights, _with_groups(state_dict["param_groups"], before, groups))):
        state, value = _convert(ours, theirs, weight, state_dict["state"].get(key), *pair,
                                index, keep_types)
        _check_weight(sums.get(str(key)), weight, index)
        if state:
            states[key] = packed(state)
        values.append(value)
    made = {**state_dict, "state": states, "param_groups": groups}
    return _identity.signed(made, _identity.identity(theirs, after)), values
