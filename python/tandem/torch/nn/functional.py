"""Layers as functions that save compressed activations for the backward pass.

>>> import torch, tandem.torch
>>> x, weight = torch.randn(4, 512), torch.ones(512)
>>> tandem.torch.nn.functional.rms_norm(x, (512,), weight, recipe="coat").shape
torch.Size([4, 512])

The recipe (:func:`tandem.recipes`, or a file on ``path``) determines what each function saves.
Functions that :mod:`torch.nn.functional` has too take its arguments, and these after them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from tandem._convert import CPU
from tandem._layers import check_alike, check_arrays, check_number, check_vectors
from tandem._matrix_codes import check_kind, check_recipe
from tandem._plane import RoleKind
from tandem.torch._dynamo import uncompiled
from tandem.torch.nn import _products, _custom_ops
from tandem.torch.nn._autograd import LayerFunction, first_derivative
from tandem.torch.nn._history import NO_HISTORY, History, Mode, mode
from tandem.torch.nn._layer import Layer, compiled
from tandem.torch.nn._saved_inputs import MIXED, SAVED_INPUTS, LayerState, hadamard
from tandem.torch.nn._stored import (decoded, executor_of, planes_of, rows_of, storages_of,
                                     tensor_of)


Path = Sequence[str | os.PathLike]

#: PyTorch's default epsilon for norms: the machine epsilon of f32, in which it computes them.
_EPSILON = torch.finfo(torch.float32).eps


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
    results = LayerFunction.apply(layer, hypers, _history(layer, state, x), names, kept,
                                  *inputs.values())
    outputs = results if isinstance(results, tuple) else (results,)
    for role, y in zip(layer.forward.outputs, outputs, strict=True):
        if role in kept:
            storage = layer.forward.storages[f"{role}.kept"]
            state.remember(SAVED_INPUTS.offer(y, storage, kept[role]))
    return results


@uncompiled
def _launch_apart(name: str, *arguments):
    """Launches a layer outside of torch.compile's graphs, after checking devices."""
    _check_devices(name, **arguments[-1])
    return _launch(name, *arguments)


def _history(layer: Layer, state: dict | None, x: torch.Tensor) -> History:
    """Returns a recipe's state between steps in this pass: the given one or an initial one."""
    kept = {plane.name: plane for plane in layer.remembered}
    if not kept:
        return NO_HISTORY
    if state is None:
        raise ValueError("the recipe keeps scales from step to step; give a dict for them "
                         "as state, the same in each step")

    def initial(name: str) -> torch.Tensor:
        if executor_of(x).is_capturing:
            raise RuntimeError(
                f"a CUDA graph would begin with {name!r} anew whenever it runs; run a forward "
                "and a backward pass before the capture")
        return torch.zeros(kept[name].entries(1, 1), dtype=torch.float32, device=x.device)

    for name in kept:
        _check_devices(layer.name, x=x, **({name: state[name]} if name in state else {}))
    return History(state, list(kept), initial)


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


def _check_tensors(function: Callable, **tensors: torch.Tensor | None) -> None:
    """Refuses arguments of a function that are not tensors, or whose devices do not suit."""
    for name, tensor in tensors.items():
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            check_arrays(function, "a tensor", **{name: tensor})
    _check_devices(function.__name__, **tensors)


#===------------------------------------------------------------------------===#
# Norms
#===------------------------------------------------------------------------===#


def check_normalized_shape(what: str, normalized_shape: Sequence[int]) -> None:
    """Refuses shapes of more than the last dimension."""
    if not isinstance(normalized_shape, Sequence):
        raise TypeError(
            f"normalized_shape of {what} must be a tuple such as input.shape[-1:], got "
            f"{type(normalized_shape).__name__}; the arguments are those of PyTorch")
    if len(normalized_shape) != 1:
        raise ValueError(
            f"{what} normalizes the last dimension only, got normalized_shape="
            f"{tuple(normalized_shape)}; flatten the dimensions of the input and of the weight, "
            "or use torch.nn's")


