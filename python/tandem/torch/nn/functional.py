"""Layers as functions that save compressed activations for the backward pass.

>>> import torch, tandem.torch
>>> x, weight = torch.randn(4, 512), torch.ones(512)
>>> tandem.torch.nn.functional.rms_norm(x, weight, recipe="coat").shape
torch.Size([4, 512])

The recipe (:func:`tandem.recipes`, or a file on ``path``) determines what each function saves.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch.nn import functional

from tandem._convert import CPU
from tandem._layers import check_alike, check_vectors
from tandem._matrix_codes import check_kind, check_recipe
from tandem._plane import RoleKind
from tandem.torch.nn import _products, _custom_ops
from tandem.torch.nn._autograd import LayerFunction, first_derivative
from tandem.torch.nn._layer import Layer, compiled
from tandem.torch.nn._saved_inputs import SAVED_INPUTS, LayerState
from tandem.torch.nn._stored import (decoded, executor_of, planes_of, rows_of, storages_of,
                                     tensor_of)


Path = Sequence[str | os.PathLike]

#: PyTorch's default epsilon for norms: the machine epsilon of f32, in which it computes them.
_EPSILON = torch.finfo(torch.float32).eps

#: Excludes a function from torch.compile's graphs, so that it runs eagerly.
_uncompiled = torch.compiler.disable


def _layer(name: str, recipe: str, path: Path, vector_dtype: torch.dtype | None = None,
           keeps: bool = False, **tensors: torch.Tensor) -> Layer:
    """Returns the layer for these tensors on their device. They have the same type and may be
    stored."""
    x = next(iter(tensors.values()))
    return compiled(name, recipe, x.dtype, vector_dtype or x.dtype,
                    tuple(os.fspath(p) for p in path),
                    tuple(sorted(storages_of(tensors).items())), executor_of(x).target, keeps)


def _run(name: str, recipe: str, path: Path, state: dict | None, hypers: tuple,
         tensors: dict[str, torch.Tensor], vectors: dict[str, torch.Tensor] | None = None,
         gradients: dict[str, str] | None = None):
    """Runs a layer and returns its outputs. ``gradients`` has the names of gradients that are
    not "d<input>"."""
    # torch.compile of PyTorch 2.4 supports neither the operator | of dicts nor a default for
    # next().
    inputs = {**tensors, **(vectors or {})}
    names = tuple((n, (gradients or {}).get(n, f"d{n}")) for n in inputs)
    dtypes = [v.dtype for v in (vectors or {}).values()]
    vector_dtype = dtypes[0] if dtypes else None
    if not torch.compiler.is_compiling():
        return _launch(name, recipe, path, state, hypers, tensors, vector_dtype, names, inputs)
    known = _custom_ops.described(name, recipe, tuple(path), *inputs.values(),
                                  vector_dtype=vector_dtype)
    if known:
        return _custom_ops.run_layer(known, hypers, names, *inputs.values())
    return _launch_apart(name, recipe, path, state, hypers, tensors, vector_dtype, names, inputs)


def _launch(name: str, recipe: str, path: Path, state: dict | None, hypers: tuple,
            tensors: dict[str, torch.Tensor], vector_dtype: torch.dtype | None, names: tuple,
            inputs: dict[str, torch.Tensor]):
    """Launches a layer and returns its outputs. It also saves the outputs for the linear layers
    after it if the module's state records that they use them."""
    x, kept = next(iter(tensors.values())), {}
    keeps = isinstance(state, LayerState) and state.offers(executor_of(x).is_capturing)
    layer = _layer(name, recipe, path, vector_dtype, keeps, **tensors)
    results = LayerFunction.apply(layer, hypers, _state(layer, state, x), names, kept,
                                  *inputs.values())
    outputs = results if isinstance(results, tuple) else (results,)
    for role, y in zip(layer.forward.outputs, outputs, strict=True):
        if role in kept:
            storage = layer.forward.storages[f"{role}.kept"]
            state.remember(SAVED_INPUTS.offer(y, storage, kept[role]))
    return results


