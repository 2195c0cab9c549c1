"""A layer's two compiled passes on PyTorch tensors."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from tandem import _layers
from tandem._convert import CPU, Executor
from tandem._kernel import Kernel, Rules, compile_rules
from tandem._layers import PassPlanes
from tandem._plan import Plan
from tandem._plane import RoleKind
from tandem._storages import floats
from tandem.torch import _executor

#: The types of a module's tensors, and the compiler's names for them.
EDGES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}

#: The dtypes for a plane's entries. PyTorch sees 8-bit codes as bytes.
HOLDERS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
           "i16": torch.int16}


#: Functions that see each layer that saves a tensor, with the planes of its forward pass by name
#: and whether a backward pass may follow.
OBSERVERS: list[Callable] = []


#: Whether layers take tensors on the meta device, and compute only the shapes of their results.
_SHAPES_ONLY = contextvars.ContextVar("shapes_only", default=False)


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Returns a context in which layers take tensors on the meta device, as PyTorch's do."""
    before = _SHAPES_ONLY.set(True)
    try:
        yield
    finally:
        _SHAPES_ONLY.reset(before)


def executor_of(x: torch.Tensor) -> Executor | None:
    """Returns the executor for a tensor; None if kernels cannot run there."""
    if x.is_meta and _SHAPES_ONLY.get():
        return CPU
    return _executor.executor_of(x)


class Pass(PassPlanes):
    """A compiled pass of a layer, from tensors by role to tensors by role.

    It runs on the device of its tensors. On a GPU it uses PyTorch's current stream, so that
    PyTorch's allocator orders its uses of memory correctly.
    """

    def __init__(self, kernel: Kernel):
        super().__init__(kernel)
        self._local = threading.local()
        #: The executors on which the kernel has already run.
        self._known: set[Executor] = set()
        #: The plans that graphs read, which may outlive the thread that created them.
        self._captured: list[Plan] = []

    @functools.cached_property
    def _names(self) -> list[str]:
        """The names of the planes, which are empty if the kernel writes nothing."""
        written = any(plane.written for plane in self.kernel.planes)
        return [plane.name for plane in self.kernel.planes] if written else []

    def run(self, shape: tuple[int, int], tensors: Mapping[str, torch.Tensor],
            hypers: Sequence[float] = ()) -> None:
        """Launches the kernel on planes, all of which must be given."""
        if 0 in shape or not self._names:
            return
        first = next(iter(tensors.values()))
        if first.is_meta:
            return
        executor = executor_of(first)
        plan = self._plan(executor)
        plan.update([shape], [[tensors[name].data_ptr() for name in self._names]])
        if executor.is_capturing:
            self._launch_in_graph(executor, plan, hypers)
        else:
            executor.launch(plan, [list(hypers)], [self._integers()], torch.get_num_threads())

    def _plan(self, executor: Executor) -> Plan:
        """Returns this thread's plan for the current stream."""
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
        """Launches the kernel in a CUDA graph. The graph keeps the hyperparameters of its
        capture, and draws new seeds itself."""
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
        """Returns the integers. Seeds are drawn from PyTorch's generator: new ones for each
        launch, but the same when activation checkpointing recomputes it. There is no count of
        steps."""
        return [int(torch.randint(1 << 62, ())) if kind is RoleKind.SEED else 1
                for kind in self.kernel.integers.values()]

    def allocate(self, shape: tuple[int, int], like: torch.Tensor, kinds: Sequence[RoleKind],
                 shapes: Mapping[str, torch.Size] | None = None) -> dict[str, torch.Tensor]:
        """Returns new planes for this pass to write, which are vectors except for those with
        ``shapes``."""
        rows, columns = shape
        planes = {}
        for plane in self.planes(*kinds):
            dtype = HOLDERS.get(plane.type, torch.uint8)
            size = (shapes or {}).get(plane.name) or (plane.entries(columns, rows),)
            planes[plane.name] = torch.empty(size, dtype=dtype, device=like.device)
        return planes


class Layer(_layers.Layer):
    """A layer whose passes run on PyTorch tensors."""

    _pass_type = Pass

    def note(self, planes: Mapping[str, torch.Tensor], is_recorded: bool) -> None:
        """Tells observers, of which there are usually none, what a forward pass has saved."""
        for observe in OBSERVERS:
            observe(self, planes, is_recorded)


@functools.lru_cache(maxsize=None)
def compiled(layer: str, recipe: str, dtype: torch.dtype, vector_dtype: torch.dtype,
             path: tuple[str, ...] = (), stored: tuple[tuple[str, str], ...] = (),
             target: str = "cpu", keeps: bool = False) -> Layer:
    """Returns a layer, which is compiled once for all modules on one kind of device."""
    for kind in (dtype, vector_dtype):
        if kind not in EDGES:
            raise TypeError(f"a layer's tensors are float32, bfloat16 or float16, got "
                            f"{kind}")
    return Layer(layer, recipe, EDGES[dtype], EDGES[vector_dtype], path, stored, target, keeps)


@functools.lru_cache(maxsize=None)
def decoder(storage: str, dtype: torch.dtype, target: str = "cpu") -> Pass:
    """Returns the kernel that decodes the planes of "kept" to "value"."""
    rules = Rules("f32 f32", ((RoleKind.SAVED, None, storage),
                              (RoleKind.INPUT, None, floats("f32")),
                              (RoleKind.OUTPUT, None, floats(EDGES[dtype]))))
    return Pass(compile_rules("keep", "decode", rules, target, function="keep_backward"))


# The extension reports plans that outlive the interpreter.
atexit.register(compiled.cache_clear)
atexit.register(decoder.cache_clear)
