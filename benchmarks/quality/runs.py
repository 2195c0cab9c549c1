#===- runs.py - Training under every strategy -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file trains with every strategy, seed and learning rate, in cells, each of which is saved
# when it ends.
#
#===----------------------------------------------------------------------===#
"""Measures final losses of the demo's model, in several sizes, under many strategies, compared
with fp32.

Each cell is a strategy, a seed and a learning rate. Cells that the result file has are not run
again, so an interrupted run can be resumed.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tandem  # noqa: E402
import torch  # noqa: E402
from common import RESULTS, save  # noqa: E402
from demo_model import (  # noqa: E402
    Progress, check_strategy, config, load_corpus, split_name, train)
from model import ModelShape  # noqa: E402
from trainings import TITLES, result_name  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "strategies"
#: The published forms of strategies that differ from the library's.
PUBLISHED = ("adam8bit-published", "coat-published", "fp8-lm-published",
             "fp8-lm-published-fp8-weight", "fp8-lm-published-fp8-moments")
#: The strategies that larger models train under, and those that the largest does.
NARROW = ("fp32", "bf16", "flash-f16", "residual-mulaw", "dither-mulaw", "residual-ratio4",
          "dither-ratio4")
#: Strategies whose models save activations under a recipe.
SAVING = ("fp32+coat", "fp32+mxfp8", "fp32+linear4", "fp32+mxfp4", "fp32+nvfp4",
          "dither-ratio4+mxfp4")
LARGEST = ("fp32", "bf16", "dither-mulaw", "residual-ratio4", "dither-ratio4", "flash-f16",
           "adam8bit-published", "coat-published")


@dataclasses.dataclass(frozen=True)
class Size:
    """A size of the model, and the cells that are run by default."""

    shape: ModelShape
    strategies: tuple[str, ...] | None = None  #: None means all
    seeds: str = "0,1,2"
    lrs: str = "1e-3,2e-3,4e-3"
    steps: int = 1500


SIZES = {
    "64k": Size(ModelShape(64, 1, 4, 32)),
    "246k": Size(ModelShape(96, 2, 4, 64), NARROW + SAVING),
    "1M": Size(ModelShape(160, 3, 4, 64), NARROW, lrs="2e-3", steps=2000),
    "3M": Size(ModelShape(256, 4, 4, 64), LARGEST, "0", "1e-3", 2000),
}
assert list(SIZES) == list(TITLES)
QUICK = Size(SIZES["64k"].shape, None, "0", "2e-3", 60)


def strategies(path: list[str]) -> list[str]:
    """Returns the library's strategies, and the published forms that a path has."""
    found = {file.stem for folder in path for file in pathlib.Path(folder).glob("*.mlir")}
    return [*tandem.strategies(), *(name for name in PUBLISHED if name in found)]


def available(path: list[str]) -> list[str]:
    """Returns the library's strategies and all in the folders of a path."""
    found = [file.stem for folder in path for file in sorted(pathlib.Path(folder).glob("*.mlir"))]
    return list(dict.fromkeys([*tandem.strategies(), *found]))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="64k",
                        help="of the model (default: %(default)s)")
    parser.add_argument("--budget", type=float, metavar="MINUTES", default=math.inf,
                        help="start no cell that would end later than this")
    parser.add_argument("--strategies", help="comma-separated; STRATEGY+RECIPE also saves "
                        "activations under a recipe (default: those of the size)")
    parser.add_argument("--path", action="append", metavar="FOLDER",
                        help="with strategies beside the library's (default: "
                        "benchmarks/quality/strategies; repeat for several)")
    parser.add_argument("--seeds", help="comma-separated (default: those of the size)")
    parser.add_argument("--lrs", help="comma-separated (default: those of the size)")
    parser.add_argument("--steps", type=int, help="of each cell (default: those of the size)")
    parser.add_argument("--quick", action="store_true",
                        help="60 steps of the smallest model under every strategy, for a try")
    parser.add_argument("--threads", type=int, default=1,
                        help="of PyTorch (default: %(default)s)")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of the result (default: %(default)s)")
    return checked(parser, parser.parse_args(arguments))


