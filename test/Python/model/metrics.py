#===- metrics.py - Effective descent quality -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tree sum and the measures of how much of an intended update reached the
# stored parameter.
#
#===----------------------------------------------------------------------===#
"""Computes effective descent quality and lost share in float64."""

from dataclasses import dataclass

import numpy as np


def tree_sum(x):
    """Sums in a balanced binary tree over the index, neighbours first, along the last axis.

    The input is padded to a power of two with -0.0, the neutral element of addition.
    """
    x = np.asarray(x)
    count = x.shape[-1]
    size = 1 << max(count - 1, 0).bit_length()
    padding = np.full((*x.shape[:-1], size - count), -0.0, dtype=x.dtype)
    level = np.concatenate([x, padding], axis=-1)
    with np.errstate(all="ignore"):
        while level.shape[-1] > 1:
            level = level[..., 0::2] + level[..., 1::2]
    return level[..., 0]


@dataclass(frozen=True)
class DescentQuality:
    """EDQ, EDQ relative to the update's norm, and the share of lost updates."""

    quality: float
    relative: float
    lost_share: float


def effective_update(storage, role, old, new):
    """Returns (hi' - hi) + (lo' - lo) in float64, the change of the stored value."""
    with np.errstate(all="ignore"):
        changes = [after - before for before, after in
                   zip(storage.components(old, role), storage.components(new, role))]
    total = changes[0]
    for change in changes[1:]:
        total = total + change
    return total


def descent_quality(intended, effective):
    """Returns <D/|D|, D_eff> and the share of elements with D != 0 and D_eff = 0."""
    intended = np.asarray(intended, dtype=np.float64)
    effective = np.asarray(effective, dtype=np.float64)
    norm = np.sqrt(tree_sum(intended * intended))
    asked = intended != 0
    lost = np.count_nonzero(asked & (effective == 0))
    share = lost / max(intended.size, 1)
    if norm == 0:
        return DescentQuality(0.0, 0.0, share)
    quality = tree_sum(intended * effective) / norm
    return DescentQuality(float(quality), float(quality / norm), share)
