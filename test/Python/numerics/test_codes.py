#===- test_codes.py - Codes without scales --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that the codes of the NumPy model match their published descriptions: tables,
# rounding to nearest, and equivalent formats.
#
#===----------------------------------------------------------------------===#

from fractions import Fraction

import numpy as np
import pytest

from model.codes import DynamicCode, FloatCode, MinifloatCode, nearest_f32
from model.formats import decode

EVERY_BYTE = np.arange(256, dtype=np.uint8)
DYNAMIC = {"signed": DynamicCode(True), "unsigned": DynamicCode(False)}


def neighbours(x):
    """Returns numbers and their neighbours."""
    x = np.asarray(x, np.float32)
    down, up = np.nextafter(x, np.float32(-np.inf)), np.nextafter(x, np.float32(np.inf))
    return np.concatenate([down, x, up])


#===----------------------------------------------------------------------===#
# The dynamic code
#===----------------------------------------------------------------------===#


def dynamic_map(signed):
    """Returns the table of bitsandbytes' create_dynamic_map in float64: the means of a decade's
    boundaries, one and zero, in ascending order."""
    values = [0.0, 1.0]
    for decade in range(7):
        intervals = 2**decade if signed else 2**(decade + 1)
        boundaries = np.linspace(0.1, 1.0, intervals + 1)
        means = (boundaries[:-1] + boundaries[1:]) / 2 * 10.0**(decade - 6)
        values += list(means) + (list(-means) if signed else [])
    return np.sort(values)


def units(a, b):
    """Returns distances in units of consecutive f32 numbers."""
    a, b = [np.asarray(x, np.float32).view(np.int32).astype(np.int64) for x in (a, b)]
    return np.abs(a - b)


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_table(name):
    """The codes are bitsandbytes', except for the one used as NaN."""
    code = DYNAMIC[name]
    got, want = code.decode([EVERY_BYTE]), dynamic_map(code.signed)
    assert len(want) == 256 and not np.signbit(got[code.zero])
    assert np.flatnonzero(np.isnan(got)).tolist() == [code.nan]
    # The code that is lost is next to the largest number of its sign, where steps are smallest
    # relative to the number.
    assert want[code.nan] == (want[1] if code.signed else want[-2])
    rest = EVERY_BYTE != code.nan
    assert np.all(np.diff(got[rest]) > 0)
    # The published function has the same distance between its f32 and f64 results.
    assert units(got[rest], want[rest]).max() <= 2


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_round_trip(name):
    """Each code is the encoding of its own value."""
    code = DYNAMIC[name]
    value = code.decode([EVERY_BYTE])
    assert code.encode(value, np.isfinite(value))[0].tolist() == EVERY_BYTE.tolist()


def dynamic_inputs(code):
    """Returns numbers of all magnitudes, and all boundaries between codes."""
    rng = np.random.default_rng(1)
    value = code.decode([EVERY_BYTE[EVERY_BYTE != code.nan]])
    middles = (value[1:].astype(np.float64) + value[:-1]) / 2
    spread = np.exp2(rng.uniform(-30, 0.5, 200000))
    even = rng.uniform(-1.2, 1.2, 200000)
    y = np.concatenate([neighbours(value), neighbours(neighbours(middles)),
                        spread, -spread, even]).astype(np.float32)
    return y if code.signed else np.abs(y)


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_is_nearest(name):
    """No other code is nearer by more than the rounding of boundaries, ten f32 units of the
    value, also on the negative side of the signed code."""
    code = DYNAMIC[name]
    y = dynamic_inputs(code)
    value = np.sort(code.decode([EVERY_BYTE[EVERY_BYTE != code.nan]])).astype(np.float64)
    at = np.clip(np.searchsorted(value, y), 1, 254)
    nearest = np.minimum(np.abs(value[at] - y), np.abs(value[at - 1] - y))
    got = code.decode(code.encode(y, np.isfinite(y)))
    excess = np.abs(got.astype(np.float64) - y) - nearest
    share = excess / np.maximum(np.abs(y), 1e-12)
    assert share.max() <= 10 * 2.0**-24


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_ties(name):
    """A number halfway between two values goes to the one further from zero."""
    code, ties = DYNAMIC[name], 0
    for decade in range(7):
        for k in range(1, code.count(decade)):
            middle = (code.exact(decade, k - 1) + code.exact(decade, k)) / 2
            y = nearest_f32(middle)
            if Fraction(float(y)) == middle and decade == 6:
                ties += 1
                rank = code.encode(np.array([y]), np.array([True]))[0][0] - code.zero
                first = code.count(6) if code.signed else code.count(6) - 1
                assert rank == first + k
    assert ties > 10


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_extremes(name):
    code = DYNAMIC[name]
    y = np.array([0.0, -0.0, 1e-45, 1.0, 3e38, np.inf, np.nan, np.inf, -np.inf], np.float32)
    finite = np.array([True] * 6 + [False] * 3)
    want = [code.zero] * 3 + [255] * 3 + [code.nan] * 3
    with np.errstate(over="ignore"):
        assert code.encode(y, finite)[0].tolist() == want
    below = -np.array([1e-45, 1.62e-6, 1.63e-6, 1.0, np.inf], np.float32)
    with np.errstate(over="ignore"):
        got = code.encode(below, np.ones(5, bool))[0].tolist()
    # Half of rank 2, -3.25e-6, is nearer to rank 1; rank 127 is the largest below 1.
    assert got == ([127, 126, 126, 0, 0] if code.signed else [254] * 5)


