#===- rates.py - Figures of a sweep of learning rates ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file computes what a sweep of learning rates says about stability.
#
#===----------------------------------------------------------------------===#
"""The sensitivity to the learning rate of Wortsman et al., *Small-scale proxies for large-scale
Transformer training instabilities* (2023), and attention logits, by seed."""

import math
import statistics

from margins import Cells, NotRun
from studies import RATES

#: Attention logits that are not finite count as 2 to this power.
LOST_BITS = 40.0


def by_seed(cells: Cells, variant: str) -> dict[str, list[dict]]:
    """Returns the cells of a variant at all six rates, for the seeds that have all of them."""
    found = [cells.of(variant, lr) for lr in RATES]
    whole = {seed: [at[seed] for at in found] for seed in found[0]
             if all(seed in at for at in found)}
    if not whole:
        raise NotRun(variant)
    return whole


def sensitivity(cells: Cells, variant: str) -> dict[str, float]:
    """Returns the LR sensitivity in nats: the mean over the rates of the final loss, or the first
    loss if that is lower, above the lowest final loss of all rates."""
    def of(runs: list[dict]) -> float:
        ends = [min(run["first_loss"], math.inf if run["train_loss"] is None
                    else run["train_loss"]) for run in runs]
        return statistics.fmean(ends) - min(ends)
    return {seed: of(runs) for seed, runs in by_seed(cells, variant).items()}


def logits(cells: Cells, variant: str) -> dict[str, float]:
    """Returns the mean over the rates of log2 of the largest attention logit."""
    def bits(run: dict) -> float:
        value = run["attention_logits"]
        return LOST_BITS if value is None else min(LOST_BITS, math.log2(value))
    return {seed: statistics.fmean(map(bits, runs))
            for seed, runs in by_seed(cells, variant).items()}


def spikes_by_rate(cells: Cells, variant: str) -> dict[str, float]:
    """Returns the number of spikes at all rates."""
    return {seed: float(sum(run["spikes"] for run in runs))
            for seed, runs in by_seed(cells, variant).items()}
