#===- kernels.py - Run compiled kernels on arrays of bits ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compiles kernels for tests, runs them on planes of bits, and compares planes.
#
#===----------------------------------------------------------------------===#
"""Compiles and caches kernels by name, and launches them without changing their inputs."""

import platform
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import tandem
from model import Strategy
from model.codes import (DynamicCode, ExpandedCode, FloatCode, LinearCode, MinifloatCode,
                         MuLawCode, PairCode, SoftsignCode)
from model.scaled import ROW, WHOLE, Coded, Masked, Residual, Scaled
from model.storage import Expansion, Kahan, Master, Plain, Remainder

STEP, SEED = 7, 0x1234_5678_9ABC
#: The files of model.OUTSIDE_STRATEGIES, which are not in the library.
STRATEGY_PATH = Path(__file__).resolve().parents[1] / "Inputs/strategies"


@lru_cache(maxsize=None)
def compiled(graph, strategy, target="cpu", isa="native", width=0, path=(),
             metrics=False, flags=False, weight_average=False):
    """Calls tandem.compile once per process for the same arguments. STRATEGY_PATH is searched
    after the path."""
    return tandem.compile(graph, strategy, target, path=(*path, STRATEGY_PATH), isa=isa,
                          width=width, metrics=metrics, flags=flags,
                          weight_average=weight_average)


def seed_of(*names):
    """Returns a seed that is the same in every process, unlike hash()."""
    return zlib.crc32("/".join(map(str, names)).encode())


def integers_of(kernel, step=STEP, seed=SEED):
    """Returns values for the step and the seed, if the kernel takes them."""
    kinds = {"STEP": step, "SEED": seed}
    return {name: kinds[kind.name] for name, kind in kernel.integers.items()}


def run(kernel, planes, hypers, step=STEP, seed=SEED, key=0, first=0, threads=1):
    """Returns the planes after one step without modifying `planes`."""
    arrays = {name: plane.copy() for name, plane in planes.items()}
    kernel(arrays, key=key, first=first, threads=threads, **hypers,
           **integers_of(kernel, step, seed))
    return arrays


def run_plan(kernel, tensors, rows, row_of=None, keys=None, firsts=None, threads=1):
    """Returns the planes of many tensors after one launch without modifying `tensors`. `rows`
    holds hyperparameters, `row_of` the row of each tensor."""
    arrays = [{n: p.copy() for n, p in planes.items()} for planes in tensors]
    plan = tandem.Plan(kernel)
    measure = next(p.name for p in kernel.planes if p.group == 1)
    plan.update([len(planes[measure]) for planes in tensors],
                [[planes[p.name].ctypes.data for p in kernel.planes] for planes in arrays],
                rows=row_of, keys=keys, firsts=firsts)
    scalars = [kernel.scalars(row | integers_of(kernel)) for row in rows]
    plan.launch([h for h, _ in scalars], [i for _, i in scalars], threads=threads)
    return arrays


def assert_same(got, want, context=""):
    """Asserts that every plane of `want` has the same bits in `got`."""
    for name, expected in want.items():
        assert got[name].dtype == expected.dtype, f"{context}: dtype of {name}"
        wrong = np.argwhere(got[name] != expected)
        if len(wrong):
            i = tuple(wrong[0].tolist())
            pytest.fail(f"{context}: plane '{name}' differs in {len(wrong)} of "
                        f"{expected.size} elements, first at {', '.join(map(str, i))}: "
                        f"want {int(expected[i]):#x}, got {int(got[name][i]):#x}")


def check_all(got, before, want, context):
    """Checks that each tensor's planes have changed only as wanted."""
    for i, (planes, new) in enumerate(zip(before, want)):
        assert_same(got[i], planes | new, f"{context}, tensor {i}")


def assert_kernel(kernel, planes, want, hypers, context, **options):
    """Asserts that a launch gives `want` and does not change its inputs."""
    got = run(kernel, planes, hypers, **options)
    assert_same(got, want, context)
    assert_same(got, {n: p for n, p in planes.items() if n not in want},
                f"{context}: read-only")


#===----------------------------------------------------------------------===#
# Instruction sets
#===----------------------------------------------------------------------===#