@_uncompiled
def _launch_apart(name: str, *arguments):
    """Launches a layer outside of torch.compile's graphs, after checking devices."""
    _check_devices(name, **arguments[-1])
    return _launch(name, *arguments)


def _state(layer: Layer, state: dict | None, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Returns a recipe's state between steps, the given one or an initial one."""
    kept = layer.remembered
    if not kept:
        return {}
    if state is None:
        raise ValueError("the recipe keeps scales from step to step; give a dict for them "
                         "as state, the same in each step")
    executor = executor_of(x)
    for plane in kept:
        if plane.name not in state:
            if executor.is_capturing:
                raise RuntimeError(
                    f"a CUDA graph would begin with {plane.name!r} anew whenever it runs; run "
                    "a forward and a backward pass before the capture")
            state[plane.name] = torch.zeros(plane.entries(1, 1), dtype=torch.float32,
                                            device=x.device)
        _check_devices(layer.name, x=x, **{plane.name: state[plane.name]})
    return state


def _check_devices(what: str, **tensors: torch.Tensor | None) -> None:
    """Refuses tensors on devices without kernels, or on a different device from the first
    tensor."""
    if torch.compiler.is_compiling():
        return  # graphs do not contain such tensors
    first = None
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if (executor := executor_of(tensor)) is None:
            raise ValueError(
                f"{name} of {what} is on {tensor.device}, and tandem.torch.nn computes on "
                "CPUs and CUDA devices; move it to one with .to(), or use torch.nn's module")
        if first is None:
            first = name, executor
        elif executor is not first[1]:
            raise ValueError(
                f"{name} of {what} is on {tensor.device}, but {first[0]} is on "
                f"{tensors[first[0]].device}; move one to the other with .to()")


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float | None = None, *,
             recipe: str = "coat", path: Path = (), state: dict | None = None) -> torch.Tensor:
    """:func:`torch.nn.functional.rms_norm` over the last dimension."""
    _check_devices("rms_norm", x=x, weight=weight)
    check_vectors("rms_norm", x, weight=weight)
    eps = _EPSILON if eps is None else eps
    return _run("rms_norm", recipe, path, state, (eps,), {"x": x}, {"weight": weight})


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float | None = None, *,
    recipe: str = "coat", path: Path = (), state: dict | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns x + residual and its :func:`rms_norm`, as between the blocks of a transformer."""
    _check_devices("add_rms_norm", x=x, residual=residual, weight=weight)
    check_vectors("add_rms_norm", x, weight=weight)
    check_alike("add_rms_norm", x=x, residual=residual)
    eps = _EPSILON if eps is None else eps
    return _run("add_rms_norm", recipe, path, state, (eps,), {"x": x, "residual": residual},
                {"weight": weight}, {"residual": "dx"})


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5, *,
               recipe: str = "coat", path: Path = (), state: dict | None = None) -> torch.Tensor:
    """:func:`torch.nn.functional.layer_norm` over the last dimension."""
    _check_devices("layer_norm", x=x, weight=weight, bias=bias)
    check_vectors("layer_norm", x, weight=weight, bias=bias)
    return _run("layer_norm", recipe, path, state, (eps,), {"x": x},
                {"weight": weight, "bias": bias})


def _pointwise(name: str, x: torch.Tensor, recipe: str, path: Path,
               state: dict | None) -> torch.Tensor:
    _check_devices(name, x=x)
    return _run(name, recipe, path, state, (), {"x": x})


def silu(x: torch.Tensor, *, recipe: str = "coat", path: Path = (),
         state: dict | None = None) -> torch.Tensor:
    """:func:`torch.nn.functional.silu`."""
    return _pointwise("silu", x, recipe, path, state)


def _by(name: str, approximate: str) -> str:
    """Returns the name of the layer for GELU or a gated variant, by erf or by tanh."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate is 'none', for erf, or 'tanh', got {approximate!r}")
    return name if approximate == "none" else f"{name}_tanh"


