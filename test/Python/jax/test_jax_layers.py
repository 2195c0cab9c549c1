#===- test_jax_layers.py - Layers of tandem.jax ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests layers for JAX: their bits, what they save, and their errors.
#
#===----------------------------------------------------------------------===#

import textwrap

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp

from support.jax_bits import arrays, bits, run_on_two_devices
from tandem.jax import nn

#: The shapes of each layer's inputs, and its number of outputs.
LAYERS = {
    "rms_norm": ([(3, 2, 64), (64,)], 1), "add_rms_norm": ([(6, 64), (6, 64), (64,)], 2),
    "layer_norm": ([(6, 64), (64,), (64,)], 1), "silu": ([(5, 100)], 1), "gelu": ([(7,)], 1),
    "swiglu": ([(6, 64), (6, 64)], 1), "geglu": ([(6, 64), (6, 64)], 1),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("recipe", "dtype"), (("coat", "bfloat16"), ("mxfp8", "float32")))
def test_bits_of_pytorch(layer, recipe, dtype):
    torch = pytest.importorskip("torch")
    from tandem.torch.nn import functional
    shapes, count = LAYERS[layer]
    inputs = arrays(shapes, dtype)
    cotangents = arrays(shapes[:1] * count, dtype, seed=1)

    def wide(x):
        return torch.tensor(np.float32(x)).to(getattr(torch, dtype))

    tensors = [wide(x).requires_grad_() for x in inputs]
    tanh = {"approximate": "tanh"} if layer in ("gelu", "geglu") else {}
    shape = [(64,)] if layer.endswith("norm") else []
    width = sum(x.dim() > 1 for x in tensors)
    wanted = getattr(functional, layer)(*tensors[:width], *shape, *tensors[width:], recipe=recipe,
                                        **tanh)
    wanted = wanted if count > 1 else (wanted,)
    torch.autograd.backward(wanted, [wide(x) for x in cotangents])

    def both(inputs, cotangents):
        outputs, derive = jax.vjp(lambda *x: getattr(nn, layer)(*x, recipe=recipe), *inputs)
        return outputs, derive(tuple(cotangents) if count > 1 else cotangents[0])

    got, gradients = jax.jit(both)(inputs, cotangents)
    for x, y in zip([*(got if count > 1 else (got,)), *gradients],
                    [*wanted, *(t.grad for t in tensors)], strict=True):
        assert np.array_equal(bits(jnp.float32(x)), bits(y.detach().float().numpy()))


def test_what_is_kept():
    """A norm saves one byte per element, its scales, and two numbers per row."""
    x, weight = arrays([(128, 256), (256,)], jnp.bfloat16)
    kept = jax.tree.leaves(jax.eval_shape(lambda *x: jax.vjp(nn.rms_norm, *x)[1], x, weight))
    size = sum(y.size * y.dtype.itemsize for y in kept)
    assert size <= x.size * (1 + 2 / 16) + 4 * len(x) + 2 * 256


def test_empty_inputs():
    y, derive = jax.vjp(nn.rms_norm, jnp.ones((0, 8)), jnp.ones(8))
    assert y.shape == (0, 8)
    assert np.array_equal(derive(y)[1], np.zeros(8))


SHARDS = textwrap.dedent("""
    import functools
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import AxisType, PartitionSpec as P
    from support.jax_bits import arrays
    from tandem.jax import nn

    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
    x, gain, head, bias = arrays([(8, 32), (32,), (32, 10), (10,)], jnp.float32)
    weights, labels = {"gain": gain, "head": head, "bias": bias}, jnp.arange(8)

    def loss_of(weights, x, labels):
        hidden = nn.silu(nn.rms_norm(x, weights["gain"], recipe="mxfp8"), recipe="mxfp8")
        logits = nn.linear(hidden, weights["head"], weights["bias"], recipe="mxfp8")
        return nn.cross_entropy(logits, labels, reduction="sum", recipe="mxfp8")

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("data"), P("data")),
                       out_specs=(P(), (P(), P("data"))))
    def spread(*inputs):
        return jax.value_and_grad(lambda *inputs: jax.lax.psum(loss_of(*inputs), "data"), (0, 1))(
            *inputs)

    want = jax.value_and_grad(loss_of, (0, 1))(weights, x, labels)
    got = jax.jit(spread)(weights, x, labels)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
""")


def test_shards():
    """Gradients of replicated inputs are sums over the devices."""
    run_on_two_devices(SHARDS)


def test_refusals():
    x = jnp.ones((2, 4))
    with pytest.raises(NotImplementedError, match="layer silu is one launch"):
        jax.vmap(nn.silu)(x)
    with pytest.raises(NotImplementedError, match="has no derivative"):
        jax.hessian(lambda x: nn.silu(x).sum())(x)
    with pytest.raises(ValueError, match="stores what goes between layers"):
        nn.rms_norm(x, jnp.ones(4), recipe="coat-flow")
    with pytest.raises(TypeError, match="x of silu is int32"):
        nn.silu(jnp.ones(3, int))
    with pytest.raises(ValueError, match=r"weight of rms_norm is \(3,\) of float32"):
        nn.rms_norm(x, jnp.ones(3))
    with pytest.raises(ValueError, match="they must be alike"):
        nn.swiglu(x, x[1:])
    with pytest.raises(TypeError, match="weight of rms_norm must be an array, got tuple; its "
                                        "arguments are x, weight, eps"):
        nn.rms_norm(x, (4,), jnp.ones(4))
    with pytest.raises(TypeError, match="eps of layer_norm must be a number, got ArrayImpl"):
        nn.layer_norm(x, jnp.ones(4), jnp.ones(4), jnp.ones(4))
    with pytest.raises(TypeError, match="weight of linear must be an array, got int"):
        nn.linear(x, 4)
    with pytest.raises(TypeError, match="x of silu must be an array, got list"):
        nn.silu([1.0])
    with pytest.raises(ValueError, match="coat9"):
        nn.silu(x, recipe="coat9")
