#===- bits_kernels.py - Bits of the library's kernels ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the entries of the record of bits that kernels compute: graphs
# under strategies, layers under recipes, and conversions between storages. They take
# only the interface that the package offers to everyone, since the rest may be rebuilt.
#
#===----------------------------------------------------------------------===#
"""Cases whose result is a hash."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tandem
from bits_inputs import Digest, numbers, planes_for, seed_of

#: Elements of a tensor: seven groups of 128 and a part of one, and a tail of every vector.
FLAT = ((1, 1000),)
#: Rows that are shorter than a group, with a tail, and longer, with a part of one.
MATRICES = ((37, 45), (5, 300))
#: The same, and blocks of 128 by 128 with parts of them.
LAYER_SHAPES = (*MATRICES, (130, 140))

#: Values in place of defaults, which may be changed for other reasons.
HYPERS = {"lr": 0.0123, "beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1,
          "momentum": 0.9, "max_norm": 0.7, "rho": 0.01, "mixing": 0.3}
SEED = 0x123456789ABC
#: The gradients of a case's steps.
STEPS = ("ordinary", "ordinary", "wide", "special")
#: Layers whose outputs can be computed again from what is saved.
AGAIN = ("geglu", "geglu_tanh", "swiglu")


@dataclass(frozen=True)
class Case:
    """An entry of a record."""

    name: str
    #: The names of the parts of the library that it covers; a sample has each at least once.
    features: frozenset[str]
    #: Its hash. Raises Unavailable where this machine cannot tell.
    run: Callable[[], str]


class Unavailable(Exception):
    """Something that a case needs is not there."""


@lru_cache(maxsize=64)
def compiled(graph: str, strategy: str, **options) -> tandem.Kernel:
    """tandem.compile, once for the cases that follow each other."""
    return tandem.compile(graph, strategy, **options)


def functions_of(layer: str) -> list[str]:
    """The passes of a layer."""
    return [layer, f"{layer}_backward", *[f"{layer}_again"] * (layer in AGAIN)]

#===------------------------------------------------------------------------===#
# Graphs
#===------------------------------------------------------------------------===#


def scalars(kernel: tandem.Kernel, step: int) -> dict:
    """The scalars of a step, as far as the kernel has them."""
    values = HYPERS | {"step": step, "seed": SEED}
    known = {*kernel.hypers, *kernel.integers}
    return {name: value for name, value in values.items() if name in known}


def renew_gradients(kernel, arrays: dict, shape: tuple[int, int], kind: str,
                    seed: int) -> None:
    """Puts the gradients of a step in the place of those before."""
    made = planes_for(kernel, shape, {"GRAD": kind}, seed)
    arrays |= {p.name: made[p.name] for p in kernel.planes if p.kind.name == "GRAD"}


def begin(kernel, shape: tuple[int, int], seed: int) -> dict:
    """Weights of everyday size, and states of zeros."""
    return planes_for(kernel, shape, {"PARAM": "ordinary"}, seed)


def train(kernel: tandem.Kernel, shapes, steps=STEPS, **options) -> str:
    """The hash of all planes after each step, for tensors of some shapes."""
    digest = Digest()
    for shape in shapes:
        arrays = begin(kernel, shape, 1)
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
    """Each graph under each strategy."""
    return [Case(f"graph {graph} {strategy}",
                 frozenset((f"graph {graph}", f"strategy {strategy}")),
                 lambda g=graph, s=strategy: train_graph(g, s))
            for graph in tandem.graphs() for strategy in tandem.strategies()]

#===------------------------------------------------------------------------===#
# Layers
#===------------------------------------------------------------------------===#


def places(plane, columns: int, count: int, seed: int) -> np.ndarray | None:
    """The numbers of columns, or for each row one of them or -1, if those are asked for."""
    if plane.name == "column":
        values = range(count)
    elif plane.name == "target":
        drawn = numbers("i8", "ordinary", seed, count)
        values = [int(code) % (columns + 1) - 1 for code in drawn]
    else:
        return None
    return np.array(values, np.float32).view(np.uint32)


def layer_inputs(kernel, shape: tuple[int, int], kind: str, seed: int) -> dict:
    """Inputs of a kind; parameters of columns are of everyday size."""
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


def run_layer(layer: str, recipe: str, function: str) -> str:
    """The hash of all planes after a pass, with inputs of each kind; what other passes
    begin with is the forward pass's."""
    digest = Digest()
    for shape in LAYER_SHAPES:
        kept = {}
        for seed, kind in enumerate(("ordinary", "wide", "special")):
            forward = compiled(layer, recipe, function=layer)
            saved = layer_inputs(forward, shape, kind, seed) | kept
            forward(saved, threads=1)
            # Histories of scales are read by the next call.
            kept = {p.name: saved[p.name] for p in forward.planes if p.read and p.written}
            kernel = compiled(layer, recipe, function=function)
            arrays = saved
            if function != layer:
                arrays = layer_inputs(kernel, shape, kind, seed + 10)
                arrays |= {name: saved[name] for name in arrays if name in saved}
                kernel(arrays, threads=1)
            digest.add(arrays)
    return digest.text


def layer_cases() -> list[Case]:
    """Each pass of each layer under each recipe."""
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
    """A state of f32: weights and moments of many sizes, second moments not negative."""
    kernel = compiled(graph, "fp32")
    arrays = planes_for(kernel, shape, dict.fromkeys(("PARAM", "GRAD", "STATE"), "wide"), 7)
    for name in kernel.second_moments:
        arrays[name] &= np.uint32(0x7FFFFFFF)
    return arrays


def convert(graph: str, *strategies: str) -> str:
    """The hash of a state under each strategy that it comes to, one after the other."""
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
    """A strategy for each way to store weights, the first by name."""
    first = {}
    for strategy in sorted(tandem.strategies()):
        first.setdefault(compiled("sgd", strategy).storages["param"], strategy)
    return tuple(first.values())


def conversion_cases() -> list[Case]:
    """Weights from each storage to each other one, states from f32 and back."""
    known = weight_strategies()
    cases = [Case(f"convert weights {source} to {target}",
                  frozenset((f"from {source}", f"to {target}")),
                  lambda s=source, t=target: convert("sgd", s, t))
             for source in known for target in known if source != target]
    return cases + [Case(f"convert {graph} {strategy} from f32 and back",
                         frozenset((f"convert {graph}", f"convert to {strategy}")),
                         lambda g=graph, s=strategy: convert(g, s, "fp32"))
                    for graph in ("adamw", "adafactor") for strategy in tandem.strategies()]
