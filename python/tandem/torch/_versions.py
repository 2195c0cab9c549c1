"""Differences between the versions of PyTorch that Tandem supports, from 2.4 on."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def at_least(major: int, minor: int) -> bool:
    """Whether this PyTorch is of a version or a later one."""
    return tuple(map(int, torch.__version__.split(".")[:2])) >= (major, minor)


def needed(what: str, version: str) -> RuntimeError:
    """The error for what an older PyTorch lacks."""
    return RuntimeError(f"{what} PyTorch {version} or newer; this is {torch.__version__}")


def increment_versions(tensors: Sequence[torch.Tensor]) -> None:
    """Tells autograd that tensors were written."""
    try:
        torch.autograd.graph.increment_version(tensors)
    except TypeError:  # older versions take one at a time
        for tensor in tensors:
            torch.autograd.graph.increment_version(tensor)
