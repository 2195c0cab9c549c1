"""Masks, which reduce each number of a tensor to fewer bits.

The masks are those of "To FP8 and Back Again" (section 3.2): mantissa bits are truncated, and
magnitudes beyond the range of the exponent bits are clamped. A mask is one kernel, whose output
is stored as ``#tandem.masked``. With f32's bias, PyTorch clamps before the kernel truncates.
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
#: The places of a format's exponents: around 0, or from f32's smallest exponent up.
BIASES = ("centred", "kept")
#: The exponent bits of f32, whose bias is 127, and bf16's mantissa bits.
F32_EXPONENT_BITS = 8
BF16_MANTISSA_BITS = 7


def check_options(rounding: str, clamp: str, bias: str) -> None:
    """Refuses unknown roundings, clamps and biases."""
    for name, value, known in (("rounding", rounding, ROUNDINGS), ("clamp", clamp, CLAMPS),
                               ("bias", bias, BIASES)):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}, got {value!r}")


class Mask(NamedTuple):
    """A reduction of floats to fewer bits."""

    #: "ExMy", x exponent and y mantissa bits.
    format: str
    rounding: str = "toward_zero"
    clamp: str = "both"
    bias: str = "centred"

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
        x = self._bounded(decoded(x)).contiguous()
        step, shape = _masker(self, x.dtype, executor_of(x).target), rows_of(x)
        masked = torch.empty_like(x)
        step.run(shape, {"x": x, "value": masked})
        return masked

    def _bounded(self, x: torch.Tensor) -> torch.Tensor:
        """Returns ``x`` with the magnitudes lowered that the kernel's f32 exponents would let
        pass, which is exact. NaN and infinity remain."""
        most = self._largest()
        return x if most is None else torch.where(x.isinf(), x, x.clamp(-most, most))

    def _largest(self) -> float | None:
        """Returns the largest number of a format with f32's bias; None if the kernel itself
        clamps, or nothing does."""
        if self.bias != "kept" or self.clamp not in ("both", "outside"):
            return None
        exponent, mantissa = _widths(self.format)
        if exponent == F32_EXPONENT_BITS:
            return None
        # All codes of the exponent are numbers, since the bits above mark what is not finite.
        return (2 - 2.0**-mantissa) * 2.0**(2**exponent - 1 - 127)


def _widths(format: str) -> tuple[int, int]:
    """Returns the exponent and mantissa bits of a valid format."""
    exponent, mantissa = format[1:].split("M")
    return int(exponent), int(mantissa)


@functools.lru_cache(maxsize=None)
def _storage(mask: Mask, type: str) -> str:
    options = mask.rounding, mask.clamp
    if mask.bias == "centred":
        return Storage.masked(type, mask.format, *options).text
    Storage.masked("f32", mask.format, *options)  # refuses formats that do not exist
    mantissa = _widths(mask.format)[1]
    if type == "f16" or (type == "bf16" and mantissa > BF16_MANTISSA_BITS):
        why = "which reach down to 2^-126" if type == "f16" else "it is E8M7"
        raise ValueError(f"{type} cannot hold the numbers of {mask.format} with f32's bias, {why}; "
                         "use a float32 model, or another format")
    return Storage.masked(type, f"E8M{mantissa}", *options).text


@functools.lru_cache(maxsize=None)
def _masker(mask: Mask, dtype: torch.dtype, target: str) -> Pass:
    """Returns the kernel that writes the reduced numbers of "x", which it does not change, to
    "value"."""
    edge = floats(EDGES[dtype])
    rules = Rules("f32 f32", ((RoleKind.INPUT, None, edge), (RoleKind.SAVED, None, edge),
                              (RoleKind.OUTPUT, None, mask.storage(dtype))))
    return Pass(compile_rules("keep", "mask", rules, target, function="keep_backward"))


atexit.register(_masker.cache_clear)
