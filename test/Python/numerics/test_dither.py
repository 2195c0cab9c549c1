#===- test_dither.py - Rounding by bits in the NumPy model -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the model's dither, its dynamic codes and scales, and the floor of second moments.
#
#===----------------------------------------------------------------------===#

"""Tests that both signs round towards +infinity, stored values stay, and bits are uniform."""

from dataclasses import replace

import numpy as np
import pytest

from model import Strategy, cases, step, storage
from model.codes import (DynamicCode, ExpandedCode, FloatCode, MinifloatCode, PairCode,
                         RootCode, SoftsignCode)
from model.dither import dither_bits, dither_word
from model.formats import FORMATS, decode, encode, encode_by_bits, round_to
from model.scaled import WHOLE, Coded, Residual, Scaled, choose_scale


def f64(x):
    return x.astype(np.float64)


#===----------------------------------------------------------------------===#
# Dither
#===----------------------------------------------------------------------===#

EVERY_BITS = np.arange(1 << 16, dtype=np.uint16)
EVERY_BYTE = np.arange(256, dtype=np.uint8)
DYNAMIC = {"signed": DynamicCode(True), "unsigned": DynamicCode(False)}
DITHERED = {
    "f8E4M3FN": FloatCode("f8E4M3FN", "dither"), "f8E5M2": FloatCode("f8E5M2", "dither"),
    "f16": FloatCode("f16", "dither"), "pair": PairCode("f8E4M3FN", "dither"),
    "low-pair": PairCode("f8E5M2", "dither"), "softsign": SoftsignCode("dither"),
    "minifloat": MinifloatCode(5, 10, rounding="dither"),
    "negative_zero": MinifloatCode(3, 2, None, "negative_zero", "dither"),
    "root": RootCode("dither"), "signed": DynamicCode(True, "dither"),
    "unsigned": DynamicCode(False, "dither"),
    "expanded": ExpandedCode(FloatCode("f8E4M3FN", "dither"), 28672.0),
    "signed-expanded": ExpandedCode(DynamicCode(True, "dither"), 1e6)}


def is_signed(code):
    return not isinstance(code, RootCode) and code != DITHERED["unsigned"]


@pytest.mark.parametrize("seed, key, number, step, word", (
    (0, 0, 0, 1, 0x8CC3E3C6), (0x123456789ABCDEF, 7, 2, 64, 0x701828CA),
    (0x123456789ABCDEF, 7, 2, 63, 0x459F4AE3), (1, 2, 3, 2**32 + 130, 0x29B7BECC)))
def test_dither_words(seed, key, number, step, word):
    assert dither_word(seed, key, number, step) == word
    assert dither_word(seed, key + 2**32, number, step + 2**32) == word
    bits = dither_bits(5, 2**32 - 2, seed, key, number, step)
    # The element index wraps at 2^32.
    want = [((i * 0x6107DA4D + word) % 2**32) >> 16 for i in (2**32 - 2, 2**32 - 1, 0, 1, 2)]
    assert bits.tolist() == want


def test_dither_bits_in_time():
    """The 64 steps of a window have one word in each 64th of the range, and over many windows
    the bits are in each 128th of [0, 2^16) about equally often."""
    words = np.array([dither_word(77, 5, 3, step) for step in range(64 * 128)])
    strata = np.sort((words >> 26).reshape(128, 64), axis=1)
    assert np.all(strata == np.arange(64))
    bits = (words + 12345 * 0x6107DA4D) % 2**32 >> 16
    assert abs(bits.mean() - 32767.5) < 16
    assert np.abs(np.bincount(bits >> 9) - 64).max() <= 3


def dithered(code, y, bits=EVERY_BITS, exponent=16):
    """Returns the planes of each number for all bits, with a row per number."""
    y = np.repeat(np.atleast_1d(np.asarray(y, np.float32)), len(bits))
    exponents = np.full(len(y), exponent, np.uint8)
    with np.errstate(all="ignore"):
        planes = code.encode(y, np.isfinite(y), exponents, np.resize(bits, len(y)))
    return [plane.reshape(-1, len(bits)) for plane in planes]


