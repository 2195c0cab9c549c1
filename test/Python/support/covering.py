#===- covering.py - A part of the tests that covers them -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements how a part of the test items is chosen: such that every test
# function and every value of each parameter appears, or every pair of two values.
#
#===----------------------------------------------------------------------===#
"""Covering selections of test items. The same items always give the same selection."""

import heapq
from dataclasses import dataclass, field
from itertools import combinations

#: Seconds that an item may take in a quick run, where its function has cheaper ones.
SLOW = 0.6
#: Seconds that the cheapest item of a function may take in a quick run.
TOO_SLOW = 2.0


@dataclass(frozen=True)
class Item:
    """A test item: its function, its parameters' values, and what it is known to take."""

    name: str
    function: str
    values: dict = field(default_factory=dict)
    seconds: float = 0.0
    #: The number of values that an ordinary run combines in every way, and how often; None
    #: for all.
    strength: int | None = None
    times: int = 1


def cover(items, parts_of):
    """Items that have every part that any item has. Each adds as many as another could;
    of those that add as many, the cheapest and then the first does."""
    missing = [set(parts_of(item)) for item in items]
    heap = [(-len(parts), items[i].seconds, i) for i, parts in enumerate(missing)]
    heapq.heapify(heap)
    covered, chosen = set(), []
    while heap:
        most, seconds, i = heapq.heappop(heap)
        missing[i] -= covered
        if -len(missing[i]) != most:
            heapq.heappush(heap, (-len(missing[i]), seconds, i))
        elif missing[i]:
            covered |= missing[i]
            chosen.append(i)
    return [items[i] for i in sorted(chosen)]


def grouped(items, key):
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def by_function(items):
    return grouped(items, lambda item: item.function)


def by_file(items):
    return grouped(items, lambda item: item.function.split("::")[0])


#===----------------------------------------------------------------------===#
# Quick runs
#===----------------------------------------------------------------------===#


def affordable(items):
    """Returns the items of a function that may be in a quick run: no slow item beside
    others, and none that is too slow."""
    fast = [item for item in items if item.seconds <= SLOW]
    cheapest = min(items, key=lambda item: item.seconds)
    return fast or [cheapest] * (cheapest.seconds <= TOO_SLOW)


def affordable_of_all(items):
    return [item for own in by_function(items).values() for item in affordable(own)]


def function_and_values(item):
    return {("function", item.function), *item.values.items()}


def choose_quick(items):
    """In each file, every function and every value of each parameter."""
    return [item for own in by_file(affordable_of_all(items)).values()
            for item in cover(own, function_and_values)]


def too_slow(items):
    """The functions that a quick run leaves out."""
    return [name for name, own in by_function(items).items() if not affordable(own)]


def values_of_slow(items):
    """The number of values of files' parameters that only slow items, left out, have."""
    def values(some):
        return {(file, *value) for file, own in by_file(some).items()
                for item in own for value in item.values.items()}
    return len(values(items) - values(affordable_of_all(items)))


#===----------------------------------------------------------------------===#
# Ordinary runs
#===----------------------------------------------------------------------===#


def combinations_in(item):
    """Returns the combinations of values that an ordinary run takes."""
    values = sorted(item.values.items())
    return combinations(values, min(item.strength, len(values)))


def thinned(items):
    """Coverings of a function's items, none of which is in two of them."""
    rest, names = list(items), set()
    for _ in range(items[0].times):
        names |= {item.name for item in cover(rest, combinations_in)}
        rest = [item for item in rest if item.name not in names]
    return [item for item in items if item.name in names]


def choose_ordinary(items):
    """All items, but coverings of those of functions that are marked."""
    return [item for own in by_function(items).values()
            for item in (own if own[0].strength is None else thinned(own))]


CHOICES = {"quick": choose_quick, "ordinary": choose_ordinary, "whole": list}
