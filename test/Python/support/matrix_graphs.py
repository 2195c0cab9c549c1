#===- matrix_graphs.py - Seeded random graphs of matrices ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file generates random graphs whose values vary by element, row, column or not at all, with
# reductions between these.
#
#===----------------------------------------------------------------------===#
"""`generate(seed)` returns a graph as text, a strategy, planes, and NumPy's results: each
operation is written and computed at the same time."""

import random
from dataclasses import dataclass, field

import numpy as np

from model.arithmetic import Arithmetic
from model.codes import (ExpandedCode, FloatCode, LinearCode, MinifloatCode, PairCode, RootCode,
                         SoftsignCode)
from model.matrices import shape_of, shaped, storage_of
from model.metrics import tree_sum
from model.strategies import Strategy
from model.scaled import WHOLE, Scaled
from model.storage import Draw, Expansion, Plain, Remainder

_F32 = np.float32
_TYPES = {"tensor": "f32", "row": "tensor<?xf32>", "column": "tensor<?xf32>",
          "element": "tensor<?x?xf32>"}
_SIZES = {"row": "%rows", "column": "%columns", "element": "%rows, %columns"}
_MAPS = {"row": "affine_map<(i, j) -> (i)>", "column": "affine_map<(i, j) -> (j)>",
         "element": "affine_map<(i, j) -> (i, j)>"}
_OPERATIONS = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "math.sqrt": np.sqrt, "arith.negf": np.negative,
    "math.absf": np.abs}
_UNARY = ("math.sqrt", "arith.negf", "math.absf")


@dataclass(frozen=True, eq=False)
class Value:
    """An SSA value. It is wide if it consists only of reductions and literals."""

    name: str
    per: str
    value: np.ndarray
    is_wide: bool = False


@dataclass
class MatrixExample:
    shape: tuple
    text: str = ""
    strategy: Strategy = None
    planes: dict = field(default_factory=dict)
    want: dict = field(default_factory=dict)
    #: The features that occurred, for tests of the generator.
    features: set = field(default_factory=set)


def _join(a, b):
    """Returns the granularity of a value that is computed from two values."""
    return b if a in ("tensor", b) else a if b == "tensor" else "element"


