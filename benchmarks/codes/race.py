#===- race.py - AdamW in a few bits against float64 ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs AdamW with stored moments beside AdamW in float64.
#
#===----------------------------------------------------------------------===#
"""Runs AdamW with stored moments on streams of gradients, all values of beta2 at a time.

Weights are f32, so that only the moments differ from float64. The state of the first moment is m,
or in the form "ratio" the quotient m / sqrt(v).
"""

from dataclasses import dataclass

import numpy as np
import torch
from coded import Dither, Stored
from gradients import record, sample

BETA1, BETA2, EPS, LR = 0.9, (0.95, 0.99, 0.999), 1e-8, 1e-3
#: The numbers of the states among a graph's tensors, and of their groups' random numbers.
FIRST, SECOND, OF_GROUPS = 2, 3, 16
#: The number of first steps, large also in float64, that do not count for the largest step.
SETTLED = 20


@dataclass(frozen=True)
class Contender:
    """Two stored moments (None is exact) and the form of the first one."""

    first: Stored | None = None
    second: Stored | None = None
    form: str = "plain"

    @property
    def bits(self) -> float:
        """Bits of state for each weight, 32 for an exact moment."""
        return sum(32 if s is None else s.bits for s in (self.first, self.second))


class Numbers:
    """The random numbers of one moment's elements and groups."""

    def __init__(self, stored: Stored | None, seed: int, tensors: int, elements: np.ndarray,
                 role: int, steps: int):
        self.of_elements = Dither(seed, tensors, elements, role, steps)
        self.of_groups = None
        if stored and stored.scale.rounding == "dither":
            group = stored.scale.group
            self.of_groups = Dither(seed, tensors, elements[::group] // group, OF_GROUPS + role,
                                    steps)

    def at(self, step: int, times: int) -> tuple[np.ndarray, np.ndarray | None]:
        return tuple(dither and np.tile(dither.at(step), (times, 1))
                     for dither in (self.of_elements, self.of_groups))


class AdamW:
    """AdamW of tensors (beta2, tensor, element) in f32, or in f64 without stored moments."""

    def __init__(self, contender: Contender, tensors: int, elements: np.ndarray, steps: int,
                 seed: int, betas: tuple[float, ...] = BETA2, exact: bool = False):
        self.contender, self.betas = contender, np.array(betas)[:, None, None]
        self.type = np.float64 if exact else np.float32
        shape = (len(betas), tensors, len(elements))
        self.m, self.v = np.zeros(shape, self.type), np.zeros(shape, self.type)
        self.steps = 0
        self.numbers = [Numbers(stored, seed, tensors, elements, role, steps) for stored, role
                        in ((contender.first, FIRST), (contender.second, SECOND))]

    def _store(self, stored: Stored | None, which: int, values: np.ndarray) -> np.ndarray:
        if stored is None:
            return values
        flat = values.reshape(-1, values.shape[-1])
        random = self.numbers[which].at(self.steps, len(self.betas))
        return stored(flat, *random).reshape(values.shape)

    def step(self, gradient: np.ndarray) -> np.ndarray:
        """Returns the updates in learning rates."""
        self.steps += 1
        g, beta2 = gradient.astype(self.type), self.betas.astype(self.type)
        self.m *= self.type(BETA1)
        self.m += self.type(1 - BETA1) * g
        self.v *= beta2
        self.v += (1 - beta2) * (g * g)
        root = np.sqrt(self.v)
        first = 1 - BETA1**self.steps
        second = np.sqrt(1 - self.betas**self.steps).astype(self.type)
        update = self.m / (root / second + self.type(EPS)) * self.type(1 / first)
        self._round(root)
        return update

    def _round(self, root: np.ndarray) -> None:
        """Rounds the moments to what is stored; `root` is that of the exact v."""
        contender = self.contender
        self.v = self._store(contender.second, 1, self.v)
        if contender.form == "ratio":
            ratio = self.m / np.maximum(root, np.float32(1e-20))
            self.m = self._store(contender.first, 0, ratio) * np.sqrt(self.v)
        else:
            self.m = self._store(contender.first, 0, self.m)


class BFloat16:
    """PyTorch's AdamW on bf16 weights, whose moments are bf16, too."""

    def __init__(self, start: np.ndarray, betas: tuple[float, ...] = BETA2):
        self.start = start
        self.weights = [torch.nn.Parameter(torch.from_numpy(start.copy()).bfloat16())
                        for _ in betas]
        self.optimizers = [torch.optim.AdamW([w], lr=LR, betas=(BETA1, beta2), eps=EPS,
                                             weight_decay=0.0)
                           for w, beta2 in zip(self.weights, betas)]

    def step(self, gradient: np.ndarray) -> None:
        for weight, optimizer in zip(self.weights, self.optimizers):
            weight.grad = torch.from_numpy(gradient).bfloat16()
            optimizer.step()

    def moved(self) -> np.ndarray:
        """Returns the distance from the start in negative learning rates."""
        weights = np.stack([w.detach().double().numpy() for w in self.weights])
        return (self.start - weights) / LR


@dataclass
class Outcome:
    """Errors by mark, beta2 and stream, and the largest steps by beta2 and stream."""

    errors: np.ndarray
    largest: np.ndarray


class Race:
    """Streams of one length, with the exact movements of their weights."""

    def __init__(self, streams: list[str], seed: int, marks: tuple[int, ...], count: int):
        self.streams, self.seed, self.marks = streams, seed, marks
        self.elements = sample(count)
        recorded = [record(name, seed, marks[-1])[:, self.elements] for name in streams]
        self.start = np.stack([one[0] for one in recorded])
        self.gradients = np.stack([one[1:] for one in recorded], 1)
        self.exact, self.exact_largest = self._run(Contender(), exact=True)

    def _run(self, contender: Contender, exact: bool = False) -> tuple[list, np.ndarray]:
        """Returns the movements in learning rates at the marks, and the largest steps."""
        adam = AdamW(contender, len(self.streams), self.elements, self.marks[-1], self.seed + 1,
                     exact=exact)
        moved, largest, found = np.zeros_like(adam.m), 0, []
        for step, gradient in enumerate(self.gradients, 1):
            update = adam.step(gradient)
            moved += update
            if step > SETTLED:
                largest = np.maximum(largest, np.abs(update).max(-1))
            if step in self.marks:
                found.append(moved.astype(np.float64))
        return found, largest

    def _errors(self, found: list[np.ndarray]) -> np.ndarray:
        return np.array([np.sqrt(((one - exact) ** 2).mean(-1) / (exact**2).mean(-1))
                         for one, exact in zip(found, self.exact)])

    def measure(self, contender: Contender) -> Outcome:
        found, largest = self._run(contender)
        return Outcome(self._errors(found), largest)

    def measure_bf16(self) -> Outcome:
        """Measures PyTorch's AdamW on bf16 weights."""
        adam, found = BFloat16(self.start), []
        for step, gradient in enumerate(self.gradients, 1):
            adam.step(gradient)
            if step in self.marks:
                found.append(adam.moved())
        return Outcome(self._errors(found), np.zeros_like(self.exact_largest))
