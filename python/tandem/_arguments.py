"""Checks and conversions of arguments for the extension."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence


def to_integer(name: str, value: int) -> int:
    """Returns the 64 bits of a signed or unsigned integer as a signed one."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"{name} must be an integer of 64 bits, got {number}")
    return (number + 2**63) % 2**64 - 2**63


def to_step(name: str, value: int) -> int:
    """Returns the number of a step, which must fit into a signed 64-bit integer."""
    number = to_integer(name, value)
    if number < 0 < operator.index(value):
        raise ValueError(f"{name} is {value}; it must be less than 2**63")
    return number


def to_threads(threads: int) -> int:
    """Returns a number of threads that the runtime accepts."""
    number = to_integer("threads", threads)
    if not 0 <= number <= 1024:
        raise ValueError(f"threads is {number}; pass 0 for one per core, or 1 to 1024")
    return number


def to_text(name: str, value: str | os.PathLike) -> str:
    """Returns a text without null characters, as C requires."""
    text = os.fspath(value)
    if "\0" in text:
        raise ValueError(f"{name} has a NUL character, {text[:40]!r}; leave it out")
    return text


def directories(path: Sequence[str | os.PathLike]) -> list[str]:
    """Returns the directories that are searched for strategies, and refuses missing ones."""
    if isinstance(path, (str, bytes)):
        raise TypeError("path is a list of directories, not one string")
    found = [to_text("path", directory) for directory in path]
    for directory in found:
        if not os.path.isdir(directory):
            raise ValueError(f"path has {directory!r}, which is not a directory; name those "
                             "that have strategies")
    return found
