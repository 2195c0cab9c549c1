#===- torch_bits.py - PyTorch tensors as planes of bits --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements what the tests of the PyTorch optimizers share.
#
#===----------------------------------------------------------------------===#
"""Makes parameters, gradients and states as bits, and compares optimizers bit by bit."""

import io

import numpy as np
import torch

from model import SCALED_LIBRARY, STRATEGIES
from model.storage import Plain

_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
_BITS = {1: (torch.int8, np.uint8), 2: (torch.int16, np.uint16), 4: (torch.int32, np.uint32),
         8: (torch.int64, np.uint64)}

LIBRARY = STRATEGIES | SCALED_LIBRARY
# The strategies whose weights and gradients have a PyTorch dtype.
VISIBLE = [name for name, strategy in LIBRARY.items() if isinstance(strategy.grad, Plain)]


# A strategy with f32 weights whose states are not f32.
WIDE = """
tandem.strategy @wide compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.expansion<bf16 x 2>
  tandem.assign state = #tandem.float<bf16>
}
"""


def bits(tensor):
    """Returns the bits of a tensor's elements in C order."""
    integer, unsigned = _BITS[tensor.element_size()]
    flat = tensor.detach().contiguous().view(integer).flatten()
    return flat.numpy().view(unsigned).copy()


def dtype_of(strategy):
    """Returns the dtype of a strategy's weights and gradients."""
    return _DTYPES[LIBRARY[strategy].grad.format]


def parameters(shapes, dtype=torch.bfloat16, seed=0):
    """Returns random parameters of these shapes."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
            for shape in shapes]


def placeholders(count):
    """Returns frozen parameters. Parameters after them have the same numbers, and so the same
    random bits, as after as many others."""
    return [torch.nn.Parameter(torch.zeros(1), requires_grad=False) for _ in range(count)]


def set_gradients(params, seed):
    """Sets random gradients that depend only on the seed."""
    generator = torch.Generator().manual_seed(seed)
    for param in params:
        grad = torch.randn(param.shape, generator=generator) * 1e-2
        param.grad = grad.to(param.dtype)


def params_of(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def train(optimizer, seeds):
    """Takes one step for each seed."""
    for seed in seeds:
        set_gradients(params_of(optimizer), seed)
        optimizer.step()


def reloaded(optimizer, make):
    """Returns another optimizer with the weights of this one and its state, as a file has it that
    is read without running code."""
    file, other = io.BytesIO(), make()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    with torch.no_grad():
        for p, q in zip(params_of(other), params_of(optimizer)):
            p.copy_(q)
    other.load_state_dict(torch.load(file, weights_only=True))
    return other


def assert_same_bits(got, want):
    """Asserts that two optimizers agree in all bits of parameters and states."""
    for p, q in zip(params_of(got), params_of(want), strict=True):
        assert np.array_equal(bits(p), bits(q))
        assert got.state.get(p, {}).keys() == want.state.get(q, {}).keys()
        for name, plane in got.state.get(p, {}).items():
            other = want.state[q][name]
            if isinstance(plane, torch.Tensor):
                assert plane.dtype == other.dtype, name
                assert np.array_equal(bits(plane), bits(other)), name
            else:
                assert plane == other, name
