"""8-bit codes of whole tensors, which are sent between ranks with an f32 scale."""

from __future__ import annotations

from functools import lru_cache

import torch

from tandem._plane import WHOLE_TENSOR, Plane
from tandem._storages import described, floats
from tandem._tandem import Storage
from tandem.torch import _executor
from tandem.torch._layout import DTYPES, WORKING
from tandem.torch.optim.state._conversion import convert_tensors


class Codec:
    """Encodes tensors as 8-bit floats with one f32 scale each, and decodes them.

    A scale is the largest magnitude divided by the largest number of the code, rounded to f32
    (docs/Numerics.md). Codes are rounded to nearest, ties to even. Tandem's own conversions
    compute both, with the same bits on CPUs and GPUs.

    Args:
        code: "f8E4M3FN" or "f8E5M2".
    """

    def __init__(self, code: str):
        self.dtype = DTYPES[code]
        #: The storage of codes with their own scale, which FP8 products also take.
        self.storage = Storage.matrix_codes(code, False).text
        self._given = described(self.storage).with_given_scales
        self._planes = [Plane(type=code, bits=8), Plane(group=WHOLE_TENSOR)]

    def encode(self, x: torch.Tensor, scale: torch.Tensor | None = None,
               ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the codes of a contiguous tensor, in its shape, and their scale, of shape
        (1,).

        Args:
            scale: the scale to encode with; None for the tensor's own.
        """
        codes = torch.empty(x.shape, dtype=self.dtype, device=x.device)
        own = torch.zeros(1, device=x.device) if scale is None else scale
        if x.numel():
            convert_tensors([x], floats(WORKING[x.dtype]), [[codes, own]],
                    self.storage if scale is None else self._given, self._planes,
                    fresh=scale is None, has_rows=False, executor=_executor.executor_of(x))
        return codes, own

    def decode(self, codes: torch.Tensor, scale: torch.Tensor,
               dtype: torch.dtype) -> torch.Tensor:
        """Returns the values of contiguous codes with their scale, rounded to a type."""
        values = torch.empty(codes.shape, dtype=dtype, device=codes.device)
        if codes.numel():
            convert_tensors([[codes, scale]], self._given, [values], floats(WORKING[dtype]),
                    [Plane(type=WORKING[dtype], bits=8 * dtype.itemsize)], has_rows=False,
                    executor=_executor.executor_of(codes))
        return values


@lru_cache(maxsize=None)
def codec(code: str) -> Codec:
    """Returns the codec of a code, which is created once per process."""
    return Codec(code)