# The features that each level adds to the previous one, with the system's names, for this
# machine's architecture.
_NEEDS = {
    "x86-64": set(),
    "x86-64-v3": {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
} if platform.machine() in ("x86_64", "AMD64") else {"aarch64": set()}
#: The instruction sets that compiled code is compared for.
ISAS = tuple(_NEEDS)
#: The instruction set of every processor of this architecture.
BASELINE = ISAS[0]
#: The instruction sets of this architecture that packages can have images for.
IMAGES = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4") if len(ISAS) > 1 else ISAS


@lru_cache(maxsize=None)
def cpu_flags():
    """Returns the features of this CPU; empty if the system does not list them. An emulator shows
    those of the machine that it runs on, under the other architecture's title."""
    title = "Features" if BASELINE == "aarch64" else "flags"
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(title):
                    return frozenset(line.split(":")[1].split())
    except OSError:
        pass
    return frozenset()


def require_isa(isa):
    """Skips the test if this CPU lacks part of the instruction set; it has all of "native"."""
    if isa == "native":
        return
    if isa not in ISAS:
        pytest.skip(f"{isa} is of an architecture other than {platform.machine()}")
    needs = set().union(*(_NEEDS[name] for name in _NEEDS if name <= isa))
    missing = sorted(needs - cpu_flags())
    if missing:
        pytest.skip(f"this CPU has no {', '.join(missing)}, which {isa} needs")


#===----------------------------------------------------------------------===#
# Strategy files
#===----------------------------------------------------------------------===#


def _minifloat_text(code):
    exponents = list(code.exponents) if code.exponents else None
    parameters = {"exponent": code.exponent, "mantissa": code.mantissa,
                  "bias": code.bias, "specials": code.specials,
                  "rounding": code.rounding, "exponents": exponents}
    return ", ".join(f"{k} = {v}" for k, v in parameters.items() if v is not None)


def _parameters(*values, rounding):
    """Formats the parameters of an attribute, with the rounding only if it is not the default."""
    values += (rounding,) if rounding != "nearest" else ()
    return f"<{', '.join(values)}>" if values else ""


def code_text(code):
    """Returns a code of the model in MLIR syntax."""
    if isinstance(code, ExpandedCode):
        base = code.base
        plain = isinstance(base, FloatCode) and base.rounding == "nearest"
        inner = base.format if plain else code_text(base)
        return f"#scaled.expanded<{inner}, range = {code.range}>"
    if isinstance(code, MinifloatCode):
        return f"#scaled.minifloat<{_minifloat_text(code)}>"
    if isinstance(code, (DynamicCode, MuLawCode)):
        name = "dynamic" if isinstance(code, DynamicCode) else "mulaw"
        values = ["signed" if code.signed else "unsigned"]
        if getattr(code, "size", 8) != 8:
            return f"#scaled.{name}<{values[0]}, {code.rounding}, bits = {code.size}>"
    elif isinstance(code, LinearCode):
        name, values = "linear", [f"bits = {code.size}"]
    elif isinstance(code, (FloatCode, PairCode)):
        name = "float" if isinstance(code, FloatCode) else "pair"
        values = [code.format]
    else:
        name, values = "softsign" if isinstance(code, SoftsignCode) else "root", []
    return f"#scaled.{name}{_parameters(*values, rounding=code.rounding)}"


def storage_text(storage):
    """Returns a storage of the model in MLIR syntax."""
    if isinstance(storage, Plain):
        return f"#tandem.float{_parameters(storage.format, rounding=storage.rounding)}"
    if isinstance(storage, Expansion):
        return f"#tandem.expansion<{storage.format} x {storage.count}>"
    if isinstance(storage, Kahan):
        return f"#tandem.kahan<{storage.format}>"
    if isinstance(storage, Master):
        return f"#tandem.master<{storage.format}>"
    if isinstance(storage, Residual):
        return "#tandem.residual" + _parameters(storage.format, storage.residual,
                                                rounding=storage.rounding)
    if isinstance(storage, Scaled):
        group = {WHOLE: "tensor", ROW: "row"}.get(storage.group, storage.group)
        if storage.rows > 1:
            group = f"{storage.rows}x{group}"
        return (f"#tandem.scaled<{code_text(storage.code)}, group = {group}, "
                f"scale = {storage.scale}, recipe = {storage.recipe}, "
                f"history = {storage.history}, margin = {storage.margin}"
                f"{', tensor_scale = true' if storage.tensor_scale else ''}>")
    if isinstance(storage, Coded):
        return f"#tandem.coded<{code_text(storage.code)}>"
    if isinstance(storage, Masked):
        return f"#tandem.masked<{storage.format}, {code_text(storage.code)}>"
    assert isinstance(storage, Remainder)
    return "#tandem.remainder"


def strategy_text(name, strategy: Strategy):
    """Returns a strategy of the model as MLIR text."""
    policy = (f"<component, {strategy.component}>" if strategy.component
              else "<f32, f32>")
    factors = strategy.factors and [
        f"  tandem.assign state per({per}) = {storage_text(strategy.factors)}"
        for per in ("row", "column")]
    return "\n".join([
        f'tandem.strategy @"{name}" compute({policy}) {{', *(factors or []),
        f"  tandem.assign grad = {storage_text(strategy.grad)}",
        f"  tandem.assign param = {storage_text(strategy.param)}",
        f"  tandem.assign state moment(second) = {storage_text(strategy.second)}",
        f"  tandem.assign state = {storage_text(strategy.first)}",
        "}", ""])


def write_strategies(directory, table):
    """Writes <name>.mlir for each strategy of a table."""
    for name, strategy in table.items():
        (directory / f"{name}.mlir").write_text(strategy_text(name, strategy))
