#===- exact_expansion.py - Range expansion without roundings --*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares dynamic range expansion, which computes powers in f32, with the same rule
# evaluated exactly in integers.
#
#===----------------------------------------------------------------------===#
"""Compares the kernels' exponents, codes and values with an exact expansion.

The exact rule: j is the largest integer from 8 to 128 with (M / least)^j <= R^8, where M / least is
rounded to f32. The code is the nearest to L (|x| / M)^(j/8), with |x| / M rounded to f32. It
decodes to M times the f32 nearest to (q / L)^(8/j). Integers decide the cases that f64 leaves open.
"""

import argparse
import pathlib
import sys
from fractions import Fraction

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import RESULTS, save  # noqa: E402
from moments import Moments, NORMAL, WHOLE  # noqa: E402
from round_trip import decode, encode, expanded, scaled  # noqa: E402

GROUP = 128
CODE = "f8E4M3FN"
FIRST, SECOND = WHOLE[CODE], NORMAL[CODE]  # the ranges of the strategy "coat"
#: The nonnegative E4M3 values up to 448, by code.
NUMBERS = np.array([m * 2.0**-9 for m in range(8)]
                   + [(8 + m) * 2.0**(e - 10) for e in range(1, 16) for m in range(8)])[:127]
MIDDLES = (NUMBERS[1:] + NUMBERS[:-1]) / 2


def exact_exponents(ratio: np.ndarray, limit: float) -> np.ndarray:
    """Returns the exponents of groups with these M / least."""
    with np.errstate(divide="ignore"):
        guess = np.fmin(8 * np.log2(limit) / np.log2(ratio.astype(np.float64)), 1000)
    result = np.floor(np.clip(guess, 8, 128))
    nearest = np.rint(guess)
    for i in np.flatnonzero(np.abs(guess - nearest) < 1e-9 * guess):
        n = int(nearest[i])
        fits = Fraction(float(ratio[i]))**n <= Fraction(limit)**8
        result[i] = min(128, max(8, n if fits else n - 1))
    return result.astype(np.int64)


