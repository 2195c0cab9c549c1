"""Messages of the runtime with the host's own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def renamed(error: ValueError, names: Mapping[str, Callable[[int], str]]) -> str:
    """Returns an error's message with other names for parts that have a number.

    Args:
        error: an error of the runtime, whose ``parts`` are (kind, number, text), or any other.
        names: for kinds of parts, such as "row" or "tensor", a function from the number to the
            name.
    """
    parts = getattr(error, "parts", [("text", 0, str(error))])
    return "".join(names[kind](number) if kind in names else text
                   for kind, number, text in parts)
