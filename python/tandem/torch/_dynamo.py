"""Hints for torch.compile that do not import torch._dynamo, which takes as long as PyTorch itself.
Programs that compile no model do without it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType, MethodType

import torch


def is_imported() -> bool:
    """Returns whether torch._dynamo is imported; until it is, no function is compiled."""
    return "torch._dynamo" in sys.modules


def constant(function: Callable) -> Callable:
    """Is torch.compiler.assume_constant_result: graphs contain what the function returns."""
    function._dynamo_marked_constant = True
    return function


def uncompiled(function: Callable) -> Callable:
    """Is torch.compiler.disable: excludes a function, and what it calls, from graphs, so that it
    runs eagerly."""
    excluded = None

    @functools.wraps(function)
    def run(*arguments, **options):
        nonlocal excluded
        if excluded is None and (dynamo := sys.modules.get("torch._dynamo")):
            excluded = dynamo.disable(function)  # torch.compiler.disable's own frame is traced
        return (excluded or function)(*arguments, **options)

    if is_imported() or not _skip(run.__code__):
        return torch.compiler.disable(function)
    run._torchdynamo_disable = True  # a graph that calls this ends before it
    return run


def _skip(code: CodeType) -> bool:
    """Is torch._dynamo.eval_frame.skip_code: lets no graph begin in a function's own code. Returns
    whether this PyTorch has a way."""
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "skip_code"):  # earlier versions, such as PyTorch 2.4
        frames.skip_code(code)
    elif hasattr(frames, "set_code_exec_strategy"):
        actions = frames._FrameAction
        frames.set_code_exec_strategy(
            code, frames._FrameExecStrategy(actions.SKIP, actions.DEFAULT))
    else:
        return False
    return True


def lazy(method: Callable) -> Callable:
    """Returns a method of torch.optim without the decorator that imports torch._dynamo, only to
    exclude the method from graphs; while they can exist, returns the method itself."""
    function = method.__func__
    if is_imported() or function.__globals__.get("__name__") != "torch._compile":
        return method
    return MethodType(function.__wrapped__, method.__self__)
