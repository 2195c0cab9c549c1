"""Gradients in types that PyTorch does not have, from a backward pass until a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from tandem.torch._shards import local_of
from tandem.torch.optim.gradients._codec import (History, check_grad, decode_grad, empty_grad,
                                                 encode_grads, history_after)
from tandem.torch.optim.state._spec import StateSpec


class CodedGradients:
    """The encoded gradients of an optimizer's parameters, until a step reads them."""

    def __init__(self):
        self._planes: dict[torch.Tensor, list[torch.Tensor]] = {}
        #: The histories for the states when a step takes these gradients.
        self._histories: dict[torch.Tensor, History] = {}
        #: The parameters whose gradients the next step takes from p.grad and releases.
        self._left: set[torch.Tensor] = set()
        #: Whether the next :meth:`release` of all gradients keeps those in codes.
        self._keeps = False

    @torch.no_grad()
    def add(self, spec: StateSpec, param: torch.Tensor, like: torch.Tensor,
            state: dict | None, label: Callable[[], str]) -> None:
        """Encodes p.grad, adding it to the gradients of earlier passes, and releases it."""
        check_grad(param.grad, param, label)
        self._keeps = False
        planes = self._planes.get(param)
        made = empty_grad(spec, like) if planes is None else planes
        history = self._histories.get(param) or history_after(spec, state, like)
        encode_grads(spec, [local_of(param.grad)], [like], [made], [history], adds=planes is not None)
        self._planes[param], self._histories[param] = made, history
        param.grad = None

    def leave(self, param: torch.Tensor) -> None:
        """Leaves p.grad for a reduction over ranks and for the step."""
        self._left.add(param)

    def get(self, param: torch.Tensor) -> list[torch.Tensor] | None:
        """Returns the planes of a parameter's gradient, or None."""
        return self._planes.get(param)

    def has(self, param: torch.Tensor) -> bool:
        """Returns whether a parameter has a gradient, in codes or in p.grad."""
        return param.grad is not None or param in self._planes

    def decoded(self, spec: StateSpec, param: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns the decoded gradient of a parameter that has one in codes, in a type."""
        return decode_grad(spec, self._planes[param], dtype)

    def history_of(self, param: torch.Tensor) -> History | None:
        """Returns the history for the state when a step takes the gradient, or None."""
        return self._histories.get(param)

    def replace(self, param: torch.Tensor, planes: list[torch.Tensor]) -> None:
        """Replaces the planes of an existing gradient."""
        self._planes[param] = planes

    def take(self, param: torch.Tensor) -> tuple | None:
        """Removes a gradient, and returns what :meth:`put` puts back; None if there is none."""
        planes = self._planes.pop(param, None)
        return planes and (planes, self._histories.pop(param, None))

    def put(self, param: torch.Tensor, taken: tuple) -> None:
        """Puts back a gradient that :meth:`take` has returned."""
        self._planes[param], self._histories[param] = taken

    def keep(self) -> None:
        """Keeps gradients in codes when all are next released: an empty step, as
        torch.distributed.checkpoint takes it, ends by releasing the zeros in ``p.grad``."""
        self._keeps = True

    def release(self, params: Iterable[torch.Tensor] | None = None) -> None:
        """Releases the gradients of these parameters, or of all if None."""
        if params is None and self._keeps:
            self._keeps = False
            return
        for param in [*self._planes, *self._left] if params is None else params:
            self._planes.pop(param, None)
            self._histories.pop(param, None)
            self._left.discard(param)

    def finish(self, params: Iterable[torch.Tensor]) -> None:
        """Releases the gradients that a step has taken, including those left in p.grad."""
        self._keeps = False
        for param in params:
            if param in self._left:
                param.grad = None
            self.release([param])

    @property
    def params(self) -> list[torch.Tensor]:
        """The parameters with gradients in codes."""
        return list(self._planes)

    @property
    def bytes(self) -> int:
        """The number of bytes of all planes."""
        histories = [history.values() for history in self._histories.values()]
        return sum(plane.nbytes for planes in [*self._planes.values(), *histories]
                   for plane in planes)
