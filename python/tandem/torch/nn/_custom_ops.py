"""Layers in torch.compile's graphs, in which each pass is a PyTorch operator."""

from __future__ import annotations

import atexit
import os

import torch
from torch.nn import functional

from tandem._plane import RoleKind
from tandem.torch import _executor
from tandem.torch._dynamo import constant
from tandem.torch._versions import zeroed
from tandem.torch.nn._layer import HOLDERS, Pass, compiled
from tandem.torch.nn._stored import StoredTensor, rows_of

#: The passes that graphs refer to, by name.
_PASSES: dict[str, Pass] = {}

# The extension reports kernels that outlive the interpreter.
atexit.register(_PASSES.clear)

#===------------------------------------------------------------------------===#
# The operator
#===------------------------------------------------------------------------===#


def _written(step: Pass) -> list[str]:
    return [plane.name for plane in step.planes(RoleKind.OUTPUT, RoleKind.SAVED)]


@torch.library.custom_op("tandem::run_pass", mutates_args=(), schema=(
    "(str key, str names, Tensor[] tensors, SymInt rows, SymInt columns, float[] hypers) "
    "-> Tensor[]"))
def run_pass(key: str, names: str, tensors: list[torch.Tensor], rows: int, columns: int,
             hypers: list[float]) -> list[torch.Tensor]:
    """Runs a pass on the planes that it reads, given with their names, and returns the planes
    that it writes."""
    step = _PASSES[key]
    given = {name: x.contiguous() for name, x in zip(names.split(","), tensors, strict=True)}
    written = step.allocate((rows, columns), tensors[0], (RoleKind.OUTPUT, RoleKind.SAVED))
    step.run((rows, columns), given | written, hypers)
    if 0 in (rows, columns):
        written = {name: zeroed(plane) for name, plane in written.items()}
    return list(written.values())


@run_pass.register_fake
def _(key, names, tensors, rows, columns, hypers):
    planes = _PASSES[key].planes(RoleKind.OUTPUT, RoleKind.SAVED)
    return [tensors[0].new_empty(plane.entries(columns, rows),
                                 dtype=HOLDERS.get(plane.type, torch.uint8))
            for plane in planes]


#===------------------------------------------------------------------------===#
# Descriptions of layers in graphs
#===------------------------------------------------------------------------===#


@constant
def _describe(name: str, recipe: str, path: tuple[str, ...], dtype: torch.dtype,
              vector_dtype: torch.dtype, device: torch.device) -> tuple:
    """Returns a key and the names of planes: those that the forward pass writes, those of them
    and of the inputs that the backward pass needs, the outputs, and those that the backward pass
    writes.

    Returns an empty tuple for a layer that is not such a function or cannot be compiled.
    """
    executor = _executor.executor_of(torch.empty(0, device=device))
    try:
        paths = tuple(os.fspath(directory) for directory in path)
        layer = executor and compiled(name, recipe, dtype, vector_dtype, paths, (), executor.target)
    except (TypeError, ValueError):
        return ()  # running it without a graph raises the error
    if not layer or not layer.is_function:
        return ()
    key = f"{name} {recipe} {path} {dtype} {vector_dtype} {device}"
    _PASSES[f"{key}: forward"], _PASSES[f"{key}: backward"] = layer.forward, layer.backward
    return (key, tuple(_written(layer.forward)), (*layer.restored, *layer.again_read),
            tuple(layer.forward.outputs), tuple(_written(layer.backward)))


def described(name: str, recipe: str, path: tuple[str, ...], x: torch.Tensor,
              *others: torch.Tensor, vector_dtype: torch.dtype | None = None) -> tuple:
    """Returns the description of a layer on these tensors in a graph, or an empty tuple if a
    graph cannot contain it."""
    if any(isinstance(y, StoredTensor) or y.device != x.device for y in (x, *others)):
        return ()
    return _describe(name, recipe, path, x.dtype, vector_dtype or x.dtype, x.device)


#===------------------------------------------------------------------------===#
# Functions
#===------------------------------------------------------------------------===#


def _planes(description: tuple, hypers: tuple, roles: list[str], inputs: tuple) -> dict:
    """Returns the planes that a forward pass reads and writes, by name."""
    key, written, *_ = description
    results = torch.ops.tandem.run_pass(f"{key}: forward", ",".join(roles), list(inputs),
                                        *rows_of(inputs[0]), list(hypers))
    return dict(zip((*roles, *written), (*inputs, *results), strict=True))


def _outputs(description: tuple, planes: dict, shape: torch.Size):
    ys = tuple(planes[name].view(shape) for name in description[3])
    return ys if len(ys) > 1 else ys[0]


def run_layer(description: tuple, hypers: tuple, names: tuple, *inputs: torch.Tensor):
    """Runs a described layer as LayerFunction.apply does."""
    if torch.is_grad_enabled():
        return TracedLayer.apply(description, hypers, names, *inputs)
    planes = _planes(description, hypers, [name for name, _ in names], inputs)
    return _outputs(description, planes, inputs[0].shape)


class TracedLayer(torch.autograd.Function):
    """The counterpart of LayerFunction in graphs."""

    @staticmethod
    def forward(ctx, description: tuple, hypers: tuple, names: tuple, *inputs):
        ctx.description, ctx.names, ctx.rows = description, names, rows_of(inputs[0])
        ctx.shapes = [x.shape for x in inputs]
        planes = _planes(description, hypers, [name for name, _ in names], inputs)
        ctx.save_for_backward(*[planes[name] for name in description[2]])
        return _outputs(description, planes, inputs[0].shape)

    @staticmethod
    def backward(ctx, *gradients):
        key, _, needed, outputs, written = ctx.description
        names = [*needed, *(f"d{name}" for name in outputs)]
        results = torch.ops.tandem.run_pass(
            f"{key}: backward", ",".join(names), [*ctx.saved_tensors, *gradients], *ctx.rows, [])
        planes = dict(zip(written, results, strict=True))
        found = [planes[gradient].view(shape) if gradient in planes else None
                 for (_, gradient), shape in zip(ctx.names, ctx.shapes, strict=True)]
        return None, None, None, *found


class TracedLinear(torch.autograd.Function):
    """A matrix product that saves its input as the layer "keep" does: ``apply(description, x,
    weight, bias)``. Products of the same tensor save it once, because graphs merge equal
    operators."""

    @staticmethod
    def forward(ctx, description: tuple, x, weight, bias):
        needed = description[2]
        ctx.description, ctx.rows, ctx.has_bias = description, rows_of(x), bias is not None
        planes = {"x": x} if needed == ("x",) else _planes(description, (), ["x"], (x,))
        ctx.save_for_backward(weight, *[planes[name] for name in needed])
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        key, _, needed, _, _ = ctx.description
        weight, *planes = ctx.saved_tensors

        def restore():
            if needed == ("x",):
                return planes[0].view(ctx.rows)
            (value,) = torch.ops.tandem.run_pass(f"{key}: backward", ",".join(needed), planes,
                                                 *ctx.rows, [])
            return value.view(ctx.rows)

        return None, *linear_gradients(dy, weight, restore, ctx.needs_input_grad[1:],
                                       ctx.has_bias)


def linear_gradients(dy: torch.Tensor, weight: torch.Tensor, restore, needs: tuple,
                     has_bias: bool) -> tuple:
    """Returns the gradients of a matrix product's input, weight and bias that are needed.
    ``restore`` returns the rows of the input."""
    rows = dy.reshape(-1, dy.shape[-1])
    return (dy @ weight if needs[0] else None, rows.T @ restore() if needs[1] else None,
            rows.sum(0) if has_bias and needs[2] else None)
