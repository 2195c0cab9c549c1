"""Masks, which reduce each number of a tensor to fewer bits.

The masks are those of "To FP8 and Back Again" (section 3.2): mantissa bits are truncated, and
magnitudes beyond the range of the exponent bits are clamped. A mask is one kernel, whose output
is stored as ``#tandem.masked``.
"""

from __future__ import annotations

import atexit
import functools
from typing import NamedTuple

import torch

from tandem._kernel import Rules, compile_rules
from tandem._plane import RoleKind
from tandem._storages import floats
from tandem._tandem import Storage
from tandem.torch.nn._layer import EDGES, Pass
from tandem.torch.nn._stored import decoded, executor_of, rows_of

#: The ways to drop mantissa bits, and the magnitudes that may be clamped.
ROUNDINGS = ("toward_zero", "nearest", "stochastic")
CLAMPS = ("both", "inside", "outside", "none")


def check_options(rounding: str, clamp: str) -> None:
    """Refuses unknown roundings and clamps."""
    for name, value, known in (("rounding", rounding, ROUNDINGS), ("clamp", clamp, CLAMPS)):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}, got {value!r}")


class Mask(NamedTuple):
    """A reduction of floats to fewer bits."""

    #: "ExMy", x exponent and y mantissa bits.
    format: str
    rounding: str = "toward_zero"
    clamp: str = "both"

    @property
    def is_repeatable(self) -> bool:
        """Whether equal numbers always have equal results."""
        return self.rounding != "stochastic"

    def storage(self, dtype: torch.dtype) -> str:
        """Returns the storage of a tensor that this mask has reduced.

        Raises:
            ValueError: there is no such format, or floats of the type cannot represent it.
            TypeError: the format is not a string, or layers do not support the type.
        """
        if not isinstance(self.format, str):
            raise TypeError(f"a format is a string such as 'E8M3', got {self.format!r}")
        if dtype not in EDGES:
            raise TypeError(f"masked tensors are float32, bfloat16 or float16, got {dtype}")
        return _storage(self, EDGES[dtype])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Returns a new tensor with the reduced numbers of ``x`` and without gradient."""
        x = decoded(x).contiguous()
        step, shape = _masker(self, x.dtype, executor_of(x).target), rows_of(x)
        masked = torch.empty_like(x)
        step.run(shape, {"x": x, "value": masked})
        return masked


@functools.lru_cache(maxsize=None)
def _storage(mask: Mask, type: str) -> str:
    return Storage.masked(type, *mask).text


@functools.lru_cache(maxsize=None)
def _masker(mask: Mask, dtype: torch.dtype, target: str) -> Pass:
    """Returns the kernel that writes the reduced numbers of "x", which it does not change, to
    "value"."""
    edge = floats(EDGES[dtype])
    rules = Rules("f32 f32", ((RoleKind.INPUT, None, edge), (RoleKind.SAVED, None, edge),
                              (RoleKind.OUTPUT, None, mask.storage(dtype))))
    return Pass(compile_rules("keep", "mask", rules, target, function="keep_backward"))


atexit.register(_masker.cache_clear)
