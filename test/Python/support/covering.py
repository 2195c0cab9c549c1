#===- covering.py - Covering selections of tests --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file selects part of the test items such that every test function and every value of each
# parameter occurs, or every pair of two values.
#
#===----------------------------------------------------------------------===#
"""Selects covering sets of test items; the selection is deterministic."""

import heapq
from dataclasses import dataclass, field
from itertools import combinations

#: The maximum seconds of an item in a quick run, if its function has cheaper ones.
SLOW = 0.4
#: The maximum seconds of a function's cheapest item in a quick run.
TOO_SLOW = 2.0


@dataclass(frozen=True)
class Item:
    """A test item: its function, the values of its parameters, and its known duration."""

    name: str
    function: str
    values: dict = field(default_factory=dict)
    seconds: float = 0.0
    #: The number of parameters whose values an ordinary run combines completely, and how often;
    #: None for all items.
    strength: int | None = None
    times: int = 1


def cover(items, parts_of):
    """Returns items that contain every part of any item. Each item adds as many parts as
    possible; among equal ones, the cheapest and then the first is chosen."""
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
    """Returns the items of a function that a quick run may contain: no slow item if there are
    others, and none that is too slow."""
    fast = [item for item in items if item.seconds <= SLOW]
    cheapest = min(items, key=lambda item: item.seconds)
    return fast or [cheapest] * (cheapest.seconds <= TOO_SLOW)


def affordable_of_all(items):
    return [item for own in by_function(items).values() for item in affordable(own)]


def function_and_values(item):
    return {("function", item.function), *item.values.items()}


def choose_quick(items):
    """Selects every function and every value of each parameter in each file."""
    return [item for own in by_file(affordable_of_all(items)).values()
            for item in cover(own, function_and_values)]


def too_slow(items):
    """Returns the functions that a quick run omits."""
    return [name for name, own in by_function(items).items() if not affordable(own)]


def values_of_slow(items):
    """Returns the number of parameter values, per file, that occur only in omitted slow items."""
    def values(some):
        return {(file, *value) for file, own in by_file(some).items()
                for item in own for value in item.values.items()}
    return len(values(items) - values(affordable_of_all(items)))


#===----------------------------------------------------------------------===#
# Ordinary runs
#===----------------------------------------------------------------------===#


def combinations_in(item):
    """Returns the combinations of values that an ordinary run must contain."""
    values = sorted(item.values.items())
    return combinations(values, min(item.strength, len(values)))


def thinned(items):
    """Returns disjoint coverings of a function's items."""
    rest, names = list(items), set()
    for _ in range(items[0].times):
        names |= {item.name for item in cover(rest, combinations_in)}
        rest = [item for item in rest if item.name not in names]
    return [item for item in items if item.name in names]


def choose_ordinary(items):
    """Selects all items, except that marked functions are thinned to coverings."""
    return [item for own in by_function(items).values()
            for item in (own if own[0].strength is None else thinned(own))]


CHOICES = {"quick": choose_quick, "ordinary": choose_ordinary, "whole": list}
