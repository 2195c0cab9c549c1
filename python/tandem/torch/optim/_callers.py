"""The calls that this one is in: what PyTorch does not say otherwise."""

from __future__ import annotations

import sys
from types import FrameType

#: The module that moves states of optimizers for torch.distributed.checkpoint.
STATE_DICTS = "torch.distributed.checkpoint.state_dict"


def caller(module: str, function: str) -> FrameType | None:
    """The innermost of the calls around this one that is of a function of a module; None if
    there is none."""
    frame = sys._getframe(1)
    while frame := frame.f_back:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == (module, function):
            return frame
    return None
