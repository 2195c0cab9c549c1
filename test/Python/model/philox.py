#===- philox.py - Philox4x32-10 --------------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the counter-based generator for stochastic rounding and the assignment of its
# half-words to the elements of a tensor.
#
#===----------------------------------------------------------------------===#
"""Implements Philox4x32-10 and the 16 random bits of each element."""

import numpy as np

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox4x32(counter, key):
    """Returns four output words for four words of counter and two of key.

    Words are integers or arrays of them that broadcast; the result has one
    uint32 array per word.
    """
    c = np.broadcast_arrays(*[np.asarray(w, dtype=np.uint64) for w in counter])
    mask, half = np.uint64(_WORD), np.uint64(32)
    for i in range(_ROUNDS):
        k0, k1 = [np.uint64((int(k) + i * w) & _WORD) for k, w in zip(key, _WEYL)]
        p0, p1 = c[0] * _MULTIPLIERS[0], c[2] * _MULTIPLIERS[1]
        c = [(p1 >> half) ^ c[1] ^ k0, p1 & mask, (p0 >> half) ^ c[3] ^ k1, p0 & mask]
    return [w.astype(np.uint32) for w in c]


def half_words(count, first, seed, key, step):
    """Returns the 16-bit random values of elements first, first + 1, ...

    Eight consecutive elements of the unsharded tensor share a counter; the low half of each output
    word is used before its high half.
    """
    begin, end = first // 8, -(-(first + count) // 8)
    block = np.uint64(begin) + np.arange(end - begin, dtype=np.uint64)
    low, high = block & np.uint64(_WORD), block >> np.uint64(32)
    words = philox4x32((low, high, key & _WORD, step & _WORD),
                       (seed & _WORD, (seed >> 32) & _WORD))
    words = np.stack(words, axis=-1)
    halves = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=-1)
    offset = first - 8 * begin
    return halves.reshape(-1)[offset:offset + count].astype(np.uint16)
