"""Kernels, and functions that compile, save and load them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tandem import _tandem
from tandem._arguments import directories, to_integer, to_step, to_text
from tandem._arrays import address_of, ordinal_of
from tandem._device import Device, open_gpu
from tandem._plan import Plan, check_external
from tandem._plane import Plane, RoleKind


class Kernel:
    """A graph compiled under a strategy, or a compiled ``tandem.kernel``, for one target.

    Calling it updates arrays in place::

        kernel({"param": p, "grad": g, "exp_avg": m, "exp_avg_sq": v},
               lr=1e-3, weight_decay=0.1, step=1)

    Arrays are dense CPU arrays (anything with DLPack or the buffer protocol) or, for a kernel
    compiled for a chip such as "sm_90", arrays on one GPU (DLPack or
    ``__cuda_array_interface__``). They are named as in :attr:`planes` and have the same size,
    except that scales have one entry for each group of elements (:meth:`Plane.entries`). A
    matrix kernel takes two-dimensional arrays, with transposed dimensions for transposed copies,
    and one-dimensional arrays for values per row or column. 8- and 16-bit planes also take
    integers of that width, because NumPy has neither bfloat16 nor 8-bit floats.
    """

    def __init__(self, native: _tandem.Kernel, strategy: str | None, target: str,
                 isa: str = "native"):
        self._native = native
        self.strategy = strategy
        self.target = target
        self._isa = isa
        #: The kernel's description except for its arrays and scalars: the fields of
        #: ``tdm_kernel_info`` and ``tdm_kernel_desc`` (tandem_package.h).
        self.info: dict[str, object] = native.info
        self.planes = [Plane(**fields) for fields in native.planes]
        #: Hyperparameters and their defaults; None for one that must be given.
        self.hypers: dict[str, float | None] = {
            hyper["name"]: hyper["default"] for hyper in native.hypers
        }
        #: Integer scalars (step, seed) by name.
        self.integers: dict[str, RoleKind] = {
            integer["name"]: integer["kind"] for integer in native.integers
        }
        #: The names of the steps that the host computes between two phases
        #: (:meth:`Plan.set_external`), in their order.
        self.externals: list[str] = [external["name"] for external in native.externals]

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
    def isa(self) -> str:
        """The instruction set or the chip that the code is made for.

        For a kernel that was compiled for this machine, as ``isa="native"`` does, this is the
        largest instruction set with a name that the machine has, and in parentheses its processor
        and further features that code becomes faster with: "x86-64-v4 (znver4: avx512vbmi, gfni)".
        A loaded kernel has the one that was chosen from its package.
        """
        return self._native.image_target or (
            _tandem.native_isa() if self._isa == "native" else self._isa)

    @property
    def bytes_per_parameter(self) -> float:
        """The number of bytes per parameter for weight, gradient and states, from their
        storages."""
        return sum(plane.bytes_per_element for plane in self.planes if not plane.is_exchanged)

    @property
    def phases(self) -> int:
        """The number of passes of a step over the elements or rows: more than one if writing
        them needs a reduction over many elements."""
        return len(self._native.phases)

    @property
    def launches(self) -> int:
        """The number of consecutive launches of a step. Phases that depend on each other only
        within the same rows share a launch."""
        return sum(not phase["fused_with_previous"] for phase in self._native.phases)

    @property
    def is_matrix(self) -> bool:
        """Whether the kernel takes matrices, whose rows and columns it uses."""
        return self.info["matrix"]

    @property
    def is_flat_graph(self) -> bool:
        """Whether the graph's own tensors have one dimension. The rows of a matrix kernel then
        affect only scales."""
        return self.info["flat_graph"]

    @property
    def measures(self) -> bool:
        """Whether launches record metrics."""
        return bool(self.info["workspace_doubles_per_chunk"])

    @property
    def reductions(self) -> tuple[tuple[str, str, int], ...]:
        """The reductions that phases compute for later ones, such as ("sum", "model", phase)."""
        return tuple(
            (of["kind"].name.lower(), of["scope"].name.lower(), of["phase"])
            for of in self._native.reductions
        )

    @property
    def signature(self) -> str:
        """A description of the arguments of a call, with one line per array and scalar."""
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
        """The code for the target: PTX text for a chip, or an ELF file for an instruction set.
        The code for "cpu" exists only in this process."""
        if not self._native.image:
            raise AttributeError(
                f"the code of a kernel for {self.target!r} stays in this process; compile "
                "it for another target, such as 'x86-64-v3' or 'sm_90'")
        return self._native.image[1]

    @property
    def ptx(self) -> str:
        """The PTX text, if the target is a chip."""
        kind, code = self._native.image or (None, b"")
        if kind != "PTX":
            raise AttributeError(
                f"kernel was compiled for {self.target!r}; compile with "
                "target='sm_90' (or another chip) for PTX")
        return code.decode()

    @property
    def ir(self) -> str:
        """The kernel as MLIR text, after the lowering of its storages and compute policy."""
        return self.info["ir"]

    @functools.cached_property
    def second_moments(self) -> frozenset[str]:
        """The states that are second moments of gradients, which are never negative."""
        return frozenset(role for role, _, is_second in self._native.tensors if is_second)

    @functools.cached_property
    def storages(self) -> dict[str, str]:
        """The storage of each tensor in MLIR's notation, such as "#tandem.float<bf16>"."""
        return {role: storage for role, storage, _ in self._native.tensors}

    def save(self, path: str | os.PathLike, targets: Sequence[str] = ()) -> None:
        """Writes a package of this kernel; see :func:`save`."""
        save(path, [self], targets)

    def scalars(self, values: Mapping[str, float]) -> tuple[list[float], list[int]]:
        """Returns the hyperparameters and integers in launch order, with defaults filled in.

        Raises:
            TypeError: a scalar is unknown, or one without a default is missing. The step has no
                default.
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
        """Returns the value of an integer scalar. Seeds default to 0; steps have no default,
        since each call needs a new one."""
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
        external: Mapping[str, Callable[[int], None]] | None = None,
        **scalars: float,
    ) -> int:
        """Runs one step in place and returns the launch's flags (:meth:`Plan.launch`).

        ``threads`` 0 means one per core; results do not depend on it. ``key`` and ``first``
        identify the tensor for stochastic rounding: they are its random-number key, and the
        index of its element 0 in the unsharded tensor. A kernel whose :attr:`integers` include a
        step needs its number, which starts at 1 and determines bias corrections and random bits.

        ``external`` has the functions for :attr:`externals`, as :meth:`Plan.set_external` takes
        them; they read and write the arrays of this call.

        On a GPU the call waits for all earlier work of the GPU and for the step; a :class:`Plan`
        does neither.
        """
        check_external(self, external or {})
        hypers, integers = self.scalars(scalars)
        shape, addresses = self.addresses(arrays)
        plan = Plan(self, self._device_of(arrays))
        if self.externals:
            plan.set_external(external)
        if plan.device:
            plan.device.synchronize()
        plan.update([shape], [list(addresses.values())], keys=[to_integer("key", key)],
                    firsts=[to_integer("first", first)])
        return plan.launch([hypers], [integers], threads=threads)

    def _device_of(self, arrays: Mapping[str, object]) -> Device | None:
        """Returns the GPU that the arrays are on, or None for the CPU."""
        places = {ordinal_of(plane, arrays[plane.name]) for plane in self.planes}
        if len(places) > 1:
            raise ValueError(f"the arrays of {self._title} are on several devices; "
                             "pass arrays on one")
        ordinal = places.pop()
        return None if ordinal < 0 else open_gpu(ordinal)

    def addresses(
        self, arrays: Mapping[str, object], planes: Sequence[Plane] | None = None,
        *, writes: bool = True, matrix: bool | None = None,
    ) -> tuple[tuple[int, int], dict[str, int]]:
        """Returns the rows and columns and the address of each plane, after checking names,
        types and sizes of the arrays. Without rows, a tensor is one row.

        ``planes`` selects planes, all if None. ``writes`` is whether arrays that the kernel
        writes must be writable. ``matrix`` is whether arrays have rows, by default
        :attr:`is_matrix`.
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
        measure = next((plane for plane in planes if plane.sets_size), None)
        if measure is None:
            raise ValueError(
                f"no array of {self._title} has an entry for each element, which would say how "
                "many there are; use a Plan, which takes sizes")
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
        """Returns a hint if the arrays look like those of another strategy."""
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
        """Returns the rows and columns of an array with an entry for each element."""
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


