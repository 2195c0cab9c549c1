#===- jax_gpu_cases.py - Cases for GPU and CPU ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the program of test_jax_gpu.py, which runs steps and layers of tandem.jax on
# the CPU, or on a GPU stand-in, and writes their bits.
#
#===----------------------------------------------------------------------===#
"""Usage: `jax_gpu_cases.py cpu|gpu LIBRARY OUTPUT`."""

import pickle
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp

import tandem.jax
from support.delayed import with_delayed_gradients
from support.jax_bits import arrays, bits, dtype_of, gradients
from support.jax_on_gpu import JaxGPU
from tandem.jax import nn

SHAPES = [(6, 40), (130,), (), (3, 2, 4), (0, 3)]


def warmup(count):
    """Returns a learning rate that only XLA computes."""
    return jnp.float32(1e-3) * (count + 1)


def steps(name, strategy, seeds=(0, 1), **options):
    """Returns leaves and state after each step; gradients of negative seeds have a NaN."""
    optimizer = getattr(tandem.jax, name)(lr=warmup, strategy=strategy, min_8bit_size=0, seed=7,
                                          **options)
    shapes = [(6, 40), (130,)] if name == "adafactor" else SHAPES
    params = arrays(shapes, dtype_of(optimizer))
    if "max_norm" not in options:  # max_norm sums over one launch
        params += arrays([(9,)], jnp.float32)
    state, step, found = optimizer.init(params), jax.jit(optimizer.step), []
    for seed in seeds:
        grads = gradients(params, abs(seed))
        if seed < 0:
            grads[1] = grads[1].at[100].set(jnp.nan)
        params, state = step(grads, state, params)
        found.append((params, state.planes, state.count, state.skipped))
    return found


def delayed():
    """Runs skipped steps among others, with delayed scales of gradients."""
    with tempfile.TemporaryDirectory() as folder:
        name = with_delayed_gradients(Path(folder))
        return steps("adamw", name, (0, -1, 2), path=[folder], skip_nonfinite=True)


def hypers_of_steps():
    """Takes a step with the smallest subnormal number, and an f32 that f64 rounds differently."""
    optimizer = tandem.jax.adamw(strategy="fp32")
    params = arrays([(130,)], jnp.float32)
    step, state, found = jax.jit(optimizer.step), optimizer.init(params), []
    for lr, decay in ((1e-45, 0.0), (0.1, -0.0), (1e-40, 1e-3)):
        params, state = step(gradients(params, 1), state, params, lr=jnp.float32(lr),
                             weight_decay=jnp.float32(decay))
        found.append((params, state.planes))
    return found


def converted(source, target):
    """Returns a state converted to another strategy."""
    ours, theirs = (tandem.jax.adamw(strategy=name, min_8bit_size=0)
                    for name in (source, target))
    params = arrays(SHAPES, dtype_of(ours))
    state = ours.init(params)
    params, state = ours.step(gradients(params, 1), state, params)
    params, state = tandem.jax.convert_state(state, params, ours, theirs)
    return params, state.planes


def layers(recipe):
    """Returns a loss of layers and its gradients."""
    x, gain, w, v, head = arrays([(12, 64), (64,), (64, 96), (64, 96), (96, 20)], jnp.bfloat16)

    def loss(gain, w, v, head):
        hidden = nn.rms_norm(x, gain, recipe=recipe)
        products = "fp8" if recipe == "coat" else "bf16"
        hidden = nn.swiglu(nn.linear(hidden, w, recipe=recipe, products=products),
                           nn.linear(hidden, v, recipe=recipe), recipe=recipe)
        logits = nn.linear(nn.gelu(hidden, recipe=recipe), head, recipe=recipe)
        return nn.cross_entropy(logits, jnp.arange(12), recipe=recipe)

    return jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))(gain, w, v, head)


CASES = {
    **{f"adamw {strategy}": lambda strategy=strategy: steps("adamw", strategy) for strategy in (
        "fp32", "collage-plus", "bf16-stochastic", "coat", "flash", "fp8-lm", "fp8-collage-plus")},
    **{f"{name} {strategy}": lambda name=name, strategy=strategy: steps(name, strategy)
       for name, strategy in (("lamb", "collage-plus"), ("lion", "coat"), ("adagrad", "bf16-kahan"),
                              ("adafactor", "fp32"))},
    "clipped": lambda: steps("adamw", "coat", max_norm=0.5),
    "skipped": lambda: steps("adamw", "coat", (0, -1, 2), skip_nonfinite=True),
    "delayed": delayed,
    "hypers of steps": hypers_of_steps,
    "from codes": lambda: converted("fp8-collage-plus", "remainder"),
    "to codes": lambda: converted("collage-plus", "flash"),
    "layers coat": lambda: layers("coat"),
    "layers mxfp8": lambda: layers("mxfp8"),
}


def leaves(tree):
    """Returns the dtypes, shapes and bits of a pytree, by path."""
    return {jax.tree_util.keystr(path): (str(x.dtype), x.shape, bits(x).tobytes())
            for path, x in jax.tree_util.tree_leaves_with_path(tree)}


def run(mode, library, output):
    gpu = JaxGPU(library) if mode == "gpu" else None
    found = {}
    for name, case in CASES.items():
        found[name] = leaves(case())
        if gpu:
            gpu.check()
            assert gpu.launched, name
            gpu.launched.clear()
    Path(output).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    run(*sys.argv[1:])
