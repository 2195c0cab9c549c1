#===- with_triton.py - The programs in Triton ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the programs in Triton: in its interpreter, and as the PTX that it generates for
# sm_90, which Tandem's PTX evaluator executes.
#
#===----------------------------------------------------------------------===#
"""Uses Triton without a GPU: TRITON_INTERPRET=1, and PTX in an evaluator."""

import re
import types

import numpy as np
import triton
import triton.language as tl

import programs

VARIANTS = {
    "interpreter": {"TRITON_INTERPRET": "1"},
    "sm_90": {},
    "sm_90, enable_fp_fusion=False": {},
}
BLOCK = 128
POINTERS = {"bf16": "*bf16", "f16": "*fp16"}


def versions():
    return {"triton": triton.__version__}


@triton.jit
def residual(a, b, p):
    return tl.fma(a, b, -p)


def jitted(function):
    """Returns a jitted program whose calls of other programs resolve to those of this file."""
    return triton.jit(types.FunctionType(function.__code__, globals()))


two_sum, fast_two_sum, two_prod, split, two_prod_dekker, mul, kahan, grow = (
    jitted(function) for function in (
        programs.two_sum, programs.fast_two_sum, programs.two_prod, programs.split,
        programs.two_prod_dekker, programs.mul, programs.kahan, programs.grow))


@triton.jit
def pairs(pa, pb, pc, pd, ps, pe, n, PROGRAM: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(pa + i, mask=inside)
    b = tl.load(pb + i, mask=inside)
    if PROGRAM == "two_sum":
        s, e = two_sum(a, b)
    elif PROGRAM == "fast_two_sum":
        s, e = fast_two_sum(a, b)
    elif PROGRAM == "two_prod":
        s, e = two_prod(a, b, residual)
    elif PROGRAM == "two_prod_dekker":
        s, e = two_prod_dekker(a, b, tl.load(pc))
    else:
        s, e = mul(a, b, tl.load(pc + i, mask=inside), tl.load(pd + i, mask=inside),
                   residual)
    tl.store(ps + i, s, mask=inside)
    tl.store(pe + i, e, mask=inside)


@triton.jit
def steps(px, py, pa, pd, ps, pe, n, PROGRAM: tl.constexpr, BLOCK: tl.constexpr,
          COUNT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(px + i, mask=inside)
    y = tl.load(py + i, mask=inside)
    for t in range(COUNT):
        a = tl.load(pa + t * n + i, mask=inside)
        if PROGRAM == "kahan":
            x, y = kahan(x, y, a)
        else:
            x, y = grow(x, y, a)
    tl.store(ps + i, x, mask=inside)
    tl.store(pe + i, y, mask=inside)


def constants(case):
    found = {"PROGRAM": case.program, "BLOCK": BLOCK}
    return found | ({"COUNT": case.steps} if case.steps else {})


def arguments(case, planes):
    """Returns four operands; programs with fewer get the last one repeated."""
    arrays = list(planes.values())
    return arrays + arrays[-1:] * (4 - len(arrays))


def interpret(case, planes):
    import torch

    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[case.format]
    operands = [torch.from_numpy(plane.copy()).view(dtype)
                for plane in arguments(case, planes)]
    found = [torch.zeros(case.size, dtype=dtype) for _ in range(2)]
    grid = (triton.cdiv(case.size, BLOCK),)
    (steps if case.steps else pairs)[grid](*operands, *found, case.size,
                                           **constants(case))
    return [plane.view(torch.int16).numpy().view(np.uint16) for plane in found]


def compiled(case, variant):
    """Compiles a case with Triton for sm_90 and returns its PTX and cubin."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = steps if case.steps else pairs
    signature = {name: POINTERS[case.format] if name[0] == "p" else "i32"
                 for name in function.arg_names[:7]}
    fixed = constants(case)
    source = ASTSource(fn=function, signature=signature | dict.fromkeys(fixed, "constexpr"),
                       constexprs=fixed)
    options = {"num_warps": BLOCK // 32}
    if "enable_fp_fusion" in variant:
        options["enable_fp_fusion"] = False
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm


def plain(ptx):
    """Returns PTX in the spelling that the evaluator reads: without debug information, and with
    an explicit .rn on additions and products, whose default rounding it is."""
    ptx = ptx[:ptx.index("\n}\n") + 3]
    ptx = re.sub(r"(?m)^\s*\.(loc|file)\b.*\n", "", ptx)
    ptx = re.sub(r"\{ (%\w+) \}", r"\1", ptx)
    ptx = re.sub(r"\[ (%\w+) \+ 0 \]", r"[\1]", ptx)
    return re.sub(r"\b(add|sub|mul)\.(bf16|f16|f32)\b", r"\1.rn.\2", ptx)


def evaluate(case, planes, variant):
    from tandem import _tandem

    operands = [np.ascontiguousarray(plane) for plane in arguments(case, planes)]
    found = [np.zeros(case.size, np.uint16) for _ in range(2)]
    arrays = [*operands, *found]
    regions = {plane.ctypes.data: (f"plane{i}", plane.ctypes.data, plane.nbytes, i > 3)
               for i, plane in enumerate(arrays)}
    parameters = [plane.ctypes.data for plane in arrays] + [case.size, 0, 0]
    _tandem.evaluate_ptx(plain(compiled(case, variant)["ptx"]),
                         "steps" if case.steps else "pairs", parameters,
                         triton.cdiv(case.size, BLOCK), BLOCK, list(regions.values()))
    return found


def run(case, planes, variant):
    if variant == "interpreter":
        return interpret(case, planes)
    return evaluate(case, planes, variant)


def arithmetic(ptx):
    """Returns the floating-point instructions of PTX."""
    found = re.findall(r"(?m)^\s*((?:add|sub|mul|fma|neg|cvt)\S*f(?:16|32).*;)", ptx)
    return "\n".join(re.sub(r"\s+", " ", line) for line in found) + "\n"


def evidence(variant):
    if variant == "interpreter":
        return {}
    return {name: arithmetic(compiled(programs.CASES[name], variant)["ptx"])
            for name in ("two_sum_bf16", "two_prod_bf16", "two_prod_dekker_bf16",
                         "mul_bf16")}
