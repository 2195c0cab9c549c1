"""Amounts of memory: texts such as "24GiB", and bytes of tensors under a strategy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tandem._companions import MIN_8BIT_VECTOR_SIZE
from tandem._convert import compiled
from tandem._param_planes import has_rows
from tandem.torch._shards import Shard
from tandem.torch.optim.state._sharding import gathers
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._specs import Key, StateSpecs
from tandem.torch.optim.advice._kinds import KINDS, Kind

#: The units of texts, in bytes.
UNITS = {f"{prefix}{unit}": base**power for unit, base in (("iB", 1024), ("B", 1000))
         for power, prefix in enumerate("KMGT", 1)} | {"B": 1}


def in_bytes(memory: object) -> int:
    """Returns an amount of memory in bytes.

    Args:
        memory: a number of bytes, or a text with a unit: "24GiB", "1.5 TB", "800 MiB".

    Raises:
        TypeError: the argument is neither a number nor a text.
        ValueError: the amount is not positive and finite, or has an unknown unit.
    """
    if isinstance(memory, str):
        number = _number_of(memory)
    elif isinstance(memory, (int, float)) and not isinstance(memory, bool):
        number = float(memory)
    else:
        raise TypeError(f"memory must be a number of bytes or a text such as '24GiB', got "
                        f"{memory!r}")
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"memory is {memory!r}; it must be above 0 and finite")
    return int(number)


def _number_of(text: str) -> float:
    """Returns the number of bytes in a text with a unit, which is case-insensitive."""
    stripped = text.strip()
    for unit in sorted(UNITS, key=len, reverse=True):
        if stripped.lower().endswith(unit.lower()):
            try:
                return float(stripped[:-len(unit)]) * UNITS[unit]
            except ValueError:
                break
    raise ValueError(f"memory {text!r} is not a number with a unit; write it as '24GiB', with one "
                     f"of {', '.join(UNITS)}, or pass a number of bytes")


def text_of(count: float) -> str:
    """Formats a number of bytes with a unit in three digits, rounded up so that it suffices."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count >= UNITS[unit]:
            digits = 2 - int(math.log10(count / UNITS[unit]))
            scale = 10.0**max(digits, 0)
            return f"{math.ceil(count / UNITS[unit] * scale) / scale:g} {unit}"
    return f"{count:g} B"


@dataclass(frozen=True)
class Bytes:
    """Bytes of tensors on one rank.

    Attributes:
        weights: the bytes of weights as they are stored, including their parts in the state.
        gradients: the bytes of gradients between a backward pass and its step.
        states: the bytes of all other planes of the optimizer.
        working: the temporary bytes for the largest tensor if weights or gradients are codes:
            its decoded weight, and its gradient before it is encoded.
    """

    weights: int = 0
    gradients: int = 0
    states: int = 0
    working: int = 0

    @property
    def total(self) -> int:
        """The sum of all bytes."""
        return self.weights + self.gradients + self.states + self.working

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(self.weights + other.weights, self.gradients + other.gradients,
                     self.states + other.states, max(self.working, other.working))


class Footprints:
    """Computes the bytes of tensors under an optimizer and any strategy, from the storages of
    its kernels.

    Args:
        releases: whether backward passes release gradients (``gradient_release``).
        min_8bit_size: the bound below which states are float32.
        kind: the optimizer.
        min_8bit_vector_size: the same bound for vectors.
    """

    def __init__(self, releases: bool = False, min_8bit_size: int | None = 4096,
                 kind: Kind = KINDS["AdamW"],
                 min_8bit_vector_size: int | None = MIN_8BIT_VECTOR_SIZE):
        self.releases, self.kind = releases, kind
        self._group = {"min_8bit_size": min_8bit_size,
                       "min_8bit_vector_size": min_8bit_vector_size}
        self._specs = StateSpecs(
            lambda graph, strategy, target, rules: compiled(graph, strategy, (), target, rules),
            kind.graph, "fp32", kind.vectors)

    def of(self, shape: torch.Size, dtype: torch.dtype, strategy: str,
           shard: Shard | None = None, is_matrix: bool = True) -> Bytes:
        """Returns the bytes of a trained parameter: of the whole, or on the rank of a shard.

        Args:
            is_matrix: whether its name says that it is no embedding and no head.
        """
        spec = self._spec(shape, dtype, strategy, is_matrix)
        whole = torch.empty(shape, dtype=dtype, device="meta")
        own = whole if shard is None else shard.piece_of(whole)
        like = whole if shard is not None and gathers(spec, shard) else own
        planes = {name: spec.bytes_of(plane, like)
                  for name, plane in spec.state_planes.items()}
        kept = sum(count for name, count in planes.items() if spec.is_weight(name))
        wide = own.numel() * (spec.grad_dtype or dtype).itemsize
        coded = [spec.bytes_of(plane, like) for plane in spec.grad_planes
                 if spec.encodes and not plane.persistent]
        passes = wide if self.releases or spec.encodes else 0
        return Bytes(weights=kept + (0 if spec.hidden else own.nbytes),
                     gradients=0 if self.releases else sum(coded) if coded else wide,
                     states=sum(planes.values()) - kept,
                     working=passes + (own.nbytes if spec.hidden else 0))

    def check(self, shape: torch.Size, dtype: torch.dtype, label: str) -> None:
        """Refuses a parameter whose shape the optimizer does not support."""
        if not self.kind.is_for_matrices and has_rows(self._specs.main.kernel) and len(shape) > 2:
            raise self._specs.refusal(torch.empty(shape, dtype=dtype, device="meta"), label,
                                         "remainder")

    def has_f32_states(self, strategy: str) -> bool:
        """Returns whether the states of large parameters are float32 under a strategy."""
        spec = self._specs[Key(strategy)]
        return all(plane.type == "f32" for name, plane in spec.state_planes.items()
                   if not spec.is_weight(name))

    def _spec(self, shape: torch.Size, dtype: torch.dtype, strategy: str,
              is_matrix: bool) -> StateSpec:
        is_matrix = len(shape) > 1 and (is_matrix or not self.kind.is_for_matrices)
        is_vector = self._specs.vectors is not None and not is_matrix
        is_wide = dtype not in self._specs[Key(strategy)].dtypes
        is_small = self._specs.is_small(shape, self._group)
        return self._specs[Key(strategy, is_vector, is_wide, is_small)]
