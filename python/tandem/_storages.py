"""Storages: the formats of tensors in memory. Only the compiler parses their text."""

from __future__ import annotations

import atexit
from functools import lru_cache

from tandem import _tandem


@lru_cache(maxsize=None)
def described(storage: str) -> _tandem.Storage:
    """Returns the description of a storage from its MLIR text.

    Raises:
        ValueError: the text is not a storage.
    """
    return _tandem.Storage(storage)


@lru_cache(maxsize=None)
def floats(type: str) -> str:
    """Returns the storage of one plane of floats, such as "bf16"."""
    return _tandem.Storage.floats(type).text


# The extension reports storages that outlive the interpreter.
atexit.register(described.cache_clear)
