"""Names of modules, and patterns that match them."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Collection, Iterable, Sequence

import torch


def is_named(name: str, pattern: str) -> bool:
    """Returns whether a pattern matches the name of a module or of one that contains it."""
    parts = name.split(".")
    return any(fnmatch.fnmatchcase(".".join(parts[:count]), pattern)
               for count in range(1, len(parts) + 1))


def check_patterns(patterns: Sequence[str], layers: Iterable[str], model: torch.nn.Module,
                   what: str) -> None:
    """Refuses patterns that match none of a model's layers, since they are probably
    misspelled."""
    if isinstance(patterns, str):
        raise TypeError(f"{what} is a list of names, such as [{patterns!r}], not one string")
    if not isinstance(patterns, Collection):
        raise TypeError(f"{what} is a list of names, such as ['lm_head'], got {patterns!r}")
    layers = list(layers)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"{what} has {pattern!r}; names of modules are strings")
        if not any(is_named(name, pattern) for name in layers):
            raise ValueError(_no_match(pattern, model, layers, what))


def _no_match(pattern: str, model: torch.nn.Module, layers: Sequence[str], what: str) -> str:
    names = [name for name, _ in model.named_modules() if any(
        layer == name or layer.startswith(f"{name}.") for layer in layers)]
    last = {name: name.rsplit(".", 1)[-1] for name in names}
    near = [name for name in names if last[name] == pattern]
    near += difflib.get_close_matches(pattern, names, 5, 0.5)
    near += [name for name in names
             if difflib.get_close_matches(pattern, [last[name]], 1, 0.6)]
    near = list(dict.fromkeys(near or layers))[:5]
    return (f"{what} has {pattern!r}, which is not a linear layer of the model, nor a module with "
            f"one; near names are {', '.join(map(repr, near))}")
