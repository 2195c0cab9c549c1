#===- sass_page.py - Write docs/Instructions.md ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes the page on the machine code of GPUs from the committed counts.
#
#===----------------------------------------------------------------------===#
"""Writes docs/Instructions.md and its figure from benchmarks/results/instructions.json."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verification"), str(ROOT / "benchmarks"),
                str(ROOT / "benchmarks/gpu")]
from common import RESULTS, graph_of, load, save_figure, table, write_page  # noqa: E402
from sass_figures import COPY, GPUS, GRAPHS, bound, bytes_of, slots_of  # noqa: E402
from sass_limits import section  # noqa: E402
from sass_pipes import MULTIPROCESSORS, bank_conflicts  # noqa: E402

PICTURE = "images/instructions.png"
#: The largest ratio that leaves room for costs that are not counted.
GOAL = 0.85
#: The chip of the first tables, and the GPUs that the goal is for.
CHIP, GOAL_GPUS = "sm_90", ("H100 SXM", "H200")
PIPES = ("issue", "alu", "fma", "imad", "fp16", "xu", "lsu", "fp64")
TITLES = {"issue": "issue", "alu": "ALU", "fma": "FMA", "imad": "IMAD", "fp16": "FP16",
          "xu": "XU", "lsu": "LSU", "fp64": "FP64"}

HEAD = """\
# Instructions of GPU kernels

![Time of the slowest pipe over that of the memory, AdamW]({picture})

Can a kernel run at the speed of a GPU's memory? This page answers that from the kernel's instructions; nothing is measured and no GPU
is needed. A multiprocessor executes instructions in several *pipes*, such as ALU and FMA. The ratio in the last columns is the time that
the slowest pipe works for an element, divided by the time that the element's bytes take in memory: below 1 a step can run at the
memory's speed, above 1 it cannot. The goal is {goal:g}, which leaves room for what is not counted; ratios above it are bold. Of AdamW's
{count} strategies {met[0]} reach the goal on an H100 and {met[1]} on an H200, whose memory is faster. The worst is
`{worst}`, with {worst_ratio:.2f} on an H100, limited by its {worst_pipe}. `benchmarks/gpu/sass.py` counts the instructions in the machine
code of ptxas {ptxas}, and `benchmarks/gpu/sass_page.py` writes the page.

## AdamW

The table has counts per element, for {chip}: slots of the scheduler (issue) and of each pipe, bytes that reach memory, registers of a
thread, resident blocks of 256 threads, and bytes of spills. Each ratio is followed by the slowest pipe.

"""

GRAPHS_TEXT = """
## Other optimizers

The table has sums over all launches of a step that run over elements. The time of a step is the sum of the launches' times.

"""

LAYERS_TEXT = """
## Layers

The table has both passes. Phases that are fused by rows are one launch, whose arrays are read from memory once and then from the L2
cache, if the rows fit there.

"""

CHIPS_TEXT = """
## Other chips

These are the same counts for {others}. Bytes are those above.{missing}

"""

HOW_TEXT = """
## How it is counted

`benchmarks/gpu/sass.py` compiles a kernel, assembles its PTX with ptxas at `-O3`, disassembles that with nvdisasm, finds the
innermost loops that load vectors of elements in the graph of basic blocks, and adds up what a warp executes in one iteration, over
whole vectors.

```sh
scripts/count-sass.sh                           # what has changed, and this page
scripts/count-sass.sh adamw/coat --chips sm_90  # one kernel, printed
```

- Blocks that handle elements one by one, at the ends of rows and in tensors that are not aligned, count as not executed. So do the calls for
  quotients and roots that are subnormal or not finite. These functions are out of line; the sequences in line are counted.
- Both sides of other branches count, since the lanes of a warp diverge there. Instructions under a predicate take
  their slots whether it holds or not.
