#===- sass_limits.py - What limits steps on a GPU --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares the instructions that a strategy takes with those that a GPU executes
# while it moves the strategy's bytes.
#
#===----------------------------------------------------------------------===#
"""The section of docs/Instructions.md on strategies that miss the goal, and what to use instead."""

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/accuracy")]
from accuracy_page import Results  # noqa: E402
from common import table  # noqa: E402
from sass_figures import COPY, GPUS, bound, bytes_of, lanes_per_ps, slots_of  # noqa: E402

#: A strategy that is named as an alternative stores at most this many times the bytes.
NEAR = 1.15
#: The strategy whose step has nothing but the optimizer's own arithmetic.
PLAIN = "fp32"

TEXT = """
## What limits the others

A kernel at the goal has a budget: the slots that a pipe of all multiprocessors has in {goal:.0%} of the time in which the memory moves the bytes.
Per byte that is {per_byte} of the scheduler. AdamW itself, as under `{plain}`, takes {own:.0f} slots of the scheduler, most
of them for a root and a quotient that are correctly rounded. What remains is for reading and writing
the strategy's codes. The table has the strategies that miss the goal on an H100, with the slots of the pipe that limits them, and, as an
alternative, the most accurate strategy that meets the goal and stores at most {near:.0%} of the bytes; *stored* is bytes per parameter and
*error* the geometric mean of [Accuracy](Accuracy.md). On an H200, {h200}.

"""

REASONS = """
What takes these slots cannot be left out without other bits:

- **`coat`.** Range expansion raises each number to a power that its group shares. Reading and writing two moments takes four such
  powers, each a polynomial for the logarithm and one for the exponential.
- **`fp8-*`, and `coat` too.** A GPU converts to 8-bit floats only to nearest. Dithered rounding, without which moments do not
  [follow](Following.md) their averages, is arithmetic on integers, for which a multiprocessor has half as many lanes.
- **`adam8bit`.** Its codes are evenly spaced within decades. To write one takes the decade, the place in it and a rounding, on integers again.
- **`flash` and the softsign strategies.** Their codes take one more root and one more quotient, each correctly rounded.

The mu-law codes of `dither-mulaw` and `residual-mulaw` were [chosen](Numerics.md#the-mu-law-code) so that the bits of an f32 do most of this work.
"""


class Limit(NamedTuple):
    """A strategy that misses the goal on a GPU."""
    name: str
    moved: float
    pipe: str
    slots: float
    #: The slots of that pipe for the optimizer's own arithmetic, and the budget.
    own: float
    budget: float
    ratio: float
    instead: str | None


def budget_of(gpu: str, pipe: str, moved: float, goal: float) -> float:
    """Returns the slots that a pipe has in the time that moving the bytes takes, times the goal."""
    return goal * moved / (COPY * GPUS[gpu].terabytes) * lanes_per_ps(GPUS[gpu], pipe)


def _launches(adamw: dict, gpu: str) -> dict[str, list[dict]]:
    chip = GPUS[gpu].chip
    return {name: of[chip]["launches"] for name, of in adamw.items() if chip in of}


def choose(launches: dict, gpu: str, missed: str, goal: float, errors: Results) -> str | None:
    """Returns the most accurate strategy that meets the goal and stores hardly more bytes."""
    found = [name for name in errors.strategies
             if name in launches and errors.bytes[name] <= NEAR * errors.bytes[missed]
             and round(bound(gpu, launches[name])[1], 2) <= goal
             and errors.mean(name) is not None]
    return min(found, key=errors.mean, default=None)


def limits(adamw: dict, gpu: str, goal: float, errors: Results) -> list[Limit]:
    """Returns the strategies that miss the goal, the worst first."""
    launches, found = _launches(adamw, gpu), []
    plain = slots_of(launches[PLAIN])
    for name, own in launches.items():
        pipe, ratio = bound(gpu, own)
        moved = bytes_of(own)
        if round(ratio, 2) > goal:
            found.append(Limit(name, moved, pipe, slots_of(own)[pipe], plain[pipe],
                               budget_of(gpu, pipe, moved, goal), ratio,
                               choose(launches, gpu, name, goal, errors)))
    return sorted(found, key=lambda limit: -limit.ratio)


def section(adamw: dict, gpus: tuple[str, str], goal: float, titles: dict, content: dict) -> str:
    """Formats the section from the counts of AdamW and the measured errors."""
    errors = Results(content)
    first, second = (limits(adamw, gpu, goal, errors) for gpu in gpus)

    def error_of(name: str | None) -> str:
        return "" if name is None else f"{errors.mean(name):.2g}"

    launches = _launches(adamw, gpus[0])
    rows = [[f"`{each.name}`", f"{errors.bytes[each.name]:.2f}", titles[each.pipe], f"{each.slots:.0f}",
             f"{each.own:.0f}", f"{each.budget:.0f}", f"{each.ratio:.2f}", error_of(each.name),
             f"`{each.instead}`" if each.instead else "none",
             f"{errors.bytes[each.instead]:.2f}" if each.instead else "",
             f"{bound(gpus[0], launches[each.instead])[1]:.2f}" if each.instead else "",
             error_of(each.instead)] for each in first]
    meet = min((bytes_of(own) for own in launches.values()
                if round(bound(gpus[1], own)[1], 2) <= goal))
    smallest = min(each.moved for each in second)
    per_byte = " and ".join(f"{budget_of(gpu, 'issue', 1, goal):.1f} slots on an {gpu}" for gpu in gpus)
    h200 = (f"no strategy that moves fewer than {meet:.3g} bytes meets the goal: its budget for "
            f"{smallest:.3g} bytes is {budget_of(gpus[1], 'issue', smallest, goal):.0f} slots")
    text = TEXT.format(goal=goal, per_byte=per_byte, plain=PLAIN, near=NEAR,
                       own=slots_of(launches[PLAIN])["issue"], h200=h200)
    return text + table(["", "stored", "pipe", "slots", "of AdamW itself", "budget", "ratio", "error",
                         "alternative", "stored", "ratio", "error"], rows) + "\n" + REASONS
