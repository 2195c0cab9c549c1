#===- bits_options.py - Bits under options ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the entries of the record of bits for options of the compiler and of
# launches, and for PyTorch optimizers with their options.
#
#===----------------------------------------------------------------------===#
"""Cases whose result is a hash of bits computed with options."""

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import tandem
from bits_inputs import Digest, numbers, seed_of
from bits_kernels import (STEPS, Case, Unavailable, begin, compiled, renew_gradients,
                          scalars, shapes_of, train, train_graph)

#===------------------------------------------------------------------------===#
# Kernels
#===------------------------------------------------------------------------===#


def _with_isa(graph: str, strategy: str, isa: str) -> str:
    """Trains with a level of instructions; raises Unavailable if this processor lacks it."""
    try:
        with open("/proc/cpuinfo") as file:
            features = next(line for line in file if line.startswith("flags")).split()
    except (OSError, StopIteration):
        features = []
    needed = {"x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}.get(isa)
    if needed and needed not in features:
        raise Unavailable(f"this CPU has no {needed}, which {isa} needs")
    return train_graph(graph, strategy, isa=isa)


def _in_parts(graph: str, strategy: str, **options) -> str:
    """Trains on tensors that threads divide into chunks."""
    kernel = compiled(graph, strategy)
    shapes = ((211, 333),) if kernel.is_matrix else ((1, 70001),)
    return train(kernel, shapes, STEPS[:3], **options)


def _is_sharded(kernel: tandem.Kernel) -> bool:
    """Returns whether a launch may process a part of a tensor."""
    return not (kernel.is_matrix or kernel.reductions)


def _placed(graph: str, strategy: str) -> str:
    """Trains with a different key and first element for random numbers."""
    kernel = compiled(graph, strategy)
    return train(kernel, shapes_of(kernel), key=77, first=2**33 * _is_sharded(kernel))


def _loaded(graph: str, strategy: str) -> str:
    """Trains with a kernel that was saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.tdm"
        compiled(graph, strategy).save(path, ["x86-64"])
        kernel = tandem.load(path)
        return train(kernel, shapes_of(kernel))


def _plan_of_many(kernel, skip_nonfinite: bool = False) -> tuple[tandem.Plan, list, list]:
    """Returns a plan of tensors with keys, first elements and one of two rows of scalars."""
    sizes = (1, 37, 1000, 5000, 513)
    shapes = [(3, size) if kernel.is_matrix else (1, size) for size in sizes]
    tensors = [begin(kernel, shape, seed) for seed, shape in enumerate(shapes)]
    plan = tandem.Plan(kernel, skip_nonfinite=skip_nonfinite)
    firsts = [1024 * i * _is_sharded(kernel) for i in range(5)]
    plan.update([shape if kernel.is_matrix else shape[1] for shape in shapes],
                [[planes[p.name].ctypes.data for p in kernel.planes] for planes in tensors],
                rows=[0, 1, 0, 1, 1], keys=[5, 6, 7, 2**40, 9], firsts=firsts)
    return plan, shapes, tensors


def _run_plan(graph: str, strategy: str, skip_nonfinite: bool = False, **options) -> str:
    """Hashes all tensors, flags and metrics after each step."""
    kernel, digest = compiled(graph, strategy, **options), Digest()
    plan, shapes, tensors = _plan_of_many(kernel, skip_nonfinite)
    for step, kind in enumerate((*STEPS, "ordinary"), 1):
        for seed, (shape, planes) in enumerate(zip(shapes, tensors)):
            made = dict(planes)
            renew_gradients(kernel, made, shape, kind, seed + 100 * step)
            for name, plane in planes.items():
                plane[...] = made[name]
        rows = [kernel.scalars(scalars(kernel, step) | {"lr": lr}) for lr in (0.01, 0.003)]
        flags = plan.launch([hypers for hypers, _ in rows],
                            [integers for _, integers in rows], threads=1)
        digest.note(f"{flags}")
        for planes in tensors:
            digest.add(planes)
        if options.get("metrics"):
            digest.add({"metrics": np.array(plan.metrics() + plan.metrics(2))})
    return digest.text


#: The functions that run a graph under a strategy with each option.
OPTIONS = {
    "isa=x86-64": lambda g, s: _with_isa(g, s, "x86-64"),
    "isa=x86-64-v3": lambda g, s: _with_isa(g, s, "x86-64-v3"),
    "isa=x86-64-v4": lambda g, s: _with_isa(g, s, "x86-64-v4"),
    "width=256": lambda g, s: train_graph(g, s, width=256),
    "metrics": lambda g, s: _run_plan(g, s, metrics=True),
    "flags": lambda g, s: _run_plan(g, s, flags=True),
    "metrics and flags": lambda g, s: _run_plan(g, s, metrics=True, flags=True),
    "skip_nonfinite": lambda g, s: _run_plan(g, s, skip_nonfinite=True),
    "a plan of many tensors": _run_plan,
    "threads=3": lambda g, s: _in_parts(g, s, threads=3),
    "key and first": _placed,
    "a package": _loaded,
}
#: Graphs with one pass, with a reduction over the model or over a tensor, and with matrices.
OPTION_GRAPHS = ("adamw", "adamw_clip", "lamb", "adafactor")
#: Strategies with expansions, with scaled groups and random bits, and with per-tensor scales.
OPTION_STRATEGIES = ("collage-plus", "coat", "fp8-lm")


def _fits(option: str, graph: str) -> bool:
    """Returns whether a graph supports an option: kernels of matrices have no metrics."""
    return graph != "adafactor" or "metrics" not in option


def option_cases() -> list[Case]:
    """Returns cases for each option with some graphs and strategies."""
    return [Case(f"option {option}: {graph} {strategy}",
                 frozenset((f"option {option}", f"{graph} with an option",
                            f"{strategy} with an option")),
                 lambda run=run, g=graph, s=strategy: run(g, s))
            for option, run in OPTIONS.items() for graph in OPTION_GRAPHS
            for strategy in OPTION_STRATEGIES if _fits(option, graph)]


#: The options whose cases call kernels on arrays, as emulated kernels can be called.
EMULATED_OPTIONS = ("width=256", "threads=3", "key and first")


def emulated_option_cases() -> list[Case]:
    """Returns the cases that run with emulated kernels."""
    return [case for case in option_cases()
            if any(case.name.startswith(f"option {option}:") for option in EMULATED_OPTIONS)]

#===------------------------------------------------------------------------===#
# PyTorch
#===------------------------------------------------------------------------===#

#: Optimizers of tandem.torch and their arguments. The matrices and vectors are small, so codes
#: require min_8bit_size.
CODES = {"min_8bit_size": 0}
OPTIMIZERS = {
    "AdamW": ("AdamW", {}),
    "AdamW max_norm": ("AdamW", {"max_norm": 0.7}),
    "AdamW skip_nonfinite": ("AdamW", {"skip_nonfinite": True}),
    "AdamW metrics": ("AdamW", {"metrics": True}),
    "AdamW decay=before": ("AdamW", {"decay": "before"}),
    "AdamW decay=after": ("AdamW", {"decay": "after"}),
    "AdamW eps_inside_root": ("AdamW", {"eps_inside_root": True, "eps": 0.01}),
    "AdamW maximize": ("AdamW", {"maximize": True}),
    "AdamW gradient_release": ("AdamW", {"gradient_release": True}),
    "AdamW min_8bit_size=4096": ("AdamW", {"min_8bit_size": 4096}),
    "Adam": ("Adam", {}), "LAMB": ("LAMB", {}), "Lion": ("Lion", {}),
    "SGD": ("SGD", {}), "SGD momentum": ("SGD", {"momentum": 0.9}),
    "SGD nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "RMSprop": ("RMSprop", {}), "Adagrad": ("Adagrad", {}), "Adafactor": ("Adafactor", {}),
}
TORCH_STRATEGIES = ("collage-plus", "flash-f16", "coat")
SHAPES = ((64, 96), (96,), (37, 45))


@contextlib.contextmanager
def _torch():
    """Returns PyTorch, set to one thread, and the optimizers."""
    try:
        import torch
    except ImportError:
        raise Unavailable("there is no PyTorch") from None
    import tandem.torch
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield torch, tandem.torch
    finally:
        torch.set_num_threads(threads)


def _tensors(torch, kind: str, seed: int) -> list:
    """Returns bf16 tensors with the parameters' shapes."""
    made = []
    for number, shape in enumerate(SHAPES):
        count = int(np.prod(shape))
        codes = numbers("bf16", kind, seed_of(seed, number), count).view(np.int16)
        made.append(torch.from_numpy(codes).view(torch.bfloat16).reshape(shape))
    return made


def _planes_of(torch, optimizer, params) -> dict:
    """Returns parameters and states as byte arrays."""
    def to_bytes(tensor):
        flat = tensor.detach().contiguous().reshape(-1)
        return flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)

    planes = {f"param {number}": to_bytes(param) for number, param in enumerate(params)}
    for number, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            planes[f"state {number} {name}"] = (
                to_bytes(value) if isinstance(value, torch.Tensor)
                else np.frombuffer(repr(value).encode(), np.uint8))
    return planes


