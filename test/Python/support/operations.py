#===- operations.py - Kernels of mcf operations ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements hand-written kernels that apply mcf operations to planes, with one tensor for
# each operand and each result.
#
#===----------------------------------------------------------------------===#
"""`kernel_text(type, operations)` returns a kernel; the file also makes its planes."""

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import tandem
from model.formats import lookup

SUFFIXES = ("", ".lo", ".lo2")
#: The operands: components a and b, expansions x and y, reals w and v.
COMPONENTS, EXPANSIONS, REALS = ("a", "b"), ("x", "y"), ("w", "v")


@dataclass(frozen=True)
class Type:
    """An expansion type by the formats of its components."""

    formats: tuple

    @property
    def leading(self):
        return self.formats[0]

    @property
    def is_mixed(self):
        return self.formats[-1] != self.leading

    @property
    def parameters(self):
        if self.is_mixed:
            return ", ".join(self.formats)
        return f"{self.leading} x {len(self.formats)}"

    def __str__(self):
        return f"!mcf.expansion<{self.parameters}>"


def uniform(format, length=2):
    return Type((format,) * length)


#===----------------------------------------------------------------------===#
# Operations: operands (MLIR text) and results
#===----------------------------------------------------------------------===#

_PAIR = {
    "fast_two_sum": "mcf.fast_two_sum %a, %b granted : {t}",
    "two_sum": "mcf.two_sum %a, %b : {t}",
    "ungranted": "mcf.fast_two_sum %a, %b : {t}",
    "two_prod": "mcf.two_prod %a, %b : {t}",
    "two_prod_dekker": "mcf.two_prod_dekker %a, %b : {t}",
    "split": "mcf.split %a : {t}",
    "kahan": "mcf.kahan %x, %a : {t}",
}
_ANY = {
    "grow": "mcf.grow %x, %a : {t}",
    "scale": "mcf.scale %x, %a : {t}",
    "mul": "mcf.mul %x, %y : {t}",
    "add": "mcf.add %x, %y : {t}",
    "sub": "mcf.sub %x, %y : {t}",
    "div": "mcf.div %x, %y : {t}",
    "sqrt": "mcf.sqrt %x : {t}",
    "neg": "mcf.neg %x : {t}",
    "renormalize": "mcf.renormalize %x : {t}",
    "constant": "mcf.constant 0.99900001 : {t}",
    "from_f64": "mcf.from_float %w64 : f64 -> {t}",
}
_NARROW = {"from_f32": "mcf.from_float %w : f32 -> {t}"}
_MIXED = {"narrow": "mcf.convert %wide : {u} -> {t}"}
_WIDE = {"widen": "mcf.convert %x : {t} -> {u}"}
#: Operations whose result is not an expansion.
_OTHER = ("compare", "to_f32", "to_f64")
PREDICATES = ("eq", "lt", "le", "gt", "ge")


def operations_of(type):
    """Returns the names of all operations of a type."""
    names = list(_ANY) + list(_OTHER)
    if len(type.formats) == 2 and not type.is_mixed:
        names += _PAIR
    if type.leading != "f32":
        names += _NARROW
    if type.is_mixed:
        names += [*_MIXED, *_WIDE]
    return names


def _expression(type, name):
    """Returns the MLIR text of an operation and the type of its result."""
    wide = uniform(type.leading, 2)
    if name in _WIDE:
        return _WIDE[name].format(t=type, u=wide), wide
    every = _PAIR | _ANY | _NARROW | _MIXED
    return every[name].format(t=type, u=wide), type


#===----------------------------------------------------------------------===#
# Tensors
#===----------------------------------------------------------------------===#


@dataclass(frozen=True)
class Tensor:
    """One tensor of the kernel: its storage and the formats of its planes."""

    name: str
    storage: str
    formats: tuple
    role: str = "grad"

    @property
    def stored(self):
        return f"!tandem.stored<tensor<?xf32>, {self.storage}>"

    @property
    def planes(self):
        return {self.name + s: f for s, f in zip(SUFFIXES, self.formats)}

    def load(self, index):
        value = f"%{self.name}{index}" if len(self.formats) > 1 else f"%{self.name}"
        return (f"  {value} = tandem.load_plane %t_{self.name}[{index}] : {self.stored}"
                f" -> {self.formats[index]}")

    def store(self, index, value, type=None):
        return (f"  tandem.store_plane {value}, %t_{self.name}[{index}] : "
                f"{type or self.formats[index]}, {self.stored}")


def _plain(name, format, role="grad"):
    return Tensor(name, f"#tandem.float<{format}>", (format,), role)


def _expansion(name, type, role="grad"):
    return Tensor(name, f"#tandem.expansion<{type.parameters}>", type.formats, role)


def inputs_of(type):
    """Returns the tensors that a kernel of the type reads, by the operand's name."""
    found = {n: _plain(n, type.leading) for n in COMPONENTS}
    found |= {n: _expansion(n, type) for n in EXPANSIONS}
    return found | {n: _plain(n, "f32") for n in REALS}


