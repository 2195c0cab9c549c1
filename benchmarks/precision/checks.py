#===- checks.py - Whether the papers' results reproduce --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file checks the results against what the papers report.
#
#===----------------------------------------------------------------------===#
"""Checks what papers report against the results.

A result reproduces if every difference that it claims is more than two standard errors from its
bound, over at least three seeds. It holds trivially if nothing could have failed. Exits with 1 if a
result does not reproduce and reasons.py has no reason for it.
"""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import load  # noqa: E402
from landscape import minima  # noqa: E402
from margins import (Cells, Margin, NotRun, TooFew, difference, diverged, growth,  # noqa: E402
                     late, loss, margin, ordered, percent)
from measures import EPSILONS  # noqa: E402
from rates import logits, sensitivity, spikes_by_rate  # noqa: E402
from reasons import REASONS  # noqa: E402
from runs import FOLDER, result_name  # noqa: E402
from studies import STUDIES, TO_FP8  # noqa: E402

#: A run trains if its loss exceeds that of the reference run by fewer nats than this.
TRAINS_NATS = 0.2
#: A strategy heals if its loss exceeds f32's by at most this fraction of bf16's excess, or by this
#: fraction of f32's loss.
HEALED_SHARE, HEALED_LOSS = 0.25, 0.01
#: bf16 has a plateau if its loss exceeds f32's by more than this fraction of it.
PLATEAU = 0.02

Margins = Callable[[Cells], list[Margin]]


@dataclasses.dataclass(frozen=True)
class Check:
    """A result that a paper reports, or one of our own."""

    study: str
    claim: str
    #: Returns the margins of a result, all of which must hold.
    margins: Margins
    #: The source if it is not a paper: "users" or "ours", and "reading" for a paper's statement
    #: under another reading of it, which does not count as a result of the paper.
    source: str = ""
    #: Returns whether nothing could have failed.
    trivial: Callable[[Cells], bool] = lambda cells: False
    paper: str = TO_FP8
    #: The place in the paper; empty for that of the study.
    at: str = ""

    @property
    def place(self) -> str:
        return self.at or STUDIES[self.study].place


#===------------------------------------------------------------------------===#
# Margins of checks
#===------------------------------------------------------------------------===#


def trains(variant: str, reference: str = "E8M7") -> Margins:
    return lambda cells: [difference(cells, variant, reference, loss, bound=TRAINS_NATS,
                                     below=True)]


def fails_to_train(variant: str, reference: str = "E8M7") -> Margins:
    return lambda cells: [difference(cells, variant, reference, loss, bound=TRAINS_NATS)]


def holds_all(margins: Margins) -> Callable[[Cells], bool]:
    return lambda cells: all(each.holds for each in margins(cells))


def is_same(variant: str, reference: str = "E8M7") -> Callable[[Cells], bool]:
    """Returns whether a variant's losses are the reference's, digit for digit."""
    return lambda cells: all(one["curve"] == other["curve"]
                             for one, other in cells.pairs(variant, reference))


def in_order(figure, *names: str) -> Margins:
    return lambda cells: ordered(cells, names, figure)


def above(figure, first: str, second: str, lr: float | None = None) -> Margins:
    return lambda cells: [difference(cells, first, second, figure, lr)]


def diverge(names: tuple[str, ...], reference: str) -> Margins:
    """Returns margins by which more runs of each variant diverge than of the reference."""
    return lambda cells: [difference(cells, name, reference, diverged) for name in names]


def falls_after(switched: str, stays: str) -> Margins:
    """Returns the margins by which sharpness falls after a switch, and ends below that without
    it."""
    def margins(cells: Cells) -> list[Margin]:
        fall = margin(f"{switched}: at the switch - later", (
            percent(cell["checkpoints"][0]) - late(cell) for cell in cells.of(switched).values()))
        return [fall, difference(cells, stays, switched, late)]
    return margins


