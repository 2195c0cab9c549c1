#===- test_jax_products.py - Linear layers and losses of JAX ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.jax.nn.linear and cross_entropy.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp

from support.jax_bits import (arrays, assert_same_bits, bits, run_on_two_devices, to_jax,
                              to_torch)
from tandem.jax import nn

TYPES = ("float32", "bfloat16", "float16")
every_type = pytest.mark.parametrize("dtype", TYPES)
#: The spacing of numbers at 1, by dtype.
EPSILONS = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}


def wide(x):
    return np.asarray(x).astype(np.float64)


def assert_near(got, want, size, dtype):
    """Asserts that an array matches an f64 one up to rounding relative to `size`."""
    assert got.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(wide(got), want, rtol=0, atol=4 * EPSILONS[dtype] * size)

#===----------------------------------------------------------------------===#
# Linear layers
#===----------------------------------------------------------------------===#


def pulled(x, weight, bias=None, *, recipe):
    """Returns the output, the saved values, and the gradients for a random output gradient."""
    factors = [x, weight] if bias is None else [x, weight, bias]
    y, pull = jax.vjp(lambda *factors: nn.linear(*factors, recipe=recipe), *factors)
    dy = arrays([y.shape], x.dtype, seed=7)[0]
    return y, pull, dy, jax.jit(lambda pull, dy: pull(dy))(pull, dy)


def kept_by_pytorch(x, recipe):
    """Returns the input that PyTorch's linear layer uses in its backward pass, in f64."""
    pytest.importorskip("torch")
    from tandem.torch.nn import functional
    tensor = to_torch(x).reshape(-1, x.shape[-1])
    weight = to_torch(jnp.zeros((len(tensor), x.shape[-1]), x.dtype)).requires_grad_()
    y = functional.linear(tensor, weight, recipe=recipe)
    y.backward(to_torch(jnp.eye(len(tensor), dtype=x.dtype)))
    return wide(to_jax(weight.grad))


@every_type
@pytest.mark.parametrize("recipe", ("coat", "mxfp8", "bf16", "fp32", "te-current", "coat-fp8"))
def test_linear(dtype, recipe):
    """The product is JAX's; its derivative uses the input as PyTorch would save it."""
    x, weight, bias = arrays([(3, 16, 48), (48, 32), (32,)], dtype)
    y, _, dy, (dx, dweight, dbias) = pulled(x, weight, bias, recipe=recipe)
    rows, slopes = wide(x).reshape(-1, 48), wide(dy).reshape(-1, 32)
    assert_near(y, (rows @ wide(weight) + wide(bias)).reshape(y.shape), 30, dtype)
    assert_near(dx, (slopes @ wide(weight).T).reshape(x.shape), 30, dtype)
    assert_near(dbias, slopes.sum(0), 30, dtype)
    assert_near(dweight, kept_by_pytorch(x, recipe).T @ slopes, 30, dtype)
    if recipe == "coat":
        assert np.abs(wide(dweight) - rows.T @ slopes).max() > 1e-2


@pytest.mark.parametrize(("recipe", "dtype"), (("coat", "bfloat16"), ("mxfp8", "float32")))
def test_planes_of_pytorch(recipe, dtype):
    """The saved planes have the bits of PyTorch's layer."""
    torch = pytest.importorskip("torch")
    from tandem.torch.nn import _history, _layer, _saved_inputs
    (x,) = arrays([(40, 64)], dtype)
    layer = _layer.compiled("keep", recipe, getattr(torch, dtype), getattr(torch, dtype))
    theirs, _ = _saved_inputs.SavedInputs().keep(layer, _history.NO_HISTORY, to_torch(x))
    _, pull, *_ = pulled(x, jnp.zeros((64, 8), dtype), recipe=recipe)
    ours = [y for y in jax.tree.leaves(pull) if y.shape != (64, 8)]
    assert sorted(bits(y).tobytes() for y in ours) == sorted(
        t.detach().view(torch.uint8).numpy().tobytes() for t in theirs)


