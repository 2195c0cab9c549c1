"""A layer's two passes, compiled, over PyTorch's tensors."""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import re
import threading
from collections.abc import Mapping, Sequence

import torch

import tandem
from tandem import _tandem
from tandem._convert import Host
from tandem._kernel import Granularity, Kernel, Plane, Plan, RoleKind
from tandem.torch import _place

#: What a tensor of a module can be, and how a strategy spells it.
EDGES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}

#: What holds a plane's entries. 8-bit codes are bytes to PyTorch.
HOLDERS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
           "i16": torch.int16}


def recipe_text(recipe: str, path: Sequence[str | os.PathLike] = ()) -> str:
    """The text of a recipe: that of ``<recipe>.mlir`` on ``path``, or built in."""
    for directory in path:
        file = pathlib.Path(directory, f"{recipe}.mlir")
        if file.exists():
            return file.read_text()
    texts = _tandem.recipes()
    if recipe not in texts:
        raise ValueError(f"unknown recipe {recipe!r}; built-in ones are "
                         f"{', '.join(texts)}; others are files <name>.mlir on path")
    return texts[recipe]


def with_edges(recipe: str, text: str, dtype: torch.dtype,
               vector_dtype: torch.dtype) -> str:
    """The recipe for a layer whose tensors and weights a module has in these types."""
    rules = "".join(
        f"\n  tandem.assign {kind} per({per}) = #tandem.float<{EDGES[of]}>"
        for kind in ("input", "output")
        for per, of in (("element", dtype), ("column", vector_dtype),
                        ("row", torch.float32)))
    head = re.search(r'tandem\.strategy\s+@"?' + re.escape(recipe) + r'"?[^{]*{', text)
    if not head:
        raise ValueError(f"the file of recipe {recipe!r} does not define "
                         f'tandem.strategy @"{recipe}"')
    return text[:head.end()] + rules + text[head.end():]


class Pass:
    """A compiled pass of a layer: tensors by role in, tensors by role out.

    It runs where its tensors are, on a GPU in PyTorch's current stream, which is also
    that of PyTorch's allocator: memory comes and goes in its order.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self._local = threading.local()
        #: Where the kernel has run before.
        self._known: set[Host] = set()
        #: What graphs read, which may live longer than the thread that made them.
        self._captured: list[Plan] = []

    def planes(self, *kinds: RoleKind) -> list[Plane]:
        """The planes of roles of some kinds."""
        return [plane for plane in self.kernel.planes if plane.kind in kinds]

    def run(self, shape: tuple[int, int], tensors: Mapping[str, torch.Tensor],
            hypers: Sequence[float] = ()) -> None:
        """Launches the kernel over planes, all of which are there."""
        if 0 in shape or not any(plane.written for plane in self.kernel.planes):
            return
        place = _place.place_of(next(iter(tensors.values())))
        plan = self._plan(place)
        plan.update([shape], [[tensors[plane.name].data_ptr()
                               for plane in self.kernel.planes]])
        if place.is_capturing:
            self._launch_in_graph(place, plan, hypers)
        else:
            place.launch(plan, [list(hypers)], [self._integers()], torch.get_num_threads())

    def _plan(self, place: Host) -> Plan:
        """This thread's plan for the stream that work goes into now."""
        if place.is_capturing and place not in self._known:
            raise RuntimeError(
                f"{self.kernel.name} has not run on this GPU yet, and a CUDA graph cannot "
                "load its code; run a forward and a backward pass before the capture")
        plans = self._local.__dict__.setdefault("plans", {})
        key = place, place.stream
        if key not in plans:
            plans[key] = Plan(self.kernel, place.device)
            self._known.add(place)
        return plans[key]

    def _launch_in_graph(self, place: Host, plan: Plan, hypers: Sequence[float]) -> None:
        """A graph has the numbers of its capture, and draws new seeds by itself."""
        device = _place.torch_device(place)
        numbers = torch.empty((1, len(hypers)), dtype=torch.float64, device=device)
        integers = torch.ones((1, len(self.kernel.integers)), dtype=torch.int64, device=device)
        for at, value in enumerate(hypers):
            place.call(lambda to=numbers[:, at], value=value: to.fill_(value))
        for at, kind in enumerate(self.kernel.integers.values()):
            if kind is RoleKind.SEED:
                place.call(lambda to=integers[:, at]: to.random_(0, 1 << 62))
        plan.launch_on_device(numbers.data_ptr(), integers.data_ptr(), stream=place.stream)
        if plan not in self._captured:
            self._captured.append(plan)

    def _integers(self) -> list[int]:
        """A seed is torch's, new in each launch and the same in a checkpoint's second
        one; there is no count of steps."""
        return [int(torch.randint(1 << 62, ())) if kind is RoleKind.SEED else 1
                for kind in self.kernel.integers.values()]

    def allocate(self, shape: tuple[int, int], like: torch.Tensor,
                 kinds: Sequence[RoleKind]) -> dict[str, torch.Tensor]:
        """New planes, which only this pass writes."""
        rows, columns = shape
        planes = {}
        for plane in self.planes(*kinds):
            dtype = HOLDERS.get(plane.type, torch.uint8)
            count = plane.entries(columns, rows)
            planes[plane.name] = torch.empty(count, dtype=dtype, device=like.device)
        return planes


