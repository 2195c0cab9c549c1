"""Collectives with 8-bit codes: all-gather, reduce-scatter, all-reduce.

torch.distributed transports bytes; Tandem's conversions encode and decode (:class:`Codec`).
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from tandem.torch.distributed._codec import Codec

#: PyTorch 2.13 renamed it.
_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

#: Stands for the scale of a slice that has only zeros, infinities and NaN and needs none.
_NO_SCALE = 0.0


def own_scale(x: torch.Tensor, codec: Codec) -> torch.Tensor:
    """Returns the scale that a slice needs, or 0 if it has no finite nonzero number."""
    if not x.numel():
        return torch.full((1,), _NO_SCALE, device=x.device)
    scale = codec.encode(x)[1]
    has_numbers = (x.isfinite() & (x != 0)).any()
    return torch.where(has_numbers, scale, torch.full_like(scale, _NO_SCALE))


def known_scales(most: torch.Tensor) -> torch.Tensor:
    """Returns the scales of whole tensors from the maxima over their slices; 1 if no slice needs
    one."""
    return torch.where(most == _NO_SCALE, torch.ones_like(most), most)


def shared_scale(x: torch.Tensor, codec: Codec, group: dist.ProcessGroup,
                 label: str) -> torch.Tensor:
    """Returns the scale of a tensor of which each rank has a slice: the same as a single process
    would choose for the whole. The exchange is a maximum over 12 bytes.

    Raises:
        ValueError: slices differ in size; raised on every rank.
    """
    count = float(x.numel())
    scale = own_scale(x, codec)
    told = torch.cat([scale.double(), scale.new_tensor([count, -count], dtype=torch.float64)])
    dist.all_reduce(told, dist.ReduceOp.MAX, group)
    most, least = told[1].item(), -told[2].item()
    if most != least:
        raise ValueError(f"the input of {label} has {least:.0f} elements on one rank and {most:.0f} "
                         "on another; slices that are gathered as codes are of one size: pad the "
                         "sequence to a multiple of the number of ranks")
    return known_scales(told[:1].float())


def all_gather(x: torch.Tensor, dim: int, codec: Codec, group: dist.ProcessGroup,
               label: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the codes and the scale of the ranks' slices, concatenated along a dimension.

    They have the same bits as if one process encoded the whole tensor.
    """
    x = x.contiguous()
    scale = shared_scale(x, codec, group, label)
    own = codec.encode(x, scale)[0].view(torch.uint8)
    size = dist.get_world_size(group)
    parts = own.new_empty((size, *own.shape))
    _gather(parts.view(-1), own.view(-1), group)
    whole = parts.flatten(0, 1) if dim == 0 else torch.cat(parts.unbind(), dim)
    return whole.contiguous().view(codec.dtype), scale


def reduce_scatter(x: torch.Tensor, dim: int, codec: Codec, group: dist.ProcessGroup,
                   label: str) -> torch.Tensor:
    """Returns this rank's slice of the sum of the ranks' tensors, in their type.

    Each rank encodes its tensor once, with its own scale. Slices of codes are exchanged,
    decoded, and added in f32 in the order of the ranks. The sum is rounded once.

    Raises:
        ValueError: the dimension is not divisible by the number of ranks.
    """
    size = dist.get_world_size(group)
    if x.shape[dim] % size:
        raise ValueError(
            f"dimension {dim} of {label} has {x.shape[dim]} entries, which {size} ranks cannot "
            f"share evenly; pad it to a multiple of {size}")
    parts = torch.stack(x.chunk(size, dim))
    codes, scale = codec.encode(parts)
    received = torch.empty_like(codes).view(torch.uint8)
    dist.all_to_all_single(received.view(-1), codes.view(torch.uint8).view(-1), group=group)
    scales = torch.empty(size, device=x.device)
    _gather(scales, scale, group)
    total = None
    for part, own in zip(received.view(codec.dtype).unbind(), scales.split(1)):
        value = codec.decode(part.contiguous(), own, torch.float32)
        total = value if total is None else total.add_(value)
    return total.to(x.dtype)


def all_reduce(x: torch.Tensor, codec: Codec, group: dist.ProcessGroup,
               label: str) -> torch.Tensor:
    """Returns the sum of the ranks' tensors on all ranks: a reduce-scatter of their elements,
    whose sums are encoded again with a scale that all ranks share, and gathered."""
    size = dist.get_world_size(group)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % size))
    own = reduce_scatter(padded, 0, codec, group, label)
    codes, scale = all_gather(own, 0, codec, group, label)
    return codec.decode(codes, scale, x.dtype)[:len(flat)].view(x.shape)


def sum_in_order(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Returns the sum of the ranks' tensors in f32, in the order of the ranks, rounded to their
    type. This is for vectors, which are sent without encoding."""
    parts = x.new_empty((dist.get_world_size(group), x.numel()))
    _gather(parts.view(-1), x.contiguous().view(-1), group)
    total = parts[0].float()
    for part in parts[1:]:
        total = total + part.float()
    return total.to(x.dtype).view(x.shape)
