#===- papers_answers.py - Findings of the studies -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the opening sentences of the page on papers.
#
#===----------------------------------------------------------------------===#
"""Computes the sentences at the beginning of docs/Papers.md from the results."""

import statistics
from collections import Counter
from collections.abc import Sequence

from checks import CHECKS, TRAINS_NATS, healed_bound, outcome
from margins import Cells, NotRun, late, loss
from other_papers import counts, exact_count
from paper_rows import Results
from studies import BATCHES, BETAS, STUDIES, betas_label


def listed(names: Sequence[str]) -> str:
    """Joins names to a list within a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def own_verdicts(results: dict[str, dict | None]) -> Counter:
    """Counts the outcomes of the results that are ours or users'."""
    return Counter(outcome(check, results[check.study]) for check in CHECKS.values()
                   if check.source in ("ours", "users"))


def several(count: int, one: str, many: str) -> str:
    """Formats a count with the verb that fits it."""
    return f"{count} {one if count == 1 else many}"


def count_of_papers(studies: dict[str, dict | None], others: Results) -> str:
    """Counts the verdicts on the results of all papers."""
    by_paper = counts(studies, others)
    every = sum(by_paper.values(), Counter())
    names = listed([f"{each.total()} of {name}" for name, each in by_paper.items()])
    rest = listed([f"{each} {words}" for each, words in (
        (every["undecided"], "undecided, with fewer than three seeds"),
        (every["not run yet"], "not run yet"), (every["needs a GPU"], "in need of a GPU"),
        (every["needs a large model"], "in need of a large model")) if each])
    return (f"**Of {every.total()} results of four papers, "
            f"{several(every['reproduces'], 'reproduces', 'reproduce')} here "
            f"({exact_count(others)} exactly, the others by more than two standard errors), "
            f"{several(every['holds trivially'], 'holds trivially', 'hold trivially')} and "
            f"{several(every['does not reproduce'], 'does not', 'do not')}**; the others are "
            f"{rest}. They are {names}.")


def count_of_ours(studies: dict[str, dict | None]) -> str:
    """Counts the results that are ours or users'."""
    own = own_verdicts(studies)
    rest = "".join(f", {several(own[what], *verbs)}" for what, verbs in (
        ("undecided", ("has too few seeds", "have too few seeds")),
        ("not run", ("has not been run yet", "have not been run yet"))) if own[what])
    return (f"Of {own.total()} results that are ours or users', "
            f"{several(own['holds'], 'holds', 'hold')}, "
            f"{several(own['holds trivially'], 'holds trivially', 'hold trivially')} and "
            f"{several(own['fails'], 'does not', 'do not')}{rest}.")


def mantissas(results: dict) -> str:
    """Describes what mantissa bits cost, in loss and in sharpness."""
    cells = Cells(results["sharpness"])
    names = [name for name in sorted(STUDIES["sharpness"].variants, reverse=True)
             if name in results["sharpness"]["cells"]] if results["sharpness"] else []
    base = cells.mean("E8M7", loss)
    costs = listed([f"{cells.mean(name, loss) - base:.3f} ({name})" for name in names
                    if name != "E8M7"])
    values = listed([f"{cells.mean(name, late):.3f} ({name})" for name in names])
    return (f"**Mantissa bits:** after {STUDIES['sharpness'].full.steps:,} steps at a constant "
            f"rate the loss is above that of E8M7 by {costs} nats, and sharpness is {values} "
            "percent.")


def exponents(results: dict) -> str:
    """Describes which exponents train."""
    cells = Cells(results["exponents"])
    base = cells.mean("E8M7", loss)
    first = "E7M7, f32's bias"
    text = [f"{cells.mean(name, loss) - base:.3f} {words}" for name, words in (
        (first, "nats above E8M7"), (f"{first}, LM head unmasked", "with the LM head unmasked"),
        ("E7M7", "with a bias of its own"))]
    well = [name for name in ("E7M7", "E5M7", "E4M7", "E3M7")
            if cells.mean(name, loss) < base + TRAINS_NATS]
    return (f"**Exponent bits:** E7M7 with f32's bias, which holds magnitudes below 2, ends "
            f"{text[0]}, {text[1]} and {text[2]}; of the formats with a bias of their own "
            f"{listed(well) or 'none'} {'train' if len(well) > 1 else 'trains'} as E8M7 does, of "
            "E7M7 to E3M7.")