#===----------------------------------------------------------------------===#
# Small floats of any widths
#===----------------------------------------------------------------------===#

EQUAL = {"f8E4M3FN": MinifloatCode(4, 3), "f8E5M2": MinifloatCode(5, 2, specials="ieee"),
         "f16": MinifloatCode(5, 10, specials="ieee"),
         "bf16": MinifloatCode(8, 7, specials="ieee")}


def every_code(code):
    return np.arange(1 << code.format.bits).astype(code.format.dtype)


def any_values(size=200000):
    rng = np.random.default_rng(3)
    any_bits = rng.integers(0, 1 << 32, size, dtype=np.uint64).astype(np.uint32)
    near = np.exp2(rng.uniform(-20, 18, size)) * rng.choice([-1, 1], size)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 448, 464, 57344, 61440]
    ordinary = np.concatenate([near, special]).astype(np.float32)
    return np.concatenate([any_bits.view(np.float32), ordinary])


def encode_one(code, y, random=None):
    y = np.atleast_1d(np.asarray(y, np.float32))
    with np.errstate(invalid="ignore"):
        return code.encode(y, np.isfinite(y), None, random)[0]


@pytest.mark.parametrize("name", EQUAL)
def test_minifloat_equals(name):
    """The parameters reproduce the named formats."""
    mini, code = EQUAL[name], FloatCode(name)
    assert mini.largest == code.largest
    assert np.array_equal(encode_one(mini, any_values()), encode_one(code, any_values()))
    assert np.array_equal(mini.decode([every_code(mini)]), decode(name, every_code(mini)),
                          equal_nan=True)


MINIFLOATS = [MinifloatCode(e, m, bias, specials)
              for e, m, bias in [(1, 2, None), (2, 1, None), (3, 0, None), (2, 3, None),
                                 (3, 2, 5), (4, 3, 8), (6, 1, None), (7, 0, 70), (5, 4, -3)]
              for specials in ("ieee", "nan", "negative_zero", "none")
              if specials != "ieee" or (e > 1 and m)]
minifloats = pytest.mark.parametrize("code", MINIFLOATS, ids=str)


@minifloats
def test_minifloat_round_trip(code):
    """Each number has one code, except zero, which may have one for each sign."""
    codes = every_code(code)
    value = code.decode([codes])
    number = np.isfinite(value)
    assert np.array_equal(encode_one(code, value[number]), codes[number])
    kinds = {"ieee": (2, 2 * (1 << code.mantissa) - 2), "nan": (0, 2),
             "negative_zero": (0, 1), "none": (0, 0)}
    assert (np.isinf(value).sum(), np.isnan(value).sum()) == kinds[code.specials]
    assert value[number].max() == code.largest


def exact_nearest(code, y):
    """Finds the codes by an exact search among all numbers."""
    positive = np.arange(code.format.largest + 1).astype(code.format.dtype)
    value = code.decode([positive]).astype(np.float64)
    a = np.minimum(np.abs(y.astype(np.float64)), code.largest)
    above = np.minimum(np.searchsorted(value, a), len(value) - 1)
    below = np.maximum(above - 1, 0)
    up, down = value[above] - a, a - value[below]
    pick = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    sign = np.signbit(y) & ((pick != 0) | (code.specials != "negative_zero"))
    return np.where(sign, pick | code.format.sign_bit, pick).astype(code.format.dtype)