def test_bytes_of_linear():
    """The input takes one byte per element."""
    x, weight = arrays([(128, 512), (512, 512)], jnp.bfloat16)
    kept = jax.tree.leaves(jax.eval_shape(lambda *x: jax.vjp(nn.linear, *x)[1], x, weight))
    assert sum(y.size * y.dtype.itemsize for y in kept) <= weight.nbytes + x.size + 4


def test_products_of_one_input():
    """Inside jax.jit, products of the same input save and decode it only once."""
    x, *weights = arrays([(64, 256), (256, 8), (256, 8), (256, 8)], jnp.bfloat16)

    def loss(weights, x):
        return sum(nn.linear(x, weight).sum() for weight in weights)

    text = jax.jit(jax.grad(loss)).lower(weights, x).compile().as_text()
    assert text.count('custom_call_target="tandem_launch"') == 2


def test_vectors_and_empty_inputs():
    x, weight = arrays([(48,), (48, 32)], jnp.float32)
    y, _, dy, (dx, dweight) = pulled(x, weight, recipe="fp32")
    assert y.shape == (32,) and dx.shape == (48,)
    np.testing.assert_allclose(dweight, np.outer(x, dy), rtol=1e-6)
    y, _, _, (dx, dweight) = pulled(jnp.ones((0, 48)), weight, recipe="coat")
    assert y.shape == (0, 32) and dx.shape == (0, 48) and not dweight.any()


def test_linear_refuses():
    x, weight = jnp.ones((2, 4)), jnp.ones((4, 3))
    with pytest.raises(ValueError, match=r"x of linear is \(2, 4\) and weight \(3, 4\); .*weight.T"):
        nn.linear(x, weight.T)
    with pytest.raises(ValueError, match=r"bias of linear is \(4,\), but weight \(4, 3\) has 3 out"):
        nn.linear(x, weight, jnp.ones(4))
    with pytest.raises(TypeError, match=r"weight of linear is bfloat16, but x float32; .*weight.ast"):
        nn.linear(x, weight.astype(jnp.bfloat16))
    with pytest.raises(TypeError, match="x of linear is int32"):
        nn.linear(x.astype(int), weight)
    with pytest.raises(ValueError, match="^linear under recipe 'te-delayed' dithers, remembers"):
        nn.linear(x, weight, recipe="te-delayed")
    with pytest.raises(NotImplementedError, match="linear is one launch, which jax.vmap cannot"):
        jax.vmap(jax.grad(lambda x: nn.linear(x, weight).sum()))(x)
    with pytest.raises(NotImplementedError, match="has no derivative"):
        jax.hessian(lambda x: jnp.square(nn.linear(x, weight)).sum())(x)

#===----------------------------------------------------------------------===#
# Products of 8-bit floats
#===----------------------------------------------------------------------===#

FP8_RECIPES = ("coat", "te-current", "coat-fp8", "coat-flow")


def fp8_by_pytorch(x, weight, bias, dy, recipe):
    """Returns the output and gradients of PyTorch's layer, with the weight's in JAX's layout."""
    pytest.importorskip("torch")
    from tandem.torch.nn import functional
    factors = [to_torch(a).requires_grad_() for a in (x, weight.T, *([] if bias is None else [bias]))]
    y = functional.linear(*factors, recipe=recipe, products="fp8")
    y.backward(to_torch(dy))
    dx, dweight, *dbias = [to_jax(a.grad) for a in factors]
    return to_jax(y), (dx, dweight.T, *dbias)


def fp8_by_jax(x, weight, bias, dy, recipe, jit=True):
    def both(dy, *factors):
        y, pull = jax.vjp(lambda *factors: nn.linear(
            *factors, recipe=recipe, products="fp8"), *factors)
        return y, pull(dy)
    factors = [x, weight] if bias is None else [x, weight, bias]
    return (jax.jit(both) if jit else both)(dy, *factors)


