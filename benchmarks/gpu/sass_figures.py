#===- sass_figures.py - Figures of counted kernels -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file derives figures for named GPUs from the counts of benchmarks/gpu/sass.py: the times of
# pipes and of memory, and their ratio.
#
#===----------------------------------------------------------------------===#
"""GPUs as data, and the times of kernels on them."""

from collections import Counter
from dataclasses import dataclass

from sass_pipes import MULTIPROCESSORS

#: The graphs that are counted besides AdamW; all other names are layers.
GRAPHS = ("lamb", "adamw_clip", "adafactor", "lion", "sgd")

#===------------------------------------------------------------------------===#
# GPUs
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class GPU:
    chip: str
    multiprocessors: int
    #: The assumed clock: A100's boost clock; for the others, the clock under a long load, 11 %
    #: below their boost clocks of 1.98 and 1.965 GHz.
    ghz: float
    #: The bandwidth according to the data sheet.
    terabytes: float


#: The fraction of the data sheet's bandwidth that a copy reaches: 3.0 of 3.35 TB/s were measured on
#: an H100, 4.3 of 4.8 TB/s on an H200.
COPY = 0.9

GPUS = {
    "A100 SXM 80 GB": GPU("sm_80", 108, 1.41, 2.039),
    "H100 SXM": GPU("sm_90", 132, 1.755, 3.35),
    "H200": GPU("sm_90", 132, 1.755, 4.8),
    "B200": GPU("sm_100", 148, 1.745, 8.0),
}


def memory_ps(gpu: GPU, moved: float) -> float:
    """Returns the picoseconds that moving these bytes takes."""
    return moved / (COPY * gpu.terabytes)


def pipe_ps(gpu: GPU, slots: dict[str, float]) -> dict[str, float]:
    """Returns the picoseconds that the slots of each pipe take if all multiprocessors are busy."""
    lanes = MULTIPROCESSORS[gpu.chip].lanes
    per_cycle = {pipe: lanes[pipe] * gpu.multiprocessors * gpu.ghz * 1e-3 for pipe in slots}
    return {pipe: count / per_cycle[pipe] for pipe, count in slots.items()}


def slowest(gpu: GPU, slots: dict[str, float]) -> tuple[str, float]:
    """Returns the pipe that takes the longest, and its picoseconds."""
    times = pipe_ps(gpu, slots)
    pipe = max(times, key=times.__getitem__)
    return pipe, times[pipe]

#===------------------------------------------------------------------------===#
# Kernels
#===------------------------------------------------------------------------===#

#: The launches of a kernel are dictionaries, as in benchmarks/results/instructions.json.


def bytes_of(launches: list[dict]) -> float:
    """Returns the bytes per element that a step moves."""
    return sum(each["read"] + each["written"] for each in launches)


def slots_of(launches: list[dict]) -> Counter:
    """Returns the slots per element of each pipe, summed over launches."""
    total: Counter = Counter()
    for each in launches:
        total.update(each["slots"])
    return total


def cycles(chip: str, launches: list[dict]) -> float:
    """Returns the cycles per element of one multiprocessor: those of each launch's slowest pipe,
    summed over launches."""
    lanes = MULTIPROCESSORS[chip].lanes
    return sum(max(count / lanes[pipe] for pipe, count in each["slots"].items())
               for each in launches)


def bound(gpu: str, launches: list[dict]) -> tuple[str, float]:
    """Returns the slowest pipe of the longest launch, and the time of the slowest pipes of all
    launches divided by the time that their bytes take."""
    found = [slowest(GPUS[gpu], each["slots"]) for each in launches]
    pipe = max(found, key=lambda one: one[1])[0]
    return pipe, sum(one[1] for one in found) / memory_ps(GPUS[gpu], bytes_of(launches))