def coordinate(code, planes):
    """Returns numbers in which a code's rounding is unbiased: its integer levels if it rounds in
    these, and otherwise the decoded values, before expansion."""
    if isinstance(code, SoftsignCode):
        return planes[0].view(np.int8).astype(np.float64)
    if isinstance(code, RootCode):
        return planes[0].astype(np.float64)
    value = getattr(code, "base", code).decode([p.reshape(-1) for p in planes])
    return f64(value).reshape(planes[0].shape)


def exact_coordinate(code, y):
    if isinstance(code, SoftsignCode):
        return 127 * 2 * f64(y) / (1 + np.abs(f64(y)))
    if isinstance(code, RootCode):
        return 254 * f64(y)
    if isinstance(code, ExpandedCode):
        largest = np.where(y < 0, float(code.base.largest_negative), code.base.largest)
        return np.sign(y) * largest * f64(y)**2
    return f64(y)


def dither_inputs(code, size=14):
    """Returns numbers of all magnitudes, and some between the outermost ones of each sign."""
    rng = np.random.default_rng(31)
    end = 1.0 if code.range else code.largest
    low = -22 if isinstance(getattr(code, "base", code), DynamicCode) else -8
    y = end * np.exp2(rng.uniform(low / 2 if code.range else low, 0, size))
    y[:4] = end * np.array([0.9835, 0.99, 0.998, 0.9999])
    has_end = code != DITHERED["signed"]
    y = np.concatenate([y, -y] if is_signed(code) else [y]).astype(np.float32)
    return y[(y > -0.9929) | has_end]


@pytest.mark.parametrize("name", DITHERED)
def test_dither_is_unbiased(name):
    """The mean over all bits is the number, within 10^-4 of the step between its neighbours, and
    larger bits never give a smaller result."""
    code, y = DITHERED[name], dither_inputs(DITHERED[name])
    got, want = coordinate(code, dithered(code, y)), exact_coordinate(code, y)
    assert all(len(np.unique(row)) == 2 for row in got)
    assert np.all(np.diff(got, axis=1) >= 0)
    low, high = got[:, 0], got[:, -1]
    assert np.all((low < want) & (want < high))
    assert np.max(np.abs(got.mean(axis=1) - want) / (high - low)) < 1e-4


def test_dither_goes_the_same_way():
    """The smallest bits round down and the largest up for both signs; with random bits, this
    holds for magnitudes."""
    y = np.array([1.25, -1.25], np.float32)
    ends = {"dither": [[1, -1.5], [1.5, -1]], "stochastic": [[1, -1], [1.5, -1.5]]}
    for rounding, want in ends.items():
        code = MinifloatCode(4, 1, rounding=rounding)
        got = coordinate(code, dithered(code, y, EVERY_BITS[[0, -1]]))
        assert got.T.tolist() == want


@pytest.mark.parametrize("name", DITHERED)
def test_dither_keeps_what_is_stored(name):
    """Float values are exact. Levels of other codes are off by at most 2^-15, so at most two of
    the 2^16 bit patterns may change them."""
    code = DITHERED[name]
    dtype = dithered(code, 0.0)[0].dtype
    # All 8-bit codes, and every 32nd 16-bit code.
    codes = np.arange(0, 256**dtype.itemsize, 32 if dtype.itemsize == 2 else 1).astype(dtype)
    y = code.decode([codes, np.zeros_like(codes)], np.full(len(codes), 16, np.uint8))
    y = y[np.isfinite(y)]
    planes = dithered(code, y, EVERY_BITS[[0, 2, 30000, -3, -1]])
    back = code.decode([p.reshape(-1) for p in planes], np.full(planes[0].size, 16, np.uint8))
    same = back.reshape(-1, 5).view(np.uint32) == y.view(np.uint32)[:, None]
    if isinstance(code, (FloatCode, PairCode, MinifloatCode)):
        assert np.all(same)
    assert np.all(same[:, 1:4])


@pytest.mark.parametrize("code", DITHERED.values(), ids=DITHERED)
def test_dither_of_what_is_not_finite(code):
    """NaN, infinities and zeros are encoded as with rounding to nearest."""
    y = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    base = getattr(code, "base", code)
    nearest = replace(base, rounding="nearest")
    nearest = replace(code, base=nearest) if code.range else nearest
    for bits in (EVERY_BITS[:1], EVERY_BITS[-1:]):
        for got, want in zip(dithered(code, y, bits), dithered(nearest, y, bits)):
            assert np.array_equal(got, want)


