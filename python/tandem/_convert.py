"""Conversion of stored values from one storage to another, and of whole states."""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tandem import _kernel
from tandem._kernel import (WHOLE_TENSOR, Granularity, Kernel, Plan, Plane,
                            RoleKind)

_FLOAT = re.compile(r"#tandem\.(?:float|kahan)<(\w+)>")
_BY_BITS = re.compile(r"<(?:stochastic|dither)>|, (?:rounding = )?(?:stochastic|dither)(?=[,>])")
_BLOCK = re.compile(r"group = (\d+)x\d+")
_EXPANSION = re.compile(r"#tandem\.expansion<(\w+) x (\d+)>")

_KERNEL = """
tandem.kernel @{name} compute(<f32, f32>) {matrix}tensors [{roles}] scalars [] prologue {{
  tandem.yield
}} body {{
^bb0({arguments}):
  {body}
  tandem.yield
}}"""


def nearest(storage: str) -> str:
    """The storage as a conversion writes it: rounded to nearest, since no step tells
    which bits to round by."""
    return _BY_BITS.sub("", storage)


def _sum(storage: str) -> tuple[str, int] | None:
    """(F, n) of a storage whose value is the sum of n planes of F."""
    if match := _FLOAT.fullmatch(storage):
        # What Kahan's compensation holds is still to be added.
        return match[1], 2 if "kahan" in storage else 1
    if match := _EXPANSION.fullmatch(storage):
        return match[1], int(match[2])
    return None


#===------------------------------------------------------------------------===#
# Kernels
#===------------------------------------------------------------------------===#


def _stored(storage: str) -> str:
    return f"!tandem.stored<tensor<?xf32>, {storage}>"


def write_kernel(targets: list[str], sources: list[str], body: list[str],
                 matrix: bool = False, name: str = "convert", floor: bool = False) -> str:
    """A kernel on tensors %to0, ..., %from0, ... of these storages. With `floor` targets
    are second moments, in which nothing positive becomes zero."""
    state = ", moment = second, domain = nonneg" if floor else ""
    tensors = ([("state", f"to{i}", s) for i, s in enumerate(targets)]
               + [("grad", f"from{i}", s) for i, s in enumerate(sources)])
    blocks = {match[1] for s in targets + sources for match in _BLOCK.finditer(s)}
    return _KERNEL.format(
        name=name,
        matrix="".join(["matrix " * matrix, *(f"block({size}) " for size in blocks)]),
        roles=", ".join(f'#tandem.role<{kind} "{name}"{state if kind == "state" else ""}>'
                        for kind, name, _ in tensors),
        arguments=", ".join(f"%{name}: {_stored(s)}" for _, name, s in tensors),
        body="\n  ".join(body),
    )


def _write_value(source: str, target: str, adds: bool, matrix: bool,
                 floor: bool) -> str:
    """Reads a value as an f32 and writes it, or adds it to the one that is there."""
    body = [f"%x = tandem.load %from0 : {_stored(source)} -> f32"]
    value = "%x"
    if adds:
        body += [f"%old = tandem.load %to0 : {_stored(target)} -> f32",
                 "%sum = arith.addf %old, %x : f32"]
        value = "%sum"
    body.append(f"tandem.store {value}, %to0 : f32, {_stored(target)}")
    return write_kernel([target], [source], body, matrix, floor=floor)


def write_sum(sources: Sequence[str], target: str) -> str:
    """A kernel that stores the sum of values, added up in f32 in their order, and
    measures how many codes have become the largest number."""
    body = [f"%x{i} = tandem.load %from{i} : {_stored(s)} -> f32"
            for i, s in enumerate(sources)]
    value = "%x0"
    for i in range(1, len(sources)):
        body.append(f"%sum{i} = arith.addf {value}, %x{i} : f32")
        value = f"%sum{i}"
    body += [f"tandem.store {value}, %to0 : f32, {_stored(target)}",
             f"tandem.saturation %to0 : {_stored(target)}"]
    return write_kernel([target], list(sources), body)


