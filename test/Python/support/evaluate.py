#===- evaluate.py - Random graphs in NumPy ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file evaluates random graphs with the arithmetic and the storages of the NumPy model.
#
#===----------------------------------------------------------------------===#
"""`evaluate(graph, planes, hypers, ...)` returns the planes after one step, and `evaluate_model`
those of several tensors."""

from dataclasses import dataclass, replace

import numpy as np

from model.arithmetic import Arithmetic
from model.metrics import tree_sum
from model.optimizers import power
from model.storage import Draw, PlainState

from .random_graphs import is_compensated

_SIGN = np.uint32(0x80000000)


class NotCompensated(Exception):
    """Raised if the new value of a compensated role is not made of its updates."""


@dataclass
class Link:
    """A link of a role's chain of updates, which is followed backwards from the result."""

    before: object
    factor: object = None
    addend: object = None
    subtract: bool = False
    inside_sum: bool = False


#===----------------------------------------------------------------------===#
# Chains of updates
#===----------------------------------------------------------------------===#


class Chains:
    """Finds the values that are updates of a role by the shortest path to it."""

    def __init__(self, graph):
        self.links, self.complete = {}, set()
        for role in graph.updated:
            self.follow(role)

    def follow(self, role):
        self.leaf, self.known = role.leaf, {}
        if self.distance(role.result) is None:
            return
        self.complete.add(role.name)
        node, below_sum = role.result, False
        found = {}
        while node is not role.leaf:
            link = self.link(node)
            link.inside_sum = below_sum and link.factor is not None
            below_sum = link.addend is not None
            found[node] = link
            node = link.before
        self.links |= found

    def distance(self, node):
        if node is self.leaf:
            return 0
        if node.is_leaf or node.is_uniform or node in self.links:
            return None
        if node not in self.known:
            self.known[node] = self.further(node)
        return self.known[node]

    def further(self, node):
        left, *right = node.args
        ways = []
        if node.op in ("add", "sub"):
            ways = [left] + (right if node.op == "add" else [])
        elif node.op == "mul" and left.is_uniform:
            ways = right
        elif node.op == "mul" and right[0].is_uniform:
            ways = [left]
        found = [d for d in map(self.distance, ways) if d is not None]
        return min(found) + 1 if found else None

    def link(self, node):
        left, right = node.args
        if node.op == "mul":
            return Link(right, left) if left.is_uniform else Link(left, right)
        a, b = self.distance(left), self.distance(right)
        if node.op == "sub":
            return Link(left, addend=right, subtract=True)
        if a is not None and (b is None or a <= b):
            return Link(left, addend=right)
        return Link(right, addend=left)


#===----------------------------------------------------------------------===#
# Values
#===----------------------------------------------------------------------===#


def _scalar(node, hypers, step):
    """Evaluates a uniform node in f64."""
    if node.op == "hyper":
        return np.float64(hypers[node.value])
    if node.op == "literal":
        return np.float64(node.value)
    if node.op == "power":
        return np.float64(power(_scalar(node.args[0], hypers, step), step))
    a, *rest = [_scalar(arg, hypers, step) for arg in node.args]
    apply = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
             "neg": np.negative, "sqrt": np.sqrt}[node.op]
    return apply(a, *rest)


def _extreme(a, b, largest):
    """Computes maximum and minimum, where NaN wins and -0 is less than +0."""
    a, b = np.broadcast_arrays(np.float32(a), np.float32(b))
    first = a > b if largest else a < b
    bits = (np.bitwise_and if largest else np.bitwise_or)(a.view(np.uint32),
                                                          b.view(np.uint32))
    picked = np.where(a == b, bits.view(np.float32), np.where(first, a, b))
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), picked)


