"""The hand-over of gradients between the streams of two threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

import torch


@lru_cache(maxsize=None)
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class Handover:
    """Orders the work of a thread after that of another one on a GPU, and back.

    On the CPU there is nothing to order.

    Args:
        device: where the gradients are, which the caller's current stream has written.
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
        """A stream of its own, which waits for what the caller has written."""
        if self._device is None:
            yield
            return
        side = _side_stream(self._device)
        side.wait_event(self._ready)
        with torch.cuda.stream(side):
            yield

    def give(self, planes: Iterable[torch.Tensor]) -> None:
        """Holds what the stream has written for the other thread."""
        self._planes, self._done = list(planes), self._event()

    def take(self) -> None:
        """Has the current stream wait for that."""
        if self._done is None:
            return
        current = torch.cuda.current_stream(self._device)
        current.wait_event(self._done)
        for plane in self._planes:
            plane.record_stream(current)
