"""States of other libraries' optimizers, as those of an optimizer of Tandem."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import torch

from tandem._companions import AVERAGE
from tandem._convert import Stored
from tandem._plane import Granularity
from tandem._storages import floats
from tandem.torch._layout import laid_out
from tandem.torch._shards import shard_of, whole_of
from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim.peers._foreign import ForeignState, read_foreign
from tandem.torch.optim.state._check import fits
from tandem.torch.optim.state._sharding import divided
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import convert, initial_state


def converted(state_dict: Mapping, groups: ParamGroups, owners: Sequence[tuple],
              converts: bool, strict: bool) -> dict:
    """Returns a state dict without an identity with states as an optimizer stores them.

    States that are already stored so, as those of torch.optim under "fp32", stay as they are.
    Others are decoded to float32 and encoded again, with a warning that says so.

    Args:
        owners: for each state, the key, the spec, the parameter, and its index.
        converts: whether states may be converted.
        strict: whether all of them must be; otherwise those that cannot be are left out.

    Raises:
        ValueError: the layout of a state is unknown, or it may not be converted.
    """
    states, origins = dict(state_dict["state"]), {}
    graph = groups.specs.main.kernel.name
    theirs = {key: group for group in state_dict["param_groups"] for key in group["params"]}
    for key, spec, param, index in owners:
        if _is_own(states[key]) or fits(spec, states[key], param):
            continue
        label = str(groups.label(index))
        if not converts:
            raise ValueError(f"the state of {label} is of another library, or is not stored as "
                             "this optimizer does; leave convert=False out, which converts it")
        try:
            found = read_foreign(states[key], param, graph, label, theirs[key])
            states[key] = _state_of(spec, param, found, label)
            origins[found.origin] = None
        except ValueError:
            if strict:
                raise
    if origins:
        warnings.warn(
            f"the state dict is of an optimizer of {' and '.join(origins)}; its values were "
            "converted to the storages of this optimizer, exactly where these can hold them "
            "and rounded to nearest elsewhere", UserWarning, stacklevel=4)
    return {**state_dict, "state": states}


def _is_own(state: Mapping) -> bool:
    """Returns whether a state has planes with names that only Tandem gives."""
    return any("." in name or name == "param" for name in state)


def _state_of(spec: StateSpec, param: torch.Tensor, found: ForeignState, label: object) -> dict:
    """Returns the state of a parameter with these values. For a DTensor all ranks gather it and
    keep their pieces."""
    shard = shard_of(param)
    if shard is None:
        return _whole_state(spec, param.detach(), found, label)
    whole = found._replace(
        values={name: whole_of(value) for name, value in found.values.items()},
        external={name: whole_of(value) for name, value in found.external.items()},
        weight=None if found.weight is None else whole_of(found.weight))
    made = _whole_state(spec, shard.gather(param.detach()), whole, label)
    return divided(spec, made, shard)


def _whole_state(spec: StateSpec, param: torch.Tensor, found: ForeignState, label: object) -> dict:
    """Returns the state of a whole tensor with these values."""
    state = initial_state(spec, param)
    if spec.step:
        state[spec.step] = found.step
    values = dict(found.values)
    if AVERAGE in spec.kernel.storages:
        values.setdefault(AVERAGE, param if found.weight is None else found.weight)
    for role, value in values.items():
        _write(spec, role, state, param, value, label)
    if found.weight is not None and any(p.name in state for p in spec.weight_planes):
        _write(spec, spec.weight_planes[0].role, state, param, found.weight, label)
    return state | {name: value.to(spec.device, copy=True) for name, value in found.external.items()}


def _write(spec: StateSpec, role: str, state: dict, param: torch.Tensor, value: torch.Tensor,
           label: object) -> None:
    """Writes the planes of one tensor of a state."""
    stored = Stored.of(spec.kernel, role)
    planes = [state.get(plane.name) for plane in stored.planes]
    if not planes:
        raise ValueError(f"the state of {label} has {role!r}, which {spec.kernel.name} has not; "
                         "load it into an optimizer of the same kind")
    like = spec.like(param, None)
    _check_rows(spec, role, like, value, label)
    wide = laid_out(value.to(spec.device), like if value.shape == like.shape else value,
                    torch.float32)
    visible = [torch.empty_like(param) if plane is None else plane for plane in planes]
    convert(spec, [wide], floats("f32"), [visible], stored.storage, stored.planes,
            matrix=stored.matrix, floor=stored.floor)


def _check_rows(spec: StateSpec, role: str, like: torch.Tensor, value: torch.Tensor,
                label: object) -> None:
    """Refuses means that were taken over another number of rows than this optimizer's."""
    is_of_rows = any(plane.role == role and plane.per == Granularity.ROW
                     for plane in spec.kernel.planes)
    if is_of_rows and value.shape != (rows := spec.size_of(like)[:1]):
        raise ValueError(
            f"the state of {label} has {role!r} for {len(value)} parts of {len(like)} rows, and this "
            f"optimizer keeps {rows[0]}; give its param group head_dim={len(like) // len(value)}")
