"""Kernels that only look whether gradients are finite."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import lru_cache

from tandem import _kernel
from tandem._convert import write_kernel


def _write(types: Sequence[str]) -> str:
    """A kernel that loads gradients of these types; flags=True has it look at them."""
    storages = [f"#tandem.float<{type}>" for type in types]
    body = [f"%x{i} = tandem.load %from{i} : !tandem.stored<tensor<?xf32>, {storage}> -> f32"
            for i, storage in enumerate(storages)]
    return write_kernel([], storages, body, name="check")


@lru_cache(maxsize=None)
def _compiled(types: tuple[str, ...], target: str) -> _kernel.Kernel:
    return _kernel.compile(_write(types), target=target, flags=True)


# The extension reports kernels that outlive the interpreter.
atexit.register(_compiled.cache_clear)


class Check:
    """A plan that reads the gradients of another, before that one writes anything.

    Raises:
        ValueError: the gradients are integer codes.
    """

    def __init__(self, kernel: _kernel.Kernel, device: _kernel.Device | None = None):
        self._planes = [
            i for i, plane in enumerate(kernel.planes)
            if plane.kind is _kernel.RoleKind.GRAD and plane.sets_size
            and plane.type[0] in "bf"
        ]
        if not self._planes:
            raise ValueError(
                f"{kernel._title} stores gradients in integer codes, where no step looks for "
                "NaN; leave skip_nonfinite out"
            )
        self.plan = _kernel.Plan(
            _compiled(tuple(kernel.planes[i].type for i in self._planes), kernel.target),
            device)

    def update(self, sizes: Sequence[int | tuple[int, int]],
               pointers: Sequence[Sequence[int]]) -> None:
        """Takes the tensors of the other plan."""
        self.plan.update(
            [size[0] * size[1] if isinstance(size, tuple) else size for size in sizes],
            [[addresses[at] for at in self._planes] for addresses in pointers])

    def launch(self, threads: int = 0) -> int:
        """The flags that the gradients raise, for which this waits."""
        return self.plan.launch([[]], [[]], threads=threads)

    def launch_async(self, stream: int, skip: int, words: int) -> None:
        """Has the GPU set two words to what the next launch shall skip for: what `skip`
        says, and the flags that the gradients raise."""
        self.plan.launch_on_device(0, 0, stream=stream, skip=skip, flags=words)


class Words:
    """Two words in the memory of a GPU."""

    def __init__(self, device: _kernel.Device):
        self._native = device._native
        self.address = self._native.allocate(8)

    def __del__(self):
        if hasattr(self, "address"):
            self._native.free(self.address)
