"""Weights that are decoded before a module runs and freed afterwards."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.autograd.graph import saved_tensors_hooks

from tandem.torch._layout import is_placeholder, placeholder
from tandem.torch._versions import hook_state_dicts
from tandem.torch.optim.state import _absent
from tandem.torch.optim.state._identity import spelled
from tandem.torch.optim._optimizer import Optimizer
from tandem.torch.optim._wrappers import unwrapped


@dataclass(frozen=True)
class _SavedWeight:
    """A reference to a view of a weight that a backward pass needs, without its bytes."""

    param: torch.Tensor
    version: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class _SavedElsewhere:
    """A saved tensor that outer hooks have packed."""

    unpack: Callable
    value: object


def _hooks_around() -> tuple[Callable, Callable] | None:
    """Returns the active saved-tensor hooks, such as those of activation checkpointing."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top(True) if top else None


class _SavedTensors(saved_tensors_hooks):
    """Hooks for the tensors that a graph saves while a module runs.

    It does not own the optimizer, since PyTorch leaks objects that are owned by a graph that is
    still alive when the interpreter exits.
    """

    def __init__(self, decoder: DecodedWeights):
        owner, around = weakref.ref(decoder), _hooks_around()

        def pack(tensor: torch.Tensor):
            saved = owner()._save_weight(tensor)
            if saved is not None or around is None:
                return tensor if saved is None else saved
            return _SavedElsewhere(around[1], around[0](tensor))

        def unpack(saved):
            if isinstance(saved, _SavedElsewhere):
                return saved.unpack(saved.value)
            if not isinstance(saved, _SavedWeight):
                return saved
            if (living := owner()) is None:
                raise RuntimeError(
                    "the optimizer that holds the weights of this graph is gone; keep "
                    "it until the backward pass is over"
                )
            return living._load_weight(saved)

        super().__init__(pack, unpack)


class _Entered(threading.local):
    """The modules that a thread is running, and the hooks of each."""

    def __init__(self):
        self.modules: list[tuple[torch.nn.Module, saved_tensors_hooks]] = []


