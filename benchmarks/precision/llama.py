#===- llama.py - A small language model like Llama -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the model that the studies of papers train.
#
#===----------------------------------------------------------------------===#
"""Implements a decoder like Llama's: RMSNorm, rotary positions, SwiGLU, an untied LM head.

Its products, except those of attention, are :class:`torch.nn.Linear` modules, which
``tandem.torch.emulate`` and ``compress_activations`` find.
"""

import dataclasses

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes that define a model."""

    width: int
    layers: int
    heads: int
    context: int

    @property
    def hidden(self) -> int:
        """Returns SwiGLU's width: 8/3 of the model's, rounded to a multiple of 16."""
        return -(-8 * self.width // 48) * 16


class Norm(nn.Module):
    """Root-mean-square normalization with a gain, in f32."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = 1e-5  # compress_activations recognizes norms by this attribute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, x.shape[-1:], self.weight.to(x.dtype), self.eps)


def rotations(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns cosines and sines for each position and each pair of a head's elements."""
    size = shape.width // shape.heads
    speeds = 10000.0 ** (-torch.arange(0, size, 2) / size)
    angles = torch.outer(torch.arange(shape.context), speeds).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Applies rotary positions: rotates the pairs of elements that are half a head apart."""
    low, high = x.chunk(2, -1)
    return x * cosines + torch.cat((-high, low), -1) * sines


class Attention(nn.Module):
    """Causal self-attention over rotated queries and keys."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.heads = shape.heads
        self.qkv_proj = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out_proj = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x, cosines, sines) -> torch.Tensor:
        split = self.qkv_proj(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            rotate(query, cosines, sines), rotate(key, cosines, sines), value,
            is_causal=True)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class Network(nn.Module):
    """The SwiGLU feed-forward network."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """One pre-norm layer."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.attention_norm, self.attention = Norm(shape.width), Attention(shape)
        self.network_norm, self.network = Norm(shape.width), Network(shape)

    def forward(self, x, cosines, sines) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        return x + self.network(self.network_norm(x))


class Llama(nn.Module):
    """The language model, which returns logits of the next token for each token."""

    def __init__(self, vocabulary: int, shape: Shape):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)
        self.lm_head = nn.Linear(shape.width, vocabulary, bias=False)
        for name, buffer in zip(("cosines", "sines"), rotations(shape)):
            self.register_buffer(name, buffer, persistent=False)
        self._initialize(shape)

    def _initialize(self, shape: Shape) -> None:
        """Initializes weights as TinyLlama does: deviation sqrt(2 / (5 width)), less at layer
        outputs."""
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=(0.4 / shape.width) ** 0.5)
            if name.endswith(("out_proj", "down_proj")):
                nn.init.normal_(module.weight, std=shape.width**-0.5 / shape.layers)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        x = self.tokens(indices)
        places = slice(indices.shape[1])
        cosines, sines = self.cosines[places], self.sines[places]
        for layer in self.layers:
            x = layer(x, cosines, sines)
        return self.lm_head(self.norm(x))

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Returns the mean cross-entropy of the next character, in nats."""
        logits = self(inputs).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_model(vocabulary: int, shape: Shape, seed: int) -> Llama:
    """Returns an f32 model whose initial weights depend only on the seed."""
    torch.manual_seed(seed)
    return Llama(vocabulary, shape)
