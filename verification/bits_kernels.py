#===- bits_kernels.py - Bits of the library's kernels ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the entries of the record of bits that kernels compute: graphs under
# strategies, layers under recipes, and conversions between storages. They use only the package's
# public interface, since the rest may be rebuilt.
#
#===----------------------------------------------------------------------===#
"""Cases whose result is a hash of computed bits."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tandem
from bits_inputs import Digest, numbers, planes_for, seed_of

#: The elements of a tensor: seven groups of 128, part of another, and a tail for every vector.
FLAT = ((1, 1000),)
#: Rows shorter than a group, with a tail, and longer rows with part of a group.
MATRICES = ((37, 45), (5, 300))
#: The same, and blocks of 128 by 128 with partial blocks.
LAYER_SHAPES = (*MATRICES, (130, 140))

#: Values that replace the defaults, which may change for other reasons.
HYPERS = {"lr": 0.0123, "beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1,
          "momentum": 0.9, "max_norm": 0.7, "rho": 0.01, "mixing": 0.3}
SEED = 0x123456789ABC
#: The kinds of gradients in a case's steps.
STEPS = ("ordinary", "ordinary", "wide", "special")
#: Layers whose outputs can be recomputed from what is saved.
AGAIN = ("geglu", "geglu_tanh", "swiglu")


@dataclass(frozen=True)
class Case:
    """An entry of a record."""

    name: str
    #: The names of the parts of the library that it covers; a sample covers each at least once.
    features: frozenset[str]
    #: Returns the hash. Raises Unavailable if this machine cannot compute it.
    run: Callable[[], str]


class Unavailable(Exception):
    """Raised if something that a case needs is missing."""


_compile = tandem.compile


def compile_with(function: Callable[..., tandem.Kernel]) -> None:
    """Makes the cases run the kernels of a function that takes tandem.compile's arguments."""
    global _compile
    _compile = function
    compiled.cache_clear()


@lru_cache(maxsize=64)
def compiled(graph: str, strategy: str, **options) -> tandem.Kernel:
    """Compiles a kernel, with a cache for consecutive cases."""
    return _compile(graph, strategy, **options)


def functions_of(layer: str) -> list[str]:
    """Returns the passes of a layer."""
    return [layer, f"{layer}_backward", *[f"{layer}_again"] * (layer in AGAIN)]

#===------------------------------------------------------------------------===#
# Graphs
#===------------------------------------------------------------------------===#


def scalars(kernel: tandem.Kernel, step: int) -> dict:
    """Returns those scalars of a step that the kernel has."""
    values = HYPERS | {"step": step, "seed": SEED}
    known = {*kernel.hypers, *kernel.integers}
    return {name: value for name, value in values.items() if name in known}


def renew_gradients(kernel, arrays: dict, shape: tuple[int, int], kind: str,
                    seed: int) -> None:
    """Replaces the gradients by those of the next step."""
    made = planes_for(kernel, shape, {"GRAD": kind}, seed)
    arrays |= {p.name: made[p.name] for p in kernel.planes if p.kind.name == "GRAD"}


def begin(kernel, shape: tuple[int, int], seed: int) -> dict:
    """Returns weights of ordinary size and states of zeros."""
    return planes_for(kernel, shape, {"PARAM": "ordinary"}, seed)


def reverse(kernel: tandem.Kernel, arrays: dict) -> dict:
    """Returns functions for a kernel's external steps, which reverse what is sent and flip its
    sign."""
    planes = {kind: [p for p in kernel.planes if p.kind.name == kind] for kind in ("SENT", "RECEIVED")}

    def compute(stream: int) -> None:
        for sent, received in zip(planes["SENT"], planes["RECEIVED"]):
            bits = arrays[sent.name]
            sign = bits.dtype.type(1 << (8 * bits.itemsize - 1))
            arrays[received.name][...] = (bits.reshape(-1)[::-1] ^ sign).reshape(bits.shape)

    return dict.fromkeys(kernel.externals, compute)


def train(kernel: tandem.Kernel, shapes, steps=STEPS, **options) -> str:
    """Hashes all planes after each step, for tensors of some shapes."""
    digest = Digest()
    for shape in shapes:
        arrays = begin(kernel, shape, 1)
        if kernel.externals and type(kernel) is not tandem.Kernel:
            raise Unavailable("external steps are not emulated")
        if kernel.externals:
            options |= {"external": reverse(kernel, arrays)}
        for step, kind in enumerate(steps, 1):
            renew_gradients(kernel, arrays, shape, kind, 1 + step)
            flags = kernel(arrays, **{"threads": 1} | options, **scalars(kernel, step))
            digest.add(arrays)
            digest.note(str(flags))
    return digest.text


def shapes_of(kernel: tandem.Kernel):
    return MATRICES if kernel.is_matrix else FLAT


def train_graph(graph: str, strategy: str, **options) -> str:
    kernel = compiled(graph, strategy, **options)
    return train(kernel, shapes_of(kernel))


