"""Replacements for PyTorch's modules with the same parameters, so that checkpoints load
unchanged."""

from __future__ import annotations

import os

import torch

from tandem._matrix_codes import check_kind
from tandem.torch.nn import functional as F
from tandem.torch.nn._saved_inputs import LayerState
from tandem.torch.nn.functional import Path, _by


class _Compressed:
    """The base class of modules with a recipe."""

    def _set_recipe(self, recipe: str, path: Path) -> None:
        self.recipe, self.path = recipe, tuple(os.fspath(p) for p in path)
        #: The recipe's state between steps, by plane, such as the scales of delayed scaling.
        self._kept = LayerState()

    def _apply(self, fn, recurse=True):
        """Moves the recipe's state together with the parameters, without changing its type."""
        result = super()._apply(fn, recurse)
        for name, kept in list(self._kept.items()):
            device = fn(kept).device
            if "meta" in (device.type, kept.device.type):
                del self._kept[name]  # there are no values to move
            else:
                self._kept[name] = kept.to(device)
        return result

    @property
    def _options(self) -> dict:
        return {"recipe": self.recipe, "path": self.path, "state": self._kept}


class RMSNorm(_Compressed, torch.nn.RMSNorm):
    """:class:`torch.nn.RMSNorm` over the last dimension."""

    def __init__(self, normalized_shape, eps: float | None = None,
                 elementwise_affine: bool = True, device=None, dtype=None, *,
                 recipe: str = "coat", path: Path = ()):
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        F.check_normalized_shape("RMSNorm", self.normalized_shape)
        self._set_recipe(recipe, path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps, **self._options)


class LayerNorm(_Compressed, torch.nn.LayerNorm):
    """:class:`torch.nn.LayerNorm` over the last dimension."""

    def __init__(self, normalized_shape, eps: float = 1e-5, elementwise_affine: bool = True,
                 bias: bool = True, device=None, dtype=None, *, recipe: str = "coat",
                 path: Path = ()):
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        F.check_normalized_shape("LayerNorm", self.normalized_shape)
        self._set_recipe(recipe, path)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps,
                            **self._options)


class SiLU(_Compressed, torch.nn.Module):
    """:class:`torch.nn.SiLU`, which does not write over its input."""

    def __init__(self, inplace: bool = False, *, recipe: str = "coat", path: Path = ()):
        super().__init__()
        F.check_inplace(inplace)
        self._set_recipe(recipe, path)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.silu(input, **self._options)


class GELU(_Compressed, torch.nn.Module):
    """:class:`torch.nn.GELU`, by erf or approximated by tanh."""

    def __init__(self, approximate: str = "none", *, recipe: str = "coat", path: Path = ()):
        super().__init__()
        self._set_recipe(recipe, path)
        _by("gelu", approximate)
        self.approximate = approximate

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.gelu(input, approximate=self.approximate, **self._options)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class CrossEntropyLoss(_Compressed, torch.nn.Module):
    """:class:`torch.nn.CrossEntropyLoss` of a class for each row, without weights of classes or
    smoothed labels."""

    def __init__(self, weight: None = None, size_average: None = None, ignore_index: int = -100,
                 reduce: None = None, reduction: str = "mean", label_smoothing: float = 0.0, *,
                 recipe: str = "coat", path: Path = ()):
        super().__init__()
        F.check_loss(weight, size_average, reduce, reduction, label_smoothing)
        self._set_recipe(recipe, path)
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(input, target, ignore_index=self.ignore_index,
                               reduction=self.reduction, **self._options)


class SwiGLU(_Compressed, torch.nn.Module):
    """Computes silu(gate) * up."""

    def __init__(self, *, recipe: str = "coat", path: Path = ()):
        super().__init__()
        self._set_recipe(recipe, path)

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.swiglu(gate, up, **self._options)

    def then_linear(self, gate: torch.Tensor, up: torch.Tensor,
                    linear: torch.nn.Linear) -> torch.Tensor:
        """Returns linear(self(gate, up)); see :func:`functional.gated_linear`."""
        return F.gated_linear("swiglu", gate, up, linear.weight, linear.bias, **self._options,
                              **_products_of(linear))


class GeGLU(_Compressed, torch.nn.Module):
    """Computes gelu(gate) * up, with :class:`torch.nn.GELU` by erf or approximated by tanh."""

    def __init__(self, approximate: str = "none", *, recipe: str = "coat", path: Path = ()):
        super().__init__()
        self._set_recipe(recipe, path)
        _by("geglu", approximate)
        self.approximate = approximate

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.geglu(gate, up, approximate=self.approximate, **self._options)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"

    def then_linear(self, gate: torch.Tensor, up: torch.Tensor,
                    linear: torch.nn.Linear) -> torch.Tensor:
        """Returns linear(self(gate, up)); see :func:`functional.gated_linear`."""
        return F.gated_linear(_by("geglu", self.approximate), gate, up, linear.weight,
                              linear.bias, **self._options, **_products_of(linear))


class Linear(_Compressed, torch.nn.Linear):
    """:class:`torch.nn.Linear`, with PyTorch's own matrix products by default.

    Modules with the same input tensor, such as the query, key and value projections, save it
    once. Under autocast it computes in autocast's type.

    With ``products="fp8"``, products are of 8-bit floats. A CPU computes them in f32 from the
    decoded codes, for all sizes and types. GPUs from sm_89 on compute them for bfloat16 tensors
    (or under autocast to it) if the number of rows, ``in_features`` and ``out_features`` are
    multiples of 16. Otherwise products are PyTorch's own, with one warning that names the layer
    and the reason, or with an error under ``strict``. The recipe must save inputs of linear
    layers in E4M3 with one scale for the tensor.

    With ``hadamard=True`` it saves the Hadamard transform of each 16 neighbouring inputs, so that an
    outlier does not set the scale of its group (docs/Layers.md). ``in_features`` must be a
    multiple of 16.
    """

    products, strict, hadamard = "bf16", False, False
    #: The name in a model, for warnings.
    _label = ""

    def __init__(self, in_features: int, out_features: int, bias: bool = True,
                 device=None, dtype=None, *, recipe: str = "coat",
                 path: Path = (), products: str = "bf16", strict: bool = False,
                 hadamard: bool = False):
        super().__init__(in_features, out_features, bias, device, dtype)
        self._set_recipe(recipe, path)
        check_kind(products)
        F.check_hadamard(hadamard, products, in_features)
        self.products, self.strict, self.hadamard = products, strict, hadamard

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight, self.bias, **self._options, **_products_of(self),
                        hadamard=self.hadamard)


def _products_of(linear: torch.nn.Linear) -> dict:
    """Returns the options for the products of a module, which may be PyTorch's."""
    if not isinstance(linear, Linear):
        return {}
    return {"products": linear.products, "strict": linear.strict, "label": linear._label}


class GatedMLP(torch.nn.Module):
    """Computes down_proj(act(gate_proj(x)) * up_proj(x)), as in Hugging Face's Llama.

    With ``recompute`` the product is not saved but recomputed in the backward pass.
    """

    def __init__(self, gate_proj: torch.nn.Module, up_proj: torch.nn.Module,
                 down_proj: torch.nn.Module, act: torch.nn.Module, *,
                 recompute: bool = False):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = gate_proj, up_proj, down_proj
        self.act, self.recompute = act, recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        if self.recompute:
            return self.act.then_linear(gate, up, self.down_proj)
        return self.down_proj(self.act(gate, up))
