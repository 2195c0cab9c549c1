"""Gradients as backward passes compute them, before an optimizer stores them in codes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tandem.torch._shards import local_of
from tandem.torch.optim.diagnosis._origins import Origin
from tandem.torch.optim.diagnosis._samples import Sample


class Taps:
    """Takes samples of gradients that backward passes leave only in codes.

    Attributes:
        samples: the sample of each parameter, once known. Before the first step, gradients are
            kept whole.
    """

    def __init__(self, origin: Origin):
        self.samples: Sequence[Sample] | None = None
        self._origin, self._sums = origin, {}
        self._handles = [param.register_hook(self._tap(at, param))
                         for at, param in enumerate(origin.params) if origin.encodes(param)]

    def _tap(self, at: int, param: torch.Tensor):
        def add(grad: torch.Tensor) -> None:
            with torch.no_grad():
                own = local_of(grad)
                own = own.detach() if self.samples is None else self.samples[at].take(own)
                # Several backward passes before a step add up; zero_grad begins anew.
                before = self._sums.get(at) if self._origin.has_gradient(param) else None
                self._sums[at] = own.float() if before is None else before + own.float()

        return add

    def gradient(self, at: int, param: torch.Tensor) -> torch.Tensor | None:
        """Returns the gradient that the next step uses: whole, or its sample."""
        found = self._sums.pop(at, None)
        if param.grad is not None or found is None:
            return self._origin.gradient(param)
        return found if self._origin.has_gradient(param) else None

    def remove(self) -> None:
        """Ends the hooks."""
        for handle in self._handles:
            handle.remove()
