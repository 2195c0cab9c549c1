#===- random_graphs.py - Seeded random optimizer graphs --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file generates random optimizer graphs and strategies.
#
#===----------------------------------------------------------------------===#
"""`generate(seed)` returns a graph as a DAG of nodes, and a strategy for it. Some graphs have
reductions over a tensor or the model anywhere."""

import math
import random
from dataclasses import dataclass, field, replace

from model.codes import (DynamicCode, ExpandedCode, FloatCode, MinifloatCode, MuLawCode,
                         PairCode, RootCode, SoftsignCode)
from model.scaled import WHOLE, Coded, Masked, Residual, Scaled
from model.storage import Expansion, Kahan, Master, Plain, Remainder


@dataclass(eq=False)
class Node:
    """A value: `op` of `args`, or a leaf. Uniform values are f64 scalars; other values that all
    elements share are f32 scalars."""

    op: str
    args: tuple = ()
    value: object = None  # the name of a role or hyperparameter, a literal, or a sum's scope
    id: int = -1

    @property
    def is_leaf(self):
        return not self.args

    @property
    def is_uniform(self):
        if self.is_leaf:
            return self.op not in ("tensor", "size")
        return self.op in SCALAR_OPS and all(a.is_uniform for a in self.args)

    @property
    def is_shared(self):
        """Returns whether the value depends only on scalars, reductions and sizes."""
        if self.is_leaf:
            return self.op != "tensor"
        return self.op == "sum" or all(a.is_shared for a in self.args)

    def is_same(self, other):
        """Returns whether both are the same computation."""
        return ((self.op, self.value, len(self.args))
                == (other.op, other.value, len(other.args))
                and all(a.is_same(b) for a, b in zip(self.args, other.args)))


# Scalar operations, which belong to the prologue.
SCALAR_OPS = ("add", "sub", "mul", "div", "neg", "sqrt", "power")


@dataclass
class Role:
    """A tensor argument."""

    name: str
    kind: str
    moment: str = "none"
    storage: object = None
    leaf: Node = None
    result: Node = None


@dataclass
class Hyper:
    name: str
    domain: str
    default: object = None


@dataclass
class RandomGraph:
    name: str
    roles: list = field(default_factory=list)
    hypers: list = field(default_factory=list)
    step: str = ""
    nodes: list = field(default_factory=list)  # all nodes except uniform ones, in order
    strategy: str = ""
    component: object = None
    rules: list = field(default_factory=list)

    @property
    def updated(self):
        return [role for role in self.roles if role.kind != "grad"]

    @property
    def reduces(self):
        return any(node.op == "sum" for node in self.nodes)

    @property
    def groups(self):
        """Returns the numbers of elements that share an entry of some plane."""
        return {group for role in self.roles
                for group in role.storage.plane_groups(role.name).values()}

    def add(self, op, *args, value=None):
        node = Node(op, args, value, id=len(self.nodes))
        self.nodes.append(node)
        return node


def is_compensated(storage):
    """Returns whether the component policy reads the storage as a whole."""
    return isinstance(storage, (Expansion, Kahan))


#===----------------------------------------------------------------------===#
# Names and strategies
#===----------------------------------------------------------------------===#


def _name(rng, used):
    while True:
        name = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou")
                       for _ in range(rng.randint(2, 4)))
        if name not in used:
            used.add(name)
            return name


def _component_storage(rng, kind, component):
    plain = [Plain(component), Plain("f32"), Plain("bf16"), Plain("f16")]
    if kind == "grad":
        return rng.choice(plain)
    pair, triple = Expansion(component), Expansion(component, 3)
    kahan = [Kahan(component)] if component != "f32" else []
    return rng.choice(plain[:2] + [pair, pair, triple] + kahan)


def _minifloat(rng):
    """Returns any format that the constraints allow, spelled in any way."""
    exponent = rng.randint(1, 8)
    mantissa = rng.randint(2 if exponent == 1 else 1, min(10, 15 - exponent))
    specials = rng.choice(("ieee", "nan", "negative_zero", "none"))
    if exponent in (1, 8):
        specials = "ieee" if exponent == 8 else rng.choice(("nan", "none"))
    rounding = rng.choice(("nearest", "stochastic", "toward_zero", "dither"))
    bias = rng.choice((None, rng.randint(-8, 20))) if exponent < 6 else None
    code = MinifloatCode(exponent, mantissa, bias, specials, rounding)
    least, most = code.format.min_exponent, math.frexp(code.largest)[1] - 1
    if rng.random() < 0.7 or least == most:
        return code
    exponents = tuple(sorted(rng.randint(least, most) for _ in range(2)))
    return replace(code, exponents=exponents)


