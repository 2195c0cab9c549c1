#===- checks.py - Whether the paper's orderings hold -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file checks the results against the orderings that the paper reports.
#
#===----------------------------------------------------------------------===#
"""Checks the orderings of "To FP8 and Back Again" against the results.

Exits with 1 if an ordering fails and reasons.py has no reason for it.
"""

import argparse
import dataclasses
import pathlib
import statistics
import sys
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import load  # noqa: E402
from landscape import minima  # noqa: E402
from reasons import REASONS  # noqa: E402
from runs import FOLDER, result_name  # noqa: E402
from studies import EPSILON, EPSILONS, STUDIES  # noqa: E402

#: A run trains if its loss exceeds that of the reference run by fewer nats than this.
TRAINS_NATS = 0.2
#: Sharpness values whose ratio is below this count as equal.
SAME_RATIO = 1.02
#: A strategy heals if its loss exceeds f32's by at most this fraction of bf16's excess.
HEALED_SHARE = 0.25


class NotRun(Exception):
    """Raised if cells that a check compares are missing."""


class Cells:
    """The cells of a result, by variant."""

    def __init__(self, result: dict | None):
        self._cells = (result or {"cells": {}})["cells"]

    def of(self, variant: str, lr: float | None = None) -> dict[str, dict]:
        """Returns the cells of a variant by seed, for the given learning rate or the only one."""
        by_lr = self._cells.get(variant, {})
        key = f"{lr:g}" if lr is not None else next(iter(by_lr), None)
        if not by_lr.get(key):
            raise NotRun(variant)
        return by_lr[key]

    def pairs(self, first: str, second: str, lr: float | None = None) -> list[tuple]:
        """Returns pairs of the two variants' cells with the same seed."""
        one, other = self.of(first, lr), self.of(second, lr)
        common = [(one[seed], other[seed]) for seed in one if seed in other]
        if not common:
            raise NotRun(f"{first} and {second}")
        return common

    def loss(self, variant: str) -> float:
        """Returns the mean of the final losses; infinite if one is not finite."""
        losses = [cell["train_loss"] for cell in self.of(variant).values()]
        return float("inf") if None in losses else statistics.fmean(losses)

    def sharpness(self, variant: str, epsilon: float = EPSILON, at: int = -1) -> float:
        """Returns the mean sharpness over the seeds at a checkpoint; infinite if logits are not
        finite."""
        found = [cell["checkpoints"][at]["sharpness"][f"{epsilon:g}"]
                 if cell["checkpoints"] else None for cell in self.of(variant).values()]
        return float("inf") if None in found else statistics.fmean(found)


@dataclasses.dataclass(frozen=True)
class Check:
    """An ordering that the paper reports, or one of our own."""

    study: str
    claim: str
    holds: Callable[[Cells], bool]
    #: The source if it is not the paper: "users", or "ours" for formats that the paper does not
    #: have.
    source: str = ""


def trains(cells: Cells, variant: str, reference: str = "E8M7") -> bool:
    """Returns whether a variant ends near a reference."""
    return cells.loss(variant) < cells.loss(reference) + TRAINS_NATS


def in_order(values: list[float]) -> bool:
    """Returns whether each value is clearly above the next."""
    return all(a > SAME_RATIO * b for a, b in zip(values, values[1:]))


def total(cells: Cells, first: str, second: str, key: str, lr: float | None = None):
    """Returns the sums of a count over the seeds that two variants have in common."""
    pairs = cells.pairs(first, second, lr)
    return tuple(sum(pair[side][key] for pair in pairs) for side in (0, 1))


def more(cells: Cells, first: str, second: str, key: str, lr: float | None = None) -> bool:
    one, other = total(cells, first, second, key, lr)
    return one > other


def sharper(epsilon: float) -> Callable[[Cells], bool]:
    return lambda cells: in_order([cells.sharpness(name, epsilon)
                                   for name in ("E8M3", "E8M5", "E8M7")])


