"""Modules whose kernels compress the activations that they save.

>>> import torch, tandem.torch
>>> norm = tandem.torch.nn.RMSNorm(512, recipe="coat")
>>> norm(torch.randn(4, 512)).shape
torch.Size([4, 512])

Each module has the same parameters as the PyTorch module that it replaces, so that checkpoints
load unchanged, and takes tensors on the CPU or on a GPU. Its recipe (:func:`tandem.recipes`, or
a file on ``path``) determines how activations are saved for the backward pass. The same
functions are in :mod:`tandem.torch.nn.functional` and here.
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
