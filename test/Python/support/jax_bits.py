#===- jax_bits.py - JAX arrays as planes of bits ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements what the tests of tandem.jax share.
#
#===----------------------------------------------------------------------===#
"""Pytrees of random arrays, and their bits."""

import jax
import jax.numpy as jnp
import numpy as np

from tandem.jax._launch import DTYPES


def dtype_of(optimizer):
    """The type of the leaves that an optimizer's strategy is for."""
    return DTYPES[optimizer._rules._own(optimizer._strategy, False).types[0]]


def arrays(shapes, dtype, seed=0, scale=1.0):
    """A list of random arrays."""
    draw = np.random.default_rng(seed)
    return [jnp.asarray(scale * draw.standard_normal(shape), jnp.float32).astype(dtype)
            for shape in shapes]


def gradients(params, seed):
    """Random gradients that depend only on the seed."""
    draw = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(
        1e-2 * draw.standard_normal(x.shape), jnp.float32).astype(x.dtype), params)


def bits(array):
    """The bits of an array's elements."""
    array = np.asarray(array)
    return array.reshape(-1).view(f"u{array.itemsize}").copy()


def assert_same_bits(got, want):
    """Two pytrees agree in structure, types, shapes and every bit."""
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(want)):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), path
        assert np.array_equal(bits(x), bits(y)), path
