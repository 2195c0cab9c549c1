"""The reference interpreter, which is the oracle for the compiler's lowerings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from tandem import _tandem
from tandem._arguments import directories, to_integer, to_step, to_text
from tandem._arrays import is_read_only


def interpret(
    graph: str | os.PathLike,
    strategy: str | None,
    arrays: Mapping[str, object],
    hypers: Mapping[str, float],
    *,
    path: Sequence[str | os.PathLike] = (),
    step: int = 1,
    seed: int = 0,
    key: int = 0,
    first: int = 0,
    function: str = "",
    external: Mapping[str, Callable[[int], None]] | None = None,
) -> int:
    """Runs one step in the reference interpreter, updates the arrays in place, and returns the
    flags.

    The interpreter applies the numerical specification directly to the source graph, in integer
    arithmetic; it shares no code with the compiler's lowerings and is their oracle. Arrays hold
    the planes' bits. They belong to one tensor, which is also the whole model for sums over the
    model. In a graph of matrices, arrays of a matrix have two dimensions. A ``tandem.kernel``,
    and the ``tandem.step`` that it is lowered to, run at any stage up to ``-tandem-widen``;
    their strategy is None. ``external`` has a function for each ``tandem.external``, by its name:
    it takes 0, reads the arrays that are sent, and writes those that are received.
    """
    step = to_step("step", step)
    if step < 1:
        raise ValueError(f"step is {step}; it must be at least 1")
    for name, array in arrays.items():
        if is_read_only(array):
            raise ValueError(f"array {name!r} is read-only, and the interpreter updates "
                             "arrays in place; pass a writable copy")
    return _tandem.interpret(
        to_text("graph", graph), to_text("strategy", strategy or ""), directories(path),
        list(arrays.items()),
        [(name, float(value)) for name, value in hypers.items()],
        step, to_integer("seed", seed) % 2**64, to_integer("key", key),
        to_integer("first", first), to_text("function", function),
        (lambda name: external[name](0)) if external else None,
    )
