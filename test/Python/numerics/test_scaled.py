#===- test_scaled.py - Codes, scales and residuals -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that kernels with scales and residuals have the bits of the NumPy model and the
# reference interpreter.
#
#===----------------------------------------------------------------------===#

from dataclasses import replace

import numpy as np
import pytest

import tandem
from model import (GRAPHS, SCALED_STRATEGIES, Strategy, bytes_per_parameter, cases,
                   plane_groups, plane_types, smallest_group, step,
                   takes_whole_tensors)
from model.codes import (MinifloatCode, f32_exp2, f32_log2)
from model.formats import decode, encode
from model.scaled import Coded, Masked, Residual, Scaled, choose_scale, decode_scale
from model.storage import Draw, Plain
from support.codes import (CODES, SCALES, SWAP, WITH_NAN, groups_of_values, storages,
                           values)
from support.kernels import (ISAS, SEED, STEP, assert_kernel, assert_same, compiled,
                             integers_of, require_isa, run, seed_of, strategy_text)

SIZES = (1, 15, 17, 31, 32, 33, 127, 129, 300, 4097)
KEY, FIRST = 9, 2**33  # FIRST is a multiple of every group

strategies = pytest.mark.parametrize("strategy", SCALED_STRATEGIES)
# adamw has all strategies; each other graph has two, and each strategy three or more.
OTHERS = [(graph, name) for i, graph in enumerate(g for g in GRAPHS if g != "adamw")
          for j, name in enumerate(SCALED_STRATEGIES) if (i + j) % 4 == 0]
pairs = pytest.mark.parametrize(
    "graph, strategy", [("adamw", name) for name in SCALED_STRATEGIES] + OTHERS)


def example(graph, strategy, kind, size):
    """Returns (planes, hypers) of a case."""
    planes = cases.state(graph, SCALED_STRATEGIES[strategy], kind, size,
                         seed_of(graph, strategy, kind, size))
    return planes, cases.hypers(graph)


def check_example(kernel, graph, strategy, kind, size):
    planes, hypers = example(graph, strategy, kind, size)
    model = SCALED_STRATEGIES[strategy]
    first = 0 if takes_whole_tensors(graph, model) else FIRST
    want = step(graph, model, planes, hypers, STEP, SEED, KEY, first)
    assert_kernel(kernel, planes, want, hypers, f"{graph} under {strategy}, {kind}, "
                  f"{size}", key=KEY, first=first)


#===----------------------------------------------------------------------===#
# Graphs under strategies
#===----------------------------------------------------------------------===#


@pytest.mark.thinned(1)
@pairs
def test_kernels(graph, strategy, scaled_path):
    kernel = compiled(graph, strategy, path=(scaled_path,))
    for kind in cases.SCALED_KINDS:
        for size in SIZES:
            check_example(kernel, graph, strategy, kind, size)


@pytest.mark.thinned(1)
@pairs
def test_interpreter(graph, strategy, scaled_path):
    """The interpreter of the source graph agrees with NumPy."""
    whole = takes_whole_tensors(graph, SCALED_STRATEGIES[strategy])
    first = 0 if whole else FIRST
    for kind in cases.SCALED_KINDS:
        for size in (17, 130):
            planes, hypers = example(graph, strategy, kind, size)
            want = step(graph, SCALED_STRATEGIES[strategy], planes, hypers, STEP, SEED,
                        KEY, first)
            got = {name: plane.copy() for name, plane in planes.items()}
            tandem.interpret(graph, strategy, got, hypers, path=[scaled_path],
                             step=STEP, seed=SEED, key=KEY, first=first)
            assert_same(got, planes | want, f"{kind}, {size}")


