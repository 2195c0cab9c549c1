"""Launches on GPUs, for which XLA computes the scalars that the host does not know."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir

from tandem.jax import _library
from tandem.jax._call import Call

#===------------------------------------------------------------------------===#
# Rows of scalars
#===------------------------------------------------------------------------===#


def words_of_f64(value: jax.Array) -> jax.Array:
    """Returns the two words of an f32 or f64 as an f64, low word first. Most JAX functions do
    not have f64 enabled."""
    if value.dtype == jnp.float64:
        return jax.lax.bitcast_convert_type(value, jnp.uint32)
    bits = jax.lax.bitcast_convert_type(value.astype(jnp.float32), jnp.uint32)
    sign, exponent, fraction = bits & jnp.uint32(1 << 31), bits >> 23 & 0xFF, bits & 0x7FFFFF
    # A subnormal f32 is normal in f64.
    shift = jax.lax.clz(fraction) - 8
    is_subnormal = (exponent == 0) & (fraction != 0)
    fraction = jnp.where(is_subnormal, fraction << shift & 0x7FFFFF, fraction)
    biased = jnp.where(is_subnormal, 1 - shift, exponent) + (1023 - 127)
    biased = jnp.where(exponent == 255, 2047, jnp.where(bits << 1 == 0, 0, biased))
    return jnp.stack([fraction << 29, sign | biased << 20 | fraction >> 3])


def words_of_i64(value: jax.Array) -> jax.Array:
    """Returns the two words of an i32 or i64 as an i64, low word first."""
    if value.dtype == jnp.int64:
        return jax.lax.bitcast_convert_type(value, jnp.uint32)
    value = value.astype(jnp.int32)
    return jax.lax.bitcast_convert_type(jnp.stack([value, value >> 31]), jnp.uint32)


def _rows(*values: jax.Array, call: Call) -> list[jax.Array]:
    """Returns the words of the hyperparameters and of the integers. `values` replace some of
    them."""
    hypers = list(np.array(call.hypers, np.float64).view(np.uint32).reshape(-1, 2))
    integers = list(np.array(call.integers, np.int64).view(np.uint32).reshape(-1, 2))
    for at, value in zip(call.scalars, values):
        if at < 0:
            integers[-1 - at] = words_of_i64(value)
        else:
            hypers[at] = words_of_f64(value)
    return [jnp.stack([jnp.asarray(word, jnp.uint32) for word in words]) if words
            else jnp.zeros((0, 2), jnp.uint32) for words in (hypers, integers)]

#===------------------------------------------------------------------------===#
# Lowering
#===------------------------------------------------------------------------===#


def _check(call: Call) -> None:
    """Refuses launches that need the host."""
    if call.metrics >= 0:
        raise NotImplementedError(
            f"{call.what} measures, which only CPUs do, since the host adds up the sums; create the "
            "optimizer without metrics=True for GPUs")
    if call.shards >= 0:
        raise NotImplementedError(
            f"{call.what} takes shards, which only CPUs do, since the host counts the elements before "
            "each; leave specs out, so that each GPU has whole leaves")


def lower(context: mlir.LoweringRuleContext, *operands, call: Call) -> Sequence:
    """Lowers a launch for CUDA."""
    _check(call)
    _library.compile_for_gpus(call.kernel, call.what)
    avals_in, avals_out = list(context.avals_in), list(context.avals_out)
    attributes = call.attributes | {"row": np.int64(-1)}
    if count := len(call.scalars):
        attributes["row"] = np.int64(len(operands))
        scalars = context.replace(primitive=None, avals_in=avals_in[:count], avals_out=None)
        rows = mlir.lower_fun(functools.partial(_rows, call=call))(scalars, *operands[:count])
        operands += tuple(rows)
        avals_in += [jax.core.ShapedArray((len(numbers), 2), jnp.uint32)
                     for numbers in (call.hypers, call.integers)]
    if call.flags >= 0:
        # The second word tells whether to skip the launch.
        avals_out[call.flags] = jax.core.ShapedArray((2,), jnp.uint32)
    rule = jax.ffi.ffi_lowering(_library.TARGET, operand_output_aliases=call.aliases)
    results = list(rule(context.replace(avals_in=avals_in, avals_out=avals_out), *operands,
                        **attributes))
    if call.flags >= 0:
        first = context.replace(primitive=None, avals_in=[avals_out[call.flags]], avals_out=None)
        (results[call.flags],) = mlir.lower_fun(
            lambda words: words[0], multiple_results=False)(first, results[call.flags])
    return results
