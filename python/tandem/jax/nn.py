"""Layers as functions that save compressed activations for the backward pass.

>>> import jax.numpy as jnp, tandem.jax.nn
>>> tandem.jax.nn.rms_norm(jnp.ones((4, 512)), jnp.ones(512), recipe="coat").shape
(4, 512)

The recipe (:func:`tandem.recipes`, or a file on ``path``) determines which arrays jax.vjp saves
and in which format. The kernels and their bits are those of :mod:`tandem.torch.nn.functional`.
Recipes that dither, keep scales between steps or store tensors between layers are refused, as
are forward-mode and second derivatives, and jax.vmap, because layers accept leading dimensions.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from tandem._layers import check_alike, check_arrays, check_number, check_vectors
from tandem.jax import _linear
from tandem.jax._layer import run

Path = Sequence[str | os.PathLike]

#: The default epsilon of PyTorch's RMSNorm: the machine epsilon of f32.
_EPSILON = float(jnp.finfo(jnp.float32).eps)


def rms_norm(x: jax.Array, weight: jax.Array, eps: float = _EPSILON, *, recipe: str = "coat",
             path: Path = ()) -> jax.Array:
    """RMSNorm (Zhang and Sennrich 2019) over the last dimension.

    Args:
        x: [..., n] in bfloat16, float16 or float32.
        weight: [n], in one of these types.
        eps: added to the mean of squares.
    """
    check_arrays(rms_norm, x=x, weight=weight)
    check_number(rms_norm, eps=eps)
    check_vectors("rms_norm", x, weight=weight)
    return run("rms_norm", recipe, path, (eps,), {"x": x}, {"weight": weight})


def add_rms_norm(x: jax.Array, residual: jax.Array, weight: jax.Array, eps: float = _EPSILON, *,
                 recipe: str = "coat", path: Path = ()) -> tuple[jax.Array, jax.Array]:
    """Returns x + residual and its :func:`rms_norm`, as between the blocks of a transformer."""
    check_arrays(add_rms_norm, x=x, residual=residual, weight=weight)
    check_number(add_rms_norm, eps=eps)
    check_vectors("add_rms_norm", x, weight=weight)
    check_alike("add_rms_norm", x=x, residual=residual)
    return run("add_rms_norm", recipe, path, (eps,), {"x": x, "residual": residual},
               {"weight": weight}, {"residual": "dx"})


def layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array, eps: float = 1e-5, *,
               recipe: str = "coat", path: Path = ()) -> jax.Array:
    """LayerNorm (Ba et al. 2016) over the last dimension; see :func:`rms_norm`."""
    check_arrays(layer_norm, x=x, weight=weight, bias=bias)
    check_number(layer_norm, eps=eps)
    check_vectors("layer_norm", x, weight=weight, bias=bias)
    return run("layer_norm", recipe, path, (eps,), {"x": x}, {"weight": weight, "bias": bias})


def silu(x: jax.Array, *, recipe: str = "coat", path: Path = ()) -> jax.Array:
    """Returns x * sigmoid(x), for an array of any shape."""
    check_arrays(silu, x=x)
    return run("silu", recipe, path, (), {"x": x})


def gelu(x: jax.Array, *, approximate: bool = True, recipe: str = "coat",
         path: Path = ()) -> jax.Array:
    """GELU (Hendrycks and Gimpel 2016): the tanh approximation, which is jax.nn.gelu's default,
    or the exact one by erf."""
    check_arrays(gelu, x=x)
    return run("gelu_tanh" if approximate else "gelu", recipe, path, (), {"x": x})


def swiglu(gate: jax.Array, up: jax.Array, *, recipe: str = "coat",
           path: Path = ()) -> jax.Array:
    """Returns silu(gate) * up."""
    check_arrays(swiglu, gate=gate, up=up)
    check_alike("swiglu", gate=gate, up=up)
    return run("swiglu", recipe, path, (), {"gate": gate, "up": up})


def geglu(gate: jax.Array, up: jax.Array, *, approximate: bool = True, recipe: str = "coat",
          path: Path = ()) -> jax.Array:
    """Returns gelu(gate) * up; see :func:`gelu`."""
    check_arrays(geglu, gate=gate, up=up)
    check_alike("geglu", gate=gate, up=up)
    return run("geglu_tanh" if approximate else "geglu", recipe, path, (), {
        "gate": gate, "up": up})


def linear(x: jax.Array, weight: jax.Array, bias: jax.Array | None = None, *,
           recipe: str = "coat", path: Path = (), products: str = "bf16") -> jax.Array:
    """Returns x @ weight + bias, and saves x under the recipe for linear layers.

    JAX computes the products. The gradient of the weight is computed from the saved x.

    With ``products="fp8"`` the factors are 8-bit floats with one scale each: the saved x, E4M3
    codes of the weight and, in the backward pass, E5M2 codes of the gradient. The codes, and all
    operations after the sums of products, are the same as in PyTorch.

    Args:
        x: [..., n] in bfloat16, float16 or float32.
        weight: [n, m] in the same type, as in jax.nn's initializers and Flax. PyTorch's weights
            are transposed.
        bias: [m] in the same type.
        products: "bf16" for products in x's type, or "fp8", which needs a recipe that saves x in
            E4M3 with one f32 scale for the tensor, such as "coat".
    """
    check_arrays(linear, x=x, weight=weight, **({} if bias is None else {"bias": bias}))
    return _linear.linear(x, weight, bias, recipe, path, products)


def cross_entropy(x: jax.Array, target: jax.Array, ignore_index: int = -100,
                  reduction: str = "mean", *, recipe: str = "coat",
                  path: Path = ()) -> jax.Array:
    """Returns the cross entropy of softmax(x) and a class for each row.

    Losses and their sum are computed in float32 and rounded to x's type at the end.

    Args:
        x: [..., n] in bfloat16, float16 or float32: the logits of at most 2**24 classes.
        target: [...], integers: the classes. An invalid class is an IndexError if the classes
            are known when the function is called; inside jax.jit the loss is NaN.
        ignore_index: the class of rows without a loss.
        reduction: "mean" over the rows with a loss, "sum", or "none".
    """
    check_arrays(cross_entropy, x=x)
    classes, is_wrong = _classes(x, target, ignore_index, reduction)
    numbers = jnp.arange(x.shape[-1], dtype=jnp.float32)
    losses = run("cross_entropy", recipe, path, (), {"x": x},
                 {"target": classes, "column": numbers})
    losses = losses * jnp.where(is_wrong, jnp.nan, 1)
    if reduction == "none":
        return losses.astype(x.dtype)
    total = losses.sum()
    if reduction == "sum":
        return total.astype(x.dtype)
    # The mean of no losses is NaN, but the gradients are zeros.
    count = (is_wrong | (classes >= 0)).sum()
    mean = total / jnp.maximum(count, 1).astype(jnp.float32)
    return jnp.where(count > 0, mean, jnp.nan).astype(x.dtype)


def _classes(x: jax.Array, target: jax.Array, ignore_index: int,
             reduction: str) -> tuple[jax.Array, jax.Array]:
    """Returns each row's class in f32, -1 for none, and whether the class is invalid."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    target = jnp.asarray(target)
    if not x.ndim or target.shape != x.shape[:-1] or not jnp.issubdtype(target.dtype, jnp.integer):
        raise ValueError(f"cross_entropy takes rows and a class for each: x is {x.shape}, target "
                         f"is {target.shape} of {target.dtype}; classes are the last dimension of "
                         "x, and target has integers for the others")
    if x.shape[-1] > 1 << 24:
        raise ValueError(f"cross_entropy knows 2**24 classes, got {x.shape[-1]}")
    is_ignored = target == ignore_index
    is_wrong = ~is_ignored & ((target < 0) | (target >= x.shape[-1]))
    if not isinstance(is_wrong, jax.core.Tracer) and is_wrong.any():
        raise IndexError(f"target {int(target[is_wrong][0])} is none of {x.shape[-1]} classes, nor "
                         f"ignore_index={ignore_index}")
    return jnp.where(is_ignored | is_wrong, -1, target).astype(jnp.float32), is_wrong