def gelu(x: torch.Tensor, *, approximate: str = "none", recipe: str = "coat", path: Path = (),
         state: dict | None = None) -> torch.Tensor:
    """:func:`torch.nn.functional.gelu`, by erf or approximated by tanh."""
    return _pointwise(_by("gelu", approximate), x, recipe, path, state)


def _gated(name: str, gate: torch.Tensor, up: torch.Tensor, recipe: str, path: Path,
           state: dict | None) -> torch.Tensor:
    _check_gated(name, gate, up)
    return _run(name, recipe, path, state, (), {"gate": gate, "up": up})


def _check_gated(name: str, gate: torch.Tensor, up: torch.Tensor) -> None:
    _check_devices(name, gate=gate, up=up)
    check_alike(name, gate=gate, up=up)


def swiglu(gate: torch.Tensor, up: torch.Tensor, *, recipe: str = "coat", path: Path = (),
           state: dict | None = None) -> torch.Tensor:
    """Returns silu(gate) * up."""
    return _gated("swiglu", gate, up, recipe, path, state)


def geglu(gate: torch.Tensor, up: torch.Tensor, *, approximate: str = "none",
          recipe: str = "coat", path: Path = (), state: dict | None = None) -> torch.Tensor:
    """Returns gelu(gate) * up; see :func:`gelu`."""
    return _gated(_by("geglu", approximate), gate, up, recipe, path, state)


def _classes(x: torch.Tensor, target: torch.Tensor, ignore_index: int) -> torch.Tensor:
    """Returns each row's class in f32, -1 for none."""
    if x.dim() not in (1, 2) or target.shape != x.shape[:-1] or target.is_floating_point():
        raise ValueError(
            f"cross_entropy takes rows and a class for each: x is {tuple(x.shape)}, target "
            f"is {tuple(target.shape)} of {target.dtype}; flatten both, classes last")
    ignored = target == ignore_index
    is_wrong = ~ignored & ((target < 0) | (target >= x.shape[-1]))
    if executor_of(x) is not CPU:
        # The host does not wait; like PyTorch's own check, this is an assertion on the device.
        torch._assert_async(~is_wrong.any(), "cross_entropy: a target is none of the classes, "
                            "nor ignore_index")
    elif is_wrong.any():
        raise IndexError(f"target {int(target[is_wrong][0])} is none of {x.shape[-1]} "
                         f"classes, nor ignore_index={ignore_index}")
    return torch.where(ignored, -1, target).to(torch.float32)