def compile(
    graph: str | os.PathLike,
    strategy: str | None = None,
    target: str = "cpu",
    *,
    path: Sequence[str | os.PathLike] = (),
    isa: str = "native",
    width: int = 0,
    weight_average: bool = False,
    weight_operand: bool = False,
    metrics: bool = False,
    flags: bool = False,
    function: str = "",
) -> Kernel:
    """Compiles an optimizer graph under a strategy, or a kernel without one.

    Args:
        graph: a library graph's name, the path of an .mlir file, or MLIR text. The file or text
            may contain a ``tandem.kernel`` instead of a graph, at any stage between
            ``-tandem-form-kernel`` and ``-tandem-split-phases``.
        strategy: the name of a strategy, built in or ``<name>.mlir`` on ``path``; None for a
            kernel, which already has storages.
        target: "cpu", or an NVIDIA chip such as "sm_90".
        path: directories that are searched for strategies first.
        isa: for the CPU, "native", or instructions that this machine has: "x86-64", "x86-64-v2",
            "x86-64-v3", "x86-64-v4" or "aarch64"; results do not depend on it.
        width: the number of elements per vector step, a power of two up to 256; 0 chooses it
            automatically.
        weight_average: whether the exponential moving average of the weights is a further state,
            ``"ema"``, and its decay the hyperparameter ``ema_decay`` (docs/WeightAverage.md).
        weight_operand: whether a step also writes the operand of the next forward pass's matrix
            products, made from the new weight, to the planes of an output, ``"operand"``. The
            strategy has a rule for it, such as ``tandem.assign output named("operand") = ...``
            (docs/WeightOperands.md).
        metrics: whether each launch also measures the effective descent quality
            (:meth:`Plan.metrics`).
        flags: whether each launch also reports gradients that are not finite
            (:meth:`Plan.launch`).
        function: the name of the graph, if there are several, such as a layer's forward pass
            "rms_norm" or its backward pass "rms_norm_backward".

    Raises:
        ValueError: compilation fails. The error has the diagnostics as attributes
            (docs/Python.md).
    """
    native = _tandem.Kernel(
        to_text("graph", graph), to_text("strategy", strategy or ""), directories(path),
        to_text("target", target), to_text("isa", isa), width, weight_average,
        weight_operand, metrics, flags,
        to_text("function", function), [], "",
    )
    return Kernel(native, strategy, target, isa)


