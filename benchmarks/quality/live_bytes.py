#===- live_bytes.py - Bytes of every strategy, measured -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures the memory that strategies keep and compares it with the bytes that follow from
# their storages.
#
#===----------------------------------------------------------------------===#
"""Measures live bytes of AdamW under every strategy for a linear layer of whole groups.

It measures stored weights, the working copies that PyTorch computes with, gradients and states
between a backward pass and its step. With gradient release, it measures the peak, reached when a
gradient is complete, and the bytes after the pass.
"""

import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tandem  # noqa: E402
import tandem.torch as tt  # noqa: E402
from common import RESULTS, graph_of, save  # noqa: E402
from tandem._plane import RoleKind  # noqa: E402

SIZE = 512
LAYERS = 2
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
EPS = 1e-3  # representable in f16, too


def dtype_of(strategy: str) -> torch.dtype:
    """Returns the dtype of a model's weights under a strategy."""
    for plane in tandem.compile("adamw", strategy).planes:
        if plane.kind is RoleKind.PARAM and plane.visible and plane.type in DTYPES:
            return DTYPES[plane.type]
    return torch.bfloat16


def make(strategy: str, **options):
    """Returns a model and its optimizer."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(SIZE, SIZE, bias=False) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers).to(dtype_of(strategy))
    return model, make_optimizer(model, strategy, **options)


def make_optimizer(model: torch.nn.Module, strategy: str, **options) -> tt.AdamW:
    return tt.AdamW(model.parameters(), strategy=strategy, eps=EPS,
                    stores_ratio=graph_of(strategy) == "adamw_ratio", **options)


def backward(model) -> None:
    x = torch.ones(1, SIZE, dtype=next(model.parameters()).dtype)
    model(x).float().square().mean().backward()


def per_parameter(live: dict[str, int]) -> dict[str, float]:
    return {part: count / (LAYERS * SIZE * SIZE) for part, count in live.items()}


def measure_kept(strategy: str) -> dict:
    """Measures between a backward pass and its step; the working copy is that without
    decode_weights."""
    model, optimizer = make(strategy)
    backward(model)
    optimizer.step()
    backward(model)
    working = optimizer.live_bytes()["working"]
    if working:
        optimizer.zero_grad()
        tt.decode_weights(model, optimizer)
        backward(model)
    live = per_parameter(optimizer.live_bytes() | {"working": working})
    return {"derived": optimizer.bytes_per_parameter, **live}


def measure_released(strategy: str) -> dict:
    """Measures with gradient_release: the bytes after a pass, and how many layers hold a
    gradient."""
    most = []
    model, optimizer = make(strategy)
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(
            lambda p: most.append(optimizer.live_bytes()["gradients"] / p.nbytes))
    optimizer = make_optimizer(model, strategy, gradient_release=True)
    backward(model)
    live = per_parameter(optimizer.live_bytes())
    return {"derived": optimizer.bytes_per_parameter, "layers": max(most),
            "measured": live["weights"] + live["gradients"] + live["states"]}


def measure(strategies: list[str]) -> dict:
    return {name: {"kept": measure_kept(name), "released": measure_released(name)}
            for name in strategies}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of the result (default: %(default)s)")
    options = parser.parse_args()
    save("live_bytes", {"strategies": measure(sorted(tandem.strategies()))},
         options.results)


if __name__ == "__main__":
    main()
