#===- test_float_codes.py - Conversions of small floats --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the conversions between f32 and codes of small floats: the
# instructions of GPUs, the integer sequences of other GPUs and of CPUs, the
# interpreter and the model give the same bits.
#
#===----------------------------------------------------------------------===#

import re
from functools import lru_cache

import numpy as np
import pytest

import tandem
from model.formats import decode, encode, lookup
from support.emulation import emulated, needs_emulator
from support.kernels import ISAS, assert_same
from support.launch import Tensor, aligned_copy, launch

# A scaled f16 is converted with integers on every target.
FORMATS = ("f8E4M3FN", "f8E5M2", "f16")
# Chips with the instructions and chips without them.
CHIPS = ("sm_80", "sm_89", "sm_90", "sm_100")
MODES = ("nearest", "finite", "number", "exact")

_KERNEL = """
!x = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
!q = !tandem.stored<tensor<?xf32>, #tandem.float<{format}>>
tandem.kernel @codes compute(<f32, f32>)
    tensors [#tandem.role<grad "x">, #tandem.role<grad "q">, {roles},
             #tandem.role<state "read">] scalars [] prologue {{
  tandem.yield
}} body {{
^bb0(%tx: !x, %tq: !q, {arguments}, %tread: !x):
  %x = tandem.load_plane %tx[0] : !x -> f32
  %q = tandem.load_plane %tq[0] : !q -> i{bits}
  %magnitude = math.absf %x : f32
  %infinity = arith.constant 0x7F800000 : f32
  %is_finite = arith.cmpf olt, %magnitude, %infinity : f32
  %is_number = arith.cmpf ord, %x, %x : f32
  %nearest = scaled.encode_float {format}, %x : f32 -> i{bits}
  %finite = scaled.encode_float {format}, %x where %is_finite : f32, i1 -> i{bits}
  %number = scaled.encode_float {format}, %x where %is_number : f32, i1 -> i{bits}
  %read = scaled.decode_float {format}, %q : i{bits} -> f32
  %negated = arith.negf %read : f32
  %exact = scaled.encode_float {format}, exact %negated : f32 -> i{bits}
  {stores}
  tandem.store_plane %read, %tread[0] : f32, !x
  tandem.yield
}}
"""


def kernel_text(format):
    bits = lookup(format).bits
    return _KERNEL.format(
        format=format, bits=bits,
        roles=", ".join(f'#tandem.role<state "{m}">' for m in MODES),
        arguments=", ".join(f"%t{m}: !q" for m in MODES),
        stores="\n  ".join(f"tandem.store_plane %{m}, %t{m}[0] : i{bits}, !q"
                           for m in MODES))


@lru_cache(maxsize=None)
def compiled(format, target="cpu", isa="native", width=0):
    return tandem.compile(kernel_text(format), target=target, isa=isa, width=width)


@lru_cache(maxsize=None)
def numbers(format):
    """Returns f32 bits: every bf16 and f16; each number of the format and each midpoint, with
    their neighbours; NaNs; random bits."""
    codes = np.arange(lookup(format).overflow + 1).astype(lookup(format).dtype)
    edges = decode(format, codes).astype(np.float64)
    edges[-1] = 2 * edges[-2] - edges[-3]  # where the next number would be
    edges = np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]).astype(np.float32)
    around = [edges, np.nextafter(edges, np.float32(np.inf)),
              np.nextafter(edges, np.float32(-np.inf))]
    around = np.concatenate(around + [-part for part in around]).view(np.uint32)
    rng = np.random.default_rng(lookup(format).bias)
    nans = rng.integers(0x7F800001, 0x80000000, 2000, dtype=np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint16)
    return np.concatenate([
        np.arange(1 << 16, dtype=np.uint32) << 16,
        halves.view(np.float16).astype(np.float32).view(np.uint32),
        around, nans, nans | np.uint32(1 << 31),
        rng.integers(0, 1 << 32, 20001, dtype=np.uint32)])


def planes_of(format):
    x, fmt = numbers(format), lookup(format)
    planes = {"x": x, "q": np.resize(np.arange(1 << fmt.bits).astype(fmt.dtype), len(x))}
    planes |= {mode: np.zeros(len(x), fmt.dtype) for mode in MODES}
    return planes | {"read": np.zeros(len(x), np.uint32)}


def any_nan(planes):
    """Canonicalizes NaNs, since which NaN results from a NaN is unspecified."""
    value = planes["read"].view(np.float32)
    return planes | {"read": np.where(np.isnan(value), 0x7FFFFFFF,
                                      planes["read"]).astype(np.uint32)}


def model(format):
    """Returns the planes that the model of the formats computes."""
    planes = planes_of(format)
    x = planes["x"].view(np.float32)
    largest = decode(format, np.array([lookup(format).largest], lookup(format).dtype))
    largest = largest[0].astype(np.float32)
    clipped = np.clip(x, -largest, largest)
    read = decode(format, planes["q"]).astype(np.float32)
    planes["nearest"] = encode(format, x)
    planes["finite"] = encode(format, np.where(np.isfinite(x), clipped, x))
    planes["number"] = encode(format, clipped)
    planes["exact"] = encode(format, -read)
    planes["read"] = read.view(np.uint32)
    return any_nan(planes)


@pytest.mark.parametrize("isa", ("native", ISAS[0]))
@pytest.mark.parametrize("format", FORMATS)
def test_cpu(format, isa):
    planes = planes_of(format)
    compiled(format, isa=isa)(planes, threads=1)
    assert_same(any_nan(planes), model(format), f"{format} {isa}")


@needs_emulator
@pytest.mark.parametrize("format", FORMATS)
def test_aarch64(format):
    planes = planes_of(format)
    emulated.compile(kernel_text(format))(planes, threads=1)
    assert_same(any_nan(planes), model(format), f"{format} aarch64")


@pytest.mark.parametrize("format", FORMATS)
def test_interpreter(format):
    planes = planes_of(format)
    tandem.interpret(kernel_text(format), None, planes, {})
    assert_same(any_nan(planes), model(format), format)


@pytest.mark.parametrize("width", (2, 8))
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("format", FORMATS)
def test_ptx(format, chip, width):
    planes = {name: aligned_copy(plane) for name, plane in planes_of(format).items()}
    launch(compiled(format, chip, width=width), [Tensor(planes)], [{}], chunk_size=4096,
           threads=64)
    assert_same(any_nan(planes), model(format), f"{format} {chip} {width}")


@pytest.mark.parametrize("format, name, encodings",
                         (("f8E4M3FN", "e4m3x2", 4), ("f8E5M2", "e5m2x2", 2)))
def test_instructions(format, name, encodings):
    """There is one instruction for every two elements. E5M2's modes, which differ in how they
    treat infinities, use the same ones."""
    for chip in CHIPS:
        text = compiled(format, chip).ptx
        pairs = 4 * (chip != "sm_80")
        assert (len(re.findall(rf"cvt\.rn\.satfinite\.{name}\.f32", text))
                == encodings * pairs)
        assert len(re.findall(rf"cvt\.rn\.f16x2\.{name}", text)) == pairs
