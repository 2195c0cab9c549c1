#===- report_steps.py - Steps that reports are tried with ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements what the tests of users' reports share: parameters with a copy in float64,
# gradients for both, and the error of one against the other.
#
#===----------------------------------------------------------------------===#
"""Makes pairs of parameters, of which torch.optim trains one in float64."""

import torch

from support.torch_bits import VISIBLE, params_of, parameters

#: The strategies of Tandem's library whose weights and gradients have a PyTorch dtype; tests have
#: further ones, with weights in f16.
LIBRARY = [name for name in VISIBLE
           if not name.startswith("f16") or name in ("f16-fp32-optim", "f16-master-weights")]


def pair(shapes, dtype=torch.float32, seed=0):
    """Returns random parameters, and copies of them in float64."""
    ours = parameters(shapes, dtype, seed)
    return ours, [torch.nn.Parameter(p.detach().double()) for p in ours]


def values(params):
    return [p.detach().double().clone() for p in params]


def set_alike(ours, theirs, seed, scale=1e-2):
    """Sets the same random gradients, rounded to the type of `ours`, for both."""
    generator = torch.Generator().manual_seed(seed)
    for p, q in zip(ours, theirs, strict=True):
        grad = (torch.randn(p.shape, generator=generator) * scale).to(p.dtype)
        p.grad, q.grad = grad, grad.to(q.dtype)


def run_alike(ours, theirs, seeds, after=lambda: None):
    """Takes the same steps with two optimizers, and calls `after` when both have taken one."""
    for seed in seeds:
        set_alike(params_of(ours), params_of(theirs), seed)
        ours.step()
        theirs.step()
        after()


def error(params, want, start):
    """Returns how far parameters are from where they should be, for each of the distance moved."""
    params, want = list(params), list(want)
    apart = sum((p.detach().double() - q.detach().double()).norm() ** 2
                for p, q in zip(params, want, strict=True))
    moved = sum((q.detach().double() - s).norm() ** 2 for q, s in zip(want, start, strict=True))
    assert moved > 0
    return float((apart / moved) ** 0.5)
