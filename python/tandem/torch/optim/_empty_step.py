"""The empty step by which torch.distributed.checkpoint has an optimizer begin its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from tandem.torch._shards import local_of
from tandem.torch.optim._callers import STATE_DICTS, caller


def is_called_for() -> bool:
    """Whether torch.distributed.checkpoint is among the callers, to find out which states there
    are: get_optimizer_state_dict and the like do so where an optimizer has none. It gives all
    parameters gradients of zeros, and every group a learning rate of 0."""
    return caller(STATE_DICTS, "_init_optim_state") is not None


class _Begun(NamedTuple):
    """A state as the empty step has begun it: itself, and its entries."""

    state: dict
    entries: dict


class EmptyStep:
    """The states that an empty step has begun. They hold what a first step would begin with,
    which begins them anew, so that training goes on as without the empty step."""

    def __init__(self):
        self._begun = WeakTensorKeyDictionary()

    def note(self, param: torch.Tensor, state: dict) -> None:
        """The state of a parameter has been begun by an empty step."""
        self._begun[param] = _Begun(state, dict(_entries(state)))

    def clear(self) -> None:
        """States have been loaded in place of those."""
        self._begun.clear()

    def ends(self, param: torch.Tensor, state: dict, label: Callable[[], str]) -> bool:
        """Whether a state is there only by the empty step, for the last time.

        Raises:
            RuntimeError: it has been written into since.
        """
        begun = self._begun.pop(param, None) if self._begun else None
        if begun is None or state is not begun.state:
            return False
        if dict(_entries(state)) != begun.entries:
            raise RuntimeError(
                f"the state of {label()} has been written into since get_optimizer_state_dict of "
                "torch.distributed.checkpoint began it, as by loading a checkpoint in place, "
                "which leaves the count of steps as it was; hand what was loaded to "
                "set_optimizer_state_dict, or start anew with optimizer.state.clear()")
        return True


def _entries(state: Mapping) -> Iterator[tuple[str, object]]:
    """The names of a state's entries, and what changes when one is written."""
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            yield name, (id(value), local_of(value)._version)
        else:
            yield name, value
