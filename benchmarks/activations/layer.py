#===- layer.py - A layer of Llama's kind -----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the transformer layer on which activations are measured, built from PyTorch's
# modules with the names that Transformers uses.
#
#===----------------------------------------------------------------------===#

import torch
from torch.nn import functional

#: The number of sequences.
BATCH = 2


class Attention(torch.nn.Module):
    def __init__(self, hidden: int, heads: int):
        super().__init__()
        self.heads = heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, torch.nn.Linear(hidden, hidden, bias=False))

    def forward(self, x, cos, sin):
        batch, length, hidden = x.shape
        q, k, v = (project(x).view(batch, length, self.heads, -1).transpose(1, 2)
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        q, k = _turn(q, cos, sin), _turn(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, hidden))


def _turn(x, cos, sin):
    """Applies the rotary embedding (Su et al. 2021)."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class FeedForward(torch.nn.Module):
    def __init__(self, hidden: int, inner: int):
        super().__init__()
        self.gate_proj = torch.nn.Linear(hidden, inner, bias=False)
        self.up_proj = torch.nn.Linear(hidden, inner, bias=False)
        self.down_proj = torch.nn.Linear(inner, hidden, bias=False)
        self.act_fn = torch.nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(torch.nn.Module):
    """Norm, attention, norm, feed-forward block of 8/3 the width, heads of 64."""

    def __init__(self, hidden: int):
        super().__init__()
        self.input_layernorm = torch.nn.RMSNorm(hidden, 1e-6)
        self.self_attn = Attention(hidden, hidden // 64)
        self.post_attention_layernorm = torch.nn.RMSNorm(hidden, 1e-6)
        self.mlp = FeedForward(hidden, hidden * 8 // 3 // 64 * 64)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


def make(hidden: int, length: int, dtype: torch.dtype):
    """Returns a layer with random weights, and the cosines and sines of positions."""
    torch.manual_seed(0)
    layer = Layer(hidden)
    for p in layer.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=hidden**-0.5)
    angles = torch.outer(torch.arange(length),
                         10000.0 ** (-torch.arange(0, 64, 2) / 64)).repeat(1, 2)
    return layer.to(dtype), angles.cos().to(dtype), angles.sin().to(dtype)


def kept_bytes(layer, run) -> int:
    """Returns the bytes of the tensors that autograd keeps, except parameters."""
    own = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    sizes = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes(), tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    del result
    return sum(size for size, _ in sizes.values())


def compare(got: dict, want: dict) -> dict:
    """Returns the worst relative error and 1 - cosine over a layer's gradients."""
    errors = {name: float((got[name] - w).norm() / w.norm()) for name, w in want.items()}
    cosines = {name: float(torch.nn.functional.cosine_similarity(
        got[name].flatten(), w.flatten(), 0)) for name, w in want.items()}
    return {"error": errors, "cosine": cosines}
