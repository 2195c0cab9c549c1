"""Checksums of weights, with which a loaded state finds the weight that it belongs to."""

from __future__ import annotations

import zlib

import torch

from tandem.torch._layout import is_placeholder
from tandem.torch._shards import is_dtensor
from tandem.torch.optim.state._spec import StateSpec

#: The number of columns in which elements are added up, so that their order matters.
_COLUMNS = 256
#: The integers with the sizes of elements.
_WORDS = {2: torch.int16, 4: torch.int32}


def completes_weight(spec: StateSpec) -> bool:
    """Returns whether states have planes of the weight, which mean nothing beside another
    weight."""
    return any(plane.name in spec.state_planes for plane in spec.weight_planes)


@torch.no_grad()
def checksum(param: torch.Tensor) -> list | None:
    """Returns the type of a weight and a checksum of its shape and bits, which does not depend on
    its layout or device; None for a DTensor, of which no rank has all elements, and for a weight that
    is only in its state."""
    if is_dtensor(param) or is_placeholder(param) or param.element_size() not in _WORDS:
        return None
    words = param.detach().reshape(-1).view(_WORDS[param.element_size()])
    whole = words.numel() // _COLUMNS * _COLUMNS
    sums = words[:whole].view(-1, _COLUMNS).sum(0, dtype=torch.int64)
    rest = words[whole:].long()
    data = torch.cat([sums, rest]).cpu().numpy().tobytes()
    return [str(param.dtype), zlib.crc32(data, zlib.crc32(repr(tuple(param.shape)).encode()))]


def is_other(saved: list, param: torch.Tensor) -> bool:
    """Returns whether a weight of the saved type is not the one of a checksum."""
    found = checksum(param)
    return found is not None and found[0] == saved[0] and found != saved
