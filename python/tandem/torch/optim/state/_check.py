"""Checks of states against what a kernel needs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tandem.torch._layout import DTYPES
from tandem.torch._shards import is_dtensor, local_of, local_state, misplaced, shard_of
from tandem.torch.optim.state._sharding import gathers
from tandem.torch.optim.state._spec import StateSpec


def check_state(spec: StateSpec, state: Mapping, param: torch.Tensor, label: object,
                moves: bool = False) -> None:
    """Refuses a state that does not match this kernel. `moves` is whether its planes are
    moved to the parameter's device first."""
    shard, own = shard_of(param), local_of(param)
    external = spec.external_shapes(param.shape)
    for name in (*spec.state_planes, *external):
        tensor = state.get(name)
        if isinstance(tensor, torch.Tensor) and (problem := misplaced(tensor, shard)):
            raise ValueError(f"{name!r} in the state of {label} {problem}")
    like = shard.measure(own.dtype) if shard and gathers(spec, shard) else own
    if problem := (_problem(spec, local_state(state), like, own.device, moves)
                   or _external_problem(external, state)):
        raise ValueError(
            f"the state of {label} {problem}, as {spec.kernel.name!r} under "
            f"{spec.kernel.strategy!r} needs; load a state of that graph and "
            "strategy, or start anew with opt.state.pop(p)"
        )


def fits(spec: StateSpec, state: Mapping, param: torch.Tensor) -> bool:
    """Returns whether a state, which may be on another device, matches this kernel."""
    try:
        check_state(spec, state, param, "", moves=True)
    except ValueError:
        return False
    return True


def _problem(spec: StateSpec, state: Mapping, param: torch.Tensor, device: torch.device,
             moves: bool) -> str | None:
    """Returns why a state does not match this kernel, or None if it does."""
    if spec.step and spec.step not in state:
        return f"lacks the count {spec.step!r}"
    measures = _measures(spec, state, param)
    for name, plane in spec.state_planes.items():
        tensor, dtype = state.get(name), DTYPES[plane.type]
        if not isinstance(tensor, torch.Tensor):
            return f"lacks the plane {name!r}"
        if tensor.dtype != dtype:
            return f"has {name!r} as {tensor.dtype}, not {dtype}"
        shape = spec.shape(plane, measures[plane.role])
        # Older states have shared entries in one dimension.
        if tensor.shape != shape and (plane.sets_size or tensor.numel() != shape.numel()):
            return f"has {name!r} of shape {tuple(tensor.shape)}, not {tuple(shape)}"
        if not moves and tensor.device != device:
            return f"has {name!r} on {tensor.device}, not on {device}"
    role = spec.weight_planes[0].role
    for name in state:
        # The state has planes of the weight that this kernel would not read, as after
        # p.data.float().
        if (name == role or name.startswith(f"{role}.")) and name not in spec.state_planes:
            return f"has {name!r}, not the weight by itself"
    return None


def _external_problem(shapes: Mapping[str, torch.Size], state: Mapping) -> str | None:
    """Returns why a state does not have the tensors that external steps keep, or None if it does."""
    for name, shape in shapes.items():
        tensor = state.get(name)
        if not isinstance(tensor, torch.Tensor):
            return f"lacks the tensor {name!r} of an external step"
        if tensor.shape != shape or tensor.dtype != torch.float32:
            return (f"has {name!r} of shape {tuple(tensor.shape)} and type {tensor.dtype}, not "
                    f"{tuple(shape)} and torch.float32")
    return None


def _measures(spec: StateSpec, state: Mapping, param: torch.Tensor) -> dict[str, torch.Tensor]:
    """Returns a tensor with the layout of each tensor's planes. If it differs from the
    parameter's layout, its rows differ too."""
    measures = {plane.role: param for plane in spec.state_planes.values()}
    for name, plane in spec.state_planes.items():
        tensor = state.get(name)
        if plane.sets_size and isinstance(tensor, torch.Tensor) and (
                tensor.shape == param.shape):
            measures[plane.role] = tensor
    return measures


def shaped(spec: StateSpec, state: Mapping, param: torch.Tensor) -> dict:
    """Returns a checked state with entries for groups in their current shape. Older states
    have them in one dimension, except for DTensors."""
    if is_dtensor(param):
        return dict(state)
    measures = _measures(spec, state, param)
    return dict(state) | {
        name: viewed(state[name].contiguous(), spec.shape(plane, measures[plane.role]))
        for name, plane in spec.state_planes.items() if not plane.sets_size}


def viewed(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Returns a view of a tensor in a shape, or the tensor itself if it has this shape."""
    return tensor if tensor.shape == shape else tensor.view(shape)