def _train_torch(torch, library, kind: str, strategy: str, options: dict) -> str:
    """Hashes an optimizer's parameters and states after each step, with gradients from a
    backward pass."""
    params = [torch.nn.Parameter(tensor) for tensor in _tensors(torch, "ordinary", 0)]
    optimizer = getattr(library, kind)(params, lr=0.01, strategy=strategy, threads=1, seed=3,
                                       **CODES | options)
    digest = Digest()
    for step, numbers_kind in enumerate(STEPS, 1):
        factors = _tensors(torch, numbers_kind, step)
        sum((p * c).sum() for p, c in zip(params, factors)).backward()
        optimizer.step()
        optimizer.zero_grad()
        digest.add(_planes_of(torch, optimizer, params))
        if options.get("metrics"):
            digest.note(repr(optimizer.metrics()))
    return digest.text


def _run_torch(kind: str, strategy: str, options: dict) -> str:
    with _torch() as (torch, library):
        return _train_torch(torch, library, kind, strategy, options)


def torch_cases() -> list[Case]:
    """Returns cases for each optimizer, and for each option of AdamW, under some strategies."""
    return [Case(f"torch {title}: {strategy}",
                 frozenset((f"torch {title}", f"torch {strategy}")),
                 lambda k=kind, s=strategy, o=options: _run_torch(k, s, o))
            for title, (kind, options) in OPTIMIZERS.items()
            for strategy in TORCH_STRATEGIES]