def recovery(results: dict) -> str:
    """Describes what a switch to more bits repairs."""
    cells = Cells(results["recovery"])
    stays, then = "E8M3", "E8M3, then bf16"
    sharp = [f"{cells.mean(name, late):.3f}" for name in (stays, then)]
    losses = [f"{cells.mean(name, loss):.3f}" for name in (stays, then)]
    scale = STUDIES["recovery"].full
    return (f"**Recovery:** {scale.steps:,} steps after a switch from E8M3 to bf16 at step "
            f"{scale.before:,} sharpness is {sharp[1]} percent and the loss {losses[1]}, against "
            f"{sharp[0]} and {losses[0]} without the switch.")


def long(results: dict) -> str:
    """Describes where bf16 AdamW ends, and what heals it."""
    cells = Cells(results["long"])
    exact, plain = cells.mean("fp32", loss), cells.mean("bf16", loss)
    others = {name: cells.mean(name, loss) for name in STUDIES["long"].variants
              if name not in ("fp32", "bf16")}
    bound = exact + healed_bound(exact, plain)
    healed = [f"`{name}` ({value:.3f})" for name, value in others.items() if value <= bound]
    rest = [f"`{name}` ({value:.3f})" for name, value in others.items() if value > bound]
    text = (f"**Long runs:** after {STUDIES['long'].full.steps:,} steps with data that change, "
            f"AdamW with bf16 weights and states ends at a loss of {plain:.3f}, in f32 at "
            f"{exact:.3f}, where these strategies end too, two of them with activations stored by "
            f"the recipe `coat`: {listed(healed) or 'none'}")
    return text + (f"; these do not: {listed(rest)}." if rest else ".")


def long_wide(results: dict) -> str:
    """Describes how far strategies end from f32 in the larger of the long studies."""
    result = results["long-wide"]
    cells, done = Cells(result), result["cells"] if result else {}
    costs = listed([f"{excess(cells, name, 'fp32'):+.3f} (`{name}`)"
                    for name in STUDIES["long-wide"].variants if name in done and name != "fp32"])
    return ("**Long runs of a model of 0.8 million parameters:** after "
            f"{STUDIES['long-wide'].full.steps:,} steps with the same data f32 ends at a loss of "
            f"{cells.mean('fp32', loss):.3f}, and these end that many nats above it: {costs}.")


def excess(cells: Cells, name: str, reference: str) -> float:
    """Returns the mean difference of a variant's final loss from a reference's in nats."""
    return statistics.fmean(loss(one) - loss(other) for one, other in cells.pairs(name, reference))


def collage(results: dict) -> str:
    """Describes what beta2 changes for Collage's options."""
    cells = Cells(results["collage"])
    parts = [f"{beta2:g}: " + ", ".join(
        f"{option} {excess(cells, *(betas_label(each, beta2, batch) for each in (option, 'D'))):+.3f}"
        for option in ("A", "B", "C")) for beta2 in BETAS for batch in BATCHES[:1]]
    return (f"**Collage:** by beta2, the options end these nats above f32 master weights: "
            f"{'; '.join(parts)}.")


def fp8_lm(results: dict) -> str:
    """Describes what FP8-LM's levels cost."""
    cells = Cells(results["fp8-lm"])
    names = ("O1", "O2", "O3, two ranks", "FP8 weight (#3)")
    costs = listed([f"{excess(cells, name, 'bf16 (#1)'):+.3f} ({name})" for name in names])
    return (f"**FP8-LM:** after {STUDIES['fp8-lm'].full.steps:,} steps its levels end these nats "
            f"above bf16: {costs}.")


def coat(results: dict) -> str:
    """Describes what the whole of COAT costs."""
    cells = Cells(results["coat"])
    costs = listed([f"{excess(cells, name, 'bf16'):+.3f} ({words})" for name, words in (
        ("COAT", "as the library has it"), ("COAT, as published", "as published"),
        ("COAT, not expanded", "without expansion"))])
    return (f"**COAT:** after {STUDIES['coat'].full.steps:,} steps all of COAT at once ends these "
            f"nats above bf16: {costs}.")


def departures(results: dict) -> str:
    """Describes which departures of strategies from papers lower the loss."""
    cells = Cells(results["published"])
    pairs = (("coat-published", "coat"), ("fp8-lm-published", "fp8-lm"),
             ("adam8bit-published", "adam8bit"))
    costs = listed([f"{excess(cells, name, ours):+.3f} (`{name}`)" for name, ours in pairs])
    return ("**As published**, optimizers end these nats above the library's forms, at a beta2 of "
            f"0.999 and with data that change: {costs}.")


def answers(results: dict[str, dict | None], others: Results) -> str:
    """Returns the findings as a list, without studies that have not been run."""
    lines = [f"- {count_of_papers(results, others)} {count_of_ours(results)}"]
    for find in (mantissas, exponents, recovery, long, long_wide, collage, fp8_lm, coat, departures):
        try:
            lines.append(f"- {find(results)}")
        except NotRun:
            continue
    return "\n".join([*lines, ""])