def few_bits(shapes, dtype, seed):
    """Returns random multiples of 1/4 up to 3, for which sums of products of codes are exact in
    f32. The largest magnitude, which determines the scale, is not a power of two."""
    draw = np.random.default_rng(seed)
    return [jnp.asarray(draw.integers(-12, 13, shape) / 4 * 1.3, jnp.float32).astype(dtype)
            for shape in shapes]


@every_type
@pytest.mark.parametrize("recipe", FP8_RECIPES)
@pytest.mark.parametrize("has_bias", (False, True))
def test_fp8_bits_of_pytorch(dtype, recipe, has_bias):
    """If sums are exact, all codes, scales and roundings have PyTorch's bits."""
    x, weight, bias, dy = few_bits([(3, 16, 48), (48, 32), (32,), (3, 16, 32)], dtype, 1)
    bias = bias * jnp.asarray(0.37, dtype) if has_bias else None
    for jit in (True, False):
        y, gradients = fp8_by_jax(x, weight, bias, dy, recipe, jit)
        want, wanted = fp8_by_pytorch(x, weight, bias, dy, recipe)
        assert_same_bits((y, gradients[:2]), (want, wanted[:2]))
        if has_bias:
            assert_near(gradients[2], wide(wanted[2]), 50, dtype)
    assert np.abs(wide(y) - wide(nn.linear(x, weight, bias, recipe=recipe))).max() > 1e-3


@every_type
def test_fp8_near_pytorch(dtype):
    """For random numbers, XLA rounds sums in a different order."""
    x, weight, bias, dy = arrays([(7, 300), (300, 130), (130,), (7, 130)], dtype)
    got = fp8_by_jax(x, weight, bias, dy, "coat")
    want = fp8_by_pytorch(x, weight, bias, dy, "coat")
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_near(ours, wide(theirs), 30, dtype)


def test_fp8_keeps_codes():
    """The backward pass keeps one byte per element of the input, and of the weight."""
    x, weight = arrays([(128, 512), (512, 256)], jnp.bfloat16)
    kept = jax.tree.leaves(jax.eval_shape(lambda *factors: jax.vjp(
        lambda *factors: nn.linear(*factors, products="fp8"), *factors)[1], x, weight))
    assert sum(y.size * y.dtype.itemsize for y in kept) == weight.size + x.size + 8


def test_fp8_vectors_and_empty_inputs():
    x, weight, dy = few_bits([(48,), (48, 32), (32,)], jnp.bfloat16, 2)
    y, (dx, dweight) = fp8_by_jax(x, weight, None, dy, "coat")
    want, (wanted, _) = fp8_by_pytorch(x, weight, None, dy, "coat")
    assert_same_bits((y, dx), (want, wanted))
    assert dweight.shape == weight.shape
    y, (dx, dweight) = fp8_by_jax(jnp.ones((0, 48)), jnp.ones((48, 32)), None,
                                  jnp.ones((0, 32)), "coat")
    assert y.shape == (0, 32) and dx.shape == (0, 48) and not dweight.any()


def test_fp8_trains():
    """One layer learns the function of another."""
    x, target = arrays([(64, 32), (32, 16)], jnp.float32)
    weight = jnp.zeros_like(target)

    @jax.jit
    def advance(weight):
        loss, slope = jax.value_and_grad(lambda weight: jnp.mean(jnp.square(
            nn.linear(x, weight, products="fp8") - x @ target)))(weight)
        return loss, weight - 4 * slope

    losses = []
    for _ in range(60):
        loss, weight = advance(weight)
        losses.append(float(loss))
    assert losses[-1] < 1e-2 * losses[0]


