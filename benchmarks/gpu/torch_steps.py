#===- torch_steps.py - tandem.torch on a GPU -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file checks that PyTorch optimizers and layers produce the same bits on a GPU as on the CPU,
# for scripts/gpu-check.sh.
#
#===----------------------------------------------------------------------===#
"""torch_steps.py CHECK --json FILE [--stand-in]: one check, case by case.

A case is "equal" if all bits are, or "close" if PyTorch or cuBLASLt computed products, whose order
of summation is unspecified. With --stand-in, a driver without a GPU and the PTX evaluator take the
place of the GPU.
"""

import argparse
import os
import pathlib
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "test/Python")]
import step_runner  # noqa: E402

try:
    import tandem.torch as tt
    import torch
    from tandem.torch import nn
    from tandem.torch.nn import _products
except ImportError as error:
    print(error)
    sys.exit(step_runner.SKIPPED)

Case = tuple[str, Callable[[], str]]


#===------------------------------------------------------------------------===#
# Places
#===------------------------------------------------------------------------===#


class CPU:
    """The executor that provides the expected bits."""

    device = "cpu"
    is_small = False

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device)

    def holds(self):
        """Returns a context in which tensors count as being on the device."""
        return nullcontext()

    def side(self):
        """Returns a context in which work is enqueued in a different stream."""
        return nullcontext()

    def delay(self) -> None:
        """Delays the next work in the stream."""

    def finish(self) -> None:
        """Waits for all work."""


class GPU(CPU):
    """A real GPU."""

    device = "cuda"

    def __init__(self):
        if not torch.cuda.is_available():
            print("this PyTorch finds no GPU")
            sys.exit(1)

    @contextmanager
    def side(self):
        before, stream = torch.cuda.current_stream(), torch.cuda.Stream()
        stream.wait_stream(before)
        with torch.cuda.stream(stream):
            yield
        before.wait_stream(stream)

    def delay(self) -> None:
        torch.cuda._sleep(20_000_000)

    def finish(self) -> None:
        torch.cuda.synchronize()

    @contextmanager
    def captures(self):
        """Captures the body and yields the graph."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            yield graph


class StandIn(CPU):
    """A driver without a GPU, which treats CPU tensors as its own."""

    is_small = True

    def __init__(self):
        from support.torch_on_gpu import TorchGPU

        self._gpu = TorchGPU()
        self.holds, self.captures = self._gpu.holds_torch, self._gpu.captures

    @contextmanager
    def side(self):
        executor = self._gpu.executors[0]
        stream = self._gpu.library.fake_cuda_create_stream()
        before, executor._stream = executor._stream, stream
        try:
            yield
        finally:
            executor._stream = before


#===------------------------------------------------------------------------===#
# Bits
#===------------------------------------------------------------------------===#

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous().view(_INTEGERS[tensor.element_size()])


def compare(got: torch.Tensor, want: torch.Tensor, name: str) -> str:
    """Returns a description of the differences, or an empty string."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{name} is {got.dtype} {tuple(got.shape)}"
    wrong = (bits(got) != bits(want)).flatten().nonzero()
    return (f"{len(wrong)} of {want.numel()} elements of {name} differ, first {int(wrong[0])}"
            if len(wrong) else "")


def compare_all(got: list[torch.Tensor], want: list[torch.Tensor]) -> str:
    found = [compare(g, w, f"tensor {i}") for i, (g, w) in enumerate(zip(got, want, strict=True))]
    return "; ".join(filter(None, found)) or "equal"


def params_of(optimizer) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def compare_optimizers(got, want) -> str:
    """Compares all parameters and states."""
    found = []
    for i, (p, q) in enumerate(zip(params_of(got), params_of(want), strict=True)):
        found.append(compare(p, q, f"parameter {i}"))
        for name, plane in want.state[q].items():
            other = got.state[p][name]
            if name == "step":
                found.append("" if int(other) == int(plane) else
                             f"parameter {i} has made {int(other)} steps, not {int(plane)}")
            elif isinstance(plane, torch.Tensor):
                found.append(compare(other, plane, f"{name} of parameter {i}"))
    return "; ".join(filter(None, found)) or "equal"


def close(got: list[torch.Tensor], want: list[torch.Tensor], allowed: float) -> str:
    """Returns "close" if the relative errors are at most `allowed`, or else a description."""
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        g, w = g.detach().cpu().double().reshape(w.shape), w.detach().cpu().double()
        worst = max(worst, float((g - w).norm() / w.norm().clamp_min(1e-30)))
    return "close" if worst <= allowed else f"the relative error is {worst:.3g}"


#===------------------------------------------------------------------------===#
# Optimizers
#===------------------------------------------------------------------------===#

