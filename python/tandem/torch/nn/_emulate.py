"""Linear layers with products of numbers that are reduced to fewer bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.nn import functional

from tandem.torch._dynamo import uncompiled
from tandem.torch.nn import _modules as compressed
from tandem.torch.nn._autograd import first_derivative
from tandem.torch.nn._masks import Mask, check_options
from tandem.torch.nn._patterns import check_patterns, is_named
from tandem.torch.nn._stored import decoded, executor_of

#: A format for all layers, or a mapping from patterns of names to formats.
Formats = str | None | Mapping[str, str | None]

#: The attribute that holds the masks of a layer.
_NAME = "emulation"
#: The name of the model itself in a report.
_MODEL = "(the model)"


class Masks(NamedTuple):
    """The masks of a linear layer; None for a pass that is not masked."""

    forward: Mask | None
    backward: Mask | None

    @property
    def keeps_masked(self) -> bool:
        """Whether the backward pass multiplies the same masked factors as the forward pass."""
        return (self.forward == self.backward and self.forward is not None
                and self.forward.is_repeatable)

    def __str__(self) -> str:
        forward, backward = (m.format if m else "unmasked" for m in self)
        return forward if forward == backward else f"{forward} forward, {backward} backward"


def _masked(mask: Mask | None, x: torch.Tensor) -> torch.Tensor:
    return mask(x) if mask else decoded(x)


#===------------------------------------------------------------------------===#
# The product
#===------------------------------------------------------------------------===#


class _MaskedProduct(torch.autograd.Function):
    """x @ weight.T: ``apply(masks, x, weight)``, as in figures 4 and 11 of the paper. Masks
    apply to both factors and to the result of each product."""

    @staticmethod
    def forward(ctx, masks: Masks, x, weight):
        ctx.masks = masks
        factors = [_masked(masks.forward, tensor) for tensor in (x, weight)]
        kept = factors if masks.keeps_masked else (decoded(x), weight)
        needs_x, needs_weight = ctx.needs_input_grad[1:]
        ctx.save_for_backward(kept[0] if needs_weight else None, kept[1] if needs_x else None)
        return _masked(masks.forward, functional.linear(*factors))

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        mask = ctx.masks.backward
        factors = [tensor if tensor is None or ctx.masks.keeps_masked
                   else _masked(mask, tensor) for tensor in ctx.saved_tensors]
        x, weight = factors
        dy = _masked(mask, dy)
        dx = None if weight is None else _masked(mask, dy @ weight)
        if x is None:
            return None, dx, None
        rows = dy.reshape(-1, dy.shape[-1])
        return None, dx, _masked(mask, rows.T @ x.reshape(-1, x.shape[-1]))


def masked_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
                  masks: Masks) -> torch.Tensor:
    """Computes :func:`torch.nn.functional.linear` with a masked product, to which the bias is
    added."""
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    if executor_of(x) is None:
        raise ValueError(f"x of a masked linear layer is on {x.device}, and masks are computed "
                         "on CPUs and CUDA devices; move it to one with .to()")
    y = _MaskedProduct.apply(masks, x, weight)
    return y if bias is None else y + bias


#===------------------------------------------------------------------------===#
# Modules
#===------------------------------------------------------------------------===#


class EmulatedLinear(torch.nn.Linear):
    """A :class:`torch.nn.Linear` that :func:`emulate` has masked."""

    @uncompiled
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return masked_linear(x, self.weight, self.bias, getattr(self, _NAME))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {_NAME}={getattr(self, _NAME)}"


def _why_left(module: torch.nn.Module) -> str:
    """Returns why a layer with products cannot be masked; empty if it can be or has no
    products."""
    if type(module) in (torch.nn.Linear, EmulatedLinear):
        return "" if "forward" not in vars(module) else "it has a forward of its own"
    if isinstance(module, compressed.GatedMLP) and module.recompute:
        return "it computes its product with down_proj itself; use recompute=False"
    if isinstance(module, compressed.Linear):
        return ("it keeps its input as a recipe says; masks are for torch.nn.Linear, so "
                "emulate before compressing activations and leave linear layers out")
    if isinstance(module, torch.nn.Linear):
        return f"{type(module).__name__} may compute more than a product"
    if type(module).__name__ == "Conv1D":
        return "it is not a torch.nn.Linear; its weight is transposed"
    return ""


@dataclass
class Emulation:
    """The changes that :func:`emulate` has made to a model."""

    #: The layers whose products are masked, and their formats.
    masked: dict[str, str] = field(default_factory=dict)
    #: The linear layers that are not masked, and the reasons.
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{name}: {what}" for name, what in self.masked.items()]
        return "\n".join(lines + [f"{name}: left, {why}" for name, why in self.left.items()])


def _matches(name: str, patterns: Sequence[str]) -> str | None:
    """Returns the first pattern that matches the name of a layer or of a module that contains
    it."""
    return next((pattern for pattern in patterns if is_named(name, pattern)), None)


class _Plan:
    """The masks of each layer, checked before any layer changes."""

    def __init__(self, model: torch.nn.Module, exclude: Sequence[str]):
        self.left = {name or _MODEL: why for name, module in model.named_modules()
                     if (why := _why_left(module))}
        self.layers = {name or _MODEL: module for name, module in model.named_modules()
                       if type(module) in (torch.nn.Linear, EmulatedLinear)
                       and (name or _MODEL) not in self.left}
        self.model = model
        if not self.layers:
            raise ValueError(
                f"{type(model).__name__} has no torch.nn.Linear whose products could be masked"
                + "".join(f"; {name}: {why}" for name, why in self.left.items()))
        check_patterns(exclude, self.layers, model, "exclude")
        self.left |= {name: f"exclude has {pattern!r}" for name in self.layers
                      if (pattern := _matches(name, exclude))}

    def formats(self, formats: Formats, what: str) -> dict[str, str | None]:
        """Returns the format of each layer that is not excluded."""
        if not isinstance(formats, Mapping):
            return {name: formats for name in self.layers if name not in self.left}
        self._check_mapping(list(formats), what)
        return {name: formats.get(_matches(name, list(formats)))
                for name in self.layers if name not in self.left}

    def _check_mapping(self, patterns: Sequence[str], what: str) -> None:
        """Refuses mappings that are empty or have entries without effect."""
        if not patterns:
            raise ValueError(f"{what} is an empty mapping; give formats by names or patterns of "
                             "layers, or format=None to take masks back")
        check_patterns(patterns, self.layers, self.model, what)
        counts = {_matches(name, patterns) for name in self.layers}
        for pattern in patterns:
            if pattern not in counts:
                raise ValueError(
                    f"{what} has {pattern!r} after patterns that match all of its layers, and the "
                    "first match counts; put it before them")

    def passes(self, format: Formats, given: bool | Formats, what: str) -> dict:
        """Returns the format of each layer in one pass, which may have its own formats."""
        if given is True:
            return self.formats(format, "format")
        return self.formats(None if given is False else given, what)


def _check_effect(plan: _Plan, format: Formats, forward: bool | Formats,
                  backward: bool | Formats) -> None:
    """Refuses calls that request masks but would set none."""
    if format is not None and forward is False and backward is False:
        raise ValueError("forward and backward are both False, so that nothing would be masked; "
                         "leave one of them out, or pass format=None to take masks back")
    asked = [format if given is True else given for given in (forward, backward)]
    if plan.layers.keys() <= plan.left.keys() and any(x not in (None, False) for x in asked):
        raise ValueError("exclude leaves no layer whose products could be masked; shorten it, or "
                         "pass format=None to take masks back")


def _check_masks(masks: Masks, module: torch.nn.Linear) -> None:
    """Refuses formats that do not exist or that the layer's types cannot represent."""
    for mask in masks:
        if mask is not None:
            mask.storage(module.weight.dtype)