def _any_rounding(rng, code):
    """Returns the code or storage with rounding to nearest or by bits."""
    if isinstance(code, MinifloatCode):
        return code
    if isinstance(code, ExpandedCode):
        return replace(code, base=_any_rounding(rng, code.base))
    rounding = rng.choice(("nearest", "nearest", "stochastic", "dither", "dither"))
    return replace(code, rounding=rounding)


def _coded_storage(rng):
    """Returns codes without a scale, or floats masked to codes."""
    low = rng.choice(("f8E4M3FN", "f8E5M2", "f16"))
    code = _any_rounding(rng, rng.choice([
        FloatCode(low), SoftsignCode(), DynamicCode(True), _minifloat(rng), _minifloat(rng)]))
    return rng.choice([Coded(code), Masked(rng.choice(("f32", "bf16", "f16")), code)])


def _scaled_storage(rng, kind):
    low = rng.choice(("f8E4M3FN", "f8E5M2"))
    dynamic = DynamicCode(rng.random() < 0.6)
    codes = [FloatCode(low), FloatCode("f16"), SoftsignCode(), RootCode(), dynamic,
             ExpandedCode(rng.choice((FloatCode(low), dynamic)),
                          rng.choice((4.0, 28672.0, 229376.0))),
             _minifloat(rng), _minifloat(rng)]
    if kind != "grad":
        codes.append(PairCode(low))
    recipe = rng.choice(("current", "pow2", "mx_floor", "given"))
    wide = ["f8E8M0FNU"] if recipe != "current" else []
    code, group = _any_rounding(rng, rng.choice(codes)), rng.choice((16, 32, 64, 128, 256, *4 * [WHOLE]))
    scale = rng.choice(["f32", "bf16", "f16", *wide])
    if group != WHOLE and recipe in ("current", "pow2") and scale != "f16":
        code = rng.choice((code, code, _any_rounding(rng, MuLawCode(rng.random() < 0.5))))
    history = margin = 0
    if group == WHOLE and recipe != "given" and not code.range and rng.random() < 0.5:
        history, margin = rng.choice((1, 2, 3, 16)), rng.choice((0, 0, 1, 4))
    return Scaled(code, group, scale, recipe, history, margin)


def _f32_storage(rng, kind):
    low, scaled = rng.choice(("bf16", "f16")), _scaled_storage(rng, kind)
    coded = _coded_storage(rng)
    if kind == "grad":
        return rng.choice([Plain(low), Plain("f32"), Plain("f8E5M2"), scaled, coded])
    residual = _any_rounding(rng, Residual(low, rng.choice(("i8", "i16"))))
    return rng.choice([Plain(low), Plain(low, rng.choice(("stochastic", "dither"))),
                       Plain("f32"), Plain("f8E4M3FN"), Expansion(low), Expansion(low, 3),
                       Master(low), Remainder(), residual, scaled, scaled, scaled, coded])


def _choose_strategy(rng, graph, used):
    """Makes one rule per kind and moment, and some by name that come first."""
    graph.strategy = _name(rng, used) + "-" + _name(rng, used)
    graph.component = rng.choice(("bf16", "bf16", "f16", "f32", None, None))

    def choose(kind):
        if graph.component:
            return _component_storage(rng, kind, graph.component)
        return _f32_storage(rng, kind)

    moments = {m: choose("state") for m in ("first", "second", "none")}
    for role in graph.roles:
        if role.kind != "state":
            role.storage = choose(role.kind)
            graph.rules.append((role.kind, role.storage))
        elif rng.random() < 0.3:
            role.storage = choose("state")
            graph.rules.insert(0, (f'state named("{role.name}")', role.storage))
        else:
            role.storage = moments[role.moment]
    for moment in ("first", "second"):
        graph.rules.append((f"state moment({moment})", moments[moment]))
    graph.rules.append(("state", moments["none"]))


#===----------------------------------------------------------------------===#
# Expressions
#===----------------------------------------------------------------------===#


