#===- sass.py - Count the machine code of GPUs -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file counts the instructions in the machine code that ptxas generates for the library's
# kernels: what an element costs each pipe of a multiprocessor, and the memory. The GPUs need not be
# present.
#
#===----------------------------------------------------------------------===#
"""sass.py [NAME...]: instructions per element, by pipe, of the library's kernels.

A name is a graph, a layer, a strategy, a recipe or a kernel such as adamw/coat. With names,
chips or a width, the counts are printed; otherwise they are recorded in
benchmarks/results/instructions.json. Kernels whose PTX has not changed keep their counts, so an
interrupted run can be resumed. Requires ptxas and nvdisasm, on PATH, in one of NVIDIA's Python
packages, or named by PTXAS and NVDISASM, and no GPU."""

import argparse
import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verification"), str(ROOT / "benchmarks"),
                str(ROOT / "benchmarks/gpu")]

import tandem  # noqa: E402
from common import graph_of, load, save  # noqa: E402
from sass_compare import Resources, Tools  # noqa: E402
from sass_counts import SASSFunction  # noqa: E402
from sass_figures import GPUS, GRAPHS, bound, bytes_of, slots_of  # noqa: E402
from sass_loop import VectorLoop, vector_loops  # noqa: E402
from sass_pipes import MULTIPROCESSORS, count  # noqa: E402
from sass_run import find_tools  # noqa: E402

#: The first chip is the one that most goals are for.
CHIPS = ("sm_90", "sm_80", "sm_100")
#: The elements per thread and iteration of a GPU kernel, and the threads per block.
WIDTH, THREADS = 8, 256
RESULT = "instructions"

#===------------------------------------------------------------------------===#
# Kernels
#===------------------------------------------------------------------------===#


class Case(NamedTuple):
    """A graph under a strategy, or a pass of a layer under a recipe."""
    graph: str
    strategy: str
    function: str = ""

    @property
    def name(self) -> str:
        return f"{self.function or self.graph}/{self.strategy}"


STRATEGIES = ("fp32", "bf16", "coat")
RECIPES = ("bf16", "coat")
#: The layers that have two tensors in 8-bit floats for a product.
FP8_LAYERS, FP8_RECIPES = ("rms_norm", "swiglu", "keep"), ("coat-fp8", "mxfp8")


def library() -> list[Case]:
    """Returns the kernels to count: AdamW under every strategy, the other graphs under some, and
    both passes of all layers under the recipes that matter."""
    cases = [Case(graph_of(strategy), strategy) for strategy in sorted(tandem.strategies())]
    cases += [Case(graph, strategy) for graph in GRAPHS for strategy in STRATEGIES]
    for layer in sorted(tandem.layers()):
        recipes = RECIPES + (FP8_RECIPES if layer in FP8_LAYERS else ())
        cases += [Case(layer, recipe, function) for recipe in recipes
                  for function in (layer, f"{layer}_backward")]
    return cases


def compile_case(case: Case, chip: str, width: int = WIDTH, path: Iterable[str] = (),
                 ) -> tandem.Kernel | None:
    """Returns the kernel, or None if the library does not have it."""
    try:
        return tandem.compile(case.graph, case.strategy, target=chip, function=case.function,
                              width=width, path=list(path), flags=not case.function)
    except ValueError as error:
        if "the PTX of" in str(error):
            raise
        return None

#===------------------------------------------------------------------------===#
# Bytes
#===------------------------------------------------------------------------===#


def _bytes_of(kernel: tandem.Kernel, access: str, grouped: bool) -> float:
    return sum(plane.bytes_per_element for plane in kernel.planes
               if getattr(plane, access) and (plane.group > 1) == grouped)


def _moved(kernel: tandem.Kernel, access: str, bits: float | None) -> float:
    """Returns the bytes per element that a launch reads or writes: of all planes, or of those
    that accesses with the given number of bits per element reach, plus a proportional part of
    the data that groups share."""
    own, shared = _bytes_of(kernel, access, False), _bytes_of(kernel, access, True)
    if bits is None or not own:
        return own + shared
    return min(own, bits / 8) * (1 + shared / own)

#===------------------------------------------------------------------------===#
# Launches
#===------------------------------------------------------------------------===#


class Launch(NamedTuple):
    """A launch of a step: its entry, and how many of its phases run over elements."""
    entry: str
    loops: int


