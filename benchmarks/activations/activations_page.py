#===- activations_page.py - Write docs/Activations.md ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the page on saved activations, of the results that are committed.
#
#===----------------------------------------------------------------------===#
"""Writes docs/Activations.md of benchmarks/results/activations.json."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/Activations.md"

HEAD = """\
# Saved activations

What one layer of Llama's kind (norm, attention, norm, gated feed-forward block; `benchmarks/activations/layer.py`) keeps
for its backward pass in bf16, how long both passes take, and how far its gradients are from those in f64.
`scripts/activations.sh` measures and writes this page. [Layers.md](Layers.md) says what recipes are.

- **kept**: the bytes of all tensors that autograd holds between the passes, parameters aside, scales included, in units
  U of tokens * hidden * 2 bytes; in brackets how many times less that is than what PyTorch's modules keep.
- **both passes**: the median of a forward and a backward pass; matrix products and attention are PyTorch's own in all
  rows.
- **gradients**: over the parameters and the input, the largest error relative to the gradient's norm, and the smallest
  cosine of the angle between the two.
"""


def row(name: str, entry: dict, eager: dict) -> str:
    error, cosine = max(entry["error"].values()), min(entry["cosine"].values())
    return (f"| {name} | {entry['kept']:.2f} U ({eager['kept'] / entry['kept']:.2f}x) | "
            f"{entry['ms']:.1f} ms | {entry['ms'] / eager['ms']:.2f} | {error:.4f} | {cosine:.5f} |")


def section(layer: dict) -> str:
    rows = layer["rows"]
    eager = rows["bf16 eager"]
    named = {name if name in ("bf16 eager", "torch.compile") else f"`{name}`": entry
             for name, entry in rows.items()}
    return "\n".join([
        f"## Hidden size {layer['hidden']}, {layer['tokens']} tokens", "",
        "| | kept | both passes | of eager's time | worst error | worst cosine |",
        "| :--- | ---: | ---: | ---: | ---: | ---: |",
        *(row(name, entry, eager) for name, entry in named.items()), ""])


def render(results: pathlib.Path) -> str:
    content = json.loads((results / "activations.json").read_text())
    machine = content["machine"]
    where = (f"Measured on {machine['cores']} cores of {machine['cpu']}, {content['threads']} "
             f"threads, torch {content['torch']}, {machine['date']}, commit "
             f"{machine['commit'][:12]}{' and changes' if machine['changed_files'] else ''}.\n")
    return "\n".join([HEAD, where, *map(section, content["layers"])]).rstrip() + "\n"


def write(results: pathlib.Path = RESULTS, page: pathlib.Path = PAGE) -> None:
    page.write_text(render(results))
    print(f"wrote {page}")


if __name__ == "__main__":
    write()
