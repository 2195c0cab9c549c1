"""Optimizers, modules and collectives for PyTorch, based on compiled kernels.

>>> import torch, tandem.torch
>>> model = torch.nn.Linear(64, 64, bias=False, dtype=torch.bfloat16)
>>> opt = tandem.torch.AdamW(model.parameters(), lr=1e-3, strategy="flash-f16")
>>> opt.bytes_per_parameter
8.25

The packages mirror PyTorch's: :mod:`tandem.torch.optim`, :mod:`tandem.torch.nn` and
:mod:`tandem.torch.distributed`. Except for layers, their names are also available here, as is
:func:`sharpness`, the PyTorch form of :func:`tandem.sharpness`.
"""

from tandem.torch import _versions  # reports a missing PyTorch early
from tandem.torch import distributed, nn, optim
from tandem.torch._fp8_lm import FP8LM, fp8_lm
from tandem.torch._training_memory import Memory, memory
from tandem.torch._weight_operands import WeightOperands, write_operands
from tandem.torch._schedule import (MaskSetting, PrecisionRaise, PrecisionSchedule,
                                    RecipeSetting, StrategySetting)
from tandem.torch._sharpness import sharpness
from tandem.torch._threads import share_threads
from tandem.torch.distributed import AutomaticScaling, GradientAllReduce, Ranks
from tandem.torch.nn import (Compression, Emulation, StoredTensor, compress_activations,
                             emulate)
from tandem.torch.optim import (ASGD, CAME, LAMB, MARS, SGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, AdamMini,
                                AdamW, AdamWScheduleFree, Adan, AdEMAMix, DecodedWeights, Lion,
                                Muon, NAdam, Optimizer, Prodigy, RAdam, Recommendation, RMSprop, Rprop, SOAP,
                                Shampoo,
                                WeightAverage, averaged_weights, averages, change_strategy,
                                convert_state, decode_weights, doctor, from_bitsandbytes,
                                param_groups, qk_clip, recommend, to_bitsandbytes, weights)

share_threads()

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamMini", "AdamW", "AdamWScheduleFree", "Adamax", "Adan",
           "AdEMAMix", "AutomaticScaling", "Compression", "DecodedWeights", "Emulation", "FP8LM",
           "CAME", "GradientAllReduce", "LAMB", "Lion", "MARS", "MaskSetting", "Memory", "Muon", "NAdam",
           "Optimizer", "PrecisionRaise", "PrecisionSchedule", "Prodigy", "RAdam", "RMSprop", "Ranks",
           "RecipeSetting", "Recommendation", "Rprop", "SGD", "SOAP", "Shampoo",
           "StoredTensor", "StrategySetting",
           "WeightAverage", "WeightOperands", "averaged_weights", "averages", "change_strategy",
           "compress_activations", "convert_state", "decode_weights", "distributed", "doctor",
           "emulate", "fp8_lm", "from_bitsandbytes", "memory", "nn", "optim", "param_groups", "qk_clip",
           "recommend", "sharpness", "to_bitsandbytes", "weights",
           "write_operands"]
