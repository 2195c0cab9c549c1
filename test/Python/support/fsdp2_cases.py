#===- fsdp2_cases.py - Trainings on ranks ----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file has the sizes of the model that test_torch_fsdp2.py trains, and the optimizers that train
# it.
#
#===----------------------------------------------------------------------===#

#: Sizes that no number of ranks divides, and vectors whose shards cut groups of scales.
SIZES = (24, 133, 256)

#: Each storage and each reduction: (strategy, options).
CASES = {
    "collage-plus": ("collage-plus", {}),
    "accumulated": ("collage-plus", {"parts": 2}),
    "clipped": ("collage-plus", {"clips": True}),
    "coat": ("coat", {"min_8bit_size": 0}),
    "adam8bit": ("adam8bit", {"min_8bit_size": 0}),
    "random bits": ("bf16-stochastic", {}),
    "flash": ("flash", {}),
    "weights in codes": ("fp8-collage-plus", {"min_8bit_size": 0}),
    "scales of tensors": ("fp8-lm", {"min_8bit_size": 0}),
    "softsign": ("dither-softsign-root", {"min_8bit_size": 0}),
    "average": ("dither-mulaw", {"ema_decay": 0.9, "min_8bit_size": 0}),
    "average, scales": ("fp8-lm", {"ema_decay": 0.9, "min_8bit_size": 0}),
    "max_norm": ("collage-plus", {"max_norm": 0.5}),
    "max_norm, scales": ("coat", {"max_norm": 0.5}),
    "metrics": ("collage-plus", {"metrics": True, "skip_nonfinite": True}),
    "maximize": ("collage-plus", {"maximize": True}),
    "LAMB": ("coat", {"optimizer": "LAMB", "min_8bit_size": 0}),
    "cautious": ("flash-f16", {"decay": "before", "cautious": True, "min_8bit_size": 0}),
    "AdEMAMix": ("flash-f16", {"optimizer": "AdEMAMix", "min_8bit_size": 0}),
    "schedule-free": ("dither-mulaw", {"optimizer": "AdamWScheduleFree", "min_8bit_size": 0}),
    "Adafactor": ("collage-plus", {"optimizer": "Adafactor"}),
    "CAME": ("dither-mulaw", {"optimizer": "CAME", "min_8bit_size": 0}),
    "Adam-mini": ("dither-mulaw", {"optimizer": "AdamMini", "min_8bit_size": 0}),
    "Adam-mini, heads": ("flash-f16", {"optimizer": "AdamMini", "head_dim": 2,
                                       "min_8bit_size": 0}),
    # A rank begins within a head, so that all gather the matrix.
    "Adam-mini, cut head": ("coat", {"optimizer": "AdamMini", "head_dim": SIZES[2],
                                     "min_8bit_size": 0}),
    "MARS": ("flash-f16", {"optimizer": "MARS", "min_8bit_size": 0}),
    "Prodigy": ("flash-f16", {"optimizer": "Prodigy", "d0": 1e-3, "d_coef": 1e3, "min_8bit_size": 0}),
    "Prodigy, scales": ("fp8-lm", {"optimizer": "Prodigy", "d0": 1e-3, "d_coef": 1e3, "min_8bit_size": 0}),
    "SOAP": ("flash-f16", {"optimizer": "SOAP", "precondition_frequency": 1, "min_8bit_size": 0}),
    # A dimension without a basis, and codes with a scale for the tensor.
    "SOAP, scales": ("fp8-lm", {"optimizer": "SOAP", "max_precond_dim": 200, "min_8bit_size": 0}),
    "Shampoo": ("dither-mulaw", {"optimizer": "Shampoo", "precondition_frequency": 2,
                                 "min_8bit_size": 0}),
    "Adafactor, scales": ("coat", {"optimizer": "Adafactor", "min_8bit_size": 0}),
    "release": ("collage-plus", {"gradient_release": True}),
}
