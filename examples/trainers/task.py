# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The task of the programs here: a small Llama learns sequences that follow a rule."""

import torch
import transformers

EPOCHS, STEPS = 2, 20
CONFIG = transformers.LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128,
                                  num_hidden_layers=2, num_attention_heads=4)


def make_data():
    """Returns sequences with random starts that follow one rule."""
    starts = torch.randint(64, (160, 1), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in (starts + 5 * torch.arange(16)) % 64]
