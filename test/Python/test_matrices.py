#===- test_matrices.py - Graphs of matrices --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tests of graphs with an entry for each row or column:
# the NumPy model against PyTorch's optimizer, the interpreter against the model.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

from model import MATRIX_GRAPHS, STRATEGIES, cases, matrix_state, matrix_step

SHAPES = ((1, 1), (1, 7), (7, 1), (3, 5), (64, 64), (33, 130), (257, 300))


def hypers_of(graph, **changed):
    return {name: cases.TYPICAL[name] for name in MATRIX_GRAPHS[graph].hypers} | changed


#===----------------------------------------------------------------------===#
# The model
#===----------------------------------------------------------------------===#


def by_torch(planes, grads, **options):
    """What torch.optim.Adafactor makes of f32 planes, after each step."""
    torch = pytest.importorskip("torch")
    param = torch.from_numpy(planes["param"].view(np.float32).copy())
    optimizer = torch.optim.Adafactor([param], **options)
    for grad in grads:
        param.grad = torch.from_numpy(grad)
        optimizer.step()
        state = optimizer.state[param]
        yield {"param": param.numpy(), "row_var": state["row_var"].numpy().reshape(-1),
               "col_var": state["col_var"].numpy().reshape(-1)}


@pytest.mark.parametrize("lr, d, decay, size", (
    (0.01, 1.2, 0.0, 1.0), (0.9, 1.0, 0.1, 1e-9), (0.2, 1e9, 0.5, 1e5)))
@pytest.mark.parametrize("shape", SHAPES)
def test_adafactor_against_torch(shape, lr, d, decay, size):
    """Updates that are clipped and such that are not; means and weights below their
    least; a step size of lr and then of 1/sqrt(t)."""
    rng = np.random.default_rng([shape[0], shape[1]])
    planes = {name: np.zeros(n, np.uint32) for name, n in
              zip(("param", "row_var", "col_var"), (shape, shape[0], shape[1]))}
    planes["param"] = (size * rng.standard_normal(shape)).astype(np.float32).view(np.uint32)
    grads = [(t * size * rng.standard_normal(shape)).astype(np.float32) for t in range(4)]
    want = by_torch(planes, grads, lr=lr, d=d, weight_decay=decay)
    for t, (grad, expected) in enumerate(zip(grads, want), 1):
        hypers = hypers_of("adafactor", lr=lr, rho=min(lr, t**-0.5), mixing=t**-0.8, d=d,
                           weight_decay=decay)
        planes["grad"] = grad.view(np.uint32)
        planes |= matrix_step("adafactor", STRATEGIES["fp32"], planes, hypers, t)
        for name, value in expected.items():
            assert planes[name].shape == value.shape
            assert np.allclose(planes[name].view(np.float32), value, rtol=1e-5,
                               atol=1e-6 * np.abs(value).max()), (name, t)