OPTIMIZERS = {
    "AdamW": (tt.AdamW, {}), "AdamW, decay before": (tt.AdamW, {"decay": "before"}),
    "AdamW, clipped": (tt.AdamW, {"max_norm": 0.5}), "LAMB": (tt.LAMB, {}),
    "Adam": (tt.Adam, {"weight_decay": 0.1}), "SGD": (tt.SGD, {}),
    "SGD, nesterov": (tt.SGD, {"momentum": 0.9, "nesterov": True}), "Lion": (tt.Lion, {}),
    "RMSprop": (tt.RMSprop, {}), "Adagrad": (tt.Adagrad, {}),
    "Adafactor": (tt.Adafactor, {}),
}
STRATEGIES = ("fp32", "bf16", "bf16-stochastic", "master-weights", "remainder", "collage-light",
              "coat", "adam8bit", "flash", "fp8-lm", "fp8-collage-plus",
              "residual-softsign-root")
CASES = ([(name, "collage-plus") for name in OPTIMIZERS]
         + [("AdamW", strategy) for strategy in STRATEGIES])


def shapes_of(place: CPU) -> list[tuple[int, ...]]:
    return [(17,), (3, 5)] if place.is_small else [(65539,), (257, 130), (5,), (512, 512)]


def make(place: CPU, name: str, strategy: str, shapes, **options):
    """Returns an optimizer of random parameters that do not depend on the place."""
    cls, own = OPTIMIZERS[name]
    dtype = torch.float32 if strategy == "fp32" else torch.bfloat16
    generator = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(place.put(torch.randn(shape, generator=generator).to(dtype)))
              for shape in shapes]
    return cls(params, lr=1e-2, strategy=strategy, **own | options)


def backward(place: CPU, optimizer, seed: int) -> None:
    """Computes random gradients through autograd, as coded gradients require."""
    generator = torch.Generator().manual_seed(seed)
    terms = [(p.float() * place.put(torch.randn(p.shape, generator=generator) * 1e-2)).sum()
             for p in params_of(optimizer)]
    for term in terms:
        term.backward()


def train(place: CPU, optimizer, seeds=range(3)) -> None:
    for seed in seeds:
        backward(place, optimizer, seed)
        optimizer.step()
        optimizer.zero_grad()


def same_steps(place: CPU, name: str, strategy: str, use=train, **options) -> str:
    """Compares the bits that `use` leaves on the device with those on the CPU."""
    shapes, cpu = shapes_of(place), CPU()
    want = make(cpu, name, strategy, shapes)
    use(cpu, want)
    with place.holds():
        got = make(place, name, strategy, shapes, **options)
        use(place, got)
        place.finish()
    return compare_optimizers(got, want)


def steps(place: CPU) -> Iterator[Case]:
    """Yields steps in the default stream."""
    for name, strategy in CASES[:2] if place.is_small else CASES:
        yield f"{name} under {strategy}", lambda n=name, s=strategy: same_steps(place, n, s)


def _train_aside(place: CPU, optimizer) -> None:
    for seed in range(4):
        with place.side():
            place.delay()
            train(place, optimizer, [seed])


def _train_alternately(place: CPU, optimizer) -> None:
    for seed in range(4):
        with place.side() if seed % 2 else nullcontext():
            place.delay()
            train(place, optimizer, [seed])


def side_stream(place: CPU) -> Iterator[Case]:
    """Yields steps in other streams, whose gradients are not ready when the host launches the
    step."""
    for strategy in ("collage-plus",) if place.is_small else ("collage-plus", "flash", "fp8-lm"):
        yield (f"AdamW under {strategy}, new streams",
               lambda s=strategy: same_steps(place, "AdamW", s, _train_aside))
        yield (f"AdamW under {strategy}, streams in turn",
               lambda s=strategy: same_steps(place, "AdamW", s, _train_alternately))


#===------------------------------------------------------------------------===#
# Graphs
#===------------------------------------------------------------------------===#


def fixed_gradients(place: CPU, optimizer) -> list[torch.Tensor]:
    """Sets and returns gradients whose addresses do not change."""
    for p in params_of(optimizer):
        p.grad = torch.zeros_like(p)
    return [p.grad for p in params_of(optimizer)]


