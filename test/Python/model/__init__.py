#===- __init__.py - A NumPy model of every kernel --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the entry points of the model package.
#
#===----------------------------------------------------------------------===#
"""Computes what every kernel computes, bit for bit, independently of the compiler.

    planes = cases.state("adamw", STRATEGIES["collage-plus"], "mixed", 1000)
    new = step("adamw", STRATEGIES["collage-plus"], planes,
               cases.hypers("adamw"), step=3)
"""

from . import arithmetic, cases, dither, formats, matrices, metrics, philox, scaled, storage
from .matrices import MATRIX_GRAPHS, matrix_plane_types, matrix_state, matrix_step
from .optimizers import (EXTERNAL_GRAPHS, GRAPHS, HOST, bytes_per_parameter, flags, plane_entries,
                         plane_groups, plane_types, smallest_group, step, steps,
                         takes_whole_tensors, trace, traces)
from .strategies import (BF16_STRATEGIES, OUTSIDE_STRATEGIES, SCALED_LIBRARY, SCALED_STRATEGIES,
                         STRATEGIES, TENSOR_LIBRARY, TENSOR_STRATEGIES, Strategy, role_draw)
