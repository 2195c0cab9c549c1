# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small decoder-only transformer whose weights may be stored in bfloat16.

Every layer computes in float32 from its upcast weight, and the gradient is
rounded to the weight's own format on its way back. All strategies with bf16
weights therefore share one computation; only the optimizer differs.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as functional
from torch import nn


@dataclasses.dataclass(frozen=True)
class ModelShape:
    """The sizes that define a model."""

    width: int
    layers: int
    heads: int
    context: int


class Linear(nn.Module):
    """A linear map without bias: weights of deviation 1/sqrt(inputs)."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight.float())


class Norm(nn.Module):
    """Root-mean-square normalization with a gain."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, x.shape[-1:], self.weight.float(), 1e-6)


class Embedding(nn.Module):
    """A table of vectors with unit deviation, torch.nn.Embedding's default."""

    def __init__(self, entries: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(entries, width))

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return functional.embedding(indices, self.weight.float())


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shape: ModelShape):
        super().__init__()
        self.heads = shape.heads
        self.qkv = Linear(shape.width, 3 * shape.width)
        self.out = Linear(shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One pre-norm layer: attention, then a GELU network four times as wide."""

    def __init__(self, shape: ModelShape):
        super().__init__()
        self.attention_norm = Norm(shape.width)
        self.attention = Attention(shape)
        self.network_norm = Norm(shape.width)
        self.up = Linear(shape.width, 4 * shape.width)
        self.down = Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        hidden = functional.gelu(self.up(self.network_norm(x)))
        return x + self.down(hidden)


class Transformer(nn.Module):
    """Character embedding, learned positions, blocks and an untied output layer."""

    def __init__(self, vocabulary: int, shape: ModelShape):
        super().__init__()
        self.tokens = Embedding(vocabulary, shape.width)
        self.positions = Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)
        self.head = Linear(shape.width, vocabulary)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        places = torch.arange(indices.shape[1])
        x = self.tokens(indices) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of the next character, in nats."""
        logits = self(inputs)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_model(
    vocabulary: int, shape: ModelShape, seed: int, dtype: torch.dtype
) -> Transformer:
    """A model in dtype whose initial weights are bf16 numbers in any dtype."""
    torch.manual_seed(seed)
    return Transformer(vocabulary, shape).to(torch.bfloat16).to(dtype)
