#===- ptx_instructions.py - The instructions of PTX texts -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the instructions that Tandem emits for every graph of the library under every
# strategy, including the tests' f16 strategies, and for every layer under every recipe.
#
#===----------------------------------------------------------------------===#
"""Lists instructions, modifiers included, in PTX texts and in all code that Tandem emits."""

import pathlib
import re
from collections.abc import Iterator

import tandem

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS = ROOT / "lib/Layers"
#: Strategies that are not in the library, which compute in f16 or store moments in it.
F16 = ROOT / "test/Python/Inputs/strategies"
CHIPS = ("sm_80", "sm_90", "sm_100")
_LABELS_AND_BRACES = re.compile(r"^(?:[\s{}]|[$\w]+:)*")
_INSTRUCTION = re.compile(r"(?:@!?[%$\w]+\s+)?([a-z][\w.:]*)")


def instructions(ptx: str) -> list[str]:
    """Returns the instruction of each statement; directives have none."""
    found = []
    for statement in re.sub(r"//[^\n]*", "", ptx).split(";"):
        if match := _INSTRUCTION.match(_LABELS_AND_BRACES.sub("", statement)):
            found.append(match[1])
    return found


def strategies() -> list[str]:
    """Returns the library's strategies and those in f16."""
    return [*tandem.strategies(), *sorted(file.stem for file in F16.glob("*.mlir"))]


def library() -> Iterator[tuple[str, str, dict]]:
    """Yields (graph, strategy, options) and (layer function, recipe, options) from which kernels
    are compiled."""
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
    """Returns a layer's passes; some layers have one that recomputes the forward pass."""
    text = (LAYERS / f"{layer}.mlir").read_text()
    return re.findall(r"^func\.func @(\w+)", text, re.MULTILINE)


def compiled(graph: str, strategy: str, chip: str, options: dict) -> set[str]:
    """Returns the instructions of a kernel."""
    return set(instructions(tandem.compile(graph, strategy, chip, path=[F16], **options).ptx))


def emitted(kernels=None, chips=CHIPS) -> dict[str, dict]:
    """Returns each instruction with its chips and the number of kernels that use it."""
    found = {}
    for graph, strategy, options in kernels or library():
        for chip in chips:
            for name in compiled(graph, strategy, chip, options):
                entry = found.setdefault(name, {"chips": set(), "kernels": 0})
                entry["chips"].add(chip)
                entry["kernels"] += 1
    return {name: {"chips": [c for c in chips if c in entry["chips"]],
                   "kernels": entry["kernels"]} for name, entry in sorted(found.items())}
