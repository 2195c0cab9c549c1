#===- with_numpy.py - The programs in NumPy ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the programs in NumPy, whose bfloat16 of ml_dtypes rounds
# after each operation.
#
#===----------------------------------------------------------------------===#
"""NumPy, operation by operation."""

import ml_dtypes
import numpy as np

import programs
from inputs import view

VARIANTS = {"": {}}


def versions():
    return {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__}


def residual(a, b, p):
    """There is no fma; the product of two 16-bit numbers is exact in f32."""
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
