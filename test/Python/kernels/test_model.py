#===- test_model.py - The model against independent oracles ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the NumPy model against ml_dtypes, exact rational arithmetic and published
# vectors.
#
#===----------------------------------------------------------------------===#

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from model import (GRAPHS, STRATEGIES, Strategy, bytes_per_parameter,
                   cases, metrics, plane_types, step, storage, trace)
from model import arithmetic as mcf
from model.arithmetic import Arithmetic
from model.formats import (FORMATS, decode, encode, encode_by_bits, encode_general,
                           round_to)
from model.philox import half_words, philox4x32
from model.strategies import MOMENT
from support.listings import LISTINGS

DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
NARROW = tuple(DTYPES)


def codes_of(name):
    return np.arange(1 << FORMATS[name].bits, dtype=FORMATS[name].dtype)


def random_f32(size, seed=1):
    """Returns uniform bits, and bits near the rounding boundaries of all formats."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, size, dtype=np.uint32)
    tie = rng.choice([0x8000, 0x1000, 0x80000, 0x100000], size).astype(np.uint32)
    near = (bits & ~(tie * np.uint32(2) - np.uint32(1))) | tie
    near += rng.integers(-1, 2, size).astype(np.uint32)
    return np.concatenate([bits, near]).view(np.float32)


def random_components(name, size, seed, low=-20, high=20):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(size) * np.exp2(rng.integers(low, high, size))
    with np.errstate(over="ignore"):
        return round_to(name, x.astype(np.float32))


def nearest(name, value, negative_zero=False):
    """Searches for the code of an exact rational, by the definition of fl."""
    fmt = FORMATS[name]
    sign = fmt.sign_bit if value < 0 or (value == 0 and negative_zero) else 0
    magnitude = abs(value)
    exponent = fmt.min_exponent
    while magnitude >= Fraction(2)**(exponent + 1):
        exponent += 1
    units = magnitude / Fraction(2)**(exponent - fmt.mantissa_bits)
    # Fraction rounds to nearest, ties to even.
    code = round(units) + ((exponent - fmt.min_exponent) << fmt.mantissa_bits)
    if code > fmt.largest:
        return fmt.overflow | (sign if fmt.has_infinity else 0)
    return code | sign


#===----------------------------------------------------------------------===#
# Formats
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("name", NARROW)
def test_decode_every_code(name):
    codes = codes_of(name)
    with np.errstate(invalid="ignore"):
        expected = codes.view(DTYPES[name]).astype(np.float32)
    got = decode(name, codes)
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    finite = ~np.isnan(expected)
    assert np.array_equal(got[finite].view(np.uint32), expected[finite].view(np.uint32))


@pytest.mark.parametrize("name", NARROW)
def test_encode_decoded_code_is_identity(name):
    codes = codes_of(name)
    nan = np.isnan(decode(name, codes))
    expected = np.where(nan, FORMATS[name].canonical_nan, codes)
    assert np.array_equal(encode(name, decode(name, codes)), expected)
    assert np.array_equal(encode(name, decode(name, codes).astype(np.float64)), expected)


@pytest.mark.parametrize("name", NARROW)
def test_encode_f32_against_ml_dtypes(name):
    x = random_f32(400_000)
    with np.errstate(all="ignore"):
        narrow = x.astype(DTYPES[name])
        nan = np.isnan(narrow.astype(np.float32))
    expected = np.where(nan, FORMATS[name].canonical_nan, narrow.view(FORMATS[name].dtype))
    assert np.array_equal(encode(name, x), expected)
    assert np.array_equal(encode_general(name, x), expected)


def test_f64_to_f32_against_numpy():
    bits = np.random.default_rng(2).integers(0, 1 << 64, 200_000, dtype=np.uint64)
    exponent = np.random.default_rng(3).integers(-160, 130, 200_000)
    ordinary = np.ldexp(1 + (bits >> np.uint64(12)) * 2.0**-52, exponent)
    x = np.concatenate([bits.view(np.float64), ordinary, -ordinary])
    with np.errstate(all="ignore"):
        expected = x.astype(np.float32)
    nan = np.isnan(x)
    expected = np.where(nan, np.uint32(0x7FFFFFFF), expected.view(np.uint32))
    assert np.array_equal(encode("f32", x), expected)


@pytest.mark.parametrize("name", NARROW)
def test_encode_f64_rounds_once(name):
    """The values are so close to a tie that rounding to f32 first would change the result."""
    fmt = FORMATS[name]
    rng = np.random.default_rng(4)
    codes = rng.integers(0, fmt.largest, 600).astype(fmt.dtype)
    low = decode(name, codes).astype(np.float64)
    high = decode(name, (codes + 1).astype(fmt.dtype)).astype(np.float64)
    tie = (low + high) / 2
    for x in (tie, np.nextafter(tie, np.inf), np.nextafter(tie, 0)):
        expected = [nearest(name, Fraction(float(v))) for v in x]
        assert np.array_equal(encode(name, x), expected)
    assert encode("bf16", np.float64(1 + 2.0**-8 + 2.0**-40)) == 0x3F81
    assert encode("bf16", np.float32(1 + 2.0**-8 + 2.0**-40)) == 0x3F80


def test_overflow_and_nan():
    x = np.array([464.0, 464.0001, -1e30, np.inf, -np.nan], dtype=np.float32)
    assert encode("f8E4M3FN", x).tolist() == [0x7E, 0x7F, 0x7F, 0x7F, 0x7F]
    assert encode("f8E5M2", x[2:]).tolist() == [0xFC, 0x7C, 0x7F]
    assert encode("bf16", np.array([0xFFFFFFFF], np.uint32).view(np.float32)) == 0x7FFF
    assert encode("f32", x[4:]).tolist() == [0x7FFFFFFF]
    assert encode("f16", np.float32([65519.99, 65520, -65520])).tolist() == \
        [0x7BFF, 0x7C00, 0xFC00]


#===----------------------------------------------------------------------===#
# Arithmetic
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("name", NARROW)
def test_operations_are_correctly_rounded(name):
    k = Arithmetic(name)
    span = {"bf16": 130, "f16": 14}.get(name, 6)
    a = random_components(name, 600, 5, -span, span)
    b = random_components(name, 600, 6, -span, span)
    operations = ((k.add, lambda x, y: x + y), (k.sub, lambda x, y: x - y),
                  (k.mul, lambda x, y: x * y), (k.div, lambda x, y: x / y))
    usable = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    a, b = a[usable], b[usable]
    for operation, exact in operations:
        got = encode(name, operation(a, b))
        for x, y, code in zip(a, b, got):
            value = exact(Fraction(float(x)), Fraction(float(y)))
            negative = math.copysign(1, x) * math.copysign(1, y) < 0
            zero = negative and operation in (k.mul, k.div)
            assert code == nearest(name, value, zero), (operation, x, y)


@pytest.mark.parametrize("name", NARROW)
def test_sqrt_is_correctly_rounded(name):
    codes = codes_of(name)
    x = decode(name, codes)
    x = x[np.isfinite(x) & (x >= 0)]
    root = Arithmetic(name).sqrt(x)
    # Correct iff x lies between the squares of the neighbouring midpoints.
    code = encode(name, root).astype(np.int64) & ~FORMATS[name].sign_bit
    value = lambda c: decode(name, c.astype(FORMATS[name].dtype)).astype(np.float64)
    below = (value(np.maximum(code - 1, 0)) + value(code)) / 2
    above = (value(code + 1) + value(code)) / 2
    assert np.all((below * below <= x) & (x <= above * above))


def test_scalar_operations_round_twice():
    """The products are near a bf16 tie, onto which float32 rounds them."""
    k, differ = Arithmetic("bf16"), 0
    for x in np.arange(128, 256, dtype=np.float32).reshape(-1, 1) / 128:
        scalar = float(np.float32((1 + 2.0**-8) / float(x[0])))
        once = round_to("bf16", x.astype(np.float64) * scalar)
        twice = (x * np.float32(scalar)).astype(ml_dtypes.bfloat16)
        assert k.mul(x, scalar) == twice.astype(np.float32)
        differ += int(k.mul(x, scalar)[0] != once[0])
    assert differ > 10


def test_fma_witness():
    a, b, c = decode("bf16", np.array([[0x3F81], [0x3FC0], [0x8001]], np.uint16))
    k = Arithmetic("bf16")
    assert encode("bf16", k.fma(a, b, c)) == 0x3FC1
    assert encode("bf16", k.fma(k.neg(a), b, k.neg(c))) == 0xBFC1


@pytest.mark.parametrize("name", NARROW)
def test_fma_rounds_once(name):
    """The cases have every sign and every distance between product and addend."""
    k, fmt = Arithmetic(name), FORMATS[name]
    rng = np.random.default_rng(9)
    size, low = 2000, 1 << fmt.mantissa_bits
    significand = lambda: rng.integers(low, 2 * low, size) / low
    span = {"bf16": 60, "f16": 7}.get(name, 3)
    power = lambda: np.exp2(rng.integers(-span, span, size)) * rng.choice([-1, 1], size)
    a = (significand() * power()).astype(np.float32)
    b = (significand() * power()).astype(np.float32)
    c = decode(name, rng.integers(0, 1 << fmt.bits, size).astype(fmt.dtype))
    usable = np.isfinite(c)
    a, b, c = a[usable], b[usable], c[usable]
    got = encode(name, k.fma(a, b, c))
    for x, y, z, code in zip(a, b, c, got):
        value = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert code == nearest(name, value), (x, y, z)


def test_fma_special_values():
    k = Arithmetic("bf16")
    inf, nan, zero = np.float32(np.inf), np.float32(np.nan), np.float32(0)
    one = np.float32(1)
    assert np.isnan(k.fma(inf, zero, one)) and np.isnan(k.fma(inf, one, -inf))
    assert k.fma(inf, one, one) == inf and np.isnan(k.fma(one, one, nan))
    assert np.signbit(k.fma(-zero, one, -zero)) and not np.signbit(k.fma(one, one, -one))
    huge = decode("bf16", np.array([0x7F7F], np.uint16))
    assert k.fma(huge, huge, -huge) == inf


#===----------------------------------------------------------------------===#
# Multi-component operations
#===----------------------------------------------------------------------===#


def f64(x):
    return x.astype(np.float64)


@pytest.mark.parametrize("name", ("bf16", "f16"))
def test_sums_are_error_free(name):
    k = Arithmetic(name)
    span = 20 if name == "bf16" else 14
    a = random_components(name, 300_000, 10, -span, span - 4)
    b = random_components(name, 300_000, 11, -span, span - 4)
    x, y = mcf.two_sum(k, a, b)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(x)
    assert np.array_equal((f64(x) + y)[finite], (f64(a) + b)[finite])
    swap = np.abs(b) > np.abs(a)
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    fast = mcf.fast_two_sum(k, a, b)
    assert np.array_equal(fast[0][finite], x[finite])
    assert np.array_equal(fast[1][finite], y[finite])


def test_fast_two_sum_is_literal():
    """Only the literal sequence returns a -0 addend as the error."""
    k, one = Arithmetic("bf16"), np.ones(1, np.float32)
    zero = -np.zeros(1, np.float32)
    assert np.signbit(mcf.fast_two_sum(k, one, zero)[1])
    assert not np.signbit(mcf.two_sum(k, one, zero)[1])
    small, large = k.round(np.float32([0.126953125])), k.round(np.float32([200.0]))
    x = k.add(small, large)
    assert mcf.fast_two_sum(k, small, large)[1] == k.sub(large, k.sub(x, small))


@pytest.mark.parametrize("name", ("f8E4M3FN", "f8E5M2"))
def test_two_sum_all_pairs(name):
    x = decode(name, codes_of(name))
    x = x[np.isfinite(x)]
    a, b = [v.reshape(-1) for v in np.meshgrid(x, x)]
    s, e = mcf.two_sum(Arithmetic(name), a, b)
    finite = np.isfinite(s) & np.isfinite(e)
    assert np.array_equal((f64(s) + e)[finite], (f64(a) + b)[finite])
    # All nonfinite results are at the edge of the range.
    assert np.all(np.abs(f64(a) + b)[~finite] > 0.75 * np.max(x))


@pytest.mark.parametrize("name", NARROW)
def test_two_prod_is_error_free_in_range(name):
    k, fmt = Arithmetic(name), FORMATS[name]
    x = random_components(name, 100_000, 12, -6, 4)
    y = random_components(name, 100_000, 13, -6, 4)
    p, e = mcf.two_prod(k, x, y)
    with np.errstate(all="ignore"):
        exponents = np.frexp(x)[1] + np.frexp(y)[1] - 2
    fine = (exponents >= fmt.min_exponent + fmt.precision - 1) & np.isfinite(p) & (p != 0)
    assert np.count_nonzero(fine) > 1000
    assert np.array_equal((f64(p) + e)[fine], (f64(x) * y)[fine])


@pytest.mark.parametrize("name", ("bf16", "f16"))
def test_dekker_agrees_in_range(name):
    k = Arithmetic(name)
    low = -20 if name == "bf16" else -1
    x = random_components(name, 100_000, 14, low, 4)
    y = random_components(name, 100_000, 15, low, 4)
    hi, lo = mcf.split(k, x)
    assert np.array_equal(f64(hi) + lo, x)
    bits = lambda v: np.ldexp(np.frexp(v)[0], -(-FORMATS[name].precision // 2))
    assert np.array_equal(np.round(bits(hi)), bits(hi))
    if name == "bf16":
        # With odd precision, products of the halves need not be representable.
        fma, dekker = mcf.two_prod(k, x, y), mcf.two_prod_dekker(k, x, y)
        assert np.array_equal(fma[0], dekker[0]) and np.array_equal(fma[1], dekker[1])


@pytest.mark.parametrize("name", ("bf16", "f16"))
def test_expansions_stay_within_their_bounds(name):
    k, u = Arithmetic(name), 2.0**-FORMATS[name].precision
    pair = lambda seed: tuple(storage._residuals(
        name, np.random.default_rng(seed).uniform(1, 4, 50_000).astype(np.float32), 2))
    a, b = pair(16), pair(17)
    exact_a, exact_b = f64(a[0]) + a[1], f64(b[0]) + b[1]
    product = mcf.mul(k, a, b)
    relative = (f64(product[0]) + product[1]) / (exact_a * exact_b) - 1
    assert np.max(np.abs(relative)) <= 5 * u * u
    scaled = mcf.scale(k, a, b[0])
    relative = (f64(scaled[0]) + scaled[1]) / (exact_a * b[0]) - 1
    assert np.max(np.abs(relative)) <= 3 * u * u
    delta = k.mul(b[0], 2.0**-6)
    grown = mcf.grow(k, a, delta)
    relative = (f64(grown[0]) + grown[1]) / (exact_a + delta) - 1
    assert np.max(np.abs(relative)) <= 2 * u * u / (1 - 2 * u)
    swapped = mcf.mul(k, b, a)
    assert all(np.array_equal(x, y) for x, y in zip(product, swapped))


def test_overflowing_expansions_are_nan():
    k = Arithmetic("bf16")
    huge = decode("bf16", np.array([0x7F7F], np.uint16))
    zero = np.zeros(1, np.float32)
    for result in (mcf.grow(k, (huge, zero), huge), mcf.scale(k, (huge, zero), huge),
                   mcf.mul(k, (huge, zero), (huge, zero))):
        assert np.isnan(result[0]) and np.isnan(result[1])


#===----------------------------------------------------------------------===#
# Random bits
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("counter, key, output", (
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2,
     (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
))
def test_philox_vectors(counter, key, output):
    assert tuple(int(w) for w in philox4x32(counter, key)) == output


def test_half_words_order_and_chunks():
    whole = half_words(100, 0, seed=0, key=0, step=0)
    assert [hex(h) for h in whole[:4]] == ["0xe8d5", "0x6627", "0xc58d", "0xe169"]
    pieces = [half_words(n, f, 0, 0, 0) for f, n in ((0, 13), (13, 1), (14, 50), (64, 36))]
    assert np.array_equal(whole, np.concatenate(pieces))
    pi = half_words(8, 8 * 0x85A308D3243F6A88, seed=0x299F31D0A4093822,
                    key=0x13198A2E, step=0x03707344)
    assert pi[0] == 0xFE09 and pi[7] == 0x2412


@pytest.mark.parametrize("name", ("bf16", "f16"))
def test_stochastic_rounding_by_definition(name):
    fmt, rng = FORMATS[name], np.random.default_rng(18)
    low = -140 if name == "bf16" else -30
    x = np.concatenate([
        rng.standard_normal(3000) * np.exp2(rng.uniform(low, 18, 3000)),
        decode(name, rng.integers(0, fmt.infinity, 500).astype(fmt.dtype)),
        [0.0, -0.0, 65504, 65519, 65535, 3.4e38, -3.4e38, 1e-45]]).astype(np.float32)
    r = rng.integers(0, 1 << 16, len(x)).astype(np.uint16)
    got = encode_by_bits(name, x, "stochastic", r)
    for value, bits, code in zip(x, r, got):
        magnitude = abs(Fraction(float(value)))
        exponent = math.frexp(float(value))[1] - 1 if value else fmt.min_exponent
        exponent = max(exponent, fmt.min_exponent)
        n, f = divmod(magnitude / Fraction(2)**(exponent - fmt.mantissa_bits), 1)
        n += math.floor(f * 65536) + int(bits) >= 65536
        expected = int(n) + ((exponent - fmt.min_exponent) << fmt.mantissa_bits)
        expected = min(expected, fmt.infinity)
        assert code == expected | (fmt.sign_bit if np.signbit(value) else 0), value


def test_stochastic_rounding_threshold():
    x = np.full(3, 1 + 2.0**-9, dtype=np.float32)
    r = np.array([0xBFFF, 0xC000, 0xC001], dtype=np.uint16)
    assert encode_by_bits("bf16", x, "stochastic", r).tolist() == [0x3F80, 0x3F81, 0x3F81]
    assert encode_by_bits("f16", x, "stochastic", r).tolist() == [0x3C02] * 3


def test_stochastic_rounding_specials():
    x = np.array([np.nan, -np.nan, np.inf, -np.inf], dtype=np.float32)
    r = np.full(4, 0xFFFF, np.uint16)
    for name in ("bf16", "f16"):
        inf = FORMATS[name].infinity
        got = encode_by_bits(name, x, "stochastic", r)
        assert got.tolist() == [0x7FFF, 0x7FFF, inf, inf | 0x8000]


#===----------------------------------------------------------------------===#
# Storage
#===----------------------------------------------------------------------===#


def test_remainder_is_exact():
    rng = np.random.default_rng(19)
    edges = np.array([0, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint64)
    uppers = np.arange(1 << 16, dtype=np.uint64) << np.uint64(16)
    u = np.concatenate([(uppers[:, None] | edges).reshape(-1),
                        rng.integers(0, 1 << 32, 500_000, dtype=np.uint64)]).astype(np.uint32)
    u = u[~np.isnan(u.view(np.float32))]
    planes = storage.Remainder.split("w", u)
    assert np.array_equal(storage.Remainder().decode(planes, "w").view(np.uint32), u)


def test_a_zero_over_a_remainder_is_zero():
    """Zeros written by other code decode to zero, with any remainder."""
    low = np.arange(1 << 16, dtype=np.uint16)
    for high in (0, 0x8000):
        planes = {"w": np.full_like(low, high), "w.remainder": low}
        value = storage.Remainder().decode(planes, "w")
        assert (np.abs(value) < 2.0**-133).all() and not value[low >= 0x8000].any()


@pytest.mark.parametrize("name", ("bf16", "f16"))
@pytest.mark.parametrize("count", (2, 3))
def test_expansions_keep_what_fits(name, count):
    kept = storage.Expansion(name, count)
    x = np.random.default_rng(20).uniform(1, 4, 10_000).astype(np.float32)
    planes = kept.encode("w", x, storage.Draw())
    assert tuple(planes) == ("w", "w.lo", "w.lo2")[:count]
    assert np.array_equal(planes["w"], encode(name, x))
    error = np.max(np.abs(f64(kept.decode(planes, "w")) / x - 1))
    assert error <= 2.0**-min(count * (FORMATS[name].precision + 1) - 1, 60)
    if count * FORMATS[name].precision >= 24:
        assert error == 0


def test_expansions_of_values_that_are_not_finite():
    x = np.array([np.inf, -np.inf, np.nan, 3.4e38], dtype=np.float32)
    planes = storage.Expansion("bf16", 3).encode("w", x, storage.Draw())
    assert planes["w"].tolist() == [0x7F80, 0xFF80, 0x7FFF, 0x7F80]
    assert not planes["w.lo"].any() and not planes["w.lo2"].any()


@pytest.mark.parametrize("strategy, size", (
    ("bf16", 8), ("collage-light", 10), ("collage-plus", 12), ("master-weights", 16),
    ("fp32", 16), ("bf16-kahan", 10), ("fp32-optim", 12), ("remainder", 14)))
def test_bytes_per_parameter(strategy, size):
    assert bytes_per_parameter("adamw", STRATEGIES[strategy]) == size


#===----------------------------------------------------------------------===#
# Steps
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_strategy_steps_and_stores_canonical_nans(graph):
    for name, strategy in STRATEGIES.items():
        types = plane_types(graph, strategy)
        for kind in cases.KINDS:
            planes = cases.state(graph, strategy, kind, 32, seed=3)
            assert {p: a.dtype for p, a in planes.items()} == types
            new = step(graph, strategy, planes, cases.hypers(graph, strategy), 3)
            assert set(new) == {p for p in types if not p.startswith("grad")}
            for role in GRAPHS[graph].roles[1:]:
                kept = strategy.storage(role)
                for suffix, fmt in getattr(kept, "suffixes", {}).items():
                    code = new[role + suffix]
                    nan = np.isnan(decode(fmt, code))
                    assert np.all(code[nan] == FORMATS[fmt].canonical_nan), (name, kind)


class Bf16:
    """bf16 arithmetic with ml_dtypes, for transcriptions of listings."""

    def __init__(self, x):
        self.x = np.asarray(x)

    def _binary(self, other, operation):
        if isinstance(other, Bf16):
            return Bf16(operation(self.x, other.x))
        wide = operation(self.x.astype(np.float32), np.float32(other))
        return Bf16(wide.astype(ml_dtypes.bfloat16))

    def __add__(self, other):
        return self._binary(other, np.add)

    def __sub__(self, other):
        return self._binary(other, np.subtract)

    def __mul__(self, other):
        return self._binary(other, np.multiply)

    def __truediv__(self, other):
        return self._binary(other, np.divide)

    def sqrt(self):
        with np.errstate(invalid="ignore"):
            root = np.sqrt(self.x.astype(np.float32))
        return Bf16(root.astype(ml_dtypes.bfloat16))

    def product_error(self, other, product):
        exact = self.x.astype(np.float64) * other.x.astype(np.float64)
        error = exact - product.x.astype(np.float64)
        return Bf16(error.astype(np.float32).astype(ml_dtypes.bfloat16))


def listed_fast_two_sum(a, b):
    x = a + b
    return x, b - (x - a)


def listed_grow(x, y, a):
    u, v = listed_fast_two_sum(x, a)
    return listed_fast_two_sum(u, y + v)


def listed_mul(a1, a2, b1, b2):
    x = a1 * b1
    e = a1.product_error(b1, x) + (a1 * b2 + a2 * b1)
    return listed_fast_two_sum(x, e)


def listed_decay(name, th, low, factor):
    if not name.startswith("collage"):
        return th * factor, low
    hi = ml_dtypes.bfloat16(factor)
    lo = ml_dtypes.bfloat16(factor - float(hi))
    full = lambda x: Bf16(np.full(th.x.shape, x))
    return listed_mul(full(hi), full(lo), th, low)


def listed_accumulate(name, th, low, d):
    if name.startswith("collage"):
        return listed_grow(th, low, d)
    if name == "bf16":
        return th + d, None
    d = d + low
    return th + d, d - ((th + d) - th)


@pytest.mark.parametrize("name", ("bf16", "bf16-kahan", "collage-light", "collage-plus"))
@pytest.mark.parametrize("kind", ("ordinary", "large_update", "edges", "not_normalized"))
@pytest.mark.parametrize("graph", ("adamw", "adamw_decay_before", "adamw_decay_after"))
def test_adamw_against_the_listing(name, kind, graph):
    strategy, h, t = STRATEGIES[name], cases.hypers(graph, lr=1e-2, weight_decay=0.5), 5
    planes = cases.state(graph, strategy, kind, 5000, seed=4)
    load = lambda plane: Bf16(planes[plane].view(ml_dtypes.bfloat16))
    g, th, m, v = map(load, ("grad", "param", "exp_avg", "exp_avg_sq"))
    low_plane = "param.compensation" if name == "bf16-kahan" else "param.lo"
    low = load(low_plane) if name != "bf16" else None
    lr, wd, b1, b2 = (h[x] for x in ("lr", "weight_decay", "beta1", "beta2"))
    m = m * b1 + g * (1 - b1)
    a = (g * g) * (1 - b2)
    expected = {"exp_avg": m}
    if name == "collage-plus":
        pair = listed_decay(name, v, load("exp_avg_sq.lo"), b2)
        v, expected["exp_avg_sq.lo"] = listed_grow(*pair, a)
    else:
        v = v * b2 + a
    mh = m * (1 / (1 - b1 * ((b1 * b1) * (b1 * b1))))
    vh = v * (1 / (1 - b2 * ((b2 * b2) * (b2 * b2))))
    u = mh / (vh.sqrt() + h["eps"])
    if graph == "adamw":
        u = u + th * wd
    if graph == "adamw_decay_before":
        th, low = listed_decay(name, th, low, 1 - lr * wd)
    th, low = listed_accumulate(name, th, low, u * -lr)
    if graph == "adamw_decay_after":
        th, low = listed_accumulate(name, th, low, th * -(lr * wd))
    expected |= {"exp_avg_sq": v, "param": th} | ({low_plane: low} if low else {})
    new = step(graph, strategy, planes, h, t)
    assert set(new) == set(expected)
    for plane, value in expected.items():
        bits = encode("bf16", value.x.astype(np.float32))
        assert np.array_equal(new[plane], bits), plane


def test_adamw_in_f32_is_close_to_f64():
    strategy, h = STRATEGIES["fp32"], cases.hypers("adamw")
    planes = cases.state("adamw", strategy, "ordinary", 5000)
    value = {p: a.view(np.float32).astype(np.float64) for p, a in planes.items()}
    for t in range(1, 6):
        planes |= step("adamw", strategy, planes, h, t)
        g = value["grad"]
        m = value["exp_avg"] = h["beta1"] * value["exp_avg"] + (1 - h["beta1"]) * g
        v = h["beta2"] * value["exp_avg_sq"] + (1 - h["beta2"]) * g * g
        value["exp_avg_sq"] = v
        update = m / (1 - h["beta1"]**t) / (np.sqrt(v / (1 - h["beta2"]**t)) + h["eps"])
        value["param"] -= h["lr"] * (update + h["weight_decay"] * value["param"])
    for name, expected in value.items():
        got = planes[name].view(np.float32)
        assert np.allclose(got, expected, rtol=2e-5, atol=1e-7), name


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("kind", cases.KINDS)
def test_graphs_in_f32_against_their_listings(graph, kind):
    planes = cases.state(graph, STRATEGIES["fp32"], kind, 5000, seed=8)
    h = cases.hypers(graph, lr_decay=0.3, beta2=0.95)
    values = {p: a.view(np.float32) for p, a in planes.items()}
    for t in (1, 2, 3):
        with np.errstate(all="ignore"):
            expected = LISTINGS[graph](np.float32, values["grad"], values["param"],
                                       values, h, t)
        new = step(graph, STRATEGIES["fp32"], planes, h, t)
        assert set(new) == set(expected)
        for name, value in expected.items():
            assert np.array_equal(new[name], encode("f32", value)), (name, t)


@pytest.mark.parametrize("graph", [name for name, graph in GRAPHS.items()
                                   if "average" not in map(MOMENT.get, graph.states)])
def test_f32_policies_agree_with_fp32_on_what_they_store(graph):
    """fp32-optim, master-weights and remainder differ only in how they store the weight."""
    h = cases.hypers(graph)
    planes = cases.state(graph, STRATEGIES["remainder"], "ordinary", 500)
    weight = storage.Remainder().decode(planes, "param")
    # The other two use the same values: f32 everywhere, and the f32 master.
    exact = {p: a for p, a in planes.items() if not p.startswith(("param", "grad"))}
    wide = exact | {"param": encode("f32", weight),
                    "grad": encode("f32", decode("bf16", planes["grad"]))}
    master = exact | {"grad": planes["grad"], "param": encode("bf16", weight),
                      "param.master": encode("f32", weight)}
    by_remainder = step(graph, STRATEGIES["remainder"], planes, h, 7)
    by_master = step(graph, STRATEGIES["master-weights"], master, h, 7)
    by_f32 = step(graph, STRATEGIES["fp32"], wide, h, 7)
    assert np.array_equal(by_f32["param"], by_master["param.master"])
    back = storage.Remainder().decode(by_remainder, "param").view(np.uint32)
    assert np.array_equal(by_f32["param"], back)
    new = by_f32["param"].view(np.float32)
    assert np.array_equal(by_master["param"], encode("bf16", new))
    for state in GRAPHS[graph].states:
        assert np.array_equal(by_f32[state], by_master[state])


@pytest.mark.parametrize("graph", [g for g in GRAPHS if not GRAPHS[g].reduces])
def test_steps_do_not_depend_on_chunks(graph):
    for name, strategy in STRATEGIES.items():
        planes = cases.state(graph, strategy, "mixed", 300, seed=5)
        h = cases.hypers(graph, strategy)
        run = lambda p, first: step(graph, strategy, p, h, 9, seed=77, key=5, first=first)
        whole = run(planes, 1000)
        parts = [run({p: a[i:j] for p, a in planes.items()}, 1000 + i)
                 for i, j in ((0, 3), (3, 130), (130, 300))]
        for plane, value in whole.items():
            assert np.array_equal(value, np.concatenate([p[plane] for p in parts])), name


def test_wide_gradients_are_rounded_to_the_component():
    narrow = STRATEGIES["collage-plus"]
    wide = Strategy(storage.Plain("f32"), narrow.param, narrow.first, narrow.second, "bf16")
    planes = cases.state("adamw", wide, "mixed", 2000, seed=6)
    rounded = planes | {"grad": encode("bf16", planes["grad"].view(np.float32))}
    h = cases.hypers("adamw")
    a, b = step("adamw", wide, planes, h, 2), step("adamw", narrow, rounded, h, 2)
    assert all(np.array_equal(a[p], b[p]) for p in b)


@pytest.mark.parametrize("fmt", ("f8E4M3FN", "f8E5M2"))
def test_all_fp8_collage_steps(fmt):
    plain, pair = storage.Plain(fmt), storage.Expansion(fmt)
    strategy = Strategy(plain, pair, plain, pair, fmt)
    for kind in cases.KINDS:
        planes = cases.state("adamw", strategy, kind, 200)
        new = step("adamw", strategy, planes, cases.hypers("adamw", strategy), 2)
        assert all(a.dtype == np.uint8 for a in new.values())


@pytest.mark.parametrize("changes, t, message", (
    ({"lr": -1.0}, 1, "lr is -1.0"),
    ({"beta1": 1.0}, 1, r"beta1 is 1.0: pass a value in \[0, 1\)"),
    ({"beta2": math.nan}, 1, "beta2 is nan"),
    ({}, 0, "step is 0: steps count from 1"),
    ({"eps": 1e-60}, 1, "eps 1e-60 rounds to zero in bf16")))
def test_refused_launches(changes, t, message):
    strategy = STRATEGIES["bf16"]
    planes = cases.state("adamw", strategy, "ordinary", 4)
    with pytest.raises(ValueError, match=message):
        step("adamw", strategy, planes, cases.hypers("adamw", **changes), t)


def test_f16_refuses_the_usual_epsilon():
    strategy = STRATEGIES["f16-collage-plus"]
    planes = cases.state("adamw", strategy, "ordinary", 4)
    with pytest.raises(ValueError, match="eps 1e-08 rounds to zero in f16"):
        step("adamw", strategy, planes, cases.hypers("adamw"), 1)


def test_large_updates_outgrow_their_weights():
    strategy = STRATEGIES["collage-plus"]
    planes = cases.state("adamw", strategy, "large_update", 1000)
    _, intended = trace("adamw", strategy, planes, cases.hypers("adamw"), 3)
    weight = np.abs(decode("bf16", planes["param"]))
    assert np.count_nonzero(np.abs(intended) > weight) > 500


#===----------------------------------------------------------------------===#
# Metrics
#===----------------------------------------------------------------------===#


def test_tree_sum_shape():
    x = np.array([1.0, 2.0**-53, 2.0**-53, 2.0**-53, 1.0])
    tree = ((x[0] + x[1]) + (x[2] + x[3])) + x[4]
    assert metrics.tree_sum(x) == tree
    # Adding halves first would give 2^-52.
    assert metrics.tree_sum(np.array([1, 2.0**-53, -1, 2.0**-53])) == 2.0**-53
    assert np.signbit(metrics.tree_sum(np.array([-0.0, -0.0, -0.0])))
    assert np.signbit(metrics.tree_sum(np.array([])))


def test_descent_quality_of_what_is_lost():
    intended = np.array([3.0, 4.0, 0.0, -1e-9])
    effective = np.array([3.0, 4.0, 0.0, 0.0])
    measured = metrics.descent_quality(intended, effective)
    assert math.isclose(measured.quality, 5.0) and math.isclose(measured.relative, 1.0)
    assert measured.lost_share == 0.25
    nothing = metrics.descent_quality(np.zeros(3), np.zeros(3))
    assert nothing == metrics.DescentQuality(0.0, 0.0, 0.0)


def test_collage_loses_less_than_bf16():
    measured = {}
    for name in ("bf16", "bf16-kahan", "collage-plus", "collage-plus-f32", "fp32"):
        strategy, h = STRATEGIES[name], cases.hypers("adamw", lr=1e-5)
        planes = cases.state("adamw", strategy, "ordinary", 4096)
        new, intended = trace("adamw", strategy, planes, h, 10)
        effective = metrics.effective_update(strategy.param, "param", planes, new)
        measured[name] = metrics.descent_quality(intended, effective)
    assert measured["bf16"].lost_share > 0.5 > measured["collage-plus"].lost_share
    for name in ("bf16-kahan", "collage-plus", "collage-plus-f32", "fp32"):
        assert abs(measured[name].relative - 1) < 0.02
    assert measured["bf16"].relative < 0.98
