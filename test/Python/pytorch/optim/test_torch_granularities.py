#===- test_torch_granularities.py - Scales of rows in PyTorch ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch's optimizers under strategies with row or block scales, for
# parameters of any shape, against the NumPy model.
#
#===----------------------------------------------------------------------===#

import copy
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from model import matrix_step
from model.codes import FloatCode, PairCode, RootCode
from model.strategies import Strategy
from model.scaled import ROW, Scaled
from model.storage import Master, Plain
from support.kernels import write_strategies
from support.torch_bits import (assert_same_bits, bits, parameters, params_of,
                                set_gradients, train)

E4M3 = FloatCode("f8E4M3FN")
TABLE = {
    "rows": Strategy(Plain("bf16"), Master("bf16"), Scaled(E4M3, ROW, "f32"),
                     Scaled(RootCode(), ROW, "bf16")),
    "blocks": Strategy(Plain("bf16"), Plain("bf16"), Scaled(E4M3, 16, "f32", rows=16),
                       Scaled(E4M3, 16, "bf16", rows=16)),
    # These weights and gradients have no PyTorch dtype.
    "codes": Strategy(Scaled(E4M3, ROW, "f32"), Scaled(PairCode("f8E4M3FN"), 32, "f32", rows=32),
                      Scaled(E4M3, ROW, "f32"), Scaled(RootCode(), 128, "f32")),
}
SHAPES = [(17,), (), (40, 33), (6, 5, 3, 3), (1, 7), (7, 1), (0, 3)]
HYPERS = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 1e-2}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("granularities")
    write_strategies(directory, TABLE)
    return [directory]


def make(strategy, path, params=None):
    params = parameters(SHAPES) if params is None else params
    return tt.AdamW(params, lr=1e-2, strategy=strategy, path=path, min_8bit_size=0)


def as_matrix(tensor):
    """Returns the rows and columns that the documentation specifies."""
    return (1, tensor.numel()) if tensor.dim() < 2 else (
        len(tensor), int(np.prod(tensor.shape[1:])))


def planes_of(optimizer, param):
    """Returns the model's planes, with elements in rows."""
    planes = {name: bits(plane) for name, plane in optimizer.state[param].items()
              if name != "step"}
    if not optimizer._groups.spec_of(param).hidden:
        planes.setdefault("param", bits(param))
    shape = as_matrix(param)
    return {name: p.reshape(shape) if p.size == param.numel() and "." not in name else p
            for name, p in planes.items()}


@pytest.mark.parametrize("strategy", ("rows", "blocks"))
def test_against_the_model(strategy, path):
    optimizer = make(strategy, path)
    train(optimizer, [0])
    for step in (2, 3):
        before = [planes_of(optimizer, p) for p in params_of(optimizer)]
        set_gradients(params_of(optimizer), step)
        grads = [bits(p.grad).reshape(as_matrix(p)) for p in params_of(optimizer)]
        optimizer.step()
        for param, old, grad in zip(params_of(optimizer), before, grads):
            if not param.numel():
                continue
            want = matrix_step("adamw", TABLE[strategy], old | {"grad": grad}, HYPERS, step)
            got = planes_of(optimizer, param)
            for name, plane in want.items():
                assert np.array_equal(got[name].reshape(-1), plane.reshape(-1)), name


@pytest.mark.parametrize("strategy", TABLE)
def test_resume(strategy, path):
    """Saving, loading and continuing changes no bit."""
    optimizer = make(strategy, path)
    train(optimizer, range(2))
    other = make(strategy, path, [torch.nn.Parameter(p.detach().clone())
                                  for p in params_of(optimizer)])
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=False))
    for both in (optimizer, other):
        train(both, range(2, 4))
    assert_same_bits(optimizer, other)


@pytest.mark.parametrize("strategy", TABLE)
def test_layouts(strategy, path):
    """Rows are those of the first dimension, for any memory layout."""
    generator = torch.Generator().manual_seed(1)
    values = [torch.randn(shape, generator=generator).bfloat16()
              for shape in ((33, 40), (6, 5, 4, 4))]
    results = []
    for other in (False, True):
        params = [torch.nn.Parameter(v.clone()) for v in values]
        if other:
            params[0].data = values[0].t().contiguous().t()
            params[1].data = values[1].contiguous(memory_format=torch.channels_last)
        optimizer = make(strategy, path, params)
        train(optimizer, range(3))
        results.append(optimizer)
    for p, q in zip(*map(params_of, results)):
        assert np.array_equal(bits(p), bits(q))
        for name, plane in results[0].state[p].items():
            if isinstance(plane, torch.Tensor):
                assert np.array_equal(bits(plane), bits(results[1].state[q][name])), name


@pytest.mark.parametrize("source, target", (
    ("fp32", "blocks"), ("coat", "rows"), ("rows", "coat"), ("blocks", "codes"),
    ("codes", "fp32"), ("rows", "blocks")))
def test_from_strategy_to_strategy(source, target, path):
    """A step can follow a conversion, and the values are approximately equal."""
    dtype = torch.float32 if source == "fp32" else torch.bfloat16
    optimizer = make(source, path, parameters(SHAPES, dtype))
    train(optimizer, range(3))
    twin = copy.deepcopy(optimizer)
    state, weights = tt.convert_state(optimizer.state_dict(), params_of(optimizer), target,
                                      path=path)
    assert_same_bits(optimizer, twin)
    other = make(target, path, [torch.nn.Parameter(w) for w in weights])
    other.load_state_dict(state)
    for both in (optimizer, other):
        train(both, [3])
    for p, q in zip(params_of(optimizer), params_of(other)):
        torch.testing.assert_close(p.float(), q.float(), rtol=0.1, atol=0.1)
