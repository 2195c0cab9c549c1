#===- first_step.py - The first steps over many tensors --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures what the host takes for an optimizer of many small parameters.
#
#===----------------------------------------------------------------------===#
"""Times the creation, the first and a later step of AdamW over thousands of small tensors."""

import argparse
import statistics
import time

import torch

import tandem.torch

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensors", type=int, default=21_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
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
