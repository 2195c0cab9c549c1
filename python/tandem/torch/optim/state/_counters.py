"""Counts of steps in the memory of a GPU, for asynchronous steps.

Parameters that have taken all of their steps together share one count, so that a step increments
only a few counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch

from tandem.torch.optim._groups import ParamGroups
from tandem.torch.optim.state._spec import StateSpec


def new(value: int, device: torch.device) -> torch.Tensor:
    """Creates a count."""
    return torch.full((), value, dtype=torch.int64, device=device)


def part(groups: ParamGroups, states: Mapping,
         has_gradient: Callable[[torch.Tensor], bool]) -> None:
    """Splits counts of which only some parameters take the next step."""
    holders: dict[int, int] = {}
    moving: dict[int, list[tuple[StateSpec, dict]]] = {}
    for param, state in states.items():
        spec = groups.spec_of(param)
        if not spec or not isinstance(state.get(spec.step), torch.Tensor):
            continue
        key = id(state[spec.step])
        holders[key] = holders.get(key, 0) + 1
        if has_gradient(param):
            moving.setdefault(key, []).append((spec, state))
    for key, found in moving.items():
        if len(found) == holders[key]:
            continue
        if found[0][0].executor.is_capturing:
            raise RuntimeError(
                "some parameters step here without others that they have stepped with "
                "so far, which a CUDA graph cannot begin with; take a step with the "
                "same gradients before the capture"
            )
        own = found[0][1][found[0][0].step].clone()
        for spec, state in found:
            state[spec.step] = own


def adopt(groups: ParamGroups, states: Mapping) -> None:
    """Moves the counts of a loaded state dict to where the optimizer needs them."""
    known: dict[tuple, torch.Tensor] = {}
    for (spec, state), value in _values(groups, states):
        if groups.is_capturable:
            key = spec.device, value
            if key not in known:
                known[key] = new(value, spec.device)
            value = known[key]
        state[spec.step] = value


def _values(groups: ParamGroups, states: Mapping) -> Iterable[tuple[tuple, int]]:
    """Yields each state with a count, and the value, with one transfer per device."""
    found = [(spec, state) for param, state in states.items()
             if (spec := groups.spec_of(param)) and spec.step in state]
    tensors: dict[torch.device, list[torch.Tensor]] = {}
    for spec, state in found:
        if isinstance(count := state[spec.step], torch.Tensor):
            tensors.setdefault(count.device, []).append(count)
    numbers = {device: iter(torch.stack([t.reshape(()) for t in counts]).tolist())
               for device, counts in tensors.items()}
    return [((spec, state), int(next(numbers[count.device])
                                if isinstance(count := state[spec.step], torch.Tensor)
                                else count)) for spec, state in found]