- An inner loop, such as a block's sum, counts once, which is how often it runs on average.
- A lookup in shared memory takes several cycles if the lanes of a warp read different words of one of the 32 banks: with random indices
  about {conflicts:.1f} for a table of 256 words. Two adjacent vectors of 16 bytes, such as those of f32, touch half sectors and count twice.
- Lookups in a table in global memory count like other loads.
- Work that a launch does once (prologue, scales of whole tensors, totals), latencies that resident
  warps hide, barriers, and the launch itself are not counted.

The first table has the lanes that each pipe of a multiprocessor starts per cycle. IMAD is the part of FMA that multiplies integers; a product
of 64 bits takes two slots. XU computes reciprocals, roots and conversions. If a chip has no FP16 entry, FMA executes pairs of f16
and bf16; in sm_80's FP16 pipe a pair of bf16 takes two slots.

{pipes}

The second table has the GPUs, with the clocks that are assumed. A copy reaches {copy:.0%} of the bandwidth.

{gpus}
"""


def ratio_text(gpu: str, rows: list[dict]) -> str:
    pipe, ratio = bound(gpu, rows)
    text = f"{ratio:.2f}"
    is_missed = gpu in GOAL_GPUS and round(ratio, 2) > GOAL
    return f"{f'**{text}**' if is_missed else text} {TITLES[pipe]}"


def _used(kernels: dict, chip: str) -> list[str]:
    """Returns the pipes that some kernel uses."""
    return [pipe for pipe in PIPES if any(
        slots_of(of[chip]["launches"])[pipe] for of in kernels.values() if chip in of)]


def _counts(rows: list[dict], pipes: list[str]) -> list[str]:
    slots = slots_of(rows)
    return [*(f"{slots[pipe]:.1f}" for pipe in pipes),
            str(max(row["registers"] for row in rows)), str(min(row["blocks"] for row in rows)),
            str(sum(row["spills"] for row in rows))]


def _heads(pipes: list[str]) -> list[str]:
    return [*(TITLES[pipe] for pipe in pipes), "registers", "blocks", "spills"]


def main_table(kernels: dict) -> str:
    """Formats the counts for one chip and the ratios for all GPUs."""
    pipes = _used(kernels, CHIP)
    rows = []
    for name, of in kernels.items():
        if CHIP in of:
            own = of[CHIP]["launches"]
            rows.append([f"`{name}`", f"{bytes_of(own):.2f}", *_counts(own, pipes), *(
                ratio_text(gpu, of[each.chip]["launches"]) if each.chip in of else ""
                for gpu, each in GPUS.items())])
    return table(["", "bytes", *_heads(pipes), *GPUS], rows)


def chip_tables(kernels: dict) -> str:
    """Formats the counts for the other chips."""
    parts = []
    for chip in MULTIPROCESSORS:
        if chip != CHIP:
            pipes = _used(kernels, chip)
            rows = [[f"`{name}`", *_counts(of[chip]["launches"], pipes)]
                    for name, of in kernels.items() if chip in of]
            parts += [f"### {chip}\n", table(["", *_heads(pipes)], rows), ""]
    return "\n".join(parts)


def model_tables() -> dict[str, str]:
    """Formats the pipes of multiprocessors and the GPUs."""
    pipes = [[chip, *(str(of.lanes.get(pipe, "")) for pipe in PIPES),
              f"{of.shared_bytes >> 10} KiB"] for chip, of in MULTIPROCESSORS.items()]
    gpus = [[name, of.chip, str(of.multiprocessors), f"{of.ghz:g} GHz", f"{of.terabytes:g} TB/s"]
            for name, of in GPUS.items()]
    return {"pipes": table(["lanes a cycle", *(TITLES[p] for p in PIPES), "shared memory"], pipes),
            "gpus": table(["", "chip", "multiprocessors", "clock", "bandwidth"], gpus)}


def missing_text(kernels: dict) -> str:
    """Describes for which chips kernels have not been counted yet."""
    absent = {chip: sum(chip not in of for of in kernels.values()) for chip in MULTIPROCESSORS}
    found = [f"{count} of {len(kernels)} kernels for {chip}" for chip, count in absent.items() if count]
    return f" Not counted yet: {', '.join(found)}." if found else ""


def split(kernels: dict) -> tuple[dict, dict, dict]:
    """Splits kernels into AdamW by strategy, other optimizers, and passes of layers."""
    parts: tuple[dict, dict, dict] = ({}, {}, {})
    for name, of in kernels.items():
        graph, strategy = name.split("/")
        place = 0 if graph == graph_of(strategy) else 1 if graph in GRAPHS else 2
        parts[place][name if place else strategy] = of
    return parts

#===------------------------------------------------------------------------===#
# The figure and the page
#===------------------------------------------------------------------------===#


def ratios(kernels: dict, gpu: str) -> dict[str, float]:
    chip = GPUS[gpu].chip
    return {name: bound(gpu, of[chip]["launches"])[1] for name, of in kernels.items()
            if chip in of}


def draw(adamw: dict, path: Path) -> None:
    """Draws the ratios of AdamW's strategies on two GPUs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    values = {gpu: ratios(adamw, gpu) for gpu in GOAL_GPUS}
    names = sorted(values[GOAL_GPUS[0]], key=values[GOAL_GPUS[0]].__getitem__, reverse=True)
    figure, axes = plt.subplots(figsize=(9, 7))
    for gpu, marker, color in zip(GOAL_GPUS, "os", ("#0072B2", "#D55E00")):
        axes.plot([values[gpu][name] for name in names], range(len(names)), marker, label=gpu,
                  color=color, markersize=5)
    axes.axvline(1, color="black", linewidth=1)
    axes.axvline(GOAL, color="black", linewidth=1, linestyle=":", label=f"the goal, {GOAL:g}")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xlim(left=0)
    axes.set_xlabel("time of the slowest pipe over that of the memory")
    axes.legend(fontsize=8, frameon=False)
    save_figure(figure, path)


