"""Messages of the runtime, in a host's own terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def renamed(error: ValueError, names: Mapping[str, Callable[[int], str]]) -> str:
    """Returns an error's message with other names for what the runtime knows by number.

    Args:
        error: the runtime's, whose ``parts`` are (kind, number, text), or any other.
        names: by the kind of a part, such as "row" or "tensor", its name by its number.
    """
    parts = getattr(error, "parts", [("text", 0, str(error))])
    return "".join(names[kind](number) if kind in names else text
                   for kind, number, text in parts)
