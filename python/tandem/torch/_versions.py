"""Differences between the versions of PyTorch that Tandem supports, from 2.4 on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(
        "tandem.torch needs PyTorch 2.4 or later, and this Python has none; install it with "
        "pip install 'torch>=2.4'") from error


def at_least(major: int, minor: int) -> bool:
    """Returns whether PyTorch has this version or a later one."""
    return tuple(map(int, torch.__version__.split(".")[:2])) >= (major, minor)


if not at_least(2, 4):
    raise ImportError(f"tandem.torch is for PyTorch 2.4 and later, and this is {torch.__version__}; "
                      "update it with pip install -U torch")


def needed(what: str, version: str) -> RuntimeError:
    """Returns the error for a feature that needs a newer PyTorch."""
    return RuntimeError(f"{what} PyTorch {version} or newer; this is {torch.__version__}")


def increment_versions(tensors: Sequence[torch.Tensor]) -> None:
    """Tells autograd that tensors were written."""
    try:
        torch.autograd.graph.increment_version(tensors)
    except RuntimeError:  # older versions such as 2.4 take one at a time
        for tensor in tensors:
            torch.autograd.graph.increment_version(tensor)


def hook_state_dicts(module: torch.nn.Module, after_save: Callable,
                     before_load: Callable) -> list:
    """Registers functions to call after a module's state dict is created and before one is
    loaded, and returns the handles that remove them."""
    if hasattr(module, "register_state_dict_post_hook"):
        return [module.register_state_dict_post_hook(after_save),
                module.register_load_state_dict_pre_hook(before_load)]
    # PyTorch 2.4 has only private methods for these hooks.
    return [module._register_state_dict_hook(after_save),
            module._register_load_state_dict_pre_hook(before_load, with_module=True)]


def zeroed(tensor: torch.Tensor) -> torch.Tensor:
    """Sets all bytes of a tensor to zero, and returns it. PyTorch 2.4 cannot fill a tensor of
    float8 on CPUs."""
    (tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor).zero_()
    return tensor