def _planned(model: torch.nn.Module, format: Formats, forward: bool | Formats,
             backward: bool | Formats, exclude: Sequence[str], rounding: str,
             clamp: str, bias: str) -> tuple[_Plan, dict[str, Masks]]:
    """Returns the checked layers of a model, and the masks of those to be masked."""
    check_options(rounding, clamp, bias)
    plan = _Plan(model, exclude)
    _check_effect(plan, format, forward, backward)
    passes = (plan.passes(format, forward, "forward"), plan.passes(format, backward, "backward"))
    masks = {name: Masks(*(None if (wanted := formats[name]) is None
                           else Mask(wanted, rounding, clamp, bias) for formats in passes))
             for name in passes[0]}
    for name, wanted in masks.items():
        _check_masks(wanted, plan.layers[name])
    return plan, masks


def check_emulation(model: torch.nn.Module, format: Formats, *, forward: bool | Formats = True,
                    backward: bool | Formats = True, exclude: Sequence[str] = (),
                    rounding: str = "toward_zero", clamp: str = "both",
                    bias: str = "centred") -> None:
    """Checks arguments as :func:`emulate` does."""
    _planned(model, format, forward, backward, exclude, rounding, clamp, bias)


def _set_masks(module: torch.nn.Linear, masks: Masks) -> None:
    if masks.forward or masks.backward:
        module.__class__ = EmulatedLinear
        setattr(module, _NAME, masks)
    elif isinstance(module, EmulatedLinear):
        delattr(module, _NAME)
        module.__class__ = torch.nn.Linear