def head(ptxas: str, adamw: dict) -> str:
    first = ratios(adamw, GOAL_GPUS[0])
    worst = max(first, key=first.__getitem__)
    pipe, ratio = bound(GOAL_GPUS[0], adamw[worst][CHIP]["launches"])
    met = [sum(round(ratio, 2) <= GOAL for ratio in ratios(adamw, gpu).values())
           for gpu in GOAL_GPUS]
    return HEAD.format(picture=PICTURE, ptxas=ptxas, goal=GOAL, count=len(adamw), met=met,
                       worst=worst, worst_ratio=ratio, worst_pipe=TITLES[pipe], chip=CHIP)


def page(content: dict, accuracy: dict) -> str:
    """Returns the text of docs/Instructions.md."""
    adamw, graphs, layers = split(content["kernels"])
    others = [chip for chip in MULTIPROCESSORS if chip != CHIP]
    how = HOW_TEXT.format(conflicts=bank_conflicts(256), copy=COPY, **model_tables())
    return "".join([
        head(content["ptxas"], adamw), main_table(adamw), "\n",
        section(adamw, GOAL_GPUS, GOAL, TITLES, accuracy), GRAPHS_TEXT, main_table(graphs),
        "\n", LAYERS_TEXT, main_table(layers), "\n", CHIPS_TEXT.format(
            others=" and ".join(others), missing=missing_text(content["kernels"])),
        chip_tables(content["kernels"]), how])


def write(results: Path, docs: Path) -> Path:
    content = load("instructions", results)
    if not content:
        raise SystemExit(f"sass_page.py: {results} has no instructions.json; run benchmarks/gpu/sass.py")
    path = docs / "Instructions.md"
    path.write_text(page(content, load("accuracy", results)))
    draw(split(content["kernels"])[0], docs / PICTURE)
    return path


if __name__ == "__main__":
    write_page(__doc__, RESULTS, write)