def fill(place: CPU, grads: list[torch.Tensor], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for grad in grads:
        grad.copy_(place.put(torch.randn(grad.shape, generator=generator) * 1e-2))


def _rate(seed: int) -> float:
    return 1e-2 / (1 + max(0, seed - 1))


def _plain_steps(name: str, strategy: str, shapes, skipped=()) -> object:
    """Returns the expected result of a graph's replays."""
    cpu = CPU()
    want = make(cpu, name, strategy, shapes)
    grads = fixed_gradients(cpu, want)
    for seed in range(5):
        want.param_groups[0]["lr"] = _rate(seed)
        fill(cpu, grads, seed)
        if seed not in skipped:
            want.step()
    return want


def replays(place, name: str, strategy: str, skipped=()) -> str:
    """Takes a step, then replays it four times, each time with a new learning rate and
    gradients."""
    shapes = shapes_of(place)
    want = _plain_steps(name, strategy, shapes, skipped)
    with place.holds():
        lr = place.put(torch.tensor(_rate(0), dtype=torch.float64))
        got = make(place, name, strategy, shapes, capturable=True)
        got.param_groups[0]["lr"] = lr
        if skipped:
            got.found_inf = place.put(torch.zeros(1))
        grads = fixed_gradients(place, got)
        fill(place, grads, 0)
        with place.side():
            got.step()
        place.finish()
        with place.captures() as graph:
            got.step()
        for seed in range(1, 5):
            lr.fill_(_rate(seed))
            fill(place, grads, seed)
            if skipped:
                got.found_inf.fill_(float(seed in skipped))
            graph.replay()
        place.finish()
    return compare_optimizers(got, want)


def graph(place) -> Iterator[Case]:
    """Yields captured steps that are replayed with new learning rates in device memory."""
    cases = [("AdamW", "collage-plus"), ("AdamW", "bf16-stochastic"), ("LAMB", "fp32"),
             ("SGD", "bf16"), ("Lion", "master-weights"), ("AdamW, clipped", "coat"),
             ("AdamW", "flash"), ("AdamW", "adam8bit")]
    for name, strategy in cases[:1] if place.is_small else cases:
        yield f"{name} under {strategy}", lambda n=name, s=strategy: replays(place, n, s)


def _refuses(place) -> str:
    """Checks that a capture before the first step is rejected and that steps work afterwards."""
    shapes = shapes_of(place)
    want = make(CPU(), "AdamW", "collage-plus", shapes)
    train(CPU(), want)
    with place.holds():
        got = make(place, "AdamW", "collage-plus", shapes, capturable=True)
        fixed_gradients(place, got)
        said = ""
        with place.captures():
            try:
                got.step()
            except RuntimeError as error:
                said = str(error)
        if "take a step before the capture" not in said:
            return f"a capture without a step before it says: {said or 'nothing'}"
        got.zero_grad()
        train(place, got)
        place.finish()
    return compare_optimizers(got, want)


def graph_cold(place) -> Iterator[Case]:
    """Yields a capture without a preceding step."""
    yield "AdamW under collage-plus", lambda: _refuses(place)


def found_inf(place) -> Iterator[Case]:
    """Yields replays that a word in device memory skips."""
    for strategy in ("collage-plus",) if place.is_small else ("collage-plus", "fp32", "coat"):
        yield (f"AdamW under {strategy}",
               lambda s=strategy: replays(place, "AdamW", s, skipped=(2, 4)))


def _scaled_steps(place: CPU, optimizer) -> None:
    """Takes steps as a loop with torch.amp.GradScaler does, with one infinite gradient."""
    scaler = torch.amp.GradScaler(place.device, init_scale=1024.0)
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        for p in params_of(optimizer):
            grad = torch.randn(p.shape, generator=generator) * 1e-2 * scaler.get_scale()
            if seed == 2:
                grad.view(-1)[0] = torch.inf
            p.grad = place.put(grad)
        scaler.scale(place.put(torch.ones(())))
        scaler.step(optimizer)
        scaler.update()


def scaler(place: CPU) -> Iterator[Case]:
    """Yields GradScaler with steps that the GPU decides on, and with steps that ask the host."""
    for capturable in (True, False):
        yield (f"capturable={capturable}",
               lambda c=capturable: same_steps(place, "AdamW", "fp32", _scaled_steps,
                                               capturable=c))


#===------------------------------------------------------------------------===#
# Layers
#===------------------------------------------------------------------------===#

MODULES = {
    "RMSNorm": (lambda w, **o: nn.RMSNorm(w, 1e-6, **o), 1),
    "LayerNorm": (lambda w, **o: nn.LayerNorm(w, **o), 1),
    "SiLU": (lambda w, **o: nn.SiLU(**o), 1), "GELU": (lambda w, **o: nn.GELU(**o), 1),
    "SwiGLU": (lambda w, **o: nn.SwiGLU(**o), 2), "GeGLU": (lambda w, **o: nn.GeGLU(**o), 2),
}


def passes(place: CPU, name: str, recipe: str, width: int, rows: int) -> list[torch.Tensor]:
    """Returns the output and all gradients of a layer."""
    build, inputs = MODULES[name]
    generator = torch.Generator().manual_seed(7)

    def random(*shape: int) -> torch.Tensor:
        return place.put(torch.randn(shape, generator=generator).bfloat16())

    module = build(width, recipe=recipe).to(torch.bfloat16).to(place.device)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(random(*p.shape))
    xs = [random(rows, width).requires_grad_() for _ in range(inputs)]
    y = module(*xs)
    return [y.detach(), *torch.autograd.grad(y, [*xs, *module.parameters()],
                                             random(*y.shape))]


def _same_passes(place: CPU, *case) -> str:
    want = passes(CPU(), *case)
    with place.holds():
        got = passes(place, *case)
        place.finish()
    return compare_all(got, want)


def layers(place: CPU) -> Iterator[Case]:
    """Yields both passes of layers that use only Tandem's kernels."""
    width, rows = (40, 3) if place.is_small else (1000, 515)
    recipes = ("coat",) if place.is_small else ("bf16", "coat", "coat-fp8", "te-delayed")
    for recipe in recipes:
        for name in ("RMSNorm", "SwiGLU") if place.is_small else MODULES:
            yield (f"{name} under {recipe}", lambda n=name, r=recipe:
                   _same_passes(place, n, r, width, rows))


def _trained(place: CPU, recipe: str, width: int) -> list[torch.Tensor]:
    """Returns losses of a small model with compressed activations."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.RMSNorm(width), torch.nn.Linear(width, 2 * width),
                                torch.nn.GELU("tanh"), torch.nn.Linear(2 * width, width))
    x = torch.randn(32, width)
    tt.compress_activations(model, recipe)
    model, x = model.to(place.device), place.put(x)
    optimizer, losses = tt.AdamW(model.parameters(), lr=1e-3, strategy="fp32"), []
    for _ in range(3):
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def _close_training(place: CPU, recipe: str) -> str:
    width = 16 if place.is_small else 256
    want = _trained(CPU(), recipe, width)
    with place.holds():
        got = _trained(place, recipe, width)
        place.finish()
    return close(got, want, 2**-6)


def model(place: CPU) -> Iterator[Case]:
    """Yields training of a model with compress_activations, whose matrix products are PyTorch's."""
    for recipe in ("coat",) if place.is_small else ("bf16", "coat", "te-delayed"):
        yield f"compress_activations, {recipe}", lambda r=recipe: _close_training(place, r)


def _decoded(x: torch.Tensor, code: str) -> torch.Tensor:
    codes, scale, _ = _products.quantize(x.detach(), code)
    kind = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}[code]
    return codes.view(kind).double() * scale.double()


