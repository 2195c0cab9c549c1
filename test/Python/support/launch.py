#===- launch.py - Launch PTX without a GPU ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tables of the launch ABI, and launches a kernel's PTX in the PTX
# evaluator.
#
#===----------------------------------------------------------------------===#
"""`launch(kernel, tensors, ...)` runs PTX in place on arrays."""

import math
from dataclasses import dataclass

from model.metrics import tree_sum

import numpy as np

from tandem import _tandem
from tandem._plane import Granularity

#: Suffixes of functions, and the number of totals that kernels may read past the last one.
CONSTANTS = _tandem.launch_constants
PADDING = CONSTANTS["PADDING"]


def aligned(count, dtype, offset=0):
    """Returns an array of zeros whose address is `offset` elements past 16 bytes."""
    itemsize = np.dtype(dtype).itemsize
    memory = np.zeros((count + offset) * itemsize + 32, dtype=np.uint8)
    begin = -memory.ctypes.data % 16 + offset * itemsize
    return memory[begin:begin + count * itemsize].view(dtype)


def aligned_copy(array, offset=0):
    copy = aligned(len(array), array.dtype, offset)
    copy[:] = array
    return copy


@dataclass
class Tensor:
    """One tensor of a launch; `planes` are updated in place."""

    planes: dict
    first: int = 0
    key: int = 0
    row: int = 0
    #: Rows and columns, of a matrix or if groups restart in each row.
    shape: tuple = ()

    #: A plane with an entry for each element; empty for the first plane.
    measure: str = ""

    @property
    def size(self):
        return len(self.planes[self.measure or next(iter(self.planes))])

    def extent(self, per, block=0):
        """Returns the number of elements, rows, columns or, if there are any, blocks."""
        if per == Granularity.ELEMENT:
            return self.size
        if not self.size or (per == Granularity.BLOCK and not block):
            return 0
        if per == Granularity.BLOCK:
            return math.prod(-(-n // block) for n in self.shape)
        return self.shape[per - 1]


@dataclass
class Launched:
    """The results of a launch other than the planes."""

    flags: int
    chunks: list
    #: One row of sums per chunk.
    workspace: np.ndarray

    def metrics(self, tensor):
        """Returns a tensor's sums, which the runtime adds up from those of its chunks."""
        own = [i for i, (index, *_) in enumerate(self.chunks) if index == tensor]
        return [tree_sum(self.workspace[own, i]) for i in range(self.workspace.shape[1])]


class Regions:
    """The memory that a launch may access."""

    def __init__(self):
        self.list, self._keep = [], []

    def add(self, name, array, writable):
        """Registers an array and returns its address, or 0 if it is empty."""
        if array.nbytes == 0:
            return 0
        self._keep.append(array)
        self.list.append((name, array.ctypes.data, array.nbytes, writable))
        return array.ctypes.data

    def table(self, name, values, dtype):
        return self.add(name, aligned_copy(np.asarray(values, dtype=dtype)), False)


def _record_type(name):
    """Returns the NumPy dtype of a launch ABI record, all of whose fields have 64 bits."""
    size, offsets = _tandem.launch_abi[name]
    return np.dtype({"names": list(offsets), "formats": ["<i8"] * len(offsets),
                     "offsets": list(offsets.values()), "itemsize": size})


TENSOR, CHUNK, TILE = map(_record_type, ("tensor", "chunk", "tile"))


def chunk_records(tensors, chunk_size, per, block):
    """Returns {tensor, row, begin, end} for chunks of at most `chunk_size` rows, columns or
    blocks."""
    return [(index, 0, begin, min(begin + chunk_size, tensor.extent(per, block)))
            for index, tensor in enumerate(tensors)
            for begin in range(0, tensor.extent(per, block), chunk_size)]


def element_records(tensors, chunk_size):
    """Returns records of a flat tensor's elements; each of its rows has separate chunks."""
    return [(index, row, begin, min(begin + chunk_size, columns))
            for index, (rows, columns) in enumerate(t.shape or (1, t.size) for t in tensors)
            for row in range(rows) for begin in range(0, columns, chunk_size)]


@dataclass
class Tiles:
    """The tiles of a launch of a matrix kernel: powers of two, with whole groups."""

    rows: int
    columns: int

    def records(self, tensors):
        """Returns {tensor, first row, end, first column, end, parts of rows, of columns}."""
        return [(index, r, min(r + self.rows, rows), c, min(c + self.columns, columns),
                 c // self.columns * rows, r // self.rows * columns)
                for index, (rows, columns) in enumerate(t.shape for t in tensors)
                for r in range(0, rows, self.rows)
                for c in range(0, columns, self.columns)]

    def bands(self, tensors):
        """Returns the records of tiles that contain whole rows."""
        return [(index, r, min(r + self.rows, rows), 0, columns, 0,
                 r // self.rows * columns)
                for index, (rows, columns) in enumerate(t.shape for t in tensors)
                if columns for r in range(0, rows, self.rows)]

    def counts(self, tensor):
        """Returns the numbers of tiles that have parts of a row, and of a column."""
        rows, columns = tensor.shape
        return -(-columns // self.columns), -(-rows // self.rows)


class WithPTX:
    """A kernel with changed PTX, as if the compiler had a fault."""

    def __init__(self, kernel, ptx):
        self._kernel, self.ptx = kernel, ptx

    def __getattr__(self, name):
        return getattr(self._kernel, name)


def own_range(chunks, index):
    """Returns the first of a tensor's chunks, and the end of their range."""
    first = sum(chunk[0] < index for chunk in chunks)
    return [first, first + sum(chunk[0] == index for chunk in chunks)]


def part_addresses(kernel, tensor, index, tiles, regions):
    """Returns the addresses of the parts of a matrix's reductions."""
    counts = tiles.counts(tensor)
    for i, (_, scope, _) in enumerate(kernel.reductions):
        axis = {"row": 0, "column": 1}.get(scope)
        entries = 0 if axis is None else tensor.shape[axis] * counts[axis] + PADDING
        if scope == "block":
            entries = tensor.extent(Granularity.BLOCK, kernel.info["block"]) + PADDING
        yield regions.add(f"parts[{i}][{index}]", aligned(entries, np.uint32), True)


def tensor_head(kernel, tensor, index, chunks, tiles, totals):
    """Returns a tensor's record without the addresses that follow."""
    head = np.zeros((), TENSOR)
    head["rows"], head["columns"] = tensor.shape or (1, tensor.size)
    head["num_elements"] = head["rows"] * (1 if kernel.is_matrix else head["columns"])
    head["first"], head["key"], head["scalar_row"] = tensor.first, tensor.key, tensor.row
    head["totals"] = totals
    if kernel.reductions or kernel.is_matrix:
        per = Granularity.ROW if kernel.is_matrix else Granularity.ELEMENT
        head["first_chunk"], head["end_chunk"] = own_range(chunks[per], index)
    if kernel.is_matrix:
        head["first_column_chunk"], head["end_column_chunk"] = own_range(
            chunks[Granularity.COLUMN], index)
        head["tiles_across"], head["tiles_down"] = tiles.counts(tensor)
    return head


def tensor_records(kernel, tensors, chunks, tiles, totals, regions):
    """Returns the bytes of all records; each has a head, the addresses of its planes, and those
    of the parts of its reductions."""
    records = b""
    for index, tensor in enumerate(tensors):
        planes = [regions.add(f"{plane.name}[{index}]", tensor.planes[plane.name],
                              plane.written) for plane in kernel.planes]
        own = regions.add(f"totals[{index}]", totals[index], True)
        parts = (part_addresses(kernel, tensor, index, tiles, regions)
                 if kernel.is_matrix else [0] * len(kernel.reductions))
        head = tensor_head(kernel, tensor, index, chunks, tiles, own)
        records += head.tobytes() + np.array([*planes, *parts], np.int64).tobytes()
    return np.frombuffer(records, np.int64)


def scalar_rows(kernel, rows):
    """Returns the prologue's output: one row of 32-bit slots per row of scalars."""
    hypers, integers = zip(*[kernel.scalars(row) for row in rows])
    regions = Regions()
    slots = aligned(len(rows) * kernel.info["num_scalars"], np.uint32)
    parameters = [regions.table("hypers", np.ravel(hypers), np.float64),
                  regions.table("integers", np.ravel(integers), np.int64),
                  regions.add("scalars", slots, True), len(rows)]
    _tandem.evaluate_ptx(kernel.ptx, f"tandem_{kernel.name}{CONSTANTS['PROLOGUE']}", parameters, 1,
                         1, regions.list)
    return slots


#: The name of the range of a launch of several phases.
BANDS = "bands"


def phase_names(kernel, by_rows):
    """Returns the kernels of a step in order: (name, its range, or None for tensors)."""
    phases = kernel._native.phases
    is_fused = [by_rows and phase["fused_with_previous"] for phase in phases] + [False]
    for phase, part in enumerate(phases):
        last = phase + 1 == kernel.phases
        name = f"tandem_{kernel.name}" + ("" if last else f"_phase{phase}")
        if is_fused[phase + 1] and not is_fused[phase]:
            yield name + CONSTANTS["BANDS"], BANDS
        elif not is_fused[phase]:
            yield name, part["per"]
        in_bands = is_fused[phase] or is_fused[phase + 1]
        own = {scope for _, scope, of in kernel.reductions if of == phase}
        if own & {"tensor", "model"}:
            yield name + CONSTANTS["TOTALS"], None
        if "model" in own:
            yield name + CONSTANTS["MODEL"], None
        if "row" in own and not in_bands:
            yield name + CONSTANTS["ROW_TOTALS"], Granularity.ROW
        if "column" in own:
            yield name + CONSTANTS["COLUMN_TOTALS"], Granularity.COLUMN
    for part in kernel._native.epilogues:
        yield part["entry"], part["per"] or None


def all_chunks(kernel, tensors, chunk_size, tiles):
    """Returns the chunks of elements (tiles for matrices), and those of rows, columns, blocks."""
    if not kernel.is_matrix:
        return {Granularity.ELEMENT: element_records(tensors, chunk_size)}
    # A chunk consists of whole groups.
    length, block = max(chunk_size, 256), kernel.info["block"]
    return {Granularity.ELEMENT: tiles.records(tensors), BANDS: tiles.bands(tensors)} | {
        per: chunk_records(tensors, length, per, block)
        for per in (Granularity.ROW, Granularity.COLUMN, Granularity.BLOCK)}


def launch(kernel, tensors, rows, chunk_size=64, blocks=1, threads=32,
           chunk_range=None, tiles=Tiles(4, 256), by_rows=True):
    """Runs the prologue and the phases of a kernel and returns a :class:`Launched`.

    `rows` holds the scalars of each row by name; `chunk_range` restricts the launch to some of the
    chunks. With `by_rows`, fused phases are one launch, whose tiles have 8 columns per thread.
    """
    regions = Regions()
    measure = next((plane.name for plane in kernel.planes if plane.sets_size), "")
    for tensor in tensors:
        tensor.measure = measure
    if block := kernel.info["block"]:
        # A block must be within one tile.
        tiles = Tiles(block, max(tiles.columns, block))
    by_rows &= tiles.columns == 8 * threads
    chunks = all_chunks(kernel, tensors, chunk_size, tiles)
    elements = chunks[Granularity.ELEMENT]
    reductions = len(kernel.reductions)
    totals = [aligned(reductions, np.uint32) for _ in tensors]
    words = tensor_records(kernel, tensors, chunks, tiles, totals, regions)
    flags = aligned(4, np.uint32)
    slots = reductions + kernel.info["workspace_doubles_per_chunk"]
    most = max(len(table) for table in chunks.values())
    workspace = aligned(most * slots, np.float64)
    parameters = [regions.table("tensors", words, np.int64),
                  regions.add("scalars", scalar_rows(kernel, rows), False),
                  regions.add("workspace", workspace, True),
                  regions.add("flags", flags, True)]
    tiled = {Granularity.ELEMENT, BANDS} if kernel.is_matrix else set()
    tables = {per: regions.table(f"chunks[{per}]", table, TILE if per in tiled else CHUNK)
              for per, table in chunks.items()}
    for name, per in phase_names(kernel, by_rows):
        table = tables[per or Granularity.ELEMENT]
        work = [0, len(tensors)] if per is None else [0, len(chunks[per])]
        if per == Granularity.ELEMENT and chunk_range:
            work = list(chunk_range)
        grid = 1 if name.endswith(CONSTANTS["MODEL"]) else blocks
        _tandem.evaluate_ptx(
            kernel.ptx, name, [parameters[0], table, *parameters[1:], *work], grid,
            threads, regions.list)
    assert (flags[1:] == 0).all()
    used = workspace[:len(elements) * slots].reshape(len(elements), slots)
    return Launched(int(flags[0]), elements, used[:, reductions:])
