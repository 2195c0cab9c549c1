#===- ptx_instructions.py - The instructions of PTX texts -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the list of the instructions that Tandem emits: of every
# graph of the library under every strategy, the tests' strategies in f16 among them,
# and of every layer under every recipe.
#
#===----------------------------------------------------------------------===#
"""Instructions, modifiers included, of PTX texts and of all that Tandem emits."""

import pathlib
import re
from collections.abc import Iterator

import tandem

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS = ROOT / "lib/Layers"
#: Strategies that the library lacks, which compute in f16 or store moments in it.
F16 = ROOT / "test/Python/Inputs/strategies"
CHIPS = ("sm_80", "sm_90", "sm_100")
_LABELS_AND_BRACES = re.compile(r"^(?:[\s{}]|[$\w]+:)*")
_INSTRUCTION = re.compile(r"(?:@!?[%$\w]+\s+)?([a-z][\w.:]*)")


def instructions(ptx: str) -> list[str]:
    """The instruction of each statement; directives have none."""
    found = []
    for statement in re.sub(r"//[^\n]*", "", ptx).split(";"):
        if match := _INSTRUCTION.match(_LABELS_AND_BRACES.sub("", statement)):
            found.append(match[1])
    return found


def strategies() -> list[str]:
    """The library's strategies and those in f16."""
    return [*tandem.strategies(), *sorted(file.stem for file in F16.glob("*.mlir"))]


def library() -> Iterator[tuple[str, str, dict]]:
    """Graphs and strategies, layers' functions and recipes, with options: what kernels
    are compiled from."""
    for graph in tandem.graphs():
        for strategy in strategies():
            yield graph, strategy, {}
    for strategy in strategies():
        yield "adamw", strategy, {"metrics": True, "flags": True}
    for layer in tandem.layers():
        for function in functions(layer):
            for recipe in tandem.recipes():
                yield layer, recipe, {"function": function}


def functions(layer: str) -> list[str]:
    """A layer's passes; some have one that computes the forward pass again."""
    text = (LAYERS / f"{layer}.mlir").read_text()
    return re.findall(r"^func\.func @(\w+)", text, re.MULTILINE)


def compiled(graph: str, strategy: str, chip: str, options: dict) -> set[str]:
    """The instructions of a kernel."""
    return set(instructions(tandem.compile(graph, strategy, chip, path=[F16], **options).ptx))


def emitted(kernels=None, chips=CHIPS) -> dict[str, dict]:
    """Each instruction, with its chips and how many kernels of all chips have it."""
    found = {}
    for graph, strategy, options in kernels or library():
        for chip in chips:
            for name in compiled(graph, strategy, chip, options):
                entry = found.setdefault(name, {"chips": set(), "kernels": 0})
                entry["chips"].add(chip)
                entry["kernels"] += 1
    return {name: {"chips": [c for c in chips if c in entry["chips"]],
                   "kernels": entry["kernels"]} for name, entry in sorted(found.items())}
