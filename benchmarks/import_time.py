#===- import_time.py - Imports and the start of training -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures in new processes what imports of the package cost beside those of its hosts,
# and what follows until the second step of an optimizer.
#
#===----------------------------------------------------------------------===#
"""Times imports and first steps in new processes. CPU time says more on a busy machine."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

#: Packages, and what each is imported after.
IMPORTS = {"tandem": None, "tandem.torch": "torch", "tandem.jax": "jax"}


class Clock:
    """Measures the milliseconds of the wall and of the CPU between calls, and new modules."""

    def __init__(self):
        self._last = time.perf_counter(), time.process_time(), set(sys.modules)

    def lap(self) -> dict:
        """Returns what passed since the last call."""
        now = time.perf_counter(), time.process_time(), set(sys.modules)
        last, self._last = self._last, now
        modules = [name.partition(".")[0] for name in now[2] - last[2]]
        return {"wall": 1e3 * (now[0] - last[0]), "cpu": 1e3 * (now[1] - last[1]),
                "own": modules.count("tandem"), "other": len(modules) - modules.count("tandem")}


def imports(name: str) -> dict:
    """Returns the costs of a package's import, after its host's."""
    host, clock, laps = IMPORTS[name], Clock(), {}
    for each in filter(None, (host, name)):
        __import__(each)
        laps[f"import {each}"] = clock.lap()
    return laps


def start(strategy: str) -> dict:
    """Returns the costs until the second step of a model with norms in f32 and matrices in bf16:
    12 layers of width 256."""
    import torch

    import tandem.torch

    params = [torch.nn.Parameter(torch.ones(shape, dtype=dtype)) for _ in range(12)
              for shape, dtype in (((256,), torch.float32), ((256, 256), torch.bfloat16),
                                   ((1024, 256), torch.bfloat16))]
    for param in params:
        param.grad = torch.randn(param.shape).to(param.dtype)
    clock, laps = Clock(), {}
    optimizer = tandem.torch.AdamW(params, strategy=strategy)
    laps[f"create {strategy}"] = clock.lap()
    for name in ("first step", "second step"):
        optimizer.step()
        laps[name] = clock.lap()
    return laps


def in_new_process(work: str, argument: str) -> dict:
    """Returns the result of a function of this file."""
    done = subprocess.run([sys.executable, __file__, "--work", work, argument], check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def medians(work: str, argument: str, rounds: int) -> dict:
    """Returns the medians of several processes, after one that fills caches."""
    found = [in_new_process(work, argument) for _ in range(rounds + 1)][1:]
    return {lap: {key: statistics.median(each[lap][key] for each in found) for key in costs}
            for lap, costs in found[0].items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--strategy", default="flash-f16")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        name, argument = options.work
        print(json.dumps({"imports": imports, "start": start}[name](argument)))
        return
    print(f"medians of {options.rounds} processes, load {os.getloadavg()[0]:.1f}\n\n"
          f"{'':22}{'ms':>8}{'CPU ms':>8}{'own modules':>13}{'others':>8}")
    jobs = [("imports", name) for name in IMPORTS] + [("start", options.strategy)]
    for job in jobs:
        for lap, costs in medians(*job, options.rounds).items():
            print(f"{lap:22}{costs['wall']:8.1f}{costs['cpu']:8.1f}{costs['own']:13.0f}"
                  f"{costs['other']:8.0f}", flush=True)


if __name__ == "__main__":
    main()