class DecodedWeights:
    """Decodes the weights of a model's modules while they run.

    :func:`decode_weights` creates it; :meth:`remove` restores the parameters' memory.
    """

    def __init__(self, model: torch.nn.Module, optimizer: Optimizer,
                 whole: tuple[type[torch.nn.Module], ...]):
        self._optimizer, self._whole = optimizer, whole
        self._running: dict[torch.Tensor, int] = {}
        self._live: dict[int, torch.Tensor] = {}
        self._memory: list[weakref.ref] = []
        self._entered = _Entered()
        #: Several threads may run a model, and autograd has its own threads.
        self._lock = threading.RLock()
        self._hidden = optimizer._store.start_hidden()
        self._handles: list = []
        modules = {m: ps for m in model.modules() if (ps := self._weights(m))}
        if not modules:
            raise ValueError(
                f"no parameter of the model is decoded under strategy "
                f"{spelled([g['strategy'] for g in optimizer.param_groups])}; the strategy "
                "must keep weights in codes, and "
                "the optimizer must have the model's parameters in bfloat16 or float16"
            )
        for module in modules:
            self._handles += self._hook(module)
        self._params = dict.fromkeys(p for ps in modules.values() for p in ps)
        for param in self._params:
            self._free(param)

    def _weights(self, module: torch.nn.Module) -> list[torch.Tensor]:
        """Returns the parameters that a module reads itself."""
        params = module.parameters(recurse=isinstance(module, self._whole))
        return [param for param in params if param in self._hidden]

    def _hook(self, module: torch.nn.Module) -> list:
        return [
            module.register_forward_pre_hook(self._enter),
            module.register_forward_hook(self._leave, always_call=True),
            module.register_load_state_dict_post_hook(self._after_load),
            # PyTorch sets an attribute of the first function, which a bound method does not
            # allow.
            *hook_state_dicts(module, lambda *given: self._save(*given), self._before_load),
        ]

    #===--------------------------------------------------------------------===#
    # Memory
    #===--------------------------------------------------------------------===#

    def _decoded(self, param: torch.Tensor) -> torch.Tensor:
        """Returns the decoded weight in new memory."""
        weight = self._optimizer._store.decode_weight(param)
        self._memory = [ref for ref in self._memory if ref() is not None]
        self._memory.append(weakref.ref(weight.untyped_storage()))
        return weight

    @property
    def bytes(self) -> int:
        """The number of bytes of the weights that are currently decoded, for a module or for
        autograd."""
        alive = (ref() for ref in self._memory)
        return sum(storage.nbytes() for storage in alive if storage is not None)

    def has(self, param: torch.Tensor) -> bool:
        """Returns whether this decodes the parameter."""
        return param in self._params

    def _acquire(self, param: torch.Tensor) -> None:
        with self._lock:
            count = self._running.get(param, 0)
            if not count:
                weight = self._decoded(param)
                _absent.enter(param)
                param.data = weight
                self._live[param.data_ptr()] = param
            self._running[param] = count + 1

    def _release(self, param: torch.Tensor) -> None:
        with self._lock:
            self._running[param] -= 1
            if not self._running[param]:
                del self._running[param]
                self._live.pop(param.data_ptr(), None)
                self._free(param)

    def _free(self, param: torch.Tensor) -> None:
        """Frees the memory of a parameter, whose weight is in the optimizer's state."""
        param.data = placeholder(param)
        _absent.leave(param, self)

    def read(self, param: torch.Tensor) -> torch.Tensor:
        """Returns a decoded copy of a parameter's weight, for reads between passes."""
        return self._optimizer._store.decode_weight(param)

    #===--------------------------------------------------------------------===#
    # Forward and backward
    #===--------------------------------------------------------------------===#

    def _enter(self, module: torch.nn.Module, _) -> None:
        for param in self._weights(module):
            self._acquire(param)
        hooks = _SavedTensors(self)
        hooks.__enter__()
        self._entered.modules.append((module, hooks))

    def _leave(self, module: torch.nn.Module, *_) -> None:
        # If another hook of the module failed, the module may not have been entered.
        entered = self._entered.modules
        if entered and entered[-1][0] is module:
            entered.pop()[1].__exit__(None, None, None)
            for param in self._weights(module):
                self._release(param)

    def _save_weight(self, tensor: torch.Tensor) -> _SavedWeight | None:
        """Returns the reference to save instead of a view of a decoded weight."""
        param = self._live.get(tensor.untyped_storage().data_ptr())
        if param is None or not tensor.numel() or tensor.dtype != param.dtype:
            return None
        return _SavedWeight(param, param._version, tensor.shape, tensor.stride(),
                            tensor.storage_offset())

    @torch.no_grad()
    def _load_weight(self, saved: _SavedWeight) -> torch.Tensor:
        """Returns the saved view, from a weight that is decoded again."""
        if saved.param._version != saved.version:
            raise RuntimeError(
                "a weight that the backward pass needs has been modified by an "
                f"inplace operation: {self._optimizer._groups.name(saved.param)} is at version "
                f"{saved.param._version}, the forward pass read version "
                f"{saved.version}; run backward before optimizer.step()"
            )
        with self._lock:
            weight = (saved.param.detach() if saved.param in self._running
                      else self._decoded(saved.param))
        return weight.as_strided(saved.size, saved.stride, saved.offset)

    #===--------------------------------------------------------------------===#
    # State dicts
    #===--------------------------------------------------------------------===#

    def _own(self, module: torch.nn.Module):
        """Returns (name, parameter) of the decoded weights that a module registers."""
        return [(name, param) for name, param in module._parameters.items()
                if param is not None and param in self._hidden]

    def _save(self, module, state_dict, prefix, _) -> None:
        for name, param in self._own(module):
            kept = state_dict.get(prefix + name)
            if kept is not None and is_placeholder(kept):
                state_dict[prefix + name] = self._optimizer._store.decode_weight(param)

    def _before_load(self, module, *_) -> None:
        for _, param in self._own(module):
            self._acquire(param)

    def _after_load(self, module, _) -> None:
        for _, param in self._own(module):
            self._optimizer._store.encode_weight(param)
            self._release(param)

    def remove(self) -> None:
        """Restores every parameter's weight in memory, and removes the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for param in self._params:
            if is_placeholder(param):
                weight = self._optimizer._store.decode_weight(param)
                _absent.enter(param)
                param.data = weight
        self._params = {}
        if self._optimizer._decoder is self:
            self._optimizer._decoder = None

    def __reduce_ex__(self, _):
        raise TypeError(
            "a model whose weights are decoded on demand can be neither copied nor "
            "pickled; use its state_dict(), or remove() what decode_weights returned"
        )


def decode_weights(
    model: torch.nn.Module,
    optimizer: Optimizer,
    *,
    whole: Sequence[type[torch.nn.Module]] = (torch.nn.MultiheadAttention,),
) -> DecodedWeights:
    """Keeps a model's weights only in the optimizer's codes, and decodes those of a module only
    while its forward pass or its backward pass needs them.

    Parameters stay registered, with their shape, type and gradient. A read between calls, such
    as by an average of the model, gets a decoded copy without gradient. ``state_dict()`` decodes
    and ``load_state_dict()`` encodes. Weights that autograd saves are decoded again in the
    backward pass.

    Args:
        model: the model, whose parameters the optimizer has.
        optimizer: an optimizer with a strategy that keeps weights in codes, such as
            "fp8-collage-plus". It may be wrapped by Accelerate or Lightning.
        whole: classes of modules that read the weights of their submodules directly, and whose
            weights are decoded together.

    Returns:
        The object whose ``remove()`` undoes the call.

    Raises:
        ValueError: there is nothing to decode, or the optimizer already decodes weights.
    """
    optimizer = unwrapped(optimizer)
    if optimizer._decoder is not None:
        raise ValueError(
            "this optimizer's weights are decoded on demand already; remove() what "
            "decode_weights returned before"
        )
    optimizer._decoder = decoder = DecodedWeights(model, optimizer, tuple(whole))
    return decoder
