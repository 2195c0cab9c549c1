#===- landscape.py - The loss on a plane of weights ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements loss landscapes after Li et al. (2018): losses on the plane of two random
# directions with filter normalization.
#
#===----------------------------------------------------------------------===#
"""Computes losses around a model's weights."""

import numpy as np
import torch

#: The plane extends this far from the weights in both directions.
REACH = 1.0


def direction(weights: list[torch.Tensor], generator: torch.Generator) -> list[torch.Tensor]:
    """Returns a random direction whose rows have the norms of the weight's rows. It is zero for
    gains of norms and other vectors."""
    found = []
    for weight in weights:
        drawn = torch.randn(weight.shape, generator=generator)
        if weight.dim() < 2:
            found.append(torch.zeros_like(drawn))
            continue
        length = drawn.norm(dim=1, keepdim=True).clamp(min=1e-12)
        found.append(drawn * (weight.norm(dim=1, keepdim=True) / length))
    return found


@torch.no_grad()
def grid(run, points: int, seed: int = 0) -> list[list[float | None]]:
    """Returns validation losses on a grid of points x points, with the model's weights in the
    middle. Leaves the weights unchanged."""
    if points < 3 or points % 2 == 0:
        raise ValueError(f"points is {points}; an odd number from 3 on has a middle")
    weights = list(run.model.parameters())
    before = [weight.clone() for weight in weights]
    generator = torch.Generator().manual_seed(seed)
    first, second = (direction(before, generator) for _ in range(2))
    places = np.linspace(-REACH, REACH, points)
    losses = [[_loss_at(run, weights, before, (a, first), (b, second)) for b in places]
              for a in places]
    for weight, kept in zip(weights, before):
        weight.copy_(kept)
    return losses


def _loss_at(run, weights, before, *moves) -> float | None:
    """Returns the loss after moving along the directions; None if it is not finite."""
    for index, (weight, kept) in enumerate(zip(weights, before)):
        weight.copy_(kept + sum(share * parts[index] for share, parts in moves))
    loss = run.validation_loss(count=2)
    return round(loss, 4) if np.isfinite(loss) else None


def minima(losses: list[list[float | None]]) -> int:
    """Counts the grid points that are lower than all their neighbours; a smooth bowl has one."""
    plane = np.array(losses, float)
    plane[np.isnan(plane)] = np.inf
    padded = np.pad(plane, 1, constant_values=np.inf)
    size = plane.shape
    neighbours = [padded[1 + i:1 + i + size[0], 1 + j:1 + j + size[1]]
                  for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    return int(np.sum(plane < np.min(neighbours, axis=0)))