def _results(type, name):
    if name == "compare":
        return [_plain("r_compare", "f8E4M3FN", "state")]
    if name == "to_f32":
        return [_plain("r_to_f32", "f32", "state")]
    if name == "to_f64":
        return [_plain(f"r_to_f64_{half}", "f32", "state") for half in ("high", "low")]
    return [_expansion(f"r_{name}", _expression(type, name)[1], "state")]


#===----------------------------------------------------------------------===#
# The kernel
#===----------------------------------------------------------------------===#


def _load(type, inputs):
    lines = []
    for tensor in inputs:
        lines += [tensor.load(i) for i in range(len(tensor.formats))]
        if tensor.name in EXPANSIONS:
            parts = ", ".join(f"%{tensor.name}{i}" for i in range(len(type.formats)))
            lines.append(f"  %{tensor.name} = mcf.pack {parts} : {type}")
    return lines


def _compare(type, result):
    """Packs the predicates' results into five bits of a byte."""
    lines = ["  %sum0 = arith.constant 0 : i8"]
    for i, predicate in enumerate(PREDICATES):
        lines += [f"  %c{i} = mcf.compare {predicate}, %x, %y : {type}",
                  f"  %bit{i} = arith.constant {1 << i} : i8",
                  f"  %none{i} = arith.constant 0 : i8",
                  f"  %set{i} = arith.select %c{i}, %bit{i}, %none{i} : i8",
                  f"  %sum{i + 1} = arith.addi %sum{i}, %set{i} : i8"]
    return lines + [result.store(0, f"%sum{len(PREDICATES)}", "i8")]


def _to_f32(type, result):
    return [f"  %f32 = mcf.to_float %x : {type} -> f32", result.store(0, "%f32")]


def _to_f64(type, high, low):
    """Stores an f64 as the nearest f32 and the f32 remainder."""
    return [f"  %f64 = mcf.to_float %x : {type} -> f64",
            "  %high = arith.truncf %f64 : f64 to f32",
            "  %back = arith.extf %high : f32 to f64",
            "  %rest = arith.subf %f64, %back : f64",
            "  %low = arith.truncf %rest : f64 to f32",
            high.store(0, "%high"), low.store(0, "%low")]


def _apply(type, name, results):
    special = {"compare": _compare, "to_f32": _to_f32, "to_f64": _to_f64}
    if name in special:
        return special[name](type, *results)
    text, result_type = _expression(type, name)
    lines = []
    if "%w64" in text:  # a real number of more than 24 bits
        lines = ["  %w0 = arith.extf %w : f32 to f64",
                 "  %v0 = arith.extf %v : f32 to f64",
                 "  %w64 = arith.addf %w0, %v0 : f64"]
    if "%wide" in text:
        lines = [f"  %wide = mcf.pack %a, %b : {uniform(type.leading)}"]
    parts = [f"%{name}{i}" for i in range(len(result_type.formats))]
    return [*lines, f"  %{name} = {text}",
            f"  {', '.join(parts)} = mcf.components %{name} : {result_type}",
            *[results[0].store(i, part) for i, part in enumerate(parts)]]


@dataclass(frozen=True)
class OperationKernel:
    """The text and tensors of a kernel."""

    text: str
    inputs: tuple
    results: tuple

    @lru_cache(maxsize=None)
    def compile(self, target="cpu", isa="native"):
        return tandem.compile(self.text, target=target, isa=isa)

    def planes(self, operands):
        """Returns the kernel's planes, given each operand's arrays by name."""
        planes, size = {}, len(next(iter(operands.values()))[0])
        for tensor in self.inputs:
            given = operands.get(tensor.name)
            for i, (name, format) in enumerate(tensor.planes.items()):
                dtype = lookup(format).dtype
                plane = np.zeros(size, dtype) if given is None else given[i]
                assert plane.dtype == dtype, name
                planes[name] = plane
        for tensor in self.results:
            planes |= {name: np.zeros(size, lookup(format).dtype)
                       for name, format in tensor.planes.items()}
        return planes


@lru_cache(maxsize=None)
def operation_kernel(type, names):
    """Returns a kernel that applies operations, each to the same operands."""
    results = {name: _results(type, name) for name in names}
    flat = [tensor for tensors in results.values() for tensor in tensors]
    body = [line for name in names for line in _apply(type, name, results[name])]
    used = set(re.findall(r"%(\w+)", "\n".join(body)))
    inputs = [t for name, t in inputs_of(type).items() if name in used]
    tensors = [*inputs, *flat]
    # The one of the two policies that allows planes of these formats.
    policy = "f32, f32" if lookup(type.leading).bits == 8 else f"component, {type.leading}"
    roles = ", ".join(f'#tandem.role<{t.role} "{t.name}">' for t in tensors)
    arguments = ", ".join(f"%t_{t.name}: {t.stored}" for t in tensors)
    lines = [f"tandem.kernel @operations compute(<{policy}>)",
             f"    tensors [{roles}] scalars [] prologue {{", "  tandem.yield",
             "} body {", f"^bb0({arguments}):", *_load(type, inputs), *body,
             "  tandem.yield", "}", ""]
    return OperationKernel("\n".join(lines), tuple(inputs), tuple(flat))
