"""Plans: kernels over lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tandem import _tandem
from tandem._arguments import to_threads
from tandem._device import Device
from tandem._finite_check import FiniteCheck, SkipFlag

#: The flag of a launch (``compile(flags=True)``) in which a gradient was a NaN or an infinity.
NON_FINITE = _tandem.NON_FINITE


def check_external(kernel, functions: Mapping[str, object]) -> None:
    """Refuses functions whose names are not those of the kernel's external steps.

    Raises:
        ValueError: a step has no function, or a function no step.
    """
    wanted = kernel.externals
    missing = [name for name in wanted if name not in functions]
    extra = [name for name in functions if name not in wanted]
    if missing:
        raise ValueError(f"{kernel.name} has the external step {missing[0]!r}, which the host "
                         f"computes; give a function for it, external={{{missing[0]!r}: ...}}")
    if extra:
        raise ValueError(f"{kernel.name} has no external step {extra[0]!r}; it has "
                         + (", ".join(map(repr, wanted)) or "none"))


class Sharding(NamedTuple):
    """A shard of a tensor that is sharded over ranks."""

    #: The length of the unsharded tensor's rows, in elements.
    row_length: int
    #: The index of the shard.
    shard: int
    #: The start of each shard and the end of the last one, in elements of the unsharded tensor.
    starts: Sequence[int]
    #: The number of the group of ranks that hold the shards.
    group: int = 0


class Plan:
    """A list of tensors that one call of a :class:`Kernel` updates. It keeps its tables between
    calls.

    Without a ``device`` it runs kernels for the CPU. With one, it runs kernels compiled for that
    GPU or an earlier one, on memory of the GPU.

    With ``skip_nonfinite``, each launch first checks all gradients and is skipped if one of them
    has a NaN or an infinity. On a GPU the host does not wait for the check.
    """

    def __init__(self, kernel, device: Device | None = None,
                 skip_nonfinite: bool = False):
        self.kernel = kernel
        self.device = device
        self._native = _tandem.Plan(kernel._native, device and device._native)
        self._check = self._skip_flag = None
        if skip_nonfinite:
            self._check = FiniteCheck(kernel, device)
            self._skip_flag = device and SkipFlag(device)

    def update(
        self,
        sizes: Sequence[int | tuple[int, int]],
        pointers: Sequence[Sequence[int]],
        *,
        rows: Sequence[int] | None = None,
        keys: Sequence[int] | None = None,
        firsts: Sequence[int] | None = None,
        shardings: Sequence[Sharding | None] = (),
    ) -> None:
        """Sets the tensors: their element counts and the addresses of their planes.

        A size is (rows, columns), as for a matrix kernel, or a count, which is one row. Groups
        that share a scale start anew in each row. ``rows`` is the row of scalars that each
        tensor uses (default 0), ``firsts`` is the index of its first element in the unsharded
        tensor, and ``shardings`` describes how a tensor is sharded over ranks that exchange the
        kernel's reductions.
        """
        if self._check:
            self._check.update(sizes, pointers)
        count = len(sizes)
        shapes = [size if isinstance(size, tuple) else (1, size) for size in sizes]
        self._native.update(
            [height for height, _ in shapes],
            [width for _, width in shapes],
            list(firsts or [0] * count),
            list(range(count) if keys is None else keys),
            list(rows or [0] * count),
            [address for planes in pointers for address in planes],
            [sharding and Sharding(*sharding) for sharding in shardings],
        )

    def set_exchange(self, exchange: Callable[[int, memoryview], None] | None) -> None:
        """Sets the function that sums unsigned 32-bit words over the ranks of a group in place.
        It takes the group's number in :class:`Sharding` and the words. Launches over sharded
        tensors call it for their reductions, for one group after the other, and so does
        :meth:`metrics`; they raise its exceptions. On a GPU such a launch waits for the device
        between phases."""
        self._native.set_exchange(exchange)

    def set_external(self, functions: Mapping[str, Callable[[int], None]]) -> None:
        """Sets the functions that compute the kernel's external steps
        (:attr:`Kernel.externals`), by their names. Launches call each of them between two phases,
        for all tensors at once, and raise its exceptions; the arrays that a step updates then keep
        their values.

        A function takes the stream, a ``CUstream`` on which its work is to be enqueued, or 0 on
        the CPU, where it is to be done on return. It reads the planes of kind ``RoleKind.SENT``
        and writes those of kind ``RoleKind.RECEIVED``.

        Raises:
            ValueError: a step has no function, or a function no step.
        """
        check_external(self.kernel, functions)
        called = [functions[name] for name in self.kernel.externals]
        self._native.set_external(lambda index, stream: called[index](stream))

    def launch(
        self,
        hypers: Sequence[Sequence[float]],
        integers: Sequence[Sequence[int]],
        *,
        threads: int = 0,
    ) -> int:
        """Runs one step with one row of scalars per param group.

        Returns the launch's flags: :data:`NON_FINITE` if a gradient was a NaN or an infinity.
        Only a kernel that was compiled with ``flags=True`` raises it, and the step is still
        taken. With ``skip_nonfinite``, which works for every kernel, the step is skipped.
        """
        threads = to_threads(threads)
        if self._check and (flags := self._check.launch(threads)):
            return flags
        flat = [value for row in hypers for value in row]
        whole = [value for row in integers for value in row]
        return self._native.launch(flat, whole, len(hypers), threads)

    def launch_async(
        self,
        hypers: Sequence[Sequence[float]],
        integers: Sequence[Sequence[int]],
        *,
        stream: int = 0,
        skip: int = 0,
        flags: int = 0,
    ) -> None:
        """Enqueues one step on a stream of the GPU, a ``CUstream``, and does not wait.

        The step is skipped if the 32-bit word at the GPU's address ``skip`` is nonzero when it
        runs, such as a gradient scaler's ``found_inf``. The caller must order launches of one
        plan on different streams.

        With ``flags``, the address of two such words, the step is not skipped. It sets the first
        word to the one at ``skip``, or to 0, and raises its flags there.
        """
        flat = [value for row in hypers for value in row]
        whole = [value for row in integers for value in row]
        skip = self._look(stream, skip)
        self._native.launch_async(flat, whole, len(hypers), stream, skip, flags)

    def launch_on_device(
        self,
        hypers: int,
        integers: int,
        rows: int = 1,
        *,
        stream: int = 0,
        skip: int = 0,
        flags: int = 0,
    ) -> None:
        """Enqueues one step as :meth:`launch_async` does, with scalars in the GPU's memory, at
        two addresses: rows of float64 and of int64.

        They are read when the step runs, and their domains are not checked. Such a launch can be
        captured in a graph.
        """
        skip = self._look(stream, skip)
        self._native.launch_on_device(hypers, integers, rows, stream, skip, flags)

    def _look(self, stream: int, skip: int) -> int:
        """Launches the check of gradients, if any, and returns the address of the skip word."""
        if not self._check:
            return skip
        self._check.launch_async(stream, skip, self._skip_flag.address)
        return self._skip_flag.address

    def flags(self) -> int:
        """Waits for the latest launch and returns its flags."""
        found = self._check.plan.flags() & NON_FINITE if self._check else 0
        return found or self._native.flags()

    def sum(self, reduction: int, tensor: int = 0) -> float:
        """Waits for the latest launch, and returns a sum over a tensor or the model that it has
        computed, in float32 and over all ranks.

        Args:
            reduction: the index of the sum in :attr:`Kernel.reductions`.
            tensor: the index of the tensor. All tensors have the same sum over the model.

        Raises:
            ValueError: there is no such tensor or sum.
        """
        return self._native.sum(tensor, reduction)

    def metrics(self, tensor: int = -1) -> list[float]:
        """Returns the metrics of the latest launch for one tensor, or for all (-1).

        If D is the intended update and E is the change of the stored value, the metrics are the
        sum of D * E, the sum of D * D, the number of elements with D != 0 and E = 0, and the
        number with D != 0 (Collage, section 3). The sums are balanced binary trees in float64,
        which do not depend on threads or chunks. The kernel must be compiled with
        ``metrics=True``.
        """
        return self._native.metrics(tensor)
