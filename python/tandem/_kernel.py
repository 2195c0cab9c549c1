"""Compiled kernels and plans: the part of the package that needs no framework."""

from __future__ import annotations

import functools
import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tandem import _tandem
from tandem._arrays import address_of, ordinal_of
from tandem._finite_check import FiniteCheck, SkipFlag

#: Flag of a launch (``compile(flags=True)``): a gradient held a NaN or an infinity.
NON_FINITE = _tandem.NON_FINITE

RoleKind = _tandem.RoleKind
Granularity = _tandem.Granularity

#: The group of a plane with one entry for a whole tensor, and of one with an entry for
#: each row of a matrix.
WHOLE_TENSOR = _tandem.WHOLE_TENSOR
WHOLE_ROW = _tandem.WHOLE_ROW

#: The elements that share an entry of a plane, by its group, rows and granularity.
_sharing_of = functools.lru_cache(maxsize=256)(_tandem.get_sharing)


class Plane:
    """One array of a kernel: a whole tensor, or one plane of its storage.

    It has the fields of ``tdm_plane_desc`` (tandem_runtime.h) as attributes: its ``name``
    ("exp_avg_sq.lo"), the ``role`` and ``kind`` of the tensor that it belongs to, the
    ``type`` and ``bits`` of its elements ("bf16", "i8"), whether it is ``visible`` as the
    tensor's value, and more. A field that is not given is that of a plain f32 array
    without a name, which a kernel reads and writes.
    """

    def __init__(self, **fields: object):
        unknown = set(fields) - set(_tandem.PLANE_DEFAULTS)
        if unknown:
            raise TypeError(f"a plane has no field {sorted(unknown)[0]!r}; it has "
                            + ", ".join(_tandem.PLANE_DEFAULTS))
        plain = {"access": _tandem.ACCESS_READ | _tandem.ACCESS_WRITE, "type": "f32",
                 "bits": 32, "kind": RoleKind.STATE, "visible": True}
        self.__dict__.update(_tandem.PLANE_DEFAULTS | plain | fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a plane does not change; make another, with {name}={value!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plane) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"Plane({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def read(self) -> bool:
        """Whether the kernel reads the array."""
        return bool(self.access & _tandem.ACCESS_READ)

    @property
    def written(self) -> bool:
        """Whether the kernel writes the array."""
        return bool(self.access & _tandem.ACCESS_WRITE)

    def groups(self, columns: int, rows: int = 1) -> tuple[int, int]:
        """The numbers of groups of rows and of columns that share an entry, in a matrix or
        a flat tensor of ``columns`` elements. The sizes may be symbolic."""
        sharing = self._sharing
        return tuple(
            1 if not size else min(1, places) if size == _tandem.WHOLE_AXIS else -(-places // size)
            for places, size in ((rows, sharing["rows"]), (columns, sharing["columns"])))

    def entries(self, columns: int, rows: int = 1) -> int:
        """The length of the array for a matrix, or for a flat tensor of ``columns`` elements.

        Groups begin anew in each row.
        """
        return math.prod(self.groups(columns, rows)) * (self.history or 1)

    @property
    def _sharing(self) -> dict[str, object]:
        return _sharing_of(self.group, self.rows, int(self.per))

    @property
    def elements_per_entry(self) -> int:
        """The number of elements that share an entry, or 0 if a row, column or tensor has one."""
        return self._sharing["elements"]

    @property
    def rows_per_entry(self) -> int:
        """The number of rows of a tensor that share an entry, or 0 if a column has one."""
        return self._sharing["rows"]

    @property
    def is_whole_tensor(self) -> bool:
        """Whether all elements of a tensor share one entry."""
        return self.group == WHOLE_TENSOR

    @property
    def is_grouped(self) -> bool:
        """Whether some elements, but not all of a tensor, share an entry."""
        return self.group > 1 and not self.is_whole_tensor

    @property
    def shared_by(self) -> str:
        """The elements that share an entry: "each 128", "the tensor", "each row", "each 64x64";
        empty if each element has an entry of its own."""
        return self._sharing["text"]

    @property
    def bytes_per_element(self) -> float:
        """The plane's part of :attr:`Kernel.bytes_per_parameter`."""
        elements = self.elements_per_entry
        return self.bits / 8 / elements if elements else 0.0

    @property
    def sets_size(self) -> bool:
        """Whether each element has an entry of its own."""
        return self.elements_per_entry == 1


class Kernel:
    """A graph compiled under a strategy, or a kernel of its own, for one target.

    Calling it updates arrays in place::

        kernel({"param": p, "grad": g, "exp_avg": m, "exp_avg_sq": v},
               lr=1e-3, weight_decay=0.1, step=1)

    Arrays are dense CPU arrays (anything with DLPack or the buffer protocol), or,
    for a kernel compiled for a chip such as "sm_90", arrays on one GPU (DLPack or
    ``__cuda_array_interface__``), named as in :attr:`planes`, of one size (those of scales have an entry for
    each group of elements, :meth:`Plane.entries`). A kernel of matrices takes
    arrays with two dimensions, transposed copies with theirs the other way around, and
    what it keeps per row or column with one. 8- and 16-bit planes also
    take integers of that width, so that NumPy arrays, which lack bfloat16 and
    8-bit floats, can hold them.
    """

    def __init__(self, native: _tandem.Kernel, strategy: str | None, target: str):
        self._native = native
        self.strategy = strategy
        self.target = target
        #: The kernel's description besides its arrays and scalars: the fields of
        #: ``tdm_kernel_info`` and ``tdm_kernel_desc`` (tandem_package.h).
        self.info: dict[str, object] = native.info
        self.planes = [Plane(**fields) for fields in native.planes]
        #: Hyperparameters and their defaults (None: must be given).
        self.hypers: dict[str, float | None] = {
            hyper["name"]: hyper["default"] for hyper in native.hypers
        }
        #: Integer scalars (step, seed) by name.
        self.integers: dict[str, RoleKind] = {
            integer["name"]: integer["kind"] for integer in native.integers
        }

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.info["graph"]

    @property
    def _title(self) -> str:
        return self.name + (f" under {self.strategy}" if self.strategy else "")

    @property
    def compute(self) -> str:
        """The compute policy: "component bf16" or "f32 f32"."""
        return self.info["compute"]

    @property
    def bytes_per_parameter(self) -> float:
        """Bytes of weight, gradient and states together, from their storages."""
        return sum(plane.bytes_per_element for plane in self.planes)

    @property
    def phases(self) -> int:
        """The number of times that a step goes over the elements, or over rows: more than one
        if a value of many elements is needed before they can be written."""
        return len(self._native.phases)

    @property
    def launches(self) -> int:
        """Launches of a step that follow each other: phases between which only values of
        the same rows pass are one."""
        return sum(not phase["fused_with_previous"] for phase in self._native.phases)

    @property
    def is_matrix(self) -> bool:
        """Whether tensors are matrices, whose rows and columns the kernel knows."""
        return self.info["matrix"]

    @property
    def is_flat_graph(self) -> bool:
        """Whether the graph's own tensors have one dimension; if the kernel is one of
        matrices, their rows then matter only to scales."""
        return self.info["flat_graph"]

    @property
    def measures(self) -> bool:
        """Whether launches record metrics."""
        return bool(self.info["workspace_doubles_per_chunk"])

    @property
    def reductions(self) -> tuple[tuple[str, str, int], ...]:
        """The reductions that phases compute for later ones: ("sum", "model", phase)."""
        return tuple(
            (of["kind"].name.lower(), of["scope"].name.lower(), of["phase"])
            for of in self._native.reductions
        )

    @property
    def signature(self) -> str:
        """One line per array and scalar that a call takes."""
        lines = [f"{self._title} ({self.compute})"]
        for plane in self.planes:
            access = ("r" if plane.read else "-") + ("w" if plane.written else "-")
            several = f" x {plane.history}" if plane.history else ""
            shared = f" for {plane.shared_by}" if plane.shared_by else ""
            turned = ", transposed" if plane.transposed else ""
            lines.append(f"  {access} {plane.name}: {plane.type}{several}{shared}{turned}")
        for name, default in self.hypers.items():
            given = "" if default is None else f" = {default:g}"
            lines.append(f"     {name}: f64{given}")
        lines += [f"     {name}: i64" for name in self.integers]
        return "\n".join(lines)

    @property
    def image(self) -> bytes:
        """The code for the target: PTX text for a chip, an ELF file for an instruction
        set. That for "cpu" stays in this process."""
        if not self._native.image:
            raise AttributeError(
                f"the code of a kernel for {self.target!r} stays in this process; compile "
                "it for another target, such as 'x86-64-v3' or 'sm_90'")
        return self._native.image[1]

    @property
    def ptx(self) -> str:
        """The PTX text; only for a chip."""
        kind, code = self._native.image or (None, b"")
        if kind != "PTX":
            raise AttributeError(
                f"kernel was compiled for {self.target!r}; compile with "
                "target='sm_90' (or another chip) for PTX")
        return code.decode()

    @property
    def ir(self) -> str:
        """The kernel as MLIR text, after its storages and policy were lowered."""
        return self.info["ir"]

    @functools.cached_property
    def second_moments(self) -> frozenset[str]:
        """The states that are second moments of gradients, none of them negative."""
        return frozenset(role for role, _, is_second in self._native.tensors if is_second)

    @functools.cached_property
    def storages(self) -> dict[str, str]:
        """The storage of each tensor, as MLIR spells it: "#tandem.float<bf16>"."""
        return {role: storage for role, storage, _ in self._native.tensors}

    def save(self, path: str | os.PathLike, targets: Sequence[str] = ()) -> None:
        """Writes a package of this kernel: :func:`save`."""
        save(path, [self], targets)

    def scalars(self, values: Mapping[str, float]) -> tuple[list[float], list[int]]:
        """Hypers and integers in launch order, defaults filled in.

        Raises:
            TypeError: a scalar that the kernel does not have, or one without a default
                that is not given. The number of the step has none.
        """
        unknown = set(values) - set(self.hypers) - set(self.integers)
        if unknown:
            raise TypeError(
                f"{self.name} has no scalar {sorted(unknown)[0]!r}; it takes "
                + ", ".join([*self.hypers, *self.integers]))
        hypers = []
        for name, default in self.hypers.items():
            value = values.get(name, default)
            if value is None:
                raise TypeError(f"{self.name} needs a value for {name!r}")
            hypers.append(float(value))
        return hypers, [self._integer(name, kind, values)
                        for name, kind in self.integers.items()]

    def _integer(self, name: str, kind: RoleKind, values: Mapping[str, float]) -> int:
        """The value of an integer scalar. Seeds default to 0; steps have no default,
        since each call needs another one."""
        if kind is RoleKind.SEED:
            return to_integer(name, values.get(name, 0))
        if name not in values:
            raise TypeError(
                f"{self._title} depends on the number of the step; pass {name}=1 to the "
                "first call, and one more to each call after it")
        return to_step(name, values[name])

    def __call__(
        self,
        arrays: Mapping[str, object],
        *,
        threads: int = 0,
        key: int = 0,
        first: int = 0,
        **scalars: float,
    ) -> int:
        """Runs one step in place and returns the launch's flags
        (:meth:`Plan.launch`).

        ``threads`` 0 means one per core; results do not depend on it. ``key``
        and ``first`` place the tensor for stochastic rounding: its random-number
        key, and the index of its element 0 in the unsharded tensor. A kernel whose
        :attr:`integers` include a step must be given its number, which starts at 1 and
        decides bias corrections and random bits.

        On a GPU the step begins when the GPU has done all its work, and the call
        waits for it; a :class:`Plan` does neither.
        """
        hypers, integers = self.scalars(scalars)
        shape, addresses = self.addresses(arrays)
        plan = Plan(self, self._device_of(arrays))
        if plan.device:
            plan.device.synchronize()
        plan.update([shape], [list(addresses.values())], keys=[to_integer("key", key)],
                    firsts=[to_integer("first", first)])
        return plan.launch([hypers], [integers], threads=threads)

    def _device_of(self, arrays: Mapping[str, object]) -> Device | None:
        """The GPU that has the arrays; None if the CPU does."""
        places = {ordinal_of(plane, arrays[plane.name]) for plane in self.planes}
        if len(places) > 1:
            raise ValueError(f"the arrays of {self._title} are on several devices; "
                             "pass arrays on one")
        ordinal = places.pop()
        return None if ordinal < 0 else _device(ordinal)

    def addresses(
        self, arrays: Mapping[str, object], planes: Sequence[Plane] | None = None,
        *, writes: bool = True, matrix: bool | None = None,
    ) -> tuple[tuple[int, int], dict[str, int]]:
        """The rows and columns (a tensor of any other kernel is one row) and the
        address of each plane, after checking names, types and sizes of the arrays.

        ``planes`` are those that are wanted, all if None; ``writes`` says whether
        what the kernel writes must be writable, ``matrix`` whether arrays have rows,
        which is :attr:`is_matrix` if None.
        """
        matrix = self.is_matrix if matrix is None else matrix
        planes = self.planes if planes is None else planes
        names = [plane.name for plane in planes]
        missing = [name for name in names if name not in arrays]
        extra = [name for name in arrays if name not in names]
        if missing or extra:
            problem = f"lacks {missing[0]!r}" if missing else f"has no {extra[0]!r}"
            raise TypeError(
                f"{self._title} {problem}; its arrays are "
                + ", ".join(names) + self._origin(missing, extra, arrays))
        measure = next(plane for plane in planes if plane.sets_size)
        shape = self._shape(measure, arrays[measure.name], writes, matrix)
        rows, columns = shape
        addresses = {}
        for plane in planes:
            array = arrays[plane.name]
            addresses[plane.name], count, _ = address_of(plane, array, writes)
            wrong_shape = (matrix and plane.sets_size
                           and self._shape(plane, array, writes, matrix) != shape)
            expected = (plane.entries(columns, rows) if self.is_matrix
                        else plane.entries(rows * columns))
            if count != expected or wrong_shape:
                size = f"{rows} rows of {columns}" if matrix else f"{columns}"
                raise ValueError(
                    f"array {plane.name!r} has {count} elements, "
                    f"{measure.name!r} has {size}; " + (
                        "all arrays must have one size" if plane.sets_size else
                        f"a whole tensor has a history of {plane.history}"
                        if plane.history else
                        "a whole tensor shares one entry"
                        if plane.is_whole_tensor else
                        f"one entry for {plane.shared_by}"
                        + (" of them" if plane.elements_per_entry else "")
                        + f" makes {expected}")
                )
        return shape, addresses

    def _origin(self, missing: Sequence[str], extra: Sequence[str],
                arrays: Mapping[str, object]) -> str:
        """Says that arrays look like those of another strategy, if they do."""
        roles = {plane.role for plane in self.planes if plane.kind is not RoleKind.GRAD}
        partial = {p.role for p in self.planes if p.name in missing} & roles
        foreign = [name for name in extra
                   if any(name.startswith(f"{role}.") for role in roles)]
        foreign += [p.name for p in self.planes if p.name in arrays and p.role in partial]
        if not foreign:
            return ""
        return (f"; {foreign[0]!r} looks like a state of another strategy, which "
                "tandem.convert_state converts")

    def _shape(self, plane: Plane, array: object, writes: bool,
               matrix: bool) -> tuple[int, int]:
        """Rows and columns of the matrix of an array with an entry for each element."""
        _, count, shape = address_of(plane, array, writes)
        if not matrix:
            return 1, count
        if len(shape) != 2:
            raise ValueError(
                f"array {plane.name!r} has {len(shape)} dimensions; {self._title} "
                "updates matrices, so pass one with two (array.reshape(len(array), -1))"
            )
        return tuple(reversed(shape) if plane.transposed else shape)

    def __repr__(self) -> str:
        return (
            f"<tandem.Kernel {self.name!r} strategy={self.strategy!r} "
            f"target={self.target!r} {self.bytes_per_parameter:g} B/parameter>"
        )


@functools.lru_cache(maxsize=None)
def _device(ordinal: int) -> Device:
    """A GPU, opened once."""
    return Device(ordinal)


class Device:
    """A device of a driver of the runtime, by its number: by default a GPU."""

    def __init__(self, ordinal: int = 0, driver: str = "cuda"):
        self._native = _tandem.Device(to_text("driver", driver), ordinal)
        self.ordinal: int = self._native.ordinal
        self.name: str = self._native.name
        #: The target that kernels are compiled for, such as "sm_90".
        self.target: str = self._native.target
        self.memory: int = self._native.memory  #: in bytes

    @staticmethod
    def count(driver: str = "cuda") -> int:
        """Returns the number of devices of a driver, which is 0 where its library is missing."""
        return _tandem.device_count(to_text("driver", driver))

    def synchronize(self) -> None:
        """Waits until the device has done all its work."""
        self._native.synchronize()

    def __repr__(self) -> str:
        return f"<tandem.Device {self.ordinal}: {self.name} ({self.target})>"


class Sharding(NamedTuple):
    """A shard of a tensor that is spread over ranks."""

    #: The length of the unsharded tensor's rows, in elements.
    row_length: int
    #: The number of the shard.
    shard: int
    #: The start of each shard and the end of the last one, in elements of the unsharded tensor.
    starts: Sequence[int]
    #: The number of the group of ranks that have the shards.
    group: int = 0


class Plan:
    """A list of tensors that one call updates; it keeps its tables between calls.

    Without a ``device`` it runs kernels for the CPU; with one, kernels compiled for
    that GPU or an earlier one, over memory of the GPU.

    With ``skip_nonfinite`` each launch first reads all gradients, and does nothing if
    one of them has a NaN or an infinity; on a GPU the host does not wait for that.
    """

    def __init__(self, kernel: Kernel, device: Device | None = None,
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
        """Sets the tensors: element counts and, per tensor, its planes' addresses.

        Groups that share a scale begin anew in each row of a tensor whose size is
        (rows, columns), as those of a kernel of matrices are; a count is one row.
        ``rows`` says which row of scalars each tensor uses (default 0), ``firsts`` the
        number of its first element in the unsharded tensor, and ``shardings`` how a tensor
        is spread over ranks that exchange what the kernel reduces.
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
        """Sets the function that adds up unsigned 32-bit words over the ranks of a group, given
        by its number in :class:`Sharding`, in place; a launch over sharded tensors calls it
        for what it reduces, for one group after the other, and so does :meth:`metrics`. What
        it raises, they raise. On a GPU a launch then waits for the device between phases."""
        self._native.set_exchange(exchange)

    def launch(
        self,
        hypers: Sequence[Sequence[float]],
        integers: Sequence[Sequence[int]],
        *,
        threads: int = 0,
    ) -> int:
        """Runs one step with one row of scalars per param group.

        Returns the launch's flags, none of which a kernel raises unless it was
        compiled with ``flags=True``: :data:`NON_FINITE` if a gradient held a NaN
        or an infinity. Such a step is carried out all the same, but with
        ``skip_nonfinite``, which needs no such kernel.
        """
        threads = _to_threads(threads)
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
        """Has the GPU run one step in a stream, a ``CUstream``, and does not wait.

        Unless the 32 bits at the GPU's address ``skip`` are 0 when the step runs,
        it does nothing, as a found infinity demands. The caller orders launches of
        one plan on different streams.

        With ``flags``, the address of two such words, it is not skipped, but sets the
        first to the word at ``skip``, or 0, and raises its flags there.
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
        """:meth:`launch_async` with scalars in the GPU's memory, at two addresses:
        rows of float64 and of int64.

        They count as they are when the step runs, and their domains are not
        checked. Such a launch can be captured in a graph.
        """
        skip = self._look(stream, skip)
        self._native.launch_on_device(hypers, integers, rows, stream, skip, flags)

    def _look(self, stream: int, skip: int) -> int:
        """Launches any check of gradients; returns the address of the word for skipping."""
        if not self._check:
            return skip
        self._check.launch_async(stream, skip, self._skip_flag.address)
        return self._skip_flag.address

    def flags(self) -> int:
        """The flags of the latest launch, for which this waits."""
        found = self._check.plan.flags() & NON_FINITE if self._check else 0
        return found or self._native.flags()

    def metrics(self, tensor: int = -1) -> list[float]:
        """Sums of the latest launch over one tensor, or all (-1).

        With D the intended update and E the change of the stored value: the sum
        of D * E, the sum of D * D, the number of elements with D != 0 and E = 0,
        and the number with D != 0 (Collage, section 3). The sums are balanced
        binary trees in float64, independent of threads and chunks. Needs a
        kernel compiled with ``metrics=True``.
        """
        return self._native.metrics(tensor)


def compile(
    graph: str | os.PathLike,
    strategy: str | None = None,
    target: str = "cpu",
    *,
    path: Sequence[str | os.PathLike] = (),
    isa: str = "native",
    width: int = 0,
    metrics: bool = False,
    flags: bool = False,
    function: str = "",
) -> Kernel:
    """Compiles an optimizer graph under a strategy, or a kernel without one.

    Args:
        graph: a library graph's name, the path of an .mlir file, or MLIR text. The
            file or text may hold one ``tandem.kernel`` instead of a graph, at any
            stage between ``-tandem-form-kernel`` and ``-tandem-split-phases``.
        strategy: a strategy's name: built in, or ``<name>.mlir`` on ``path``; None
            for a kernel, which says itself how its tensors are stored.
        target: "cpu", or an NVIDIA chip such as "sm_90".
        path: directories searched for strategies first.
        isa: for the CPU, "native", "x86-64", "x86-64-v3" or "x86-64-v4"; the
            same bits result from each.
        width: elements per step, a power of two up to 256; 0 chooses.
        metrics: whether each launch also measures the effective descent quality
            (:meth:`Plan.metrics`).
        flags: whether each launch also reports gradients that are not finite
            (:meth:`Plan.launch`).
        function: which graph, where there are several: of a layer the forward pass,
            "rms_norm", or the backward pass, "rms_norm_backward".

    Raises:
        ValueError: what does not compile, with diagnostics and their fields (docs/Python.md).
    """
    native = _tandem.Kernel(
        to_text("graph", graph), to_text("strategy", strategy or ""), directories(path),
        to_text("target", target), to_text("isa", isa), width, metrics, flags,
        to_text("function", function), [], "",
    )
    return Kernel(native, strategy, target)


@dataclass(frozen=True)
class Rules:
    """A strategy that is in no file."""

    compute: str  #: the policy, as :attr:`Kernel.compute` has it
    #: (kind, tensor, storage), None for all tensors of the kind; the first one counts
    storages: tuple[tuple[RoleKind, str | None, str], ...]


def compile_rules(graph: str | os.PathLike, strategy: str, rules: Rules, target: str = "cpu",
                  *, metrics: bool = False, function: str = "") -> Kernel:
    """:func:`compile` under a strategy that is called so and consists of these rules."""
    native = _tandem.Kernel(
        to_text("graph", graph), to_text("strategy", strategy), [], target, "native", 0,
        metrics, False, function, [(int(kind), *rule) for kind, *rule in rules.storages],
        rules.compute,
    )
    return Kernel(native, strategy, target)


def save(
    path: str | os.PathLike,
    kernels: Sequence[Kernel] | Mapping[str, Kernel],
    targets: Sequence[str] = (),
) -> None:
    """Writes a package: a file of kernels that runs without the compiler.

    Args:
        path: the file, NAME.tdm by custom.
        kernels: found by their names, or by those that a mapping gives them.
        targets: what code is for: instruction sets ("x86-64-v3"), NVIDIA chips
            ("sm_90", as PTX) or their machine code ("cubin:sm_90", or
            "cubin-O0:sm_90" without optimization, which take ptxas). By default
            x86-64, x86-64-v3, x86-64-v4 and the chips that the kernels were
            compiled for; a processor gets the best one it can run.

    Raises:
        ValueError: kernels of one name, an unknown target, a file that cannot be
            written.
    """
    if isinstance(targets, (str, bytes)):
        raise TypeError("targets is a list, not one string")
    is_named = isinstance(kernels, Mapping)
    chosen = list(kernels.values() if is_named else kernels)
    for kernel in chosen:
        if not isinstance(kernel, Kernel):
            raise TypeError("kernels are those of tandem.compile or tandem.load, got "
                            f"{kernel!r}")
    names = [to_text("a kernel's name", name)
             for name in (kernels if is_named else [kernel.name for kernel in chosen])]
    _tandem.save(to_text("path", path), [kernel._native for kernel in chosen], names,
                 list(targets))


def load(
    path: str | os.PathLike, name: str = "", target: str = "cpu", *,
    isa: str = "native",
) -> Kernel:
    """Opens a kernel of a package, without compiling anything.

    Packages hold code that runs with your rights: load those you trust.

    Args:
        path: the file that :func:`save` wrote.
        name: the kernel's name; may be left out if there is one kernel only.
        target: "cpu", or a chip whose PTX the package has.
        isa: "native" for the best code in the package that this processor runs,
            or one instruction set; the same bits result from each.

    Raises:
        ValueError: a file that is not a package, damaged or of another version, or has
            no such kernel, or no code for this machine.
    """
    native = _tandem.Kernel(to_text("path", path), to_text("name", name), target, isa)
    return Kernel(native, native.info["strategy"] or None, target)


def graphs() -> list[str]:
    """Names of the built-in graphs."""
    return _tandem.graphs()


def strategies() -> list[str]:
    """Names of the built-in strategies."""
    return _tandem.strategies()


def to_integer(name: str, value: int) -> int:
    """The 64 bits of an integer, signed or not, as a signed one."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"{name} must be an integer of 64 bits, got {number}")
    return (number + 2**63) % 2**64 - 2**63


def to_step(name: str, value: int) -> int:
    """The number of a step, whose 64 bits have a sign."""
    number = to_integer(name, value)
    if number < 0 < operator.index(value):
        raise ValueError(f"{name} is {value}; it must be less than 2**63")
    return number


def _to_threads(threads: int) -> int:
    """A number of threads that the runtime can be asked for."""
    number = to_integer("threads", threads)
    if not 0 <= number <= 1024:
        raise ValueError(f"threads is {number}; pass 0 for one per core, or 1 to 1024")
    return number


def to_text(name: str, value: str | os.PathLike) -> str:
    """A text that C can hold to its end."""
    text = os.fspath(value)
    if "\0" in text:
        raise ValueError(f"{name} has a NUL character, {text[:40]!r}; leave it out")
    return text


def directories(path: Sequence[str | os.PathLike]) -> list[str]:
    """Returns the directories in which strategies are searched, and refuses missing ones."""
    if isinstance(path, (str, bytes)):
        raise TypeError("path is a list of directories, not one string")
    found = [to_text("path", directory) for directory in path]
    for directory in found:
        if not os.path.isdir(directory):
            raise ValueError(f"path has {directory!r}, which is not a directory; name those "
                             "that have strategies")
    return found


def layers() -> list[str]:
    """Names of the built-in layers, each with a forward and a backward pass."""
    return list(_tandem.layers())


def recipes() -> list[str]:
    """Names of the built-in recipes, the strategies of layers."""
    return _tandem.recipes()
