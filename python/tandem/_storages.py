"""Storages: how tensors lie in memory. Only the compiler reads what they are spelled as."""

from __future__ import annotations

import atexit
from functools import lru_cache

from tandem import _tandem


@lru_cache(maxsize=None)
def described(storage: str) -> _tandem.Storage:
    """Returns the description of a storage that is spelled as in MLIR.

    Raises:
        ValueError: the text is not a storage.
    """
    return _tandem.Storage(storage)


@lru_cache(maxsize=None)
def floats(type: str) -> str:
    """The storage of one plane of floats, "bf16" for instance."""
    return _tandem.Storage.floats(type).text


# The extension reports storages that outlive the interpreter.
atexit.register(described.cache_clear)