def emulate(model: torch.nn.Module, format: Formats, *, forward: bool | Formats = True,
            backward: bool | Formats = True, exclude: Sequence[str] = (),
            rounding: str = "toward_zero", clamp: str = "both",
            bias: str = "centred") -> Emulation:
    """Makes a model's linear layers compute products as if floats had fewer bits.

    Both factors and the result of each product of a :class:`torch.nn.Linear` are masked: in the
    forward pass, and in both products of the backward pass. Sums inside a product are PyTorch's,
    in float32. Weights, the bias, the residual path, norms, RoPE and attention are unchanged
    ("To FP8 and Back Again", section 3.2, figures 3, 4 and 11).

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    >>> print(tandem.torch.emulate(model, "E8M3", exclude=["1"]))
    0: E8M3
    1: left, exclude has '1'

    Args:
        model: the model, which is changed in place; parameters stay the same objects.
        format: "ExMy" for x exponent and y mantissa bits, 2 to 8 and 0 to 23; or a mapping from
            modules' names or :mod:`fnmatch` patterns to formats, of which the first match
            applies, with None for no mask. None for all layers undoes earlier calls.
        forward: whether the forward pass is masked, or separate formats for it.
        backward: the same for the backward pass.
        exclude: names of modules, or patterns, such as "lm_head" or "layers.0.*". All layers
            inside a matching module are excluded.
        rounding: how mantissa bits are dropped: "toward_zero" masks them as in the paper,
            "nearest" rounds half to even, and "stochastic" rounds at random.
        clamp: which magnitudes beyond the range of x exponent bits are clamped: "inside" raises
            nonzero magnitudes below the smallest normal number to it, "outside" lowers those
            above the largest number to it, "both", or "none".
        bias: which exponents x bits stand for. "centred" has IEEE 754's bias, 2^(x-1) - 1: E7
            has the exponents -62 to 63. "kept" has f32's, 127, of whose field the top 8 - x
            bits are dropped: the exponents -126 to 2^x - 128, all of them numbers, with f32's
            subnormals below. So E7M7 holds magnitudes below 2, and "inside" clamps nothing.
            Magnitudes are clamped before mantissa bits are dropped. The paper does not state
            its bias; its figure 10 fits "kept" (docs/Papers.md). With 8 bits both are the same.

    Returns:
        A report on which layers are masked, and which are not and why.

    Raises:
        ValueError: a format or option does not exist, a pattern matches no layer or only layers
            that earlier ones match, no layer would be masked, or the model has no linear layers.
            The model is then unchanged.
        TypeError: masks do not support the type of a weight, a format is not a string, or
            ``exclude`` is not a list of names.
    """
    plan, masks = _planned(model, format, forward, backward, exclude, rounding, clamp, bias)
    done = Emulation(left=plan.left)
    for name, module in plan.layers.items():
        _set_masks(module, masks.get(name, Masks(None, None)))
        if isinstance(module, EmulatedLinear):
            done.masked[name] = str(masks[name])
    return done
