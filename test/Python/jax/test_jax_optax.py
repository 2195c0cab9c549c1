#===- test_jax_optax.py - tandem.jax as an optax optimizer ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.jax.as_optax: updates whose addition by optax gives the bits of steps,
# composition, and errors.
#
#===----------------------------------------------------------------------===#

import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
optax = pytest.importorskip("optax", reason="optax is not installed")

import jax.numpy as jnp

import tandem.jax
from support.jax_bits import arrays, assert_same_bits, dtype_of, gradients
from tandem.jax import as_optax
from tandem.jax._optax import _update_between

#: Strategies whose weights are one array, and others for leaves in float32.
PLAIN = ("fp32", "coat-fp32", "bf16", "bf16-stochastic", "bf16-dither", "fp32-optim",
         "f16-fp32-optim", "adam8bit")
WIDE = ("adam8bit", "flash", "fp8-lm", "collage-plus")
#: Optimizers whose last operation is an addition to the weight.
ADDING = {"adamw": {}, "adam": {}, "ademamix": {}, "lamb": {}, "sgd": {"momentum": 0.9}, "lion": {},
          "rmsprop": {}, "adagrad": {}, "adadelta": {}, "adamax": {}, "radam": {}}


def weights(dtype, seed=0):
    """Returns weights of many sizes, so that steps change signs and exponents, and signed zeros."""
    draw = np.random.default_rng(seed)
    w = draw.standard_normal((64, 200)) * 2.0 ** draw.integers(-20, 3, (64, 200))
    w[0, :2] = 0.0, -0.0
    return {"w": jnp.asarray(w, dtype), "b": jnp.zeros(300, dtype)}


def compared(optimizer, params, count=4):
    """Compares optax's steps with those of the optimizer itself."""
    wrapped = as_optax(optimizer)
    mine, kept = params, optimizer.init(params)
    theirs, state = params, wrapped.init(params)

    @jax.jit
    def apply(grads, state, params):
        updates, state = wrapped.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for seed in range(count):
        grads = gradients(params, seed)
        mine, kept = jax.jit(optimizer.step)(grads, kept, mine)
        theirs, state = apply(grads, state, theirs)
        yield mine, theirs
        assert_same_bits(state, kept)


@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("lr", (1e-3, 0.25))
def test_bits_of_steps(strategy, lr):
    optimizer = tandem.jax.adamw(lr=lr, strategy=strategy, weight_decay=0.1, seed=3)
    dtype = jnp.float32 if strategy == "adam8bit" else dtype_of(optimizer)
    for mine, theirs in compared(optimizer, weights(dtype)):
        assert_same_bits(theirs, mine)


@pytest.mark.parametrize("name", ADDING)
def test_bits_of_optimizers(name):
    optimizer = getattr(tandem.jax, name)(lr=0.05, strategy="coat-fp32", **ADDING[name])
    for mine, theirs in compared(optimizer, weights(jnp.float32)):
        assert_same_bits(theirs, mine)


@pytest.mark.parametrize("strategy", WIDE)
def test_f32_leaves(strategy):
    optimizer = tandem.jax.adamw(lr=0.05, strategy=strategy, min_8bit_size=0)
    for mine, theirs in compared(optimizer, weights(jnp.float32)):
        assert_same_bits(theirs, mine)


@pytest.mark.parametrize("decay", ("before", "after"))
def test_weights_that_shrink_first(decay):
    """Not every number is the sum of a weight and an f32; the result is then the nearest one."""
    optimizer = tandem.jax.adamw(lr=0.25, strategy="fp32", decay=decay, weight_decay=0.3)
    params = weights(jnp.float32)
    ((mine, theirs),) = compared(optimizer, params, 1)
    for name, old in params.items():
        new, got = np.float64(mine[name]), np.float64(theirs[name])
        assert np.all(np.abs(got - new) <= 2.0**-23 * np.abs(new - np.float64(old)))


