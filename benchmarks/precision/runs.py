#===- runs.py - The cells of the studies -----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the studies in cells, each of which is saved when it ends.
#
#===----------------------------------------------------------------------===#
"""Runs the studies of four papers at toy size.

A cell is a variant, a learning rate and a seed. Cells that the result files have are not run again,
so an interrupted run can be resumed. Cells of the long studies also go on from their last
checkpoint, which is in the folder "checkpoints" next to the results.
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

import torch  # noqa: E402
from checkpoints import Store  # noqa: E402
from common import RESULTS, machine, save  # noqa: E402
from studies import STUDIES, Scale, Study  # noqa: E402
from training import load_corpus  # noqa: E402

FOLDER = RESULTS / "precision"


def result_name(study: str, quick: bool) -> str:
    """Returns the name of a study's result file; the quick size has a separate one."""
    return f"{study}-quick" if quick else study


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="papers.sh", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY",
                        help=f"which studies (default: all): {', '.join(STUDIES)}")
    parser.add_argument("--quick", action="store_true",
                        help="small models, few steps and seeds: three minutes for all")
    parser.add_argument("--budget", type=float, metavar="MINUTES", default=math.inf,
                        help="start no cell that would end later than this")
    parser.add_argument("--variants", nargs="+", metavar="VARIANT",
                        help="run only these variants of the studies (default: all)")
    parser.add_argument("--seeds", type=int, help="of each variant (default: the study's)")
    parser.add_argument("--steps", type=int, help="of each cell (default: the study's)")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch (default: 1)")
    parser.add_argument("--results", type=pathlib.Path, default=FOLDER,
                        help="the folder of the results (default: %(default)s)")
    options = parser.parse_args(arguments)
    check(parser, options)
    return options


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Rejects option values that make no sense."""
    for name in options.studies:
        if name not in STUDIES:
            parser.error(f"there is no study {name!r}; there are {', '.join(STUDIES)}")
    options.studies = list(dict.fromkeys(options.studies)) or list(STUDIES)
    for name in options.studies:
        for variant in options.variants or []:
            if variant not in STUDIES[name].variants:
                known = ", ".join(map(repr, STUDIES[name].variants))
                parser.error(f"--variants {variant!r}: {name} has {known}; name one study, and "
                             "its variants")
    for name, least in (("seeds", 1), ("steps", 10), ("threads", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            parser.error(f"--{name} {value}: give at least {least}")
    if not options.budget > 0:
        parser.error(f"--budget {options.budget:g}: give minutes, more than 0")


def different(found: dict, setting: dict) -> list[tuple]:
    """Returns (name, value in the file, value now) of the settings that a file's cells do not
    have in common with this run. Files of earlier versions lack some names."""
    before, now = dict(found["setting"]), dict(setting)
    for each in (before, now):
        options = each.pop("variants", {})
        each |= {f"variant {name!r}": options[name] for name in found["cells"] if name in options}
    return [(key, before[key], value) for key, value in now.items()
            if key in before and before[key] != value]


class Results:
    """A study's result: cells as variant -> lr -> seed -> figures."""

    def __init__(self, folder: pathlib.Path, study: str, quick: bool, setting: dict):
        self.folder, self.name = folder, result_name(study, quick)
        self.order = list(STUDIES[study].variants)
        self.content = {"setting": setting, "cells": {}}
        path = folder / f"{self.name}.json"
        if path.exists():
            self._resume(path, setting)

    def _resume(self, path: pathlib.Path, setting: dict) -> None:
        found = json.loads(path.read_text())
        if differ := different(found, setting):
            raise SystemExit(
                f"error: {path} has " + ", ".join(f"{key} {was}" for key, was, _ in differ)
                + ", this run " + ", ".join(f"{now}" for _, _, now in differ)
                + "; name another folder with --results, or remove the file")
        self.content["cells"] = found["cells"]

    def has(self, variant: str, lr: float, seed: int) -> bool:
        by_lr = self.content["cells"].get(variant, {})
        return str(seed) in by_lr.get(f"{lr:g}", {})

    def add(self, variant: str, lr: float, seed: int, figures: dict) -> None:
        by_lr = self.content["cells"].setdefault(variant, {})
        by_lr.setdefault(f"{lr:g}", {})[str(seed)] = figures
        cells = self.content["cells"]
        self.content["cells"] = {name: cells[name] for name in self.order if name in cells}
        save(self.name, self.content, self.folder)


def commit() -> str:
    """Returns the commit that a cell belongs to, and how many files have changed since."""
    found = machine()
    changed = found["changed_files"]
    return found["commit"][:12] + (f" with {changed} changed files" if changed else "")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of a study."""

    results: Results
    study: Study
    scale: Scale
    variant: str
    lr: float
    seed: int

    def run(self, corpus) -> float:
        """Trains and saves the figures; returns the seconds that this took."""
        start, made_by = time.monotonic(), commit()
        setting = self.scale.setting(self.lr, self.seed, **self.study.changes)
        figures = self.study.measure(
            setting, corpus, self.study.variants[self.variant], self.variant,
            Store(self.results.folder / "checkpoints"))
        self.results.add(self.variant, self.lr, self.seed, figures | {"commit": made_by})
        return time.monotonic() - start


def scale_of(study: Study, options: argparse.Namespace) -> Scale:
    """Returns the scale that the command line requests."""
    scale = study.scale(options.quick)
    return dataclasses.replace(scale, steps=options.steps or scale.steps,
                               seeds=options.seeds or scale.seeds)


def as_json(value):
    """Returns a value as a file gives it back."""
    return json.loads(json.dumps(value))


def missing(name: str, options: argparse.Namespace) -> tuple[list[Cell], int]:
    """Returns the cells that a study lacks, seed by seed, and its total number of cells."""
    study = STUDIES[name]
    scale = scale_of(study, options)
    setting = {"steps": scale.steps, "batch": scale.batch,
               "shape": dataclasses.asdict(scale.shape), "before": scale.before,
               "changes": as_json(study.changes), "variants": as_json(study.variants),
               "torch": torch.__version__}
    results = Results(options.results, name, options.quick, setting)
    cells = [Cell(results, study, scale, variant, lr, seed) for seed in range(scale.seeds)
             for lr in scale.lrs for variant in options.variants or study.variants]
    cells.sort(key=lambda cell: study.rank(cell.variant))
    return [c for c in cells if not results.has(c.variant, c.lr, c.seed)], len(cells)


def run(options: argparse.Namespace) -> bool:
    """Runs the missing cells until the budget is spent; returns whether all are done."""
    torch.set_num_threads(options.threads)
    start, corpus = time.monotonic(), load_corpus()
    todo = {name: missing(name, options) for name in options.studies}
    for name, (cells, total) in todo.items():
        took: list[float] = []
        print(f"{name}: {total - len(cells)} of {total} cells are done", flush=True)
        for index, cell in enumerate(cells):
            expected = statistics.fmean(took) if took else 0.0
            if time.monotonic() - start + expected > 60 * options.budget:
                print(f"budget spent; {len(cells) - index} cells of {name} are left: run again")
                return False
            left = f", {expected * (len(cells) - index) / 60:.0f} min left" if took else ""
            print(f"[{total - len(cells) + index + 1}/{total}{left}] {name}: "
                  f"{cell.variant}, lr {cell.lr:g}, seed {cell.seed}", flush=True)
            took.append(cell.run(corpus))
    print(f"all cells of {', '.join(options.studies)} are done")
    return True


if __name__ == "__main__":
    run(parse())
