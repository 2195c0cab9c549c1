#===- representation.py - Errors of storages by range ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures the relative error of weight storages by the weight's exponent, and of moment
# storages by the range that a group spans.
#
#===----------------------------------------------------------------------===#
"""Measures how many bits of a number each storage preserves."""

import argparse
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import RESULTS, save  # noqa: E402
from moments import NORMAL, SIGNED, UNSIGNED, WHOLE  # noqa: E402
from round_trip import expanded, round_trip, scaled  # noqa: E402

WEIGHTS = {
    "bf16": "#tandem.float<bf16>",
    "bf16 + f8E5M2": "#tandem.expansion<bf16, f8E5M2>",
    "bf16 + i8 residual": "#tandem.residual<bf16, i8>",
    "bf16 + i16 residual": "#tandem.residual<bf16, i16>",
    "bf16 x 2": "#tandem.expansion<bf16 x 2>",
    "bf16 x 3": "#tandem.expansion<bf16 x 3>",
    "bf16 + remainder": "#tandem.remainder",
    "f16": "#tandem.float<f16>",
    "f16 + f8E5M2": "#tandem.expansion<f16, f8E5M2>",
    "f16 x 2": "#tandem.expansion<f16 x 2>",
    "E4M3 x 2, scaled": scaled("#scaled.pair<f8E4M3FN>", scale="f32"),
    "E5M10, scaled": scaled("#scaled.minifloat<exponent = 5, mantissa = 10>", scale="f32"),
}
EXPONENTS = range(-149, 128)

MOMENTS = {
    "E4M3": scaled("#scaled.float<f8E4M3FN>"),
    "E4M3 expanded, R = 28672": scaled(expanded("f8E4M3FN", NORMAL["f8E4M3FN"])),
    "E4M3 expanded, R = 229376": scaled(expanded("f8E4M3FN", WHOLE["f8E4M3FN"])),
    "E5M2": scaled("#scaled.float<f8E5M2>"),
    "E5M2 expanded": scaled(expanded("f8E5M2", WHOLE["f8E5M2"])),
    "DE8 signed": scaled(SIGNED, scale="f32"),
    "DE8 signed, expanded": scaled(expanded(SIGNED, 1e4), scale="f32"),
    "DE8 unsigned": scaled(UNSIGNED, scale="f32"),
    "softsign": scaled("#scaled.softsign", 32, "f16"),
    "root": scaled("#scaled.root", 32, "f16"),
    "f16": scaled("#scaled.float<f16>", scale="f32"),
}
BINADES = range(41)
GROUP = 128


def bits(values: np.ndarray, stored: np.ndarray) -> float | None:
    """Returns -log2 of the RMS relative error; None if the storage is exact."""
    exact = values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        square = np.mean(((stored.astype(np.float64) - exact) / exact) ** 2)
    if square == 0:
        return None
    return float(-0.5 * np.log2(square)) if np.isfinite(square) else -np.inf


def weights(count: int) -> dict[str, list[float | None]]:
    """Returns bits by exponent, with f32 numbers and groups from one binade."""
    draw = np.random.default_rng(0)
    significands = draw.integers(1 << 23, 1 << 24, (len(EXPONENTS), count))
    powers = np.array(EXPONENTS)[:, None] - 23
    # Subnormal f32 numbers themselves have fewer digits.
    values = np.ldexp(significands.astype(np.float64), powers).astype(np.float32)
    values = np.where(values == 0, np.float32(2.0**-149), values)
    values = np.minimum(values, np.finfo(np.float32).max)
    return {name: per_row(values, round_trip(storage, values.ravel()))
            for name, storage in WEIGHTS.items()}


def moments(groups: int) -> dict[str, list[float | None]]:
    """Returns bits by the number of binades that a group spans evenly.

    Each group's largest value comes first: 1 for a moment, or a random value below 2.
    """
    draw = np.random.default_rng(0)
    depth = draw.random((len(BINADES), groups, GROUP)) * np.array(BINADES)[:, None, None]
    depth[:, :, 0] = 0
    depth[:, :, 1] = np.array(BINADES)[:, None]
    top = 1 + draw.random((len(BINADES), groups, 1))
    values = (top * 2.0**-depth).astype(np.float32).reshape(len(BINADES), -1)
    return {name: per_row(values, round_trip(storage, values.ravel()))
            for name, storage in MOMENTS.items()}


def per_row(values: np.ndarray, stored: np.ndarray) -> list[float | None]:
    return [bits(*rows) for rows in zip(values, stored.reshape(values.shape))]


def measure(count: int) -> dict:
    """Returns both tables; `count` is the number of values per binade, a multiple of a group."""
    return {"exponents": list(EXPONENTS), "weights": weights(count),
            "binades": list(BINADES), "moments": moments(count // GROUP)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of the result (default: %(default)s)")
    parser.add_argument("--count", type=int, default=8192,
                        help="numbers of each exponent, a multiple of 128")
    options = parser.parse_args()
    if options.count < GROUP or options.count % GROUP:
        parser.error(f"--count {options.count}: give a multiple of {GROUP}")
    save("representation", measure(options.count), options.results)


if __name__ == "__main__":
    main()