@pytest.mark.parametrize("name", ("bf16", "f16"))
def test_dither_of_plain_floats(name):
    fmt, rng = FORMATS[name], np.random.default_rng(32)
    x = (rng.standard_normal(40) * np.exp2(rng.uniform(-20, 10, 40))).astype(np.float32)
    codes = encode_by_bits(name, np.repeat(x, 1 << 16), "dither",
                           np.tile(EVERY_BITS, len(x)))
    values = f64(decode(name, codes)).reshape(len(x), -1)
    step = np.maximum(values.max(axis=1) - values.min(axis=1), 1e-30)
    assert np.max(np.abs(values.mean(axis=1) - x) / step) < 1e-4
    assert np.all(np.diff(values, axis=1) >= 0)
    exact = decode(name, np.arange(0, 1 << 16, 7).astype(np.uint16))
    for bits in (0, 0xFFFF):
        got = encode_by_bits(name, exact, "dither", np.full(len(exact), bits, np.uint16))
        assert np.array_equal(got, encode(name, exact))
    # The canonical NaN's 16 bits must not carry.
    nan = np.float32([np.nan])
    assert encode_by_bits(name, nan, "dither", EVERY_BITS[-1:])[0] == fmt.canonical_nan


class EveryBit(storage.Draw):
    """Yields all values of the bits in sequence."""

    def bits(self, rounding, count):
        return np.resize(EVERY_BITS, count)


@pytest.mark.parametrize("kind", ("i8", "i16"))
def test_dither_of_residuals(kind):
    """Rounding to nearest leaves a fraction of half an ulp of either sign. f32 resolves only
    2^-8 of a step of i16."""
    kept, rng = Residual("bf16", kind, "dither"), np.random.default_rng(33)
    x = rng.standard_normal(20).astype(np.float32)
    planes = kept.encode("w", np.repeat(x, 1 << 16), EveryBit())
    assert np.array_equal(planes["w"], np.repeat(encode("bf16", x), 1 << 16))
    high = f64(round_to("bf16", x))
    half_ulp = np.exp2(np.frexp(high)[1] - 9.0)
    level = (x - high) / half_ulp * {"i8": 127, "i16": 32767}[kind]
    got = planes["w.residual"].view(kind.replace("i", "int")).reshape(20, -1)
    assert np.all(np.diff(got.astype(int), axis=1) >= 0)
    assert np.max(np.abs(got.mean(axis=1) - level)) < {"i8": 1e-4, "i16": 2.0**-8}[kind]
    assert level.min() < 0 < level.max()


def test_each_tensor_has_bits_of_its_own():
    """Bits depend on the tensor's position among the graph's arguments, starting at the
    parameter."""
    kept, wide = storage.Plain("bf16", "dither"), storage.Plain("f32")
    strategy = Strategy(storage.Plain("bf16"), kept, kept, kept)
    exact, h = Strategy(wide, wide, wide, wide), cases.hypers("adamw")
    planes = cases.state("adamw", strategy, "ordinary", 300, seed=9)
    in_f32 = {name: encode("f32", decode("bf16", plane)) for name, plane in planes.items()}
    new = step("adamw", strategy, planes, h, 100, seed=2**40 + 5, key=6, first=1000)
    want = step("adamw", exact, in_f32, h, 100)
    for role, number in (("param", 0), ("exp_avg", 2), ("exp_avg_sq", 3)):
        bits = dither_bits(300, 1000, 2**40 + 5, 6, number, 100)
        code = encode_by_bits("bf16", want[role].view(np.float32), "dither", bits)
        assert np.array_equal(new[role], code)


#===----------------------------------------------------------------------===#
# The dynamic code
#===----------------------------------------------------------------------===#


def dynamic_values(code):
    """Returns (value, code) in ascending order, without NaN's."""
    value = code.decode([EVERY_BYTE])
    order = np.argsort(np.where(np.isnan(value), np.inf, value), kind="stable")[:-1]
    return f64(value[order]), order


