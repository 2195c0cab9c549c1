#===- dither.py - Evenly distributed rounding bits ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the bits of rounding by dither: those of one element visit all strata of [0,
# 2^16) within 64 steps.
#
#===----------------------------------------------------------------------===#
"""Computes the word of a tensor at a step, and the 16 bits of each element."""

import numpy as np

from .philox import philox4x32

_WORD = 0xFFFFFFFF
# The second words of the counters: "dith", and its successor.
_WINDOW, _BASE = 0x64697468, 0x64697469
# The multipliers of the lattice, with the lowest byte first.
_LATTICES = (0x271B1713).to_bytes(4, "little")
_GOLDEN = 0x9E3779B9
_ELEMENT = 0x6107DA4D


def dither_word(seed, key, number, step):
    """Returns the word of the tensor `number` of a graph: the step's stratum within its window
    of 64 steps in the upper 6 bits, and the refinement in the others."""
    window, place = divmod(step & _WORD, 64)

    def draw(tag, counter):
        words = philox4x32((number, tag, key & _WORD, counter),
                           (seed & _WORD, seed >> 32 & _WORD))
        return int(words[0])

    q, base = draw(_WINDOW, window), draw(_BASE, 0)
    stratum = (_LATTICES[q // 64 % 4] * place + q) % 64
    return stratum << 26 | (base + window * _GOLDEN & _WORD) >> 6


def dither_bits(count, first, seed, key, number, step):
    """Returns the 16 bits of elements first, first + 1, ... of the unsharded tensor."""
    element = (np.arange(count, dtype=np.uint64) + np.uint64(first & _WORD)) & np.uint64(_WORD)
    hashed = element * np.uint64(_ELEMENT) + np.uint64(dither_word(seed, key, number, step))
    return (hashed >> np.uint64(16)).astype(np.uint16)