def _close_products(place: CPU, recipe: str) -> str:
    """Compares the GPU's products with f64 products of the codes that the CPU makes."""
    torch.manual_seed(1)
    layer = nn.Linear(64, 48, bias=False, dtype=torch.bfloat16, recipe=recipe, products="fp8")
    x, dy = torch.randn(32, 64).bfloat16(), torch.randn(32, 48).bfloat16()
    a, b, d = (_decoded(t, code) for t, code in (
        (x, "f8E4M3FN"), (layer.weight, "f8E4M3FN"), (dy, "f8E5M2")))
    with place.holds():
        layer, x = layer.to(place.device), place.put(x).requires_grad_()
        y = layer(x)
        got = [y, *torch.autograd.grad(y, [x, layer.weight], place.put(dy))]
        place.finish()
    return close(got, [a @ b.T, d @ b, d.T @ a], 2**-7)


def products(place: CPU) -> Iterator[Case]:
    """Yields linear layers with products="fp8"."""
    for recipe in ("coat", "te-current", "coat-fp8"):
        yield f"Linear under {recipe}", lambda r=recipe: _close_products(place, r)


CHECKS: dict[str, Callable[..., Iterator[Case]]] = {
    "steps": steps, "side-stream": side_stream, "graph": graph, "graph-cold": graph_cold,
    "found-inf": found_inf, "scaler": scaler, "layers": layers, "model": model,
    "products": products,
}


#===------------------------------------------------------------------------===#
# The command
#===------------------------------------------------------------------------===#


def run(check: str, case: str, function: Callable[[], str]) -> dict:
    """Returns the row of a case, also if it raises."""
    row = {"check": check, "case": case}
    try:
        return row | {"verdict": function()}
    except Exception as error:
        traceback.print_exc()
        return row | {"error": f"{type(error).__name__}: {error}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--stand-in", action="store_true")
    options = parser.parse_args()
    rows: list[dict] = []
    for case, function in CHECKS[options.check](StandIn() if options.stand_in else GPU()):
        rows.append(run(options.check, case, function))
        print(f"{case}: {rows[-1].get('verdict') or rows[-1].get('error')}", flush=True)
        if options.json:
            step_runner.write_json(options.json, {"torch": rows})
    return int(not all(row.get("verdict") in ("equal", "close") for row in rows))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Exit at once: errors of a broken CUDA context at interpreter shutdown are meaningless.
    os._exit(status)
