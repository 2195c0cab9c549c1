"""A linear layer whose input is saved in compressed form."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

import jax

from tandem._layers import Layer
from tandem._matrix_codes import check_kind, check_recipe
from tandem.jax._fp8_linear import function_of
from tandem.jax._launch import summed_like, varying_axes
from tandem.jax._layer import check_types, compiled, run_pass
from tandem.jax._rules import TYPES


def linear(x: jax.Array, weight: jax.Array, bias: jax.Array | None, recipe: str,
           path: Sequence[str | os.PathLike], products: str) -> jax.Array:
    """Returns x @ weight + bias."""
    check_kind(products)
    factors = [x, weight] if bias is None else [x, weight, bias]
    _check(*factors)
    dtype = TYPES[x.dtype]
    layer = compiled("keep", recipe, dtype, dtype, tuple(map(os.fspath, path)))
    function = _function
    if products == "fp8":
        check_recipe(layer)
        # Products of empty matrices are the same in all types.
        function = function_of if x.size and weight.size else _function
    return function(layer, tuple(map(varying_axes, factors)))(*factors)


def _check(x: jax.Array, weight: jax.Array, *bias: jax.Array) -> None:
    """Refuses factors whose types or shapes do not match."""
    check_types("linear", x=x, weight=weight, **({"bias": bias[0]} if bias else {}))
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[0]:
        raise ValueError(f"x of linear is {x.shape} and weight {weight.shape}; weight has a row for "
                         "each input and a column for each output, and x as many columns as "
                         "weight has rows: PyTorch's weights are transposed, weight.T")
    if bias and bias[0].shape != weight.shape[1:]:
        raise ValueError(f"bias of linear is {bias[0].shape}, but weight {weight.shape} has "
                         f"{weight.shape[1]} outputs")
    for name, value in zip(("weight", "bias"), (weight, *bias)):
        if value.dtype != x.dtype:
            raise TypeError(f"{name} of linear is {value.dtype}, but x {x.dtype}; convert one "
                            f"of them: {name}.astype(x.dtype)")


@functools.lru_cache(maxsize=None)
def _function(layer: Layer, axes: tuple[frozenset[str], ...]):
    """Returns the product as a function whose derivative reads the saved input. Factors vary
    along these mesh axes."""

    def product(x, weight, *bias):
        y = x @ weight
        return y + bias[0] if bias else y

    def forward(x, weight, *bias):
        planes = {"x": x} | run_pass("linear", layer.forward, x.shape, {"x": x})
        kept = {name: planes[name] for name in layer.restored}
        return product(x, weight, *bias), (kept, weight, bool(bias))

    def backward(residuals, dy):
        kept, weight, has_bias = residuals
        shape = *dy.shape[:-1], weight.shape[0]
        x = run_pass("linear", layer.backward, shape, kept)["value"].reshape(-1, shape[-1])
        rows = dy.reshape(-1, dy.shape[-1])
        gradients = [(rows @ weight.T).reshape(shape), x.T @ rows]
        gradients += [rows.sum(0)] if has_bias else []
        return tuple(map(summed_like, gradients, axes))

    function = jax.custom_vjp(product)
    function.defvjp(forward, backward)
    return function
