#===- jax_bits.py - JAX arrays as planes of bits ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements what the tests of tandem.jax share.
#
#===----------------------------------------------------------------------===#
"""Makes pytrees of random arrays, and compares their bits."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import tandem.jax
from tandem.jax._launch import DTYPES


def dtype_of(optimizer):
    """Returns the dtype of leaves for an optimizer's strategy."""
    return DTYPES[optimizer._rules._own(optimizer._strategy, False).types[0]]


def arrays(shapes, dtype, seed=0, scale=1.0):
    """Returns a list of random arrays."""
    draw = np.random.default_rng(seed)
    return [jnp.asarray(scale * draw.standard_normal(shape), jnp.float32).astype(dtype)
            for shape in shapes]


def gradients(params, seed):
    """Returns random gradients that depend only on the seed."""
    draw = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(
        1e-2 * draw.standard_normal(x.shape), jnp.float32).astype(x.dtype), params)


def bits(array):
    """Returns the bits of an array's elements."""
    array = np.asarray(array)
    return array.reshape(-1).view(f"u{array.itemsize}").copy()


def assert_same_bits(got, want):
    """Asserts that two pytrees agree in structure, dtypes, shapes and every bit."""
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(want)):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), path
        assert np.array_equal(bits(x), bits(y)), path


def run_on_two_devices(program, *arguments):
    """Returns the output of a program in a process where JAX has two devices."""
    path = os.pathsep.join(map(str, [Path(__file__).parents[1], *sys.path]))
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300,
        env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2",
                          "PYTHONPATH": path})
    assert result.returncode == 0, result.stderr
    return result.stdout


def to_torch(array):
    """Returns a tensor with the bits of an array."""
    import torch
    array = np.array(array)
    types = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32,
             "int8": torch.int8, "int16": torch.int16, "float8_e4m3fn": torch.float8_e4m3fn,
             "float8_e5m2": torch.float8_e5m2, "float8_e8m0fnu": torch.float8_e8m0fnu}
    flat = torch.from_numpy(array.reshape(-1).view(f"i{array.itemsize}"))
    return flat.view(types[array.dtype.name]).reshape(array.shape)


def to_jax(tensor):
    """Returns an array with the bits of a tensor."""
    import torch
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
    flat = tensor.detach().contiguous().reshape(-1).view(integer).numpy()
    name = str(tensor.dtype).removeprefix("torch.")
    return jnp.asarray(flat.view(jnp.dtype(name))).reshape(tensor.shape)


def state_of_torch(optimizer, states, params):
    """Converts the states of a PyTorch optimizer's parameters, in order, to tandem.jax."""
    planes = [{name: to_jax(theirs[name]) for name in kept}
              for theirs, kept in zip(states, optimizer.init(params).planes)]
    counts = [theirs["step"] for theirs in states if "step" in theirs]
    return tandem.jax.State(jnp.int32(counts[0] if counts else 2), planes, None, None,
                            optimizer._identity)