class Evaluation:
    """One tensor of a model, whose evaluation provides its reductions."""

    def __init__(self, graph, planes, hypers, step, model):
        self.graph, self.hypers, self.step = graph, hypers, step
        self.planes = planes
        self.k = Arithmetic(graph.component or "f32")
        self.model, self.chains = model, Chains(graph)
        self.values, self.wholes, self.sums = {}, {}, {}
        self.compensated = set()
        for role in graph.roles:
            keeps = graph.component and is_compensated(role.storage)
            if graph.component:
                state = role.storage.open_component(self.k, planes, role.name)
            else:
                state = PlainState(role.storage.decode(planes, role.name))
            self.wholes[role.leaf] = state
            if keeps:
                self.compensated.add(role.name)
        self.size = len(next(iter(planes.values())))
        self.kept = self.kept_nodes()

    def kept_nodes(self):
        """Returns the links of compensated roles, which are computed as a whole."""
        kept = set()
        for role in self.graph.updated:
            if role.name not in self.compensated:
                continue
            if role.name not in self.chains.complete:
                raise NotCompensated(role.name)
            node = role.result
            while node is not role.leaf:
                kept.add(node)
                node = self.chains.links[node].before
        return kept

    def scalar(self, node):
        return _scalar(node, self.hypers, self.step)

    def read(self, node):
        """Returns a node as an operand: in f32 if it is shared, else its leading component."""
        if node.is_uniform:
            return np.float32(self.scalar(node))
        if node in self.wholes and node.is_leaf:
            return self.wholes[node].leading
        if node in self.kept and not self.chains.links[node].inside_sum:
            return self.whole(node).leading
        if node not in self.values:
            self.values[node] = self.apply(node)
        return self.values[node]

    def spread(self, value):
        return np.broadcast_to(np.float32(value), self.size).astype(np.float32)

    def component(self, node):
        return self.spread(self.k.round(np.float32(self.read(node))))

    def sum(self, node):
        """Sums over this tensor in f32."""
        if node not in self.sums:
            self.sums[node] = tree_sum(self.spread(self.read(node.args[0])))
        return self.sums[node]

    def reduce(self, node):
        if node.value == "tensor":
            return self.sum(node)
        return tree_sum(np.array([e.sum(node) for e in self.model], dtype=np.float32))

    def whole(self, node):
        if node in self.wholes:
            return self.wholes[node]
        link = self.chains.links[node]
        state = self.whole(link.before)
        if link.factor is not None:
            state = state.decay(self.k, float(self.scalar(link.factor)))
        if link.addend is not None:
            addend = self.component(link.addend)
            addend = self.k.neg(addend) if link.subtract else addend
            state = state.accumulate(self.k, addend)
        self.wholes[node] = state
        return state

    def apply(self, node):
        if node.op == "size":
            return np.float32(self.size)
        if node.op == "sum":
            return self.reduce(node)
        value = self.compute(node, Arithmetic("f32") if node.is_shared else self.k)
        return np.float32(value) if node.is_shared else self.spread(value)

    def compute(self, node, k):
        args = [self.read(a) for a in node.args]
        if node.op in ("add", "sub", "mul", "div", "sqrt"):
            return getattr(k, node.op)(*args)
        if node.op == "neg":
            return k.neg(args[0])
        if node.op == "abs":
            return (args[0].view(np.uint32) & ~_SIGN).view(np.float32)
        if node.op == "select":
            a, b, x, y = args
            picked = np.where(a > b, x, y).astype(np.float32)
        else:
            picked = _extreme(*args, node.op == "max")
        return k.round(np.float32(picked))

    def close(self, role, draw):
        if role.name in self.compensated:
            return role.storage.close_component(role.name, self.whole(role.result), draw)
        draw = replace(draw, number=self.graph.roles.index(role))
        return role.storage.renew(self.planes, role.name, self.component(role.result),
                                  draw)


def evaluate_model(graph, tensors, hypers, draws):
    """Returns the new planes of every role that the graph updates, for each tensor."""
    model, results = [], [{} for _ in tensors]
    with np.errstate(all="ignore"):
        for planes, draw in zip(tensors, draws):
            model.append(Evaluation(graph, planes, hypers, draw.step, model))
        for result, evaluation, draw in zip(results, model, draws):
            for role in graph.updated:
                result |= evaluation.close(role, draw)
    return results


def evaluate(graph, planes, hypers, step=1, seed=0, key=0, first=0):
    """Evaluates a graph on one tensor."""
    return evaluate_model(graph, [planes], hypers, [Draw(seed, key, first, step)])[0]
