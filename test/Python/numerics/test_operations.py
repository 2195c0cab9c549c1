#===- test_operations.py - mcf operations, bit for bit ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests each mcf operation in compiled CPU code and emitted PTX
# against the interpreter: on every operand of the 8-bit formats where that is
# possible, and on ordinary and adversarial operands of the others.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model.formats import decode
from support import operands
from support.emulation import emulated, needs_emulator
from support.kernels import ISAS, assert_same, require_isa
from support.launch import Tensor, aligned_copy, launch
from support.operations import Type, operation_kernel, operations_of, uniform

BYTES = ("f8E4M3FN", "f8E5M2")
WIDE = ("bf16", "f16", "f32")
TYPES = [uniform(format, length) for format in WIDE + BYTES for length in (2, 3)]
TYPES += [Type((leading, trailing)) for leading in WIDE for trailing in BYTES]


def interpreted(kernel, given):
    planes = kernel.planes(given)
    planes = {name: plane.copy() for name, plane in planes.items()}
    tandem.interpret(kernel.text, None, planes, {})
    return planes


def check_cpu(kernel, given, isas=("native", ISAS[0])):
    """Asserts that compiled code gives the interpreter's results."""
    want = interpreted(kernel, given)
    for isa in isas:
        got = {name: plane.copy() for name, plane in kernel.planes(given).items()}
        kernel.compile(isa=isa)(got, threads=1)
        assert_same(got, want, isa)


def check_all(type, names, given, most=1 << 20):
    """Does the same in batches of at most a million elements."""
    kernel = operation_kernel(type, names)
    size = len(next(iter(given.values()))[0])
    for begin in range(0, size, most):
        check_cpu(kernel, {name: [part[begin:begin + most] for part in parts]
                           for name, parts in given.items()})


#===----------------------------------------------------------------------===#
# All operations, ordinary and adversarial operands
#===----------------------------------------------------------------------===#


def groups(type):
    """Returns the operations in kernels of a size that compiles quickly."""
    names = operations_of(type)
    large = ("grow", "scale", "mul", "add", "sub", "div", "sqrt")
    large = [name for name in large if len(type.formats) == 3]
    rest = tuple(name for name in names if name not in large)
    return [rest] + [(name,) for name in large]


@pytest.mark.parametrize("type", TYPES, ids=lambda type: type.parameters)
def test_operations(type):
    require_isa(ISAS[0])
    for names in groups(type):
        kernel = operation_kernel(type, names)
        for size in (400, 401):
            rng = np.random.default_rng([size, len(names[0])])
            check_cpu(kernel, operands.operands(rng, type, size))


@needs_emulator
@pytest.mark.parametrize("type", TYPES, ids=lambda type: type.parameters)
def test_aarch64(type):
    for names in groups(type):
        kernel = operation_kernel(type, names)
        given = operands.operands(np.random.default_rng(len(names)), type, 401)
        got = {name: plane.copy() for name, plane in kernel.planes(given).items()}
        emulated.compile(kernel.text)(got, threads=1)
        assert_same(got, interpreted(kernel, given), "aarch64")


# sm_80 computes bf16 with different instructions.
CHIPS = [(type, "sm_90") for type in TYPES]
CHIPS += [(type, "sm_80") for type in TYPES if type.leading == "bf16"]


@pytest.mark.parametrize("type, chip", CHIPS,
                         ids=lambda value: getattr(value, "parameters", value))
def test_ptx(type, chip):
    for names in groups(type):
        kernel = operation_kernel(type, names)
        given = operands.operands(np.random.default_rng(len(names)), type, 67)
        planes = {name: aligned_copy(plane) for name, plane in kernel.planes(given).items()}
        launch(kernel.compile(chip), [Tensor(planes)], [{}])
        assert_same(planes, interpreted(kernel, given), chip)


#===----------------------------------------------------------------------===#
# All operands of the 8-bit formats
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("format", BYTES)
def test_all_component_pairs(format):
    """All 65536 pairs of bytes are tested as components, and as one expansion."""
    codes = operands.all_codes(format)
    a, b = operands.product(codes, codes)
    names = ("fast_two_sum", "ungranted", "two_sum", "two_prod", "two_prod_dekker",
             "split")
    check_all(uniform(format), names, {"a": [a], "b": [b]})
    names = ("neg", "renormalize", "sqrt", "to_f32", "to_f64")
    check_all(uniform(format), names, {"x": [a, b]})


@pytest.mark.parametrize("trailing", BYTES)
@pytest.mark.parametrize("leading", ("bf16", "f16"))
def test_all_mixed_numbers(leading, trailing):
    """Every byte follows one in 31 leading components, read and negated."""
    high = operands.all_codes(leading)[::31]
    x = operands.product(high, operands.all_codes(trailing))
    check_all(Type((leading, trailing)), ("widen", "neg", "to_f32"), {"x": x})


@pytest.mark.parametrize("format", BYTES)
def test_all_expansions_and_components(format):
    """Every normalized pair with hi > 0 or +0 is combined with every component."""
    high, low = operands.all_normalized(format)
    keep = high < operands.lookup(format).sign_bit
    index, a = operands.product(np.flatnonzero(keep), operands.all_codes(format))
    x = [high[index], low[index]]
    check_all(uniform(format), ("grow", "scale", "kahan"), {"x": x, "a": [a]})


@pytest.mark.parametrize("format", BYTES)
def test_expansion_pairs(format):
    """Every normalized pair of one binade is combined with every one of two binades, and a
    sample of all pairs of normalized pairs is tested."""
    high, low = operands.all_normalized(format)
    value = np.abs(decode(format, high))
    one = np.flatnonzero((value >= 1) & (value < 2))
    two = np.flatnonzero((value >= 0.5) & (value < 2))
    left, right = operands.product(one[high[one] < 0x80], two)
    rng = np.random.default_rng(1)
    left = np.concatenate([left, rng.integers(0, len(high), 1 << 19)])
    right = np.concatenate([right, rng.integers(0, len(high), 1 << 19)])
    check_all(uniform(format), ("mul", "add", "sub", "div", "compare"),
              {"x": [high[left], low[left]], "y": [high[right], low[right]]})
