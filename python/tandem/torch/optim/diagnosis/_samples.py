"""Samples of parameters: the elements on which strategies are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

#: The number of neighbouring elements that are sampled together. It is a multiple of the length
#: of the library's groups, so that elements of a sample share their scales as in the whole.
SEGMENT = 256
#: The number of parts of a sample from whose differences margins are computed.
BLOCKS = 16
#: The least number of elements in such a part.
LEAST_BLOCK = 4


@dataclass(frozen=True)
class Sample:
    """The sampled elements of a parameter.

    Attributes:
        order: the dimensions of the parameter, outermost in memory first.
        index: the positions of the sampled elements in this order, flat; None for all.
        shape: the shape of the sample, whose rows are parts of the parameter's rows.
    """

    order: tuple[int, ...]
    index: torch.Tensor | None
    shape: torch.Size

    def take(self, tensor: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Returns the sampled elements of a tensor with the parameter's shape, as one dimension.
        They are written to `out`, of any type of float, if it is given."""
        flat = tensor.detach().permute(self.order).reshape(-1)
        found = flat if self.index is None else flat.index_select(0, self.index)
        return found if out is None else out.copy_(found)


def sample_of(param: torch.Tensor, size: int | None, generator: torch.Generator) -> Sample:
    """Returns a sample of a parameter.

    Elements are taken in segments that do not cross rows; if rows are shorter than a segment,
    whole rows are taken. The segments are spread evenly over the parameter, each at a random
    place within its share.

    Args:
        param: the parameter, or the piece of it on this rank.
        size: the number of elements of a sample; smaller parameters are taken whole, as are all
            if it is None.
        generator: draws the places.
    """
    order = tuple(sorted(range(param.dim()), key=lambda i: (-param.stride(i), i)))
    sizes = [param.shape[i] for i in order]
    if size is None or param.numel() <= size:
        rows = sizes[0] if len(sizes) > 1 else 1
        shape = (rows, param.numel() // max(rows, 1)) if len(sizes) > 1 else (param.numel(),)
        return Sample(order, None, torch.Size(shape))
    rows, columns = (sizes[0], math.prod(sizes[1:])) if len(sizes) > 1 else (1, sizes[0])
    starts, length = _starts(rows, columns, size, generator)
    index = (starts[:, None] + torch.arange(length)).reshape(-1)
    width = min(columns, SEGMENT)
    return Sample(order, index.to(param.device), torch.Size((index.numel() // width, width)))


def _starts(rows: int, columns: int, size: int,
            generator: torch.Generator) -> tuple[torch.Tensor, int]:
    """Returns the first elements of segments, and their length."""
    if columns < SEGMENT:
        together = SEGMENT // columns
        length = together * columns
        return _spread(rows // together, size // length, generator) * length, length
    each = columns // SEGMENT
    place = _spread(rows * each, size // SEGMENT, generator)
    return place // each * columns + place % each * SEGMENT, SEGMENT


def _spread(total: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Returns `count` different numbers below `total`, spread evenly with random offsets."""
    count = max(1, min(count, total))
    bounds = torch.arange(count + 1) * total // count
    offsets = torch.rand(count, generator=generator, dtype=torch.float64)
    return bounds[:-1] + (offsets * (bounds[1:] - bounds[:-1])).long()


class Layout:
    """The places of several samples in one buffer, and the blocks that margins are computed from.

    Attributes:
        samples: the samples, in order.
        spans: the first element and the end of each in the buffer.
        size: the number of elements of the buffer.
        blocks: the number of each element's block.
        block_spans: the first block and the end of the blocks of each sample.
    """

    def __init__(self, samples: Sequence[Sample], device: torch.device):
        self.samples, self.spans, self.block_spans = list(samples), [], []
        numbers, at, block = [], 0, 0
        for sample in samples:
            count = sample.shape.numel()
            parts = max(1, min(BLOCKS, count // LEAST_BLOCK))
            self.spans.append((at, at + count))
            self.block_spans.append((block, block + parts))
            numbers.append(block + torch.arange(count) * parts // max(count, 1))
            at, block = at + count, block + parts
        self.size, self.block_count = at, block
        self.blocks = torch.cat(numbers).to(device) if numbers else torch.empty(0).long()

    def views(self, buffer: torch.Tensor) -> list[torch.Tensor]:
        """Returns the part of a buffer for each sample, in the sample's shape."""
        return [buffer[start:end].view(sample.shape)
                for (start, end), sample in zip(self.spans, self.samples)]

    def sums(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the sums of a buffer's values over each block, in float64."""
        total = torch.zeros(self.block_count, dtype=torch.float64, device=values.device)
        return total.index_add_(0, self.blocks, values.double())