def rises(cells: Cells) -> bool:
    """Returns whether E8M3's sharpness rises, and by more than E8M7's."""
    growth = [cells.sharpness(name) / cells.sharpness(name, at=0) for name in ("E8M3", "E8M7")]
    return growth[0] > SAME_RATIO and in_order(growth)


def falls_after_switch(variant: str) -> Callable[[Cells], bool]:
    """Returns a check that sharpness ends below its value at the switch."""
    return lambda cells: all(_at_switch(cell) > SAME_RATIO * _last(cell)
                             for cell in cells.of(variant).values())


def _at_switch(cell: dict) -> float:
    return next(point["sharpness"][f"{EPSILON:g}"] for point in cell["checkpoints"]
                if point["step"] == cell["switch"])


def _last(cell: dict) -> float:
    return cell["checkpoints"][-1]["sharpness"][f"{EPSILON:g}"]


def is_smooth(variant: str) -> Callable[[Cells], bool]:
    return lambda cells: all(minima(plane["losses"]) == 1 for cell in cells.of(variant).values()
                             for plane in cell["planes"])


def lm_head_order(cells: Cells) -> bool:
    losses = [cells.loss(name) for name in ("FP8, LM head too", "FP8, LM head in bf16", "bf16")]
    return losses[0] > losses[1] > losses[2]


def plateaus(cells: Cells) -> bool:
    """Returns whether bf16's loss is clearly above f32's."""
    return cells.loss("bf16") > 1.02 * cells.loss("fp32")


def healed_bound(cells: Cells) -> float:
    """Returns the largest loss of a strategy that counts as ending where f32 does."""
    exact, plain = cells.loss("fp32"), cells.loss("bf16")
    return max(exact + HEALED_SHARE * max(0.0, plain - exact), 1.01 * exact)


def heals(*strategies: str) -> Callable[[Cells], bool]:
    return lambda cells: max(map(cells.loss, strategies)) <= healed_bound(cells)


