"""The properties of a launch that are known when its function is traced."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Call:
    """The properties of a launch that are known when its function is traced."""

    what: str  #: in messages: "a step of adamw"
    instead: str  #: in messages: what to do instead of jax.vmap
    kernel: str
    names: str  #: of tensors, in messages, one per line
    tensors: tuple[int, ...]  #: rows, columns and key of each
    #: the indices of the operand and result of each plane, -1 for none
    planes: tuple[int, ...]
    #: the (type, shape) of each result
    results: tuple[tuple[str, tuple[int, ...]], ...]
    hypers: tuple[float, ...]
    integers: tuple[int, ...]
    #: the indices of the hyperparameters, or below 0 of the integers, that are the first
    #: operands
    scalars: tuple[int, ...]
    launches: int = 1
    threads: int = 0
    #: the indices of further operands and results, -1 for none
    skip: int = -1
    shards: int = -1
    flags: int = -1
    metrics: int = -1

    @property
    def attributes(self) -> dict[str, object]:
        """Returns the attributes that XLA passes to the library."""
        numbers = {name: np.int64(getattr(self, name)) for name in (
            "launches", "threads", "skip", "shards", "flags", "metrics")}
        arrays = {name: np.array(getattr(self, name), np.int64) for name in (
            "tensors", "planes", "integers", "scalars")}
        return numbers | arrays | {
            "kernel": self.kernel, "names": self.names,
            "hypers": np.array(self.hypers, np.float64),
            "site": np.int64(zlib.crc32(repr(self.tensors).encode())),
        }

    @property
    def aliases(self) -> dict[int, int]:
        """Returns the results that reuse the memory of operands."""
        pairs = zip(self.planes[::2], self.planes[1::2])
        return {operand: result for operand, result in pairs if operand >= 0 and result >= 0}
