"""Gradients in types that PyTorch does not have, which are encoded as soon as they are
computed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from tandem.torch.optim._binding import History, KernelBinding, check_grad

#: The hook of each parameter. The newest optimizer's hook takes the gradient.
_hooks = WeakTensorKeyDictionary()


class Gradients:
    """The encoded gradients of an optimizer's parameters, until a step reads them."""

    def __init__(self):
        self._planes: dict[torch.Tensor, list[torch.Tensor]] = {}
        #: The histories for the states when a step takes these gradients.
        self._histories: dict[torch.Tensor, History] = {}
        #: The parameters whose gradients the next step takes from p.grad and releases.
        self._left: set[torch.Tensor] = set()

    def watch(self, param: torch.Tensor, optimizer) -> None:
        """Registers a hook with which the optimizer takes p.grad after backward passes."""
        owner = weakref.ref(optimizer)

        def take(param: torch.Tensor) -> None:
            if (living := owner()) is not None:
                living._take_gradient(param)

        if known := _hooks.get(param):
            known.remove()
        _hooks[param] = param.register_post_accumulate_grad_hook(take)

    @torch.no_grad()
    def add(self, binding: KernelBinding, param: torch.Tensor, like: torch.Tensor,
            state: dict | None, label: Callable[[], str]) -> None:
        """Encodes p.grad, adding it to the gradients of earlier passes, and releases it."""
        check_grad(param.grad, param, label)
        planes = self._planes.get(param)
        made = binding.empty_grad(like) if planes is None else planes
        history = self._histories.get(param) or binding.history_after(state, like)
        binding.encode_grads([param.grad], [like], [made], [history], adds=planes is not None)
        self._planes[param], self._histories[param] = made, history
        param.grad = None

    def leave(self, param: torch.Tensor) -> None:
        """Leaves p.grad for a reduction over ranks and for the step."""
        self._left.add(param)

    def get(self, param: torch.Tensor) -> list[torch.Tensor] | None:
        """Returns the planes of a parameter's gradient, or None."""
        return self._planes.get(param)

    def history_of(self, param: torch.Tensor) -> History | None:
        """Returns the history for the state when a step takes the gradient, or None."""
        return self._histories.get(param)

    def replace(self, param: torch.Tensor, planes: list[torch.Tensor]) -> None:
        """Replaces the planes of an existing gradient."""
        self._planes[param] = planes

    def release(self, params: Iterable[torch.Tensor] | None = None) -> None:
        """Releases the gradients of these parameters, or of all if None."""
        for param in [*self._planes, *self._left] if params is None else params:
            self._planes.pop(param, None)
            self._histories.pop(param, None)
            self._left.discard(param)

    def finish(self, params: Iterable[torch.Tensor]) -> None:
        """Releases the gradients that a step has taken, including those left in p.grad."""
        for param in params:
            if param in self._left:
                param.grad = None
            self.release([param])

    @property
    def bytes(self) -> int:
        """The number of bytes of all planes."""
        histories = [history.values() for history in self._histories.values()]
        return sum(plane.nbytes for planes in [*self._planes.values(), *histories]
                   for plane in planes)
