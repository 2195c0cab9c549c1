#===- launch.py - Launch PTX without a GPU ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tables of the launch ABI and the launch of a kernel's
# PTX text by the PTX evaluator.
#
#===----------------------------------------------------------------------===#
"""`launch(kernel, tensors, ...)` runs PTX text on arrays, in place."""

from dataclasses import dataclass

from model.metrics import tree_sum

import numpy as np

from tandem import _tandem


def aligned(count, dtype, offset=0):
    """An array of zeros whose address is `offset` elements past 16 bytes."""
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

    @property
    def size(self):
        return len(next(iter(self.planes.values())))


@dataclass
class Launched:
    """What a launch leaves beside the planes."""

    flags: int
    chunks: list
    #: One row of sums per chunk.
    workspace: np.ndarray

    def metrics(self, tensor):
        """A tensor's sums, as the runtime takes them from those of its chunks."""
        own = [i for i, (index, _, _) in enumerate(self.chunks) if index == tensor]
        return [tree_sum(self.workspace[own, i]) for i in range(self.workspace.shape[1])]


class Regions:
    """The memory that a launch may touch."""

    def __init__(self):
        self.list, self._keep = [], []

    def add(self, name, array, writable):
        """Registers an array; its address, or 0 of an empty one."""
        if array.nbytes == 0:
            return 0
        self._keep.append(array)
        self.list.append((name, array.ctypes.data, array.nbytes, writable))
        return array.ctypes.data

    def table(self, name, values, dtype):
        return self.add(name, aligned_copy(np.asarray(values, dtype=dtype)), False)


def chunk_records(tensors, chunk_size):
    """{tensor, begin, end} of chunks of at most `chunk_size` elements."""
    return [(index, begin, min(begin + chunk_size, tensor.size))
            for index, tensor in enumerate(tensors)
            for begin in range(0, tensor.size, chunk_size)]


def tensor_words(kernel, tensors, chunks, totals, regions):
    """{rows, columns, first, key, scalar row}, the planes' addresses and, where the
    kernel has reductions, {totals, first chunk, end chunk}."""
    words = []
    for index, tensor in enumerate(tensors):
        words += [1, tensor.size, tensor.first, tensor.key, tensor.row]
        for plane in kernel.planes:
            words.append(regions.add(f"{plane.name}[{index}]",
                                     tensor.planes[plane.name], plane.written))
        if kernel._native.reductions:
            first = sum(chunk[0] < index for chunk in chunks)
            own = sum(chunk[0] == index for chunk in chunks)
            words += [regions.add(f"totals[{index}]", totals[index], True), first,
                      first + own]
    return words


def scalar_rows(kernel, rows):
    """The prologue's output: one row of 32-bit slots per row of scalars."""
    hypers, integers = zip(*[kernel.scalars(row) for row in rows])
    regions = Regions()
    slots = aligned(len(rows) * kernel._native.num_scalars, np.uint32)
    parameters = [regions.table("hypers", np.ravel(hypers), np.float64),
                  regions.table("integers", np.ravel(integers), np.int64),
                  regions.add("scalars", slots, True), len(rows)]
    _tandem.evaluate_ptx(kernel.ptx, f"tandem_{kernel.name}_prologue", parameters, 1,
                         1, regions.list)
    return slots


def phase_names(kernel):
    """The kernels of a step in order: (name, whether it runs over chunks)."""
    native = kernel._native
    for phase in range(native.num_phases):
        last = phase + 1 == native.num_phases
        name = f"tandem_{kernel.name}" + ("" if last else f"_phase{phase}")
        yield name, True
        own = [over_model for _, of, over_model in native.reductions if of == phase]
        if own:
            yield name + "_totals", False
        if any(own):
            yield name + "_model", False
    if native.has_commit:
        yield f"tandem_{kernel.name}_commit", False


def launch(kernel, tensors, rows, chunk_size=64, blocks=1, threads=32,
           chunk_range=None):
    """Runs the prologue and the phases of a kernel; a :class:`Launched`.

    `rows` holds the scalars of each row by name; `chunk_range` restricts the
    launch to some of the chunks.
    """
    regions = Regions()
    chunks = chunk_records(tensors, chunk_size)
    begin, end = chunk_range or (0, len(chunks))
    reductions = len(kernel._native.reductions)
    totals = [aligned(reductions, np.uint32) for _ in tensors]
    words = tensor_words(kernel, tensors, chunks, totals, regions)
    flags = aligned(4, np.uint32)
    slots = reductions + kernel._native.num_metrics
    workspace = aligned(len(chunks) * slots, np.float64)
    parameters = [regions.table("tensors", words, np.int64),
                  regions.table("chunks", np.ravel(chunks), np.int64),
                  regions.add("scalars", scalar_rows(kernel, rows), False),
                  regions.add("workspace", workspace, True),
                  regions.add("flags", flags, True)]
    for name, over_chunks in phase_names(kernel):
        work = [begin, end] if over_chunks else [0, len(tensors)]
        grid = 1 if name.endswith("_model") else blocks
        _tandem.evaluate_ptx(kernel.ptx, name, parameters + work, grid, threads,
                             regions.list)
    assert (flags[1:] == 0).all()
    return Launched(int(flags[0]), chunks,
                    workspace.reshape(len(chunks), slots)[:, reductions:])
