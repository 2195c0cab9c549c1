#===- activations_page.py - Write docs/Activations.md ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the page on saved activations from the committed results.
#
#===----------------------------------------------------------------------===#
"""Writes docs/Activations.md from benchmarks/results/activations.json."""

import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))
sys.path.append(str(ROOT / "benchmarks/activations"))
from common import origin, table  # noqa: E402
from few_bits import CHANNELS, FACTOR  # noqa: E402

RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/Activations.md"

HEAD = """\
# Saved activations

This page measures what [compressed layers](Layers.md) save. It takes one transformer layer like Llama's in bf16 (norm, attention, norm,
gated feed-forward block; `benchmarks/activations/layer.py`), and shows how many bytes it saves for its backward pass, how long both
passes take on a CPU, and how far its gradients are from those in f64. Under the recipe `coat` the layer saves {bytes:.1f} times fewer bytes than
PyTorch's eager modules, and takes {least:.2f} to {most:.2f} times as long; its gradients have a larger error.
`scripts/activations.sh` measures and writes the page.

- **kept** are the bytes of all tensors that autograd holds between the passes, with scales and without parameters, in units
  U of tokens * hidden * 2 bytes. In brackets: how many times fewer bytes than PyTorch's eager modules.
- **+ recompute**: the gated block's product is not saved, but recomputed in the backward pass.
- **+ torch.compile**: the layer with compressed modules was compiled, in whose graph they are operators. The row *torch.compile* has
  PyTorch's own modules.
- **both passes** is the median time of a forward and a backward pass. Matrix products and attention are PyTorch's own in all
  rows. The next two columns are medians of each round's ratio to the first two rows.
- **worst error** and **worst cosine** compare gradients of the parameters and of the input with f64's: the largest error relative to the
  gradient's norm, and the smallest cosine of the angle between the two.
"""


def head(layers: list[dict]) -> str:
    """Returns the text before the tables, with what `coat` saves and costs over all sizes."""
    rows = [layer["rows"] for layer in layers]
    times = [found["coat"]["of"]["bf16 eager"] for found in rows]
    saved = [found["bf16 eager"]["kept"] / found["coat"]["kept"] for found in rows]
    return HEAD.format(bytes=min(saved), least=min(times), most=max(times))


def row(name: str, entry: dict, eager: dict) -> str:
    error, cosine = max(entry["error"].values()), min(entry["cosine"].values())
    return (f"| {name} | {entry['kept']:.2f} U ({eager['kept'] / entry['kept']:.2f}x) | "
            f"{entry['ms']:.1f} ms | {entry['of']['bf16 eager']:.2f} | "
            f"{entry['of']['torch.compile']:.2f} | {error:.4f} | {cosine:.5f} |")


def title(name: str) -> str:
    recipe, plus, rest = name.partition(" + ")
    return name if name in ("bf16 eager", "torch.compile") else f"`{recipe}`{plus}{rest}"


