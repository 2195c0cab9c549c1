#===- test_jax_bits.py - The bits of JAX's steps ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that steps of tandem.jax have the bits of kernel calls with NumPy arrays and of
# the PyTorch optimizers.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp

import tandem
import tandem.jax
from support.delayed import with_delayed_gradients
from support.jax_bits import (arrays, assert_same_bits, bits, dtype_of, gradients,
                              state_of_torch, to_jax, to_torch)
from tandem._param_planes import ParamPlanes

SHAPES = [(24, 80), (150,), (), (3, 4, 16), (0, 3), (1, 300)]
RATE = np.float32(1e-3)
OPTIMIZERS = {
    "adam": {}, "ademamix": {}, "lamb": {}, "sgd": {"momentum": 0.9}, "lion": {},
    "rmsprop": {}, "adagrad": {}, "adadelta": {}, "adamax": {}, "adan": {}, "rprop": {},
}
#: Optimizers and their names in PyTorch, where these differ by more than a capital.
NAMES = {"adamw": "AdamW", "ademamix": "AdEMAMix", "lamb": "LAMB", "sgd": "SGD",
         "rmsprop": "RMSprop", "radam": "RAdam", "came": "CAME"}
every_strategy = pytest.mark.parametrize("strategy", tandem.strategies())


def make(strategy, name="adamw", **options):
    return getattr(tandem.jax, name)(strategy=strategy, seed=7, **options)


def given(params, seed):
    """Returns the gradients for a seed; negative seeds have an infinite element."""
    grads = gradients(params, abs(seed))
    if seed < 0:
        grads[1] = grads[1].at[3].set(jnp.inf)
    return grads


def train(optimizer, params, state, seeds, **hypers):
    step = jax.jit(optimizer.step)
    for seed in seeds:
        params, state = step(given(params, seed), state, params, **hypers)
        assert state.skipped is None or state.skipped == (seed < 0)
    return params, state


def numpy_steps(kernel, planes, grads, key):
    """Steps one array in place by calls of a kernel."""
    (name,) = [plane.name for plane in kernel.planes if plane.kind is tandem._plane.RoleKind.GRAD]
    numbers = {"seed": 7} if "seed" in kernel.integers else {}
    for step, grad in enumerate(grads, 1):
        kernel(planes | {name: np.array(grad).reshape(-1)}, step=step, key=key, lr=float(RATE),
               **numbers)


@every_strategy
def test_numpy(strategy):
    """The strategies are those whose gradients NumPy can represent."""
    kernel = tandem.compile("adamw", strategy)
    roles = ParamPlanes(kernel)
    if roles.hidden or roles.encodes:
        pytest.skip("weights or gradients are in codes; PyTorch's test has them")
    optimizer = make(strategy, min_8bit_size=0)
    params = arrays([(150,), (333,)], dtype_of(optimizer))
    state = optimizer.init(params)
    grads = [gradients(params, seed) for seed in range(3)]
    planes = [{"param": np.array(x)} | {name: np.array(value) for name, value in kept.items()}
              for x, kept in zip(params, state.planes)]
    for key, arrays_of in enumerate(planes):
        numpy_steps(kernel, arrays_of, [grad[key] for grad in grads], key)
    params, state = train(optimizer, params, state, range(3), lr=RATE)
    assert int(state.count) == 3
    for x, kept, want in zip(params, state.planes, planes):
        for name, value in {"param": x, **kept}.items():
            assert np.array_equal(bits(value), bits(want[name])), name


def torch_steps(optimizer, seeds):
    params = optimizer.param_groups[0]["params"]
    for seed in seeds:
        grads = given([to_jax(p) for p in params], seed)
        for param, grad in zip(params, grads):
            param.grad = to_torch(grad)
        optimizer.step()


def compared(strategy, name, shapes, bound, dtype=None, seeds=range(2, 5), **options):
    """Takes two steps in PyTorch, and then the same steps from there in both."""
    torch = pytest.importorskip("torch")
    import tandem.torch
    options |= OPTIMIZERS.get(name, {})
    optimizer = make(strategy, name, min_8bit_size=bound, **options)
    params = arrays(shapes, dtype or dtype_of(optimizer))
    theirs = getattr(tandem.torch, NAMES.get(name, name.capitalize()))(
        [torch.nn.Parameter(to_torch(x)) for x in params], lr=float(RATE), seed=7,
        strategy=strategy, min_8bit_size=bound, **options)
    torch_steps(theirs, range(2))
    tensors = theirs.param_groups[0]["params"]
    params = [to_jax(p) for p in tensors]
    state = state_of_torch(optimizer, [theirs.state[p] for p in tensors], params)
    params, state = train(optimizer, params, state, seeds, lr=RATE)
    torch_steps(theirs, seeds)
    want = state_of_torch(optimizer, [theirs.state[p] for p in tensors], params)
    assert_same_bits(params, [to_jax(p) for p in tensors])
    assert_same_bits(state.planes, want.planes)


@pytest.mark.thinned(1)
@every_strategy
@pytest.mark.parametrize("bound", (1000, 0))
def test_pytorch(strategy, bound):
    """Small leaves have f32 states in one run and codes in the other."""
    compared(strategy, "adamw", SHAPES, bound)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("strategy", ("collage-plus", "coat-fp32", "fp8-collage-plus"))