FP8_SHARDS = """
import functools
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, PartitionSpec as P
from support.jax_bits import arrays
from tandem.jax import nn

mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
x, weight, bias = arrays([(8, 32), (32, 10), (10,)], jnp.float32)


def loss(weight, bias, x):
    return jnp.sum(jnp.square(nn.linear(x, weight, bias, products="fp8")))


@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(), P("data")),
                   out_specs=(P(), (P(), P(), P("data"))))
def spread(*inputs):
    return jax.value_and_grad(lambda *inputs: jax.lax.psum(loss(*inputs), "data"), (0, 1, 2))(
        *inputs)


got, (dweight, dbias, dx) = jax.jit(spread)(weight, bias, x)
parts = [jax.value_and_grad(loss, (0, 1, 2))(weight, bias, rows) for rows in (x[:4], x[4:])]
np.testing.assert_allclose(got, sum(part for part, _ in parts), rtol=1e-5)
for at, sums in enumerate((dweight, dbias)):
    np.testing.assert_allclose(sums, sum(grads[at] for _, grads in parts), rtol=1e-5, atol=1e-5)
np.testing.assert_array_equal(dx, jnp.concatenate([grads[2] for _, grads in parts]))
"""


def test_fp8_shards():
    """Each shard has separate scales; gradients of replicated inputs are sums."""
    run_on_two_devices(FP8_SHARDS)


def test_fp8_refuses():
    x, weight = jnp.ones((2, 4)), jnp.ones((4, 3))
    with pytest.raises(ValueError, match="^products is 'bf16' or 'fp8', got 'e4m3'"):
        nn.linear(x, weight, products="e4m3")
    for recipe in ("mxfp8", "bf16", "fp32", "block-128"):
        with pytest.raises(ValueError, match="products='fp8' takes a recipe that keeps inputs of "
                           "linear layers in E4M3 with an f32 scale"):
            nn.linear(x, weight, recipe=recipe, products="fp8")
    with pytest.raises(ValueError, match="^linear under recipe 'te-delayed' dithers, remembers"):
        nn.linear(x, weight, recipe="te-delayed", products="fp8")
    with pytest.raises(TypeError, match="weight of linear is bfloat16, but x float32"):
        nn.linear(x, weight.astype(jnp.bfloat16), products="fp8")

#===----------------------------------------------------------------------===#
# The cross entropy
#===----------------------------------------------------------------------===#

LABELS = (3, 0, 46, 5, -100, 11)


def logits(dtype, scale=4.0):
    return arrays([(len(LABELS), 47)], dtype, scale=scale)[0]


@every_type
@pytest.mark.parametrize("reduction", ("none", "sum", "mean"))
@pytest.mark.parametrize("recipe", ("coat", "fp32"))
def test_losses_of_pytorch(dtype, reduction, recipe):
    torch = pytest.importorskip("torch")
    from tandem.torch.nn import functional
    x, labels = logits(dtype), jnp.asarray(LABELS)
    tensor = to_torch(x).requires_grad_()
    wanted = functional.cross_entropy(tensor, torch.tensor(LABELS), reduction=reduction,
                                      recipe=recipe)
    slopes = jnp.full(wanted.shape, 0.75, dtype)
    wanted.backward(to_torch(slopes))

    @jax.jit
    def both(x, slopes):
        loss, pull = jax.vjp(lambda x: nn.cross_entropy(
            x, labels, reduction=reduction, recipe=recipe), x)
        return loss, pull(slopes)

    loss, (dx,) = both(x, slopes)
    if reduction == "none":
        assert_same_bits(loss, to_jax(wanted))
    assert_near(loss, wide(to_jax(wanted)), 20, dtype)
    assert_same_bits(dx, to_jax(tensor.grad))


