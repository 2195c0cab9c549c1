"""The cache on disk of compiled code, and the command that shows or empties it.

``python -m tandem.cache`` prints where the cache is and how large, ``--clear`` empties it.
docs/Install.md describes the cache and its environment variables.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from tandem import _tandem

MIB = 1 << 20


@dataclass(frozen=True)
class CacheInfo:
    """The state of the cache, which has kernels for CPUs and GPUs and machine code that GPU
    drivers have compiled."""

    folder: str  #: the path of its folder; empty if there is none
    enabled: bool  #: whether this process reads and keeps entries
    entries: int  #: the number of entries
    bytes: int  #: the size of the entries' files in bytes
    limit: int  #: the largest ``bytes``; beyond it, entries unused for longest are removed
    hits: int  #: the number of kernels that this process has taken from the cache
    compilations: int  #: how many times this process has generated a kernel's code


def info() -> CacheInfo:
    """Returns the state of the cache."""
    return CacheInfo(**_tandem.query_cache())


def clear() -> None:
    """Removes all entries, also while ``TANDEM_CACHE=off``.

    Raises:
        ValueError: the folder belongs to another user, or others can write to it.
    """
    _tandem.clear_cache()


def describe() -> str:
    """Returns where the cache is and how large, in one line."""
    state = info()
    if not state.folder:
        return "there is no cache: TANDEM_CACHE_DIR is empty, or there is no home directory"
    off = "" if state.enabled else ", off in this environment (TANDEM_CACHE)"
    return (f"{state.folder}: {state.entries} entries, {state.bytes / MIB:.1f} of "
            f"{state.limit / MIB:g} MiB{off}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tandem.cache",
        description="Shows or empties Tandem's cache of compiled code.")
    parser.add_argument("--clear", action="store_true", help="remove all entries")
    options = parser.parse_args(arguments)
    try:
        if options.clear:
            clear()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(describe())
    return 0


if __name__ == "__main__":
    sys.exit(main())