def test_pytorch_optimizers(name, strategy):
    compared(strategy, name, SHAPES, 1000)


@pytest.mark.parametrize("name, options", (
    ("adamw", {"decay": "before", "cautious": True}), ("lion", {"cautious": True})))
def test_cautious_masks(name, options):
    compared("flash-f16", name, SHAPES, 1000, **options)


@pytest.mark.parametrize("options", ({"decay": "before"}, {"max_norm": 0.5}))
def test_ratios(options):
    compared("residual-ratio4", "adamw", SHAPES, 1000, stores_ratio=True, **options)


def test_came():
    compared("dither-mulaw", "came", [(24, 80), (150,), (1, 300)], 1000)


def test_radam_is_near_pytorchs():
    """The rectification is computed in f32."""
    torch = pytest.importorskip("torch")
    params = arrays([(24, 80), (150,)], jnp.float32)
    theirs = [torch.nn.Parameter(to_torch(x)) for x in params]
    peer = torch.optim.RAdam(theirs, lr=1e-2, betas=(0.9, 0.95))
    optimizer = tandem.jax.radam(lr=1e-2, betas=(0.9, 0.95), strategy="fp32")
    state = optimizer.init(params)
    for seed in range(9):
        grads = gradients(params, seed)
        for param, grad in zip(theirs, grads):
            param.grad = to_torch(grad)
        peer.step()
        params, state = jax.jit(optimizer.step)(grads, state, params)
    for x, param in zip(params, theirs):
        np.testing.assert_allclose(np.array(x), param.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make, error, message", (
    (lambda: tandem.jax.rprop(etas=(1.0, 0.5)), ValueError, r"etas are \(1.0, 0.5\); the first"),
    (lambda: tandem.jax.rprop(step_sizes=(1.0, 0.5)), ValueError, "step_sizes are"),
    (lambda: tandem.jax.adan(difference=1.0), TypeError, "difference follows from the step"),
    (lambda: tandem.jax.radam(scale=1.0), TypeError, "scale follows from beta2 and the step"),
    (lambda: tandem.jax.came(metrics=True), ValueError, "came has no metrics"),
    (lambda: tandem.jax.came(clip_threshold=0), ValueError, "'clip_threshold' is 0; it must be"),
    (lambda: tandem.jax.rprop(etas=(lambda step: 0.5, 1.2), step_sizes=(2.0, 1.0)), ValueError,
     "step_sizes are"),
    (lambda: tandem.jax.adafactor(rho=0.1), TypeError,
     "rho follows from lr, beta2_decay and the step; leave it out"),
    (lambda: tandem.jax.adamw(cautious=True), ValueError, "cautious needs decay='before'"),
))
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_adafactor():
    """PyTorch's Adafactor derives values from the step in f64; here it uses f32."""
    optimizer = tandem.jax.adafactor(lr=1e-2, strategy="fp32")
    params = arrays([(24, 80), (150,)], jnp.float32)
    state, eps = optimizer.init(params), float(np.finfo(np.float32).eps)
    planes = [{"param": np.array(x)} | {name: np.array(value) for name, value in kept.items()}
              for x, kept in zip(params, state.planes)]
    for step in range(1, 4):
        grads, count = gradients(params, step), jnp.float32(step)
        numbers = {"rho": float(jnp.minimum(jnp.float32(1e-2), 1 / jnp.sqrt(count))),
                   "mixing": float(count ** jnp.float32(-0.8)), "eps1": eps, "lr": 1e-2}
        for graph, held, grad in zip(("adafactor", "adafactor_vector"), planes, grads):
            tandem.compile(graph, "fp32")(held | {"grad": np.array(grad)}, **numbers)
        params, state = optimizer.step(grads, state, params)
    for x, kept, want in zip(params, state.planes, planes):
        for name, value in {"param": x, **kept}.items():
            assert np.array_equal(bits(value), bits(want[name])), name


def test_pytorch_delayed_gradients(tmp_path):
    """Scales of gradients depend on earlier gradients, which the state records."""
    compared(with_delayed_gradients(tmp_path), "adamw", SHAPES, 0, path=[tmp_path])


@pytest.mark.parametrize("strategy", ("fp8-lm-delayed", "fp8-collage-plus", "coat-fp32"))
def test_pytorch_skipped_steps(strategy, tmp_path):
    """Skipped steps do not affect the scales of later gradients."""
    compared(with_delayed_gradients(tmp_path, strategy), "adamw", SHAPES, 0, path=[tmp_path],
             seeds=(-2, 2, -3, -4, 3), skip_nonfinite=True)


@pytest.mark.parametrize("strategy", ("collage-plus", "adam8bit", "fp8-lm"))
def test_pytorch_clipping(strategy):
    compared(strategy, "adamw", SHAPES, 1000, max_norm=0.5)


@pytest.mark.parametrize("strategy", ("adam8bit", "fp8-lm", "flash", "bf16-kahan"))
def test_pytorch_f32_leaves(strategy):
    """f32 leaves keep f32 under a strategy with narrower weights."""
    compared(strategy, "lion", SHAPES, 0, dtype=jnp.float32)
