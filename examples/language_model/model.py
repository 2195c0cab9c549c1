# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small decoder-only transformer whose weights may be stored in bfloat16.

Every layer computes in float32 with its weight upcast, and the gradient is rounded to
the weight's format in the backward pass. All strategies with bf16 weights therefore
share one computation; only the optimizer differs.
"""

from __future__ import annotations

import dataclasses

import tandem.torch
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
    """A linear map without bias, whose weights have standard deviation
    1/sqrt(inputs)."""

    recipe: str | None = None  # how its saved inputs are stored; None keeps them unchanged

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.recipe is None:
            return functional.linear(x, self.weight.float())
        return tandem.torch.nn.linear(x, self.weight.float(), recipe=self.recipe)


class Norm(nn.Module):
    """Root-mean-square normalization with a gain."""

    recipe: str | None = None

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.recipe is None:
            return functional.rms_norm(x, x.shape[-1:], self.weight.float(), 1e-6)
        return tandem.torch.nn.rms_norm(x, x.shape[-1:], self.weight.float(), 1e-6,
                                        recipe=self.recipe)


class Embedding(nn.Module):
    """A table of vectors with unit standard deviation, torch.nn.Embedding's default."""

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

    recipe: str | None = None

    def __init__(self, shape: ModelShape):
        super().__init__()
        self.attention_norm = Norm(shape.width)
        self.attention = Attention(shape)
        self.network_norm = Norm(shape.width)
        self.up = Linear(shape.width, 4 * shape.width)
        self.down = Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(self.activate(self.up(self.network_norm(x))))

    def activate(self, x: torch.Tensor) -> torch.Tensor:
        if self.recipe is None:
            return functional.gelu(x)
        return tandem.torch.nn.gelu(x, recipe=self.recipe)


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
        """Returns the mean cross-entropy of the next character, in nats."""
        logits = self(inputs)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_model(
    vocabulary: int,
    shape: ModelShape,
    seed: int,
    dtype: torch.dtype,
    recipe: str | None = None,
) -> Transformer:
    """Creates a model in dtype, whose initial weights are bf16 numbers in any dtype,
    and whose norms, linear maps and GELUs save their activations under the recipe."""
    torch.manual_seed(seed)
    model = Transformer(vocabulary, shape).to(torch.bfloat16).to(dtype)
    for module in model.modules():
        if isinstance(module, Linear | Norm | Block):
            module.recipe = recipe
    return model


def saved_bytes(model: Transformer, batch: tuple[torch.Tensor, torch.Tensor]) -> int:
    """Counts the bytes that autograd saves for the backward pass, except for weights in any
    format."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    shapes = {shape for p in model.parameters() for shape in (p.shape, p.shape[::-1])}
    sizes = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tensor.shape not in shapes:
            sizes[storage.data_ptr()] = storage.nbytes(), tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.loss(*batch)
    return sum(size for size, _ in sizes.values())
