"""The parameter class for weights that exist only in the optimizer's state."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch
from torch.utils._pytree import tree_flatten, tree_map

#: Functions that describe a parameter or its role in autograd without reading its elements. All
#: others use the decoded weight.
_DESCRIBE = frozenset("""
    __len__ backward data_ptr dim element_size empty_like full_like get_device grad is_complex
    is_conj is_contiguous is_floating_point is_neg is_same_size is_set_to is_shared is_signed
    ndimension nelement new_empty new_full new_ones new_tensor new_zeros numel ones_like
    rand_like randn_like register_hook register_post_accumulate_grad_hook requires_grad_
    result_type retain_grad size storage storage_offset stride untyped_storage zeros_like
    """.split())

#: Functions whose results are not expected to have a gradient.
_DETACH = (torch.Tensor.detach, torch.Tensor.data.__get__)


class AbsentWeight(torch.nn.Parameter):
    """A parameter whose elements are decoded whenever they are read.

    Averages of models and norms of weights are thus correct. Operations that need a gradient are
    refused, since the copy would not propagate it, and so are writes.
    """

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not _reads(func):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if args and isinstance(args[0], cls) and _writes(func):
            raise _refusal(args[0], f"{func.__name__} would be lost")
        args, kwargs = tree_map(_value, (args, kwargs))
        result = func(*args, **kwargs)
        if torch.is_grad_enabled() and func not in _DETACH and _is_differentiable(result):
            raise RuntimeError(
                "a weight is in memory only while its own module runs, and gets no "
                f"gradient from {func.__name__} at another time; call the module, name "
                "the module that reads the weight in decode_weights(whole=), or read "
                "p.detach()"
            )
        return result


def leave(param: torch.Tensor, decoder) -> None:
    """Redirects reads of a parameter to its decoder. Parameters whose class is not
    PyTorch's own are left unchanged."""
    if type(param) is torch.nn.Parameter:
        param.__class__ = AbsentWeight
        param._decoder = weakref.ref(decoder)


def enter(param: torch.Tensor) -> None:
    """Turns it into an ordinary parameter, whose weight is in memory."""
    if type(param) is AbsentWeight:
        param.__class__ = torch.nn.Parameter
        del param._decoder


def _reads(func: Callable) -> bool:
    """Returns whether a function may read elements. Attributes other than `data` do not."""
    if func.__name__ in ("__get__", "__set__", "__delete__"):
        return func == torch.Tensor.data.__get__
    return func.__name__ not in _DESCRIBE


def _writes(func: Callable) -> bool:
    """Returns whether a function changes its first argument."""
    name = func.__name__
    return (name.endswith("_") and not name.endswith("__")) or name == "__setitem__"


def _value(argument):
    """Returns an argument, or the decoded weight if it is absent."""
    if not isinstance(argument, AbsentWeight):
        return argument
    decoder = argument._decoder()
    if decoder is None:
        raise _refusal(argument, "the optimizer that holds it is gone")
    with torch.no_grad():
        return decoder.read(argument)


def _is_differentiable(result) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
               for leaf in tree_flatten(result)[0])


def _refusal(param: AbsentWeight, problem: str) -> RuntimeError:
    return RuntimeError(
        f"a weight of shape {tuple(param.shape)} is only in an optimizer's state, as "
        f"decode_weights has it, and {problem}; load_state_dict() of the model writes "
        "weights, and remove() of what decode_weights returned brings them back to memory"
    )
