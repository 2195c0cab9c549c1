"""Sums of codes over ranks: each rank adds one slice from all ranks and sends the sums."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.nn.functional import pad

from tandem import _tandem
from tandem._convert import Executor, compiled, planes_of
from tandem._kernel import Kernel
from tandem._plane import WHOLE_TENSOR, RoleKind
from tandem._storages import described
from tandem.torch._layout import DTYPES
from tandem.torch.distributed._ranks import Ranks

#: The range of scales for all codes without a range, such that no sum overflows.
LEAST, MOST = 2.0**-126, 2.0**112


@dataclass(frozen=True)
class Storages:
    """The storage of gradients, and the same storage with given scales.

    Attributes:
        source: the storage in MLIR's notation, without delayed scaling.
        given: the storage of codes that are sent. Its scales are f32, which can be divided by
            any number of ranks.
        group: the number of elements of a row that share a scale; WHOLE_TENSOR for all of a
            tensor.
        code: the type of codes.
        scale: the type of scales in the source.
    """

    source: str
    given: str
    group: int
    code: torch.dtype
    scale: torch.dtype

    @staticmethod
    def of(kernel: Kernel) -> Storages:
        """Returns the storages of the gradients that an optimizer's kernel reads.

        Raises:
            ValueError: gradients in this storage cannot be sent.
        """
        role = next(plane.role for plane in kernel.planes if plane.kind is RoleKind.GRAD)
        storage, planes = described(kernel.storages[role]), planes_of(kernel, role)
        if storage.with_given_scales is None:
            raise ValueError(
                f"strategy {kernel.strategy!r} stores gradients as {storage.text}; to "
                "add them up under shared scales takes a strategy that stores them as "
                "#tandem.scaled with scale = f32, bf16 or f16 and a code without a range, such "
                "as 'fp8-lm'")
        if kernel.is_matrix and any(plane.is_grouped for plane in planes):
            raise ValueError(
                f"strategy {kernel.strategy!r} stores gradients of matrices as "
                f"{storage.text}, with groups in each row; to add them up under shared "
                "scales takes one scale for a tensor, group = tensor")
        code, scale = planes[:2]
        return Storages(storage.without_history, storage.with_given_scales, scale.group,
                        DTYPES[code.type], DTYPES[scale.type])

    @staticmethod
    def of_strategy(strategy: str, path: Sequence[str | os.PathLike]) -> Storages:
        """Returns the storages of a strategy's gradients.

        Args:
            strategy: the name of a strategy, built in or ``<name>.mlir`` on ``path``.
            path: directories that are searched for strategies first.

        Raises:
            ValueError: there is no such strategy, or its gradients cannot be sent.
        """
        if isinstance(path, (str, bytes)):
            raise TypeError("path is a list of directories, not one string")
        return Storages.of(compiled("adamw", strategy, path))

    def scales_of(self, rows: int, columns: int) -> int:
        """Returns the number of scales of a tensor."""
        if self.group == WHOLE_TENSOR:
            return min(1, rows * columns)
        return rows * -(-columns // self.group)

    def known(self, scales: torch.Tensor, size: tuple[int, int],
              values: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Returns the scales of one tensor, with 0 for groups without information.

        A group without finite nonzero numbers has the scale 1, which could exceed the scales of
        other ranks. It becomes 0 here.

        Args:
            scales: all scales of the tensor, in f32.
            size: the tensor's rows and columns.
            values: returns the tensor's values as a flat tensor.
        """
        ones = scales == 1
        if not ones.any():
            return scales
        wide, (rows, columns) = values(), size
        has_value = wide.isfinite() & (wide != 0)
        if self.group == WHOLE_TENSOR:
            has_value = has_value.any().view(1)
        else:
            padded = pad(has_value.view(rows, columns), (0, -columns % self.group))
            has_value = padded.view(-1, self.group).any(1)
        return scales.where(~ones | has_value, 0.0)

    def shared(self, largest: torch.Tensor, mu: float,
               ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the scales of sums and of their means. The latter are representable in the
        storage's type of scales.

        The scale of a mean is that of the sum divided by the number of ranks. For a 16-bit type
        it is rounded up, and the scale of the sum is computed from it. If no rank has a nonzero
        number, the mean has the scale 1.

        Args:
            largest: the maximum of the ranks' scales, in f32.
            mu: FP8-LM's factor.
            ranks: the number of ranks.
        """
        scales = (largest / mu).clamp(min=ranks * _least(self.scale), max=MOST)
        means = scales / ranks
        if self.scale != torch.float32:
            narrow = means.to(self.scale)
            up = (narrow.view(torch.int16) + (narrow.float() < means)).view(self.scale)
            # Scales beyond f16's largest number are clamped, and values saturate.
            means = up.nan_to_num(posinf=torch.finfo(self.scale).max)
            scales = means.float() * ranks
        return scales, means.where(largest > 0, 1.0)


def _least(scale: torch.dtype) -> float:
    """Returns the smallest scale of a type."""
    return 2.0**-24 if scale == torch.float16 else LEAST


class Adder:
    """Stores sums of tensors with given scales, in one kernel."""

    def __init__(self, sources: Sequence[str], target: str, executor: Executor):
        self._executor = executor
        self._kernel = Kernel(
            _tandem.compile_sum(sources, target, executor.target), None, executor.target)

    def run(self, sizes: Sequence, addresses: Sequence[Sequence[int]], threads: int) -> int:
        """Writes the codes of sums of tensors with these rows and columns. `addresses` has the
        addresses of the sums' and the sources' planes. Waits, and returns how many codes have
        saturated."""
        if not sizes:
            return 0
        plan = self._executor.plan(self._kernel)
        plan.update(sizes, addresses)
        self._executor.launch(plan, [[]], [[]], threads)
        return int(plan.metrics()[0])


_adder = lru_cache(maxsize=None)(Adder)
_compiling = threading.Lock()

# The extension reports kernels that outlive the interpreter.
atexit.register(_adder.cache_clear)


def adder(sources: tuple[str, ...], target: str, executor: Executor) -> Adder:
    """Returns the adder, which is compiled once per process, in 0.1 s for 8 sources and 2.5 s
    for 128."""
    with _compiling:
        return _adder(sources, target, executor)


@dataclass(frozen=True)
class Piece:
    """Consecutive elements of a bucket with consecutive scales.

    Attributes:
        rows: the number of rows, in which groups start anew.
        columns: the length of each row.
        first: the index of the first element in the bucket.
        scale: the index of the first scale in the bucket.
    """

    rows: int
    columns: int
    first: int
    scale: int


class Layout:
    """The tensors of a bucket, whose elements and scales are concatenated.

    Args:
        storages: the storages of all tensors.
        sizes: (rows, columns) of each tensor.
    """

    def __init__(self, storages: Storages, sizes: Sequence[tuple[int, int]]):
        self.storages, self.sizes = storages, list(sizes)
        self.elements = [rows * columns for rows, columns in sizes]
        self.scales = [storages.scales_of(*size) for size in sizes]

    def bounds(self, count: int) -> list[int]:
        """Returns the first element of each slice, and the end of the last one.

        Slices begin at groups; if there are fewer groups than slices, some are empty.
        """
        total = sum(self.elements)
        return [self._group_start(total * i // count) for i in range(count)] + [total]

    def _group_start(self, element: int) -> int:
        """Returns the first element of an element's group."""
        if self.storages.group == WHOLE_TENSOR:
            return element
        first = 0
        for size, (_, columns) in zip(self.elements, self.sizes):
            if element < first + size:
                return element - (element - first) % columns % self.storages.group
            first += size
        return element

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Returns the pieces between two bounds, in order."""
        found, first, scale = [], 0, 0
        for (rows, columns), size, scales in zip(self.sizes, self.elements, self.scales):
            own = max(start - first, 0), min(end - first, size)
            if own[0] < own[1]:
                found += [Piece(p.rows, p.columns, first + p.first, scale + p.scale)
                          for p in self._cut(columns, *own)]
            first, scale = first + size, scale + scales
        return found

    def _cut(self, columns: int, start: int, end: int) -> Iterator[Piece]:
        """Yields the partial row, the whole rows and the partial row between two elements of a
        tensor."""
        group = self.storages.group
        if group == WHOLE_TENSOR:
            yield Piece(1, end - start, start, 0)
            return
        each = -(-columns // group)
        while start < end:
            row, column = divmod(start, columns)
            rows = (end - start) // columns if column == 0 else 0
            width = columns if rows else min(end, (row + 1) * columns) - start
            yield Piece(max(rows, 1), width, start, row * each + column // group)
            start += max(rows, 1) * width


class CodeSum:
    """Adds the codes of a bucket over ranks, with scales that all ranks share.

    Args:
        ranks: the ranks.
        layout: the bucket's tensors.
        executor: the executor for the tensors' device.
        threads: the number of threads for each kernel; results do not depend on it.

    Attributes:
        saturated: the number of codes that have saturated, among this rank's values and its
            slice of the sums.
    """

    def __init__(self, ranks: Ranks, layout: Layout, executor: Executor, threads: int):
        self._ranks, self._layout = ranks, layout
        self._executor, self._threads = executor, threads
        self.saturated = 0

    def encode(self, source: str, planes: Sequence[Sequence[torch.Tensor]],
               scales: torch.Tensor) -> torch.Tensor:
        """Returns this rank's codes with the shared scales.

        Args:
            source: the storage of the tensors' planes, in MLIR's notation.
            planes: the planes of each tensor.
            scales: the f32 scales, concatenated.
        """
        codes = torch.empty(sum(self._layout.elements), dtype=self._layout.storages.code,
                            device=scales.device)
        wholes = self._layout.pieces(0, len(codes))
        addresses = self._addresses(wholes, codes, scales)
        planes = [own for own, size in zip(planes, self._layout.elements) if size]
        for own, tensors in zip(addresses, planes):
            own += [plane.data_ptr() for plane in tensors]
        self._run((source,), wholes, addresses)
        return codes

    def add_up(self, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Returns the codes of the sums over all ranks. Each rank adds the values of its slice
        in f32, in the order of the ranks, and encodes the sum once."""
        bounds = self._layout.bounds(self._ranks.size)
        size = codes.element_size()
        lengths = [(end - start) * size for start, end in zip(bounds, bounds[1:])]
        given = self._ranks.all_to_all(codes.view(torch.uint8), lengths)
        sums = self._sums(given.view(codes.dtype), scales, bounds)
        return self._ranks.all_gather(sums.view(torch.uint8), lengths).view(codes.dtype)

    def _sums(self, given: torch.Tensor, scales: torch.Tensor,
              bounds: Sequence[int]) -> torch.Tensor:
        """Returns this rank's slice of the sums from the slices of all ranks."""
        start, end = bounds[self._ranks.rank:self._ranks.rank + 2]
        sums = given.new_empty(end - start)
        pieces = self._layout.pieces(start, end)
        addresses = self._addresses(pieces, sums, scales, start)
        for rank in range(self._ranks.size):
            first = start - rank * len(sums)
            for own, more in zip(addresses, self._addresses(pieces, given, scales, first)):
                own += more
        self._run((self._layout.storages.given,) * self._ranks.size, pieces, addresses)
        return sums

    @staticmethod
    def _addresses(pieces: Sequence[Piece], codes: torch.Tensor, scales: torch.Tensor,
                   first: int = 0) -> list[list[int]]:
        """Returns the addresses of the planes of pieces; `codes` begins with element `first`."""
        return [[codes.data_ptr() + (piece.first - first) * codes.element_size(),
                 scales.data_ptr() + piece.scale * scales.element_size()]
                for piece in pieces]

    def _run(self, sources: tuple[str, ...], pieces: Sequence[Piece],
             addresses: Sequence[Sequence[int]]) -> None:
        kernel = adder(sources, self._layout.storages.given, self._executor)
        self.saturated += kernel.run([(piece.rows, piece.columns) for piece in pieces],
                                     addresses, self._threads)
