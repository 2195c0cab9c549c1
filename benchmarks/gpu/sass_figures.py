#===- sass_figures.py - Figures of counted kernels -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements what follows from the counts of benchmarks/gpu/sass.py for named
# GPUs: the times of pipes and of the memory, and their ratio.
#
#===----------------------------------------------------------------------===#
"""GPUs, as data, and the times of kernels on them."""

from collections import Counter
from dataclasses import dataclass

from sass_pipes import MULTIPROCESSORS

#: The graphs that are counted besides AdamW; other names are of layers.
GRAPHS = ("lamb", "adamw_clip", "adafactor", "lion", "sgd")

#===------------------------------------------------------------------------===#
# GPUs
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class GPU:
    chip: str
    multiprocessors: int
    #: The clock that is assumed: A100's boost; on the others that under a long load, 11 %
    #: less than their boost of 1.98 and 1.965 GHz.
    ghz: float
    #: The bandwidth in the data sheet.
    terabytes: float


#: The part of the data sheet's bandwidth that a copy reaches: 3.0 of 3.35 TB/s were measured
#: on an H100, 4.3 of 4.8 TB/s on an H200.
COPY = 0.9

GPUS = {
    "A100 SXM 80 GB": GPU("sm_80", 108, 1.41, 2.039),
    "H100 SXM": GPU("sm_90", 132, 1.755, 3.35),
    "H200": GPU("sm_90", 132, 1.755, 4.8),
    "B200": GPU("sm_100", 148, 1.745, 8.0),
}


def memory_ps(gpu: GPU, moved: float) -> float:
    """Returns the picoseconds that moving the bytes takes."""
    return moved / (COPY * gpu.terabytes)


def pipe_ps(gpu: GPU, slots: dict[str, float]) -> dict[str, float]:
    """Picoseconds that the slots of each pipe take, if all multiprocessors are busy."""
    lanes = MULTIPROCESSORS[gpu.chip].lanes
    per_cycle = {pipe: lanes[pipe] * gpu.multiprocessors * gpu.ghz * 1e-3 for pipe in slots}
    return {pipe: count / per_cycle[pipe] for pipe, count in slots.items()}


def slowest(gpu: GPU, slots: dict[str, float]) -> tuple[str, float]:
    """The pipe that takes longest, and its picoseconds."""
    times = pipe_ps(gpu, slots)
    pipe = max(times, key=times.__getitem__)
    return pipe, times[pipe]

#===------------------------------------------------------------------------===#
# Kernels
#===------------------------------------------------------------------------===#

#: The launches of a kernel are dictionaries, as benchmarks/results/instructions.json has them.


def bytes_of(launches: list[dict]) -> float:
    """Bytes per element that a step moves."""
    return sum(each["read"] + each["written"] for each in launches)


def slots_of(launches: list[dict]) -> Counter:
    """Slots per element of each pipe, of all launches."""
    total: Counter = Counter()
    for each in launches:
        total.update(each["slots"])
    return total


def cycles(chip: str, launches: list[dict]) -> float:
    """Cycles that one multiprocessor needs for an element: those of the slowest pipe of each
    launch."""
    lanes = MULTIPROCESSORS[chip].lanes
    return sum(max(count / lanes[pipe] for pipe, count in each["slots"].items())
               for each in launches)


def bound(gpu: str, launches: list[dict]) -> tuple[str, float]:
    """The slowest pipe of the longest launch, and the ratio of the times of the slowest pipes
    of all launches to the time that their bytes take."""
    found = [slowest(GPUS[gpu], each["slots"]) for each in launches]
    pipe = max(found, key=lambda one: one[1])[0]
    return pipe, sum(one[1] for one in found) / memory_ps(GPUS[gpu], bytes_of(launches))
