#===- score.py - Results against the definition --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file counts the results that are as defined and the lost error terms, and finds the largest
# error.
#
#===----------------------------------------------------------------------===#
"""`score(case, result)` compares bits with the definition."""

from fractions import Fraction
from functools import lru_cache

from exact import FORMATS, definition, truth, units
from inputs import planes, slices


def _worst(case, got, exact, scale):
    """Returns the largest |s + e - exact| in units of u = 2^-p of |exact|; None if it is
    infinite. It is not meaningful for sums and products of subnormals."""
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
    """Returns the definition's results and error terms, and their exact sums."""
    own = planes(case)
    return list(zip(*definition(case, own))), *truth(case, own)


def _groups(case):
    return dict(slices(case)) if not case.steps else {"all": slice(None)}


def score(case, result):
    """Returns counts and the largest error of a (result, error term) in bits. Zeros of either
    sign count as equal."""
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
