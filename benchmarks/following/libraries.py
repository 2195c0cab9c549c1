#===- libraries.py - Whether other libraries' states follow ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures ghosts under AdamW of torch, bitsandbytes and torchao, which run their own
# code.
#
#===----------------------------------------------------------------------===#
"""Records how far weights drift after their gradients have stopped, under AdamW of torch,
bitsandbytes and torchao, with following.py's gradients. Requires all three, on a CPU."""

import importlib.metadata
import pathlib
import sys
from collections.abc import Callable

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import update  # noqa: E402
from following import (EPS, LR, SIZE, TRACED_BETA2, TRACED_STEPS, WARM,  # noqa: E402
                       Elements, Stream)

OPTIONS = {"lr": LR, "betas": (0.9, TRACED_BETA2), "eps": EPS, "weight_decay": 0.0}


def of_torch(params):
    return torch.optim.AdamW(params, **OPTIONS)


def of_bitsandbytes(params):
    import bitsandbytes

    return bitsandbytes.optim.AdamW8bit(params, **OPTIONS)


def of_torchao(params):
    from torchao.optim import AdamW8bit

    return AdamW8bit(params, **OPTIONS)


PEERS: dict[str, tuple[str, Callable]] = {
    "torch AdamW": ("torch", of_torch),
    "bitsandbytes AdamW8bit": ("bitsandbytes", of_bitsandbytes),
    "torchao AdamW8bit": ("torchao", of_torchao),
}


def trace(make: Callable) -> list[float]:
    """Does the same as following.trace for an optimizer of torch parameters."""
    elements = Elements.make()
    stream, others = Stream(elements), ~elements.is_neighbour
    # The libraries keep small tensors in f32 unless they have two dimensions.
    param = torch.nn.Parameter(torch.zeros(64, SIZE // 64))
    optimizer = make([param])

    def step(factor: float) -> np.ndarray:
        before = param.detach().numpy().ravel().copy()
        param.grad = torch.from_numpy(stream.gradient(factor)).view_as(param)
        optimizer.step()
        return (before.astype(np.float64) - param.detach().numpy().ravel()) / LR

    for _ in range(WARM):
        step(1.0)
    moved, drift = np.zeros(SIZE), []
    for _ in range(TRACED_STEPS):
        drift.append(float(np.abs(moved[others]).mean()))
        moved += step(0.0)
    return drift


def main() -> None:
    peers = {}
    for name, (package, make) in PEERS.items():
        drift = trace(make)
        peers[name] = {"version": importlib.metadata.version(package), "drift": drift}
        print(f"{name} {peers[name]['version']}: {drift[-1]:.3g} learning rates after "
              f"{TRACED_STEPS} steps, {drift[-1] - drift[-2]:.2g} in the last one", flush=True)
    update("following", {"peers": peers})


if __name__ == "__main__":
    main()
