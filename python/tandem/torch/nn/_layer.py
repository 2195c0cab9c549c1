"""A layer's two passes, compiled, over PyTorch's tensors."""

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections.abc import Mapping, Sequence

import torch

from tandem import _tandem
from tandem._convert import Executor
from tandem._kernel import (Granularity, Kernel, Plane, Plan, RoleKind, Rules, compile_rules,
                            directories)
from tandem._storages import described, floats
from tandem.torch import _executor

#: The types of a module's tensors, and the compiler's names for them.
EDGES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}

LayerPass = _tandem.LayerPass

#: The types that hold a plane's entries. 8-bit codes are bytes to PyTorch.
HOLDERS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
           "i16": torch.int16}


class Pass:
    """A compiled pass of a layer: tensors by role in, tensors by role out.

    It runs where its tensors are, on a GPU in PyTorch's current stream, which is also
    that of PyTorch's allocator: memory comes and goes in its order.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self._local = threading.local()
        #: The executors on which the kernel has run before.
        self._known: set[Executor] = set()
        #: The plans that graphs read, which may outlive the thread that made them.
        self._captured: list[Plan] = []
        self._planes: dict[tuple, list[Plane]] = {}

    @functools.cached_property
    def storages(self) -> dict[str, str]:
        """The storage of each tensor by role, as a strategy spells it."""
        return self.kernel.storages

    def planes(self, *kinds: RoleKind) -> list[Plane]:
        """The planes of roles of some kinds."""
        if kinds not in self._planes:
            self._planes[kinds] = [p for p in self.kernel.planes if p.kind in kinds]
        return self._planes[kinds]

    @functools.cached_property
    def outputs(self) -> list[str]:
        """The names of the outputs, in order."""
        return list(dict.fromkeys(plane.role for plane in self.planes(RoleKind.OUTPUT)))

    @functools.cached_property
    def per(self) -> dict[str, Granularity]:
        """The granularity of each tensor's entries, by role."""
        return {plane.role: plane.per for plane in reversed(self.kernel.planes)}

    @functools.cached_property
    def _names(self) -> list[str]:
        """The planes, none of which are given if the kernel has nothing to write."""
        written = any(plane.written for plane in self.kernel.planes)
        return [plane.name for plane in self.kernel.planes] if written else []

    def run(self, shape: tuple[int, int], tensors: Mapping[str, torch.Tensor],
            hypers: Sequence[float] = ()) -> None:
        """Launches the kernel over planes, which must all be there."""
        if 0 in shape or not self._names:
            return
        executor = _executor.executor_of(next(iter(tensors.values())))
        plan = self._plan(executor)
        plan.update([shape], [[tensors[name].data_ptr() for name in self._names]])
        if executor.is_capturing:
            self._launch_in_graph(executor, plan, hypers)
        else:
            executor.launch(plan, [list(hypers)], [self._integers()], torch.get_num_threads())

    def _plan(self, executor: Executor) -> Plan:
        """This thread's plan for the stream that work goes into now."""
        if executor.is_capturing and executor not in self._known:
            raise RuntimeError(
                f"{self.kernel.name} has not run on this GPU yet, and a CUDA graph cannot "
                "load its code; run a forward and a backward pass before the capture")
        plans = self._local.__dict__.setdefault("plans", {})
        key = executor, executor.stream
        if key not in plans:
            plans[key] = Plan(self.kernel, executor.device)
            self._known.add(executor)
        return plans[key]

    def _launch_in_graph(self, executor: Executor, plan: Plan, hypers: Sequence[float]) -> None:
        """A graph has the numbers of its capture, and draws new seeds by itself."""
        device = _executor.torch_device(executor)
        numbers = torch.empty((1, len(hypers)), dtype=torch.float64, device=device)
        integers = torch.ones((1, len(self.kernel.integers)), dtype=torch.int64, device=device)
        for at, value in enumerate(hypers):
            executor.call(lambda to=numbers[:, at], value=value: to.fill_(value))
        for at, kind in enumerate(self.kernel.integers.values()):
            if kind is RoleKind.SEED:
                executor.call(lambda to=integers[:, at]: to.random_(0, 1 << 62))
        plan.launch_on_device(numbers.data_ptr(), integers.data_ptr(), stream=executor.stream)
        if plan not in self._captured:
            self._captured.append(plan)

    def _integers(self) -> list[int]:
        """A seed is torch's, new in each launch and the same in a checkpoint's second
        one; there is no count of steps."""
        return [int(torch.randint(1 << 62, ())) if kind is RoleKind.SEED else 1
                for kind in self.kernel.integers.values()]

    def allocate(self, shape: tuple[int, int], like: torch.Tensor, kinds: Sequence[RoleKind],
                 shapes: Mapping[str, torch.Size] | None = None) -> dict[str, torch.Tensor]:
        """Returns new planes, which only this pass writes: vectors, except those with
        ``shapes``."""
        rows, columns = shape
        planes = {}
        for plane in self.planes(*kinds):
            dtype = HOLDERS.get(plane.type, torch.uint8)
            size = (shapes or {}).get(plane.name) or (plane.entries(columns, rows),)
            planes[plane.name] = torch.empty(size, dtype=dtype, device=like.device)
        return planes

    def is_plain(self, role: str) -> bool:
        """Whether a tensor is stored as one array of floats."""
        return described(self.storages[role]).is_plain


