"""Modules whose saved activations are compressed inside the kernels that make them.

>>> import torch, tandem.torch
>>> norm = tandem.torch.nn.RMSNorm(512, recipe="coat")
>>> norm(torch.randn(4, 512)).shape
torch.Size([4, 512])

Each has the parameters of the PyTorch module it stands for, so that checkpoints load
unchanged, and takes tensors on the CPU or on a GPU. What it keeps for the backward pass is
stored as its recipe says (:func:`tandem.recipes`, or files on ``path``). There are functions
of the same kinds, in :mod:`tandem.torch.nn.functional` and here.
"""

from tandem.torch.nn import functional
from tandem.torch.nn._compress import Compression, compress_activations
from tandem.torch.nn._emulate import EmulatedLinear, Emulation, emulate
from tandem.torch.nn._modules import (GELU, CrossEntropyLoss, GatedMLP, GeGLU, LayerNorm,
                                      Linear, RMSNorm, SiLU, SwiGLU)
from tandem.torch.nn._stored import StoredTensor
from tandem.torch.nn.functional import (add_rms_norm, cross_entropy, gated_linear, geglu, gelu,
                                        layer_norm, linear, rms_norm, silu, swiglu)

__all__ = ["Compression", "CrossEntropyLoss", "EmulatedLinear", "Emulation", "GELU",
           "GatedMLP", "GeGLU", "LayerNorm", "Linear", "RMSNorm", "SiLU", "StoredTensor",
           "SwiGLU", "add_rms_norm", "compress_activations", "cross_entropy", "emulate",
           "functional", "gated_linear", "geglu", "gelu", "layer_norm", "linear", "rms_norm",
           "silu", "swiglu"]
