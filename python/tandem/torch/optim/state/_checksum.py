"""Checksums of weights, with which a loaded state finds the weight that it belongs to."""

from __future__ import annotations

import zlib

import torch

from tandem.torch._layout import is_placeholder
from tandem.torch._shards import is_dtensor
from tandem.torch.optim.state._spec import StateSpec

#: The number of columns in which words of 64 bits are added up, so that their order matters.
_COLUMNS = 64


def completes_weight(spec: StateSpec) -> bool:
    """Returns whether states have planes of the weight, which mean nothing beside another
    weight."""
    return any(plane.name in spec.state_planes for plane in spec.weight_planes)


@torch.no_grad()
def checksum(param: torch.Tensor) -> list | None:
    """Returns the type of a weight and a checksum of its shape and bits, which does not depend on
    its layout or device; None for a DTensor, as no rank has all of it, and for a weight that is
    only in its state."""
    if is_dtensor(param) or is_placeholder(param):
        return None
    flat, size = param.detach().reshape(-1).contiguous(), param.element_size()
    if flat.storage_offset() * size % 8:
        flat = flat.clone()  # words of 64 bits are aligned
    whole = flat.numel() * size // (8 * _COLUMNS) * (8 * _COLUMNS) // size
    sums = flat[:whole].view(torch.int64).view(-1, _COLUMNS).sum(0)
    data = torch.cat([sums.view(torch.uint8), flat[whole:].view(torch.uint8)])
    data = data.cpu().numpy().tobytes()
    return [str(param.dtype), zlib.crc32(data, zlib.crc32(repr(tuple(param.shape)).encode()))]


def is_other(saved: list, param: torch.Tensor) -> bool:
    """Returns whether a weight of the saved type is not the one of a checksum."""
    found = checksum(param)
    return found is not None and found[0] == saved[0] and found != saved
