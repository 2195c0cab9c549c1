#===- papers_answers.py - Findings of the studies -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the opening sentences of the page on papers.
#
#===----------------------------------------------------------------------===#
"""Computes the sentences at the beginning of docs/Papers.md from the results."""

from collections import Counter
from collections.abc import Sequence

from checks import CHECKS, Cells, NotRun, healed_bound, outcome, trains
from studies import STUDIES

#: Sharpness has risen if it has grown by this factor.
RISEN = 1.5


def listed(names: Sequence[str]) -> str:
    """Joins names to a list within a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def count(results: dict[str, dict | None]) -> str:
    """Counts the orderings that hold."""
    def found(own: bool) -> Counter:
        return Counter(outcome(check, results[check.study]) for check in CHECKS.values()
                       if bool(check.source) is own)

    paper, own = found(False), found(True)
    left = f", {paper['not run']} have not been run yet" if paper["not run"] else ""
    missing = f", {own['not run']} not run yet" if own["not run"] else ""
    return (f"**Of the paper's {paper.total()} results, {paper['holds']} reproduce here and "
            f"{paper['fails']} do not{left}.** Such a small model survives most of what makes the "
            "paper's models diverge. Several of the paper's effects show here only with fewer bits. "
            f"Of {own.total()} results that are ours or users', {own['holds']} hold and "
            f"{own['fails']} do not{missing}.")


def mantissas(result: dict | None) -> str:
    """Describes what mantissa bits cost, and where sharpness rises."""
    cells = Cells(result)
    names = [name for name in STUDIES["sharpness"].variants if name != "E8M7"]
    costs = {name: cells.loss(name) - cells.loss("E8M7") for name in sorted(names, reverse=True)}
    by_name = listed([f"{cost:.3f} ({name})" for name, cost in costs.items()])
    bad = [name for name in costs if any(c["diverged"] for c in cells.of(name).values())]
    end = f"{listed(bad)} diverge{'' if len(bad) > 1 else 's'}" if bad else "no run diverges"
    return (f"**Mantissa bits of products.** After {STUDIES['sharpness'].full.steps:,} steps the "
            f"loss is above bf16's by {by_name} nats; {end}. {risen(cells, names)}")


def risen(cells: Cells, names: list[str]) -> str:
    """Describes under which formats sharpness has grown."""
    growth = {name: cells.sharpness(name) / cells.sharpness(name, at=0) for name in names}
    much = [f"{name} ({factor:.1f} times)" for name, factor in growth.items()
            if factor > RISEN]
    return (f"Sharpness rises by half or more only under {listed(much)}." if much else
            "Sharpness rises by half or more under none.")


def exponents(result: dict | None) -> str:
    """Describes which exponent sizes train."""
    cells = Cells(result)
    names = ("E7M7", "E5M7", "E4M7", "E3M7")
    well = [name for name in names if trains(cells, name)]
    bad = [name for name in names if name not in well]
    ends = [end for end in ("inside", "outside") if not trains(cells, f"E4M7, {end}")]
    return (f"**Exponent bits of products.** In {listed(well) or 'none of these formats'} the "
            f"model trains as well as in E8M7, but not in {listed(bad) or 'any other'}. E4M7 "
            f"fails because of the clamp from {listed(ends) or 'neither side'}; in the paper E7M7 "
            "fails because of the clamp from outside.")


def long(result: dict | None) -> str:
    """Describes where bf16 AdamW ends, and what heals it."""
    cells = Cells(result)
    exact, plain = cells.loss("fp32"), cells.loss("bf16")
    others = {name: cells.loss(name) for name in STUDIES["long"].variants
              if name not in ("fp32", "bf16")}
    bound = healed_bound(cells)
    healed = [f"`{name}` ({loss:.3f})" for name, loss in others.items() if loss <= bound]
    rest = [f"`{name}` ({loss:.3f})" for name, loss in others.items() if loss > bound]
    steps = STUDIES["long"].full.steps
    text = (f"**Long runs.** After {steps:,} steps with data that change, AdamW with bf16 weights "
            f"and states ends at a loss of {plain:.3f}, in f32 at {exact:.3f}: "
            f"{plain / exact:.2f} times as high. These strategies, two of them with activations "
            f"stored by the recipe `coat`, end where f32 does: {listed(healed) or 'none'}")
    return text + (f". These do not: {listed(rest)}." if rest else ".")


def answers(results: dict[str, dict | None]) -> str:
    """Returns the findings as a list, without studies that have not been run."""
    lines = []
    for find, study in ((long, "long"), (mantissas, "sharpness"), (exponents, "exponents")):
        try:
            lines.append(f"- {find(results[study])}")
        except NotRun:
            continue
    return "\n".join([*lines, *[""] * bool(lines), f"{count(results)}\n"])
