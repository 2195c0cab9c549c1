#===- test_convert.py - Conversions of states -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that tandem.convert_state converts values between all strategies with the bits
# that docs/Strategies.md specifies.
#
#===----------------------------------------------------------------------===#

from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

import tandem
from model import (MATRIX_GRAPHS, OUTSIDE_STRATEGIES, SCALED_STRATEGIES, STRATEGIES,
                   TENSOR_STRATEGIES, Strategy, cases, matrix_state, plane_types)
from model.formats import decode, encode
from model.matrices import storage_of
from model.strategies import MOMENT
from model.scaled import Scaled
from model.storage import Draw, Expansion, Kahan, Plain, nearest
from tandem._plane import RoleKind
from support.kernels import assert_same, seed_of, write_strategies

WIDE = {
    "bf16-three": Strategy(Plain("bf16"), *3 * [Expansion("bf16", 3)], "bf16"),
    "f16-three": Strategy(Plain("f16"), Expansion("f16", 3), Plain("f16"),
                          Expansion("f16", 3), "f16"),
    "f32-two": Strategy(Plain("f32"), Expansion("f32", 2), Plain("f32"),
                        Expansion("f32", 2), "f32"),
    "fp8-two": Strategy(Plain("bf16"), Expansion("f8E4M3FN", 2), Plain("bf16"),
                        Expansion("f8E5M2", 2)),
}
DELAYED = {name: TENSOR_STRATEGIES[name] for name in (
    "tensor-delayed", "tensor-delayed-codes", "tensor-given")}
ALL = STRATEGIES | SCALED_STRATEGIES | WIDE | DELAYED
# Every strategy is converted to and from a few that differ in each storage.
HUBS = ("fp32", "bf16-kahan", "f16-three", "master-weights", "flash", "fp8-collage-plus",
        "f32-two")
PAIRS = sorted({pair for hub in HUBS for name in ALL for pair in ((hub, name), (name, hub))})
ROLES = ("param", "exp_avg", "exp_avg_sq")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("convert")
    write_strategies(directory, OUTSIDE_STRATEGIES | SCALED_STRATEGIES | TENSOR_STRATEGIES
                     | WIDE | DELAYED)
    return [directory]


#===----------------------------------------------------------------------===#
# The model: exact sums, and otherwise decoding and encoding
#===----------------------------------------------------------------------===#


def sum_of(storage):
    """Returns (format, count) if the value is the sum of the planes."""
    if isinstance(storage, (Kahan, Expansion)):
        return storage.format, len(storage.suffixes)
    return (storage.format, 1) if isinstance(storage, Plain) else None


def nearest_f32(x):
    """Rounds a rational to f32, ties to even."""
    near = np.float32(float(x))
    around = [np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf)] + [near]
    return min((f for f in around if np.isfinite(f)), key=lambda f: (
        abs(Fraction(float(f)) - x), f.view(np.uint32) & 1))


def cut(values, target):
    """Splits a number given as floats into floats of another format."""
    format, count = target
    with np.errstate(all="ignore"):
        leading, rest = reduce(np.add, values), None
    if all(map(np.isfinite, values)):
        rest = sum(Fraction(float(v)) for v in values)
    planes = []
    for _ in range(count):
        if rest is not None and (rest or planes):
            leading = nearest_f32(rest)
        code = encode(format, np.array([leading], np.float32))
        value = decode(format, code)[0]
        if planes and not np.isfinite(decode(format, planes[0])[0]):
            code = encode(format, np.zeros(1, np.float32))
        planes.append(code)
        if rest is not None and np.isfinite(value):
            rest -= Fraction(float(value))
    return [plane[0] for plane in planes]


def convert_sum(source, target, planes, role):
    (format, _), suffixes = sum_of(source), target.suffixes
    parts = [decode(format, planes[name]) for name in source.planes(role)]
    cuts = [cut(values, sum_of(target)) for values in zip(*parts)]
    return {role + suffix: np.array(column, lookup_dtype(target, suffix))
            for suffix, column in zip(suffixes, zip(*cuts))}