def at_all_epsilons(*names: str) -> Margins:
    def margins(cells: Cells) -> list[Margin]:
        return [dataclasses.replace(found, what=f"{epsilon:g}: {found.what}")
                for epsilon in EPSILONS
                for found in ordered(cells, names, lambda cell: late(cell, epsilon))]
    return margins


def none_diverges(names: tuple[str, ...], lrs: tuple[float, ...]) -> Margins:
    def margins(cells: Cells) -> list[Margin]:
        return [margin(f"{name}, lr {lr:g}: share", map(diverged, cells.of(name, lr).values()),
                       bound=0.05, below=True) for name in names for lr in lrs]
    return margins


def no_spikes(names: tuple[str, ...], lrs: tuple[float, ...]) -> Callable[[Cells], bool]:
    """Returns whether no run has a single spike."""
    return lambda cells: not any(cell["spikes"] for name in names for lr in lrs
                                 for cell in cells.of(name, lr).values())


def is_smooth(variant: str) -> Margins:
    """Returns the margin by which most seeds have one minimum at all checkpoints."""
    return lambda cells: [margin("share of smooth seeds", (
        float(all(minima(plane["losses"]) == 1 for plane in cell["planes"]))
        for cell in cells.of(variant).values()), bound=0.5)]


def none_has_diverged(variant: str) -> Callable[[Cells], bool]:
    return lambda cells: not any(map(diverged, cells.of(variant).values()))


def spike_count(cell: dict) -> float:
    return float(cell["spikes"])


def plateaus(cells: Cells) -> list[Margin]:
    return [margin("bf16 - fp32, as a share of the loss", (
        loss(plain) / loss(exact) - 1 for plain, exact in cells.pairs("bf16", "fp32")),
        bound=PLATEAU)]


def healed_bound(exact: float, plain: float) -> float:
    """Returns the largest excess over f32's loss with which a strategy ends where f32 does."""
    return max(HEALED_SHARE * max(0.0, plain - exact), HEALED_LOSS * exact)


def heals(*strategies: str) -> Margins:
    """Returns the margins by which strategies' excesses are within the bound of their seed."""
    def slack(cells: Cells, name: str) -> Margin:
        bounds = {seed: (loss(exact), healed_bound(loss(exact), loss(plain)))
                  for seed, exact in cells.of("fp32").items()
                  if (plain := cells.of("bf16").get(seed))}
        return margin(f"{name}: bound - excess", [
            bounds[seed][1] - (loss(cell) - bounds[seed][0])
            for seed, cell in cells.of(name).items() if seed in bounds])
    return lambda cells: [slack(cells, name) for name in strategies]


def by_rate(figure, *names: str) -> Margins:
    """Returns the margins by which a figure over all learning rates is above the next's."""
    def margins(cells: Cells) -> list[Margin]:
        found = [figure(cells, name) for name in names]
        return [margin(f"{a} - {b}", [one[seed] - other[seed] for seed in one if seed in other])
                for a, b, one, other in zip(names, names[1:], found, found[1:])]
    return margins


#===------------------------------------------------------------------------===#
# The list
#===------------------------------------------------------------------------===#


def exponent_checks(name: str, reading: str, key: str, source: str = "") -> dict[str, Check]:
    """Returns the four statements of figure 10 under one reading of its formats."""
    fails, place = fails_to_train(name), "figure 10"
    inside, outside, head = (f"{name}, {end}" for end in ("inside", "outside",
                                                          "LM head unmasked"))
    return {
        f"{key}-fail": Check(
            "exponents", f"{reading}, E7M7 does not train where E8M7 does.", fails, source,
            at=place),
        f"{key}-inside": Check(
            "exponents", f"{reading}, E7M7 clamped only inside trains.", trains(inside), source,
            is_same(inside), at=place),
        f"{key}-outside": Check(
            "exponents", f"{reading}, E7M7 clamped only outside does not train.",
            fails_to_train(outside), source, at=place),
        f"{key}-head": Check(
            "exponents", f"{reading}, E7M7 with the LM head unmasked trains.", trains(head),
            source, lambda cells: not holds_all(fails)(cells), at=place),
    }