class _Renormalizer:
    """Writes a kernel that cuts a sum of floats into floats of another format.

    It only uses exact sums, so that nothing is lost before the last plane.
    """

    _PAIR = "!mcf.expansion<f32 x 2>"

    def __init__(self, source: tuple[str, int], target: tuple[str, int]):
        self.source, self.target = source, target
        self.body = ["%zero = arith.constant 0.0 : f32"]
        self.terms = [
            self.define(f"tandem.load %from{i} : "
                        f"{_stored(f'#tandem.float<{source[0]}>')} -> f32")
            for i in range(source[1])
        ]

    def define(self, operation: str) -> str:
        name = f"%v{len(self.body)}"
        self.body.append(f"{name} = {operation}")
        return name

    def add_up(self) -> None:
        """Moves the whole sum into the first term, what does not fit behind it."""
        for i in reversed(range(len(self.terms) - 1)):
            total = self.define(f"mcf.two_sum {self.terms[i]}, {self.terms[i + 1]} "
                                f": {self._PAIR}")
            name = f"%v{len(self.body)}"
            self.body.append(f"{name}:2 = mcf.components {total} : {self._PAIR}")
            self.terms[i], self.terms[i + 1] = f"{name}#0", f"{name}#1"

    def cut(self) -> str:
        """The next plane: the first term, rounded; it leaves the rest."""
        self.add_up()
        rounded, format = self.terms[0], self.target[0]
        if format != "f32":
            narrow = self.define(f"arith.truncf {rounded} : f32 to {format}")
            rounded = self.define(f"arith.extf {narrow} : {format} to f32")
        self.terms[0] = self.define(f"arith.subf {self.terms[0]}, {rounded} : f32")
        return rounded

    def write(self) -> str:
        planes = [self.cut() for _ in range(self.target[1])]
        none = self.define(f"arith.subf {planes[0]}, {planes[0]} : f32")
        finite = self.define(f"arith.cmpf oeq, {none}, %zero : f32")
        storage = f"#tandem.float<{self.target[0]}>"
        for i, plane in enumerate(planes):
            if i:
                plane = self.define(f"arith.select {finite}, {plane}, %zero : f32")
            self.body.append(f"tandem.store {plane}, %to{i} : f32, {_stored(storage)}")
        return write_kernel([storage] * self.target[1],
                            [f"#tandem.float<{self.source[0]}>"] * self.source[1],
                            self.body)


def _under_f32(storage: str) -> tuple[str, slice]:
    """A storage of the f32 policy with the same f32 value, and on which planes."""
    if storage.startswith("#tandem.expansion<f32"):
        return "#tandem.float<f32>", slice(0, 1)
    if storage.startswith("#tandem.kahan<"):
        format, count = _sum(storage)
        return f"#tandem.expansion<{format} x {count}>", slice(None)
    return storage, slice(None)


#===------------------------------------------------------------------------===#
# Conversions
#===------------------------------------------------------------------------===#


class Host:
    """Where kernels run and memory is: here, the CPU."""

    #: The GPU, if it is one.
    device: _kernel.Device | None = None
    #: What kernels are compiled for.
    target = "cpu"
    #: What orders the work, where there is more than one such thing.
    stream = 0
    is_capturing = False

    def plan(self, kernel: Kernel) -> Plan:
        """A plan for the next launch."""
        return Plan(kernel)

    def launch(self, plan: Plan, hypers, integers, threads: int = 0) -> int:
        """Runs one step; returns its flags where they are known."""
        return plan.launch(hypers, integers, threads=threads)

    def call(self, work) -> None:
        """Does a framework's own work in its order."""
        work()

    def copy(self, to: int, source: int, bytes: int) -> None:
        """Copies memory."""
        ctypes.memmove(to, source, bytes)

    def clear(self, to: int, bytes: int) -> None:
        """Makes memory zero."""
        ctypes.memset(to, 0, bytes)


CPU = Host()



@dataclass(frozen=True)
class Tensor:
    """A tensor in memory: its size, the addresses of its planes, its place.

    A vector per row or column of a matrix is a flat tensor of its own.
    """

    size: int | tuple[int, int]  #: its elements, or its rows and columns
    addresses: Sequence[int]
    first: int = 0

    def bytes(self, plane: Plane) -> int:
        """What a plane of the tensor takes."""
        rows, columns = self.size if isinstance(self.size, tuple) else (1, self.size)
        flat = replace(plane, per=Granularity.ELEMENT)
        return flat.entries(columns, rows) * plane.bits // 8


