# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a network of two layers with NumPy and a package, without PyTorch.

This does what train.cpp does in the same order, so that the bits are the same. Terms are
added one by one, because a matrix product adds them in its own order.

Usage: train.py PACKAGE STEPS STATE
"""

from __future__ import annotations

import sys

import numpy as np
import tandem

INPUTS, HIDDEN, BATCH = 8, 64, 64
SIZES = {"w1": HIDDEN * INPUTS, "b1": HIDDEN, "w2": HIDDEN, "b2": 1}
#: NumPy has no bf16, so planes are integers of the same width.
STORAGE = {8: np.uint8, 16: np.uint16, 32: np.uint32}


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Rounds float32 numbers to bfloat16, to nearest, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(halves: np.ndarray) -> np.ndarray:
    return (halves.astype(np.uint32) << 16).view(np.float32)


def random(seed: int, count: int) -> np.ndarray:
    """Returns uniform numbers in [-1, 1) that are exact in float32."""
    states, state = np.empty(count, np.int64), seed
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        states[i] = state
    return ((states.astype(np.uint32).view(np.int32) >> 8) / 2**23).astype(np.float32)


def in_order(terms: np.ndarray) -> np.ndarray:
    """Sums over the first dimension, term by term."""
    total = np.zeros(terms.shape[1:], np.float32)
    for term in terms:
        total += term
    return total


def learn(weights: dict[str, np.ndarray], step: int) -> tuple[float, dict[str, np.ndarray]]:
    """Returns the mean loss of the batch of a step, and its gradients."""
    x = random(step, BATCH * INPUTS).reshape(BATCH, INPUTS)
    target = x[:, 0] * x[:, 1]
    w1 = weights["w1"].reshape(HIDDEN, INPUTS)
    before = in_order(w1.T[:, None, :] * x.T[:, :, None]) + weights["b1"]
    h = np.maximum(before, np.float32(0))
    y = in_order((weights["w2"] * h).T) + weights["b2"]
    error = y - target
    dy = error / np.float32(BATCH)
    dh = np.where(h > 0, dy[:, None] * weights["w2"], np.float32(0))
    gradients = {"w1": in_order(dh[:, :, None] * x[:, None, :]).ravel(), "b1": in_order(dh),
                 "w2": in_order(dy[:, None] * h), "b2": in_order(dy[:, None])}
    return float(in_order(error * error) / np.float32(BATCH)), gradients


def train(kernel: tandem.Kernel, steps: int) -> dict[str, dict[str, np.ndarray]]:
    """Returns the arrays of all parameters after a number of steps."""
    arrays = {name: {plane.name: np.zeros(plane.entries(size), STORAGE[plane.bits])
                     for plane in kernel.planes} for name, size in SIZES.items()}
    drawn = random(12345, SIZES["w1"] + SIZES["w2"])
    arrays["w1"]["param"][:] = to_bfloat16(np.float32(0.5) * drawn[:SIZES["w1"]])
    arrays["w2"]["param"][:] = to_bfloat16(np.float32(0.25) * drawn[SIZES["w1"]:])
    for step in range(1, steps + 1):
        weights = {name: from_bfloat16(planes["param"]) for name, planes in arrays.items()}
        loss, gradients = learn(weights, step)
        for key, (name, planes) in enumerate(arrays.items()):
            planes["grad"][:] = to_bfloat16(gradients[name])
            kernel(planes, step=step, key=key, lr=0.01)
        if step == 1 or step % 100 == 0:
            print(f"step {step}: loss {loss:.5f}")
    return arrays


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit("usage: train.py PACKAGE STEPS STATE")
    kernel = tandem.load(sys.argv[1])
    print(f"{kernel.name} under {kernel.strategy}, {len(kernel.planes)} arrays")
    arrays = train(kernel, int(sys.argv[2]))
    with open(sys.argv[3], "wb") as file:
        for planes in arrays.values():
            for plane in kernel.planes:
                file.write(planes[plane.name].tobytes())


if __name__ == "__main__":
    main()