@_uncompiled
def cross_entropy(
    x: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, reduction: str = "mean", *,
    recipe: str = "coat", path: Path = (), state: dict | None = None,
) -> torch.Tensor:
    """:func:`torch.nn.functional.cross_entropy` with a class for each row of ``x``, which has at
    most two dimensions and 2**24 classes.

    Losses and their sum are computed in float32 and rounded to ``x``'s type at the end.
    """
    _check_devices("cross_entropy", x=x, target=target)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    classes = _classes(x, target, ignore_index)
    if x.shape[-1] > 1 << 24:
        raise ValueError(f"cross_entropy knows 2**24 classes, got {x.shape[-1]}")
    numbers = torch.arange(x.shape[-1], dtype=torch.float32, device=x.device)
    losses = _run("cross_entropy", recipe, path, state, (), {"x": x},
                  {"target": classes, "column": numbers})
    if reduction == "none":
        return losses.to(x.dtype)
    total = losses.sum()
    if reduction == "sum":
        return total.to(x.dtype)
    # The mean of no losses is NaN, but the gradients are zeros.
    count = (classes >= 0).sum()
    mean = total / count.clamp(min=1)
    return torch.where(count > 0, mean, torch.nan).to(x.dtype)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *,
           recipe: str = "coat", path: Path = (), state: dict | None = None,
           products: str = "bf16", strict: bool = False, label: str = "") -> torch.Tensor:
    """:func:`torch.nn.functional.linear`, which saves its input under the recipe. Products of
    the same tensor save it once.

    With ``products="fp8"`` the factors are 8-bit floats: the saved ``x``, E4M3 codes of
    ``weight`` and, in the backward pass, E5M2 codes of the gradient. If a GPU does not support
    such products, there is one warning that names the layer by its ``label``, or an error under
    ``strict``. See :class:`Linear`.
    """
    check_kind(products)
    _check_devices("linear", x=x, weight=weight, bias=bias)
    wide = weight, bias
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    if torch.compiler.is_compiling():
        known = products == "bf16" and _custom_ops.described("keep", recipe, tuple(path), x, weight)
        if known and torch.is_grad_enabled() and weight.requires_grad:
            return _custom_ops.TracedLinear.apply(known, x, weight, bias)
        return functional.linear(x, weight, bias) if known else _linear_apart(
            x, *wide, recipe=recipe, path=path, state=state, products=products, strict=strict,
            label=label)
    if products == "fp8" and _is_fp8(recipe, path, x, weight, label, strict):
        return _fp8_linear(x, *wide, recipe, path, state)
    if not torch.is_grad_enabled() or not weight.requires_grad:
        return functional.linear(x, weight, bias)
    layer = _layer("keep", recipe, path, x=x)
    return _LinearFunction.apply(layer, _state(layer, state, x), x, weight, bias)


_linear_apart = _uncompiled(linear)


def _is_fp8(recipe: str, path: Path, x: torch.Tensor, weight: torch.Tensor, label: str,
            strict: bool) -> bool:
    """Returns whether products can be of 8-bit floats, after checking that the recipe suits
    them."""
    check_recipe(_layer("keep", recipe, path, x=x))
    return _products.is_served(x, weight, label, strict)


def _fp8_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, recipe: str,
                path: Path, state: dict | None) -> torch.Tensor:
    layer = _layer("keep", recipe, path, x=x)
    with torch.no_grad():
        planes = SAVED_INPUTS.planes(layer, _state(layer, state, x), x)
    return _products.FP8Linear.apply(_products.Codes.of(planes, rows_of(x)), x, weight, bias)


@_uncompiled
def gated_linear(
    name: str, gate: torch.Tensor, up: torch.Tensor, weight: torch.Tensor,
    bias: torch.Tensor | None = None, *, recipe: str = "coat", path: Path = (),
    state: dict | None = None, products: str = "bf16", strict: bool = False, label: str = "",
) -> torch.Tensor:
    """:func:`linear` of "swiglu", "geglu" or "geglu_tanh", whose product is not saved: the
    backward pass recomputes it from the saved ``gate`` and ``up``."""
    if name not in ("swiglu", "geglu", "geglu_tanh"):
        raise ValueError(
            f"gated_linear is of 'swiglu', 'geglu' or 'geglu_tanh', got {name!r}")
    check_kind(products)
    _check_gated(name, gate, up)
    _check_devices("gated_linear", gate=gate, weight=weight, bias=bias)
    wide = weight, bias
    if torch.is_autocast_enabled(gate.device.type):
        dtype = torch.get_autocast_dtype(gate.device.type)
        gate, up, weight = gate.to(dtype), up.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    kind = _products.PlainProducts
    if products == "fp8" and _is_fp8(recipe, path, gate, weight, label, strict):
        _check_without_history(recipe, path, gate)
        kind, (weight, bias) = _products.FP8Products, wide
    layer = _layer(name, recipe, path, gate=gate, up=up)
    return _GatedLinearFunction.apply(layer, _state(layer, state, gate), kind, gate, up, weight,
                                      bias)