class _Builder:
    def __init__(self, rng, graph):
        self.rng, self.graph = rng, graph
        self.leaves = [role.leaf for role in graph.roles]
        self.pool = list(self.leaves)
        self.scalars = [Node("hyper", value=h.name) for h in graph.hypers]
        self.may_reduce, self.shared = rng.random() < 0.4, []
        if graph.step:
            base = self.rng.choice(self.scalars)
            self.scalars.append(Node("power", (base, Node("step", value=graph.step))))

    def literal(self):
        return Node("literal", value=self.rng.choice(
            (0.5, 2.0, 1.0, -1.0, 0.1, 0.999, 3.0, 1e-3)))

    def scalar(self, depth=2):
        """Returns an expression of hyperparameters and literals."""
        if depth == 0 or self.rng.random() < 0.3:
            return (self.rng.choice(self.scalars) if self.rng.random() < 0.7
                    else self.literal())
        op = self.rng.choice(("add", "sub", "sub", "mul", "mul", "div", "neg", "sqrt"))
        count = 1 if op in ("neg", "sqrt") else 2
        return Node(op, tuple(self.scalar(depth - 1) for _ in range(count)))

    def leaf(self):
        """Returns an existing tensor value."""
        return self.rng.choice(self.pool if self.rng.random() < 0.6 else self.leaves)

    def sum(self):
        summand = self.expression(2)
        scope = self.rng.choice(("tensor", "model"))
        self.shared.append(self.graph.add("sum", summand, value=scope))

    def shared_value(self, depth=2):
        """Returns an expression that contains a reduction or the number of elements."""
        rng = self.rng
        if len(self.shared) < 3 and rng.random() < 0.6:
            self.sum()
        if depth == 0 or rng.random() < 0.2 or not self.shared:
            return self.leaf_of_shared()
        op = rng.choice(("add", "sub", "mul", "div", "div", "sqrt", "sqrt", "neg", "abs",
                         "max", "min", "select"))
        args = [self.shared_value(depth - 1)]
        if op not in ("sqrt", "neg", "abs"):
            args.append(self.scalar_or_shared(depth - 1))
            rng.shuffle(args)
        if op == "select":
            if args[0].is_same(args[1]):
                return args[0]
            args += [self.scalar_or_shared(depth - 1) for _ in range(2)]
        self.shared.append(self.graph.add(op, *args))
        return self.shared[-1]

    def scalar_or_shared(self, depth):
        return self.scalar() if self.rng.random() < 0.6 else self.shared_value(depth)

    def leaf_of_shared(self):
        if self.shared and self.rng.random() < 0.8:
            return self.rng.choice(self.shared)
        return self.graph.add("size")

    def operand(self, depth):
        if self.rng.random() < 0.25:
            return self.scalar()
        if self.may_reduce and self.rng.random() < 0.3:
            return self.shared_value()
        return self.expression(depth)

    def expression(self, depth):
        """Returns a value that differs between elements."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return self.leaf()
        op = rng.choice(("add", "sub", "mul", "mul", "div", "sqrt", "neg", "abs", "max",
                         "min", "select"))
        args = [self.expression(depth - 1)]
        if op not in ("sqrt", "neg", "abs"):
            args.append(self.operand(depth - 1))
            rng.shuffle(args)
        if op == "select":
            if args[0].is_same(args[1]):  # then there is nothing to choose
                return args[0]
            args += [self.operand(depth - 1), self.operand(depth - 1)]
        node = self.graph.add(op, *args)
        self.pool.append(node)
        return node

    def factor(self):
        return self.scalar() if self.rng.random() < 0.5 else self.rng.choice(self.scalars)

    def decay(self, value):
        args = [self.factor(), value]
        self.rng.shuffle(args)
        return self.graph.add("mul", *args)

    def accumulate(self, value):
        addend = self.operand(3) if self.rng.random() < 0.3 else self.expression(3)
        if self.rng.random() < 0.3:
            return self.graph.add("sub", value, addend)
        args = [value, addend]
        self.rng.shuffle(args)
        return self.graph.add("add", *args)

    def update(self, role):
        """Returns a new value that consists of s + d, b * s + x and b * s."""
        value = role.leaf
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            kind = self.rng.choice(("accumulate", "ema", "ema", "decay"))
            if kind != "accumulate":
                value = self.decay(value)
                if self.rng.random() < 0.3:
                    self.pool.append(value)
            if kind != "decay":
                value = self.accumulate(value)
        self.pool.append(value)
        return value


def _choose_arguments(rng, graph, used):
    for kind in ("param", "grad"):
        graph.roles.append(Role(_name(rng, used), kind))
    for _ in range(rng.randint(0, 3)):
        moment = rng.choice(("none", "first", "second"))
        graph.roles.append(Role(_name(rng, used), "state", moment))
    rng.shuffle(graph.roles)
    for role in graph.roles:
        role.leaf = Node("tensor", value=role.name)
    for _ in range(rng.randint(1, 4)):
        domain = rng.choice(("any", "nonneg", "unit", "epsilon"))
        default = rng.choice((None, 0.25, 0.9))
        graph.hypers.append(Hyper(_name(rng, used), domain, default))
    if rng.random() < 0.6:
        graph.step = _name(rng, used)


def generate(seed):
    """Generates the same graph and strategy for the same seed."""
    rng, used = random.Random(seed), {"step", "seed"}
    graph = RandomGraph(_name(rng, used))
    _choose_arguments(rng, graph, used)
    _choose_strategy(rng, graph, used)
    builder = _Builder(rng, graph)
    for role in rng.sample(graph.updated, len(graph.updated)):
        keeps = graph.component and is_compensated(role.storage)
        if keeps or rng.random() < 0.75:
            role.result = builder.update(role)
        else:
            role.result = builder.expression(4)
    return graph