class _Writer:
    def __init__(self, rng, shape, component, features):
        self.rng, self.shape, self.features = rng, shape, features
        self.arith = Arithmetic(component or "f32")
        self.lines, self.pool = [], []

    def emit(self, text, per, value, **flags):
        """Records an operation and its value."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return Value(name, per, np.asarray(value, dtype=_F32), **flags)

    def literal(self):
        x = self.rng.choice((0.5, 3.0, -1.0, 0.25))
        return self.emit(f"arith.constant {x} : f32", "tensor", x, is_wide=True)

    def size(self):
        axis = self.rng.choice((0, 1))
        index = self.emit(f"arith.index_cast {('%rows', '%columns')[axis]} : index to i64",
                          "tensor", 0)
        return self.emit(f"arith.sitofp {index.name} : i64 to f32", "tensor",
                         self.shape[axis], is_wide=True)

    def spread(self, x, per):
        """Broadcasts a value to a finer granularity."""
        if x.per == per:
            return x
        kind = {"is_wide": x.is_wide}
        if x.per == "tensor":
            return self.emit(f"tensor.splat {x.name}[{_SIZES[per]}] : {_TYPES[per]}", per,
                             np.broadcast_to(x.value, shape_of(per, self.shape)), **kind)
        self.features.add("broadcast")
        value = x.value[:, None] if x.per == "row" else x.value[None, :]
        return self.emit(
            f"linalg.broadcast ins({x.name} : {_TYPES[x.per]}) outs(%none_element : "
            f"{_TYPES[per]}) dimensions = [{int(x.per == 'row')}]", per,
            np.broadcast_to(value, self.shape), **kind)

    def compute(self, op, values, is_wide):
        """Computes an operation in f32 and rounds to the component unless it is wide."""
        with np.errstate(all="ignore"):
            value = np.asarray(_OPERATIONS[op](*values), dtype=_F32)
        return value if is_wide else self.arith.round(value)

    def apply(self, op, *args):
        """Emits an operation on tensors, or a loop over values of any granularity."""
        per, is_wide = "tensor", all(x.is_wide for x in args)
        for x in args:
            per = _join(per, x.per)
        is_mixed = len({x.per for x in args}) > 1
        if per == "element" and is_mixed and self.rng.random() < 0.6:
            return self._loop(op, args, is_wide)
        args = [self.spread(x, per) for x in args]
        names = ", ".join(x.name for x in args)
        value = self.compute(op, [x.value for x in args], is_wide)
        return self.emit(f"{op} {names} : {_TYPES[per]}", per, value, is_wide=is_wide)

    def _loop(self, op, args, is_wide):
        self.features.add("loop")
        args = [self.spread(x, "row") if x.per == "tensor" else x for x in args]
        place = {"row": np.s_[:, None], "column": np.s_[None, :], "element": np.s_[:, :]}
        value = self.compute(op, [x.value[place[x.per]] for x in args], is_wide)
        maps = ", ".join(_MAPS[x.per] for x in args) + ", " + _MAPS["element"]
        names, types = (", ".join(x.name for x in args),
                        ", ".join(_TYPES[x.per] for x in args))
        arguments = ", ".join(f"%a{i}: f32" for i in range(len(args)))
        operands = ", ".join(f"%a{i}" for i in range(len(args)))
        return self.emit(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = "
            f'["parallel", "parallel"]}} ins({names} : {types}) outs(%none_element : '
            f"tensor<?x?xf32>) {{\n^bb0({arguments}, %out: f32):\n"
            f"  %result = {op} {operands} : f32\n  linalg.yield %result : f32\n"
            "} -> tensor<?x?xf32>", "element", value, is_wide=is_wide)

    def sum(self, x, to):
        """Emits the sum of a value with a finer granularity than `to`."""
        self.features.add((x.per, to))
        dimensions = {"row": "[1]", "column": "[0]"}.get(
            to, "[0, 1]" if x.per == "element" else "[0]")
        lines = tree_sum(x.value.T if to == "column" else x.value)
        total = tree_sum(lines) if x.per == "element" and to == "tensor" else lines
        type = "tensor<f32>" if to == "tensor" else _TYPES[to]
        result = self.emit(
            f"linalg.reduce {{ arith.addf }} ins({x.name} : {_TYPES[x.per]}) outs("
            f"%zero_{to} : {type}) dimensions = {dimensions}", to, total, is_wide=True)
        if to != "tensor":
            return result
        return self.emit(f"tensor.extract {result.name}[] : tensor<f32>", to, total,
                         is_wide=True)

    def step(self):
        """Adds a value to the pool."""
        rng, kind = self.rng, self.rng.random()
        x = rng.choice(self.pool)
        if kind < 0.3 and x.per != "tensor":
            to = rng.choice(("row", "column", "tensor") if x.per == "element"
                            else ("tensor",))
            self.pool.append(self.sum(x, to))
            return
        op = rng.choice(list(_OPERATIONS))
        args = [x] if op in _UNARY else [x, self.other(kind)]
        rng.shuffle(args)
        self.pool.append(self.apply(op, *args))

    def other(self, kind):
        if kind > 0.9:
            return self.size()
        return self.literal() if kind > 0.8 else self.rng.choice(self.pool)

    def result(self, per):
        """Returns a new value for a tensor, which is not its old value."""
        fits = [x for x in self.pool if _join(x.per, per) == per]
        return self.spread(self.rng.choice(fits[-4:]), per)


#===----------------------------------------------------------------------===#
# Whole graphs
#===----------------------------------------------------------------------===#

_HEADER = """  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %param, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %param, %c1 : tensor<?x?xf32>
  %zero = arith.constant 0.0 : f32
  %zero_tensor = arith.constant dense<0.0> : tensor<f32>
  %none_row = tensor.empty(%rows) : tensor<?xf32>
  %none_column = tensor.empty(%columns) : tensor<?xf32>
  %none_element = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %zero_row = linalg.fill ins(%zero : f32) outs(%none_row : tensor<?xf32>) -> tensor<?xf32>
  %zero_column = linalg.fill ins(%zero : f32) outs(%none_column : tensor<?xf32>) -> tensor<?xf32>
