#===- first_step.py - The first steps over many tensors --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures what the host takes for an optimizer of many small parameters.
#
#===----------------------------------------------------------------------===#
"""Times the creation, the first and a later step of AdamW over thousands of small tensors.

With --processes, it times creation and first step of a model with f32 norms and bf16 matrices in
new processes, with an empty cache of compiled code and with the one that the process before left.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import tandem.cache
import tandem.torch

STRATEGY = "flash-f16"  #: of the model that new processes train

#: The optimizers; kernels are compiled before the measurement.
CONTENDERS = ("torch foreach", "fp32", "remainder", "flash-f16", "adam8bit")


def params_of(count: int, name: str) -> list[torch.nn.Parameter]:
    """Returns parameters of 16 by 16 with gradients."""
    dtype = torch.float32 if name in ("torch foreach", "fp32") else torch.bfloat16
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(16, 16).to(dtype)) for _ in range(count)]
    for param in params:
        param.grad = torch.randn(16, 16).to(dtype)
    return params


def make(params: list[torch.nn.Parameter], name: str) -> torch.optim.Optimizer:
    """Returns an optimizer."""
    if name == "torch foreach":
        return torch.optim.AdamW(params, lr=1e-3, foreach=True)
    return tandem.torch.AdamW(params, lr=1e-3, strategy=name)


def seconds_of(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(count: int, name: str) -> list[float]:
    """Returns the microseconds a tensor for the creation, the first and the tenth step."""
    params, made = params_of(count, name), []
    times = [seconds_of(lambda: made.append(make(params, name)))]
    steps = [seconds_of(made[0].step) for _ in range(10)]
    return [1e6 * seconds / count for seconds in (*times, steps[0], steps[9])]


def step_of_model() -> dict[str, float]:
    """Returns the milliseconds of a process's first optimizer, apart from those that PyTorch
    needs for its own first step, and how many kernels it has compiled."""
    model = torch.nn.Sequential(*(
        layer for _ in range(4)
        for layer in (torch.nn.RMSNorm(512, dtype=torch.float32),
                      torch.nn.Linear(512, 512, bias=False, dtype=torch.bfloat16))))
    for param in model.parameters():
        param.grad = torch.randn_like(param)
    make(params_of(1, "torch foreach"), "torch foreach").step()
    made = []
    create = seconds_of(lambda: made.append(make(list(model.parameters()), STRATEGY)))
    step = seconds_of(made[0].step)
    return {"create": 1e3 * create, "step": 1e3 * step, "total": 1e3 * (create + step),
            "compilations": tandem.cache.info().compilations}


def step_of_process(cache: str) -> dict[str, float]:
    """Returns what `step_of_model` does in a new process with a cache in a folder."""
    program = "import json, first_step; print(json.dumps(first_step.step_of_model()))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True,
        cwd=os.path.dirname(os.path.abspath(__file__)),
        # PyTorch's threads wait for each other where other work takes their cores.
        env={**os.environ, "TANDEM_CACHE": "on", "TANDEM_CACHE_DIR": cache,
             "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.splitlines()[-1])


def print_processes(rounds: int) -> None:
    """Prints medians over pairs of processes, the second of which finds the first one's cache."""
    found: dict[str, list] = {"empty cache": [], "its cache again": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for rows in found.values():
                rows.append(step_of_process(cache))
    print(f"milliseconds of AdamW under {STRATEGY}, norms in f32 and matrices in bf16, one thread, "
          f"medians of {rounds} processes\n\n{'':16}{'create':>10}{'first step':>12}{'together':>10}"
          f"{'compiled':>10}")
    for name, rows in found.items():
        create, step, total, compiled = (
            statistics.median(row[key] for row in rows)
            for key in ("create", "step", "total", "compilations"))
        print(f"{name:16}{create:10.1f}{step:12.1f}{total:10.1f}{compiled:10.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensors", type=int, default=21_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=0, metavar="N",
                        help="time new processes instead, N with each state of the cache")
    options = parser.parse_args()
    if options.processes:
        return print_processes(options.processes)
    found: dict[str, list] = {name: [] for name in CONTENDERS}
    for name in CONTENDERS:
        measure(10, name)
    for _ in range(options.rounds):
        for name in CONTENDERS:  # alternating, as other work on the machine comes and goes
            found[name].append(measure(options.tensors, name))
    print(f"microseconds a tensor, {options.tensors} tensors of 16 x 16, medians of "
          f"{options.rounds}\n\n{'':16}{'create':>10}{'first step':>12}{'tenth step':>12}")
    for name, rows in found.items():
        create, first, tenth = map(statistics.median, zip(*rows))
        print(f"{name:16}{create:10.1f}{first:12.1f}{tenth:12.1f}")


if __name__ == "__main__":
    main()
