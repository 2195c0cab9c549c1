#===- gradients.py - Recorded gradients ------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the streams of gradients of the search for codes: those of the accuracy
# benchmark and those of one more model.
#
#===----------------------------------------------------------------------===#
"""Records streams of gradients once and keeps them in build/codes."""

import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks/accuracy"))
from streams import SIZE, STREAMS, Stream, recorded  # noqa: E402

FOLDER = ROOT / "build/codes"
#: The number of consecutive elements that a sample takes at a time.
BLOCK = 256


class Attention(nn.Module):
    """One block of causal attention and a gated MLP that repeats random tokens."""

    TOKENS, WIDTH, HEADS, LENGTH = 32, 24, 4, 24

    def __init__(self):
        super().__init__()
        width = self.WIDTH
        self.table = nn.Embedding(self.TOKENS, width)
        self.place = nn.Embedding(self.LENGTH, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down, self.head = nn.Linear(2 * width, width), nn.Linear(width, self.TOKENS)
        self.chances = 1.0 / torch.arange(1, self.TOKENS + 1)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        heads = (part.reshape(rows, length, self.HEADS, -1).transpose(1, 2)
                 for part in self.inputs(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(rows, length, width))

    def loss(self) -> torch.Tensor:
        half = torch.multinomial(self.chances, 16 * 13, replacement=True).reshape(16, 13)
        text = torch.cat([half, half], 1)[:, :self.LENGTH + 1]
        x = self.table(text[:, :-1]) + self.place.weight
        x = x + self.attend(self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        logits = self.head(self.norms[2](x))
        return functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


#: Streams that choose, and one that was held out until all was chosen.
CHOOSING = tuple(STREAMS)
HELD_OUT = "attention"
EVERY = STREAMS | {HELD_OUT: Stream("Attention (held out)", (300, 1000), recorded(Attention))}


def sample(count: int) -> np.ndarray:
    """Returns the numbers of `count` elements of a stream, in blocks of consecutive ones."""
    blocks = count // BLOCK
    return (np.arange(blocks)[:, None] * (SIZE // blocks) + np.arange(BLOCK)).reshape(-1)


def _made(name: str, seed: int, steps: int) -> np.ndarray:
    torch.manual_seed(seed)
    start, stream = EVERY[name].make(seed)
    found = np.zeros((steps + 1, SIZE), np.float32)
    for row, values in zip(found, (start, *(next(stream) for _ in range(steps)))):
        row[:values.size] = values
    return found


def record(name: str, seed: int, steps: int) -> np.ndarray:
    """Returns the initial weights of a stream and its gradients, a row for each step."""
    path = FOLDER / f"{name}-{seed}.npy"
    if not path.exists() or len(np.load(path, mmap_mode="r")) <= steps:
        FOLDER.mkdir(parents=True, exist_ok=True)
        np.save(path, _made(name, seed, steps))
    return np.load(path, mmap_mode="r")[:steps + 1]