@pytest.mark.thinned(1, times=4)
@pairs
def test_signature(graph, strategy, scaled_path):
    kernel, model = compiled(graph, strategy, path=(scaled_path,)), SCALED_STRATEGIES
    types = plane_types(graph, model[strategy])
    assert {p.name: p.bits for p in kernel.planes} == {
        name: 8 * dtype.itemsize for name, dtype in types.items()}
    groups = plane_groups(graph, model[strategy])
    assert {p.name: p.group for p in kernel.planes} == groups
    assert kernel.bytes_per_parameter == bytes_per_parameter(graph, model[strategy])


@pytest.mark.parametrize("strategy, count", [
    ("flash", 7.25), ("coat", 10 + 10 / 128), ("coat-bf16", 6 + 10 / 128),
    ("adam8bit", 6 + 8 / 256), ("fp8-collage-light", 5 + 16 / 128),
    ("fp8-collage-plus", 6 + 16 / 128)])
def test_bytes_of_adamw(strategy, count):
    """The first is as in table 1 of the FlashOptim paper: 24-bit weights, and one byte per
    moment, with f32 scales for groups of 32. An exponent is one byte per group."""
    assert compiled("adamw", strategy).bytes_per_parameter == count


@strategies
def test_many_steps(strategy, scaled_path):
    """A step reads the states that the previous step has written."""
    model, hypers = SCALED_STRATEGIES[strategy], cases.hypers("adamw")
    kernel = compiled("adamw", strategy, path=(scaled_path,))
    planes = mine = example("adamw", strategy, "ordinary", 300)[0]
    for number in range(1, 13):
        grad = cases.state("adamw", model, "ordinary", 300, 100 + number)["grad"]
        planes, mine = planes | {"grad": grad}, mine | {"grad": grad}
        planes |= step("adamw", model, planes, hypers, number, SEED)
        mine = run(kernel, mine, hypers, step=number)
        assert_same(mine, planes, f"step {number}")


#===----------------------------------------------------------------------===#
# Ways to compile and launch
#===----------------------------------------------------------------------===#


@pytest.mark.thinned(1)
@pytest.mark.parametrize("isa", ISAS)
@strategies
def test_instruction_sets(strategy, isa, scaled_path):
    require_isa(isa)
    kernel = compiled("adamw", strategy, isa=isa, path=(scaled_path,))
    for kind in ("mixed", "bits", "groups"):
        check_example(kernel, "adamw", strategy, kind, 333)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("width", (1, 8, 16, 64))
@strategies
def test_widths(strategy, width, scaled_path):
    kernel = compiled("adamw", strategy, width=width, path=(scaled_path,))
    for kind in ("mixed", "bits", "groups"):
        check_example(kernel, "adamw", strategy, kind, 333)


@pytest.mark.parametrize("threads", (1, 2, 3))
@pytest.mark.parametrize("strategy", ("flash", "coat", "fp8-moments", "fp8-collage-low",
                                      "minifloat", "unscaled"))
def test_plan(strategy, threads, scaled_path):
    """The plan has many tensors, most with a tail, and any number of threads."""
    kernel = compiled("adamw", strategy, path=(scaled_path,))
    sizes = [1, 0, 70001, 17, 4096, 4097, 300, 64, 9000, 2]
    firsts = [256 * i for i in range(len(sizes))]
    hypers = cases.hypers("adamw")
    before = [example("adamw", strategy, "groups", size)[0] for size in sizes]
    after = [{n: a.copy() for n, a in planes.items()} for planes in before]
    plan = tandem.Plan(kernel)
    plan.update(sizes, [[t[p.name].ctypes.data for p in kernel.planes] for t in after],
                keys=sizes, firsts=firsts)
    scalars = kernel.scalars(hypers | integers_of(kernel))
    plan.launch([scalars[0]], [scalars[1]], threads=threads)
    for size, first, planes, got in zip(sizes, firsts, before, after):
        want = step("adamw", SCALED_STRATEGIES[strategy], planes, hypers, STEP, SEED,
                    size, first)
        assert_same(got, planes | want, f"{size} elements")


