"""Kernels that only check whether gradients are finite."""

from __future__ import annotations

import atexit
from collections.abc import Sequence

from tandem import _tandem

#: Kernels that only read gradients, by the gradients' types and the target.
_compiled: dict[tuple, _tandem.Kernel] = {}

# The extension reports kernels that outlive the interpreter.
atexit.register(_compiled.clear)


def compiled_check(kernel) -> tuple[_tandem.Kernel, list[int]]:
    """Returns a kernel that only reads the gradients of another kernel, and the indices of the
    planes that it reads.

    Raises:
        ValueError: the gradients are integer codes.
    """
    native: _tandem.Kernel = kernel._native
    planes = native.checked_planes
    if not planes:
        raise ValueError(
            f"{kernel._title} stores gradients in integer codes, where no step looks for "
            "NaN; leave skip_nonfinite out"
        )
    key = *(kernel.planes[at].type for at in planes), kernel.target
    if key not in _compiled:
        _compiled[key] = native.compile_finite_check()
    return _compiled[key], planes


class FiniteCheck:
    """A plan that reads the gradients of another plan before that one writes anything.

    Args:
        kernel: the :class:`Kernel` of the other plan.
        device: the :class:`Device` that it runs on; None for the CPU.

    Raises:
        ValueError: the gradients are integer codes.
    """

    def __init__(self, kernel, device=None):
        native, self._planes = compiled_check(kernel)
        self.plan = _tandem.Plan(native, device and device._native)

    def update(self, sizes: Sequence[int | tuple[int, int]],
               pointers: Sequence[Sequence[int]]) -> None:
        """Sets the tensors to those of the other plan, which the check treats as vectors."""
        counts = [size[0] * size[1] if isinstance(size, tuple) else size for size in sizes]
        zeros = [0] * len(counts)
        self.plan.update([1] * len(counts), counts, zeros, zeros, zeros,
                         [addresses[at] for addresses in pointers for at in self._planes], [])

    def launch(self, threads: int = 0) -> int:
        """Checks the gradients, and returns the flags that they raise."""
        return self.plan.launch([], [], 1, threads)

    def launch_async(self, stream: int, skip: int, flags: int) -> None:
        """Enqueues a check on the GPU. It sets the two words at `flags`, by which the next
        launch is skipped, to the word at `skip` and the flags that the gradients raise."""
        self.plan.launch_on_device(0, 0, 1, stream, skip, flags)


class SkipFlag:
    """Two words in the memory of a GPU, which a :class:`FiniteCheck` sets."""

    def __init__(self, device):
        self._native = device._native
        self.address = self._native.allocate(8)

    def __del__(self):
        if hasattr(self, "address"):
            self._native.free(self.address)
