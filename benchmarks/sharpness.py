#===- sharpness.py - Measure searches for the sharpness -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the measurements in docs/Sharpness.md: the fraction of the sharpness that
# SciPy's search finds, and its time.
#
#===----------------------------------------------------------------------===#
"""Prints the table and the times in docs/Sharpness.md; takes some minutes."""

import math
import time
import warnings

import numpy as np

import tandem

PROBABILITIES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
VOCABULARIES = (100, 32000)
SEEDS = 3
SEARCHES = {"exact": {"method": "exact"}, "search": {}, "scale=False": {"scale": False}}


def logits_with(probability: float, vocabulary: int, seed: int) -> np.ndarray:
    """Draws normal logits of standard deviation 3; token 0 gets the probability."""
    y = np.random.default_rng(seed).normal(0, 3, vocabulary)
    y[0] = np.log(np.exp(y[1:]).sum()) + math.log(probability / (1 - probability))
    return y


def found_share(probability: float, vocabulary: int, **options) -> float:
    """Returns the mean fraction of the sharpness that searches find."""
    y = np.stack([logits_with(probability, vocabulary, seed) for seed in range(SEEDS)])
    targets = np.zeros(SEEDS, int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tandem.ConvergenceWarning)
        found = tandem.sharpness(y, targets, **options)
    return float((found / tandem.sharpness(y, targets, method="exact")).mean())


def row_of(probability: float) -> str:
    """Formats a row of the page's table."""
    shares = [f"{found_share(probability, v, scale=False):.1%}" for v in VOCABULARIES]
    scaled = min(found_share(probability, v) for v in VOCABULARIES)
    return f"| {probability:g} | {' | '.join(shares)} | {100 * scaled:.9g}% |"


def seconds_of(options: dict, runs: int = 3) -> float:
    """Returns the minimum time for one sequence of the largest vocabulary."""
    y, times = logits_with(0.5, VOCABULARIES[-1], 0), []
    for _ in range(runs):
        begin = time.perf_counter()
        tandem.sharpness(y, 0, **options)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    for probability in PROBABILITIES:
        print(row_of(probability), flush=True)
    warnings.simplefilter("ignore", tandem.ConvergenceWarning)
    for name, options in SEARCHES.items():
        print(f"{name}: {1000 * seconds_of(options):.3g} ms")


if __name__ == "__main__":
    main()
