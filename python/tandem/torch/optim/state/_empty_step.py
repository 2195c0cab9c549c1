"""The empty step with which torch.distributed.checkpoint initializes an optimizer's states.

``get_optimizer_state_dict`` and similar functions find out which states an optimizer has by a step
with gradients of zeros and learning rates of 0 (``_init_optim_state``), because PyTorch has no
method that creates states. Such a step creates states and counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from tandem.torch._exchange import Exchange
from tandem.torch._shards import local_of, shard_of


def is_empty(groups: Sequence[Mapping]) -> bool:
    """Returns whether a step of an optimizer without states would be empty: all parameters that
    require a gradient have one of zeros, and all learning rates are 0. Ranks that have shards of
    the parameters decide together."""
    if any(group.get("lr", 0) != 0 for group in groups):
        return False
    params = [param for group in groups for param in group["params"] if param.requires_grad]
    grads = [param.grad for param in params]
    empty = bool(grads) and all(grad is not None and not local_of(grad).any() for grad in grads)
    devices = {shard.group: local_of(param).device for param in params
               if (shard := shard_of(param)) and not shard.is_whole}
    for group, device in devices.items():
        empty = not Exchange([group], device).any_of([not empty])[0]
    return empty


class _Begun(NamedTuple):
    """A state that the empty step has created, and its entries."""

    state: dict
    entries: dict


class EmptyStep:
    """The states that an empty step has created. The first real step creates them again, so that
    training continues as without the empty step."""

    def __init__(self):
        self._begun: dict[torch.Tensor, _Begun] = {}

    def note(self, param: torch.Tensor, state: dict) -> None:
        """Records that an empty step has created the state of a parameter."""
        self._begun[param] = _Begun(state, dict(_entries(state)))

    def has(self, param: torch.Tensor) -> bool:
        """Returns whether an empty step has created the state of a parameter."""
        return param in self._begun

    def clear(self) -> None:
        """Forgets the states, because others have been loaded."""
        self._begun.clear()

    def ends(self, param: torch.Tensor, state: dict, label: Callable[[], str]) -> bool:
        """Returns whether a state exists only because of the empty step, and forgets it.

        Raises:
            RuntimeError: the state has been written since.
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
    """Yields the names of a state's entries, and a value that changes when the entry is
    written."""
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            yield name, (id(value), local_of(value)._version)
        else:
            yield name, value
