#===- with_torch.py - The programs in PyTorch ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the programs in PyTorch, eagerly and compiled by Inductor for the CPU.
#
#===----------------------------------------------------------------------===#
"""Uses torch, eager and with torch.compile; sums of many addends are one compiled step each."""

import re

import numpy as np
import torch
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

import inputs
import programs

VARIANTS = {"eager": {}, "compile": {}, "compile, emulate_precision_casts": {}}
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def versions():
    return {"torch": torch.__version__}


def residual(a, b, p):
    """Computes the residual in f32, which is exact for 16-bit factors: torch has no fma."""
    return (a.float() * b.float() - p.float()).to(a.dtype)


def configuration(variant):
    return config.patch(emulate_precision_casts="emulate" in variant)


def program(case):
    if case.steps:
        return programs.STEPS[case.program]
    return lambda *planes: programs.apply(case, planes, residual)


def compiled(function, variant):
    """Returns the function as a variant runs it."""
    if variant == "eager":
        return function
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, dynamic=False)


def operands(case, planes):
    return [torch.from_numpy(plane.copy()).view(DTYPES[case.format])
            for plane in planes.values()]


def run(case, planes, variant):
    with configuration(variant), torch.no_grad():
        function = compiled(program(case), variant)
        arrays = operands(case, planes)
        if case.steps:
            *found, addends = arrays
            for addend in addends:
                found = function(*found, addend)
        else:
            found = function(*arrays)
    return [plane.view(torch.int16).numpy().view(np.uint16) for plane in found]


def arithmetic(code):
    """Returns the first loop of Inductor's C++, which handles a vector of elements."""
    begin = code.index('extern "C"')
    found = re.findall(r"(?m)^\s*((?:auto )?tmp.*;)$", code[begin:])
    last = max(i for i, line in enumerate(found) if ".store(out_ptr1" in line)
    return "\n".join(found[:last + 1]) + "\n"


def evidence(variant):
    if variant == "eager":
        return {}
    found = {}
    with configuration(variant), torch.no_grad():
        for name in ("two_sum_bf16", "two_prod_bf16"):
            case = programs.CASES[name]
            function = compiled(program(case), variant)
            _, (code,) = run_and_get_code(function,
                                          *operands(case, inputs.planes(case)))
            found[name] = arithmetic(code)
    return found