class Layer:
    """A layer of the library, or MLIR text of one, under a recipe, for the CPU or a chip.

    ``stored`` has the storages of the inputs that are no plain tensors, by name. If it
    ``keeps``, its forward pass also keeps what the linear layers after it would keep.
    """

    def __init__(self, layer: str, recipe: str, dtype: torch.dtype,
                 vector_dtype: torch.dtype, path: Sequence[str | os.PathLike] = (),
                 stored: Sequence[tuple[str, str]] = (), target: str = "cpu",
                 keeps: bool = False):
        self._native = _tandem.Layer(layer, recipe, directories(path), EDGES[dtype],
                                     EDGES[vector_dtype], list(stored), keeps, target)
        self._recipe, self._target = recipe, target
        self._backward: dict[tuple, Pass] = {}
        self.name = self._native.name
        self.forward = self._compile(LayerPass.FORWARD)
        self.backward = self.backward_of({}, flows=False)
        #: The planes that the backward pass needs of the forward pass, by name: what it
        #: has saved, and inputs that are kept as they are.
        self.restored = [plane.name for plane in self.saved]
        inputs = {plane.name for plane in self.forward.planes(RoleKind.INPUT)}
        #: The forward pass's inputs that the backward pass takes again, such as weights.
        self.again_read = [plane.name for plane in self.backward.planes(RoleKind.INPUT)
                           if plane.name in inputs]
        #: The planes of its outputs that the forward pass keeps for others.
        self.for_others = [plane for plane in self.forward.planes(RoleKind.SAVED)
                           if plane.name not in self.restored]
        #: The planes that a recipe keeps from step to step.
        self.remembered = [plane for plane in self.forward.kernel.planes if plane.persistent]

    def _compile(self, function: LayerPass, stored: Mapping[str, str] | None = None,
                 plain: bool = False) -> Pass:
        """One function, whose outputs are ``plain`` or stored as the recipe says."""
        native = self._native.compile(function, list((stored or {}).items()), plain)
        return Pass(Kernel(native, self._recipe, self._target))

    def backward_of(self, stored: Mapping[str, str], flows: bool) -> Pass:
        """The backward pass for gradients some of which are stored; with ``flows`` it stores
        those of inputs as the recipe says."""
        flows = flows and self._native.stores_by_flow
        key = (*sorted(stored.items()), flows)
        if key not in self._backward:
            self._backward[key] = self._compile(LayerPass.BACKWARD, stored, not flows)
        return self._backward[key]

    @functools.cached_property
    def again(self) -> Pass:
        """The output once more, of what the forward pass has saved."""
        return self._compile(LayerPass.RECOMPUTE)

    @property
    def saved(self) -> list[Plane]:
        """The planes that stay in memory between the passes."""
        return self.backward.planes(RoleKind.RESTORED)


@functools.lru_cache(maxsize=None)
def compiled(layer: str, recipe: str, dtype: torch.dtype, vector_dtype: torch.dtype,
             path: tuple[str, ...] = (), stored: tuple[tuple[str, str], ...] = (),
             target: str = "cpu", keeps: bool = False) -> Layer:
    """A layer, compiled once for all modules that have it, for each kind of device."""
    for kind in (dtype, vector_dtype):
        if kind not in EDGES:
            raise TypeError(f"a layer's tensors are float32, bfloat16 or float16, got "
                            f"{kind}")
    return Layer(layer, recipe, dtype, vector_dtype, path, stored, target, keeps)


@functools.lru_cache(maxsize=None)
def decoder(storage: str, dtype: torch.dtype, target: str = "cpu") -> Pass:
    """A kernel that makes "value" of the planes of "kept"."""
    rules = Rules("f32 f32", ((RoleKind.SAVED, None, storage),
                              (RoleKind.INPUT, None, floats("f32")),
                              (RoleKind.OUTPUT, None, floats(EDGES[dtype]))))
    return Pass(compile_rules("keep", "decode", rules, target, function="keep_backward"))


# The extension reports plans that outlive the interpreter.
atexit.register(compiled.cache_clear)
atexit.register(decoder.cache_clear)
