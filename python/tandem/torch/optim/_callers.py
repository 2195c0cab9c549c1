"""Inspection of the call stack, for information that PyTorch does not provide otherwise."""

from __future__ import annotations

import sys
from types import FrameType

#: The module that moves states of optimizers for torch.distributed.checkpoint.
STATE_DICTS = "torch.distributed.checkpoint.state_dict"


def caller(module: str, function: str) -> FrameType | None:
    """Returns the innermost frame on the stack of a given function in a given module, or None if
    there is none."""
    frame = sys._getframe(1)
    while frame := frame.f_back:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == (module, function):
            return frame
    return None