def departure(name: str, strategy: str, claim: str) -> Check:
    """Returns the check that a departure of a strategy from its paper lowers the loss."""
    return Check("published", claim, above(loss, name, strategy), "ours")


#: Departures of strategies from their papers.
DEPARTURES = {
    "published-coat": departure(
        "coat-published", "coat", "COAT as published ends above `coat`."),
    "published-coat-nearest": departure(
        "coat-nearest", "coat", "With moments rounded to nearest, `coat` ends at a higher loss."),
    "published-coat-scales": departure(
        "coat-bf16-scales", "coat", "With scales in bf16, `coat` ends at a higher loss."),
    "published-coat-range": departure(
        "coat-one-range", "coat", "With a second moment stretched down to the subnormal numbers, "
        "`coat` ends at a higher loss."),
    "published-fp8-lm": departure(
        "fp8-lm-published", "fp8-lm", "FP8-LM's level O2 as published ends above `fp8-lm`."),
    "published-fp8-lm-moments": departure(
        "fp8-lm-nearest-moments", "fp8-lm",
        "With moments rounded to nearest, `fp8-lm` ends at a higher loss."),
    "published-adam8bit": departure(
        "adam8bit-published", "adam8bit", "8-bit Adam as in bitsandbytes ends above `adam8bit`."),
    "published-adam8bit-moments": departure(
        "adam8bit-nearest-moments", "adam8bit",
        "With moments rounded to nearest, `adam8bit` ends at a higher loss."),
}
PAIR = ("E8M5", "bf16")
CHECKS = {
    **exponent_checks("E7M7, f32's bias", "With f32's bias", "exponents-kept"),
    **exponent_checks("E7M7", "Centred", "exponents", "reading"),
    "sharpness-ends": Check(
        "sharpness", "E8M3 is sharper than E8M7.", above(late, "E8M3", "E8M7"), at="table 1"),
    "sharpness-order": Check(
        "sharpness", "E8M3 is sharper than E8M5, and E8M5 than E8M7.",
        in_order(late, "E8M3", "E8M5", "E8M7"), at="table 1"),
    "sharpness-all": Check(
        "sharpness", "Each format from E8M3 to E8M7 is sharper than the next.",
        in_order(late, "E8M3", "E8M4", "E8M5", "E8M6", "E8M7"), at="table 1"),
    "sharpness-rises": Check(
        "sharpness", "Sharpness grows by a larger factor under E8M3 than under E8M7.",
        above(growth, "E8M3", "E8M7"), at="figure 7, table 1"),
    "sharpness-epsilon": Check(
        "sharpness", "E8M3, E8M5 and E8M7 have the same order at all five epsilons.",
        at_all_epsilons("E8M3", "E8M5", "E8M7"), at="table 2"),
    "sharpness-cost": Check(
        "sharpness", "E8M3 ends at a higher loss than E8M7.", above(loss, "E8M3", "E8M7"),
        at="figure 8"),
    "sharpness-loss": Check(
        "sharpness", "E8M3 ends at a higher loss than E8M5, and E8M5 than E8M7.",
        in_order(loss, "E8M3", "E8M5", "E8M7"), at="figure 8"),
    "divergence-order": Check(
        "divergence", "E8M3 diverges, E8M7 does not.", diverge(("E8M3",), "E8M7"),
        at="figures 7 and 8"),
    "divergence-loss": Check(
        "divergence", "After 60,000 steps E8M3 ends at a higher loss than E8M7.",
        above(loss, "E8M3", "E8M7"), at="figure 8"),
    "recovery-falls": Check(
        "recovery", "After a switch from E8M3 to bf16 sharpness falls, below that of E8M3.",
        falls_after("E8M3, then bf16", "E8M3")),
    "recovery-loss": Check(
        "recovery", "After a switch from E8M3 to bf16 the loss is lower than under E8M3.",
        above(loss, "E8M3", "E8M3, then bf16"), "ours"),
    "remedies-blocks": Check(
        "remedies", "With the first two blocks in E8M7, E8M3 ends at a lower loss.",
        above(loss, "E8M3", "E8M3, first two blocks in E8M7"), "ours"),
    "remedies-raised": Check(
        "remedies", "Raised to E8M7 by sharpness, E8M3 ends at a lower loss.",
        above(loss, "E8M3", "E8M3, raised by sharpness"), "ours"),
    "few-bits-order": Check(
        "few-bits", "E8M0 is sharper than E8M1, and E8M1 than E8M7.",
        in_order(late, "E8M0", "E8M1", "E8M7"), "ours"),
    "few-bits-diverges": Check(
        "few-bits", "E8M0 diverges, E8M7 does not.", diverge(("E8M0",), "E8M7"), "ours"),
    "few-bits-recovers": Check(
        "few-bits", "Switched to bf16 after 300 steps, E8M0 ends less sharp and at a lower loss.",
        lambda cells: [difference(cells, "E8M0", "E8M0, then bf16", figure)
                       for figure in (late, loss)], "ours"),
    "rates-sensitivity": Check(
        "rates", "E8M3 is more sensitive to the learning rate than E8M7.",
        by_rate(sensitivity, "E8M3", "E8M7"), "ours"),
    "rates-logits": Check(
        "rates", "Attention logits grow larger under E8M3 than under E8M7.",
        by_rate(logits, "E8M3", "E8M7"), "ours"),
    "rates-spikes": Check(
        "rates", "E8M3 has more loss spikes than E8M7.",
        by_rate(spikes_by_rate, "E8M3", "E8M7"), "ours"),
    "size-loss": Check(
        "size", "A model 25 times as large ends at a higher loss under E8M3 than under E8M7.",
        above(loss, "E8M3", "E8M7"), "ours"),
    "size-sharpness": Check(
        "size", "A model 25 times as large is sharper under E8M3 than under E8M7.",
        above(late, "E8M3", "E8M7"), "ours"),
    "spikes-more": Check(
        "spikes", "E8M5 has more loss spikes than bf16 at ten times the learning rate.",
        above(spike_count, "E8M5", "bf16", 4e-2)),
    "spikes-lower": Check(
        "spikes", "E8M1 has more loss spikes than bf16 at ten times the learning rate.",
        above(spike_count, "E8M1", "bf16", 4e-2), "ours"),
    "spikes-lower-diverges": Check(
        "spikes", "At ten times the learning rate more runs diverge in E8M1 than in bf16.",
        above(diverged, "E8M1", "bf16", 4e-2), "ours"),
    "spikes-none-diverge": Check(
        "spikes", "No run of E8M5 and bf16 diverges.",
        none_diverges(PAIR, STUDIES["spikes"].full.lrs),
        trivial=no_spikes(PAIR, STUDIES["spikes"].full.lrs)),
    "seeds-diverge": Check(
        "seeds", "More seeds diverge in bf16 (18 of 188) than in TF32 (0 of 70).",
        above(diverged, "bf16", "TF32")),
    "landscape-smooth": Check(
        "landscape", "E8M3's landscape looks smooth at both checkpoints, which here means that it "
        "has one minimum.", is_smooth("E8M3"), trivial=none_has_diverged("E8M3")),
    "landscape-lower": Check(
        "landscape", "E8M0's landscape looks smooth at both checkpoints, while the run diverges.",
        is_smooth("E8M0"), "ours"),
    "landscape-unmasked": Check(
        "landscape", "E8M0's landscape looks smooth at both checkpoints if its losses are computed "
        "in f32.", is_smooth("E8M0, plane in f32"), "ours"),
    "fp8-order": Check(
        "fp8-lm-head", "FP8 products with the LM head end above those without it, and these "
        "above bf16.", in_order(loss, "FP8, LM head too", "FP8, LM head in bf16", "bf16")),
    "long-plateau": Check("long", "bf16 AdamW ends above f32.", plateaus, "users"),
    "long-heals": Check(
        "long", "`bf16-dither`, `remainder` and `collage-plus` end where f32 does.",
        heals("bf16-dither", "remainder", "collage-plus"), "ours"),
    "long-recommended": Check(
        "long", "The recommended `remainder`, `flash-f16` and `dither-softsign-root` end where f32 "
        "does, also with activations stored as the recipe `coat` says.",
        heals("remainder", "flash-f16", "dither-softsign-root", "fp32, coat", "flash-f16, coat"),
        "ours"),
    "long-wide-plateau": Check(
        "long-wide", "bf16 AdamW ends above f32 in a model 40 times as large.", plateaus, "users"),
    "long-wide-heals": Check(
        "long-wide", "`flash-f16` ends where f32 does in a model 40 times as large.",
        heals("flash-f16"), "ours"),
    "long-wide-others": Check(
        "long-wide", "`bf16-dither` and `dither-softsign-root` end where f32 does in a model 40 "
        "times as large.", heals("bf16-dither", "dither-softsign-root"), "ours"),
    "fp8-collage": Check(
        "fp8-collage", "Collage-plus in FP8 ends at a lower loss if it is computed in f32 than in "
        "E4M3, even without limits of exponents.",
        above(loss, "plus, in E4M3 without limits", "plus, in f32"), "ours"),
    "fp8-collage-ends": Check(
        "fp8-collage", "Collage in FP8, computed in f32, ends less than 0.02 nats above f32 master "
        "weights.",
        lambda cells: [difference(cells, name, "D", loss, bound=0.02, below=True)
                       for name in ("light, in f32", "plus, in f32")], "ours"),
    **DEPARTURES,
}