def dynamic_inputs(code, size=50_000):
    rng = np.random.default_rng(34)
    value, _ = dynamic_values(code)
    middles = ((value[1:] + value[:-1]) / 2).astype(np.float32)
    near = np.concatenate([value.astype(np.float32), middles])
    near = np.concatenate([near, np.nextafter(near, np.float32(9)),
                           np.nextafter(near, np.float32(-9))])
    y = np.concatenate([near, np.exp2(rng.uniform(-24, 0.2, size)),
                        rng.uniform(0, 1.1, size)]).astype(np.float32)
    return np.concatenate([y, -y]) if code.signed else np.abs(y)


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_is_nearest(name):
    """All values are tried. A tie may round either way, with a tolerance of 10 f32 units for the
    rounding of boundaries."""
    code, y = DYNAMIC[name], dynamic_inputs(DYNAMIC[name])
    value, codes = dynamic_values(code)
    got = code.encode(y, np.isfinite(y))[0]
    above = np.clip(np.searchsorted(value, y), 1, len(value) - 1)
    least = np.minimum(np.abs(value[above] - y), np.abs(value[above - 1] - y))
    excess = np.abs(f64(code.decode([got])) - y) - least
    assert np.max(excess / np.maximum(np.abs(y), 1e-12)) <= 10 * 2.0**-24
    assert code.nan not in got and set(codes) == set(got)


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_dithers_to_neighbours(name):
    code, y = replace(DYNAMIC[name], rounding="dither"), dynamic_inputs(DYNAMIC[name])
    value, codes = dynamic_values(code)
    y = y[(y >= value[0]) & (y <= 1)]
    # A level that is a rank up to its own rounding may round to either side.
    slack = 2.0**-20 * np.abs(f64(y))
    below = np.searchsorted(value, y - slack, side="right") - 1
    above = np.searchsorted(value, y + slack)
    random = np.random.default_rng(35).integers(0, 1 << 16, len(y)).astype(np.uint16)
    for bits in (random, np.zeros_like(random), np.full_like(random, 0xFFFF)):
        got = np.argsort(codes)[np.searchsorted(codes, code.encode(
            y, np.isfinite(y), None, bits)[0], sorter=np.argsort(codes))]
        assert np.all((got >= np.maximum(below, 0)) & (got <= np.minimum(above, 254)))
    # This includes the neighbours of the outermost numbers.
    assert np.all(above - below <= 3) and np.mean(above - below == 1) > 0.9


def test_dynamic_code_of_nan():
    for name, nan, lowest in (("signed", 1, -0.55e-6), ("unsigned", 254, 0.325e-6)):
        code = DYNAMIC[name]
        y = np.array([np.nan, np.inf, -np.inf], np.float32)
        assert code.encode(y, np.isfinite(y))[0].tolist() == [nan] * 3
        assert np.flatnonzero(np.isnan(code.decode([EVERY_BYTE]))).tolist() == [nan]
        smallest = code.decode([np.array([126 if code.signed else 1], np.uint8)])[0]
        assert smallest == pytest.approx(lowest, rel=1e-6)
    below = -np.array([0.5, 1e-30, 3e38], np.float32)
    for rounding in ("nearest", "dither"):
        code = DynamicCode(False, rounding)
        with np.errstate(over="ignore"):
            got = code.encode(below, np.isfinite(below), None, EVERY_BITS[:3])[0]
        assert got.tolist() == [254] * 3


#===----------------------------------------------------------------------===#
# Scales
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("scale", ("f32", "bf16", "f16"))
@pytest.mark.parametrize("margin", (0, 3))
def test_scales_are_the_nearest(scale, margin):
    code, rng = FloatCode("f8E4M3FN"), np.random.default_rng(36)
    amax = (rng.uniform(1, 2, 3000) * np.exp2(rng.uniform(-149, 127, 3000))).astype(np.float32)
    amax = np.concatenate([amax, np.float32([1e-45, 3.4028235e38, 448])])
    got = choose_scale(amax, code, scale, "current", margin)
    low, high = (2.0**-24, 65504.0) if scale == "f16" else (2.0**-126, 2.0**119)
    want = np.clip(f64(amax / np.float32(448)) * 2**margin, low, high)
    assert np.array_equal(got, round_to(scale, want))
    assert choose_scale(np.zeros(1, np.float32), code, scale, "current", margin) == 1