def lookup_dtype(storage, suffix):
    return storage.planes("")[suffix]


def floored(role):
    """Returns the rounding of a tensor in a conversion; second moments have a floor."""
    return Draw(floor=MOMENT.get(role) == "second")


def convert(source, target, planes, role, size=None):
    """Returns the planes of a role, cut to its size, under another storage."""
    source, target = nearest(source), nearest(target)
    if source == target:
        return {name: planes[name] for name in source.planes(role)}
    ours, theirs = sum_of(source), sum_of(target)
    if ours and theirs and ours[0] == theirs[0]:
        known = [planes[name] for name in source.planes(role)]
        zero = np.zeros_like(known[0])
        known += [zero] * 3
        return dict(zip(target.planes(role), known))
    if ours and theirs and not (floored(role).floor and theirs[0] != "f32"):
        return convert_sum(source, target, planes, role)
    return through_f32(source, target, planes, role, size)


def through_f32(source, target, planes, role, size=None):
    wide = [s for s in (source, target) if sum_of(s) and sum_of(s) != ("f32", 1)
            and sum_of(s)[0] == "f32"]
    if source in wide:
        value = decode("f32", planes[role])
    elif isinstance(source, Kahan):
        named = dict(zip(Expansion(source.format, 2).planes(role),
                         (planes[name] for name in source.planes(role))))
        value = Expansion(source.format, 2).decode(named, role)
    else:
        value = source.decode(planes, role)[:size]
    if target in wide:
        leading = Plain("f32").encode(role, value, Draw())
        return {name: leading.get(name, np.zeros(len(value), np.uint32))
                for name in target.planes(role)}
    if isinstance(target, Kahan):
        encoded = Expansion(target.format, 2).encode(role, value, floored(role))
        return dict(zip(target.planes(role), encoded.values()))
    return stored(target, role, value)


def stored(target, role, value):
    """Stores twice if a scale depends on the previous store; no scale is given."""
    if getattr(target, "recipe", "") == "given":
        made = replace(target, recipe="pow2")
        return made.encode(role, value, floored(role))
    planes = target.encode(role, value, floored(role))
    return target.renew(planes, role, value, floored(role))


#===----------------------------------------------------------------------===#
# Bits
#===----------------------------------------------------------------------===#


def as_bits(planes):
    return {name: plane.view(f"u{plane.itemsize}") for name, plane in planes.items()}


def converted(planes, source, target, path, **options):
    kept = {n: p for n, p in planes.items() if not n.startswith("grad")}
    return as_bits(tandem.convert_state("adamw", kept, source, target, path=path,
                                        **options))


@pytest.mark.thinned(1, times=2)
@pytest.mark.parametrize("source, target", PAIRS)
def test_pairs(source, target, path):
    for kind in ("mixed", "zeros"):
        planes = cases.state("adamw", ALL[source], kind, 137,
                             seed_of(source, target, kind))
        before = {name: plane.copy() for name, plane in planes.items()}
        want = {}
        for role in ROLES:
            with np.errstate(all="ignore"):
                want |= convert(ALL[source].storage(role), ALL[target].storage(role),
                                planes, role, 137)
        got = converted(planes, source, target, path)
        assert list(got) == [n for n in plane_types("adamw", ALL[target])
                             if not n.startswith("grad")]
        assert_same(got, want, f"{kind}")
        assert_same(planes, before, "the source")


def values_of(strategy, planes, role):
    """Returns the exact values of a role whose value is a sum of floats or an f32."""
    storage = strategy.storage(role)
    if not sum_of(storage):
        return [Fraction(float(x)) for x in storage.decode(planes, role)]
    parts = [decode(sum_of(storage)[0], planes[name]) for name in storage.planes(role)]
    return [sum(Fraction(float(x)) for x in element) for element in zip(*parts)]


