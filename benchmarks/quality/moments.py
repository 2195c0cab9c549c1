#===- moments.py - Errors of stored moments -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares formats for Adam's two moments on states from training.
#
#===----------------------------------------------------------------------===#
"""Measures the mean squared error of m / (sqrt(v) + eps) with moments stored in 8 bits.

The states are those of the demo's model after some steps in f32. Each moment is stored and read
back; all pairs of storages are compared (COAT, tables 1 and 8), for several seeds. Ranges, groups
and steps of k are compared for the first.
"""

import argparse
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import RESULTS, save  # noqa: E402
from round_trip import encode, expanded, round_trip, scaled  # noqa: E402

EPS = 1e-8

# The ratio of the largest value to the smallest normal one, and to the smallest one.
NORMAL = {"f8E4M3FN": 448 * 2.0**6, "f8E5M2": 57344 * 2.0**14}
WHOLE = {"f8E4M3FN": 448 * 2.0**9, "f8E5M2": 57344 * 2.0**16}
SIGNED, UNSIGNED = "#scaled.dynamic<signed>", "#scaled.dynamic<unsigned>"
DYNAMIC_RANGE = 1e4


def float_formats(ranges: dict[str, float]) -> dict[str, str]:
    """Returns E4M3 and E5M2 in COAT's groups, plain and expanded."""
    formats = {}
    for name, code in (("E4M3", "f8E4M3FN"), ("E5M2", "f8E5M2")):
        formats[name] = scaled(f"#scaled.float<{code}>")
        formats[f"{name}+expand"] = scaled(expanded(code, ranges[code]))
    return formats


def dynamic_formats(code: str) -> dict[str, str]:
    """Returns the dynamic code in the same groups, plain and expanded."""
    return {"DE8": scaled(code, scale="f32"),
            "DE8+expand": scaled(expanded(code, DYNAMIC_RANGE), scale="f32")}


WIDE = {"bf16": "#tandem.float<bf16>", "f16": scaled("#scaled.float<f16>", scale="f32")}

# Both moments are expanded over the whole format, as in the paper.
FIRST = float_formats(WHOLE) | dynamic_formats(SIGNED) | {
    "softsign": scaled("#scaled.softsign", 32, "f16")} | WIDE
SECOND = float_formats(WHOLE) | dynamic_formats(UNSIGNED) | {
    "root": scaled("#scaled.root", 32, "f16")} | WIDE

# 2^6 covers the normal values, 2^9 all; beyond these, the smallest values become zero.
RANGES = tuple(448 * 2.0**octaves for octaves in (0, 4, 6, 8, 9, 11, 13, 15, 17, 20))
DYNAMIC_RANGES = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7)
K_STEPS = (8, 4, 2, 1)  # in eighths
GROUPS = (32, 64, 128, 256)


class Moments:
    """The two moments of a model, tensor by tensor."""

    def __init__(self, first: list[np.ndarray], second: list[np.ndarray]):
        self.first, self.second = first, second
        self.update = update(*map(np.concatenate, (first, second)))

    def stored(self, moment: str, storage: str) -> np.ndarray:
        """Returns all values of a moment after a round trip."""
        return np.concatenate([round_trip(storage, x) for x in getattr(self, moment)])

    def error(self, first: np.ndarray, second: np.ndarray) -> dict[str, float]:
        """Returns the error of the update with these moments.

        If v becomes zero, the update is m / eps, and one such element outweighs all others. `mse`
        includes these elements; `mse_kept` leaves them out.
        """
        square = (update(first, second) - self.update) ** 2
        kept = (second != 0) | (np.concatenate(self.second) == 0)
        return {"mse": float(square.mean()), "mse_kept": float(square[kept].mean()),
                "lost": float(1 - kept.mean())}


