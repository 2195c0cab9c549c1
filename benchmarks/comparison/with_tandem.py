#===- with_tandem.py - The programs in Tandem ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the programs as kernels of one mcf operation each, compiled for the CPU and to PTX,
# which Tandem's PTX evaluator executes.
#
#===----------------------------------------------------------------------===#
"""Uses tandem.compile on the CPU, and PTX in an evaluator."""

import pathlib
import re
import sys


ROOT = pathlib.Path(__file__).resolve().parents[2]
# The tests have the kernels of single operations and the PTX launcher that needs no GPU.
sys.path.append(str(ROOT / "test/Python"))

import tandem
from support.launch import Tensor, aligned_copy, launch
from support.operations import operation_kernel, uniform

import programs

VARIANTS = {"cpu": {}, "sm_80": {}, "sm_90": {}}


def versions():
    return {"tandem": tandem.__version__}


def kernel(case):
    return operation_kernel(uniform(case.format), (case.program,))


def operands(case, planes):
    """Returns the planes by operand: components a and b, expansions x and y."""
    if case.program == "mul":
        return {"x": [planes["a"], planes["a2"]], "y": [planes["b"], planes["b2"]]}
    if case.steps:
        return {"x": [planes["x"], planes["y"]], "a": [planes["a"][0]]}
    return {"a": [planes["a"]], "b": [planes["b"]]}


def execute(compiled, arrays):
    if compiled.target == "cpu":
        compiled(arrays)
    else:
        launch(compiled, [Tensor(arrays)], [{}], chunk_size=1024, threads=128)


def run(case, planes, variant):
    own = kernel(case)
    compiled = own.compile(variant)
    arrays = {name: aligned_copy(plane)
              for name, plane in own.planes(operands(case, planes)).items()}
    results = [arrays[f"r_{case.program}{suffix}"] for suffix in ("", ".lo")]
    for addend in planes["a"] if case.steps else [None]:
        if case.steps:
            arrays["a"][:] = addend
        execute(compiled, arrays)
        if case.steps:
            arrays["x"][:], arrays["x.lo"][:] = results
    return results


def arithmetic(text):
    found = re.findall(r"(?m)^\s*((?:add|sub|mul|fma|neg|cvt)\S*f(?:16|32).*;)", text)
    return "\n".join(re.sub(r"\s+", " ", line) for line in found) + "\n"


def body(ir):
    """Returns the operations between the kernel's loads and stores."""
    found = re.findall(r"(?m)^\s*(%\S+ = arith\.\w+f .*)$", ir)
    return "\n".join(found) + "\n"


def evidence(variant):
    compiled = {name: kernel(programs.CASES[name]).compile(variant)
                for name in ("two_sum_bf16", "mul_bf16")}
    return {name: body(k.ir) if variant == "cpu" else arithmetic(k.ptx)
            for name, k in compiled.items()}