@pytest.mark.parametrize("source, target", [
    ("bf16", "f32-two"), ("collage-plus", "f32-two"), ("bf16-kahan", "f32-two"),
    ("bf16-three", "f32-two"), ("f16-three", "f32-two"), ("collage-plus", "bf16-three"),
    ("f16-collage-plus", "f32-two"), ("fp32", "f32-two"), ("fp32", "bf16-three"),
    ("remainder", "f32-two"), ("master-weights", "remainder"), ("remainder", "fp32"),
    ("fp32", "master-weights"), ("bf16", "collage-plus-f32"), ("bf16", "bf16-kahan"),
    ("bf16-kahan", "collage-light"), ("collage-light", "bf16-kahan"),
    ("fp8-collage-plus", "fp32"), ("flash", "f32-two"),
])
def test_exact_where_the_target_can_hold_it(source, target, path):
    """Converting back then gives the same value."""
    planes = cases.state("adamw", ALL[source], "ordinary", 300, seed_of(source, target))
    there = converted(planes, source, target, path)
    back = converted(there, target, source, path)
    for role in ROLES:
        want = values_of(ALL[source], planes, role)
        assert values_of(ALL[target], there, role) == want
        if not isinstance(ALL[source].storage(role), Scaled):
            assert values_of(ALL[source], back, role) == want
    assert any(values_of(ALL[source], planes, "param"))


def test_nothing_passes_through_f32(path):
    """In conversions between sums of floats, 2^-40 in addition to 1 survives."""
    planes = {n: np.zeros(3, d) for n, d in plane_types("adamw", ALL["collage-plus"]).items()}
    planes["param"][:], planes["param.lo"][:] = 0x3F80, (127 - 40) << 7
    there = converted(planes, "collage-plus", "f32-two", path)
    assert (decode("f32", there["param.lo"]) == 2.0**-40).all()
    assert_same(converted(there, "f32-two", "collage-plus", path),
                {name: planes[name] for name in ("param", "param.lo")})


def test_what_is_alike_keeps_every_bit(path):
    """Equal storages keep noncanonical NaNs and overlapping components."""
    planes = cases.state("adamw", ALL["collage-plus"], "bits", 200)
    got = converted(planes, "collage-plus", "collage-plus-f32", path)
    assert_same(got, {n: p for n, p in planes.items() if n != "grad"})


def test_gradients_if_given(path):
    planes = cases.state("adamw", ALL["bf16"], "ordinary", 200)
    got = as_bits(tandem.convert_state("adamw", planes, "bf16", "fp8-collage-light"))
    want = ALL["fp8-collage-light"].grad.encode(
        "grad", decode("bf16", planes["grad"]), Draw())
    assert_same(got, want)
    back = as_bits(tandem.convert_state("adamw", got, "fp8-collage-light", "fp32"))
    value = ALL["fp8-collage-light"].grad.decode(want, "grad")
    assert_same(back, Plain("f32").encode("grad", value, Draw()))


def start_of(graph, strategy):
    """Returns a state and hyperparameters of a graph, flat or of matrices."""
    if graph in MATRIX_GRAPHS:
        return (matrix_state(graph, strategy, "ordinary", (5, 20)),
                {name: cases.TYPICAL[name] for name in MATRIX_GRAPHS[graph].hypers})
    return cases.state(graph, strategy, "ordinary", 100), cases.hypers(graph)


def step(kernel, arrays, **scalars):
    """Takes a step whose external steps, if there are any, reverse what is sent."""
    planes = [plane for plane in kernel.planes if plane.is_exchanged]
    exchanged = {plane.name: np.zeros(len(arrays["grad"]), {"bf16": np.uint16, "f32": np.uint32}[
        plane.type]) for plane in planes}

    def reverse(name):
        sent, received = ([plane.name for plane in planes if plane.external == name
                           and plane.kind is kind] for kind in (RoleKind.SENT, RoleKind.RECEIVED))
        for before, after in zip(sent, received):
            exchanged[after][:] = exchanged[before][::-1]

    kernel(arrays | exchanged, external={name: lambda stream, name=name: reverse(name)
                                         for name in kernel.externals}, **scalars)


