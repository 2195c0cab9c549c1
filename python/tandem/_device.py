"""The devices of the runtime's drivers."""

from __future__ import annotations

import functools

from tandem import _tandem
from tandem._arguments import to_text


class Device:
    """A device of one of the runtime's drivers, by default a GPU."""

    def __init__(self, ordinal: int = 0, driver: str = "cuda"):
        self._native = _tandem.Device(to_text("driver", driver), ordinal)
        self.ordinal: int = self._native.ordinal
        self.name: str = self._native.name
        #: The target that kernels are compiled for, such as "sm_90".
        self.target: str = self._native.target
        self.memory: int = self._native.memory  #: in bytes

    @staticmethod
    def count(driver: str = "cuda") -> int:
        """Returns the number of a driver's devices, which is 0 if its library is missing."""
        return _tandem.device_count(to_text("driver", driver))

    def synchronize(self) -> None:
        """Waits for all work of the device."""
        self._native.synchronize()

    def __repr__(self) -> str:
        return f"<tandem.Device {self.ordinal}: {self.name} ({self.target})>"


@functools.lru_cache(maxsize=None)
def open_gpu(ordinal: int) -> Device:
    """Returns a GPU, which is opened only once."""
    return Device(ordinal)