def launches(kernel: tandem.Kernel) -> list[Launch]:
    """Returns the launches that run over elements. Fused phases share one."""
    found: list[list[dict]] = []
    for phase in kernel._native.phases:
        if phase["fused_with_previous"]:
            found[-1].append(phase)
        else:
            found.append([phase])
    result = []
    for phases in found:
        entry = phases[0]["entry"] + ("_bands" if len(phases) > 1 else "")
        loops = sum(phase["per"].name == "ELEMENT" for phase in phases)
        if loops:
            result.append(Launch(entry, loops))
    return result


def _wide_bits(loop: VectorLoop, loads: bool) -> float:
    return sum(each.bits for each in loop.instructions
               if each.bits >= 64 and each.is_load == loads) / WIDTH


def _check(kernel: tandem.Kernel, launch: Launch, loops: list[VectorLoop]) -> None:
    """Raises ValueError if the code does not match the assumptions of the counts."""
    if len(loops) != launch.loops:
        raise ValueError(f"{launch.entry} has {len(loops)} loops over vectors of elements, "
                         f"where {launch.loops} were expected")
    most = sum(plane.bits for plane in kernel.planes if plane.read and plane.group == 1)
    for loop in loops:
        if _wide_bits(loop, True) > most:
            raise ValueError(f"a loop of {launch.entry} loads {_wide_bits(loop, True):g} bits "
                             f"an element, but its planes have {most}: is it unrolled?")


def measure_launch(kernel: tandem.Kernel, launch: Launch, function: SASSFunction,
                   resources: Resources, width: int = WIDTH) -> dict:
    """Counts one launch. ``slots`` are per element; see :func:`sass_pipes.count`."""
    chip, is_only = kernel.target, kernel.launches == 1
    loops = vector_loops(function)
    if width == WIDTH:
        _check(kernel, launch, loops)
    total: Counter = Counter()
    for loop in loops:
        total.update(count(loop.instructions, chip, resources.shared_bytes))
    read, written = (_moved(kernel, access, None if is_only else sum(
        _wide_bits(loop, access == "read") for loop in loops)) for access in ("read", "written"))
    return {"entry": launch.entry, "registers": resources.registers,
            "blocks": MULTIPROCESSORS[chip].resident(THREADS, *_of_block(resources)),
            "spills": resources.spill_bytes, "shared": resources.shared_bytes,
            "read": round(read, 4), "written": round(written, 4),
            "inner_loops": sum(len(loop.inner) for loop in loops),
            "slots": {pipe: round(slots / width, 3) for pipe, slots in sorted(total.items())
                      if slots}}


def _of_block(resources: Resources) -> tuple[int, int]:
    return resources.registers, resources.shared_bytes


def measure(tools: Tools, kernel: tandem.Kernel, width: int = WIDTH) -> list[dict]:
    """Returns the launches of a kernel, without those that do nothing per element."""
    wanted = launches(kernel)
    entries, resources = tools.assemble(kernel.ptx, kernel.target, 3,
                                        [launch.entry for launch in wanted])
    rows = []
    for launch in wanted:
        function = entries[launch.entry].main
        if len(wanted) == 1 and not vector_loops(function):
            continue
        rows.append(measure_launch(kernel, launch, function, resources[launch.entry], width))
    return rows


def mnemonics(tools: Tools, kernel: tandem.Kernel) -> str:
    """Lists the mnemonics in the loops of each launch, with their counts per element."""
    wanted = launches(kernel)
    entries, _ = tools.assemble(kernel.ptx, kernel.target, 3, [each.entry for each in wanted])
    lines = []
    for launch in wanted:
        found = Counter(each.text.split(None, 1)[0] for loop in vector_loops(
            entries[launch.entry].main) for each in loop.instructions)
        lines += [f"{launch.entry}: " + ", ".join(
            f"{name} {number / WIDTH:g}" for name, number in found.most_common())]
    return "\n".join(lines)


def digest(ptx: str) -> str:
    return hashlib.sha256(ptx.encode()).hexdigest()[:16]

#===------------------------------------------------------------------------===#
# Running
#===------------------------------------------------------------------------===#


