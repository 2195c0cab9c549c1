"""Layers as functions, with what they keep for the backward pass compressed.

>>> import jax.numpy as jnp, tandem.jax.nn
>>> tandem.jax.nn.rms_norm(jnp.ones((4, 512)), jnp.ones(512), recipe="coat").shape
(4, 512)

Each keeps what its recipe says (:func:`tandem.recipes`, or files on ``path``), in the arrays that
jax.vjp keeps. The kernels and their bits are those of :mod:`tandem.torch.nn.functional`.
Recipes that dither, remember scales from step to step or store what goes between layers are
refused. So are jax.vmap, since layers take leading dimensions by themselves, forward-mode and
second derivatives.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from tandem._layers import check_alike, check_vectors
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
    check_vectors("rms_norm", x, weight=weight)
    return run("rms_norm", recipe, path, (eps,), {"x": x}, {"weight": weight})


def add_rms_norm(x: jax.Array, residual: jax.Array, weight: jax.Array, eps: float = _EPSILON, *,
                 recipe: str = "coat", path: Path = ()) -> tuple[jax.Array, jax.Array]:
    """x + residual, and its :func:`rms_norm`: what stands between a transformer's blocks."""
    check_vectors("add_rms_norm", x, weight=weight)
    check_alike("add_rms_norm", x=x, residual=residual)
    return run("add_rms_norm", recipe, path, (eps,), {"x": x, "residual": residual},
               {"weight": weight}, {"residual": "dx"})


def layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array, eps: float = 1e-5, *,
               recipe: str = "coat", path: Path = ()) -> jax.Array:
    """LayerNorm (Ba et al. 2016) over the last dimension; see :func:`rms_norm`."""
    check_vectors("layer_norm", x, weight=weight, bias=bias)
    return run("layer_norm", recipe, path, (eps,), {"x": x}, {"weight": weight, "bias": bias})


def silu(x: jax.Array, *, recipe: str = "coat", path: Path = ()) -> jax.Array:
    """x * sigmoid(x), of an array of any shape."""
    return run("silu", recipe, path, (), {"x": x})


def gelu(x: jax.Array, *, approximate: bool = True, recipe: str = "coat",
         path: Path = ()) -> jax.Array:
    """GELU (Hendrycks and Gimpel 2016): its approximation by tanh, as jax.nn.gelu has it by
    default, or the exact one by erf."""
    return run("gelu_tanh" if approximate else "gelu", recipe, path, (), {"x": x})


def swiglu(gate: jax.Array, up: jax.Array, *, recipe: str = "coat",
           path: Path = ()) -> jax.Array:
    """silu(gate) * up."""
    check_alike("swiglu", gate=gate, up=up)
    return run("swiglu", recipe, path, (), {"gate": gate, "up": up})


def geglu(gate: jax.Array, up: jax.Array, *, approximate: bool = True, recipe: str = "coat",
          path: Path = ()) -> jax.Array:
    """gelu(gate) * up; see :func:`gelu`."""
    check_alike("geglu", gate=gate, up=up)
    return run("geglu_tanh" if approximate else "geglu", recipe, path, (), {
        "gate": gate, "up": up})


def linear(x: jax.Array, weight: jax.Array, bias: jax.Array | None = None, *,
           recipe: str = "coat", path: Path = (), products: str = "bf16") -> jax.Array:
    """x @ weight + bias, which keeps x as the recipe says for linear layers.

    JAX computes the products. In the backward pass that of the weight's gradient reads what is
    kept.

    With ``products="fp8"`` these are products of 8-bit floats: of what is kept of x, of E4M3
    codes of the weight and, in the backward pass, of E5M2 codes of the gradient, with one scale
    for each. The codes are PyTorch's, and so is all that follows the sums of their products.

    Args:
        x: [..., n] in bfloat16, float16 or float32.
        weight: [n, m] in the same type, as jax.nn's initializers and Flax have it. PyTorch's
            weights are transposed.
        bias: [m] in the same type.
        products: "bf16" for products in x's type, or "fp8", which takes a recipe that keeps x
            in E4M3 with an f32 scale for the tensor, such as "coat".
    """
    return _linear.linear(x, weight, bias, recipe, path, products)


def cross_entropy(x: jax.Array, target: jax.Array, ignore_index: int = -100,
                  reduction: str = "mean", *, recipe: str = "coat",
                  path: Path = ()) -> jax.Array:
    """The cross entropy of softmax(x) and a class for each row.

    Losses and their sum are computed in float32 and rounded to x's type at the end.

    Args:
        x: [..., n] in bfloat16, float16 or float32: the logits of at most 2**24 classes.
        target: [...], integers: classes. Where one does not exist, that is an IndexError if the
            classes are known when the function is called; inside of jax.jit the loss is NaN.
        ignore_index: the class of rows that have no loss.
        reduction: "mean", over the rows that have a loss, "sum", or "none".
    """
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
    # The mean of no losses is NaN, but their gradients are zeros.
    count = (is_wrong | (classes >= 0)).sum()
    mean = total / jnp.maximum(count, 1).astype(jnp.float32)
    return jnp.where(count > 0, mean, jnp.nan).astype(x.dtype)


def _classes(x: jax.Array, target: jax.Array, ignore_index: int,
             reduction: str) -> tuple[jax.Array, jax.Array]:
    """Each row's class in f32, -1 for none, and whether there is no such class."""
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
