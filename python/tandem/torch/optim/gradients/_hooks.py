"""Hooks that take gradients after backward passes, and the end of these hooks."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch.utils.hooks import RemovableHandle

from tandem._param_planes import sums_over_model
from tandem.torch._layout import empty_plane
from tandem.torch._shards import local_of
from tandem.torch.optim import _notices, _wrappers
from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim.gradients._coded import CodedGradients
from tandem.torch.optim.state._spec import StateSpec
from tandem.torch.optim.state._store import StateStore

#: The hooks that take the gradient of a parameter, by its identity. They own the parameter.
_owners: dict[int, weakref.ref[GradientHooks]] = {}


class GradientHooks:
    """Takes ``p.grad`` after each backward pass: encodes it, or takes the step of its parameter.

    Parameters refer to this only weakly, so the hooks end with the optimizer that owns this. A
    parameter has the hook of one optimizer at a time, which is the newest.

    Args:
        groups: the optimizer's param groups.
        store: its states.
        gradients: its gradients in codes.
        step: takes the step of one parameter, for ``gradient_release``.
        check: checks param groups whose options have changed.
    """

    def __init__(self, groups: ParamGroups, store: StateStore, gradients: CodedGradients,
                 step: Callable[[torch.Tensor], None], check: Callable[[], None]):
        self._groups, self._store, self._gradients = groups, store, gradients
        self._step, self._check = step, check
        #: Whether a GradientAllReduce averages the encoded gradients over ranks.
        self.sends_codes = False
        #: Whether passes only accumulate gradients.
        self.accumulates = False
        #: The parameters whose steps backward passes have taken since the last call of step or
        #: zero_grad.
        self._released: set[torch.Tensor] = set()
        #: The wrappers that average gradients over ranks.
        self._averagers = _wrappers.Averagers()
        #: Whether no DistributedDataParallel had the parameters at the last check.
        self._has_no_ddp = False
        #: A lock for steps, since autograd has a thread for each device and steps share
        #: launches.
        self._turn = threading.Lock()
        self._handles: dict[torch.Tensor, RemovableHandle] = {}
        self._is_closed = False
        self._end = weakref.finalize(self, _remove, self._handles)
        self._end.atexit = False

    #===--------------------------------------------------------------------===#
    # Hooks
    #===--------------------------------------------------------------------===#

    def watch(self, groups: Sequence[Mapping]) -> None:
        """Registers hooks on the parameters of param groups, and ends those that other optimizers
        have on them. It does nothing after :meth:`close`."""
        if self._is_closed:
            return
        taken: dict[GradientHooks, list[torch.Tensor]] = {}
        for param, group in ((p, group) for group in groups for p in group["params"]):
            if not param.requires_grad:
                continue
            owner = _owner_of(param)
            if owner is not None and owner is not self:
                owner.leave([param])
                taken.setdefault(owner, []).append(param)
            if self._takes(param, group) and not self._is_on(param):
                self._register(param)
        for owner, params in taken.items():
            _notices.warn_of_taken_gradients(
                [self._groups.name(param) for param in params],
                owner._groups.hypers.owner, owner._groups.specs.strategy,
                sum(owner._gradients.get(param) is not None for param in params))

    def _takes(self, param: torch.Tensor, group: Mapping) -> bool:
        """Returns whether the gradient of a parameter is taken after backward passes."""
        spec = self._groups.specs.of(param, group)
        return spec is not None and (spec.encodes or self._groups.releases)

    def _is_on(self, param: torch.Tensor) -> bool:
        """Returns whether a parameter still has this object's hook."""
        handle = self._handles.get(param)
        return handle is not None and handle.id in (param._post_accumulate_grad_hooks or ())

    def _register(self, param: torch.Tensor) -> None:
        owner = weakref.ref(self)

        def take(param: torch.Tensor) -> None:
            if (living := owner()) is not None:
                living._take(param)

        self._handles[param] = param.register_post_accumulate_grad_hook(take)
        _owners[id(param)] = owner

    def renew(self) -> None:
        """Registers hooks that no longer run, before a step that finds gradients in ``p.grad``.

        A parameter keeps its list of hooks if it is swapped for another tensor, as ``Module.to``
        does where torch.__future__ says so, but PyTorch no longer runs it until it is set again.
        """
        if not self._handles:
            return
        for _, param, group in self._groups:
            if param.grad is None:
                continue
            if self._is_on(param):
                param._post_accumulate_grad_hooks = param._post_accumulate_grad_hooks
            elif param in self._handles or (_owner_of(param) is None
                                            and self._takes(param, group)):
                self._register(param)  # it may have been frozen before

    def leave(self, params: list[torch.Tensor]) -> None:
        """Ends the hooks of parameters."""
        _remove({param: self._handles.pop(param) for param in params if param in self._handles})

    def close(self) -> None:
        """Ends all hooks for good."""
        self._is_closed = True
        self.leave(list(self._handles))

    #===--------------------------------------------------------------------===#
    # After a backward pass
    #===--------------------------------------------------------------------===#

    def _take(self, param: torch.Tensor) -> None:
        """Encodes ``p.grad``, adding it to the gradients of earlier backward passes, and
        releases it, or takes the parameter's step with ``gradient_release``."""
        if self._groups.group_of(param) is None:
            return  # a param group has lost it
        if self._groups.has_changed(param):
            self._check()
        spec = self._groups.spec_of(param)
        if spec and spec.encodes:
            self._encode(spec, param)
        if self._groups.releases and not self.accumulates:
            self._step_now(param)

    def _encode(self, spec: StateSpec, param: torch.Tensor) -> None:
        """Encodes ``p.grad``, unless it has yet to be reduced over ranks."""
        if not self._leaves(param):
            self._add(spec, param)
        elif (accumulation := self._groups.arguments["grad_accumulation"]) is None:
            self._gradients.leave(param)
        else:
            averager = self._averagers.of(param, self._groups.params, accumulation)
            is_ddp = _wrappers.is_ddp(averager)
            if is_ddp and _wrappers.averages(averager):
                self._return_sum(spec, param)
            else:
                self._add(spec, param, returns=is_ddp)

    def _add(self, spec: StateSpec, param: torch.Tensor, returns: bool = False) -> None:
        """Encodes ``p.grad``, adding it to the gradients of earlier backward passes. `returns` is
        whether the last pass returns the sum to ``p.grad``, where clipping finds it."""
        state = self._store.get(param)
        like = empty_plane(spec.like(local_of(param), state), param.dtype, "meta")
        self._gradients.add(spec, param, like, state, lambda: self._groups.name(param))
        if not returns and not _notices.has_warned("codes") and not sums_over_model(spec.kernel):
            strategy = self._groups.group_of(param)["strategy"]
            _notices.warn_of_clipping(strategy, self._groups.releases,
                                      self._groups.arguments["grad_accumulation"])

    def _return_sum(self, spec: StateSpec, param: torch.Tensor) -> None:
        """Adds the sum of earlier backward passes to ``p.grad``, which the ranks average next."""
        if self._gradients.get(param) is not None:
            grad = param.grad
            self._add(spec, param, returns=True)
            grad.copy_(self._gradients.decoded(spec, param, grad.dtype))
            self._gradients.release([param])
            param.grad = grad
        self._gradients.leave(param)

    def _leaves(self, param: torch.Tensor) -> bool:
        """Returns whether a gradient stays in ``p.grad`` until the step encodes it.

        With several ranks, DistributedDataParallel and others reduce ``p.grad`` after the hook
        that calls this. Only GradientAllReduce reduces codes. A gradient that is already in
        codes stays in codes, unless passes add up in a storage of their own.
        """
        return (_wrappers.has_ranks() and not self.sends_codes and not self._groups.releases
                and (self._gradients.get(param) is None
                     or self._groups.arguments["grad_accumulation"] is not None))

    #===--------------------------------------------------------------------===#
    # Steps inside backward passes
    #===--------------------------------------------------------------------===#

    @torch.no_grad()
    def _step_now(self, param: torch.Tensor) -> None:
        """Takes the step of one parameter and releases its gradient."""
        if param in self._released:
            raise RuntimeError(
                f"{self._groups.name(param)} has taken its step in a backward pass already; call "
                "step() or zero_grad() before the next one, and add up gradients of "
                "several passes inside of accumulate()"
            )
        self._refuse_ranks()
        _notices.warn_of_clipping(self._groups.specs.strategy, releases=True)
        with self._turn:
            self._step(param)
        self._released.add(param)
        param.grad = None

    def _refuse_ranks(self, again: bool = False) -> None:
        """Refuses DistributedDataParallel, which would average gradients that are already
        released. The check runs once, or again on request."""
        if self._has_no_ddp and not again:
            return
        self._has_no_ddp = not _wrappers.is_in_ddp(self._groups.params)
        if not self._has_no_ddp:
            raise RuntimeError(
                "gradient_release=True takes the step of a parameter before "
                "DistributedDataParallel averages its gradient, and each rank would train "
                "on its own; leave gradient_release out, or leave DistributedDataParallel "
                "out and average each gradient in p.register_hook"
            )

    def check_both(self) -> None:
        """Refuses gradients that DistributedDataParallel has written after the hooks took those of
        the same parameters, because the hooks did not know of it.

        Raises:
            RuntimeError: there are such gradients.
        """
        if self._groups.arguments["grad_accumulation"] is None:
            return
        both = [param for param in self._gradients.params if param.grad is not None]
        if both and _wrappers.is_in_ddp(both):
            self._averagers.forget()
            self._gradients.release()
            raise RuntimeError(
                "DistributedDataParallel was created after the first backward pass with "
                "grad_accumulation and has averaged zeros; call zero_grad(), and repeat the passes "
                "of this step")

    def check_left_over(self) -> None:
        """Checks for gradients that were computed after the parameters' steps."""
        if any(param.grad is not None for param in self._released):
            self._refuse_ranks(again=True)

    def begin_pass(self) -> None:
        """Lets each parameter take another step in a backward pass."""
        self._released.clear()

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """Returns a context in which backward passes only accumulate gradients."""
        before, self.accumulates = self.accumulates, True
        try:
            yield
        finally:
            self.accumulates = before


def _owner_of(param: torch.Tensor) -> GradientHooks | None:
    """Returns the living hooks that take the gradient of a parameter, or None."""
    owner = _owners.get(id(param))
    living = owner and owner()
    return living if living is not None and param in living._handles else None


def _remove(handles: dict[torch.Tensor, RemovableHandle]) -> None:
    """Removes hooks from parameters."""
    for param, handle in handles.items():
        handle.remove()
        _owners.pop(id(param), None)
    handles.clear()
