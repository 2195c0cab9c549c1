"""Layouts of states in memory: planes that follow the layout of their parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tandem._plane import Plane
from tandem.torch._layout import DTYPES, empty_plane, is_plane, laid_out, rows_in_memory
from tandem.torch.optim.state._check import viewed
from tandem.torch.optim.state._conversion import plain_storage, plane_of
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import convert, dense


def laid_out_state(spec: StateSpec, param: torch.Tensor, state: Mapping) -> dict:
    """Returns a state of this kernel with all planes in one layout."""
    state, like = dict(state), spec.like(param, state)
    for role in dict.fromkeys(p.role for p in spec.state_planes.values()):
        _lay_out(spec, role, state, like)
    return state


def _lay_out(spec: StateSpec, role: str, state: dict, like: torch.Tensor) -> None:
    """Changes the planes of one tensor to the layout of another.

    Elements that share a scale are neighbours in a row in memory. If the neighbours change,
    values are decoded and encoded again.
    """
    planes = [p for p in spec.state_planes.values() if p.role == role]
    tensors = [state[p.name] for p in planes]
    regroups = (any(p.is_grouped for p in planes) and not spec.kernel.is_matrix
                and not spec.packs)
    if regroups and not is_plane(tensors[0], empty_plane(
            like, tensors[0].dtype, "meta")):
        tensors = _encoded_anew(spec, role, planes, tensors, like)
    for plane, tensor in zip(planes, tensors):
        state[plane.name] = (
            laid_out(tensor, like, DTYPES[plane.type]) if plane.sets_size
            else viewed(tensor.contiguous(), spec.shape(plane, like))
        )


def _encoded_anew(spec: StateSpec, role: str, planes: Sequence[Plane], tensors: Sequence,
                  like: torch.Tensor, has_rows: bool = True) -> list[torch.Tensor]:
    """Returns the planes of one tensor in another layout, converted through float32.
    `has_rows` is whether groups of the given planes start anew in each row."""
    wide, storage = (empty_plane(tensors[0], torch.float32, spec.device),
                     spec.kernel.storages[role])
    convert(spec, [dense(planes, tensors, tensors[0])], storage, [wide],
            plain_storage(torch.float32), [plane_of(torch.float32)], matrix=False,
            has_rows=has_rows)
    made = [spec.empty(plane, like) for plane in planes]
    convert(spec, [laid_out(wide, like, torch.float32)], plain_storage(torch.float32), [made],
            storage, planes, matrix=False, floor=role in spec.kernel.second_moments)
    return made


def with_rows(spec: StateSpec, state: Mapping, param: torch.Tensor) -> dict:
    """Converts a state from before version 3, in which groups that share a scale continue
    from row to row, to groups that start anew in each row."""
    state = dict(state)
    if spec.kernel.is_matrix:
        return state
    for role in dict.fromkeys(p.role for p in spec.state_planes.values()):
        planes = [p for p in spec.state_planes.values() if p.role == role]
        tensors = [state.get(p.name) for p in planes]
        if _go_on_over_rows(planes, tensors, param, spec.group):
            made = _encoded_anew(spec, role, planes, tensors, tensors[0], has_rows=False)
            state |= {p.name: tensor for p, tensor in zip(planes, made)}
    return state


def _go_on_over_rows(planes: Sequence[Plane], tensors: Sequence, param: torch.Tensor,
                     longest: int) -> bool:
    """Returns whether planes of a parameter's state are complete and have groups that, at full
    length, cross the ends of rows."""
    grouped = [plane for plane in planes if plane.is_grouped]
    if not grouped or not all(isinstance(t, torch.Tensor) and t.dtype == DTYPES[p.type]
                              and t.numel() == p.entries(param.numel())
                              for p, t in zip(planes, tensors)):
        return False
    rows, columns = rows_in_memory(tensors[0], longest)
    return (tensors[0].shape == param.shape and rows > 1
            and any(columns % plane.group for plane in grouped))
