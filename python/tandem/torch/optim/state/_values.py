"""Values of states: their creation, and the encoding and decoding of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tandem._plane import Plane
from tandem.torch._exchange import Exchange
from tandem.torch._layout import empty_plane, laid_out
from tandem.torch._shards import Shard, local_of, local_state, shard_of
from tandem.torch._versions import zeroed
from tandem.torch.optim.state._conversion import (convert_tensors, numbered_groups,
                                                  plain_storage, plane_of)
from tandem.torch.optim.state._sharding import (begun_external, gathers, is_shared, place_of,
                                                spread, updated)
from tandem.torch.optim.state._spec import StateSpec


def initial_state(spec: StateSpec, param: torch.Tensor) -> dict:
    """Returns the initial state of a parameter.

    States and residuals are zero. Master weights hold the parameter's value, and so do
    codes, to their precision.
    """
    state = empty_state(spec, param)
    if spec.hidden:
        encode_weights(spec, [param], [state])
    return state


def empty_state(spec: StateSpec, param: torch.Tensor) -> dict:
    """Returns the initial state of a parameter, but zeros in place of the codes of its weight."""
    whole, param, external = param, updated(spec, param), begun_external(spec, param)
    planes = _zeros(spec, param)
    for plane in () if spec.hidden else spec.weight_planes:
        if plane.bits > spec.visible.bits:
            planes[plane.name].copy_(param)
    if whole is not param:
        planes = spread(spec, planes, whole)
    return ({spec.step: 0} if spec.step else {}) | planes | external


def _zeros(spec: StateSpec, param: torch.Tensor) -> dict:
    """Returns zeros for all planes of a parameter."""
    if not param.is_contiguous() or param.dtype.is_complex:
        like = spec.like(param, None)
        return {name: zeroed(spec.empty(plane, like)) for name, plane in spec.state_planes.items()}
    # Models may have thousands of parameters of one shape.
    return {name: torch.zeros(shape, dtype=words, device=spec.device).view(dtype)
            if words is not dtype else torch.zeros(shape, dtype=dtype, device=spec.device)
            for name, shape, words, dtype in spec.dense_planes(param)}


def encode_weights(spec: StateSpec, params: Sequence[torch.Tensor],
                   states: Sequence[Mapping]) -> None:
    """Writes the values of parameters of one type to the planes of their states."""
    shards, plain, planes = list(map(shard_of, params)), [], []
    for param, state in zip(params, states):
        own, state = updated(spec, param), local_state(state)
        plain.append(laid_out(own.detach(), spec.like(own, state), own.dtype))
        planes.append(_weight_of(spec, state))
    convert(spec, plain, plain_storage(params[0].dtype), planes, spec.weight_storage,
            spec.weight_planes, shards=shards)


def decode_weights(spec: StateSpec, states: Sequence[Mapping], dtype: torch.dtype,
                   threads: int = 0) -> list[torch.Tensor]:
    """Returns the weights in these states, on this rank."""
    states = list(map(local_state, states))
    likes = [spec.ordered(state[spec.weight_planes[0].name]) for state in states]
    weights = [empty_plane(like, dtype, spec.device) for like in likes]
    convert(spec, [dense(spec.weight_planes, _weight_of(spec, state), like)
                   for state, like in zip(states, likes)],
            spec.weight_storage, weights, plain_storage(dtype), [plane_of(dtype)], threads)
    return weights


def write_weight(spec: StateSpec, param: torch.Tensor, state: Mapping | None,
                 wide: torch.Tensor) -> None:
    """Writes a weight in float32, of which this rank has its piece, to a parameter and to the
    planes that its state has, each rounded to nearest. Ranks must call it together for a
    DTensor."""
    shard, local = shard_of(param), local_of(param)
    if not state:
        local.copy_(wide)
        return
    is_whole, own = shard is not None and gathers(spec, shard), local_state(state)
    wide = shard.gather(shard.like(wide)) if is_whole else wide
    like = spec.like(wide, own)
    planes = [own.get(plane.name) for plane in spec.weight_planes]
    visible = None if spec.hidden else empty_plane(like, local.dtype, spec.device)
    convert(spec, [laid_out(wide, like, torch.float32)], plain_storage(torch.float32),
            [[visible if plane is None else plane for plane in planes]], spec.weight_storage,
            spec.weight_planes, shards=[None if is_whole else shard])
    shown = decode_weights(spec, [state], local.dtype)[0] if spec.hidden else visible
    local.copy_(shard.piece_of(shown) if is_whole else shown)


def convert(spec: StateSpec, sources: Sequence, source: str, targets: Sequence, target: str,
            planes: Sequence[Plane], threads: int = 0,
            shards: Sequence[Shard | None] = (), **options) -> None:
    """Converts the spec's tensors as :func:`convert_tensors` does, on the device of its kernel.
    `shards` is the sharding of targets over ranks, which convert tensors with one scale
    together."""
    options.setdefault("matrix", spec.kernel.is_matrix)
    if any(map(is_shared, planes)):
        places = [place_of(spec, shard) for shard in shards]
        groups, shardings = numbered_groups(shards, [sharding for _, sharding in places])
        options |= {"exchange": Exchange(groups, spec.device) if groups else None,
                    "places": [(first, own) for (first, _), own in zip(places, shardings)]}
    convert_tensors(sources, source, targets, target, planes, threads,
                    executor=spec.executor, group=spec.group, joined_rows=spec.joined_rows,
                    **options)


def _weight_of(spec: StateSpec, state: Mapping) -> list[torch.Tensor]:
    return [state[plane.name] for plane in spec.weight_planes]


def dense(planes: Sequence[Plane], tensors: Sequence[torch.Tensor], like: torch.Tensor):
    """Returns the planes of a tensor, dense and all in one layout."""
    return [laid_out(tensor, like, tensor.dtype) if plane.sets_size
            else tensor.contiguous() for plane, tensor in zip(planes, tensors)]
