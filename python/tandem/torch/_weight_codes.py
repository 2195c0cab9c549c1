"""Codes of weights for matrix products, which are attached to the weights that they are made
from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from tandem.torch import _executor

#: The attribute with the E4M3 codes that layers multiply and FSDP2 gathers.
PRODUCTS = "_tandem_codes"
#: The attribute with codes of another recipe, which only the user reads.
OTHER = "_tandem_operand"


class _Parts(NamedTuple):
    """The parts of a matrix in codes that products take."""

    rows: torch.Tensor
    scale: torch.Tensor
    #: The codes of the transpose, in row-major order, if the kernel has written them.
    turned: torch.Tensor | None = None


class Codes(_Parts):
    """A matrix in codes, and its scale or those of its groups."""

    #: The tensor's scale, by which those of groups are multiplied; None if groups have the only ones.
    tensor_scale: torch.Tensor | None = None

    @staticmethod
    def of(planes: Mapping[str, torch.Tensor], shape: tuple[int, int]) -> Codes:
        """Returns the codes from planes, which are keyed by the suffixes of their names. A row of
        codes of four bits has a byte for each two."""
        turned = planes.get(".transposed")
        rows = planes[""].view(shape[0], -1) if 0 not in shape else planes[""].view(shape)
        made = Codes(rows, planes[".scale"], None if turned is None else turned.view(shape[::-1]))
        made.tensor_scale = planes.get(".tensor_scale")
        return made

    @property
    def tiled_scale(self) -> torch.Tensor:
        """The scales of groups in the order in which cuBLASLt and ``torch._scaled_mm`` take those of
        MXFP8 and NVFP4, with zeros up to whole tiles: each tile of 128 rows by 4 columns is 32 times
        the four scales of four rows that are 32 apart."""
        scale = self.scale.view(torch.uint8)
        rows, columns = -(-scale.shape[0] // 128), -(-scale.shape[1] // 4)
        padded = scale.new_zeros(128 * rows, 4 * columns)
        padded[:scale.shape[0], :scale.shape[1]] = scale
        tiles = padded.view(rows, 4, 32, columns, 4).permute(0, 3, 2, 1, 4)
        return tiles.reshape(-1).view(self.scale.dtype)

    @property
    def transpose(self) -> torch.Tensor:
        """The codes of the transpose, which may be a view."""
        return self.rows.t() if self.turned is None else self.turned


class _Attached:
    """The codes of a weight, and the version that they were computed from.

    It is an attribute of the weight, because PyTorch does not swap tensors that have weak
    references. Pickles and copies do not contain the codes.
    """

    def __init__(self, key: tuple | None = None, codes: Codes | None = None,
                 is_of_step: bool = False):
        self.key, self.codes, self.is_of_step = key, codes, is_of_step

    def __reduce__(self):
        return _Attached, ()

    def of(self, weight: torch.Tensor) -> Codes | None:
        """Returns the codes if they are those of the current value of a weight, or None."""
        return None if self.codes is None or self.key != _key_of(weight) else self.codes


def _key_of(weight: torch.Tensor) -> tuple:
    """Returns what changes whenever a weight is written or moved."""
    executor = _executor.executor_of(weight)  # None on the device "meta"
    return weight._version, weight.data_ptr(), executor, executor and executor.stream


def attach(weight: torch.Tensor, codes: Codes, is_of_step: bool = False,
           name: str = PRODUCTS) -> None:
    """Attaches the codes of its current value to a weight. ``is_of_step`` is whether an
    optimizer's step has written them, and will write those of later values to the same
    memory. ``name`` is the attribute."""
    setattr(weight, name, _Attached(_key_of(weight), codes, is_of_step))


def attached(weight: torch.Tensor, of_step: bool = False, name: str = PRODUCTS) -> Codes | None:
    """Returns the codes that are attached to the current value of a weight, or None. With
    ``of_step``, only those that a step has written."""
    found = getattr(weight, name, None)
    return None if found is None or (of_step and not found.is_of_step) else found.of(weight)


def detach(weight: torch.Tensor, name: str = PRODUCTS) -> None:
    """Removes the codes of a weight."""
    setattr(weight, name, _Attached())