@pytest.mark.parametrize("graph", tandem.graphs())
def test_graphs(graph):
    """With lossless storages, training continues from the converted state without a difference."""
    start, hypers = start_of(graph, ALL["master-weights"])
    kernel = tandem.compile(graph, "remainder")
    planes = as_bits(tandem.convert_state(graph, start, "master-weights", "remainder"))
    run = {"step": 2} if kernel.integers else {}
    for strategy, arrays in (("master-weights", start), ("remainder", planes)):
        step(tandem.compile(graph, strategy), arrays, **hypers, **run)
    back = as_bits(tandem.convert_state(graph, planes, "remainder", "master-weights"))
    assert_same(back, {name: plane for name, plane in start.items()
                       if name in back and name != "param"})


MATRIX_STRATEGIES = ALL | TENSOR_STRATEGIES
#: Pairs with different groups: none, a row's, a matrix's, and several lengths.
MATRIX_PAIRS = sorted({pair for hub in ("fp32", "fp8-collage-plus", "fp8-lm")
                       for name in ("bf16", "collage-plus", "coat", "flash", "fp8-lm",
                                    "minifloat", "tensor-and-groups", "remainder")
                       for pair in ((hub, name), (name, hub))})


@pytest.mark.parametrize("source, target", MATRIX_PAIRS)
def test_matrices(source, target, path):
    """Groups restart in each row; states per row and column are vectors."""
    ours, theirs = MATRIX_STRATEGIES[source], MATRIX_STRATEGIES[target]
    for shape in ((3, 70), (5, 256), (1, 300), (131, 1), (0, 3)):
        planes = matrix_state("adafactor", ours, "ordinary", shape)
        flat, want = {name: p.reshape(-1) for name, p in planes.items()}, {}
        for role, per in MATRIX_GRAPHS["adafactor"].roles.items():
            with np.errstate(all="ignore"):
                want |= convert(storage_of(ours, role, per, shape),
                                storage_of(theirs, role, per, shape), flat, role)
        got = as_bits(tandem.convert_state("adafactor", planes, source, target, path=path))
        assert_same({name: p.reshape(-1) for name, p in got.items()}, want, f"{shape}")
        like = matrix_state("adafactor", theirs, "ordinary", shape)
        assert {n: p.shape for n, p in got.items()} == {n: p.shape for n, p in like.items()}


def test_a_matrix_is_not_sharded():
    planes = matrix_state("adafactor", ALL["bf16"], "ordinary", (3, 5))
    with pytest.raises(ValueError, match="first is 128, but adafactor updates matrices"):
        tandem.convert_state("adafactor", planes, "bf16", "coat", first=128)


def test_an_interpreted_step_continues(path):
    """The resulting arrays are those that tandem.interpret accepts."""
    planes = cases.state("adamw", ALL["flash"], "ordinary", 70)
    got = converted(planes, "flash", "coat", path) | {"grad": planes["grad"]}
    other = {name: plane.copy() for name, plane in got.items()}
    tandem.compile("adamw", "coat")(got, step=3)
    tandem.interpret("adamw", "coat", other, cases.hypers("adamw") | {"weight_decay": 0.01},
                     step=3)
    assert_same(got, other)


