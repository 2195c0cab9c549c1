#===- score.py - Results against the definition --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the count of results that are as defined, what became of
# error terms, and the largest error.
#
#===----------------------------------------------------------------------===#
"""`score(case, result)` compares bits with the definition."""

from fractions import Fraction
from functools import lru_cache

from exact import FORMATS, definition, truth, units
from inputs import planes, slices


def _worst(case, got, exact, scale):
    """The largest |s + e - exact| in u = 2^-p of |exact|; None where it is infinite.
    Sums and products of subnormals have no relative error to speak of."""
    worst = Fraction(0)
    for (s, e), want in zip(got, exact):
        if s is None or e is None:
            return None
        error = abs(((s + e) << scale) - want)
        if error and not want:
            return None
        if error:
            worst = max(worst, Fraction(error, abs(want)))
    return float(worst * 2 ** FORMATS[case.format].precision)


@lru_cache(maxsize=None)
def _reference(case):
    """The definition's results and error terms, and what they stand for."""
    own = planes(case)
    return list(zip(*definition(case, own))), *truth(case, own)


def _groups(case):
    return dict(slices(case)) if not case.steps else {"all": slice(None)}


def score(case, result):
    """Counts and the largest error of a (result, error term) in bits. Zeros of either
    sign are one number here."""
    got = list(zip(*(units(case.format, plane) for plane in result)))
    want, exact, scale = _reference(case)
    groups = _groups(case)
    normal = [part for name, part in groups.items() if name != "subnormal"]
    terms = [(g[1], w[1]) for g, w in zip(got, want) if w[1]]
    return {
        "size": case.size,
        "equal": {name: sum(g == w for g, w in zip(got[part], want[part]))
                  for name, part in groups.items()},
        "of": {name: len(got[part]) for name, part in groups.items()},
        "error_terms": len(terms),
        "lost_error_terms": sum(g == 0 for g, _ in terms),
        "wrong_results": sum(g[0] != w[0] for g, w in zip(got, want)),
        "largest_error": _worst(case, [g for part in normal for g in got[part]],
                                [t for part in normal for t in exact[part]], scale),
        "definition_error": _worst(case, [w for part in normal for w in want[part]],
                                   [t for part in normal for t in exact[part]], scale),
    }