def _vectors(function: Callable, input: torch.Tensor, normalized_shape: Sequence[int],
             eps: float, **vectors: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """Returns a norm's weight and bias, those that are None as ones and zeros, after checking the
    arguments."""
    what, shape = function.__name__, input.shape[-1:]
    if not isinstance(normalized_shape, tuple) or normalized_shape != shape:
        check_normalized_shape(what, normalized_shape)
        if tuple(normalized_shape) != tuple(shape):
            raise ValueError(
                f"normalized_shape of {what} is {tuple(normalized_shape)}, but the input is "
                f"{tuple(input.shape)}; it must be input.shape[-1:]")
    if not torch.compiler.is_compiling():
        check_number(function, eps=eps)
    dtype = next((v.dtype for v in vectors.values() if v is not None), input.dtype)
    for name, vector in vectors.items():
        if vector is None:
            make = torch.ones if name == "weight" else torch.zeros
            vectors[name] = make(shape, dtype=dtype, device=input.device)
    check_vectors(what, input, **vectors)
    return vectors


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None,
    eps: float | None = None, *, recipe: str = "coat", path: Path = (), state: dict | None = None,
) -> torch.Tensor:
    """:func:`torch.nn.functional.rms_norm` over the last dimension."""
    _check_tensors(rms_norm, input=input, weight=weight)
    eps = _EPSILON if eps is None else eps
    vectors = _vectors(rms_norm, input, normalized_shape, eps, weight=weight)
    return _run("rms_norm", recipe, path, state, (eps,), {"x": input}, vectors)


