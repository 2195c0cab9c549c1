#===- sum_model.py - Sums over ranks in NumPy ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the model of gradients averaged over ranks in codes, written from
# docs/Torch.md.
#
#===----------------------------------------------------------------------===#
"""`model_of` computes the mean of coded gradients, `mean_of_values` that of wide ones."""

import numpy as np

from model.formats import decode, encode
from model.scaled import WHOLE, Scaled
from model.storage import Draw, nearest


def entries_per_scale(storage, size):
    """Returns the number of elements that share each scale of a flat tensor."""
    if storage.group == WHOLE:
        return [slice(0, size)] if size else []
    return [slice(i, i + storage.group) for i in range(0, size, storage.group)]


def own_scales(storage, planes, values):
    """Returns a rank's scales; groups without a nonzero finite number do not count."""
    scales = decode(storage.scale, planes["g.scale"]).copy()
    for i, part in enumerate(entries_per_scale(storage, len(values))):
        if not np.any(np.isfinite(values[part]) & (values[part] != 0)):
            scales[i] = 0
    return scales


def shared_scales(storage, own, mu, count):
    """Returns the scales of sums and of means, and which groups no rank contributes to."""
    most, mu = np.max(own, axis=0), mu or 1 / count
    scale = np.clip(most / np.float32(mu), count * np.float32(2.0**-126), np.float32(2.0**112))
    mean = (scale / np.float32(count)).astype(np.float32)
    if storage.scale != "f32":
        bits_of_mean = encode(storage.scale, mean)
        mean = decode(storage.scale,
                      bits_of_mean + (decode(storage.scale, bits_of_mean) < mean))
        scale = mean * np.float32(count)
    return scale.astype(np.float32), np.where(most > 0, mean, 1).astype(np.float32)


def model_of(storage, values, mu=None):
    """Returns (codes, scale, saturated) of the mean of values, one array for each rank, rounded
    to nearest: decoded, added in f32 in rank order, and encoded once."""
    storage, draw = nearest(storage), Draw()
    own = [storage.encode("g", x, draw) for x in values]
    decoded = [storage.decode(planes, "g") for planes in own]
    scales = [own_scales(storage, *pair) for pair in zip(own, decoded)]
    scale, mean = shared_scales(storage, scales, mu, len(values))
    codes, count = summed(storage, decoded, scale)
    return codes, encode(storage.scale, mean), count


def summed(storage, values, scale):
    """Returns (codes, saturated) of the sum of values under the shared scales."""
    given, draw = Scaled(storage.code, storage.group, "f32", "given"), Draw()
    shared = {"g.scale": encode("f32", scale)}
    sent = [given.renew(shared, "g", x, draw) for x in values]
    total = given.decode(sent[0], "g")
    for planes in sent[1:]:
        with np.errstate(all="ignore"):
            total = total + given.decode(planes, "g")
    total = given.renew(shared, "g", total, draw)
    return total["g"], sum(given.saturated(planes, "g") for planes in [*sent, total])


def mean_of_values(storage, values, mu=None):
    """Returns the f32 mean of wide gradients, each of which is encoded before the sum."""
    own = [storage.encode("g", x, Draw()) for x in values]
    scales = [own_scales(storage, planes, x) for planes, x in zip(own, values)]
    scale, mean = shared_scales(storage, scales, mu, len(values))
    codes, _ = summed(storage, values, scale)
    given = Scaled(storage.code, storage.group, "f32", "given")
    return given.decode({"g": codes, "g.scale": encode("f32", mean)}, "g")