@pytest.mark.parametrize("dtype", (np.float32, jnp.bfloat16, np.float16))
def test_an_update_is_found_where_there_is_one(dtype):
    draw, size = np.random.default_rng(1), 1 << 16
    old = (draw.standard_normal(size) * 2.0 ** draw.integers(-9, 3, size)).astype(dtype)
    delta = np.float32(draw.standard_normal(size) * 2.0 ** draw.integers(-9, 3, size))
    new = (np.float32(old) + delta).astype(dtype)
    update = np.asarray(jax.jit(_update_between)(old, new))
    assert np.array_equal((np.float32(old) + update).astype(dtype), new)


def test_neighbours_of_the_difference():
    """Near a power of two, the rounded difference need not be a valid update."""
    steps, places, exponents = np.meshgrid(
        np.arange(-8, 9), np.arange(-17, 18), np.arange(-27, -21), indexing="ij")
    old = np.float32(places * 2.0**exponents).ravel()
    for sign in (1, -1):
        new = old + np.float32(sign * (1 + steps * 2.0**-23)).ravel()
        update = np.asarray(jax.jit(_update_between)(old, new))
        assert np.array_equal(old + update, new)
        assert not np.array_equal(old + (new - old), new)


def rounded(number, bits):
    """Rounds an integer to a number of bits, ties to even."""
    unit = 1 << max(0, abs(number).bit_length() - bits)
    quotient, rest = divmod(abs(number), unit)
    quotient += 2 * rest > unit or (2 * rest == unit and quotient % 2)
    return quotient * unit if number >= 0 else -quotient * unit


@pytest.mark.parametrize(("bits", "wide"), ((4, 4), (5, 5), (3, 5), (3, 7)))
def test_all_short_floats(bits, wide):
    """For weights of some bits and updates of at least as many, the difference or the next
    number away from zero is a valid update whenever there is one."""
    numbers = sorted({rounded(n, wide) for n in range(-(1 << wide + 4), (1 << wide + 4) + 1)})
    following = dict(zip(numbers, numbers[1:])) | {0: 0}
    for old in {rounded(n, bits) for n in numbers}:
        for delta in numbers[1:-1]:
            new = rounded(rounded(old + delta, wide), bits)
            nearest = rounded(new - old, wide)
            if rounded(old + nearest, wide) == new:
                continue
            farther = following.get(abs(nearest), nearest) * (1 if nearest > 0 else -1)
            update = farther if rounded(old + farther, wide) == new else nearest
            assert rounded(rounded(old + update, wide), bits) == new, (old, delta)


def test_numbers_that_are_none():
    old = np.float32([np.inf, -np.inf, 1, np.nan, -0.0, 0.0, 2])
    new = np.float32([np.inf, -np.inf, np.inf, np.nan, -0.0, 1, np.nan])
    sums = optax.apply_updates(jnp.asarray(old), _update_between(old, jnp.asarray(new)))
    np.testing.assert_array_equal(np.asarray(sums), new)
    assert np.signbit(sums[4])


def trained(transformation, params, seeds):
    """Takes steps of a GradientTransformation inside jax.jit."""
    @jax.jit
    def step(grads, state, params):
        updates, state = transformation.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    state = transformation.init(params)
    for seed in seeds:
        params, state = step(gradients(params, seed), state, params)
    return params


def test_chain():
    """Clipping before and scaling of updates after compose as with any optax optimizer."""
    optimizer = tandem.jax.adamw(lr=0.01, strategy="coat-fp32")
    params, clip = weights(jnp.float32), optax.clip_by_global_norm(0.1)
    want, state = params, optimizer.init(params)
    for seed in range(3):
        grads, _ = clip.update(gradients(params, seed), clip.init(params))
        want, state = jax.jit(optimizer.step)(grads, state, want)
    got = trained(optax.chain(clip, as_optax(optimizer)), params, range(3))
    for name in params:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-7)
    still = trained(optax.chain(as_optax(optimizer), optax.scale(0.0)), params, range(3))
    assert_same_bits(jax.tree.map(abs, still), jax.tree.map(abs, params))


