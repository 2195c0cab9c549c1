#===- few_bits.py - Errors and biases of gradients -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures what a layer's gradients lose if it saves activations in four bits.
#
#===----------------------------------------------------------------------===#
"""Measures a layer's gradients under recipes of 8 and 4 bits: the error of one pass, and that of the
mean over many passes with the same input.

An error that differs from pass to pass, as that of dithered codes does, averages out over the steps
of a training; one that is the same in each pass is a bias, and stays.
"""

import argparse
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))
sys.path.append(str(ROOT / "benchmarks/activations"))
import common  # noqa: E402
import tandem.torch  # noqa: E402
from layer import BATCH, compare, kept_bytes, make  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "recipes"
RECIPES = ("bf16", "coat", "mxfp8", "linear4", "linear4-nearest", "mxfp4", "mxfp4-nearest",
           "nvfp4", "nvfp4-nearest")
#: Recipes that are measured with Hadamard transforms of the inputs of linear layers, too.
MIXED = ("linear4", "mxfp4", "nvfp4")
#: The number of channels that are outliers, and their factor, where there are any.
CHANNELS, FACTOR = 4, 30


class Passes:
    """The layer, its input and its output's gradient."""

    def __init__(self, recipe: str | None, hidden: int, tokens: int, hadamard: bool = False,
                 outliers: bool = False):
        dtype = torch.bfloat16 if recipe else torch.float64
        self.layer, cos, sin = make(hidden, tokens // BATCH, torch.bfloat16)
        for name, p in self.layer.named_parameters() if outliers else ():
            if p.dim() == 1:  # the weights of norms
                p.data[5::hidden // CHANNELS] *= FACTOR
        if recipe:
            tandem.torch.compress_activations(self.layer, recipe=recipe, path=[FOLDER],
                                              hadamard=hadamard)
        self.layer, self.angles = self.layer.to(dtype), (cos.to(dtype), sin.to(dtype))
        generator = torch.Generator().manual_seed(1)
        self.x, self.dy = (torch.randn((BATCH, tokens // BATCH, hidden), generator=generator)
                           .bfloat16().to(dtype) for _ in range(2))
        self.unit = tokens * hidden * 2

    def kept(self) -> float:
        """Returns the bytes between the passes, in units of a bf16 tensor."""
        return kept_bytes(self.layer, lambda: self.layer(self.x, *self.angles)) / self.unit

    def gradients(self) -> dict[str, torch.Tensor]:
        for p in self.layer.parameters():
            p.grad = None
        x = self.x.clone().requires_grad_()
        self.layer(x, *self.angles).backward(self.dy)
        named = {name: p.grad for name, p in self.layer.named_parameters()} | {"x": x.grad}
        return {name: grad.double() for name, grad in named.items()}


def measure(recipe: str, want: dict, hidden: int, tokens: int, count: int,
            **options: bool) -> dict:
    """Returns the bytes, the worst error of one pass and that of the mean of all."""
    passes = Passes(recipe, hidden, tokens, **options)
    first = total = passes.gradients()
    for _ in range(count - 1):
        total = {name: total[name] + grad for name, grad in passes.gradients().items()}
    mean = {name: grad / count for name, grad in total.items()}
    one, many = (compare(found, want)["error"] for found in (first, mean))
    return {"kept": passes.kept(), "error": max(one.values()), "bias": max(many.values())}


def save(hidden: int, tokens: int, count: int, results: pathlib.Path) -> None:
    """Measures every recipe and writes activations_few_bits.json."""
    torch.manual_seed(0)
    want, rows = Passes(None, hidden, tokens).gradients(), {}
    for recipe in RECIPES:
        rows[recipe] = measure(recipe, want, hidden, tokens, count)
        print(recipe, rows[recipe], flush=True)
    common.save("activations_few_bits", {
        "hidden": hidden, "tokens": tokens, "passes": count, "torch": torch.__version__,
        "rows": rows, "mixed": mixed(hidden, tokens)}, results)


def mixed(hidden: int, tokens: int) -> dict:
    """Returns the worst errors of one pass, with and without Hadamard transforms, by recipe and by
    whether channels are outliers."""
    found = {}
    for outliers in (False, True):
        want = Passes(None, hidden, tokens, outliers=outliers).gradients()
        for recipe in MIXED:
            for hadamard in (False, True):
                row = measure(recipe, want, hidden, tokens, 1, hadamard=hadamard, outliers=outliers)
                kind = "outliers" if outliers else "as it is"
                found.setdefault(recipe, {}).setdefault(kind, []).append(row["error"])
                print(recipe, kind, "hadamard" if hadamard else "", row["error"], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--passes", type=int, default=64)
    parser.add_argument("--results", type=pathlib.Path, default=common.RESULTS)
    options = parser.parse_args()
    save(options.hidden, options.tokens, options.passes, options.results)


if __name__ == "__main__":
    main()
