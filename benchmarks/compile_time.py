#===- compile_time.py - Time from a graph's text to a kernel ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures compilations in a warm process and the cold start of a process.
#
#===----------------------------------------------------------------------===#
"""Measures milliseconds of tandem.compile without the cache on disk."""

import argparse
import os
import statistics
import subprocess
import sys

import tandem
from common import HERE, median_ms, save, seconds

TARGETS = ("cpu", "sm_90")
COLD = "import tandem; tandem.compile('adamw', 'collage-plus', {target!r})"


def warm(text: str, strategies: list[str], repetitions: int) -> dict:
    """Returns medians per strategy and target, from graph text to kernel."""
    result = {}
    for strategy in strategies:
        result[strategy] = {
            target: median_ms(lambda: tandem.compile(text, strategy, target),
                              repetitions)
            for target in TARGETS}
        row = "".join(f"{target:>8} {result[strategy][target]:7.1f} ms"
                      for target in TARGETS)
        print(f"{strategy:20}{row}", flush=True)
    return result


def cold(repetitions: int) -> dict:
    """Returns the median of whole processes: interpreter, import and one compilation."""
    programs = {"import tandem": "import tandem"}
    programs |= {f"import and {t}": COLD.format(target=t) for t in TARGETS}
    result = {}
    for name, program in programs.items():
        run = lambda: subprocess.run([sys.executable, "-c", program], check=True)
        run()
        result[name] = 1e3 * statistics.median(seconds(run)
                                               for _ in range(repetitions))
        print(f"cold process, {name}: {result[name]:.0f} ms", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=11)
    options = parser.parse_args()
    os.environ["TANDEM_CACHE"] = "off"
    graph = HERE.parent / "lib" / "Graphs" / "adamw.mlir"
    save("compile_time", {
        "warm_ms": warm(graph.read_text(), sorted(tandem.strategies()),
                        options.repetitions),
        "cold_ms": cold(max(3, options.repetitions // 2)),
        "load": os.getloadavg()[0]})


if __name__ == "__main__":
    main()