def test_memory():
    """Inside jax.jit, updates are not materialized, but parameters are copied."""
    wrapped = as_optax(tandem.jax.adamw(strategy="coat-fp32"))
    params = weights(jnp.float32)
    state = wrapped.init(params)

    def step(params, state):
        updates, state = wrapped.update(gradients(params, 0), state, params)
        return optax.apply_updates(params, updates), state

    sizes = jax.jit(step, donate_argnums=(0, 1)).lower(params, state).compile().memory_analysis()
    size = sum(x.nbytes for x in params.values())
    assert size <= sizes.temp_size_in_bytes < 1.1 * size + 4096


@pytest.mark.parametrize("skip", (None, optax.skip_not_finite))
def test_accumulation(skip):
    """MultiSteps takes one step with the mean of two gradients."""
    optimizer = tandem.jax.adamw(lr=0.01, strategy="coat-fp32")
    steps = optax.MultiSteps(as_optax(optimizer), 2, should_skip_update_fn=skip)
    params = weights(jnp.float32)
    got = trained(steps, params, range(4))
    want, state = params, optimizer.init(params)
    for seed in (0, 2):
        pair = gradients(params, seed), gradients(params, seed + 1)
        mean = jax.tree.map(lambda x, y: x + (y - x) / 2, *pair)
        want, state = jax.jit(optimizer.step)(mean, state, want)
    for name in params:
        np.testing.assert_allclose(got[name], want[name], rtol=2e-6)


def test_masks_and_schedules():
    """Masked leaves do not change, and learning rates may follow a schedule."""
    optimizer = tandem.jax.adamw(lr=optax.linear_schedule(0.1, 0, 2), strategy="fp32")
    params = weights(jnp.float32)
    got = trained(optax.masked(as_optax(optimizer), {"w": True, "b": False}), params, [0])
    assert np.array_equal(got["b"], gradients(params, 0)["b"])
    want, _ = optimizer.step({"w": gradients(params, 0)["w"]},
                             optimizer.init({"w": params["w"]}), {"w": params["w"]})
    assert np.array_equal(got["w"], want["w"])


def test_skipped_steps():
    optimizer = tandem.jax.adamw(lr=0.1, strategy="fp32", skip_nonfinite=True)
    params, wrapped = weights(jnp.float32), as_optax(optimizer)
    bad = jax.tree.map(lambda x: x.at[0].set(jnp.nan), gradients(params, 0))
    updates, state = wrapped.update(bad, wrapped.init(params), params)
    assert state.skipped
    assert_same_bits(optax.apply_updates(params, updates), params)


def test_refusals(monkeypatch):
    params = dict(zip("wb", arrays([(96, 64), (64,)], jnp.bfloat16)))
    for strategy in ("collage-plus", "remainder", "master-weights", "fp8-collage-plus"):
        wrapped = as_optax(tandem.jax.adamw(strategy=strategy))
        with pytest.raises(ValueError, match=r"params\['b'\] under .* is only a part of its weight"):
            wrapped.init(params)
        state = tandem.jax.adamw(strategy=strategy).init(params)
        with pytest.raises(ValueError, match="no update that is added can write; call optimizer.st"):
            wrapped.update(gradients(params, 0), state, params)
    wrapped = as_optax(tandem.jax.adamw(strategy="bf16"))
    with pytest.raises(ValueError, match=r"call update\(grads, state, params\)"):
        wrapped.update(params, wrapped.init(params))
    with pytest.raises(AttributeError, match="call step.*, or tandem.jax.as_optax"):
        optax.chain(tandem.jax.adamw()).update(params, ((),), params)
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        tandem.jax.adamw().other
    with pytest.raises(TypeError, match="as_optax takes an optimizer of tandem.jax, got a str"):
        as_optax("adamw")
    injected = optax.inject_hyperparams(
        lambda lr: as_optax(tandem.jax.adamw(lr=lr, strategy="bf16")))(lr=0.1)
    with pytest.raises(TypeError, match="lr must be a number or a function"):
        jax.jit(injected.update)(params, injected.init(params), params)
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(ImportError, match="pip install optax, or call optimizer.step"):
        as_optax(tandem.jax.adamw())