class Run:
    """A run over cases and chips, which keeps earlier counts."""

    def __init__(self, tools: Tools, options: argparse.Namespace):
        self.tools, self.options = tools, options
        self.records = (not options.names and options.width == WIDTH
                        and set(options.chips) == set(CHIPS))
        self.version = tools.version("ptxas")
        before = (load(RESULT) or {}) if self.records and not options.again else {}
        self.known = before.get("kernels", {}) if before.get("ptxas") == self.version else {}
        self.kernels: dict[str, dict] = {}
        self.begin, self.saved, self.done, self.kept = time.monotonic(), 0.0, 0, 0

    def count(self, task: tuple[Case, str]) -> dict | None:
        case, chip = task
        kernel = compile_case(case, chip, self.options.width, self.options.path)
        if kernel is None:
            return None
        of_ptx = digest(kernel.ptx)
        before = self.known.get(case.name, {}).get(chip)
        if before and before["ptx"] == of_ptx:
            self.kept += 1
            return before
        if self.options.mnemonics:
            print(mnemonics(self.tools, kernel), flush=True)
        try:
            return {"ptx": of_ptx, "launches": measure(self.tools, kernel, self.options.width)}
        except ValueError as error:
            raise ValueError(f"{case.name} for {chip}: {error}") from error

    def run(self, tasks: list[tuple[Case, str]]) -> None:
        with ThreadPoolExecutor(self.options.jobs) as pool:
            for (case, chip), found in zip(tasks, pool.map(self.count, tasks)):
                self.done += 1
                if found and found["launches"]:
                    self.kernels.setdefault(case.name, {})[chip] = found
                    if not self.records:
                        print(line(case.name, chip, found["launches"]), flush=True)
                self._show(len(tasks))
                if time.monotonic() > self.saved + 30:
                    self.save(unfinished=True)
        self.save()

    def _show(self, total: int) -> None:
        seconds = time.monotonic() - self.begin
        if self.records and (self.done % 10 == 0 or self.done == total):
            print(f"{self.done} of {total} kernels in {seconds:.0f} s, {self.kept} of them as "
                  "before", file=sys.stderr, flush=True)

    def save(self, unfinished: bool = False) -> None:
        """Saves the counts; an unfinished run keeps the known counts of the other kernels."""
        self.saved = time.monotonic()
        if self.records:
            kernels = ({**self.known, **{name: {**self.known.get(name, {}), **of}
                                         for name, of in self.kernels.items()}}
                       if unfinished else self.kernels)
            save(RESULT, {"ptxas": self.version, "kernels": kernels}, compact=True)


HEADER = (f"{'':36}{'chip':>7}" + "".join(f"{title:>7}" for title in (
    "issue", "ALU", "FMA", "IMAD", "FP16", "XU", "LSU", "bytes", "regs", "blocks", "spills")))


def line(name: str, chip: str, rows: list[dict]) -> str:
    """Formats the figures of a kernel for a terminal."""
    slots = slots_of(rows)
    text = f"{name:36}{chip:>7}" + "".join(
        f"{slots[pipe]:7.1f}" for pipe in ("issue", "alu", "fma", "imad", "fp16", "xu", "lsu"))
    text += (f"{bytes_of(rows):7.2f}{max(row['registers'] for row in rows):7}"
             f"{min(row['blocks'] for row in rows):7}{sum(row['spills'] for row in rows):7}")
    for gpu, of in GPUS.items():
        if of.chip == chip:
            pipe, ratio = bound(gpu, rows)
            text += f"  {gpu.split()[0]} {ratio:.2f} ({pipe})"
    return text


def chosen(names: list[str]) -> list[Case]:
    """Returns the cases that the names stand for.

    Raises:
        SystemExit: a name is not a graph, a layer, a strategy, a recipe or a kernel.
    """
    cases = library()
    for name in names:
        graph, slash, strategy = name.partition("/")
        if slash and not any(name == case.name for case in cases):
            layer = graph.removesuffix("_backward")
            cases.append(Case(layer, strategy, graph) if layer in tandem.layers()
                         else Case(graph, strategy))
        elif not slash and not any(name in (*case, case.name) for case in cases):
            raise SystemExit(f"sass.py: there is no {name!r}; name a graph, a layer, a strategy, "
                             "a recipe, or a kernel such as adamw/coat")
    return [case for case in cases if not names or set(names) & {*case, case.name}]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--chips", nargs="+", default=CHIPS, choices=CHIPS)
    parser.add_argument("--path", nargs="+", default=(), help="folders of strategies")
    parser.add_argument("--width", type=int, default=WIDTH, help="elements a thread")
    parser.add_argument("--mnemonics", action="store_true",
                        help="also print what the loops are made of")
    parser.add_argument("--again", action="store_true", help="count what is known, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    tools = find_tools()
    if isinstance(tools, str):
        print(f"sass.py: {tools}", file=sys.stderr)
        return 2
    cases = chosen(options.names)
    run = Run(tools, options)
    if not run.records:
        print(HEADER)
    try:
        run.run([(case, chip) for chip in options.chips for case in cases])
    except subprocess.CalledProcessError as error:
        print(f"sass.py: {error}\n{error.stderr}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
