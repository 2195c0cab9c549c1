#===- sass_loop.py - Loops of machine code ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the control-flow graph of a SASS function, its loops, and the instructions
# that a warp executes in one iteration of a loop over vectors of elements.
#
#===----------------------------------------------------------------------===#
"""Basic blocks, loops, and the vector loop of an entry."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sass_counts import SASSFunction

#: A jump to a label, with an optional predicate or uniform register. ptxas leaves some loops by a
#: call of a label. BRA.DIV targets code that runs only in warps whose lanes have diverged.
_BRANCH = re.compile(r"(?:BRA(?!\.DIV)|CALL)\S*\s+(?:(!?U?[PR]\w+),\s*)?`\((\.L[\w$.]+)\)")
_LEAVES = re.compile(r"(?:EXIT|RET)\b")


def access_bits(text: str) -> int:
    """Returns the bits per lane that an instruction moves to or from global memory, or 0."""
    mnemonic = text.split(None, 1)[0]
    head, *parts = mnemonic.split(".")
    if head not in ("LDG", "STG", "LD", "ST"):
        return 0
    widths = [int(m[1]) for part in parts if (m := re.fullmatch(r"[US]?(8|16|32|64|128)", part))]
    return widths[-1] if widths else 32


@dataclass(frozen=True)
class Instruction:
    """An instruction, and its predicate if it has one."""
    text: str
    guard: str | None = None

    @property
    def bits(self) -> int:
        return access_bits(self.text)

    @property
    def is_load(self) -> bool:
        return self.text.startswith("LD")


class Graph:
    """The basic blocks of a function, numbered from its entry."""

    def __init__(self, function: SASSFunction):
        texts = function.instructions
        guards = function.guards or [None] * len(texts)
        self.instructions = [Instruction(*pair) for pair in zip(texts, guards)]
        begins = {0, *function.labels.values()}
        begins |= {i + 1 for i, text in enumerate(texts)
                   if _BRANCH.match(text) or _LEAVES.match(text)}
        self._begins = sorted(i for i in begins if i < len(texts))
        number = {begin: block for block, begin in enumerate(self._begins)}
        self._labels = {label: number[i] for label, i in function.labels.items() if i in number}

    def __len__(self) -> int:
        return len(self._begins)

    def block(self, number: int) -> list[Instruction]:
        ends = [*self._begins[1:], len(self.instructions)]
        return self.instructions[self._begins[number]:ends[number]]

    @cached_property
    def successors(self) -> list[list[int]]:
        return [self._successors_of(number) for number in range(len(self))]

    def _successors_of(self, number: int) -> list[int]:
        last = self.block(number)[-1]
        branch = _BRANCH.match(last.text)
        after = [self._labels[branch[2]]] if branch else []
        always = last.guard is None and (
            _LEAVES.match(last.text) or (branch and branch[1] is None))
        if not always and number + 1 < len(self):
            after.append(number + 1)
        return after

    @cached_property
    def predecessors(self) -> list[list[int]]:
        result: list[list[int]] = [[] for _ in range(len(self))]
        for number, after in enumerate(self.successors):
            for following in after:
                result[following].append(number)
        return result

    def reached(self, starts: Iterable[int], without: Iterable[int] = (),
                backwards: bool = False) -> set[int]:
        """Returns the blocks reachable from `starts` on paths without those in `without`."""
        after = self.predecessors if backwards else self.successors
        found, barred = set(), set(without)
        pending = [start for start in starts if start not in barred]
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending += [n for n in after[number] if n not in barred]
        return found

    @cached_property
    def dominators(self) -> dict[int, set[int]]:
        """The blocks on every path to a block, itself included; only for reachable blocks."""
        every = self.reached([0])
        result = {number: set(every) for number in every} | {0: {0}}
        changed = True
        while changed:
            changed = False
            for number in sorted(every - {0}):
                before = [result[n] for n in self.predecessors[number] if n in every]
                new = set.intersection(*before) | {number}
                changed |= new != result[number]
                result[number] = new
        return result

    @cached_property
    def loops(self) -> dict[int, set[int]]:
        """The blocks of each natural loop, by header."""
        result: dict[int, set[int]] = {}
        for number, dominators in self.dominators.items():
            for head in set(self.successors[number]) & dominators:
                body = {head} | self.reached([number], [head], backwards=True)
                result.setdefault(head, set()).update(body)
        return result


#: A side of a branch with this many memory accesses, all of single elements, handles the ends of
#: rows and unaligned tensors: it has one access for each of a thread's elements.
_TAIL = 8


class VectorLoop:
    """A loop over elements in which a thread handles several per iteration."""

    def __init__(self, graph: Graph, head: int):
        self.graph, self.head, self.body = graph, head, graph.loops[head]

    @cached_property
    def inner(self) -> list[set[int]]:
        """The inner loops. They add totals as a binary counter does, once on average."""
        return [body for head, body in self.graph.loops.items()
                if head != self.head and body < self.body]

    def _is_called(self, number: int) -> bool:
        return any(each.text.startswith("CALL") and not _BRANCH.match(each.text)
                   for each in self.graph.block(number))

    def _is_tail(self, numbers: Iterable[int]) -> bool:
        bits = [each.bits for number in numbers for each in self.graph.block(number)
                if each.bits]
        return len(bits) >= _TAIL and max(bits) < 64

    def _tails(self) -> set[int]:
        """Returns the blocks that handle elements one by one where no whole vectors are left."""
        found: set[int] = set()
        back = {self.head} | (set(range(len(self.graph))) - self.body)
        for number in self.body:
            after = [n for n in self.graph.successors[number] if n not in back]
            if len(after) != 2:
                continue
            sides = [self.graph.reached([n], back) for n in after]
            for side, other in (sides, sides[::-1]):
                if self._is_tail(side - other):
                    found |= side - other
        return found

    @cached_property
    def executed(self) -> list[int]:
        """The blocks that a warp executes in an iteration over whole vectors: the body without
        the tails and without calls of functions for subnormal or non-finite quotients and roots.
        Both sides of other branches count, since lanes diverge there."""
        left = {n for n in self.body if self._is_called(n)} | self._tails()
        outside = set(range(len(self.graph))) - self.body
        forward = self.graph.reached([self.head], left | outside)
        ends = [n for n in forward if self.head in self.graph.successors[n]]
        return sorted(forward & self.graph.reached(ends, left | outside, backwards=True))

    @cached_property
    def instructions(self) -> list[Instruction]:
        return [each for number in self.executed for each in self.graph.block(number)]


def vector_loops(function: SASSFunction) -> list[VectorLoop]:
    """Returns the innermost loops with loads of at least 64 bits, in program order."""
    graph = Graph(function)
    wide = {head: {n for n in body if any(each.is_load and each.bits >= 64
                                          for each in graph.block(n))}
            for head, body in graph.loops.items()}
    return [VectorLoop(graph, head) for head in sorted(wide) if wide[head] and not any(
        wide[other] for other in wide
        if other != head and graph.loops[other] < graph.loops[head])]
