"""Synchronization of gradients between the streams of two threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

import torch


@lru_cache(maxsize=None)
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class Handover:
    """Orders the GPU work of a thread after that of another thread, and vice versa.

    On the CPU it does nothing.

    Args:
        device: the device of the gradients, which the caller's current stream has written.
    """

    def __init__(self, device: torch.device):
        self._device = device if device.type == "cuda" else None
        self._planes: list[torch.Tensor] = []
        self._ready = self._event()
        self._done = None

    def _event(self):
        if self._device is None:
            return None
        return torch.cuda.current_stream(self._device).record_event()

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """Returns a context with a separate stream that waits for the caller's writes."""
        if self._device is None:
            yield
            return
        side = _side_stream(self._device)
        side.wait_event(self._ready)
        with torch.cuda.stream(side):
            yield

    def give(self, planes: Iterable[torch.Tensor]) -> None:
        """Keeps the planes that the stream has written for the other thread."""
        self._planes, self._done = list(planes), self._event()

    def take(self) -> None:
        """Makes the current stream wait for the planes."""
        if self._done is None:
            return
        current = torch.cuda.current_stream(self._device)
        current.wait_event(self._done)
        for plane in self._planes:
            plane.record_stream(current)
