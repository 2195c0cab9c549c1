"""Optimizers that run as compiled kernels, and functions for their states.

>>> import torch, tandem.torch
>>> model = torch.nn.Linear(64, 64, bias=False, dtype=torch.bfloat16)
>>> opt = tandem.torch.optim.AdamW(model.parameters(), lr=1e-3, strategy="flash-f16")
>>> opt.bytes_per_parameter
8.25

All of them are subclasses of :class:`Optimizer`, which takes any optimizer graph, under any
strategy, and derives the state of a parameter from the kernel's signature.
"""

from tandem.torch.optim._adam_family import MARS, Adamax, Adan, AdEMAMix, NAdam, RAdam
from tandem.torch.optim._library import (ASGD, LAMB, SGD, Adadelta, Adafactor, Adagrad, Adam, AdamW,
                                         Lion, RMSprop, Rprop)
from tandem.torch.optim._muon import Muon
from tandem.torch.optim._optimizer import Optimizer
from tandem.torch.optim._prodigy import Prodigy
from tandem.torch.optim._qk_clip import qk_clip
from tandem.torch.optim._row_moments import CAME, AdamMini
from tandem.torch.optim._schedule_free import AdamWScheduleFree
from tandem.torch.optim._shampoo import SOAP, Shampoo
from tandem.torch.optim.advice._recommend import Recommendation, recommend
from tandem.torch.optim.advice._roles import param_groups
from tandem.torch.optim.diagnosis._doctor import doctor
from tandem.torch.optim.peers._bitsandbytes import from_bitsandbytes, to_bitsandbytes
from tandem.torch.optim.state._change import change_strategy
from tandem.torch.optim.state._convert import convert_state
from tandem.torch.optim.state._decode import DecodedWeights, decode_weights
from tandem.torch.optim.state._matching import IncompatibleKeys
from tandem.torch.optim.state._averages import averaged_weights, averages
from tandem.torch.optim.state._weights import WeightAverage, weights

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamMini", "AdamW", "AdamWScheduleFree", "Adamax", "Adan",
           "AdEMAMix", "CAME", "DecodedWeights", "IncompatibleKeys", "LAMB", "Lion", "MARS", "Muon",
           "NAdam", "Optimizer", "Prodigy", "RAdam", "RMSprop", "Recommendation", "Rprop", "SGD", "SOAP",
           "Shampoo", "WeightAverage",
           "averaged_weights", "averages",
           "change_strategy", "convert_state", "decode_weights", "doctor", "from_bitsandbytes",
           "param_groups", "qk_clip", "recommend", "to_bitsandbytes", "weights"]
