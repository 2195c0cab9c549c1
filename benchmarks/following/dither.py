#===- dither.py - Evenly distributed rounding bits ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements a sequence of rounding bits for states and weights, and measures its errors
# and those of independent random bits.
#
#===----------------------------------------------------------------------===#
"""Measures errors of accumulators whose rounding bits are evenly distributed in time.

With independent bits, stochastic rounding lets a state follow its average, but its errors
accumulate as a random walk. They stay bounded if the bits of each element fill [0, 2^16) evenly
from step to step. The bits of an element are the high half of

    h = element * ELEMENT + S,

where S is one word per tensor, role and step. Within a window of 64 steps, S visits 64 strata in
the order of a lattice with a random rotation and one of four multipliers; from window to window,
the golden ratio refines the strata. A single rounding is unbiased, since S is uniform over seeds.
docs/Numerics.md specifies the sequence, and scripts/following.sh shows its effect on moments.
"""

import argparse
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/Python"))
from model.philox import philox4x32  # noqa: E402

#: The increment from element to element. Among 60,000 random odd numbers, it best separates the
#: neighbours along a column for all common row lengths.
ELEMENT = 0x6107DA4D
#: 2^32 divided by the golden ratio.
GOLDEN = 0x9E3779B9
#: The multipliers 19, 23, 27 and 39 of the lattice, a byte each.
MULTIPLIERS = 0x271B1713
#: Second words of the counter. Stochastic rounding puts an element's high half there, which is
#: always smaller.
WINDOW_TAG, BASE_TAG = 0x64697468, 0x64697469
STRATA = 64
_WORD = 0xFFFFFFFF


def words(seed: int, tensor: int, role: int, steps: np.ndarray) -> np.ndarray:
    """Returns S for each step."""
    key = seed & _WORD, seed >> 32 & _WORD
    steps = np.asarray(steps, np.uint64) & np.uint64(_WORD)
    window, place = steps // np.uint64(STRATA), steps % np.uint64(STRATA)
    drawn = philox4x32((role, WINDOW_TAG, tensor & _WORD, window), key)[0].astype(np.uint64)
    base = int(philox4x32((role, BASE_TAG, tensor & _WORD, 0), key)[0])
    byte = (drawn >> np.uint64(6)) % np.uint64(4) * np.uint64(8)
    multiplier = np.uint64(MULTIPLIERS) >> byte & np.uint64(0xFF)
    stratum = (multiplier * place + drawn) % np.uint64(STRATA)
    refined = (np.uint64(base) + window * np.uint64(GOLDEN) & np.uint64(_WORD)) >> np.uint64(6)
    return (stratum << np.uint64(26) | refined).astype(np.uint32)


def bits(word: int, first: int, count: int, negative: np.ndarray | None = None) -> np.ndarray:
    """Returns the 16 bits of elements first, first + 1, ... at a step with S = `word`.

    A magnitude (n + f) ulp rounds up iff f in units of 2^-16 plus the bits reaches 2^16. The bits
    of negative numbers are complemented, so that both signs round towards positive infinity for the
    same bits.
    """
    element = (np.uint64(first) + np.arange(count, dtype=np.uint64)).astype(np.uint32)
    with np.errstate(over="ignore"):
        high = (element * np.uint32(ELEMENT) + np.uint32(word)) >> np.uint32(16)
    return high if negative is None else np.where(negative, high ^ np.uint32(0xFFFF), high)


def rounded_sums(sequence: np.ndarray, addends: np.ndarray) -> np.ndarray:
    """Returns integers to which a fraction is added at every step, with each sum rounded.

    `sequence` has the 32-bit words by step and trial, `addends` a fraction in units of 2^-32 by
    trial.
    """
    return ((sequence.astype(np.uint64) + addends) >> np.uint64(32)).sum(axis=0, dtype=np.int64)


def errors(kind: str, interval: int, additions: int, trials: int, seed: int = 1) -> np.ndarray:
    """Returns errors of sums in ulps, with an addition at every `interval`-th step."""
    random = np.random.default_rng([seed, interval])
    addends = random.integers(0, 2**32, trials, dtype=np.uint64)
    if kind == "random":
        sequence = random.integers(0, 2**32, (additions, trials), dtype=np.uint32)
    else:
        begin, offsets = int(random.integers(4096)), random.integers(0, 2**32, trials, np.uint32)
        steps = begin + interval * np.arange(additions)
        with np.errstate(over="ignore"):
            sequence = words(seed, 0, 0, steps)[:, None] + offsets[None]
    exact = additions * (addends / 2.0**32)
    return rounded_sums(sequence, addends) - exact


def ratio(interval: int, additions: int, trials: int = 64, seeds: int = 6) -> float:
    """Returns the RMS error relative to the theoretical one of independent bits."""
    found = [errors("dither", interval, additions, trials, seed) for seed in range(seeds)]
    return float(np.sqrt(np.mean(np.square(found)) / (additions / 6)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--additions", type=int, default=2000)
    parser.add_argument("--intervals", type=int, default=256)
    options = parser.parse_args()
    for kind in ("random", "dither"):
        steady = [errors(kind, 1, n, 64) for n in (200, 2000, 20000)]
        sizes = ", ".join(f"{float(np.sqrt(np.mean(e * e))):.1f}" for e in steady)
        print(f"{kind}: error after 200, 2000, 20000 steady additions: {sizes} ulp")
    ratios = {k: ratio(k, options.additions) for k in range(1, options.intervals + 1)}
    worst = sorted(ratios, key=ratios.__getitem__)[::-1][:5]
    print("error by that of random bits, additions at every k-th step: "
          + ", ".join(f"{k}: {ratios[k]:.2f}" for k in (1, 2, 3, 5, 8, 13, 64)))
    print("worst: " + ", ".join(f"{k}: {ratios[k]:.2f}" for k in worst))


if __name__ == "__main__":
    main()
