"""Conversion of stored values from one storage to another, and of whole states."""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tandem import _kernel, _tandem
from tandem._device import Device
from tandem._kernel import Kernel, Rules
from tandem._plan import Plan, Sharding
from tandem._plane import Granularity, Plane, RoleKind
from tandem._storages import floats


#===------------------------------------------------------------------------===#
# Conversions
#===------------------------------------------------------------------------===#


class Executor:
    """Launches kernels on a device and copies its memory: here, the CPU."""

    #: The GPU, or None for the CPU.
    device: Device | None = None
    #: The target that kernels are compiled for.
    target = "cpu"
    #: The stream that orders the work, on devices that have streams.
    stream = 0
    is_capturing = False

    def plan(self, kernel: Kernel) -> Plan:
        """Returns a plan for the next launch."""
        return Plan(kernel)

    def launch(self, plan: Plan, hypers, integers, threads: int = 0) -> int:
        """Runs one step, and returns its flags if they are known."""
        return plan.launch(hypers, integers, threads=threads)

    def call(self, work) -> None:
        """Calls `work` in order with the other calls of this executor."""
        work()

    def copy(self, to: int, source: int, bytes: int) -> None:
        """Copies memory."""
        ctypes.memmove(to, source, bytes)

    def clear(self, to: int, bytes: int) -> None:
        """Fills memory with zeros."""
        ctypes.memset(to, 0, bytes)


CPU = Executor()



@dataclass(frozen=True)
class Tensor:
    """A tensor in memory: its size, the addresses of its planes, the index of its first element,
    and its sharding, if any.

    A vector with an entry per row or column of a matrix is a flat tensor here.
    """

    size: int | tuple[int, int]  #: the number of elements, or of rows and columns
    addresses: Sequence[int]
    first: int = 0
    sharding: Sharding | None = None

    def bytes(self, plane: Plane) -> int:
        """Returns the size of a plane of the tensor in bytes."""
        rows, columns = self.size if isinstance(self.size, tuple) else (1, self.size)
        flat = Plane(**vars(plane) | {"per": Granularity.ELEMENT})
        return flat.entries(columns, rows) * plane.bits // 8


class Conversion:
    """Converts tensors from one storage to another.

    Equal storages, and sums of planes in one format, are copied bit for bit. Otherwise a kernel
    converts the value: the exact sum if both storages are sums of floats, and else the decoded
    f32 (docs/Numerics.md).

    Args:
        adds: whether the value is added, in f32, to the value of the target.
        fresh: whether targets are new. If so, given scales are computed, and the history of
            delayed scaling starts with the value.
        matrix: whether tensors are matrices, whose groups start anew in each row.
        floor: whether positive values must not become zero, as in second moments. The value is
            then converted through f32.
        chip: the target that the kernel is compiled for.
    """

    def __init__(self, source: str, target: str, adds: bool = False, fresh: bool = True,
                 matrix: bool = False, floor: bool = False, chip: str = "cpu"):
        #: The numbers of the target's and the source's planes in the kernel, in this order, and
        #: the number of its launches.
        native, self.written, self.read, self.launches = _tandem.compile_conversion(
            source, target, adds, fresh, matrix, floor, chip)
        #: The kernel; None if planes are copied.
        self.kernel = None if native is None else Kernel(native, None, chip)

    def run(self, sources: Sequence[Tensor], targets: Sequence[Tensor],
            planes: Sequence[Plane], threads: int = 0, executor: Executor = CPU,
            exchange: Callable[[int, memoryview], None] | None = None) -> None:
        """Converts each source to the target with the same index, which has these planes.
        `exchange` is for targets that are shards, as in :meth:`Plan.set_exchange`."""
        if self.kernel is None:
            self._copy(executor, sources, targets, planes)
            return
        plan, tensors = executor.plan(self.kernel), list(zip(sources, targets))
        plan.set_exchange(exchange)
        plan.update(
            [target.size for _, target in tensors],
            [[*target.addresses[:self.written], *source.addresses[:self.read]]
             for source, target in tensors],
            firsts=[target.first for _, target in tensors],
            shardings=[target.sharding for _, target in tensors],
        )
        if self.launches > 1:
            # The first launch determines the scales.
            self._clear(executor, targets, planes)
        for _ in range(self.launches):
            executor.launch(plan, [[]], [[]], threads)
        self._copy(executor, [], targets, planes, self.written)

    @staticmethod
    def _clear(executor, targets, planes) -> None:
        """Fills the targets' planes that persist between steps with zeros."""
        for target in targets:
            for plane, address in zip(planes, target.addresses):
                if plane.persistent and target.bytes(plane):
                    executor.clear(address, target.bytes(plane))

    @staticmethod
    def _copy(executor, sources, targets, planes, start: int = 0) -> None:
        """Copies planes. Planes from `start` on that the source does not have become zero."""
        for i, target in enumerate(targets):
            known = sources[i].addresses if sources else []
            for j in range(start, len(target.addresses)):
                bytes = target.bytes(planes[j])
                if not bytes:
                    continue
                if j < len(known):
                    executor.copy(target.addresses[j], known[j], bytes)
                else:
                    executor.clear(target.addresses[j], bytes)