def add_rms_norm(
    input: torch.Tensor, residual: torch.Tensor, normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None, eps: float | None = None, *, recipe: str = "coat",
    path: Path = (), state: dict | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns input + residual and its :func:`rms_norm`, as between the blocks of a
    transformer."""
    _check_tensors(add_rms_norm, input=input, residual=residual, weight=weight)
    eps = _EPSILON if eps is None else eps
    vectors = _vectors(add_rms_norm, input, normalized_shape, eps, weight=weight)
    check_alike("add_rms_norm", input=input, residual=residual)
    return _run("add_rms_norm", recipe, path, state, (eps,), {"x": input, "residual": residual},
                vectors, {"residual": "dx"})


def layer_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, eps: float = 1e-5, *, recipe: str = "coat",
    path: Path = (), state: dict | None = None,
) -> torch.Tensor:
    """:func:`torch.nn.functional.layer_norm` over the last dimension."""
    _check_tensors(layer_norm, input=input, weight=weight, bias=bias)
    vectors = _vectors(layer_norm, input, normalized_shape, eps, weight=weight, bias=bias)
    return _run("layer_norm", recipe, path, state, (eps,), {"x": input}, vectors)


#===------------------------------------------------------------------------===#
# Activations
#===------------------------------------------------------------------------===#


def check_inplace(inplace: bool) -> None:
    """Refuses to write an activation's output over its input."""
    if inplace:
        raise ValueError("inplace=True would write over the input, which silu saves for the "
                         "backward pass as it is; leave inplace out")


def silu(input: torch.Tensor, inplace: bool = False, *, recipe: str = "coat", path: Path = (),
         state: dict | None = None) -> torch.Tensor:
    """:func:`torch.nn.functional.silu`, which does not write over its input."""
    _check_tensors(silu, input=input)
    check_inplace(inplace)
    return _run("silu", recipe, path, state, (), {"x": input})


def _by(name: str, approximate: str) -> str:
    """Returns the name of the layer for GELU or a gated variant, by erf or by tanh."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate is 'none', for erf, or 'tanh', got {approximate!r}")
    return name if approximate == "none" else f"{name}_tanh"


def gelu(input: torch.Tensor, *, approximate: str = "none", recipe: str = "coat",
         path: Path = (), state: dict | None = None) -> torch.Tensor:
    """:func:`torch.nn.functional.gelu`, by erf or approximated by tanh."""
    _check_tensors(gelu, input=input)
    return _run(_by("gelu", approximate), recipe, path, state, (), {"x": input})


def _check_gated(function: Callable, gate: torch.Tensor, up: torch.Tensor) -> None:
    _check_tensors(function, gate=gate, up=up)
    check_alike(function.__name__, gate=gate, up=up)


def swiglu(gate: torch.Tensor, up: torch.Tensor, *, recipe: str = "coat", path: Path = (),
           state: dict | None = None) -> torch.Tensor:
    """Returns silu(gate) * up."""
    _check_gated(swiglu, gate, up)
    return _run("swiglu", recipe, path, state, (), {"gate": gate, "up": up})


def geglu(gate: torch.Tensor, up: torch.Tensor, *, approximate: str = "none",
          recipe: str = "coat", path: Path = (), state: dict | None = None) -> torch.Tensor:
    """Returns gelu(gate) * up; see :func:`gelu`."""
    _check_gated(geglu, gate, up)
    return _run(_by("geglu", approximate), recipe, path, state, (), {"gate": gate, "up": up})


#===------------------------------------------------------------------------===#
# The cross entropy
#===------------------------------------------------------------------------===#


def check_loss(weight: torch.Tensor | None, size_average: bool | None, reduce: bool | None,
               reduction: str, label_smoothing: float) -> None:
    """Refuses options of PyTorch's cross entropy that the kernel does not have."""
    if weight is not None or label_smoothing:
        raise ValueError("this cross entropy neither weighs classes nor smooths labels; leave "
                         "weight and label_smoothing out, or use torch.nn's")
    if size_average is not None or reduce is not None:
        raise ValueError("size_average and reduce are deprecated in PyTorch; take "
                         "reduction='mean', 'sum' or 'none'")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")


def _classes(x: torch.Tensor, target: torch.Tensor, ignore_index: int) -> torch.Tensor:
    """Returns each row's class in f32, -1 for none."""
    if x.dim() not in (1, 2) or target.shape != x.shape[:-1] or target.is_floating_point():
        raise ValueError(
            f"cross_entropy takes rows and a class for each: the input is {tuple(x.shape)}, the "
            f"target is {tuple(target.shape)} of {target.dtype}; flatten both, classes last")
    if x.shape[-1] > 1 << 24:
        raise ValueError(f"cross_entropy knows 2**24 classes, got {x.shape[-1]}")
    ignored = target == ignore_index
    is_wrong = ~ignored & ((target < 0) | (target >= x.shape[-1]))
    if x.is_meta:
        pass  # there are no values to check
    elif executor_of(x) is not CPU:
        # The host does not wait; like PyTorch's own check, this is an assertion on the device.
        torch._assert_async(~is_wrong.any(), "cross_entropy: a target is none of the classes, "
                            "nor ignore_index")
    elif is_wrong.any():
        raise IndexError(f"target {int(target[is_wrong][0])} is none of {x.shape[-1]} "
                         f"classes, nor ignore_index={ignore_index}")
    return torch.where(ignored, -1, target).to(torch.float32)


@uncompiled
def cross_entropy(
    input: torch.Tensor, target: torch.Tensor, weight: None = None,
    size_average: None = None, ignore_index: int = -100, reduce: None = None,
    reduction: str = "mean", label_smoothing: float = 0.0, *, recipe: str = "coat",
    path: Path = (), state: dict | None = None,
) -> torch.Tensor:
    """:func:`torch.nn.functional.cross_entropy` with a class for each row of the input, which has
    at most two dimensions and 2**24 classes, without weights of classes or smoothed labels.

    Losses and their sum are computed in float32 and rounded to the input's type at the end.
    """
    _check_tensors(cross_entropy, input=input, target=target)
    check_loss(weight, size_average, reduce, reduction, label_smoothing)
    classes = _classes(input, target, ignore_index)
    numbers = torch.arange(input.shape[-1], dtype=torch.float32, device=input.device)
    losses = _run("cross_entropy", recipe, path, state, (), {"x": input},
                  {"target": classes, "column": numbers})
    return _reduced(losses, classes, reduction).to(input.dtype)


def _reduced(losses: torch.Tensor, classes: torch.Tensor, reduction: str) -> torch.Tensor:
    """Returns the losses, or their sum or mean."""
    if reduction == "none":
        return losses
    total = losses.sum()
    if reduction == "sum":
        return total
    # The mean of no losses is NaN, but the gradients are zeros.
    count = (classes >= 0).sum()
    return torch.where(count > 0, total / count.clamp(min=1), torch.nan)


#===------------------------------------------------------------------------===#
# Matrix products
#===------------------------------------------------------------------------===#


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *,
           recipe: str = "coat", path: Path = (), state: dict | None = None,
           products: str = "bf16", strict: bool = False, label: str = "",
           hadamard: bool = False) -> torch.Tensor:
    """:func:`torch.nn.functional.linear`, which saves its input under the recipe. Products of
    the same tensor save it once.

    With ``products="fp8"`` the factors are 8-bit floats: the saved input, E4M3 codes of
    ``weight`` and, in the backward pass, E5M2 codes of the gradient. If a GPU does not support
    such products, there is one warning that names the layer by its ``label``, or an error under
    ``strict``. See :class:`Linear`.

    With ``hadamard=True`` it saves the Hadamard transform of the input, which the backward pass
    undoes.
    """
    check_kind(products)
    _check_tensors(linear, input=input, weight=weight, bias=bias)
    check_hadamard(hadamard, products, weight.shape[-1])
    wide = weight, bias
    x, weight, bias = _autocast(input, weight, bias)
    if torch.compiler.is_compiling():
        known = products == "bf16" and not hadamard and _custom_ops.described(
            "keep", recipe, tuple(path), x, weight)
        if known and torch.is_grad_enabled() and weight.requires_grad:
            return _custom_ops.TracedLinear.apply(known, x, weight, bias)
        return functional.linear(x, weight, bias) if known else _linear_apart(
            x, *wide, recipe=recipe, path=path, state=state, products=products, strict=strict,
            label=label, hadamard=hadamard)
    if products == "fp8" and _is_fp8(recipe, path, x, weight, label, strict):
        return _fp8_linear(x, *wide, recipe, path, state)
    return _plain_linear(x, weight, bias, recipe, path, state, hadamard)


