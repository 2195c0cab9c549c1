#===- with_jax.py - The programs in JAX ----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the programs in JAX, compiled by XLA for the CPU.
#
#===----------------------------------------------------------------------===#
"""Uses jax.jit on the CPU; the sum of many addends is one compiled scan."""

import os
import re

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

import inputs
import programs
from inputs import view

#: XLA reads its flags only once, when it is loaded.
VARIANTS = {
    "jit": {},
    "jit, xla_allow_excess_precision=false": {
        "XLA_FLAGS": "--xla_allow_excess_precision=false"},
    "jit, and xla_cpu_max_isa=AVX2": {
        "XLA_FLAGS": "--xla_allow_excess_precision=false --xla_cpu_max_isa=AVX2"},
    "op by op": {},
}


def versions():
    return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}


def residual(a, b, p):
    """Computes the residual in f32, which is exact for 16-bit factors: jax.numpy has no fma."""
    wide = a.astype(jnp.float32) * b.astype(jnp.float32) - p.astype(jnp.float32)
    return wide.astype(a.dtype)


def program(case):
    """Returns the function to compile: a program on pairs, or a loop over all steps."""
    if not case.steps:
        return lambda planes: programs.apply(case, planes, residual)
    step = programs.STEPS[case.program]

    def steps(planes):
        x, y, addends = planes
        return jax.lax.scan(lambda state, a: (step(*state, a), None), (x, y),
                            addends)[0]

    return steps


def operands(case, planes):
    return [jnp.asarray(view(case.format, plane)) for plane in planes.values()]


def stepped(case, planes):
    """Runs each operation separately, and each step from Python."""
    if not case.steps:
        return program(case)(planes)
    x, y, addends = planes
    for addend in addends:
        x, y = programs.STEPS[case.program](x, y, addend)
    return x, y


def run(case, planes, variant):
    function = program(case)
    found = (stepped(case, operands(case, planes)) if variant == "op by op"
             else jax.jit(function)(operands(case, planes)))
    return [np.asarray(plane).view(np.uint16) for plane in found]


def optimized(case):
    """Returns the HLO that XLA compiles to machine code, without metadata."""
    compiled = jax.jit(program(case)).lower(operands(case, inputs.planes(case)))
    lines = compiled.compile().as_text().splitlines()
    kept = [re.sub(r", (metadata|backend_config)=\{.*", "", line) for line in lines
            if re.match(r"%|ENTRY|  |\}", line)]
    return "\n".join(kept) + "\n"


def evidence(variant):
    if variant == "op by op":
        return {}
    return {name: optimized(programs.CASES[name])
            for name in ("two_sum_bf16", "two_prod_bf16", "mul_f16")}
