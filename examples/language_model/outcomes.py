# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Selects the strategies that the figure emphasizes and finds the runs that
diverged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Float32 and plain bf16, the three that docs/Library.md recommends, and the 8-bit
# states of a paper; the others that the demo trains by default follow them.
PREFERRED = (
    "fp32",
    "bf16",
    "remainder",
    "flash-f16",
    "dither-softsign-root",
    "coat",
    "residual-softsign-root+coat",
)
EMPHASIZED = 6


def emphasized(names: Sequence[str]) -> list[str]:
    """Returns the strategies to emphasize: the preferred ones, then the first given."""
    preferred = [name for name in PREFERRED if name in names]
    others = [name for name in names if name not in PREFERRED]
    return (preferred + others)[:EMPHASIZED]


def smooth(values: Sequence[float], window: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the steps at which the windows of a running mean end, and the means."""
    mean = np.convolve(values, np.full(window, 1 / window), mode="valid")
    return np.arange(window, len(values) + 1), mean


def lowest(means: np.ndarray) -> float:
    """Returns the smallest finite mean, or infinity if there is none."""
    return min(means[np.isfinite(means)], default=np.inf)


def diverged(losses: dict[str, list[float]]) -> dict[str, int]:
    """Returns the strategies whose runs diverged, with the step from which each stays
    diverged.

    A run has diverged if its mean loss ends as NaN or infinity, or above its minimum by
    more than half of the best run's improvement.
    """
    curves = {name: smooth(values, 5) for name, values in losses.items()}
    start = max((means[0] for _, means in curves.values() if np.isfinite(means[0])), default=0)
    learned = start - min(lowest(means) for _, means in curves.values())
    found = {}
    for name, (steps, means) in curves.items():
        # A comparison with NaN is false.
        stays = np.flatnonzero(means <= lowest(means) + learned / 2)
        if len(stays) == 0:
            found[name] = 1
        elif stays[-1] + 1 < len(means):
            found[name] = int(steps[stays[-1] + 1])
    return found


def converged(losses: dict[str, list[float]]) -> list[str]:
    """Returns the strategies whose runs improved at least half as much as the best
    run."""
    lost = diverged(losses)
    ends = {n: smooth(v, 5)[1][-1] for n, v in losses.items() if n not in lost}
    start = max((losses[name][0] for name in ends), default=0)
    limit = (start + min(ends.values(), default=0)) / 2
    return [name for name, end in ends.items() if end <= limit]
