#===- doctor_runs.py - A doctor's advice, and training by it --*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file trains the demo's model under several strategies while a doctor watches, trains it again
# as the doctor advises, and measures what watching costs.
#
#===----------------------------------------------------------------------===#
"""Measures verdicts of tandem.torch.doctor, the losses under its advice, and its cost.

Each run is saved when it ends, and runs that the result file has are not repeated.
"""

import argparse
import pathlib
import statistics
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/quality")]
import tandem.torch as tt  # noqa: E402
from common import RESULTS, load, save  # noqa: E402
from demo_model import (Progress, batches, config, load_corpus, make_model,  # noqa: E402
                        set_lr)
from train import validate  # noqa: E402

NAME = "doctor"
LR = 2e-3
#: The storages that runs begin with: PyTorch's own AdamW, weights that are rounded to nearest, moments that do
#: not follow, the three strategies that are recommended, and the strategy that all are compared
#: with.
STARTS = ("torch.optim.AdamW", "bf16", "fp32-optim", "bf16-kahan", "remainder", "flash-f16",
          "dither-softsign-root", "fp32")
#: The steps between which the doctor watches, as parts of the run.
WATCHED = (1 / 6, 1 / 2)
PICTURE = ROOT / "docs/images/doctor.png"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--steps", type=int, default=600, help="of each run")
    parser.add_argument("--timed", type=int, default=320, help="steps whose time is taken")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--picture", type=pathlib.Path, default=PICTURE)
    return parser.parse_args(arguments)


#===----------------------------------------------------------------------===#
# Training
#===----------------------------------------------------------------------===#


def options(setting) -> dict:
    hyper = setting.hyper
    return {"lr": hyper.lr, "betas": hyper.betas, "eps": hyper.eps,
            "weight_decay": hyper.weight_decay}


def make(start: str, corpus, setting):
    """Returns the model and the optimizer that a run begins with."""
    dtype = torch.float32 if start == "fp32" else torch.bfloat16
    model = make_model(len(corpus.vocabulary), setting.shape, setting.seed, dtype)
    if start.startswith("torch"):
        return model, torch.optim.AdamW(model.parameters(), **options(setting))
    return model, tt.AdamW(model.parameters(), strategy=start, decay="before", **options(setting))


def train(model, optimizer, corpus, setting, label: str, watch=None) -> float:
    """Trains, and returns the loss of validation. `watch` is a doctor."""
    progress, (first, last) = Progress(label, setting.steps), (
        int(part * setting.steps) for part in WATCHED)
    drawn = batches(corpus.train, setting.steps, setting.batch, setting.shape.context,
                    setting.seed)
    for step, batch in enumerate(drawn):
        if watch and step == first:
            watch.__enter__()
        set_lr(optimizer, setting.hyper.lr_at(step, setting.steps))
        optimizer.zero_grad()
        loss = model.loss(*batch)
        loss.backward()
        optimizer.step()
        if watch and step + 1 == last:
            watch.__exit__(None, None, None)
        progress.update(step + 1, f"loss {loss.item():.3f}")
    progress.finish(f"loss {loss.item():.3f}")
    if isinstance(optimizer, tt.Optimizer):
        optimizer.close()
    return validate(model, corpus, setting)


def summary(doctor) -> dict:
    """Returns the verdicts of a doctor on what a run has, and its advice."""
    own = doctor.finding(doctor.shadows[0])
    verdicts = [row["verdict"] for row in doctor.rows if row["is_own"]]
    return {"parameters": len(verdicts), "too_little": verdicts.count("too little"),
            "lost": own.lost, "kept": own.kept.value, "error": own.error,
            "at_rest": min(of.value for of in own.rest.values()),
            "agreement": doctor.agreement,
            "needs": {choice.role: choice.need for choice in doctor.advice.choices},
            "bytes": [sum(choice.bytes_now for choice in doctor.advice.choices),
                      sum(choice.bytes_then for choice in doctor.advice.choices)]}


def run(start: str, corpus, setting) -> tuple[dict, object]:
    """Trains as a run begins, and as its doctor advises; returns the figures and the doctor."""
    model, optimizer = make(start, corpus, setting)
    doctor = tt.doctor(optimizer, model)
    loss = train(model, optimizer, corpus, setting, start, doctor)
    found = {"loss": loss, **summary(doctor)}
    if any(choice.strategy for choice in doctor.advice.choices):
        found["advice"] = {role: equivalent(name, start)
                           for role, name in doctor.advice.strategies.items()}
        again, _ = make(start, corpus, setting)
        advised = tt.AdamW(tt.param_groups(again, found["advice"]), decay="before",
                           **options(setting))
        found["advised_loss"] = train(again, advised, corpus, setting, f"{start}, advised")
    return found, doctor