def _check_without_history(recipe: str, path: Path, x: torch.Tensor) -> None:
    """Refuses a recipe in which scales for the inputs of linear layers depend on earlier
    steps."""
    if _layer("keep", recipe, path, x=x).remembered:
        raise ValueError(
            f"recipe {recipe!r} makes scales of earlier steps, and a gated block with "
            "recompute=True and products='fp8' codes its product by the largest magnitude "
            "of this step, twice; take 'te-current' or 'coat', or leave recompute out")


class _LinearFunction(torch.autograd.Function):
    """A matrix product that saves its input under the recipe."""

    @staticmethod
    def forward(ctx, layer: Layer, state: dict, x, weight, bias):
        planes, ctx.shape = SAVED_INPUTS.keep(layer, state, x)
        ctx.save_for_backward(weight, *planes)
        ctx.layer, ctx.has_bias = layer, bias is not None
        return functional.linear(decoded(x), weight, bias)

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        weight, *planes = ctx.saved_tensors
        return None, None, *_custom_ops.linear_gradients(
            decoded(dy), weight, lambda: _restore(ctx.layer, ctx.shape, planes),
            ctx.needs_input_grad[2:], ctx.has_bias)


def _restore(layer: Layer, shape: tuple[int, int], planes: list) -> torch.Tensor:
    step = layer.backward
    if step.storages[layer.restored[0]] == step.storages["value"]:
        return planes[0].view(shape)
    value = step.allocate(shape, planes[0], (RoleKind.OUTPUT,))
    step.run(shape, dict(zip(layer.restored, planes, strict=True)) | value)
    return value["value"].view(shape)


class _GatedLinearFunction(torch.autograd.Function):
    """A gated activation followed by a matrix product, with one of the kinds of products."""

    @staticmethod
    def forward(ctx, layer: Layer, state: dict, products, gate, up, weight, bias):
        ctx.shape, ctx.layer, ctx.products = rows_of(gate), layer, products
        ctx.flows = not (gate.is_leaf or up.is_leaf)
        ctx.dtype, ctx.bias_dtype = gate.dtype, None if bias is None else bias.dtype
        step = layer.forward
        planes = planes_of({"gate": gate, "up": up}) | step.allocate(
            ctx.shape, gate, (RoleKind.OUTPUT, RoleKind.SAVED)) | state
        step.run(ctx.shape, planes)
        ctx.save_for_backward(weight, *(planes[name] for name in layer.restored))
        y = tensor_of(step, "y", planes, gate.shape, gate.dtype)
        return products.output(y, weight, bias)

    @staticmethod
    @first_derivative
    def backward(ctx, dz):
        layer, products, needs = ctx.layer, ctx.products, ctx.needs_input_grad[3:]
        weight, *planes = ctx.saved_tensors
        kept = dict(zip(layer.restored, planes, strict=True))
        factor = products.factor(dz, needs[2])
        shape = (*dz.shape[:-1], ctx.shape[1])
        dgate = dup = dweight = None
        if needs[0] or needs[1]:
            step, dy = layer.backward_of({}, ctx.flows), products.to_input(
                factor, weight, ctx.dtype)
            kept |= step.allocate(ctx.shape, dy, (RoleKind.OUTPUT,))
            step.run(ctx.shape, kept | {"dy": dy})
            dgate, dup = (tensor_of(step, name, kept, shape, ctx.dtype)
                          for name in ("dgate", "dup"))
        if needs[2]:
            kept |= layer.again.allocate(ctx.shape, planes[0], (RoleKind.OUTPUT,))
            layer.again.run(ctx.shape, kept)
            y = tensor_of(layer.again, "y", kept, ctx.shape, ctx.dtype)
            dweight = products.to_weight(factor, y, ctx.dtype).to(weight.dtype)
        dbias = decoded(dz).reshape(-1, dz.shape[-1]).sum(0).to(
            ctx.bias_dtype) if needs[3] else None
        return None, None, None, dgate, dup, dweight, dbias