"""

# Names for which the model knows a moment.
_ROLES = {"param": ("param", "element"), "grad": ("grad", "element"),
          "row_var": ("state", "row"), "col_var": ("state", "column")}


def _choose_strategy(rng):
    """Chooses storages, none of which is updated in parts."""
    component = rng.choice(("bf16", "f16", None, None, None))
    if component:
        return Strategy(*[rng.choice((Plain(component), Plain("f32"))) for _ in range(4)],
                        component)
    codes = (FloatCode("f8E4M3FN"), SoftsignCode(), RootCode(), PairCode("f8E5M2"),
             ExpandedCode(FloatCode("f8E4M3FN"), 28672.0), LinearCode(4),
             MinifloatCode(2, 1, specials="none"))

    def choose():
        scaled = Scaled(rng.choice(codes), rng.choice((16, 32, 128, WHOLE)),
                        rng.choice(("f32", "bf16", "f16")))
        return rng.choice((Plain("f32"), Plain("bf16", "stochastic"), Remainder(),
                           Expansion("bf16"), scaled, scaled, scaled))

    return Strategy(Plain(rng.choice(("f32", "bf16"))), choose(), choose(), choose())


def _read(example, role, storage, kind, component, seed):
    """Returns a role's planes and the value that a graph reads."""
    rng, shape = np.random.default_rng([seed, len(role)]), example.shape
    own = shape_of(_ROLES[role][1], shape)
    values = (rng.standard_normal(own) * np.exp2(rng.uniform(-2, 2, own))).astype(_F32)
    if kind == "special":
        special = rng.choice([0.0, -0.0, np.inf, np.nan, 3e38, 1e-40], own).astype(_F32)
        values = np.where(rng.random(own) < 0.02, special, values)
    with np.errstate(all="ignore"):
        planes = storage.encode(role, values.reshape(-1), Draw())
        value = storage.decode(planes, role)[:int(np.prod(own))]
    example.planes |= shaped(storage, role, planes, own)
    value = Arithmetic(component).round(value) if component else value
    return Value(f"%{role}", _ROLES[role][1], value.reshape(own))


def _text(name, writer, results):
    arguments = ", ".join(
        f"%{role}: {_TYPES[per]} {{tandem.role = #tandem.role<{kind} \"{role}\""
        + (f", moment = second, per = {per}" if kind == "state" else "") + ">}"
        for role, (kind, per) in _ROLES.items())
    types = ", ".join(_TYPES[x.per] for x in results)
    names = ", ".join(x.name for x in results)
    return (f"func.func @{name}({arguments}) -> ({types}) {{\n{_HEADER}  "
            + "\n  ".join(writer.lines) + f"\n  return {names} : {types}\n}}\n")


def generate(seed, draw=Draw()):
    """Generates the same graph, strategy and data for the same seed."""
    rng = random.Random(seed)
    example = MatrixExample((rng.choice((1, 2, 5, 9, 16, 33)),
                             rng.choice((1, 3, 16, 17, 70, 140))))
    example.strategy = _choose_strategy(rng)
    component = example.strategy.component
    writer = _Writer(rng, example.shape, component, example.features)
    storages = {role: storage_of(example.strategy, role, per, example.shape)
                for role, (_, per) in _ROLES.items()}
    kind = rng.choice(("ordinary", "special"))
    writer.pool = [_read(example, role, storage, kind, component, seed)
                   for role, storage in storages.items()]
    for _ in range(rng.randint(6, 24)):
        writer.step()
    updated = [role for role in _ROLES if role != "grad"]
    results = [writer.result(_ROLES[role][1]) for role in updated]
    example.text = _text(f"random{seed}", writer, results)
    for role, x in zip(updated, results):
        with np.errstate(all="ignore"):
            value = writer.arith.round(x.value.reshape(-1))
            planes = storages[role].encode(role, value, draw)
        example.want |= shaped(storages[role], role, planes, x.value.shape)
    return example
