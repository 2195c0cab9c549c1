#===- torch_needs.py - Marks for older PyTorch ----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements marks for tests that need features which the oldest supported PyTorch lacks.
#
#===----------------------------------------------------------------------===#

import pytest
import torch

from tandem.torch._versions import at_least
from tandem.torch.optim.advice import _auto

needs_adafactor = pytest.mark.skipif(not hasattr(torch.optim, "Adafactor"),
                                     reason="torch.optim.Adafactor is in PyTorch 2.5")
needs_names = pytest.mark.skipif(not _auto.TAKES_NAMES,
                                 reason="optimizers take names from PyTorch 2.6 on")
needs_grad_dtype = pytest.mark.skipif(
    not hasattr(torch.Tensor, "grad_dtype"),
    reason="this PyTorch takes no gradients of other types than the parameter's")
needs_fully_shard = pytest.mark.skipif(
    not at_least(2, 6), reason="torch.distributed.fsdp.fully_shard is in PyTorch 2.6")
needs_dtensors = pytest.mark.skipif(not at_least(2, 5),
                                    reason="DTensors of fully_shard are in PyTorch 2.5")
#: Checkpoints must see the saved tensors of modules with decoded weights.
needs_hooks_around = pytest.mark.skipif(
    not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"),
    reason="this PyTorch does not say which hooks are in force")
