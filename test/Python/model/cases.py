#===- cases.py - States to run steps on ------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file generates ordinary and adversarial optimizer states and hyperparameters, reproducible
# from a seed.
#
#===----------------------------------------------------------------------===#
"""Makes states as planes of bits: `state(graph, strategy, kind, size, seed)`."""

import zlib

import numpy as np

from .formats import FORMATS, decode, encode
from .optimizers import GRAPHS, plane_entries, plane_types
from .strategies import MOMENT
from .storage import Draw

# Typical hyperparameters by name; beta2's bf16 expansion is (1, -0.00099).
TYPICAL = {
    "lr": 1e-3,
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "weight_decay": 0.1,
    "momentum": 0.9,
    "nesterov": 0.1,
    "scale": 0.3,
    "alpha": 0.99,
    "lr_decay": 1e-2,
    "beta3": 0.9999,
    "ahead": 0.2,
    "back": 1.1,
    "adaptive": 1.0,
    "difference": 1.0,
    "lambd": 1e-2,
    "etaminus": 0.5,
    "etaplus": 1.25,
    "least": 1e-4,
    "most": 2.0,
    "max_norm": 0.25,
    "rho": 5e-3,
    "mixing": 0.3,
    "eps1": 2.0**-23,
    "eps2": 1e-3,
    "d": 1.0,
    "d0": 0.5,
    "fresh": 1.0,
    "d_max": 1.0,
    "d_numerator": 0.25,
    "d_coef": 0.75,
    "growth_rate": 1.5,
    "bias_correction": 1.0,
    "safeguard": 0.0,
    "s_beta": 0.9995,
    "gamma": 0.025,
    "limit": 0.5,
    "clip_threshold": 0.75,
    "rate": 8e-4,
    "moves": 1.0,
    "ema_decay": 0.99,
}


def hypers(graph, strategy=None, **changed):
    """Returns typical hyperparameters of a graph; eps fits the strategy's component."""
    return typical(GRAPHS[graph].hypers, strategy) | changed


def typical(names, strategy=None):
    """Returns typical values of hyperparameters; eps fits the strategy's component."""
    values = {name: TYPICAL[name] for name in names}
    if strategy is not None and strategy.component and "eps" in values:
        # The smallest subnormal is the least eps that does not round to zero.
        tiny = decode(strategy.component, np.array(
            [1], dtype=FORMATS[strategy.component].dtype))[0]
        values["eps"] = max(values["eps"], float(tiny))
    return values


#===----------------------------------------------------------------------===#
# Values of a role, as float32
#===----------------------------------------------------------------------===#

# The typical magnitude of each role.
_SCALE = {"grad": 1e-2, "param": 5e-2, "first": 1e-3, "second": 1e-5,
          "average": 5e-2, "slow": 1e-3}


def _which(role):
    return MOMENT.get(role, role)


def _signed(which, x):
    return np.abs(x) if which == "second" else x


def _ordinary(which, rng, size, largest, smallest):
    spread = np.exp2(rng.uniform(-4, 4, size))
    return _SCALE[which] * spread * rng.standard_normal(size)


def _subnormal(which, rng, size, largest, smallest):
    """Returns up to eight times the smallest normal, so that most values are below it."""
    return smallest * np.exp2(rng.uniform(-12, 3, size)) * rng.choice([-1, 1], size)


def _zeros(which, rng, size, largest, smallest):
    zero = rng.choice([0.0, -0.0], size)
    return np.where(rng.random(size) < 0.7, zero,
                    _ordinary(which, rng, size, largest, smallest))


def _infinities(which, rng, size, largest, smallest):
    value = _ordinary(which, rng, size, largest, smallest)
    return np.where(rng.random(size) < 0.3, rng.choice([np.inf, -np.inf], size), value)


def _nans(which, rng, size, largest, smallest):
    value = _ordinary(which, rng, size, largest, smallest)
    return np.where(rng.random(size) < 0.3, np.nan, value)


def _large_update(which, rng, size, largest, smallest):
    """Returns values with |update| > |weight|, the order that fast_two_sum does not assume."""
    factor = {"param": 2.0**-14, "average": 2.0**-13, "grad": 2.0**8, "first": 2.0**11,
              "slow": 2.0**11, "second": 1.0}
    return factor[which] * _ordinary(which, rng, size, largest, smallest)


def _huge(which, rng, size, largest, smallest):
    """Returns values near overflow, whose sums, squares and products leave the range."""
    return largest * np.exp2(rng.uniform(-3, 0, size)) * rng.choice([-1, 1], size)


def _edges(which, rng, size, largest, smallest):
    """Returns powers of two and their neighbours, where ulps change and ties occur."""
    power = np.exp2(rng.integers(-20, 4, size).astype(np.float64))
    nudge = rng.integers(-2, 3, size) * np.exp2(rng.integers(-24, -6, size).astype(float))
    return power * (1 + nudge) * rng.choice([-1, 1], size)


def _one(which, rng, size, largest, smallest):
    return _ordinary(which, rng, size, largest, smallest) * (
        np.arange(size) == rng.integers(size))


def _one_huge(which, rng, size, largest, smallest):
    return np.where(np.arange(size) == rng.integers(size), largest / 2, smallest)


def _constant(which, rng, size, largest, smallest):
    return np.full(size, _ordinary(which, rng, 1, largest, smallest)[0])


def _opposite(which, rng, size, largest, smallest):
    return _constant(which, rng, size, largest, smallest) * rng.choice([-1, 1], size)


