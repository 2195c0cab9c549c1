#===- other_papers.py - Verdicts on Collage, FP8-LM and COAT ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the tables of docs/Papers.md for Collage, FP8-LM and COAT, and counts the verdicts
# on all four papers.
#
#===----------------------------------------------------------------------===#
"""Formats the rows of Collage, FP8-LM and COAT."""

from collections import Counter

from checks import CHECKS, TO_FP8, outcome
from coat_rows import COAT
from collage_rows import COLLAGE
from common import table
from fp8_lm_rows import FP8_LM
from paper_rows import HEADER, UNDECIDED, Paper, Results, cells_of

PAPERS = (COLLAGE, FP8_LM, COAT)

#: The columns of the table of counts, and the outcomes that each counts.
COUNTED = {
    "reproduces": ("holds",), "holds trivially": ("trivial", "holds trivially"),
    "does not reproduce": ("fails",), "undecided": (*UNDECIDED, "undecided"),
    "not run yet": ("not run",), "needs a GPU": ("gpu",), "needs a large model": ("large",)}

LEGEND = """The tables of Collage, FP8-LM and COAT have a row for each result, whose numbers are those of other pages, or of the studies below. Besides the verdicts
above there are these. *Exact* numbers are counts or follow from formulas, so that they have no error. The others *need a GPU* or *a large model*, or have *not* been *run yet*,
although a CPU could run them. If a margin is stated at several learning rates, it is the narrowest.
"""


def outcomes_of(paper: Paper, results: Results) -> Counter:
    """Counts the outcomes of a paper's rows."""
    return Counter(row.found(results).outcome for row in paper.rows)


def outcomes_of_checks(studies: dict[str, dict | None]) -> Counter:
    """Counts the outcomes of the checks of results of papers, as distinct from ours and users'."""
    return Counter(outcome(check, studies[check.study]) for check in CHECKS.values()
                   if not check.source)


def counts(studies: dict[str, dict | None], results: Results) -> dict[str, Counter]:
    """Returns how many results of each paper have each verdict."""
    found = {TO_FP8: outcomes_of_checks(studies)}
    found |= {paper.name: outcomes_of(paper, results) for paper in PAPERS}
    return {name: Counter({words: sum(each[what] for what in kinds)
                           for words, kinds in COUNTED.items()}) for name, each in found.items()}


def exact_count(results: Results) -> int:
    """Counts the results that reproduce exactly."""
    found = [row.found(results) for paper in PAPERS for row in paper.rows]
    return sum(each.exact and each.outcome == "holds" for each in found)


def count_table(found: dict[str, Counter]) -> str:
    """Formats the number of results by paper and verdict."""
    rows = [[name, str(each.total()), *(str(each[words]) for words in COUNTED)]
            for name, each in found.items()]
    return table(["paper", "results", *COUNTED], rows)


def section(paper: Paper, results: Results) -> str:
    """Returns the introduction and the table of a paper."""
    rows = [cells_of(results, row) for row in paper.rows]
    listed = table(HEADER, rows).replace("--:", ":--")
    return f"\n### {paper.name}\n\n{paper.introduction}\n\n{listed}\n\n{paper.notes}\n"


def sections(results: Results) -> str:
    """Returns the tables of all papers, with what their verdicts mean."""
    return f"\n{LEGEND}" + "".join(section(paper, results) for paper in PAPERS)
