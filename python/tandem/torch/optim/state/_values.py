"""Values of states: their creation, and the encoding and decoding of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tandem._plane import Plane
from tandem.torch._exchange import Exchange
from tandem.torch._layout import empty_plane, laid_out
from tandem.torch._shards import Shard, local_state, shard_of
from tandem.torch._versions import zeroed
from tandem.torch.optim.state._conversion import (convert_tensors, numbered_groups,
                                                  plain_storage, plane_of)
from tandem.torch.optim.state._sharding import is_shared, place_of, spread, updated
from tandem.torch.optim.state._spec import StateSpec


def initial_state(spec: StateSpec, param: torch.Tensor) -> dict:
    """Returns the initial state of a parameter.

    States and residuals are zero. Master weights hold the parameter's value, and so do
    codes, to their precision.
    """
    whole, param = param, updated(spec, param)
    like = spec.like(param, None)
    planes = {
        name: zeroed(spec.empty(plane, like))
        for name, plane in spec.state_planes.items()
    }
    if spec.hidden:
        encode_weight(spec, whole, planes)
    for plane in () if spec.hidden else spec.weight_planes:
        if plane.bits > spec.visible.bits:
            planes[plane.name].copy_(param)
    return ({spec.step: 0} if spec.step else {}) | spread(spec, planes, whole)


def encode_weight(spec: StateSpec, param: torch.Tensor, state: Mapping) -> None:
    """Writes a parameter's value to the planes of its state."""
    shard, param, state = shard_of(param), updated(spec, param), local_state(state)
    plain = laid_out(param.detach(), spec.like(param, state), param.dtype)
    convert(spec, [plain], plain_storage(param.dtype), [_weight_of(spec, state)],
            spec.weight_storage, spec.weight_planes, shards=[shard])


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
                    executor=spec.executor, group=spec.group, **options)


def _weight_of(spec: StateSpec, state: Mapping) -> list[torch.Tensor]:
    return [state[plane.name] for plane in spec.weight_planes]


def dense(planes: Sequence[Plane], tensors: Sequence[torch.Tensor], like: torch.Tensor):
    """Returns the planes of a tensor, dense and all in one layout."""
    return [laid_out(tensor, like, tensor.dtype) if plane.sets_size
            else tensor.contiguous() for plane, tensor in zip(planes, tensors)]