@lru_cache(maxsize=None)
def conversion(source: str, target: str, adds: bool = False,
               fresh: bool = True, matrix: bool = False, floor: bool = False,
               chip: str = "cpu") -> Conversion:
    """Returns the conversion between two storages, which is compiled once per process."""
    return Conversion(source, target, adds, fresh, matrix, floor, chip)


def _stamp(file: str) -> tuple:
    """Returns a stamp that changes if a file has changed."""
    try:
        state = os.stat(file)
    except (OSError, ValueError):
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


def compile_written(graph: str | os.PathLike, strategy: str, rules: Rules | None,
                    target: str, path: Sequence[str | os.PathLike], **options) -> Kernel:
    """Compiles a graph under a strategy that consists of `rules` or, if they are None, that is
    found by its name."""
    if rules is None:
        return _kernel.compile(graph, strategy, target, path=path, **options)
    return _kernel.compile_rules(graph, strategy, rules, target, **options)


#: The averages of gradients in the library's graphs.
_AVERAGES = ("exp_avg", "momentum_buffer")


@lru_cache(maxsize=256)
def _compile(graph: str, strategy: str, rules: Rules | None, path: tuple[str, ...],
             target: str, metrics: bool, weight_average: bool, weight_operand: bool,
             stamps) -> Kernel:
    kernel = compile_written(graph, strategy, rules, target, path, metrics=metrics,
                             weight_average=weight_average, weight_operand=weight_operand)
    if coarse := [plane.role for plane in kernel.planes
                  if plane.is_packed and plane.role in _AVERAGES]:
        warnings.warn(
            f"strategy {strategy!r} stores {coarse[0]!r} of {kernel.name} in a few bits, in which "
            "an average does not follow its gradients. Store m / sqrt(v) in its place, with "
            "stores_ratio=True of AdamW, or take a strategy of 8 bits such as 'dither-mulaw' or "
            "'residual-mulaw'", UserWarning, stacklevel=2)
    return kernel


# The extension reports kernels that outlive the interpreter.
atexit.register(conversion.cache_clear)
atexit.register(_compile.cache_clear)


def compiled(graph: str | os.PathLike, strategy: str,
             path: Sequence[str | os.PathLike], target: str = "cpu",
             rules: Rules | None = None, metrics: bool = False,
             weight_average: bool = False, weight_operand: bool = False) -> Kernel:
    """Returns a kernel as :func:`tandem.compile` does, cached until one of its files changes.
    `rules` are those of a strategy without a file."""
    graph, path = os.fspath(graph), tuple(os.fspath(p) for p in path)
    files = [graph, *(os.path.join(p, strategy + ".mlir") for p in path)]
    return _compile(graph, strategy, rules, path, target, metrics, weight_average,
                    weight_operand, tuple(map(_stamp, files)))


def planes_of(kernel: Kernel, role: str) -> list[Plane]:
    """Returns the planes of one tensor, in order."""
    return [plane for plane in kernel.planes if plane.role == role]


def kept_roles(kernel: Kernel) -> list[str]:
    """Returns the tensors that persist between steps: the params and the states."""
    kinds = (RoleKind.PARAM, RoleKind.STATE)
    return list(dict.fromkeys(p.role for p in kernel.planes if p.kind in kinds))