@minifloats
def test_minifloat_is_nearest(code):
    """The inputs are all midpoints with their neighbours, and numbers of all magnitudes."""
    value = code.decode([np.arange(code.format.largest + 1).astype(code.format.dtype)])
    middles = (value[1:].astype(np.float64) + value[:-1]) / 2
    y = any_values(20000)
    y = np.concatenate([y[np.isfinite(y)], neighbours(value), neighbours(middles)])
    y = np.concatenate([y, -y]).astype(np.float32)
    assert np.array_equal(encode_one(code, y), exact_nearest(code, y))


@pytest.mark.parametrize("specials, want", [
    ("ieee", [0x1F, 0x1C, 0x3C]), ("nan", [0x1F, 0x1F, 0x1F]),
    ("negative_zero", [0x20, 0x20, 0x20]), ("none", [0x1F, 0x1F, 0x3F])])
def test_minifloat_specials(specials, want):
    code = MinifloatCode(3, 2, specials=specials)
    assert encode_one(code, [np.nan, np.inf, -np.inf]).tolist() == want
    zeros = [0, 0, 0] if specials == "negative_zero" else [0, 0x20, 0x20]
    assert encode_one(code, [0.0, -0.0, -1e-20]).tolist() == zeros


@pytest.mark.parametrize("code", MINIFLOATS[::3], ids=str)
def test_minifloat_toward_zero(code):
    """Truncation gives the largest number that is not beyond the input."""
    cut = MinifloatCode(code.exponent, code.mantissa, code.bias, code.specials,
                        "toward_zero")
    y = np.abs(any_values(20000))
    y = y[np.isfinite(y)]
    value = code.decode([np.arange(code.format.largest + 1).astype(code.format.dtype)])
    want = np.searchsorted(value, y, side="right") - 1
    assert np.array_equal(encode_one(cut, y), want)


@pytest.mark.parametrize("code", MINIFLOATS[::3], ids=str)
def test_minifloat_stochastic(code):
    """The number of random values, of 2^16, that round up is the fraction in units of 2^-16."""
    code = MinifloatCode(code.exponent, code.mantissa, code.bias, code.specials,
                         "stochastic")
    value = code.decode([np.arange(code.format.largest + 1).astype(code.format.dtype)])
    random = np.arange(1 << 16, dtype=np.uint16)
    rng = np.random.default_rng(4)
    for at in rng.integers(0, len(value) - 1, 20):
        down, up = value[at:at + 2].astype(np.float64)
        y = np.float32(down + (up - down) * rng.random())
        codes = encode_one(code, np.full(1 << 16, y), random)
        share = int((float(y) - down) / (up - down) * 2**16)
        assert np.count_nonzero(codes == at + 1) == share
        assert np.count_nonzero(codes == at) == 2**16 - share
        assert np.all(np.diff(codes.astype(int)) >= 0)


def masked(y, exponents, mantissa):
    """Masks as in "To FP8 and Back Again", section 3.2: magnitudes are clamped to the range, and
    the mantissa's other bits are cleared. Subnormal numbers are kept if f32's smallest exponent
    is the minimum."""
    least = np.float32(0 if exponents[0] == -126 else 2.0**exponents[0])
    most = np.float32((2 - 2.0**-mantissa) * 2.0**exponents[1])
    a = np.where(y == 0, y, np.clip(np.abs(y), least, most)).astype(np.float32)
    bits = a.view(np.uint32) & np.uint32(-(1 << 23 - mantissa) & 0xFFFFFFFF)
    return np.copysign(bits.view(np.float32), y)


@pytest.mark.parametrize("mantissa", (3, 5, 6, 7))
@pytest.mark.parametrize("exponents", ([-126, 127], [-62, 63], [-62, 127], [-126, 63]))
def test_minifloat_masks(exponents, mantissa):
    code = MinifloatCode(8, mantissa, None, "ieee", "toward_zero", tuple(exponents))
    y = any_values()
    y = y[np.isfinite(y)]
    got = code.decode([encode_one(code, y)])
    assert np.array_equal(got.view(np.uint32), masked(y, exponents, mantissa).view(np.uint32))
