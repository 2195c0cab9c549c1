#===- granularity.py - Errors by the size of scale groups -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures the error of E4M3 activations by the number of elements that share a scale, and
# the time to store them, for the page on saved activations.
#
#===----------------------------------------------------------------------===#
"""Trains the demo's model, stores its activations with several group sizes, and times the
kernels (COAT, figure 4 and section 5.1)."""

import functools
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import tandem
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/quality"), str(ROOT / "examples")]
from language_model import data  # noqa: E402
from language_model import model as demo  # noqa: E402
from round_trip import round_trip, scaled  # noqa: E402

#: The groups of elements that share a scale, from a whole tensor to 16 elements of a token.
GROUPS = ("tensor", "128x128", "32x32", "row", "128", "64", "32", "16")
CODE = "#scaled.float<f8E4M3FN>"

#: The storage for each kind of scaling; COAT's group scaling has groups of 16.
SCALINGS = {
    "delayed": scaled(CODE, "tensor", "f32")[:-1] + ", history = 16>",
    "just in time": scaled(CODE, "tensor", "f32"),
    **{f"groups of {size}": scaled(CODE, size, "bf16") for size in (128, 64, 32, 16)},
}

BF16, F32 = "#tandem.float<bf16>", "#tandem.float<f32>"


def trained(corpus: data.Corpus, steps: int) -> demo.Transformer:
    """Trains the demo's model in f32 for some steps of AdamW and returns it."""
    model = demo.make_model(len(corpus.vocabulary), demo.ModelShape(128, 4, 4, 128), 0,
                            torch.float32)
    optimizer = tandem.torch.AdamW(model.parameters(), lr=1e-3, strategy="fp32")
    for step, batch in enumerate(data.batches(corpus.train, steps, 16, 128, 0)):
        optimizer.zero_grad()
        loss = model.loss(*batch)
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1} of {steps}: loss {loss.item():.3f}", flush=True)
    return model


def activations(model: demo.Transformer, batch) -> dict[str, list[np.ndarray]]:
    """Returns the tensors that the layers' backward passes need, by kind, with a row per token."""
    kept = {"norms": [], "activations": [], "linear layers": []}

    def note(kind, _, inputs):
        kept[kind].append(inputs[0].flatten(0, -2).numpy().copy())

    hooks = []
    for module in model.modules():
        if isinstance(module, demo.Norm):
            hooks.append(module.register_forward_pre_hook(functools.partial(note, "norms")))
        elif isinstance(module, demo.Linear):
            hooks.append(module.register_forward_pre_hook(
                functools.partial(note, "linear layers")))
        if isinstance(module, demo.Block):  # GELU's input
            hooks.append(module.up.register_forward_hook(
                lambda module, inputs, output: note("activations", module, (output,))))
    with torch.no_grad():
        model.loss(*batch)
    for hook in hooks:
        hook.remove()
    return kept


def error(tensors: list[np.ndarray], group: str) -> float:
    """Returns the root mean square error relative to that of the values."""
    storage = scaled(CODE, group, "f32")
    lost = sum(float(np.square(round_trip(storage, x).reshape(x.shape).astype(np.float64)
                               - x).sum()) for x in tensors)
    return (lost / sum(float(np.square(x.astype(np.float64)).sum()) for x in tensors)) ** 0.5


def source(layer: str) -> str:
    """Returns the text of a layer of the library."""
    return (ROOT / f"lib/Layers/{layer}.mlir").read_text()


class Kernel:
    """A kernel of bf16 inputs, whose outputs and saved tensors have the given storage, with tensors
    of its own."""

    def __init__(self, graph: str, function: str, isa: str, storage: str, shape: tuple[int, int]):
        strategy = f"""
            tandem.strategy @stored compute(<f32, f32>) {{
              tandem.assign input per(column) = {F32}
              tandem.assign input = {BF16}
              tandem.assign output per(row) = {F32}
              tandem.assign output = {storage}
              tandem.assign saved = {storage}
            }}"""
        self.kernel = tandem.compile(graph + strategy, "stored", function=function, isa=isa)
        self.planes = {plane.name: self._plane(plane, *shape) for plane in self.kernel.planes}

    @staticmethod
    def _plane(plane, rows: int, columns: int) -> torch.Tensor:
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}.get(plane.type, torch.uint8)
        entries = torch.ones(plane.entries(columns, rows), dtype=dtype)
        if plane.sets_size:
            return torch.randn(rows, columns).to(dtype) if dtype.is_floating_point else (
                entries.view(rows, columns))
        return entries

    def __call__(self, **scalars: float) -> None:
        self.kernel(self.planes, threads=1, **scalars)


def seconds(run: Callable[[], None]) -> float:
    """Returns the time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def times(rows: int, columns: int, rounds: int) -> dict[str, float]:
    """Returns nanoseconds per element on one thread: medians of interleaved runs."""
    stores = {name: Kernel(source("keep"), "keep", "native", storage, (rows, columns))
              for name, storage in SCALINGS.items()}
    found = {name: [] for name in stores}
    for _ in range(rounds):
        for name, store in stores.items():
            found[name].append(seconds(store))
    return {name: 1e9 * statistics.median(values) / (rows * columns)
            for name, values in found.items()}


def measure(steps: int, rounds: int) -> dict:
    corpus = data.load_corpus()
    kept = activations(trained(corpus, steps),
                       next(data.batches(corpus.validation, 1, 16, 128, 1)))
    errors = {}
    for kind, tensors in kept.items():
        errors[kind] = {group: error(tensors, group) for group in GROUPS}
        print(f"{kind}: " + ", ".join(f"{group} {e:.4f}" for group, e in errors[kind].items()),
              flush=True)
    return {"steps": steps, "errors": errors, "shape": [2048, 2048], "rounds": rounds,
            "ns_per_element": times(2048, 2048, rounds)}
