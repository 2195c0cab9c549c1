#===- recommended_runs.py - Training under recommendations ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the training runs of docs/Choosing.md: each strategy separately, to measure
# lost updates, and the recommendations of recommend() for several memory budgets.
#
#===----------------------------------------------------------------------===#
"""Trains the demo's small model under every strategy and under recommendations.

Each run is saved when it ends, and runs that the result file has are not repeated.
"""

import argparse
import pathlib
import statistics
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/quality")]
import tandem  # noqa: E402
import tandem.torch as tt  # noqa: E402
from common import RESULTS, load, save  # noqa: E402
from demo_model import (Progress, batches, check_strategy, config, load_corpus,  # noqa: E402
                        make_model, set_lr)
from runs import number, run_cell  # noqa: E402
from train import validate  # noqa: E402

#: The memory budgets, in bytes per parameter.
BUDGETS = (14.5, 12.5, 9.0, 7.6, 6.9, 6.4)
LR = 2e-3
NAME = "choosing"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="how many (default: 2)")
    parser.add_argument("--steps", type=int, default=600, help="of each run")
    parser.add_argument("--strategies", help="comma-separated (default: all)")
    parser.add_argument("--budgets", help="bytes per parameter, comma-separated")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.strategies = (options.strategies.split(",") if options.strategies
                          else usable(tandem.strategies()))
    options.budgets = ([float(b) for b in options.budgets.split(",")] if options.budgets
                       else list(BUDGETS))
    return options


def usable(names: list[str]) -> list[str]:
    """Returns the strategies that work with the demo's settings; f16 would need a scaled loss."""
    kept = []
    for name in names:
        try:
            check_strategy(name)
        except (RuntimeError, ValueError) as error:
            print(f"without {name}: {error}", flush=True)
        else:
            kept.append(name)
    return [name for name in kept if not name.startswith("f16-")]


def run_budget(budget: float, corpus, setting) -> dict:
    """Trains with the recommendation for a number of bytes per parameter."""
    torch.manual_seed(setting.seed)
    model = make_model(len(corpus.vocabulary), setting.shape, setting.seed, torch.bfloat16)
    count = sum(p.numel() for p in model.parameters())
    found = tt.recommend(model, budget * count, betas=setting.hyper.betas)
    hyper = setting.hyper
    optimizer = tt.AdamW(found.param_groups(model), lr=hyper.lr, betas=hyper.betas,
                         eps=hyper.eps, weight_decay=hyper.weight_decay, metrics=True)
    lost, progress = [], Progress(f"{budget:g} bytes", setting.steps)
    drawn = batches(corpus.train, setting.steps, setting.batch, setting.shape.context,
                    setting.seed)
    for step, batch in enumerate(drawn):
        set_lr(optimizer, hyper.lr_at(step, setting.steps))
        optimizer.zero_grad()
        loss = model.loss(*batch)
        loss.backward()
        optimizer.step()
        lost.append(optimizer.metrics()["lost_share"])
        progress.update(step + 1, f"loss {loss.item():.3f}")
    progress.finish(f"loss {loss.item():.3f}")
    return {"validation_loss": number(validate(model, corpus, setting)),
            "lost_share": number(statistics.fmean(lost)), "error": found.error,
            "bytes_per_parameter": found.bytes.total / count, "strategies": found.strategies}


def run(options: argparse.Namespace) -> None:
    """Runs what the result file lacks, seed by seed."""
    setting = {"steps": options.steps, "lr": LR, "torch": torch.__version__}
    content = {"setting": setting, "strategies": {}, "budgets": {}}
    if before := load(NAME, options.results):
        if before["setting"] != setting:
            raise SystemExit(f"error: {options.results / NAME}.json is of {before['setting']}, "
                             f"this run of {setting}; remove it, or name another --results")
        content |= {key: before[key] for key in content}
    corpus = load_corpus()
    work = ([("strategies", name, run_cell) for name in options.strategies]
            + [("budgets", budget, run_budget) for budget in options.budgets])
    for seed in range(options.seeds):
        for part, key, function in work:
            cells = content[part].setdefault(key if part == "strategies" else f"{key:g}", {})
            if str(seed) not in cells:
                one = config(True, options.steps, seed, LR)
                cells[str(seed)] = function(key, corpus, one)
                save(NAME, content, options.results)


if __name__ == "__main__":
    run(parse())