class Layer:
    """A layer of the library, or MLIR text of one, under a recipe, for the CPU or a chip."""

    def __init__(self, layer: str, recipe: str, dtype: torch.dtype,
                 vector_dtype: torch.dtype, path: Sequence[str | os.PathLike] = (),
                 target: str = "cpu"):
        text = _tandem.layers().get(layer, layer)
        self._recipe, self._target = recipe, target
        self._module = text + with_edges(recipe, recipe_text(recipe, path), dtype,
                                         vector_dtype)
        forward = re.search(r"tandem\.forward\s*=\s*@(\w+)", text)
        #: What restores tensors: the backward pass, and the output computed again.
        self._restoring = re.findall(
            r"func\.func\s+@(\w+)\((?:(?!func\.func).)*?tandem\.forward", text, re.DOTALL)
        if not forward or not self._restoring:
            raise ValueError("a layer has two functions, the backward pass with the "
                             "attribute tandem.forward = @name of the other")
        self.name = forward[1]
        self.forward = self._compile(self.name)
        self.backward = self._compile(self._restoring[0])
        #: The planes that the backward pass needs of the forward pass, by name: what it
        #: has saved, and inputs that are kept as they are.
        self.restored = [plane.name for plane in self.backward.planes(RoleKind.RESTORED)]

    def _compile(self, function: str) -> Pass:
        return Pass(tandem.compile(self._module, self._recipe, self._target,
                                   function=function))

    @functools.cached_property
    def again(self) -> Pass:
        """The output once more, of what the forward pass has saved."""
        return self._compile(self._restoring[1])

    @property
    def saved(self) -> list[Plane]:
        """The planes that stay in memory between the passes."""
        return self.backward.planes(RoleKind.RESTORED)


@functools.lru_cache(maxsize=None)
def compiled(layer: str, recipe: str, dtype: torch.dtype, vector_dtype: torch.dtype,
             path: tuple[str, ...] = (), target: str = "cpu") -> Layer:
    """A layer, compiled once for all modules that have it, for each kind of device."""
    for kind in (dtype, vector_dtype):
        if kind not in EDGES:
            raise TypeError(f"a layer's tensors are float32, bfloat16 or float16, got "
                            f"{kind}")
    return Layer(layer, recipe, dtype, vector_dtype, path, target)


# The extension reports plans that outlive the interpreter.
atexit.register(compiled.cache_clear)


class LayerFunction(torch.autograd.Function):
    """Runs a layer: ``apply(layer, hypers, state, inputs' names, *inputs)``.

    The outputs are those of the forward pass, in order; the gradient of the input
    "x" is the backward pass's output "dx", that of the output "y" its input "dy". Where an
    input has the gradient of another one, its name is a pair: ("residual", "dx").
    """

    @staticmethod
    def forward(ctx, layer: Layer, hypers: tuple, state: dict, names: tuple, *inputs):
        step = layer.forward
        # The first input has rows and columns; a single row may lack a dimension.
        wide = [x for x in inputs if x.dim() > 1] or list(inputs)
        shape = (wide[0].numel() // max(1, wide[0].shape[-1]), wide[0].shape[-1])
        pairs = [name if isinstance(name, tuple) else (name, f"d{name}") for name in names]
        tensors = {name: x.contiguous()
                   for (name, _), x in zip(pairs, inputs, strict=True)}
        outputs = step.allocate(shape, wide[0], (RoleKind.OUTPUT,))
        saved = step.allocate(shape, wide[0], (RoleKind.SAVED,))
        saved |= {name: plane for name, plane in state.items() if name in saved}
        step.run(shape, tensors | outputs | saved, hypers)
        kept = tensors | outputs | saved
        ctx.save_for_backward(*(kept[name] for name in layer.restored),
                              *(tensors[name] for name in _vectors(layer)))
        ctx.layer, ctx.shape, ctx.names = layer, shape, [name for _, name in pairs]
        ctx.shapes, ctx.outputs = [x.shape for x in inputs], list(outputs)
        shapes = {Granularity.ELEMENT: wide[0].shape, Granularity.ROW: wide[0].shape[:-1]}
        results = tuple(outputs[plane.name].view(shapes[plane.per])
                        for plane in step.planes(RoleKind.OUTPUT))
        return results if len(results) > 1 else results[0] if results else None

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        step, names = ctx.layer.backward, ctx.layer.restored + _vectors(ctx.layer)
        tensors = dict(zip(names, ctx.saved_tensors, strict=True))
        tensors |= {f"d{name}": gradient.contiguous()
                    for name, gradient in zip(ctx.outputs, gradients, strict=True)}
        like = next(iter(tensors.values()))
        results = step.allocate(ctx.shape, like, (RoleKind.OUTPUT,))
        step.run(ctx.shape, tensors | results)
        if 0 in ctx.shape:
            results = {name: plane.zero_() for name, plane in results.items()}
        return (None, None, None, None, *(
            results[name].view(shape) if name in results else None
            for name, shape in zip(ctx.names, ctx.shapes, strict=True)))


def _vectors(layer: Layer) -> list[str]:
    """The forward pass's inputs that the backward pass takes again, such as weights."""
    ours = {plane.name for plane in layer.forward.planes(RoleKind.INPUT)}
    return [plane.name for plane in layer.backward.planes(RoleKind.INPUT)
            if plane.name in ours]
