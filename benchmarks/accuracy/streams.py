#===- streams.py - The gradients of the accuracy benchmark -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the streams of gradients, which are random or come from models that are
# trained while the stream is read.
#
#===----------------------------------------------------------------------===#
"""Streams of gradients. A stream is the same for all readers with the same seed.

Each gradient is one flat f32 array whose values are representable in bf16, so that strategies with
bf16 gradients round nothing. The initial weights are, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
from torch import nn

#: The number of elements of a stream: 32 of the longest groups.
SIZE = 8192
#: One in this many elements has a gradient at every step, even where most others rarely have.
STRIDE = 32
#: The number of elements in a row of the sparse stream.
ROW = 64
LR, BETA1, EPS = 1e-3, 0.9, 1e-8
Gradients = Iterator[np.ndarray]


def rounded(values: np.ndarray) -> np.ndarray:
    """Rounds to the nearest bf16 values and returns them as f32."""
    tensor = torch.from_numpy(np.asarray(values, np.float32))
    return tensor.bfloat16().float().numpy()


@dataclass(frozen=True)
class Stream:
    """A stream: its number of steps, the steps at which errors are measured, and its factory."""

    title: str
    marks: tuple[int, ...]
    make: Callable[[int], tuple[np.ndarray, Gradients]]

    @property
    def steps(self) -> int:
        return self.marks[-1]


#===------------------------------------------------------------------------===#
# Random streams
#===------------------------------------------------------------------------===#


class Drawn:
    """Normally distributed gradients whose size and mean vary among elements."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng([seed, 21])
        self.size = (1e-3 * np.exp(0.7 * self._normal())).astype(np.float32)
        self.mean = 0.3 * self._normal()
        self.is_neighbour = np.arange(SIZE) % STRIDE == 0

    def _normal(self) -> np.ndarray:
        return self.random.standard_normal(SIZE, np.float32)

    def start(self) -> np.ndarray:
        return rounded(0.1 * self._normal())

    def steady(self) -> Gradients:
        while True:
            yield rounded(self.size * (self.mean + self._normal()))

    def amplitude(self) -> Gradients:
        """Yields gradients whose size changes every 500 steps for half of the elements."""
        factors, step = (1.0, 0.3, 3.0, 1.0, 0.1, 1.0), 0
        changes = np.arange(SIZE) % 2 == 1
        for gradient in self.steady():
            factor = factors[step // 500 % len(factors)]
            yield rounded(np.where(changes, np.float32(factor), np.float32(1)) * gradient)
            step += 1

    def sparse(self) -> Gradients:
        """Yields gradients that each row has in 1 % to 50 % of the steps, and neighbours always."""
        often = 0.01 * 50.0 ** self.random.random(SIZE // ROW)
        for gradient in self.steady():
            has = np.repeat(self.random.random(SIZE // ROW) < often, ROW)
            yield np.where(has | self.is_neighbour, gradient, np.float32(0))


def drawn(kind: str) -> Callable[[int], tuple[np.ndarray, Gradients]]:
    def make(seed: int) -> tuple[np.ndarray, Gradients]:
        source = Drawn(seed)
        return source.start(), getattr(source, kind)()

    return make


#===------------------------------------------------------------------------===#
# Recorded streams
#===------------------------------------------------------------------------===#

CLASSES = 10


class Perceptron(nn.Module):
    """Two hidden layers that tell noisy patterns of 64 numbers apart."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))
        self.patterns = torch.randn(CLASSES, 64)

    def loss(self) -> torch.Tensor:
        labels = torch.randint(CLASSES, (64,))
        inputs = self.patterns[labels] + 2.5 * torch.randn(64, 64)
        return nn.functional.cross_entropy(self.layers(inputs), labels)


class Convolutions(nn.Module):
    """Three convolutions that tell noisy textures of 10 by 10 apart."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
            nn.Conv2d(24, 26, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(26, CLASSES))
        self.textures = torch.randn(CLASSES, 1, 10, 10)

    def loss(self) -> torch.Tensor:
        labels = torch.randint(CLASSES, (16,))
        shifts = torch.randint(10, (2,)).tolist()
        textures = torch.roll(self.textures[labels], shifts, (2, 3))
        inputs = textures + torch.randn_like(textures)
        return nn.functional.cross_entropy(self.layers(inputs), labels)


class Recurrence(nn.Module):
    """An embedding and a GRU that predict the next of 64 tokens, a few of which are frequent."""

    TOKENS = 64

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(self.TOKENS, 24)
        self.layer = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, self.TOKENS)
        rank = torch.arange(1, self.TOKENS + 1)
        self.chances = torch.stack([
            1.0 / rank[torch.randperm(self.TOKENS)] / rank for _ in range(self.TOKENS)])

    def text(self, rows: int, length: int) -> torch.Tensor:
        """Returns random tokens, each of which depends on its predecessor."""
        tokens = [torch.zeros(rows, dtype=torch.long)]
        for _ in range(length):
            tokens.append(torch.multinomial(self.chances[tokens[-1]], 1)[:, 0])
        return torch.stack(tokens, 1)

    def loss(self) -> torch.Tensor:
        text = self.text(8, 12)
        outputs, _ = self.layer(self.table(text[:, :-1]))
        return nn.functional.cross_entropy(self.head(outputs).flatten(0, 1), text[:, 1:].flatten())


class Recording:
    """The gradients of a model's matrices along a run of AdamW in f32."""

    def __init__(self, model: type[nn.Module], seed: int):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.model = model()
            self.state = torch.random.get_rng_state()
        self.matrices = [p for p in self.model.parameters() if p.ndim > 1]
        with torch.no_grad():
            for p in self.matrices:
                p.copy_(p.bfloat16())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LR, weight_decay=0.0)

    @staticmethod
    def _flat(tensors: list[torch.Tensor]) -> np.ndarray:
        return rounded(torch.cat([t.detach().flatten() for t in tensors])[:SIZE].numpy())

    def start(self) -> np.ndarray:
        return self._flat(self.matrices)

    def gradients(self) -> Gradients:
        while True:
            with torch.random.fork_rng():
                torch.random.set_rng_state(self.state)
                loss = self.model.loss()
                self.state = torch.random.get_rng_state()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            yield self._flat([p.grad for p in self.matrices])


def recorded(model: type[nn.Module]) -> Callable[[int], tuple[np.ndarray, Gradients]]:
    def make(seed: int) -> tuple[np.ndarray, Gradients]:
        source = Recording(model, seed)
        return source.start(), source.gradients()

    return make


STREAMS = {
    "stationary": Stream("Stationary", (300, 3000), drawn("steady")),
    "amplitude": Stream("Changing amplitudes", (3000,), drawn("amplitude")),
    "sparse": Stream("Sparse rows", (3000,), drawn("sparse")),
    "perceptron": Stream("Perceptron", (300, 1000), recorded(Perceptron)),
    "convolutions": Stream("Convolutions", (300, 1000), recorded(Convolutions)),
    "recurrence": Stream("Embedding and GRU", (300, 1000), recorded(Recurrence)),
}
