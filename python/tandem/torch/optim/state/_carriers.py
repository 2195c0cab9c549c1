"""Types of planes in state dicts, which every collective of torch.distributed carries.

Neither gloo nor NCCL sends int16, and gloo sends no float8. In state dicts such planes are views in
types of the same size that both send: float16, whose values mean nothing, and uint8.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tandem.torch._layout import DTYPES
from tandem.torch._shards import local_of, shard_of
from tandem.torch.optim.state._spec import StateSpec

#: The types that no collective may carry, and those that take their place.
CARRIERS = {torch.int16: torch.float16} | {
    DTYPES[name]: torch.uint8 for name in DTYPES if name.startswith("f8")}


def packed(state: Mapping) -> dict:
    """Returns a parameter's state with planes as a state dict has them, which share memory."""
    return {name: viewed_as(value, CARRIERS[value.dtype])
            if isinstance(value, torch.Tensor) and value.dtype in CARRIERS else value
            for name, value in state.items()}


def unpacked(spec: StateSpec, state: Mapping) -> dict:
    """Returns a state from a state dict with planes in their own types. Planes that have them
    already, as in dicts from before version 4, are left as they are."""
    return {name: viewed_as(value, DTYPES[spec.state_planes[name].type])
            if is_packed(spec, name, value) else value for name, value in state.items()}


def is_packed(spec: StateSpec, name: str, value: object) -> bool:
    """Returns whether an entry of a state is a plane in the type of a state dict."""
    if name not in spec.state_planes or not isinstance(value, torch.Tensor):
        return False
    own = DTYPES[spec.state_planes[name].type]
    return value.dtype is not own and value.dtype is CARRIERS.get(own)


def viewed_as(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns a view of a tensor, which may be a DTensor, in a type of the same size."""
    shard = shard_of(tensor)
    local = local_of(tensor).view(dtype)
    return local if shard is None else shard.like(local)
