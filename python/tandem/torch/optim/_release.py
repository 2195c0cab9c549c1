"""Steps inside backward passes, for one parameter at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tandem._param_planes import sums_over_model
from tandem.torch.optim import _notices, _wrappers
from tandem.torch.optim._step import Steps

#: Options that cannot be combined with gradient_release, and why.
_CONFLICTS = {
    "metrics": "metrics are sums over a step of all parameters, and gradient_release=True "
               "takes a step of each",
    "skip_nonfinite": "skip_nonfinite=True looks at the gradients of all parameters before "
                      "a step, and gradient_release=True has no two of them at a time",
    "capturable": "capturable=True is for steps of all parameters at once, in one launch "
                  "that a CUDA graph can capture, and gradient_release=True takes a step of "
                  "each",
}


class Release(Steps):
    """The part of :class:`Optimizer` that implements ``gradient_release``."""

    def _begin_release(self) -> None:
        #: The parameters whose steps backward passes have taken since the last call of step or
        #: zero_grad, and whether passes only accumulate gradients.
        self._released: set[torch.Tensor] = set()
        self._accumulates = False
        #: Whether no DistributedDataParallel had the parameters at the last check.
        self._has_no_ddp = False
        #: A lock for steps, since autograd has a thread for each device and steps share
        #: bindings.
        self._turn = threading.Lock()

    @property
    def gradient_release(self) -> bool:
        """Whether backward passes take the steps."""
        return self._arguments["gradient_release"]

    def _check_release(self) -> None:
        """Refuses options that need the gradients of all parameters at once."""
        if not self.gradient_release:
            return
        if sums_over_model(self.kernel):
            raise ValueError(
                f"{self.kernel.name} sums over all parameters, so that no gradient can be "
                "released before the last is there; leave gradient_release=True out"
            )
        for option, reason in _CONFLICTS.items():
            if self._arguments[option]:
                raise ValueError(f"{reason}; leave out one of them")

    def _refuse_scaler(self) -> None:
        """Refuses a GradScaler, since steps in backward passes do not unscale gradients."""
        if self.gradient_release:
            raise RuntimeError(
                "a GradScaler looks at the gradients of all parameters before a step, and "
                "gradient_release=True has taken the steps by then, of scaled gradients; "
                "leave out one of them, or choose a strategy with bfloat16 weights, which "
                "need no scaling"
            )

    @torch.no_grad()
    def _step_in_backward(self, param: torch.Tensor) -> None:
        """Takes the step of one parameter and releases its gradient."""
        if param in self._released:
            raise RuntimeError(
                f"{self._name(param)} has taken its step in a backward pass already; call "
                "step() or zero_grad() before the next one, and add up gradients of "
                "several passes inside of accumulate()"
            )
        self._refuse_ranks()
        _notices.warn_of_clipping(self.strategy, releases=True)
        with self._turn:
            self._update(param)
        self._released.add(param)
        param.grad = None

    def _refuse_ranks(self, again: bool = False) -> None:
        """Refuses DistributedDataParallel, which would average gradients that are already
        released. The check runs once, or again on request."""
        if self._has_no_ddp and not again:
            return
        self._has_no_ddp = not _wrappers.is_in_ddp(self._params())
        if not self._has_no_ddp:
            raise RuntimeError(
                "gradient_release=True takes the step of a parameter before "
                "DistributedDataParallel averages its gradient, and each rank would train "
                "on its own; leave gradient_release out, or leave DistributedDataParallel "
                "out and average each gradient in p.register_hook"
            )

    def _check_left_over(self) -> None:
        """Checks for gradients that were computed after the parameters' steps."""
        if any(param.grad is not None for param in self._released):
            self._refuse_ranks(again=True)

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Returns a context in which backward passes only accumulate gradients, which stay in
        memory.

        Without ``gradient_release`` this has no effect. The first pass after the context takes
        the steps with the accumulated gradients.
        """
        owner = _wrappers.unwrapped(self)
        before, owner._accumulates = owner._accumulates, True
        try:
            yield
        finally:
            owner._accumulates = before
