"""Gradients in codes: their planes, their histories, and conversions to and from p.grad."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from tandem.torch._layout import WORKING, laid_out
from tandem.torch._shards import Shard, local_of
from tandem.torch.optim.state._conversion import plain_storage, plane_of
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._values import convert

#: The planes of a gradient that a state keeps for the scales of the next gradient, by name.
History = Mapping[str, torch.Tensor]


def check_grad(grad: torch.Tensor, param: torch.Tensor,
               label: Callable[[], str]) -> None:
    """Refuses gradients that kernels cannot read."""
    if grad.layout is not torch.strided:
        raise RuntimeError(
            f"the gradient of {label()} is sparse ({grad.layout}), which "
            "Tandem's kernels do not read; use dense gradients (sparse=False) "
            "or p.grad = p.grad.to_dense()"
        )
    if grad.shape != param.shape:
        raise RuntimeError(
            f"the gradient of {label()} has shape {tuple(grad.shape)}, the "
            f"parameter {tuple(param.shape)}; compute it anew"
        )


def empty_grad(spec: StateSpec, like: torch.Tensor) -> list[torch.Tensor]:
    """Allocates the planes of a gradient, except for those in the state."""
    return [spec.empty(plane, like) for plane in spec.grad_planes if not plane.persistent]


def history_after(spec: StateSpec, state: Mapping | None, like: torch.Tensor) -> History:
    """Returns copies of a gradient's planes in the state, for an encoding to write, or zeros
    without a state. The state is updated when the step is taken, so that a gradient that no
    step uses has no effect."""
    planes = [plane for plane in spec.grad_planes if plane.persistent]
    after = {plane.name: spec.empty(plane, like).zero_() for plane in planes}
    for name, plane in after.items() if state else ():
        spec.executor.call(lambda to=plane, name=name: to.copy_(local_of(state[name])))
    return after


def encode_grads(spec: StateSpec, grads: Sequence[torch.Tensor], likes: Sequence[torch.Tensor],
                 planes: Sequence[list[torch.Tensor]], histories: Sequence[History],
                 shards: Sequence[Shard | None] = (), adds: bool = False) -> None:
    """Writes gradients of one type to planes, or adds them to the planes' values.

    Args:
        planes: the planes of each gradient, except for its history.
        histories: the history of each gradient from :func:`history_after`.
        shards: the sharding of each parameter over ranks, which encode all gradients
            together.
    """
    dtype = encoded_from(grads[0])
    convert(spec, [laid_out(grad, like, dtype) for grad, like in zip(grads, likes)],
            plain_storage(dtype),
            [_with_history(spec, *own) for own in zip(planes, histories)],
            spec.grad_storage, spec.grad_planes, adds=adds, fresh=False, shards=shards)


def _with_history(spec: StateSpec, planes: Sequence[torch.Tensor],
                  history: History) -> list[torch.Tensor]:
    """Returns all planes of a gradient."""
    rest = iter(planes)
    return [history[plane.name] if plane.persistent else next(rest)
            for plane in spec.grad_planes]


def decode_grad(spec: StateSpec, planes: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """Returns the gradient in these planes."""
    grad = torch.empty_like(planes[0], dtype=dtype)
    history = history_after(spec, None, planes[0])  # no value depends on it
    convert(spec, [_with_history(spec, planes, history)], spec.grad_storage, [grad],
            plain_storage(dtype), [plane_of(dtype)])
    return grad


def encoded_from(grad: torch.Tensor) -> torch.dtype:
    """Returns the type that a gradient is encoded from."""
    return grad.dtype if grad.dtype in WORKING else torch.float32
