#===- gradient_sum.py - Sums of gradients in 8 bits -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares pre-scaling, post-scaling and automatic scaling for gradients that many ranks
# sum in E4M3.
#
#===----------------------------------------------------------------------===#
"""Simulates an all-reduce of real gradients in E4M3 with different scalings.

Rank i sends fl8(mu * g_i / s), where s is the power of two per tensor that brings the largest
magnitude of all ranks into the format's range (FP8-LM, equations 4 and 5). The codes are added rank
by rank, with each partial sum rounded to E4M3 and saturated, and the sum is multiplied by s / (mu *
ranks). Pre-scaling has mu = 1 / ranks, post-scaling 1, and MS-AMP's code 1 / sqrt(ranks). Automatic
scaling halves mu after a step in which more than 0.001 % of the sums saturated, and otherwise lets
it grow, by a factor of two over 1000 steps. The ranks are simulated; each has different batches.
"""

import argparse
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import RESULTS, save  # noqa: E402
from round_trip import encode, round_trip  # noqa: E402

E4M3 = "#tandem.coded<#scaled.float<f8E4M3FN>>"
SCALED = ("#tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, "
          "recipe = pow2>")
LARGEST = 448.0
THRESHOLD = 1e-5
GROWTH = 2.0 ** (1 / 1000)


def shared_scales(ranks: list[list[np.ndarray]]) -> np.ndarray:
    """Returns each tensor's scale: the largest over the ranks."""
    scales = [[encode(SCALED, tensor)["x.scale"].view(np.float32)[0]
               for tensor in rank] for rank in ranks]
    return np.maximum.accumulate(np.array(scales), axis=0)


class Gradients:
    """The gradients of a step, with those of rank i in row i."""

    def __init__(self, ranks: list[list[np.ndarray]]):
        self.values = np.stack([np.concatenate(rank) for rank in ranks])
        sizes = [tensor.size for tensor in ranks[0]]
        # Row i has the scales that ranks 0 to i share.
        self.scales = np.repeat(shared_scales(ranks), sizes, axis=1)

    def __len__(self) -> int:
        return len(self.values)


def add_up(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sum of all rows in E4M3, and where a partial sum saturated."""
    total, saturated = codes[0], np.abs(codes[0]) >= LARGEST
    for code in codes[1:]:
        total = round_trip(E4M3, total + code)
        saturated |= np.abs(total) >= LARGEST
    return total, saturated


def signal_to_noise(exact: np.ndarray, found: np.ndarray) -> float:
    """Returns the signal-to-noise ratio in decibels."""
    noise = np.square(found - exact).sum()
    return float(10 * np.log10(np.square(exact).sum() / noise)) if noise else np.inf


def reduce(gradients: Gradients, ranks: int, mu: float) -> dict[str, float]:
    """Returns the figures of an all-reduce of the first `ranks` rows."""
    values, scale = gradients.values[:ranks], gradients.scales[ranks - 1]
    sent = round_trip(E4M3, (values / scale * np.float32(mu)).ravel())
    sent = sent.reshape(values.shape)
    total, saturated = add_up(sent)
    back = scale.astype(np.float64) / (mu * ranks)
    exact = values.astype(np.float64).mean(axis=0)
    nonzero = values != 0
    return {
        "snr": signal_to_noise(exact, total * back),
        "snr_wide": signal_to_noise(exact, sent.astype(np.float64).sum(axis=0) * back),
        "underflow": float((sent[nonzero] == 0).mean()),
        "overflow": float(saturated.mean()),
        "mu": mu,
    }


class Automatic:
    """FP8-LM's automatic scaling."""

    def __init__(self):
        self.mu = 1.0

    def reduce(self, gradients: Gradients, ranks: int) -> dict[str, float]:
        """Runs one all-reduce and updates mu."""
        result = reduce(gradients, ranks, self.mu)
        self.mu *= 0.5 if result["overflow"] > THRESHOLD else GROWTH
        return result


def measure(steps, count: int, ranks: list[int], last: int) -> dict:
    """Returns means over the last of `count` steps: scheme -> number of ranks -> figures.

    Automatic scaling runs over all steps, so that mu settles.
    """
    automatic = {n: Automatic() for n in ranks}
    schemes = {
        "pre-scaling": lambda g, n: reduce(g, n, 1 / n),
        "1 / sqrt(ranks)": lambda g, n: reduce(g, n, n**-0.5),
        "post-scaling": lambda g, n: reduce(g, n, 1.0),
        "automatic": lambda g, n: automatic[n].reduce(g, n),
    }
    results = {name: {str(n): [] for n in ranks} for name in schemes}
    for number, gradients in enumerate(steps):
        measured = schemes if number >= count - last else ("automatic",)
        for name in measured:
            for n in ranks:
                results[name][str(n)].append(schemes[name](gradients, n))
    return {name: {n: mean(found[-last:]) for n, found in by_ranks.items()}
            for name, by_ranks in results.items()}


def mean(found: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([one[key] for one in found])) for key in found[0]}


def steps_of(trained, count: int, ranks: int, batch: int):
    """Yields the gradients of a number of ranks, step by step, at the same weights."""
    from demo_model import Progress
    progress = Progress("all-reduces", count)
    for step in range(count):
        drawn = trained.draw(ranks, batch, seed=1000 + step)
        yield Gradients([trained.gradients(one) for one in drawn])
        progress.update(step + 1)
    progress.finish()


def schemes_of(options: argparse.Namespace, seed: int) -> tuple[dict, int]:
    """Trains the demo's model; returns the figures of its sums and the number of gradients."""
    from demo_model import Trained, config
    trained = Trained(config(options.quick, options.train, seed))
    ranks = [2**i for i in range(1, options.ranks.bit_length())]
    steps = steps_of(trained, options.steps, options.ranks, options.batch)
    return measure(steps, options.steps, ranks, options.last), trained.parameters


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the demo's small model")
    parser.add_argument("--train", type=int, default=200, help="steps before")
    parser.add_argument("--steps", type=int, default=12, help="all-reduces")
    parser.add_argument("--last", type=int, default=4, help="those that count")
    parser.add_argument("--batch", type=int, default=4, help="of a rank")
    parser.add_argument("--ranks", type=int, default=128, help="at most")
    parser.add_argument("--seeds", type=int, default=3, help="trainings (default: 3)")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of the result (default: %(default)s)")
    options = parser.parse_args()
    found = {}
    for seed in range(options.seeds):
        found[str(seed)], parameters = schemes_of(options, seed)
    save("gradient_sum", {
        "train": options.train, "steps": options.steps, "last": options.last,
        "batch": options.batch, "parameters": parameters, "schemes": found["0"],
        "seeds": found}, options.results)


if __name__ == "__main__":
    main()