@pytest.mark.parametrize("size", [0, 1, 128, 129])
def test_sizes(size, path):
    planes = {n: p[:size] if p.size > size else p for n, p in cases.state(
        "adamw", ALL["bf16"], "ordinary", max(size, 1)).items()}
    got = converted(planes, "bf16", "fp8-collage-plus", path)
    assert got["param"].size == size and got["param.scale"].size == -(-size // 128)


def test_types_of_the_result():
    planes = cases.state("adamw", ALL["bf16"], "ordinary", 5)
    got = tandem.convert_state("adamw", planes, "bf16", "master-weights")
    assert {n: str(p.dtype) for n, p in got.items()} == {
        "param": "uint16", "param.master": "float32", "grad": "uint16",
        "exp_avg": "float32", "exp_avg_sq": "float32"}


#===----------------------------------------------------------------------===#
# Messages
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("change, error, message", [
    (lambda p: p.pop("param.lo"), TypeError, "adamw under collage-light lacks 'param.lo'"),
    (lambda p: p.update(more=p["param"]), TypeError, "has no 'more'; its arrays are"),
    (lambda p: p.update(exp_avg=p["exp_avg"][:2]), ValueError,
     "array 'exp_avg' has 2 elements, 'param' has 6"),
    (lambda p: p.update(exp_avg=p["exp_avg"].astype("f4")), TypeError,
     "array 'exp_avg' must be bf16"),
])
def test_bad_arrays(change, error, message):
    planes = cases.state("adamw", ALL["collage-light"], "ordinary", 6)
    change(planes)
    with pytest.raises(error, match=message):
        tandem.convert_state("adamw", planes, "collage-light", "fp32")


def test_read_only_arrays_will_do():
    planes = cases.state("adamw", ALL["bf16"], "ordinary", 6)
    for plane in planes.values():
        plane.flags.writeable = False
    assert tandem.convert_state("adamw", planes, "bf16", "fp32")["param"].size == 6


def test_a_shard_that_splits_a_group():
    planes = cases.state("adamw", ALL["bf16"], "ordinary", 60)
    with pytest.raises(ValueError, match="first is 16, inside of a group of 32"):
        tandem.convert_state("adamw", planes, "bf16", "flash", first=16)


def test_unknown_strategies():
    planes = cases.state("adamw", ALL["bf16"], "ordinary", 6)
    with pytest.raises(ValueError, match="unknown strategy 'bf61'"):
        tandem.convert_state("adamw", planes, "bf16", "bf61")


#===----------------------------------------------------------------------===#
# Round trips
#===----------------------------------------------------------------------===#

SIGNED = "#scaled.dynamic<signed>"


def scaled_text(code, group=128, scale="bf16"):
    return f"#tandem.scaled<{code}, group = {group}, scale = {scale}>"


@pytest.mark.parametrize("storage,changed,growth", [
    (scaled_text("#scaled.float<f8E4M3FN>"), 0, 1),
    (scaled_text("#scaled.float<f8E4M3FN>", "tensor", "f32, recipe = pow2"), 0, 1),
    (scaled_text("#scaled.softsign", 32, "f16"), 0, 1),
    (scaled_text(SIGNED, 256, "f32"), 0.12, 1),
    (scaled_text("#scaled.expanded<f8E4M3FN, range = 229376.0>"), 0.28, 1.13),
])
def test_a_second_conversion(storage, changed, growth, tmp_path):
    """docs/Strategies.md specifies the result of converting to another strategy and back."""
    (tmp_path / "codes.mlir").write_text(
        "tandem.strategy @codes compute(<f32, f32>) {\n"
        f"  tandem.assign param = {storage}\n  tandem.assign grad = #tandem.float<f32>\n}}\n")
    x = np.random.default_rng(0).standard_normal(128 * 2000).astype(np.float32)

    def there_and_back(values):
        codes = tandem.convert_state("sgd", {"param": values}, "fp32", "codes",
                                     path=[tmp_path])
        return tandem.convert_state("sgd", codes, "codes", "fp32", path=[tmp_path])["param"]

    once = there_and_back(x)
    twice = there_and_back(once)
    errors = [np.sqrt(np.mean((values - x.astype(np.float64)) ** 2)) for values in (once, twice)]
    assert np.mean(once != twice) == pytest.approx(changed, abs=0.01)
    assert errors[1] / errors[0] == pytest.approx(growth, abs=0.01)
