"""Conversions between bitsandbytes' dynamic code and Tandem's."""

from __future__ import annotations

from functools import lru_cache

import torch

from tandem._storages import described

#: The number of elements that share a scale, in both libraries.
BLOCK = 256
#: The relative difference up to which two maps count as equal. bitsandbytes computes its map in
#: float32, and the last bits depend on the release and the machine.
_TOLERANCE = 2.0**-20


def sign_in(storage: str, blockwise: bool = False) -> bool | None:
    """Returns whether the dynamic code of a storage is signed, or None if it has another code.

    Args:
        storage: the storage in MLIR's notation.
        blockwise: whether to accept only bitsandbytes' storage, with an f32 scale for each
            block.
    """
    found = described(storage)
    return None if blockwise and found.plain_group != BLOCK else found.is_dynamic_signed


def _positive_values(signed: bool) -> torch.Tensor:
    """Returns the values between 0 and 1, which are the midpoints of equal parts of each
    decade."""
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
    """Returns a new tensor with bitsandbytes' values of the codes: 256 float32 values in
    ascending order."""
    return _map(signed).to(device, copy=True)


def sign_of(qmap: torch.Tensor) -> bool | None:
    """Returns whether a map is the signed one, or None if it is neither of the two."""
    if qmap.shape != (256,) or not qmap.is_floating_point():
        return None
    values = qmap.to("cpu", torch.float32)
    for signed in (True, False):
        ours = _map(signed)
        if bool(((values - ours).abs() <= _TOLERANCE * ours.abs()).all()):
            return signed
    return None


def nan_code(signed: bool) -> int:
    """Returns Tandem's code for NaN, which has a value in bitsandbytes."""
    return 1 if signed else 254


def _exact(signed: bool) -> list[int]:
    """Returns the values of the codes as integer multiples of 1 / (256 * 10**7)."""
    values = []
    for i in range(7):
        count = 2 ** (i if signed else i + 1)
        values += [10**i * (256 + 9 * (2 * k + 1) * (128 // count)) for k in range(count)]
    negative = [-value for value in reversed(values)] if signed else []
    return [*negative, 0, *values, 256 * 10**7]


@lru_cache(maxsize=None)
def _recoding(source: bool, target: bool, has_nan: bool) -> torch.Tensor:
    """Returns the nearest code for each code; ties go to the larger magnitude."""
    values = _exact(target)
    numbers = [c for c in range(256) if not (has_nan and c == nan_code(target))]
    return torch.tensor(
        [min(numbers, key=lambda c: (abs(values[c] - value), -abs(values[c])))
         for value in _exact(source)], dtype=torch.uint8, device="cpu")


def recoded(codes: torch.Tensor, source: bool, target: bool, *,
            has_nan: bool) -> torch.Tensor:
    """Converts codes to the nearest values of the map with the other sign, or of the same map.

    Args:
        codes: a uint8 tensor.
        source: whether the codes are signed.
        target: whether the result is signed.
        has_nan: whether the target has NaN in place of a value, as in Tandem.

    Returns:
        A new uint8 tensor of the same layout.
    """
    table = _recoding(source, target, has_nan).to(codes.device)
    return torch.empty_like(codes).copy_(table[codes.int()])
