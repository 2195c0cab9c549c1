"""Counts of steps in the memory of a GPU, for asynchronous steps.

Parameters that have taken all of their steps together share one count, so that a step increments
only a few counts.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


def new(value: int, device: torch.device) -> torch.Tensor:
    """Creates a count."""
    return torch.full((), value, dtype=torch.int64, device=device)


def part(optimizer) -> None:
    """Splits counts of which only some parameters take the next step."""
    holders: dict[int, int] = {}
    moving: dict[int, list[dict]] = {}
    for param, state in optimizer.state.items():
        binding = optimizer._binding_of(param)
        if not binding or not isinstance(state.get(binding.step), torch.Tensor):
            continue
        key = id(state[binding.step])
        holders[key] = holders.get(key, 0) + 1
        if optimizer._has_gradient(param):
            moving.setdefault(key, []).append((binding, state))
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
        for binding, state in found:
            state[binding.step] = own


def adopt(optimizer) -> None:
    """Moves the counts of a loaded state dict to where the optimizer needs them."""
    known: dict[tuple, torch.Tensor] = {}
    for (binding, state), value in _values(optimizer):
        if optimizer.capturable:
            key = binding.device, value
            if key not in known:
                known[key] = new(value, binding.device)
            value = known[key]
        state[binding.step] = value


def _values(optimizer) -> Iterable[tuple[tuple, int]]:
    """Yields each state with a count, and the value, with one transfer per device."""
    found = [(binding, state) for param, state in optimizer.state.items()
             if (binding := optimizer._binding_of(param)) and binding.step in state]
    tensors: dict[torch.device, list[torch.Tensor]] = {}
    for binding, state in found:
        if isinstance(count := state[binding.step], torch.Tensor):
            tensors.setdefault(count.device, []).append(count)
    numbers = {device: iter(torch.stack([t.reshape(()) for t in counts]).tolist())
               for device, counts in tensors.items()}
    return [((binding, state), int(next(numbers[count.device])
                                   if isinstance(count := state[binding.step], torch.Tensor)
                                   else count)) for binding, state in found]
