"""A linear layer with products of 8-bit floats."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tandem._kernel import Kernel
from tandem._layers import Layer, PassPlanes
from tandem._matrix_codes import quantizer
from tandem.jax._launch import summed_like
from tandem.jax._layer import run_pass
from tandem.jax._rules import TYPES


class Codes(NamedTuple):
    """A matrix in 8-bit codes and its scale."""

    rows: jax.Array
    scale: jax.Array

    @staticmethod
    def of(planes: Mapping[str, jax.Array], shape: tuple[int, int]) -> Codes:
        """Returns the codes from the planes that a kernel has written."""
        return Codes(planes["kept"].reshape(shape), planes["kept.scale"])

    @property
    def transposed(self) -> Codes:
        return Codes(self.rows.T, self.scale)


def quantize(x: jax.Array, code: str) -> Codes:
    """Returns the codes of a matrix, with the scale of its largest magnitude."""
    step = _pass(quantizer(code, False, TYPES[jnp.dtype(x.dtype)], "cpu"))
    return Codes.of(run_pass("linear", step, x.shape, {"x": x}), x.shape)


@functools.lru_cache(maxsize=None)
def _pass(kernel: Kernel) -> PassPlanes:
    return PassPlanes(kernel)


def multiply(x: Codes, w: Codes, dtype: jnp.dtype, bias: jax.Array | None = None) -> jax.Array:
    """Returns x @ w + bias in a type. Products of two codes are exact in f32. After their sums,
    the product of the scales is rounded, then the product with it, then the sum with the
    bias."""
    values = (jax.lax.convert_element_type(codes.rows, jnp.float32) for codes in (x, w))
    sums = jnp.matmul(*values, precision=jax.lax.Precision.HIGHEST)
    scale = _rounded(x.scale * w.scale, x.scale)
    y = _rounded(sums * scale, x.scale)
    return (y if bias is None else y + bias.astype(jnp.float32)).astype(dtype)


def _rounded(product: jax.Array, scale: jax.Array) -> jax.Array:
    """Returns a product that is rounded before anything is added to it. XLA's CPU compiler would
    otherwise fuse the operations, even across lax.optimization_barrier. Combining the bits with
    the sign bit of the scale, which is 0, prevents this."""
    bits, sign = (jax.lax.bitcast_convert_type(x, jnp.uint32) for x in (product, scale))
    return jax.lax.bitcast_convert_type(bits | sign >> 31, jnp.float32)


@functools.lru_cache(maxsize=None)
def function_of(layer: Layer, axes: tuple[frozenset[str], ...]):
    """Returns the layer as a function whose derivative multiplies the saved codes of x and the
    weight. Factors vary along these mesh axes."""

    def forward(x, weight, *bias):
        planes = run_pass("linear", layer.forward, x.shape, {"x": x})
        kept, codes = Codes.of(planes, (-1, weight.shape[0])), quantize(weight, "f8E4M3FN")
        y = multiply(kept, codes, x.dtype, *bias).reshape(*x.shape[:-1], weight.shape[1])
        return y, (kept, codes, bool(bias))

    def backward(residuals, dy):
        kept, codes, has_bias = residuals
        rows = dy.reshape(-1, dy.shape[-1])
        grad = quantize(rows, "f8E5M2")
        dx = multiply(grad, codes.transposed, dy.dtype)
        gradients = [dx.reshape(*dy.shape[:-1], dx.shape[-1]),
                     multiply(kept.transposed, grad, dy.dtype)]
        gradients += [rows.sum(0)] if has_bias else []
        return tuple(map(summed_like, gradients, axes))

    function = jax.custom_vjp(lambda *factors: forward(*factors)[0])
    function.defvjp(forward, backward)
    return function
