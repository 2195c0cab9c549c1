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
