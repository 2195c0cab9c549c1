#===- sass_run.py - Machine code of the library against PTX ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares SASS with PTX for the library's graphs and layers, for several chips, with and
# without optimization.
#
#===----------------------------------------------------------------------===#
"""Compiles the library for GPUs, assembles the PTX and compares the result with it."""

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "verification")]

import tandem  # noqa: E402
from common import save  # noqa: E402
from sass_compare import LEVELS, Tools, compare  # noqa: E402

CHIPS = ("sm_80", "sm_90", "sm_100")
RESULTS = ROOT / "verification/results"
#: Strategies that are not in the library, which compute in f16 or store moments in it.
F16 = ROOT / "test/Python/Inputs/strategies"
#: AdamW runs under every strategy, the other graphs under these.
STRATEGIES = ("fp32", "bf16", "collage-plus", "coat")

#===------------------------------------------------------------------------===#
# Tools
#===------------------------------------------------------------------------===#


def _of_package(name: str) -> str | None:
    """Returns the path of a tool in NVIDIA's Python packages, or None."""
    for package in ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvcc"):
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == name and file.parent.name == "bin":
                return str(file.locate())
    return None


def find_tools() -> Tools | str:
    """Returns ptxas and nvdisasm, or a message if one is missing. PTXAS and NVDISASM override."""
    found = {}
    for name in ("ptxas", "nvdisasm"):
        found[name] = os.environ.get(name.upper()) or shutil.which(name) or _of_package(name)
        if not found[name]:
            return (f"no {name}: it is neither on PATH nor in a Python package of NVIDIA, "
                    f"and {name.upper()} names none")
    return Tools(**found)

#===------------------------------------------------------------------------===#
# Kernels
#===------------------------------------------------------------------------===#


def library() -> list[tuple[str, str, str]]:
    """Returns (graph, strategy, function) of the library's kernels."""
    cases = []
    for graph in tandem.graphs():
        strategies = STRATEGIES
        if graph == "adamw":
            in_f16 = sorted(file.stem for file in F16.glob("*.mlir"))
            strategies = [*tandem.strategies(), *in_f16]
        cases += [(graph, strategy, "") for strategy in strategies]
    for layer in tandem.layers():
        for recipe in tandem.recipes():
            cases += [(layer, recipe, layer), (layer, recipe, layer + "_backward")]
    return cases


def emit(case: tuple[str, str, str], chip: str) -> str | None:
    """Returns the PTX, or None if the library does not have the kernel."""
    graph, strategy, function = case
    try:
        return tandem.compile(graph, strategy, target=chip, path=[F16], function=function,
                              flags=not function).ptx
    except ValueError as error:
        if "the PTX of" in str(error):
            raise
        return None


def check(tools: Tools, case: tuple[str, str, str], chip: str) -> dict | None:
    """Compares a module at each optimization level; returns a row of the results."""
    ptx = emit(case, chip)
    if ptx is None:
        return None
    row = {"kernel": case[2] or case[0], "strategy": case[1], "chip": chip, "entries": 0,
           "copied": [], "differences": []}
    for level in LEVELS:
        for name, entry in compare(tools, ptx, chip, level).items():
            row["entries"] += 1
            if entry.copies:
                row["copied"].append(f"-O{level} {name}")
            row["differences"] += [f"-O{level} {name}: {text}" for text in entry.problems]
    return row


def check_all(tools: Tools, cases, chips, jobs: int) -> list[dict]:
    tasks = [(case, chip) for case in cases for chip in chips]
    rows = []
    with ThreadPoolExecutor(jobs) as pool:
        for i, row in enumerate(pool.map(lambda task: check(tools, *task), tasks)):
            if row:
                rows.append(row)
            _show_progress(i + 1, len(tasks), rows)
    return rows

#===------------------------------------------------------------------------===#
# Output
#===------------------------------------------------------------------------===#


def _show_progress(done: int, all_tasks: int, rows: list[dict]) -> None:
    differences = sum(len(row["differences"]) for row in rows)
    text = f"{done} of {all_tasks} modules, {differences} differences"
    if sys.stderr.isatty():
        print(f"\r{text}", end="" if done < all_tasks else "\n", file=sys.stderr, flush=True)
    elif done % 20 == 0 or done == all_tasks:
        print(text, file=sys.stderr, flush=True)


def summarize(rows: list[dict]) -> dict[str, dict]:
    """Returns the totals for each chip."""
    summary = {}
    for row in rows:
        numbers = summary.setdefault(row["chip"], Counter(modules=0, entries=0, copied=0,
                                                          differences=0))
        numbers.update(modules=1, entries=row["entries"], copied=len(row["copied"]),
                       differences=len(row["differences"]))
    return {chip: dict(numbers) for chip, numbers in sorted(summary.items())}


def describe(tools: Tools, rows: list[dict]) -> dict:
    """Returns the content of the result file."""
    copied = Counter(text for row in rows for text in row["copied"])
    return {"ptxas": tools.version("ptxas"), "nvdisasm": tools.version("nvdisasm"),
            "levels": [f"-O{level}" for level in LEVELS], "chips": summarize(rows),
            "copied": dict(copied.most_common()),
            "differences": [f"{row['kernel']} under {row['strategy']}, {row['chip']} {text}"
                            for row in rows for text in row["differences"]],
            "modules": {chip: [f"{row['kernel']} under {row['strategy']}: {row['entries']}"
                               for row in rows if row["chip"] == chip]
                        for chip in summarize(rows)}}


def print_table(rows: list[dict]) -> None:
    titles = ("modules", "entries", "copied", "differences")
    print("".join(f"{title:>13}" for title in ("chip", *titles)))
    for chip, numbers in summarize(rows).items():
        print("".join(f"{text:>13}" for text in (chip, *(numbers[t] for t in titles))))
    for row in rows:
        for text in row["differences"]:
            print(f"{row['kernel']} under {row['strategy']}, {row['chip']} {text}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="graphs, layers, strategies or recipes; "
                        "by default all of the library")
    parser.add_argument("--chips", nargs="+", default=CHIPS, choices=CHIPS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    tools = find_tools()
    if isinstance(tools, str):
        print(f"sass_run.py: {tools}", file=sys.stderr)
        return 2
    cases = [case for case in library()
             if not options.names or set(options.names) & set(case)]
    try:
        rows = check_all(tools, cases, options.chips, options.jobs)
    except subprocess.CalledProcessError as error:
        print(f"sass_run.py: {error}\n{error.stderr}", file=sys.stderr)
        return 2
    print_table(rows)
    if not options.names and set(options.chips) == set(CHIPS):
        save("sass", describe(tools, rows), RESULTS)
    return int(any(row["differences"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
