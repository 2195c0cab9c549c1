#===- zero_balance.py - Whole tensors on ranks, balanced -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file computes the balance of FP8-LM's table 8: the bytes of weights and states on each rank
# when whole tensors are divided among ranks.
#
#===----------------------------------------------------------------------===#
"""Divides the shapes of FP8-LM's models (table 1) among the ranks of table 8.

The paper does not give the vocabulary size; 51200 is GPT-2's, padded as in Megatron. No model is
trained and no tensor is allocated: the bytes follow from the strategy's storages.
"""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common
import tandem.torch as tt
from tandem.torch._layout import placeholder
from tandem.torch.distributed import greedy_partition, stored_bytes

VOCABULARY = 51200
#: Width, layers, and the degrees of tensor, pipeline and data parallelism (tables 1, 8).
MODELS = {"GPT-7B": (4096, 32, 1, 1, 32), "GPT-13B": (5120, 40, 2, 1, 16),
          "GPT-175B": (12288, 96, 8, 4, 4)}
#: Table 8's smallest and largest GPU memory for FP8 in GB, activations included.
PAPER = {"GPT-7B": (49.31, 50.77), "GPT-13B": (46.78, 47.66), "GPT-175B": (36.39, 36.81)}
STRATEGIES = ("fp8-lm", "master-weights")


def shapes_of(width: int, layers: int, tensor: int, pipeline: int,
              stage: int = 0) -> list[tuple[int, ...]]:
    """Returns the parameters of one part of a decoder with rotary embeddings, in model order."""
    d, t = width, tensor
    layer = [(d,), (d,), (3 * d // t, d), (3 * d // t,), (d, d // t), (d,),
             (d,), (d,), (4 * d // t, d), (4 * d // t,), (d, 4 * d // t), (d,)]
    ends = [(VOCABULARY // t, d)] if stage == 0 else []
    last = [(d,), (d,)] if stage == pipeline - 1 else []
    # The last stage has a copy of the embedding, which is also the output layer.
    last += [(VOCABULARY // t, d)] if 0 < stage == pipeline - 1 else []
    return ends + layer * (layers // pipeline) + last


def sizes_of(shapes: list[tuple[int, ...]], strategy: str) -> list[int]:
    """Returns the bytes of each tensor's weight and states."""
    params = [torch.nn.Parameter(placeholder(torch.zeros((), dtype=torch.bfloat16).expand(shape)))
              for shape in shapes]
    return stored_bytes(tt.AdamW(params, strategy=strategy))


def in_turn(sizes: list[int], ranks: int) -> list[list[int]]:
    """Assigns tensor i to rank i modulo the number of ranks."""
    return [list(range(rank, len(sizes), ranks)) for rank in range(ranks)]


def in_order(sizes: list[int], ranks: int) -> list[list[int]]:
    """Assigns consecutive tensors to each rank, up to its share of all bytes."""
    parts, total, before = [[] for _ in range(ranks)], sum(sizes), 0
    for index, size in enumerate(sizes):
        parts[min(ranks - 1, (before + size // 2) * ranks // total)].append(index)
        before += size
    return parts


def loads_of(sizes: list[int], parts: list[list[int]]) -> dict:
    """Returns the smallest, mean and largest bytes of a rank."""
    loads = [sum(sizes[index] for index in part) for part in parts]
    return {"min": min(loads), "mean": sum(loads) / len(loads), "max": max(loads)}


def balance(model: str, strategy: str) -> dict:
    """Returns the loads over the ranks of all stages, for each way to divide."""
    width, layers, tensor, pipeline, data = MODELS[model]
    ways = {"greedy": greedy_partition, "in turn": in_turn, "in order": in_order}
    result = {}
    for name, way in ways.items():
        stages = []
        for stage in range(pipeline):
            sizes = sizes_of(shapes_of(width, layers, tensor, pipeline, stage), strategy)
            stages.append(loads_of(sizes, way(sizes, data)))
        result[name] = {"min": min(s["min"] for s in stages), "max": max(s["max"] for s in stages),
                        "mean": sum(s["mean"] for s in stages) / len(stages)}
    return result


def main() -> None:
    models = {model: {strategy: balance(model, strategy) for strategy in STRATEGIES}
              for model in MODELS}
    result = {"vocabulary": VOCABULARY,
              "parameters": {m: sum(torch.Size(s).numel() for stage in range(c[3])
                                    for s in shapes_of(*c[:4], stage)) * c[2]
                             for m, c in MODELS.items()},
              "models": models, "paper_gb": PAPER}
    common.save("zero_balance", result, common.RESULTS / "distributed")
    for model, strategies in models.items():
        for strategy, ways in strategies.items():
            for way, loads in ways.items():
                print(f"{model:9} {strategy:15} {way:9} " + "  ".join(
                    f"{key} {value / 1e9:7.3f} GB" for key, value in loads.items()))


if __name__ == "__main__":
    main()