def check_hadamard(hadamard: bool, products: str, inputs: int) -> None:
    """Refuses a Hadamard transform of inputs that it cannot divide, or that are multiplied as they
    are saved."""
    if hadamard and products != "bf16":
        raise ValueError(f"hadamard=True saves what products={products!r} do not multiply; "
                         "leave out one of them")
    if hadamard and inputs % MIXED:
        raise ValueError(f"a linear layer of {inputs} inputs has hadamard=True, which mixes {MIXED} of "
                         "them at a time; leave it out for this layer")


def _autocast(x: torch.Tensor, *factors: torch.Tensor | None) -> list[torch.Tensor | None]:
    """Returns the factors of a product in autocast's type, if it is enabled."""
    if x.device.type == "meta" or not torch.is_autocast_enabled(x.device.type):
        return [x, *factors]
    dtype = torch.get_autocast_dtype(x.device.type)
    return [None if factor is None else factor.to(dtype) for factor in (x, *factors)]


def _plain_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, recipe: str,
                  path: Path, state: dict | None, hadamard: bool) -> torch.Tensor:
    """Returns PyTorch's product, whose input is saved if a backward pass may need it."""
    if mode() is Mode.EVALUATED or not weight.requires_grad:
        return functional.linear(x, weight, bias)
    # A transform is of values, whatever a tensor is stored as.
    like = torch.empty(0, dtype=x.dtype, device=x.device) if hadamard else x
    layer = _layer("keep", recipe, path, x=like)
    if not torch.is_grad_enabled() and not layer.remembered:
        return functional.linear(x, weight, bias)
    return _LinearFunction.apply(layer, _history(layer, state, x), hadamard, x, weight, bias)


_linear_apart = uncompiled(linear)


def _is_fp8(recipe: str, path: Path, x: torch.Tensor, weight: torch.Tensor, label: str,
            strict: bool) -> bool:
    """Returns whether products can be of 8-bit floats, after checking that the recipe suits
    them."""
    check_recipe(_layer("keep", recipe, path, x=x))
    return _products.is_served(x, weight, label, strict)


def _fp8_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, recipe: str,
                path: Path, state: dict | None) -> torch.Tensor:
    layer = _layer("keep", recipe, path, x=x)
    history = _history(layer, state, x)
    with torch.no_grad():
        planes = SAVED_INPUTS.planes(layer, history, x)
    return _products.FP8Linear.apply(_products.Codes.of(planes, rows_of(x)), x, weight, bias)


@uncompiled
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
    _check_gated(gated_linear, gate, up)
    _check_tensors(gated_linear, gate=gate, weight=weight, bias=bias)
    wide = weight, bias
    gate, up, weight, bias = _autocast(gate, up, weight, bias)
    kind = _products.PlainProducts
    if products == "fp8" and _is_fp8(recipe, path, gate, weight, label, strict):
        _check_without_history(recipe, path, gate)
        kind, (weight, bias) = _products.FP8Products, wide
    layer = _layer(name, recipe, path, gate=gate, up=up)
    return _GatedLinearFunction.apply(layer, _history(layer, state, gate), kind, gate, up,
                                      weight, bias)


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
    def forward(ctx, layer: Layer, history: History, mixes: bool, x, weight, bias):
        planes, ctx.shape = SAVED_INPUTS.keep(layer, history, x, mixes)
        ctx.save_for_backward(weight, *planes)
        ctx.layer, ctx.mixes, ctx.has_bias = layer, mixes, bias is not None
        return functional.linear(decoded(x), weight, bias)

    @staticmethod
    @first_derivative
    def backward(ctx, dy):
        weight, *planes = ctx.saved_tensors

        def restore():
            value = _restore(ctx.layer, ctx.shape, planes)
            return hadamard(value, back=True) if ctx.mixes else value

        return None, None, None, *_custom_ops.linear_gradients(
            decoded(dy), weight, restore, ctx.needs_input_grad[3:], ctx.has_bias)


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
    def forward(ctx, layer: Layer, history: History, products, gate, up, weight, bias):
        ctx.shape, ctx.layer, ctx.products = rows_of(gate), layer, products
        ctx.flows = not (gate.is_leaf or up.is_leaf)
        ctx.dtype, ctx.bias_dtype = gate.dtype, None if bias is None else bias.dtype
        step = layer.forward
        planes = planes_of({"gate": gate, "up": up}) | step.allocate(
            ctx.shape, gate, (RoleKind.OUTPUT, RoleKind.SAVED)) | history.begin()
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