def test_losses_of_f64():
    x, labels = logits("float32", 20.0), np.asarray(LABELS)
    exact = wide(x) - np.log(np.exp(wide(x)).sum(-1, keepdims=True))
    has_loss = labels >= 0
    want = np.where(has_loss, -np.take_along_axis(exact, labels[:, None] * has_loss[:, None],
                                                  -1)[:, 0], 0)
    loss, dx = jax.value_and_grad(lambda x: nn.cross_entropy(x, labels, recipe="fp32"))(x)
    np.testing.assert_allclose(loss, want.sum() / has_loss.sum(), rtol=1e-5)
    slopes = (np.exp(exact) - np.eye(47)[labels * has_loss]) * has_loss[:, None] / has_loss.sum()
    np.testing.assert_allclose(dx, slopes, atol=1e-6)


def test_leading_dimensions():
    x, labels = logits("bfloat16").reshape(2, 3, 47), jnp.asarray(LABELS).reshape(2, 3)
    flat = nn.cross_entropy(x.reshape(6, 47), labels.reshape(6), reduction="none")
    got = nn.cross_entropy(x, labels, reduction="none")
    assert_same_bits(got, flat.reshape(2, 3))
    assert nn.cross_entropy(x[0, 0], labels[0, 0]).shape == ()
    assert nn.cross_entropy(jnp.ones((0, 4)), jnp.ones(0, int), reduction="sum") == 0


def test_no_losses():
    """If all rows are ignored, the mean is NaN and the gradients are zero."""
    labels = jnp.full(6, -100)
    loss, dx = jax.value_and_grad(nn.cross_entropy)(logits("float32"), labels)
    assert np.isnan(loss) and not dx.any()


@pytest.mark.parametrize("label", (47, -1))
def test_classes_that_do_not_exist(label):
    """The result is an error, or NaN if the label is known only at run time."""
    x, labels = logits("float32"), jnp.asarray(LABELS).at[2].set(label)
    with pytest.raises(IndexError, match=f"target {label} is none of 47 classes, nor ignore_ind"):
        nn.cross_entropy(x, labels)
    losses, pull = jax.vjp(jax.jit(lambda x, labels: nn.cross_entropy(x, labels, reduction="none")),
                           x, labels)
    assert np.array_equal(np.isnan(losses), np.arange(6) == 2)
    assert np.isnan(jax.jit(nn.cross_entropy)(x, labels))
    dx, _ = pull(jnp.ones(6))
    assert np.array_equal(np.isnan(dx).all(-1), np.arange(6) == 2)


def test_bytes_of_the_loss():
    """The loss saves one byte per logit, its scales, and some numbers per row."""
    x, labels = jnp.ones((64, 4096), jnp.bfloat16), jnp.zeros(64, int)
    kept = jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(
        lambda x: nn.cross_entropy(x, labels), x)[1], x))
    assert sum(y.size * y.dtype.itemsize for y in kept) < 0.6 * x.nbytes


def test_cross_entropy_refuses():
    x, labels = jnp.ones((2, 4)), jnp.zeros(2, int)
    with pytest.raises(ValueError, match="reduction is 'mean', 'sum' or 'none', got 'max'"):
        nn.cross_entropy(x, labels, reduction="max")
    with pytest.raises(ValueError, match=r"x is \(2, 4\), target is \(1,\) of int32; classes are"):
        nn.cross_entropy(x, labels[:1])
    with pytest.raises(ValueError, match=r"target is \(2,\) of float32"):
        nn.cross_entropy(x, labels.astype(jnp.float32))
    with pytest.raises(ValueError, match="knows 2"):
        jax.eval_shape(nn.cross_entropy, jax.ShapeDtypeStruct((1, (1 << 24) + 1), jnp.float32),
                       jax.ShapeDtypeStruct((1,), jnp.int32))
    with pytest.raises(TypeError, match="x of cross_entropy is int32"):
        nn.cross_entropy(labels, 0)
    with pytest.raises(NotImplementedError, match="cross_entropy is one launch, which jax.vmap"):
        jax.vmap(nn.cross_entropy)(x, labels)