def checked(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """Fills in the size's defaults, and refuses options without a meaning."""
    size = QUICK if options.quick else SIZES[options.size]
    options.shape = size.shape
    options.steps = size.steps if options.steps is None else options.steps
    if options.steps < 10:
        parser.error(f"--steps {options.steps}: give at least 10 steps")
    if options.threads < 1:
        parser.error(f"--threads {options.threads}: give at least 1 thread")
    options.path = options.path or [str(FOLDER)]
    given = options.strategies and options.strategies.split(",")
    options.strategies = given or list(size.strategies or strategies(options.path))
    known = available(options.path)
    if unknown := sorted({split_name(name)[0] for name in options.strategies} - set(known)):
        parser.error(f"--strategies: there is no {unknown[0]}; there are " + ", ".join(known))
    try:
        options.seeds = [int(seed) for seed in (options.seeds or size.seeds).split(",")]
        options.lrs = [float(lr) for lr in (options.lrs or size.lrs).split(",")]
    except ValueError as error:
        parser.error(f"--seeds are whole numbers, --lrs numbers: {error}")
    return options


class Results:
    """A size's result: cells as lr -> seed -> figures for each strategy."""

    def __init__(self, folder: pathlib.Path, name: str, setting: dict):
        self.folder, self.name = folder, name
        self.content = {"setting": setting, "refused": {}, "cells": {}}
        path = folder / f"{self.name}.json"
        if path.exists():
            self._resume(path, setting)

    def _resume(self, path: pathlib.Path, setting: dict) -> None:
        found = json.loads(path.read_text())
        if found["setting"] != setting:
            raise SystemExit(f"error: {path} is of {found['setting']}, this run of "
                             f"{setting}; name another folder with --results, or "
                             "remove the file")
        self.content |= {key: found[key] for key in self.content}

    def has(self, strategy: str, lr: float, seed: int) -> bool:
        by_seed = self.content["cells"].get(strategy, {}).get(f"{lr:g}", {})
        return str(seed) in by_seed

    def add(self, strategy: str, lr: float, seed: int, figures: dict) -> None:
        by_lr = self.content["cells"].setdefault(strategy, {})
        by_lr.setdefault(f"{lr:g}", {})[str(seed)] = figures
        self.save()

    def save(self) -> None:
        save(self.name, self.content, self.folder)


def usable(options: argparse.Namespace, results: Results) -> list[str]:
    """Returns the strategies that work with the demo's settings, and prints why others do not."""
    names = []
    for name in options.strategies:
        try:
            check_strategy(name, options.path)
            names.append(name)
            results.content["refused"].pop(name, None)
        except (RuntimeError, ValueError) as error:
            results.content["refused"][name] = str(error)
            print(f"without {name}: {error}", flush=True)
    return names


def number(value: float) -> float | None:
    """Rounds a value; returns None if it is not finite, since JSON has no NaN."""
    return value if math.isfinite(value) else None


def run_cell(strategy: str, corpus, setting) -> dict:
    """Trains and returns the figures to keep."""
    start = time.monotonic()
    record = train(strategy, corpus, setting, Progress(strategy, setting.steps))
    return {
        "train_loss": number(record.final_train_loss()),
        "validation_loss": number(record.validation_loss[-1]),
        "edq_ratio": number(statistics.fmean(record.edq_ratio)),
        "lost_share": number(statistics.fmean(record.lost_share)),
        "bytes_per_parameter": record.bytes_per_parameter,
        "parameters": record.parameters,
        "losses": record.validation_loss,
        "seconds": time.monotonic() - start,
    }


def run(options: argparse.Namespace) -> None:
    """Runs the missing cells, seed by seed, until the budget is spent."""
    start, took = time.monotonic(), []
    torch.set_num_threads(options.threads)
    results = Results(options.results, result_name(options.size, options.quick), {
        "steps": options.steps, "size": options.size, "torch": torch.__version__})
    names = usable(options, results)
    cells = [(name, lr, seed) for seed in options.seeds for lr in options.lrs
             for name in names if not results.has(name, lr, seed)]
    total = len(names) * len(options.lrs) * len(options.seeds)
    corpus = load_corpus()
    for index, (name, lr, seed) in enumerate(cells):
        expected = statistics.fmean(took) if took else 0.0
        if time.monotonic() - start + expected > 60 * options.budget:
            print(f"budget spent; {len(cells) - index} cells are left: run again")
            return
        left = f", {expected * (len(cells) - index) / 60:.0f} min left" if took else ""
        print(f"[{total - len(cells) + index + 1}/{total}{left}] "
              f"seed {seed}, lr {lr:g}", flush=True)
        setting = dataclasses.replace(
            config(False, options.steps, seed, lr, tuple(options.path)), shape=options.shape)
        figures = run_cell(name, corpus, setting)
        took.append(figures["seconds"])
        results.add(name, lr, seed, figures)
    results.save()
    print(f"all {total} cells are done")


if __name__ == "__main__":
    run(parse())
