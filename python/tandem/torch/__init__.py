"""PyTorch optimizers over compiled kernels.

>>> import torch, tandem.torch
>>> model = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
>>> opt = tandem.torch.AdamW(model.parameters(), lr=1e-3, strategy="collage-plus")
>>> opt.bytes_per_parameter
12.0

All of them are :class:`Optimizer`, which takes any optimizer graph, under any
strategy, and derives the state of a parameter from the kernel's signature.
"""

from tandem.torch import nn
from tandem.torch._all_reduce import AutomaticScaling, GradientAllReduce, Ranks
from tandem.torch._bitsandbytes import from_bitsandbytes, to_bitsandbytes
from tandem.torch._compress import Compression, compress_activations
from tandem.torch._convert import convert_state
from tandem.torch._decode import DecodedWeights, decode_weights
from tandem.torch._library import (LAMB, SGD, Adafactor, Adagrad, Adam, AdamW, Lion,
                                   RMSprop)
from tandem.torch._optimizer import Optimizer
from tandem.torch._stored import StoredTensor
from tandem.torch._threads import share_threads

share_threads()

__all__ = ["Adafactor", "Adagrad", "Adam", "AdamW", "AutomaticScaling", "Compression",
           "DecodedWeights", "GradientAllReduce", "LAMB", "Lion", "Optimizer", "RMSprop",
           "Ranks", "SGD", "StoredTensor", "compress_activations", "convert_state",
           "decode_weights", "from_bitsandbytes", "nn", "to_bitsandbytes"]