def exact_codes(y: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Returns the codes of magnitudes of at most 1 with the given exponents."""
    power = NUMBERS[-1] * y.astype(np.float64) ** (j / 8)
    codes = np.searchsorted(MIDDLES, power)
    below = np.clip(codes, 0, len(MIDDLES) - 1)
    for middle in (below, np.maximum(below - 1, 0)):
        close = np.abs(power - MIDDLES[middle]) < 1e-12 * MIDDLES[middle]
        for i in np.flatnonzero(close):
            at = middle[i]
            exact = Fraction(float(y[i]))**int(j[i]) * 448**8
            wanted = Fraction(MIDDLES[at])**8
            is_above = exact > wanted or (exact == wanted and at % 2 == 1)
            codes[i] = at + is_above
    return codes


def groups_of(x: np.ndarray, scales: np.ndarray):
    """Returns the group of each element, and each group's M and M / least."""
    group = np.arange(len(x)) // GROUP
    magnitude = np.abs(x)
    least = np.full(len(scales), np.inf, np.float32)
    np.minimum.at(least, group[x != 0], magnitude[x != 0])
    m = (scales.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        ratio = np.where(np.isinf(least), np.float32(np.inf), m / least)
    return group, m, ratio


class Compared:
    """A tensor stored by the kernels and by the exact rule."""

    def __init__(self, x: np.ndarray, limit: float):
        self.x = np.ascontiguousarray(x, np.float32)
        storage = scaled(expanded(CODE, limit), GROUP)
        planes = encode(storage, self.x)
        self.values = decode(storage, planes)
        group, m, ratio = groups_of(self.x, planes["x.scale"])
        exponents = exact_exponents(ratio, limit)
        j, scale = exponents[group], m[group]
        codes = exact_codes(np.abs(self.x) / scale, j)
        read = ((NUMBERS[codes] / 448) ** (8 / j)).astype(np.float32)
        self.exact = np.copysign(scale * read, self.x)
        self.scale = scale
        self.flips = planes["x.exponent"].astype(np.int64) - exponents
        self.other_codes = (planes["x"] & 0x7F) != codes


def summary(parts: list[Compared]) -> dict:
    """Returns the differences over some tensors, and the errors relative to the groups' scales."""
    def join(of):
        return np.concatenate([of(part) for part in parts]).astype(np.float64)

    def error(of):
        off = join(lambda p: (of(p) - p.x.astype(np.float64)) / p.scale)
        return float(np.sqrt(np.mean(off**2)))

    flips = join(lambda p: p.flips)
    return {"groups": len(flips), "elements": len(join(lambda p: p.x)),
            "exponents": float((flips != 0).mean()),
            "largest_flip": int(np.abs(flips).max()),
            "codes": float(join(lambda p: p.other_codes).mean()),
            "error": error(lambda p: p.values), "exact_error": error(lambda p: p.exact)}


def synthetic(groups: int) -> dict[str, Compared]:
    """Stores moments of random gradients whose sizes vary among groups."""
    generator = np.random.default_rng(0)
    shape = (groups, GROUP)
    sizes = 10 ** generator.uniform(-8, 0, (groups, 1))
    spread = np.exp(generator.normal(size=shape) * generator.uniform(0, 2, (groups, 1)))
    first = generator.normal(size=shape) * spread * sizes
    second = (generator.normal(size=shape) * spread * sizes) ** 2
    return {"first": Compared(first.ravel(), FIRST), "second": Compared(second.ravel(), SECOND)}


def at_thresholds(limit: float) -> dict:
    """Compares groups whose M / least is at or next to a threshold between two exponents."""
    thresholds = np.float32([limit ** (8 / j) for j in range(9, 129)])
    near = (thresholds.view(np.int32)[:, None] + np.arange(-2, 3)).astype(np.int32).view(np.float32)
    least = (np.float32(1) / near.ravel()).astype(np.float32)
    x = np.ones((len(least), GROUP), np.float32)
    x[:, 1] = least
    return summary([Compared(x.ravel(), limit)])


def trained(quick: bool, steps: int) -> dict:
    """Stores the states of the demo's model after some steps in f32."""
    from demo_model import Trained, config
    model = Trained(config(quick, steps))
    moments = Moments(model.states("exp_avg"), model.states("exp_avg_sq"))
    first = [Compared(x, FIRST) for x in moments.first]
    second = [Compared(x, SECOND) for x in moments.second]

    def error(of):
        return moments.error(*(np.concatenate([of(p) for p in parts])
                               for parts in (first, second)))["mse"]

    return {"parameters": model.parameters, "first": summary(first),
            "second": summary(second), "update": {"error": error(lambda p: p.values),
                       "exact_error": error(lambda p: p.exact)}}


def measure(groups: int, quick: bool, steps: int) -> dict:
    parts = {name: summary([one]) for name, one in synthetic(groups).items()}
    return {"synthetic": parts, "thresholds": at_thresholds(FIRST),
            "trained": {"steps": steps, **trained(quick, steps)}}


def share(of: float, count: int, what: str) -> str:
    """Formats a fraction of a number of things."""
    return f"{100 * of:.2g} % of {count} {what}" if of else f"none of {count} {what}"


def sentence(result: dict) -> str:
    """Formats the figures for docs/Rationale.md."""
    drawn, near, real = result["synthetic"], result["thresholds"], result["trained"]
    parts = [*drawn.values(), real["first"], real["second"]]
    texts = []
    for what, count in (("exponents", "groups"), ("codes", "elements")):
        random, trained = ({k: sum(p[k] for p in of.values()) for k in ("groups", "elements")}
                           for of in (drawn, {k: real[k] for k in drawn}))
        mean = [np.average([p[what] for p in of], weights=[p[count] for p in of])
                for of in (parts[:2], parts[2:])]
        texts.append(f"{share(mean[0], random[count], 'random ' + count)} and "
                     f"{share(mean[1], trained[count], count + ' of trained moments')}")
    change = max(abs(p["error"] / p["exact_error"] - 1) for p in (*parts, real["update"]))
    return (f"The exponent differs in {texts[0]}. The code differs in {texts[1]}. Of groups put on "
            f"a threshold between two exponents, or within two units in the last place of it, "
            f"{100 * near['exponents']:.2g} % get the neighbour, and their error is "
            f"{100 * (near['error'] / near['exact_error'] - 1):.2g} % larger. Of the others no "
            f"error changes by more than {100 * change:.2g} % of itself: neither the root mean "
            f"square of a moment's, in units of the scale, nor that of m / (sqrt(v) + eps).")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the demo's small model")
    parser.add_argument("--steps", type=int, default=400, help="training steps")
    parser.add_argument("--groups", type=int, default=20000, help="random groups")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of the result (default: %(default)s)")
    options = parser.parse_args()
    result = measure(options.groups, options.quick, options.steps)
    save("exact_expansion", result, options.results)
    print(sentence(result))


if __name__ == "__main__":
    main()