class Conversion:
    """Converts tensors from one storage to another.

    Storages that are alike, and sums of planes of one format, are copied bit for
    bit. Else a kernel carries the value over, that is the exact sum where both
    are sums of floats, and elsewhere the f32 that docs/Numerics.md decodes.

    Args:
        adds: whether the value is added to the one that is there, in f32.
        fresh: whether targets are new. Then a scale that would be given is made, and
            what delayed scaling remembers begins with the value.
        matrix: whether tensors are matrices, whose groups begin anew in each row.
        floor: whether what is positive stays positive, as in second moments. Then the
            value goes through f32.
        chip: what the kernel is compiled for.
    """

    def __init__(self, source: str, target: str, adds: bool = False, fresh: bool = True,
                 matrix: bool = False, floor: bool = False, chip: str = "cpu"):
        source, target = nearest(source), nearest(target)
        ours, theirs = _sum(source), _sum(target)
        self._kernel: Kernel | None = None
        self._reads = self._writes = slice(None)
        if not adds and (source == target
                         or (ours and theirs and ours[0] == theirs[0])):
            return
        #: The first time to see how large a scale has to be.
        self._times = 2 if fresh and "history = " in target else 1
        if fresh:
            target = target.replace("recipe = given", "recipe = pow2")
        if not adds and ours and theirs and not (floor and theirs[0] != "f32"):
            # Without groups, all elements are alike.
            text, matrix = _Renormalizer(ours, theirs).write(), False
        else:
            source, self._reads = _under_f32(source)
            target, self._writes = _under_f32(target)
            text = _write_value(source, target, adds, matrix, floor)
        self._kernel = _kernel.compile(text, target=chip)

    def run(self, sources: Sequence[Tensor], targets: Sequence[Tensor],
            planes: Sequence[Plane], threads: int = 0, place: Host = CPU) -> None:
        """Converts each source to the target beside it, of these planes."""
        if self._kernel is None:
            self._copy(place, sources, targets, planes)
            return
        plan, tensors = place.plan(self._kernel), list(zip(sources, targets))
        plan.update(
            [target.size for _, target in tensors],
            [[*target.addresses[self._writes], *source.addresses[self._reads]]
             for source, target in tensors],
            firsts=[target.first for _, target in tensors],
        )
        # Where the target rounds stochastically, as in step 1 with seed 0.
        integers = [int(kind is RoleKind.STEP)
                    for kind in self._kernel.integers.values()]
        if self._times > 1:
            self._clear(place, targets, planes)
        for _ in range(self._times):
            place.launch(plan, [[]], [integers], threads)
        if self._writes.stop is not None:
            self._copy(place, [], targets, planes, self._writes.stop)

    @staticmethod
    def _clear(place, targets, planes) -> None:
        """Makes targets remember nothing."""
        for target in targets:
            for plane, address in zip(planes, target.addresses):
                if plane.kept and target.bytes(plane):
                    place.clear(address, target.bytes(plane))

    @staticmethod
    def _copy(place, sources, targets, planes, start: int = 0) -> None:
        """Copies planes; those from `start` on that no source has are zero."""
        for i, target in enumerate(targets):
            known = sources[i].addresses if sources else []
            for j in range(start, len(target.addresses)):
                bytes = target.bytes(planes[j])
                if not bytes:
                    continue
                if j < len(known):
                    place.copy(target.addresses[j], known[j], bytes)
                else:
                    place.clear(target.addresses[j], bytes)


@lru_cache(maxsize=None)
def conversion(source: str, target: str, adds: bool = False,
               fresh: bool = True, matrix: bool = False, floor: bool = False,
               chip: str = "cpu") -> Conversion:
    """The conversion between two storages, compiled once per process."""
    return Conversion(source, target, adds, fresh, matrix, floor, chip)


def _stamp(file: str) -> tuple:
    """What tells that a file has changed."""
    try:
        state = os.stat(file)
    except (OSError, ValueError):
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


def compile_written(graph: str | os.PathLike, strategy: str, text: str | None,
                    target: str, path: Sequence[str | os.PathLike], **options) -> Kernel:
    """tandem.compile under a strategy that is text and has no file; None for one that
    is found by its name. The compiler reads strategies only from files."""
    if text is None:
        return _kernel.compile(graph, strategy, target, path=path, **options)
    with tempfile.TemporaryDirectory(prefix="tandem-") as directory:
        with open(os.path.join(directory, strategy + ".mlir"), "w",
                  encoding="utf-8") as file:
            file.write(text)
        return _kernel.compile(graph, strategy, target, path=[directory, *path], **options)


