#===- noise.py - Signal to noise of sums of codes --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file reproduces FP8-LM's figure 7 for a toy model: the error of gradient sums in E4M3 by the
# factor mu and by the order of roundings.
#
#===----------------------------------------------------------------------===#
"""Writes benchmarks/results/distributed/noise.json: signal-to-noise ratio, underflow, overflow."""

import argparse
import math
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/precision"),
                str(ROOT / "test/Python")]

import tandem.torch as tt  # noqa: E402
from common import RESULTS, save  # noqa: E402
from support.thread_ranks import Threads  # noqa: E402
from training import Run, Setting, Shape, batches, load_corpus  # noqa: E402

FOLDER = RESULTS / "distributed"
RANKS = (2, 8, 32, 64)
SETTING = Setting(Shape(width=32, layers=2, heads=4, context=32), batch=8, steps=300, lr=3e-3)
#: The number of steps in which automatic scaling finds its factor.
ROUNDS = 16
E4M3_MAX = 448.0


#===----------------------------------------------------------------------===#
# Gradients
#===----------------------------------------------------------------------===#


def gradients(run: Run, count: int, seed: int) -> list[list[torch.Tensor]]:
    """Returns bf16 gradients, of a different batch for each rank."""
    drawn = batches(run.corpus.train, count, SETTING.batch, SETTING.shape.context, seed)
    params = list(run.model.parameters())
    return [[grad.bfloat16() for grad in torch.autograd.grad(run.loss(*batch), params)]
            for batch in drawn]


#===----------------------------------------------------------------------===#
# Sums of one tensor
#===----------------------------------------------------------------------===#


def encode(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (values * (1 / scale)).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def own_codes(grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a rank's gradient as fp8-lm stores it: the decoded values and the scale."""
    values = grad.float()
    quotient = values.abs().max() / E4M3_MAX
    if not quotient:
        return values, quotient
    scale = torch.exp2(torch.log2(quotient.double()).ceil()).float()
    return encode(values, scale).float() * scale, scale


def saturated(codes: torch.Tensor) -> int:
    return int((codes.float().abs() >= E4M3_MAX).sum())


def in_slices(values: list[torch.Tensor], scale: torch.Tensor) -> tuple[torch.Tensor, int, int]:
    """Sums in f32 and encodes once; returns (codes of the mean, number saturated, number
    encoded)."""
    sent = [encode(value, scale) for value in values]
    total = sent[0].float() * scale
    for codes in sent[1:]:
        total = total + codes.float() * scale
    total = encode(total, scale)
    codes = [*sent, total]
    return total, sum(map(saturated, codes)), len(codes) * total.numel()


def in_chain(values: list[torch.Tensor], scale: torch.Tensor) -> tuple[torch.Tensor, int, int]:
    """Encodes each partial sum, as a ring that adds codes does; returns the same tuple."""
    sent = [encode(value, scale) for value in values]
    total, found = sent[0], sum(map(saturated, sent))
    for codes in sent[1:]:
        total = encode(total.float() * scale + codes.float() * scale, scale)
        found += saturated(total)
    return total, found, (2 * len(sent) - 1) * total.numel()


ORDERS = {"slices": in_slices, "chain": in_chain}


#===----------------------------------------------------------------------===#
# All gradients
#===----------------------------------------------------------------------===#


class Sum:
    """Means of a step's gradients over ranks, compared with exact means."""

    def __init__(self, ranks: list[list[torch.Tensor]], order: str, mu: float):
        self.signal = self.noise = 0.0
        self.lost = self.nonzero = self.most = self.values = 0
        self.saturated = self.encoded = 0
        self.means = []
        for grads in zip(*ranks):
            self._add(grads, ORDERS[order], mu)

    def _add(self, grads, order, mu: float) -> None:
        values, scales = zip(*map(own_codes, grads))
        scale = (torch.stack(scales).max() / mu).clamp(min=len(grads) * 2.0**-126)
        codes, found, encoded = order(list(values), scale)
        exact = torch.stack(grads).double().mean(0)
        mean = codes.float() * (scale / len(grads))
        self.means.append(mean)
        self.signal += float(exact.square().sum())
        self.noise += float((exact - mean.double()).square().sum())
        self.lost += int(((mean == 0) & (exact != 0)).sum())
        self.nonzero += int((exact != 0).sum())
        self.most, self.values = self.most + saturated(codes), self.values + codes.numel()
        self.saturated, self.encoded = self.saturated + found, self.encoded + encoded

    def figures(self, mu: float) -> dict:
        return {"mu": mu, "snr_db": round(10 * math.log10(self.signal / self.noise), 3),
                "underflow": self.lost / self.nonzero, "overflow": self.most / self.values}


def check(ranks: list[list[torch.Tensor]], mu: float) -> None:
    """Asserts that GradientAllReduce gives the same bits as this file."""
    def work(rank):
        torch.set_num_threads(1)
        params = [torch.nn.Parameter(torch.zeros_like(grad)) for grad in ranks[0]]
        optimizer = tt.AdamW(params, strategy="fp8-lm", min_8bit_size=0)
        for param, grad in zip(params, ranks[rank.rank]):
            (param * grad).sum().backward()
        tt.GradientAllReduce(optimizer, rank, tt.AutomaticScaling(mu=mu))()
        return [optimizer.gradient(param) for param in params]

    means = Sum(ranks, "slices", mu).means
    for results in Threads(len(ranks)).run(work):
        assert all(torch.equal(a, b.bfloat16()) for a, b in zip(results, means))


def automatic(run: Run, count: int, order: str) -> float:
    """Returns the factor that automatic scaling finds."""
    scaling = tt.AutomaticScaling()
    for seed in range(ROUNDS):
        found = Sum(gradients(run, count, 1000 + seed), order, scaling.mu)
        scaling.update(found.saturated, found.encoded)
    return scaling.mu


def measured(run: Run, counts) -> list[dict]:
    rows = []
    for count in counts:
        ranks = gradients(run, count, seed=500)
        check(ranks[:8], 0.75)
        for order in ORDERS:
            factors = {"pre-scaling": 1 / count, "post-scaling": 1.0,
                       "automatic": automatic(run, count, order)}
            rows += [{"ranks": count, "order": order, "scaling": name,
                      **Sum(ranks, order, mu).figures(mu)} for name, mu in factors.items()]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--steps", type=int, default=SETTING.steps)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = Run(SETTING, load_corpus())
    before = measured(run, options.ranks)
    for _ in range(options.steps):
        run.step()
    save("noise", {"parameters": run.parameters, "rounds": ROUNDS, "steps": options.steps,
                   "rows": {"0": before, str(options.steps): measured(run, options.ranks)}},
         options.folder)


if __name__ == "__main__":
    main()