@dataclass(frozen=True)
class Stored:
    """The storage of a tensor and its planes in a kernel."""

    storage: str
    planes: list[Plane]
    #: Whether the tensor is a matrix rather than a vector or a flat tensor.
    matrix: bool
    #: Whether the tensor is a second moment, whose positive values are not stored as zero.
    floor: bool

    @classmethod
    def of(cls, kernel: Kernel, role: str) -> Stored:
        """Returns the description of one of a kernel's tensors."""
        planes = planes_of(kernel, role)
        matrix = kernel.is_matrix and planes[0].per == Granularity.ELEMENT
        return cls(kernel.storages[role], planes, matrix, role in kernel.second_moments)

    @property
    def is_grouped(self) -> bool:
        """Whether neighbouring elements share a scale; in a matrix, only within a row."""
        return any(plane.is_grouped for plane in self.planes)

    def meets(self, other: Stored) -> bool:
        """Returns whether one kernel can read this tensor and write the other."""
        if not (self.is_grouped and other.is_grouped):
            return True
        blocks = {plane.rows for stored in (self, other) for plane in stored.planes
                  if plane.is_grouped and plane.rows > 1}
        return self.matrix == other.matrix and len(blocks) < 2

    def shape_of(self, plane: Plane, rows: int, columns: int) -> tuple[int, ...]:
        """Returns the shape of a plane's array. Groups of a matrix start anew in each row."""
        if not self.matrix and plane.per == Granularity.ELEMENT:
            return (plane.entries(rows * columns),)
        if not self.matrix or not plane.elements_per_entry:
            return (plane.entries(columns, rows),)
        return plane.groups(columns, rows)


#: The plane of the intermediate value, stored as floats("f32"), for two storages that no single
#: kernel can convert.
WIDE_PLANE = Plane()


def carry(source: Stored, target: Stored, size: int | tuple[int, int],
          addresses: tuple[list[int], list[int]], first: int, threads: int) -> None:
    """Converts one tensor. `addresses` has the addresses of the source's and the target's
    planes."""
    def run(ours: str, theirs: str, matrix: bool, start: list[int], end: list[int],
            planes: Sequence[Plane]) -> None:
        shape = size if matrix or isinstance(size, int) else math.prod(size)
        conversion(ours, theirs, matrix=matrix, floor=target.floor).run(
            [Tensor(shape, start, first)], [Tensor(shape, end, first)], planes, threads)

    start, end = addresses
    if source.meets(target):
        matrix = source.matrix if source.is_grouped else target.matrix
        return run(source.storage, target.storage, matrix, start, end, target.planes)
    rows, columns = size if isinstance(size, tuple) else (1, size)
    values = (ctypes.c_float * (rows * columns))()
    wide = [ctypes.addressof(values)]
    run(source.storage, floats("f32"), source.matrix, start, wide, [WIDE_PLANE])
    run(floats("f32"), target.storage, target.matrix, wide, end, target.planes)


def convert_state(
    graph: str | os.PathLike,
    arrays: Mapping[str, object],
    source: str,
    target: str,
    *,
    path: Sequence[str | os.PathLike] = (),
    first: int = 0,
    threads: int = 0,
) -> dict:
    """Converts the params and states of a graph to another strategy.

    Tensors that both strategies store in the same way are copied bit for bit. Other values are
    converted exactly if the target can represent them, and rounded to nearest if not
    (docs/Strategies.md describes this for each storage).

    Args:
        graph: as for :func:`compile`.
        arrays: the planes under `source`, as its kernel takes them. Gradients are optional and
            are converted if present.
        source: the strategy that the arrays are stored under.
        target: the strategy to convert to.
        path: directories that are searched for strategies first.
        first: the index of element 0 in the unsharded tensor.
        threads: 0 means one per core; results do not depend on it.

    Returns:
        A dict of new NumPy arrays, one for each plane: float32, or unsigned integers with the
        bits of any other type. Arrays of a matrix have two dimensions.
    """
    import numpy as np

    if isinstance(path, (str, bytes)):
        raise TypeError("path is a list of directories, not one string")
    ours, theirs = (compiled(graph, s, path) for s in (source, target))
    roles = kept_roles(ours)
    known = {plane.role for plane in ours.planes if plane.name in arrays}
    roles += [role for role in ours.storages if role in known and role not in roles]
    wanted = [plane for plane in ours.planes if plane.role in roles]
    is_matrix = ours.is_matrix or theirs.is_matrix
    (rows, columns), addresses = ours.addresses(arrays, wanted, writes=False,
                                                matrix=is_matrix)
    if is_matrix and first:
        raise ValueError(f"first is {first}, but {ours.name} updates matrices, which "
                         "are not sharded; pass the whole matrix")
    result = {}
    for role in roles:
        source, target = Stored.of(ours, role), Stored.of(theirs, role)
        per = target.planes[0].per
        size = rows if per == Granularity.ROW else columns
        if is_matrix and per == Granularity.ELEMENT:
            size = (rows, columns)
        made = {
            plane.name: np.empty(
                target.shape_of(plane, rows, columns),
                np.float32 if plane.type == "f32" else f"u{plane.bits // 8}")
            for plane in target.planes
        }
        carry(source, target, size,
              ([addresses[p.name] for p in source.planes],
               [a.ctypes.data for a in made.values()]), first, threads)
        result |= made
    return result