def _all(value):
    return lambda which, rng, size, largest, smallest: np.full(size, value)


def _groups(which, rng, size, largest, smallest):
    """Returns runs of 16 to 256 elements, each with a challenge for a group's scale."""
    runs = (_all(0.0), _all(-0.0), _all(np.nan), _all(-np.inf), _one, _one_huge,
            _constant, _opposite, _subnormal, _infinities, _nans, _zeros, _huge, _edges)
    parts, count = [], 0
    while count < size:
        length = 1 << int(rng.integers(4, 9))
        run = runs[rng.integers(len(runs))]
        parts.append(run(which, rng, length, largest, smallest))
        count += length
    return np.concatenate([*parts, np.zeros(0)])[:size]


_VALUES = {
    "ordinary": _ordinary,
    "subnormal": _subnormal,
    "zeros": _zeros,
    "infinities": _infinities,
    "nans": _nans,
    "large_update": _large_update,
    "huge": _huge,
    "edges": _edges,
}


def role_values(role, storage, kind, rng, size):
    """Returns values of one kind for a role with this storage, as float32."""
    which, values = _which(role), _VALUES | {"groups": _groups}
    value = values[kind](which, rng, size, *storage.range())
    with np.errstate(all="ignore"):
        return _signed(which, value).astype(np.float32)


def stored(storage, role, x, rng):
    """Returns planes of x, as stored by a step in the middle of training."""
    # Any rounding bits give a state that a step may leave.
    with np.errstate(all="ignore"):
        return storage.renew(_past(storage, role, x, rng), role, x, Draw())


def _past(storage, role, x, rng):
    """Returns planes with a plausible past: a history, and the next or given scale, which is
    somewhat too large or too small for x."""
    planes = storage.encode(role, x, Draw())
    if getattr(storage, "history", 0) == 0 and getattr(storage, "recipe", "") != "given":
        return planes
    entries = storage.entries(role, len(x))
    suffix = ".next_scale" if storage.history else ".scale"
    spread = np.exp2(rng.integers(-3, 3, entries[role + suffix])).astype(np.float32)
    values = np.abs(np.resize(x, len(spread))) / np.float32(storage.code.largest)
    planes[role + suffix] = _encode_scale(storage, values * spread)
    if storage.history:
        planes[role + ".history"] = encode("f32", np.resize(
            np.abs(x), entries[role + ".history"]) * rng.choice(
                np.array([0, 0.25, 1, 2], np.float32), entries[role + ".history"]))
    return planes


def _encode_scale(storage, values):
    """Encodes scales; values that are not numbers become NaN."""
    if storage.scale != "f8E8M0FNU":
        return encode(storage.scale, values)
    exponent = np.frexp(np.where(np.isfinite(values), values, 0))[1]
    return np.clip(exponent + 126, 0, 255).astype(np.uint8)


def _role_planes(role, strategy, kind, rng, size):
    storage = strategy.storage(role)
    return stored(storage, role, role_values(role, storage, kind, rng, size), rng)


#===----------------------------------------------------------------------===#
# Whole states
#===----------------------------------------------------------------------===#


def _values(graph, strategy, kind, rng, size):
    planes = {}
    for role in GRAPHS[graph].roles:
        planes |= _role_planes(role, strategy, kind, rng, size)
    return planes


def _bits(graph, strategy, rng, size):
    """Returns uniform bit patterns, which include NaNs that are not canonical."""
    entries = plane_entries(graph, strategy, size)
    return {name: rng.integers(0, 1 << (8 * dtype.itemsize), entries[name],
                               dtype=np.uint64).astype(dtype)
            for name, dtype in plane_types(graph, strategy).items()}


def _not_normalized(graph, strategy, rng, size):
    """Returns low components that are at least as large as their leading one."""
    planes = _values(graph, strategy, "ordinary", rng, size)
    for role in GRAPHS[graph].roles:
        for suffix, fmt in getattr(strategy.storage(role), "suffixes", {}).items():
            if suffix in ("", ".master"):
                continue
            leading = decode(fmt, planes[role])
            factor = np.exp2(rng.uniform(-10, 3, size)) * rng.choice([-1, 1], size)
            planes[role + suffix] = encode(fmt, (leading * factor).astype(np.float32))
    return planes


def _mixed(graph, strategy, rng, size):
    """Mixes kinds independently for each role and element."""
    planes = {}
    for role in GRAPHS[graph].roles:
        storage = strategy.storage(role)
        choices = [role_values(role, storage, kind, rng, size) for kind in _VALUES]
        pick = rng.integers(0, len(choices), size)
        value = np.stack(choices)[pick, np.arange(size)]
        planes |= stored(storage, role, value, rng)
    return planes


_STATES = {"bits": _bits, "not_normalized": _not_normalized, "mixed": _mixed}

# Every kind of state.
KINDS = tuple(_VALUES) + tuple(_STATES)
# The kinds for strategies with scales, which have no low components.
SCALED_KINDS = tuple(_VALUES) + ("bits", "mixed", "groups")


def state(graph, strategy, kind, size, seed=0):
    """Returns planes of all roles of a graph; the same ones for the same arguments."""
    if kind not in KINDS + SCALED_KINDS:
        raise ValueError(f"unknown kind '{kind}': use one of {', '.join(KINDS)}, groups")
    rng = np.random.default_rng([seed, size, zlib.crc32(f"{graph}/{kind}".encode())])
    if kind in _STATES:
        return _STATES[kind](graph, strategy, rng, size)
    return _values(graph, strategy, kind, rng, size)