def graph_cases() -> list[Case]:
    """Returns a case for each graph under each strategy."""
    return [Case(f"graph {graph} {strategy}",
                 frozenset((f"graph {graph}", f"strategy {strategy}")),
                 lambda g=graph, s=strategy: train_graph(g, s))
            for graph in tandem.graphs() for strategy in tandem.strategies()]

#===------------------------------------------------------------------------===#
# Layers
#===------------------------------------------------------------------------===#


def places(plane, columns: int, count: int, seed: int) -> np.ndarray | None:
    """Returns column numbers or targets (a column or -1 per row) if the plane has these."""
    if plane.name == "column":
        values = range(count)
    elif plane.name == "target":
        drawn = numbers("i8", "ordinary", seed, count)
        values = [int(code) % (columns + 1) - 1 for code in drawn]
    else:
        return None
    return np.array(values, np.float32).view(np.uint32)


def layer_inputs(kernel, shape: tuple[int, int], kind: str, seed: int) -> dict:
    """Returns inputs of a kind; column parameters have ordinary sizes."""
    arrays = planes_for(kernel, shape, {"INPUT": kind}, seed)
    for plane in kernel.planes:
        if plane.kind.name != "INPUT":
            continue
        count = arrays[plane.name].size
        given = places(plane, shape[1], count, seed_of(seed, plane.name))
        if given is not None:
            arrays[plane.name] = given
        elif plane.per.name == "COLUMN":
            arrays[plane.name] = numbers(plane.type, "ordinary", seed, count)
    return arrays


def bits_of(kernel: tandem.Kernel) -> dict[str, int]:
    """Returns the integers from which a pass that dithers draws bits."""
    return {name: value for name, value in (("step", 1), ("seed", SEED)) if name in kernel.integers}


def run_layer(layer: str, recipe: str, function: str) -> str:
    """Hashes all planes after a pass, with inputs of each kind. The inputs of other passes come
    from a forward pass."""
    digest = Digest()
    for shape in LAYER_SHAPES:
        kept = {}
        for seed, kind in enumerate(("ordinary", "wide", "special")):
            forward = compiled(layer, recipe, function=layer)
            saved = layer_inputs(forward, shape, kind, seed) | kept
            forward(saved, threads=1, **bits_of(forward))
            # The next call reads the histories of scales.
            kept = {p.name: saved[p.name] for p in forward.planes if p.read and p.written}
            kernel = compiled(layer, recipe, function=function)
            arrays = saved
            if function != layer:
                arrays = layer_inputs(kernel, shape, kind, seed + 10)
                arrays |= {name: saved[name] for name in arrays if name in saved}
                kernel(arrays, threads=1, **bits_of(kernel))
            digest.add(arrays)
    return digest.text


def layer_cases() -> list[Case]:
    """Returns a case for each pass of each layer under each recipe."""
    return [Case(f"layer {function} {recipe}",
                 frozenset((f"layer {function}", f"recipe {recipe}")),
                 lambda layer=layer, r=recipe, f=function: run_layer(layer, r, f))
            for layer in tandem.layers() for function in functions_of(layer)
            for recipe in tandem.recipes()]

#===------------------------------------------------------------------------===#
# Conversions
#===------------------------------------------------------------------------===#


@lru_cache(maxsize=None)
def wide_state(graph: str, shape: tuple[int, int]) -> dict:
    """Returns an f32 state: weights and moments of many sizes, with nonnegative second moments."""
    kernel = compiled(graph, "fp32")
    arrays = planes_for(kernel, shape, dict.fromkeys(("PARAM", "GRAD", "STATE"), "wide"), 7)
    for name in kernel.second_moments:
        arrays[name] &= np.uint32(0x7FFFFFFF)
    return arrays


def convert(graph: str, *strategies: str) -> str:
    """Hashes a state after each conversion in a chain of strategies."""
    digest = Digest()
    for shape in shapes_of(compiled(graph, "fp32")):
        state, source = wide_state(graph, shape), "fp32"
        for target in strategies:
            state = tandem.convert_state(graph, state, source, target, threads=1)
            digest.add(state)
            source = target
    return digest.text


@lru_cache(maxsize=None)
def weight_strategies() -> tuple[str, ...]:
    """Returns one strategy, the first by name, for each way of storing weights."""
    first = {}
    for strategy in sorted(tandem.strategies()):
        first.setdefault(compiled("sgd", strategy).storages["param"], strategy)
    return tuple(first.values())


def conversion_cases() -> list[Case]:
    """Returns conversions between all weight storages, and of states from f32 and back."""
    known = weight_strategies()
    cases = [Case(f"convert weights {source} to {target}",
                  frozenset((f"from {source}", f"to {target}")),
                  lambda s=source, t=target: convert("sgd", s, t))
             for source in known for target in known if source != target]
    return cases + [Case(f"convert {graph} {strategy} from f32 and back",
                         frozenset((f"convert {graph}", f"convert to {strategy}")),
                         lambda g=graph, s=strategy: convert(g, s, "fp32"))
                    for graph in ("adamw", "adafactor") for strategy in tandem.strategies()]