def update(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Computes m / (sqrt(v) + eps) in f64."""
    return first.astype(np.float64) / (np.sqrt(second.astype(np.float64)) + EPS)


def compare(moments: Moments, first: dict, second: dict) -> dict:
    """Returns the errors of all pairs: first format -> second format -> error."""
    ms = {name: moments.stored("first", storage) for name, storage in first.items()}
    vs = {name: moments.stored("second", storage) for name, storage in second.items()}
    return {m: {v: moments.error(ms[m], vs[v]) for v in vs} for m in ms}


def compare_ranges(moments: Moments) -> dict:
    """Compares values of the range R for each moment, in E4M3 and in the dynamic code."""
    floats = {f"{r:.0f}": scaled(expanded("f8E4M3FN", r)) for r in RANGES}
    signed, unsigned = ({f"{r:.0f}": scaled(expanded(code, r), scale="f32")
                         for r in DYNAMIC_RANGES} for code in (SIGNED, UNSIGNED))
    return {"E4M3": compare(moments, floats, floats),
            "DE8 first": compare(moments, signed, {"bf16": SECOND["bf16"]}),
            "DE8 second": compare(moments, {"bf16": FIRST["bf16"]}, unsigned)}


def compare_groups(moments: Moments) -> dict:
    """Compares some pairs by the length of their groups, with an f32 scale per group."""
    pairs = {
        "E4M3": ("#scaled.float<f8E4M3FN>",) * 2,
        "E4M3+expand": (expanded("f8E4M3FN", WHOLE["f8E4M3FN"]),) * 2,
        "DE8": (SIGNED, UNSIGNED),
        "DE8+expand, E4M3+expand": (expanded(SIGNED, DYNAMIC_RANGE),
                                    expanded("f8E4M3FN", WHOLE["f8E4M3FN"])),
        "softsign, root": ("#scaled.softsign", "#scaled.root"),
    }
    return {name: {str(group): moments.error(
                moments.stored("first", scaled(first, group, "f32")),
                moments.stored("second", scaled(second, group, "f32")))
            for group in GROUPS} for name, (first, second) in pairs.items()}


class Steps:
    """A moment expanded with coarser steps of k than the kernels' eighth.

    A smaller range has smaller exponents. Each group takes, among the encodings over many ranges,
    the one with the largest exponent that is a multiple of the step.
    """

    GRID = 48

    def __init__(self, tensors: list[np.ndarray], ratio: float):
        logs = np.geomspace(1.0, np.log2(ratio), self.GRID)
        # The last is the range itself, not a value that rounding has changed.
        ranges = [*(2.0 ** logs[:-1]), ratio]
        storages = [scaled(expanded("f8E4M3FN", r)) for r in ranges]
        self.tensors = tensors
        self.exponents = [np.stack([encode(s, x)["x.exponent"] for s in storages])
                          for x in tensors]
        self.values = [np.stack([round_trip(s, x) for s in storages]) for x in tensors]

    def with_step(self, step: int) -> np.ndarray:
        """Returns the moment with exponents that are multiples of `step` eighths."""
        parts = []
        for exponents, values in zip(self.exponents, self.values):
            best = np.argmax(np.where(exponents % step == 0, exponents, 0), axis=0)
            chosen = np.repeat(best, 128)[:values.shape[1]]
            parts.append(values[chosen, np.arange(values.shape[1])])
        return np.concatenate(parts)

    def quantiles(self) -> list[float]:
        """Returns the 5th, 50th and 95th percentiles of k."""
        last = np.concatenate([e[-1] for e in self.exponents])
        return [float(q) / 8 for q in np.percentile(last, (5, 50, 95))]


def compare_steps(moments: Moments) -> dict:
    """Returns errors by the step of k, for both moments together, and the values of k."""
    ratio = WHOLE["f8E4M3FN"]
    first, second = Steps(moments.first, ratio), Steps(moments.second, ratio)
    errors = {str(step): moments.error(first.with_step(step), second.with_step(step))
              for step in K_STEPS}
    return {"errors": errors, "k": {"first": first.quantiles(),
                                    "second": second.quantiles()}}


def measure(moments: Moments) -> dict:
    """Returns all comparisons."""
    print("pairs of formats", flush=True)
    pairs = compare(moments, FIRST, SECOND)
    print("ranges", flush=True)
    ranges = compare_ranges(moments)
    print("groups", flush=True)
    groups = compare_groups(moments)
    print("steps of k", flush=True)
    return {"eps": EPS, "pairs": pairs, "ranges": ranges, "groups": groups,
            "k": compare_steps(moments)}


def measure_briefly(moments: Moments) -> dict:
    """Returns what further seeds repeat: the paper's pairs, and the values of k."""
    return {"pairs": compare(moments, FIRST, SECOND), "k": compare_steps(moments)}


def moments_of(quick: bool, steps: int, seed: int) -> tuple[Moments, int]:
    """Trains the demo's model; returns its moments and the number of its parameters."""
    from demo_model import Trained, config
    print(f"seed {seed}", flush=True)
    trained = Trained(config(quick, steps, seed))
    return Moments(trained.states("exp_avg"), trained.states("exp_avg_sq")), trained.parameters


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the demo's small model")
    parser.add_argument("--steps", type=int, default=400, help="training steps")
    parser.add_argument("--seeds", type=int, default=3,
                        help="trainings; the pairs and k are those of each (default: 3)")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of the result (default: %(default)s)")
    options = parser.parse_args()
    moments, parameters = moments_of(options.quick, options.steps, 0)
    found = measure(moments)
    seeds = {"0": {name: found[name] for name in ("pairs", "k")}}
    for seed in range(1, options.seeds):
        again, _ = moments_of(options.quick, options.steps, seed)
        seeds[str(seed)] = measure_briefly(again)
    save("moments", {"steps": options.steps, "parameters": parameters, **found, "seeds": seeds},
         options.results)


if __name__ == "__main__":
    main()