@lru_cache(maxsize=256)
def _compile(graph: str, strategy: str, text: str | None, path: tuple[str, ...],
             target: str, metrics: bool, stamps) -> Kernel:
    return compile_written(graph, strategy, text, target, path, metrics=metrics)


# The extension reports kernels that outlive the interpreter.
atexit.register(conversion.cache_clear)
atexit.register(_compile.cache_clear)


def compiled(graph: str | os.PathLike, strategy: str,
             path: Sequence[str | os.PathLike], target: str = "cpu",
             text: str | None = None, metrics: bool = False) -> Kernel:
    """tandem.compile, once in a process as long as the files stay the same; `text` is the
    strategy's, if that has no file."""
    graph, path = os.fspath(graph), tuple(os.fspath(p) for p in path)
    files = [graph, *(os.path.join(p, strategy + ".mlir") for p in path)]
    return _compile(graph, strategy, text, path, target, metrics,
                    tuple(map(_stamp, files)))


def planes_of(kernel: Kernel, role: str) -> list[Plane]:
    """The planes of one tensor, in order."""
    return [plane for plane in kernel.planes if plane.role == role]


def kept_roles(kernel: Kernel) -> list[str]:
    """The tensors that live from step to step: the params and the states."""
    kinds = (RoleKind.PARAM, RoleKind.STATE)
    return list(dict.fromkeys(p.role for p in kernel.planes if p.kind in kinds))


@dataclass(frozen=True)
class Stored:
    """How a kernel keeps a tensor."""

    storage: str
    planes: list[Plane]
    #: Whether it is a matrix, and not a vector or a flat tensor.
    matrix: bool
    #: Whether it is a second moment, in which what is positive is not stored as zero.
    floor: bool

    @classmethod
    def of(cls, kernel: Kernel, role: str) -> Stored:
        """One of a kernel's tensors."""
        planes = planes_of(kernel, role)
        matrix = kernel.is_matrix and planes[0].per == Granularity.ELEMENT
        return cls(kernel.storages[role], planes, matrix, role in kernel.second_moments)

    @property
    def is_grouped(self) -> bool:
        """Whether neighbours share a scale, which those of a matrix do by rows."""
        return any(plane.is_grouped for plane in self.planes)

    def meets(self, other: Stored) -> bool:
        """Whether one kernel can read the one and write the other."""
        if not (self.is_grouped and other.is_grouped):
            return True
        blocks = {plane.rows for stored in (self, other) for plane in stored.planes
                  if plane.is_grouped and plane.rows > 1}
        return self.matrix == other.matrix and len(blocks) < 2

    def shape_of(self, plane: Plane, rows: int, columns: int) -> tuple[int, ...]:
        """The shape of a plane's array; groups of a matrix begin anew in each row."""
        if not self.matrix and plane.per == Granularity.ELEMENT:
            return (plane.entries(rows * columns),)
        if not self.matrix or plane.group == WHOLE_TENSOR:
            return (plane.entries(columns, rows),)
        return -(-rows // plane.rows), -(-columns // plane.group)


#: A value between two storages that no one kernel knows.
WIDE = "#tandem.float<f32>"
WIDE_PLANE = Plane("", "", RoleKind.STATE, "f32", 32, True, True, True)


def carry(source: Stored, target: Stored, size: int | tuple[int, int],
          addresses: tuple[list[int], list[int]], first: int, threads: int) -> None:
    """Converts one tensor; `addresses` are those of the source's and target's planes."""
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
    run(source.storage, WIDE, source.matrix, start, wide, [WIDE_PLANE])
    run(WIDE, target.storage, target.matrix, wide, end, target.planes)


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
    """The params and states of a graph under another strategy.

    What both strategies store alike is copied bit for bit. Else the value is
    carried over, exactly where the target can hold it, and rounded to nearest
    where not (docs/Strategies.md says what that means for each storage).

    Args:
        graph: as for :func:`compile`.
        arrays: the planes under `source`, as its kernel takes them. Those of
            gradients may be left out; they are converted if they are there.
        source: the strategy that the arrays are stored by.
        target: the strategy to convert to.
        path: directories searched for strategies first.
        first: the index of element 0 in the unsharded tensor.
        threads: 0 means one per core; results do not depend on it.

    Returns:
        New NumPy arrays, one for each plane: float32, and unsigned integers that
        hold the bits of every other type. Those of a matrix have two dimensions.
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