CHECKS = {
    "exponents-fail": Check(
        "exponents", "E7M7 does not train where E8M7 does.",
        lambda cells: not trains(cells, "E7M7")),
    "exponents-inside": Check(
        "exponents", "Clamped only inside, E7M7 trains.",
        lambda cells: trains(cells, "E7M7, inside")),
    "exponents-outside": Check(
        "exponents", "Clamped only outside, E7M7 does not train.",
        lambda cells: not trains(cells, "E7M7, outside")),
    "exponents-head": Check(
        "exponents", "With the LM head unmasked E7M7 trains.",
        lambda cells: trains(cells, "E7M7, LM head unmasked")),
    "sharpness-order": Check(
        "sharpness", "At the end E8M3 is sharper than E8M5, and E8M5 than E8M7 (table 1).",
        sharper(EPSILON)),
    "sharpness-rises": Check(
        "sharpness", "Sharpness rises by a larger factor under E8M3 than under E8M7 "
        "(figure 7, table 1).", rises),
    "sharpness-epsilon": Check(
        "sharpness", "The order is the same at all five epsilons (table 2).",
        lambda cells: all([sharper(epsilon)(cells) for epsilon in EPSILONS])),
    "sharpness-lower": Check(
        "sharpness", "At the end E8M0 is sharper than E8M1, and E8M1 than E8M7; E8M0 diverges.",
        lambda cells: in_order([cells.sharpness(name) for name in ("E8M0", "E8M1", "E8M7")])
        and any(cell["diverged"] for cell in cells.of("E8M0").values()), "ours"),
    "sharpness-diverges": Check(
        "sharpness", "E8M3 and E8M4 diverge, E8M7 does not (figures 7 and 8).",
        lambda cells: [any(cell["diverged"] for cell in cells.of(name).values())
                       for name in ("E8M3", "E8M4", "E8M7")] == [True, True, False]),
    "recovery-falls": Check(
        "recovery", "After the switch from E8M3 to bf16 sharpness falls.",
        falls_after_switch("E8M3, then bf16")),
    "recovery-lower": Check(
        "recovery", "After the switch from E8M0 to bf16 sharpness falls.",
        falls_after_switch("E8M0, then bf16"), "ours"),
    "spikes-more": Check(
        "spikes", "E8M5 has more loss spikes than bf16 at ten times the learning rate.",
        lambda cells: more(cells, "E8M5", "bf16", "spikes", 4e-2)),
    "spikes-lower": Check(
        "spikes", "E8M1 has more loss spikes than bf16 at ten times the learning rate.",
        lambda cells: more(cells, "E8M1", "bf16", "spikes", 4e-2), "ours"),
    "spikes-none-diverge": Check(
        "spikes", "No run of E8M5 and bf16 diverges.",
        lambda cells: not sum(sum(total(cells, "E8M5", "bf16", "diverged", lr))
                              for lr in STUDIES["spikes"].full.lrs)),
    "seeds-diverge": Check(
        "seeds", "More seeds diverge in bf16 (18 of 188) than in TF32 (0 of 70).",
        lambda cells: more(cells, "bf16", "TF32", "diverged")),
    "landscape-smooth": Check(
        "landscape", "E8M3's landscape looks smooth at both checkpoints, which here means that it "
        "has one minimum.", is_smooth("E8M3")),
    "landscape-lower": Check(
        "landscape", "E8M0's landscape looks smooth at both checkpoints, while the run diverges.",
        is_smooth("E8M0"), "ours"),
    "landscape-unmasked": Check(
        "landscape", "E8M0's landscape looks smooth at both checkpoints if its losses are computed "
        "in f32.",
        is_smooth("E8M0, plane in f32"), "ours"),
    "fp8-order": Check(
        "fp8-lm-head", "FP8 products with the LM head end above those without it, and these "
        "above bf16.", lm_head_order),
    "long-plateau": Check(
        "long", "bf16 AdamW ends above f32.", plateaus, "users"),
    "long-heals": Check(
        "long", "`bf16-dither`, `remainder` and `collage-plus` end where f32 does.",
        heals("bf16-dither", "remainder", "collage-plus"), "ours"),
    "long-recommended": Check(
        "long", "The recommended `remainder`, `flash-f16` and `dither-softsign-root` end where f32 "
        "does, also with activations stored as the recipe `coat` says.",
        heals("remainder", "flash-f16", "dither-softsign-root", "fp32, coat", "flash-f16, coat"),
        "ours"),
}


def outcome(check: Check, result: dict | None) -> str:
    """Returns "holds", "fails" or "not run"."""
    try:
        return "holds" if check.holds(Cells(result)) else "fails"
    except NotRun:
        return "not run"


def outcomes(folder: pathlib.Path) -> dict[str, str]:
    """Returns the outcome of each check for the results in a folder."""
    results = {name: load(result_name(name, quick=False), folder) for name in STUDIES}
    return {name: outcome(check, results[check.study]) for name, check in CHECKS.items()}


def unexplained(found: dict[str, str], reasons: dict[str, str] = REASONS) -> list[str]:
    """Returns the checks that fail without a recorded reason."""
    return [name for name, what in found.items() if what == "fails" and name not in reasons]


def main() -> None:
    """Prints each check and its outcome."""
    parser = argparse.ArgumentParser(prog="papers.sh --check", description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=FOLDER)
    folder = parser.parse_args().results
    found = outcomes(folder)
    for name, what in found.items():
        known = ", a reason is on record" if what == "fails" and name in REASONS else ""
        print(f"{name}: {what}{known}. {CHECKS[name].claim}")
    if missing := unexplained(found):
        sys.exit(f"error: the paper's order fails in {', '.join(missing)}; find out why, and put "
                 "the reason into benchmarks/precision/reasons.py")


if __name__ == "__main__":
    main()