@dataclass(frozen=True)
class Rules:
    """A strategy without a file."""

    compute: str  #: the compute policy in the form of :attr:`Kernel.compute`
    #: (kind, tensor, storage), where None means all tensors of the kind; the first match applies
    storages: tuple[tuple[RoleKind, str | None, str], ...]


def compile_rules(graph: str | os.PathLike, strategy: str, rules: Rules, target: str = "cpu",
                  *, weight_average: bool = False, weight_operand: bool = False,
                  metrics: bool = False,
                  function: str = "") -> Kernel:
    """Compiles like :func:`compile` under a strategy of this name that consists of `rules`."""
    native = _tandem.Kernel(
        to_text("graph", graph), to_text("strategy", strategy), [], target, "native", 0,
        weight_average, weight_operand, metrics, False, function,
        [(int(kind), *rule) for kind, *rule in rules.storages],
        rules.compute,
    )
    return Kernel(native, strategy, target)


def save(
    path: str | os.PathLike,
    kernels: Sequence[Kernel] | Mapping[str, Kernel],
    targets: Sequence[str] = (),
) -> None:
    """Writes a package: a file of kernels that run without the compiler.

    Args:
        path: the file, by convention NAME.tdm.
        kernels: the kernels, which are found by their names or by the keys of a mapping.
        targets: the targets of the code: instruction sets ("x86-64-v3"), NVIDIA chips ("sm_90",
            as PTX) or their machine code ("cubin:sm_90", or "cubin-O0:sm_90" without
            optimization, which need ptxas). By default x86-64, x86-64-v3, x86-64-v4, aarch64
            and the chips that the kernels were compiled for. A processor runs the best one that it
            supports.

    Raises:
        ValueError: two kernels have the same name, a target is unknown, or the file cannot be
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
    """Loads a kernel from a package, without compiling anything.

    Packages contain code that runs with your privileges, so load only those you trust.

    Args:
        path: the file that :func:`save` wrote.
        name: the kernel's name, which is optional if there is only one kernel.
        target: "cpu", or a chip whose PTX the package contains.
        isa: "native" for the best code in the package that this processor can run, or an
            instruction set; results do not depend on it.

    Raises:
        ValueError: the file is not a package, is damaged or has another version, or it has no
            such kernel or no code for this machine.
    """
    native = _tandem.Kernel(to_text("path", path), to_text("name", name), target, isa)
    return Kernel(native, native.info["strategy"] or None, target)


def graphs() -> list[str]:
    """Returns the names of the built-in graphs."""
    return _tandem.graphs()


def strategies() -> list[str]:
    """Returns the names of the built-in strategies."""
    return _tandem.strategies()


def layers() -> list[str]:
    """Returns the names of the built-in layers, each with a forward and a backward pass."""
    return list(_tandem.layers())


def recipes() -> list[str]:
    """Returns the names of the built-in recipes, the strategies of layers."""
    return _tandem.recipes()