@pytest.mark.parametrize("cuts", [(256,), (512, 768, 4096)])
@strategies
def test_shards(strategy, cuts, scaled_path):
    """Shards cut at group boundaries have the bits of the whole tensor."""
    size, kernel = 4500, compiled("adamw", strategy, path=(scaled_path,))
    planes, hypers = example("adamw", strategy, "mixed", size)
    groups, shards = plane_groups("adamw", SCALED_STRATEGIES[strategy]), []
    for begin, end in zip((0, *cuts), (*cuts, size)):
        part = {n: a[begin // groups[n]:-(-end // groups[n])]
                for n, a in planes.items()}
        shards.append(run(kernel, part, hypers, first=FIRST + begin))
    assert_same({n: np.concatenate([s[n] for s in shards]) for n in planes},
                run(kernel, planes, hypers, first=FIRST))


@pytest.mark.parametrize("strategy", [name for name, strategy in SCALED_STRATEGIES.items()
                                      if smallest_group("adamw", strategy)])
def test_first_inside_a_group(strategy, scaled_path):
    kernel = compiled("adamw", strategy, path=(scaled_path,))
    planes, hypers = example("adamw", strategy, "ordinary", 40)
    group = smallest_group("adamw", SCALED_STRATEGIES[strategy])
    with pytest.raises(ValueError, match=f"first is {group // 2}, inside of a group"):
        run(kernel, planes, hypers, first=group // 2)
    with pytest.raises(ValueError, match="counts in groups of .* begin at a multiple"):
        tandem.interpret("adamw", strategy, planes, hypers, path=[scaled_path],
                         first=group // 2)
    with pytest.raises(ValueError, match=f"begins at element {group // 2}, inside"):
        step("adamw", SCALED_STRATEGIES[strategy], planes, hypers, 1, first=group // 2)


def test_entries_of_a_scale(scaled_path):
    """A plane of scales has one entry for each group, including the last, partial one."""
    kernel = compiled("adamw", "flash", path=(scaled_path,))
    planes, hypers = example("adamw", "flash", "ordinary", 33)
    planes["exp_avg.scale"] = planes["exp_avg.scale"][:1].copy()
    with pytest.raises(ValueError, match="'exp_avg.scale' has 1 elements, 'param' has "
                       "33; one entry for each 32 of them makes 2"):
        run(kernel, planes, hypers)
    with pytest.raises(ValueError, match="plane 'exp_avg.scale' has 1 elements, but "
                       "'.*' has 33; an entry for each 32 of them makes 2"):
        tandem.interpret("adamw", "flash", planes, hypers, path=[scaled_path])


#===----------------------------------------------------------------------===#
# Codes, one by one
#===----------------------------------------------------------------------===#

RESIDUALS = {f"{low}-{residual}": Residual(low, residual)
             for low in ("bf16", "f16") for residual in ("i8", "i16")}
DRAWN_RESIDUALS = {f"{low}-{residual}-{rounding}": Residual(low, residual, rounding)
                   for low, residual, rounding in (
                       ("bf16", "i8", "dither"), ("f16", "i16", "dither"),
                       ("bf16", "i16", "dither"), ("f16", "i8", "stochastic"))}


@pytest.fixture(scope="module")
def swap(tmp_path_factory):
    """Returns swap(storage, planes, x), which returns (the planes of x, the decoded planes), by
    the kernel or the interpreter."""
    directory = tmp_path_factory.mktemp("swap")

    def launch(name, storage, planes, x, interpret=False):
        strategy = Strategy(Plain("f32"), storage, Plain("f32"), Plain("f32"))
        (directory / f"{name}.mlir").write_text(strategy_text(name, strategy))
        got = {n: p.copy() for n, p in planes.items()}
        got |= {"g": x.view(np.uint32), "read": np.zeros(len(x), np.uint32)}
        if interpret:
            tandem.interpret(SWAP, name, got, {}, path=[str(directory)], step=STEP,
                             seed=SEED, key=KEY, first=FIRST)
        else:
            got = run(compiled(SWAP, name, path=(str(directory),)), got, {}, key=KEY,
                      first=FIRST)
        return {n: got[n] for n in planes}, got["read"]

    return launch


def check_swap(swap, name, storage, planes, x, **how):
    stored, read = swap(name, storage, planes, x, **how)
    draw = Draw(SEED, KEY, FIRST, STEP)
    assert_same(stored, storage.renew(planes, "w", x, draw), f"{name}, encode")
    assert_same({"read": read}, {"read": encode("f32", storage.decode(planes, "w")[:len(x)])},
                f"{name}, decode")


def every_scale(storage):
    """Returns every bit pattern of a scale, or many of them."""
    dtype = storage.planes("w")["w.scale"]
    if dtype.itemsize == 1:
        return np.arange(256, dtype=dtype)
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 1 << 8 * dtype.itemsize, 160, dtype=np.uint64)
    edges = [0, 1, 1 << (8 * dtype.itemsize - 1)]
    ordinary = encode(storage.scale, np.exp2(rng.uniform(-9, 9, 29)).astype(np.float32))
    return np.concatenate([bits, edges, ordinary]).astype(dtype)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("code, scale, recipe", storages())
def test_scaled_storage(code, scale, recipe, swap):
    name, storage = f"{code}-{scale}-{recipe}", Scaled(CODES[code], 16, scale, recipe)
    x = groups_of_values(storage.code.largest)
    x = np.concatenate([x, values(np.random.default_rng(5), 16 * 500 + 3)])
    scales, element = every_scale(storage), np.arange(len(x))
    # Every 8-bit code occurs under every scale: each round of scales gets the next 16 codes.
    bits = element + 16 * (element // (16 * len(scales)))
    entries = storage.entries("w", len(x))
    planes = {n: bits[:entries[n]].astype(d) for n, d in storage.planes("w").items()}
    if "w.lo" in planes:
        np.random.default_rng(6).shuffle(planes["w.lo"])
    planes["w.scale"] = np.resize(scales, -(-len(x) // 16))
    if "w.exponent" in planes:
        # Every exponent occurs, including those that no kernel writes.
        planes["w.exponent"] = np.random.default_rng(1).integers(
            0, 256, len(planes["w.scale"])).astype(np.uint8)
    check_swap(swap, name, storage, planes, x)


def half_precision(low):
    """Returns every value of a 16-bit format, and its neighbours in f32."""
    exact = decode(low, np.arange(1 << 16, dtype=np.uint16)).view(np.uint32)
    nudge = np.random.default_rng(8).integers(-0x8002, 0x8002, exact.shape)
    return np.concatenate([exact, (exact + nudge).astype(np.uint32)]).view(np.float32)


@pytest.mark.parametrize("low", ("bf16", "f16"))
@pytest.mark.parametrize("name", CODES)
def test_every_half(name, low, swap):
    """All values of bf16 and f16 are stored, sorted so that groups have similar magnitudes."""
    x = half_precision(low)
    x = x[np.argsort(np.abs(x), kind="stable")]
    storage = Scaled(CODES[name], 16, "f32")
    planes = storage.encode("w", values(np.random.default_rng(9), len(x)), Draw())
    check_swap(swap, f"{name}-half", storage, planes, x)


@pytest.mark.parametrize("name", [n for n, code in CODES.items() if code.range])
def test_every_power(name, swap):
    """Every code is decoded with every exponent, including those that no kernel writes: these
    are all entries of the CPU's lookup table."""
    exponent, code = np.divmod(np.arange(1 << 16), 256)
    storage = Scaled(CODES[name], 16, "f32")
    planes = {"w": code.astype(np.uint8), "w.exponent": exponent[::16].astype(np.uint8),
              "w.scale": np.full(1 << 12, 0x3F800000, np.uint32)}
    x = values(np.random.default_rng(10), len(code))
    check_swap(swap, f"{name}-power", storage, planes, x)


def boundaries(code):
    """Returns numbers between which codes change, and two neighbours on either side."""
    value = code.decode([np.arange(256, dtype=np.uint8)]).astype(np.float64)
    value = np.unique(value[np.abs(value) <= code.largest])
    middle = np.float32((value[1:] + value[:-1]) / 2).view(np.int32)
    return (middle[:, None] + np.arange(-2, 3, dtype=np.int32)).view(np.float32).ravel()


@pytest.mark.parametrize("interpret", (False, True))
@pytest.mark.parametrize("name", [n for n in WITH_NAN if not CODES[n].range])
def test_coded_storage(name, interpret, swap):
    """Without a scale, every code and every kind of value agrees."""
    storage = Coded(CODES[name])
    x = np.concatenate([groups_of_values(storage.code.largest)[:4000],
                        half_precision("bf16")[:: 8 if interpret else 1],
                        values(np.random.default_rng(11), 2003)])
    planes = {n: np.arange(storage.entries("w", len(x))[n]).astype(d)
              for n, d in storage.planes("w").items()}
    check_swap(swap, f"{name}-coded", storage, planes, x, interpret=interpret)


@pytest.mark.parametrize("interpret", (False, True))
@pytest.mark.parametrize("format", ("f32", "bf16", "f16"))
@pytest.mark.parametrize("name", [n for n in WITH_NAN if not CODES[n].range])
def test_masked_storage(name, format, interpret, swap):
    """Floats restricted to the values of a code agree for every kind of value."""
    storage = Masked(format, CODES[name])
    x = np.concatenate([groups_of_values(storage.code.largest)[:4000],
                        half_precision("bf16")[:: 8 if interpret else 1],
                        values(np.random.default_rng(12), 2003)])
    planes = {"w": np.arange(len(x)).astype(storage.planes("w")["w"])}
    check_swap(swap, f"{name}-masked-{format}", storage, planes, x, interpret=interpret)


def test_masked_floats():
    """The paper's masks are computed by hand: truncated digits, and clamped magnitudes."""
    def masked(code, *x):
        planes = Masked("f32", code).encode("w", np.array(x, np.float32), Draw())
        return planes["w"].view(np.float32).tolist()

    cut = MinifloatCode(8, 3, None, "ieee", "toward_zero")
    assert masked(cut, 1.24, -1.99, 3e38, 0.0) == [1.125, -1.875, 1.75 * 2.0**127, 0.0]
    inner = replace(cut, exponents=(-62, 127))
    assert masked(inner, 1e-30, 0.0, 1e30) == [2.0**-62, 0.0, masked(cut, 1e30)[0]]
    outer = replace(cut, exponents=(-126, 63))
    assert masked(outer, -1e30, 1.0, 2.0**-127) == [-1.875 * 2.0**63, 1.0, 2.0**-127]


@pytest.mark.parametrize("interpret", (False, True))
@pytest.mark.parametrize("name", ("e4m3", "e5m2", "softsign", "signed", "unsigned",
                                  "mulaw", "unsigned-mulaw", "e2m1", "e4m2", "e3m4",
                                  "clamped"))
def test_boundaries(name, interpret, swap):
    """The first element of each group makes the scale 1."""
    code = CODES[name]
    y = np.resize(boundaries(code), (400, 15))
    near = (1 / code.normalize(np.float32(1))).view(np.int32) + np.arange(-4, 5, dtype=np.int32)
    peak = next(x for x in near.view(np.float32) if code.normalize(x) == 1)
    x = np.concatenate([np.full((len(y), 1), peak), y], 1).astype(np.float32).ravel()
    storage = Scaled(code, 16, "f32")
    planes = storage.encode("w", x, Draw())
    assert np.all(decode_scale("f32", planes["w.scale"]) == 1)
    check_swap(swap, f"{name}-boundaries", storage, planes, x, interpret=interpret)


@pytest.mark.parametrize("name", CODES)
def test_interpreted_codes(name, swap):
    """The interpreter agrees for every 8-bit code and all kinds of values."""
    storage, rng = Scaled(CODES[name], 16, "f32"), np.random.default_rng(12)
    x = np.concatenate([groups_of_values(storage.code.largest)[:16 * 100],
                        values(rng, 16 * 100 + 5)])
    planes = {n: np.arange(-(-len(x) // group)).astype(storage.planes("w")[n])
              for n, group in storage.plane_groups("w").items()}
    planes["w.scale"] = encode("f32", np.exp2(rng.uniform(-9, 9, len(
        planes["w.scale"]))).astype(np.float32))
    check_swap(swap, f"{name}-interpreted", storage, planes, x, interpret=True)


@pytest.mark.parametrize("name", RESIDUALS | DRAWN_RESIDUALS)
def test_residual(name, swap):
    storage = (RESIDUALS | DRAWN_RESIDUALS)[name]
    x = np.concatenate([half_precision("bf16"), half_precision("f16"),
                        values(np.random.default_rng(4), 20000)])
    rng = np.random.default_rng(2)
    planes = {n: rng.integers(0, 1 << 8 * d.itemsize, len(x)).astype(d)
              for n, d in storage.planes("w").items()}
    planes["w"][:1 << 16] = np.arange(1 << 16)
    check_swap(swap, name, storage, planes, x)
    # Now decode the encoded values.
    check_swap(swap, name, storage, storage.encode("w", x, Draw()), x)


#===----------------------------------------------------------------------===#
# Promises of the rules
#===----------------------------------------------------------------------===#


# The scales of codes with f32's exponents are limited by f32's range.
@pytest.mark.parametrize("code", [n for n, code in CODES.items() if code.largest < 1e38])
@pytest.mark.parametrize("scale, recipe", [s for s in SCALES if s[1] != "given"])
def test_scales_reach_the_largest(code, scale, recipe):
    """If scales are rounded up, no element saturates, and the next smaller scale would not
    suffice. If they are rounded to nearest, they are too small by at most half a unit."""
    code = CODES[code]
    amax = np.exp2(np.random.default_rng(1).uniform(-12, 12, 20000)).astype(np.float32)
    value = choose_scale(amax, code, scale, recipe).astype(np.float64)
    quotient = code.normalize(amax).astype(np.float64)
    # A product with the inverse differs from the quotient by at most one unit.
    assert np.all(np.abs(quotient * code.largest / amax - 1) < 2.0**-21)
    if recipe == "mx_floor":
        assert np.array_equal(value, np.exp2(np.floor(np.log2(amax))
                                             - np.floor(np.log2(code.largest))))
        return
    nearest = recipe == "current" and not code.uses_random and code.has_nan
    unit = 2 if recipe == "pow2" else {"f32": 1, "f16": 1 + 2.0**-10, "bf16": 1 + 2.0**-7}[scale]
    half = (unit - 1) / 2 * quotient + 2.0**-24
    assert np.all(value >= quotient - (half if nearest else 0))
    assert np.all(value <= (quotient + half if nearest else quotient * unit + 2.0**-24))


@pytest.mark.parametrize("code, bound", (
    ("normal-expanded", 2.0**-4), ("expanded", 1.0), ("low-expanded", 1.0),
    ("signed-expanded", 1.2), ("unsigned-expanded", 1.0)))
def test_exponents_fill_the_range(code, bound):
    """(M / least)^k is in the range, and no larger k is possible; the error relative to that of
    the format is at most k."""
    code, rng = CODES[code], np.random.default_rng(1)
    peak = np.exp2(rng.uniform(-20, 20, (4000, 1)))
    spread = np.exp2(-rng.uniform(0, 30, (4000, 1)) * rng.random((4000, 16)))
    x = (peak * spread).astype(np.float32)
    storage = Scaled(code, 16, "f32")
    planes = storage.encode("w", x.ravel(), Draw())
    eighths = planes["w.exponent"].astype(np.float64)
    ratio = np.log2(x.max(1).astype(float)) - np.log2(x.min(1).astype(float))
    room = np.log2(code.range) - eighths / 8 * ratio
    assert np.all((room > -1e-4) | (eighths == 8))
    assert np.all((room < ratio / 8 + 1e-4) | (eighths == 128))
    back = storage.decode(planes, "w").reshape(x.shape)
    error = np.abs(back - x) / x * (eighths / 8)[:, None]
    assert error[eighths > 8].max() <= bound * 1.07
    assert len(set(eighths)) > 50


def test_exponents_of_extremes():
    """The cases are groups without numbers, with a single magnitude, and with a scale below all
    magnitudes."""
    storage = Scaled(CODES["expanded"], 16, "f16")
    x = np.zeros((5, 16), np.float32)
    x[1, :3] = np.nan, np.inf, -np.inf
    x[2:] = [[0.5], [3e38], [0.5]]
    x[4, 0] = 1e-30
    planes = storage.encode("w", x.ravel(), Draw())
    assert planes["w.exponent"].tolist() == [8, 8, 128, 128, 8]
    assert decode_scale("f16", planes["w.scale"]).tolist() == [1, 1, 0.5, 65504, 0.5]
    assert planes["w"][48] == 0x7E


def test_powers():
    """The results are near the functions, and exact for integer arguments and results."""
    x = np.exp2(np.random.default_rng(1).uniform(-126, 127, 100000)).astype(np.float32)
    error = np.abs(f32_log2(x) - np.log2(x.astype(np.float64)))
    assert (error / np.maximum(np.abs(np.log2(x.astype(float))), 0.5)).max() < 2.0**-22
    y = np.random.default_rng(2).uniform(-100, 0, 100000).astype(np.float32)
    assert np.abs(f32_exp2(y) / np.exp2(y.astype(np.float64)) - 1).max() < 2.0**-23
    whole = np.arange(-100, 1).astype(np.float32)
    assert np.array_equal(f32_exp2(whole), np.exp2(whole))
    assert np.array_equal(f32_log2(np.exp2(whole)), whole)
    assert f32_log2(np.float32(0)) == -127
    assert np.all(f32_exp2(np.array([np.nan, -101, -np.inf])) == 2.0**-100)


def test_e8m0():
    codes = np.array([0, 1, 127, 254, 255], dtype=np.uint8)
    want = [2.0**-127, 2.0**-126, 1.0, 2.0**127, np.nan]
    assert np.array_equal(decode_scale("f8E8M0FNU", codes), want, equal_nan=True)


@pytest.mark.parametrize("name", RESIDUALS)
def test_residual_is_close(name):
    """The error is at most half a step of the residual plus one rounding."""
    storage = RESIDUALS[name]
    x = np.random.default_rng(1).uniform(0.5, 1.99, 50000).astype(np.float32)
    back = storage.decode(storage.encode("w", x, Draw()), "w")
    half = 2.0**-8 if storage.format == "bf16" else 2.0**-11
    levels = 127 if storage.residual == "i8" else 32767
    assert np.abs(back.astype(float) - x).max() <= half / levels / 2 + 2.0**-23


@pytest.mark.parametrize("name, bound", (("e4m3", 2.0**-4), ("pair", 2.0**-8),
                                         ("signed", 2.0**-7), ("unsigned", 2.0**-7.5),
                                         ("softsign", 2.0**-6), ("root", 2.0**-6)))
def test_codes_are_close(name, bound):
    """The error relative to the group's largest magnitude is bounded."""
    storage = Scaled(CODES[name], 16, "f16")
    x = np.random.default_rng(1).uniform(0, 1, (2000, 16)).astype(np.float32)
    planes = storage.encode("w", x.ravel(), Draw())
    back = storage.decode(planes, "w").reshape(x.shape)
    assert (np.abs(back - x) / x.max(1, keepdims=True)).max() <= bound