def equivalent(name: str, start: str) -> str:
    """Returns a strategy of Tandem for what a run keeps."""
    return "remainder" if name.startswith("torch") else name


#===----------------------------------------------------------------------===#
# Cost
#===----------------------------------------------------------------------===#


class Wide:
    """A model of eight layers of 1024 x 1024, on 512 rows."""

    def __init__(self):
        torch.manual_seed(0)
        layers = [layer for _ in range(8)
                  for layer in (torch.nn.Linear(1024, 1024, bias=False), torch.nn.SiLU())]
        self.model, self.x = torch.nn.Sequential(*layers).bfloat16(), torch.randn(512, 1024)

    def loss(self):
        return self.model(self.x.bfloat16()).float().square().mean()


def case(kind: str, start: str, corpus):
    """Returns an optimizer, its model and a function that computes a loss."""
    setting = config(kind == "small", 600, 0, LR)
    if kind == "wide":
        wide = Wide()
        kinds = {"torch.optim.AdamW": torch.optim.AdamW}
        optimizer = kinds.get(start, lambda p, **more: tt.AdamW(p, strategy=start, **more))(
            wide.model.parameters(), **options(setting))
        return optimizer, wide.model, wide.loss
    model, optimizer = make(start, corpus, setting)
    batch = next(iter(batches(corpus.train, 1, setting.batch, setting.shape.context, 0)))
    return optimizer, model, lambda: model.loss(*batch)


def cost(kind: str, start: str, corpus, count: int) -> dict:
    """Returns the mean CPU time of steps with a doctor and without, in milliseconds, of two equal
    models that take turns of eight steps. The doctor compares updates in one of the eight."""
    times: dict[bool, list[float]] = {True: [], False: []}
    cases = {watched: case(kind, start, corpus) for watched in (True, False)}
    doctor = tt.doctor(*cases[True][:2])
    begin = time.process_time()
    with doctor:
        for watched in (True, False):
            timed(cases[watched][0], cases[watched][2], 8)  # creates states and shadows
        first = time.process_time() - begin
        for _ in range(count // 8):
            for watched in (True, False):
                times[watched] += timed(cases[watched][0], cases[watched][2], 8)
        begin = time.process_time()
    end = time.process_time() - begin
    means = {watched: statistics.fmean(times[watched]) for watched in times}
    return {"parameters": sum(p.numel() for p in cases[True][1].parameters()),
            "without": 1e3 * means[False], "with": 1e3 * means[True],
            "ratio": means[True] / means[False],
            "first_seconds": first, "end_seconds": end}


def timed(optimizer, loss, count: int) -> list[float]:
    """Returns the seconds of CPU time that whole steps take."""
    found = []
    for _ in range(count):
        begin = time.process_time()
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        found.append(time.process_time() - begin)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Runs what the result file lacks, seed by seed."""
    given = parse(arguments)
    setting = {"steps": given.steps, "lr": LR, "torch": torch.__version__}
    content = {"setting": setting, "runs": {}, "cost": {}, "printed": ""}
    if before := load(NAME, given.results):
        if before["setting"] != setting:
            raise SystemExit(f"error: {given.results / NAME}.json is of {before['setting']}, "
                             f"this run of {setting}; remove it, or name another --results")
        content |= {key: before[key] for key in content}
    corpus = load_corpus()
    for seed in range(given.seeds):
        for start in STARTS:
            runs = content["runs"].setdefault(start, {})
            if str(seed) in runs:
                continue
            runs[str(seed)], doctor = run(start, corpus, config(True, given.steps, seed, LR))
            if (start, seed) == (STARTS[0], 0):
                content["printed"] = str(doctor)
                doctor.plot(given.picture)
            save(NAME, content, given.results)
    for kind in ("small", "demo", "wide"):
        for start in ("torch.optim.AdamW", "flash-f16"):
            if f"{kind} {start}" not in content["cost"]:
                content["cost"][f"{kind} {start}"] = cost(kind, start, corpus, given.timed)
                save(NAME, content, given.results)


if __name__ == "__main__":
    main()
