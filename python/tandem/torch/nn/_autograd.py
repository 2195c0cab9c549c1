"""Layers as autograd functions."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from tandem._plane import Granularity, RoleKind
from tandem.torch._versions import zeroed
from tandem.torch.nn._history import History
from tandem.torch.nn._layer import Layer
from tandem.torch.nn._stored import planes_of, rows_of, storages_of, tensor_of


def first_derivative(backward: Callable) -> Callable:
    """Wraps a backward pass so that differentiating it is always an error. PyTorch's own
    decorator silently omits the gradients of some inputs."""
    @functools.wraps(backward)
    def checked(ctx, *gradients):
        if torch.is_grad_enabled():
            raise RuntimeError("layers of tandem.torch.nn have no second derivative; leave "
                               "create_graph=True out, or take torch.nn's modules")
        return backward(ctx, *gradients)

    return checked


class LayerFunction(torch.autograd.Function):
    """Runs a layer: ``apply(layer, hypers, history, names, kept, *inputs)``.

    ``names`` has pairs of the names of inputs and of their gradients, the backward pass's
    outputs: ("x", "dx"). The outputs are those of the forward pass, in order; the gradient of
    "y" is the backward pass's input "dy". Planes that the layer saves for the linear layers
    after it are stored in ``kept``, by output and then by the suffix of the plane's name.
    """

    @staticmethod
    def forward(ctx, layer: Layer, hypers: tuple, history: History, names: tuple, kept: dict,
                *inputs):
        step = layer.forward
        # The first input has rows and columns; a single row may have only one dimension.
        wide = [x for x in inputs if x.dim() > 1] or list(inputs)
        shape = rows_of(wide[0])
        tensors = planes_of({name: x for (name, _), x in zip(names, inputs, strict=True)})
        shapes = {Granularity.ELEMENT: wide[0].shape, Granularity.ROW: wide[0].shape[:-1]}
        # A user may write to an output in place, so it must not be a view.
        written = step.allocate(
            shape, wide[0], (RoleKind.OUTPUT, RoleKind.SAVED),
            {role: shapes[step.per[role]] for role in step.outputs if step.is_plain(role)})
        planes = tensors | written | history.begin()
        step.run(shape, planes, hypers)
        layer.note(planes, any(ctx.needs_input_grad))
        kept |= _for_others(layer, planes)
        ctx.save_for_backward(*(planes[name] for name in layer.restored),
                              *(tensors[name] for name in layer.again_read))
        ctx.layer, ctx.shape, ctx.names = layer, shape, [name for _, name in names]
        ctx.dtype, ctx.outputs = wide[0].dtype, step.outputs
        ctx.shapes = [x.shape for x in inputs]
        # The gradient of a leaf belongs to the user.
        ctx.flows = not any(x.is_leaf for x in wide)
        results = tuple(tensor_of(step, role, planes, shapes[step.per[role]], ctx.dtype)
                        for role in ctx.outputs)
        return results if len(results) > 1 else results[0] if results else None

    @staticmethod
    @first_derivative
    def backward(ctx, *gradients):
        names = ctx.layer.restored + ctx.layer.again_read
        given = {f"d{name}": gradient
                 for name, gradient in zip(ctx.outputs, gradients, strict=True)}
        tensors = dict(zip(names, ctx.saved_tensors, strict=True)) | planes_of(given)
        step = ctx.layer.backward_of(storages_of(given), ctx.flows)
        like = next(iter(tensors.values()))
        results = step.allocate(ctx.shape, like, (RoleKind.OUTPUT,))
        step.run(ctx.shape, tensors | results)
        if 0 in ctx.shape:
            results = {name: zeroed(plane) for name, plane in results.items()}
        shapes = dict(zip(ctx.names, ctx.shapes, strict=True))
        wanted = {role: tensor_of(step, role, results, shapes[role], ctx.dtype)
                  for role in step.outputs if role in shapes}
        return None, None, None, None, None, *(wanted.get(name) for name in ctx.names)


def _for_others(layer: Layer, planes: dict[str, torch.Tensor]) -> dict[str, dict]:
    """Returns the planes of its outputs that a forward pass has saved and its own backward pass
    does not need."""
    kept = {}
    for plane in layer.for_others:
        suffix = plane.name.removeprefix(plane.role)
        kept.setdefault(plane.role.removesuffix(".kept"), {})[suffix] = planes[plane.name]
    return kept
