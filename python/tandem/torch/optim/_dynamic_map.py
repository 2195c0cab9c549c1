"""Conversions between the dynamic code of bitsandbytes and that of Tandem."""

from __future__ import annotations

from functools import lru_cache

import torch

from tandem._storages import described

#: The number of elements that share a scale, in both.
BLOCK = 256
#: The relative difference up to which two maps count as the same: bitsandbytes computes its own
#: in float32, and where the last bits fall depends on the release and the machine.
_TOLERANCE = 2.0**-20


def sign_in(storage: str, blockwise: bool = False) -> bool | None:
    """Whether the dynamic code of a storage has signs; None if it has another code.

    Args:
        storage: as MLIR spells it.
        blockwise: whether only the storage counts that bitsandbytes has, with an f32 scale
            for each block.
    """
    found = described(storage)
    return None if blockwise and found.plain_group != BLOCK else found.is_dynamic_signed


def _positive_values(signed: bool) -> torch.Tensor:
    """The values between 0 and 1, each decade's the middles of even parts."""
    decades = []
    for i in range(7):
        ends = torch.linspace(0.1, 1, 2 ** (i if signed else i + 1) + 1,
                              dtype=torch.float32, device="cpu")
        decades.append(10**(i - 6) * ((ends[:-1] + ends[1:]) / 2))
    return torch.cat(decades)


@lru_cache(maxsize=None)
def _map(signed: bool) -> torch.Tensor:
    values = _positive_values(signed)
    ends = torch.tensor([0.0, 1.0], device="cpu")
    return torch.cat([values, ends, -values] if signed else [values, ends]).sort().values


def dynamic_map(signed: bool, device: torch.device | str = "cpu") -> torch.Tensor:
    """bitsandbytes' value of each code, 256 of float32 in ascending order; a new tensor."""
    return _map(signed).to(device, copy=True)


def sign_of(qmap: torch.Tensor) -> bool | None:
    """Whether a map is that of signed values; None if it is neither of the two."""
    if qmap.shape != (256,) or not qmap.is_floating_point():
        return None
    values = qmap.to("cpu", torch.float32)
    for signed in (True, False):
        ours = _map(signed)
        if bool(((values - ours).abs() <= _TOLERANCE * ours.abs()).all()):
            return signed
    return None


def nan_code(signed: bool) -> int:
    """Tandem's NaN, which has a value in bitsandbytes."""
    return 1 if signed else 254


def _exact(signed: bool) -> list[int]:
    """The values of the codes as multiples of 1 / (256 * 10**7), which all of them are."""
    values = []
    for i in range(7):
        count = 2 ** (i if signed else i + 1)
        values += [10**i * (256 + 9 * (2 * k + 1) * (128 // count)) for k in range(count)]
    negative = [-value for value in reversed(values)] if signed else []
    return [*negative, 0, *values, 256 * 10**7]


@lru_cache(maxsize=None)
def _recoding(source: bool, target: bool, has_nan: bool) -> torch.Tensor:
    """The nearest code for each, of two that are equally near the larger in magnitude."""
    values = _exact(target)
    numbers = [c for c in range(256) if not (has_nan and c == nan_code(target))]
    return torch.tensor(
        [min(numbers, key=lambda c: (abs(values[c] - value), -abs(values[c])))
         for value in _exact(source)], dtype=torch.uint8, device="cpu")


def recoded(codes: torch.Tensor, source: bool, target: bool, *,
            has_nan: bool) -> torch.Tensor:
    """Codes under the map of the other sign, or the same, to the nearest value.

    Args:
        codes: uint8.
        source: whether they are signed.
        target: whether the result is.
        has_nan: whether the target's NaN takes the place of a value, as in Tandem.

    Returns:
        uint8, in new memory of the same layout.
    """
    table = _recoding(source, target, has_nan).to(codes.device)
    return torch.empty_like(codes).copy_(table[codes.int()])
