#===- with_numpy.py - The programs in NumPy ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the programs in NumPy, with ml_dtypes' bfloat16, which rounds after each operation.
#
#===----------------------------------------------------------------------===#
"""Runs the programs in NumPy, operation by operation."""

import ml_dtypes
import numpy as np

import programs
from inputs import view

VARIANTS = {"": {}}


def versions():
    return {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__}


def residual(a, b, p):
    """Computes the residual in f32, which is exact for 16-bit factors: NumPy has no fma."""
    wide = a.astype(np.float32) * b.astype(np.float32) - p.astype(np.float32)
    return wide.astype(a.dtype)


def run(case, planes, variant):
    arrays = {name: view(case.format, plane) for name, plane in planes.items()}
    if not case.steps:
        found = programs.apply(case, arrays.values(), residual)
    else:
        found = arrays["x"], arrays["y"]
        for addend in arrays["a"]:
            found = programs.STEPS[case.program](*found, addend)
    return [plane.view(np.uint16) for plane in found]


def evidence(variant):
    return {}