def section(layer: dict) -> str:
    rows = layer["rows"]
    eager = rows["bf16 eager"]
    named = {title(name): entry for name, entry in rows.items()}
    return "\n".join([
        f"## Hidden size {layer['hidden']}, {layer['tokens']} tokens", "",
        "| | kept | both passes | of eager's | of torch.compile's | worst error | worst cosine |",
        "| :--- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(row(name, entry, eager) for name, entry in named.items()), ""])


GRANULARITY = """\
## Who shares a scale

The table has the error of activations in E4M3 with f32 scales, relative to their root mean square, by the block of elements that share
a scale. The activations are those of the demo's model after {steps} steps of training, on a batch that it has not seen (COAT,
figure 4). If the elements of a tensor have similar magnitudes, E4M3's own exponents do what scales would; outliers need
scales of their own.

{errors}

The next table has the time to store a bf16 tensor of {rows} x {columns} on one thread. Scales follow from magnitudes of
earlier steps (delayed), of the whole tensor, which is then read twice (just in time), or of each group as it is read.

{times}
"""


def granularity(found: dict) -> str:
    errors = found["errors"]
    groups = list(next(iter(errors.values())))
    rows = [[kind, *(f"{100 * row[group]:.2f} %" for group in groups)]
            for kind, row in errors.items()]
    headers = ["saved for", *(f"1x{g}" if g.isdigit() else g for g in groups)]
    ns = found["ns_per_element"]
    return GRANULARITY.format(
        steps=found["steps"], rows=found["shape"][0], columns=found["shape"][1],
        errors=table(headers, rows),
        times=table(["scales", "ns an element", "of just in time"],
                    [[name, f"{t:.3f}", f"{t / ns['just in time']:.2f}"]
                     for name, t in ns.items()]))


FEW_BITS = """\
## Four bits

Under `linear4`, `mxfp4` and `nvfp4` the layer keeps {linear:.2f}, {mx:.2f} and {nv:.2f} U, where 8-bit recipes keep {eight:.2f} U
or more; what remains wide is attention's. The table has the largest error of a gradient in one pass, and that of the mean of {passes} passes over the same
input (hidden size {hidden}, {tokens} tokens). Dithered codes have the larger error, but it averages out over passes, as over the steps of
a training; codes to nearest have a bias, which stays.

{rows}

With [`hadamard=True`](Layers.md#hadamard-transforms) linear layers save sums and differences of 16 neighbouring inputs. The table has the largest
error of one pass as it is, and if {channels} channels of the linear layers' inputs are {factor} times as large. Integers, which have no exponents of
their own, gain most; NVFP4 gains nothing.

{mixed}

{machine}. How models train under them is in [Quality](Quality.md#training).
"""


def mixed(found: dict) -> str:
    """Returns the table of errors with and without Hadamard transforms."""
    kinds = next(iter(found.values()))
    return table(["recipe", *(f"{kind}{with_}" for kind in kinds for with_ in ("", ", `hadamard`"))],
                 [[f"`{recipe}`", *(f"{error:.3f}" for errors in row.values() for error in errors)]
                  for recipe, row in found.items()])


def few_bits(found: dict) -> str:
    """Compares recipes of 8 and 4 bits."""
    rows, machine = found["rows"], found["machine"]
    eight = min(rows[name]["kept"] for name in ("coat", "mxfp8"))
    return FEW_BITS.format(
        channels=CHANNELS, factor=FACTOR, mixed=mixed(found["mixed"]),
        linear=rows["linear4"]["kept"], mx=rows["mxfp4"]["kept"], nv=rows["nvfp4"]["kept"], eight=eight,
        passes=found["passes"], hidden=found["hidden"], tokens=found["tokens"],
        machine=f"Measured with torch {found['torch']}, {origin(found)}, on {machine['cpu']}",
        rows=table(["recipe", "kept", "worst error", f"of the mean of {found['passes']}"],
                   [[f"`{name}`" if "-nearest" not in name else
                     f"`{name.removesuffix('-nearest')}` to nearest", f"{row['kept']:.2f} U",
                     f"{row['error']:.3f}", f"{row['bias']:.3f}"] for name, row in rows.items()]))


SCALES = """\
## Groups, blocks and outliers

With as many elements in a scale, a group along one token and a square block differ only in whom an outlier disturbs. The table
has the errors of the inputs of norms in a model {width} wide after {steps} steps, means of {seeds} seeds (COAT, figure 4a):
as trained, with {channels} channels that are {factor:g} times as large for all tokens, and with one token in {tokens} that is so in
all channels. A group along a token suffers less from tokens, and a block less from channels.

{errors}

## When the largest magnitude is found

A layer whose result has a scale for the tensor must know the largest magnitude before it writes a code (COAT, figure 4b). *Just
in time* stores the result in bf16, and a second kernel reads it twice. *Group Scaling* is COAT's: the layer also writes the
largest magnitude of each row, and the second kernel reads the result once. Tandem's layers are *one kernel*: they compute the
result twice, first for its largest magnitude and then for its codes, and never store it in bf16; so they read their inputs
twice. *Delayed* scales follow from earlier steps. The table has medians of nanoseconds an element, {rows} x {columns}, on one
thread. Of the first three, one kernel is fastest where computing the result is cheap ({cheap}). Elsewhere ({dear}) a CPU takes
longer to compute the result twice than to read it again.

{times}

{machine}. Command: `benchmarks/activations/scales.py`.
"""


def scales(found: dict) -> str:
    """Compares groups with blocks, and the ways to find a scale."""
    by_seed = list(found["errors"].values())
    kinds, shapes = list(by_seed[0]), list(by_seed[0]["as trained"])
    errors = [[kind, *(f"{100 * statistics.fmean(one[kind][shape] for one in by_seed):.2f} %"
                       for shape in shapes)] for kind in kinds]
    medians = {f"{layer}, {isa}": {name: statistics.median(each) for name, each in row.items()}
               for layer, isas in found["times"].items() for isa, row in isas.items()}
    cheap = [layer for layer, isas in found["times"].items() if all(
        medians[f"{layer}, {isa}"]["one kernel"] < min(
            medians[f"{layer}, {isa}"][other] for other in ("just in time", "Group Scaling"))
        for isa in isas)]
    dear = [layer for layer in found["times"] if layer not in cheap]
    names = list(next(iter(medians.values())))
    return SCALES.format(
        width=f"{found['width']:,}", steps=found["steps"], seeds=len(by_seed),
        channels=found["channels"], tokens=found["tokens"], factor=found["factor"],
        rows=found["shape"][0], columns=found["shape"][1],
        cheap=", ".join(f"`{name}`" for name in cheap) or "neither layer here",
        dear=", ".join(f"`{name}`" for name in dear) or "neither layer here",
        errors=table(["", *shapes], errors),
        times=table(["", *names], [[title, *(f"{row[name]:.2f}" for name in names)]
                                   for title, row in medians.items()]),
        machine=f"Measured {origin(found)}, on {found['machine']['cpu']}")


def render(results: pathlib.Path) -> str:
    content = json.loads((results / "activations.json").read_text())
    machine = content["machine"]
    where = (f"Measured on {machine['cores']} cores of {machine['cpu']}, {content['threads']} "
             f"threads, torch {content['torch']}, {machine['date']}, commit "
             f"{machine['commit'][:12]}{' and changes' if machine['changed_files'] else ''}.\n")
    few = results / "activations_few_bits.json"
    shared = results / "activations_scales.json"
    return "\n".join([head(content["layers"]), where, *map(section, content["layers"]),
                      *([few_bits(json.loads(few.read_text()))] if few.exists() else []),
                      granularity(content["granularity"]),
                      *([scales(json.loads(shared.read_text()))] if shared.exists() else []),
                      ]).rstrip() + "\n"


def write(results: pathlib.Path = RESULTS, page: pathlib.Path = PAGE) -> None:
    page.write_text(render(results))
    print(f"wrote {page}")


if __name__ == "__main__":
    write()