def outcome(check: Check, result: dict | None) -> str:
    """Returns "holds", "holds trivially", "fails", "undecided" for too few seeds, or "not run"."""
    cells = Cells(result)
    try:
        if not holds_all(check.margins)(cells):
            return "fails"
        return "holds trivially" if check.trivial(cells) else "holds"
    except NotRun:
        return "not run"
    except TooFew:
        return "undecided"


def margins_of(check: Check, result: dict | None) -> list[Margin]:
    """Returns the margins of a check, none if they cannot be computed."""
    try:
        return check.margins(Cells(result))
    except (NotRun, TooFew):
        return []


def outcomes(folder: pathlib.Path) -> dict[str, str]:
    """Returns the outcome of each check for the results in a folder."""
    results = {name: load(result_name(name, quick=False), folder) for name in STUDIES}
    return {name: outcome(check, results[check.study]) for name, check in CHECKS.items()}


def unexplained(found: dict[str, str], reasons: dict[str, str] = REASONS) -> list[str]:
    """Returns the checks that fail without a recorded reason."""
    return [name for name, what in found.items() if what == "fails" and name not in reasons]


def main() -> None:
    """Prints each check, its outcome and its margins."""
    parser = argparse.ArgumentParser(prog="papers.sh --check", description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=FOLDER)
    folder = parser.parse_args().results
    found = outcomes(folder)
    for name, what in found.items():
        known = ", a reason is on record" if what == "fails" and name in REASONS else ""
        check = CHECKS[name]
        result = load(result_name(check.study, quick=False), folder)
        print(f"{name}: {what}{known}. {check.claim}",
              *(f"  {each}" for each in margins_of(check, result)), sep="\n")
    if missing := unexplained(found):
        sys.exit(f"error: the paper's order fails in {', '.join(missing)}; find out why, and put "
                 "the reason into benchmarks/precision/reasons.py")


if __name__ == "__main__":
    main()