@pytest.mark.parametrize("scale", ("f32", "bf16"))
@pytest.mark.parametrize("base", (DynamicCode(True), ExpandedCode(DynamicCode(True), 1e4)))
def test_scales_of_what_is_negative(scale, base):
    """The largest negative magnitude gets the last negative number, and the largest positive one
    gets 1; expanded codes stretch each side to its end."""
    kept, rng = Scaled(base, 16, scale), np.random.default_rng(37)
    x = rng.uniform(-0.9, 0.9, (500, 16)).astype(np.float32)
    x[:, 5] = rng.choice([-1, 1], 500)
    x *= np.exp2(rng.integers(-60, 60, (500, 1))).astype(np.float32)
    planes = kept.encode("w", x.reshape(-1), storage.Draw())
    outer = planes["w"].reshape(-1, 16)[:, 5]
    # A bf16 scale may be too large for the outermost code.
    if scale == "f32":
        assert np.array_equal(outer, np.where(x[:, 5] < 0, 0, 255))
    scales = decode(scale, planes["w.scale"])
    share = f64(np.abs(x[:, 5])) / scales
    want = np.where((x[:, 5] < 0) & (not base.range), 0.99296875, 1)
    assert np.max(np.abs(share / want - 1)) <= (2.0**-8 if scale == "bf16" else 2.0**-22)


def test_histories_are_of_the_same_magnitudes():
    kept = Scaled(DynamicCode(True), WHOLE, "f32", history=2)
    x = np.array([0.5, -2.0, np.inf, np.nan, -3.4e38], np.float32)
    with np.errstate(all="ignore"):
        planes = kept.encode("w", x, storage.Draw())
    # The stretched magnitude would be infinite, so the original one is recorded.
    assert decode("f32", planes["w.history"])[0] == np.float32(3.4e38)


#===----------------------------------------------------------------------===#
# The floor of second moments
#===----------------------------------------------------------------------===#

ROUNDED = [storage.Plain("bf16"), storage.Plain("f16", "dither"), storage.Plain("f8E4M3FN"),
           storage.Plain("f16", "stochastic"), storage.Expansion("f16", 2),
           storage.Expansion("bf16", 3)]
FLOORED = {str(kept): kept for kept in ROUNDED} | {
    f"{kind.__name__}-{name}": kind(code, *scale)
    for name, code in DITHERED.items() for kind, scale in ((Scaled, (16, "f32")), (Coded, ()))
    if kind is Scaled or not code.range} | {
        "nearest": Scaled(FloatCode("f8E4M3FN"), 16, "f32"),
        "cut": Coded(MinifloatCode(4, 3, rounding="toward_zero"))}


@pytest.mark.parametrize("kept", FLOORED.values(), ids=FLOORED)
def test_floor(kept):
    """No positive number becomes zero, and no other value changes."""
    rng = np.random.default_rng(38)
    x = np.exp2(rng.uniform(-149, 0, 64)).astype(np.float32)
    x[:16] = rng.choice([0.0, 1.0, 1e-45], 16)
    draw = storage.Draw(floor=True)
    with np.errstate(all="ignore"):
        plain, raised = [kept.encode("v", x, replace(draw, floor=f)) for f in (False, True)]
        zero = kept.encode("v", np.zeros(64, np.float32), draw)
    names = [n for n in raised if n == "v" or n.startswith("v.lo")]
    assert all(np.array_equal(plain[n], raised[n]) for n in raised if n not in names)
    before, after = [kept.decode(planes, "v") for planes in (plain, raised)]
    assert np.any((before == 0) & (x > 0)) and np.all(after[x > 0] > 0)
    for n in names:
        assert np.all(raised[n][x == 0] == zero[n][0])
    # Lost numbers become the smallest one, and others do not change.
    lost = (before == 0) & (x > 0)
    assert np.all(after[~lost] == before[~lost])
    groups = np.arange(64) // 16
    for group in range(4):
        mine = (groups == group) & (x > 0)
        assert np.all(after[mine & lost] == after[mine].min())


def test_floor_is_the_second_moments():
    """The floor applies only under the f32 policy."""
    plain = storage.Plain("bf16")
    planes = {"grad": 0, "param": 0x3F80, "exp_avg": 1, "exp_avg_sq": 1}
    planes = {name: np.full(4, code, np.uint16) for name, code in planes.items()}
    h = cases.hypers("adamw", beta1=0.25, beta2=0.25)
    for component, want in ((None, 1), ("bf16", 0)):
        new = step("adamw", Strategy(plain, plain, plain, plain, component), planes, h, 1)
        assert not new["exp_avg"].any() and np.all(new["exp_avg_sq"] == want)
