#===- accuracy.py - How far AdamW ends from float64 ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the comparison of AdamW under every strategy, and of other
# projects, against AdamW in float64.
#
#===----------------------------------------------------------------------===#
"""Measures how far AdamW's weights end from where float64 takes them.

All contenders get the same gradients: random ones (steady, changing in size, or sparse) and ones
recorded while three models train. The error is the root mean square distance of the weights from
those of AdamW in float64, divided by the distance that the float64 weights have moved.

A cell is one stream, seed and contender, measured for both values of beta2. Cells that the result
file already has are not measured again, so an interrupted run can be resumed.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parent)]

import torch  # noqa: E402
from common import RESULTS, graph_of, load, save  # noqa: E402
from projects import PEERS, absent, version  # noqa: E402
from streams import BETA1, EPS, LR, SIZE, STREAMS, Stream  # noqa: E402

import tandem  # noqa: E402

BETA2 = (0.95, 0.999)
SEEDS = 3
F32, BF16 = "#tandem.float<f32>", "#tandem.float<bf16>"
STATES = "exp_avg", "exp_avg_sq"
#: The number of steps after which a quick run measures errors.
QUICK = 30


#===------------------------------------------------------------------------===#
# Strategies
#===------------------------------------------------------------------------===#

#: Strategies whose states are also measured with f32 weights and gradients.
STATES_OF = ("adam8bit", "bf16", "bf16-dither", "coat", "collage-plus", "flash",
             "fp8-collage-light", "fp8-collage-plus", "fp8-lm", "residual-softsign-f16")
#: Strategies whose moments (with f32 weights) or weights are also measured with other roundings.
ROUNDED_STATES = ("adam8bit", "bf16-dither", "coat", "flash", "fp8-lm")
ROUNDED_WEIGHTS = ("adam8bit", "bf16-dither", "dither-softsign-root", "flash", "fp8-lm")
_DITHER = re.compile(r"<dither>|, (?:rounding = )?dither(?=[,>])")


def rounded_as(storage: str, rounding: str) -> str:
    """Returns a dithered storage with another rounding in place of the dither."""
    if rounding == "nearest":
        return _DITHER.sub("", storage)
    return storage.replace("dither", rounding)


def library() -> list[str]:
    """Returns the strategies to measure: all except those in f16, which need a scaled loss."""
    return [name for name in tandem.strategies() if not name.startswith("f16")]


def _text(name: str, storages: dict[str, str], compute: str = "f32, f32") -> str:
    kinds = {"param": "param", "grad": "grad"}
    rules = "".join(f'  tandem.assign {kinds.get(role, "state")} named("{role}") = {storage}\n'
                    for role, storage in storages.items())
    return f'tandem.strategy @"{name}" compute(<{compute}>) {{\n{rules}}}\n'


def derived() -> dict[str, tuple[str, dict[str, str]]]:
    """Returns the strategies derived from the library's: name -> (base, changed storages)."""
    wide = dict.fromkeys(("param", "grad"), F32)
    found = {f"{name}, f32 weights": (name, wide) for name in STATES_OF}
    for rounding in ("nearest", "stochastic"):
        for name in ROUNDED_STATES:
            found[f"{name}, f32 weights, {rounding}"] = name, wide | {
                state: rounding for state in STATES}
        for name in ROUNDED_WEIGHTS:
            found[f"{name}, weights {rounding}"] = name, {"param": rounding}
    return found


class Kernels:
    """Compiles AdamW under each strategy on first use."""

    def __init__(self, folder: str, path: list[str]):
        self.path, self._kernels = [folder, *path], {}
        self._derived = derived()

    def names(self) -> list[str]:
        files = [file.stem for folder in self.path[1:]
                 for file in sorted(pathlib.Path(folder).glob("*.mlir"))]
        return list(dict.fromkeys([*library(), *self._derived, *files]))

    def of(self, name: str) -> tandem.Kernel:
        if name not in self._kernels:
            if name in self._derived:
                self._write(name, *self._derived[name])
            self._kernels[name] = tandem.compile(graph_of(name), name, path=self.path)
        return self._kernels[name]

    def _write(self, name: str, base: str, changes: dict[str, str]) -> None:
        storages = dict(self.of(base).storages)
        for role, change in changes.items():
            is_rounding = change in ("nearest", "stochastic")
            storages[role] = rounded_as(storages[role], change) if is_rounding else change
        compute = "f32, f32" if changes.get("param") == F32 else (
            self.of(base).compute.replace(" ", ", "))
        pathlib.Path(self.path[0], f"{name}.mlir").write_text(_text(name, storages, compute))


@contextmanager
def kernels(path: list[str] | None = None) -> Iterator[Kernels]:
    with tempfile.TemporaryDirectory() as folder:
        yield Kernels(folder, path or [])


#===------------------------------------------------------------------------===#
# Contenders
#===------------------------------------------------------------------------===#


class Gradient:
    """One step's gradient, encoded once for all strategies that store it alike."""

    def __init__(self, values: np.ndarray):
        self.values, self._planes = values, {}

    def planes(self, name: str, kernel: tandem.Kernel, path: list[str]) -> dict:
        storage = kernel.storages["grad"]
        if storage == F32:
            return {"grad": self.values}
        if storage == BF16:
            return {"grad": (self.values.view(np.uint32) >> 16).astype(np.uint16)}
        if storage not in self._planes:
            self._planes[storage] = self._encoded(name, path)
        return self._planes[storage]

    def _encoded(self, name: str, path: list[str]) -> dict:
        zeros = dict.fromkeys(("param", *STATES), np.zeros(self.values.size, np.float32))
        made = tandem.convert_state("adamw", zeros | {"grad": self.values}, "fp32", name,
                                    path=path)
        return {plane: array for plane, array in made.items() if plane.startswith("grad")}


class Strategy:
    """AdamW under one strategy, compiled by Tandem."""

    def __init__(self, name: str, kernels: Kernels, start: np.ndarray, beta2: float, seed: int):
        self.name, self.path, self.kernel = name, kernels.path, kernels.of(name)
        self.graph = graph_of(name)
        zeros = {role: np.zeros(start.size, np.float32) for role in self.kernel.storages}
        self.planes = tandem.convert_state(self.graph, zeros | {"param": start}, "fp32", name,
                                           path=self.path)
        shape, addresses = self.kernel.addresses(self.planes)
        self.plan = tandem.Plan(self.kernel)
        self.plan.update([shape], [list(addresses.values())])
        self.scalars = {"lr": LR, "beta1": BETA1, "beta2": beta2, "eps": EPS, "weight_decay": 0.0}
        if "seed" in self.kernel.integers:
            self.scalars["seed"] = seed
        self.steps = 0

    def step(self, gradient: Gradient) -> None:
        self.steps += 1
        for plane, values in gradient.planes(self.name, self.kernel, self.path).items():
            np.copyto(self.planes[plane], values)
        hypers, integers = self.kernel.scalars(self.scalars | {"step": self.steps})
        self.plan.launch([hypers], [integers], threads=1)

    def weights(self) -> np.ndarray:
        wide = tandem.convert_state(self.graph, self.planes, self.name, "fp32", path=self.path)
        return wide["param"].astype(np.float64)


class OfPeer:
    """AdamW of another project, which takes the gradient unencoded."""

    def __init__(self, name: str, start: np.ndarray, beta2: float):
        self.peer = PEERS[name].make(start, beta2)

    def step(self, gradient: Gradient) -> None:
        self.peer.step(gradient.values)

    def weights(self) -> np.ndarray:
        return self.peer.weights()


class Exact:
    """AdamW in float64, the reference."""

    def __init__(self, start: np.ndarray, beta2: float):
        self.start = start.astype(np.float64)
        self.param, self.beta2, self.steps = self.start.copy(), beta2, 0
        self.m, self.v = np.zeros_like(self.param), np.zeros_like(self.param)

    def step(self, gradient: Gradient) -> None:
        self.steps += 1
        g = gradient.values.astype(np.float64)
        self.m += (1 - BETA1) * (g - self.m)
        self.v += (1 - self.beta2) * (g * g - self.v)
        first, second = 1 - BETA1**self.steps, 1 - self.beta2**self.steps
        self.param -= LR * (self.m / first) / (np.sqrt(self.v / second) + EPS)

    def error(self, weights: np.ndarray) -> float | None:
        """Returns the relative distance from this reference; None if a weight is not finite."""
        distance = np.sqrt(np.mean((weights - self.param) ** 2))
        error = float(distance / np.sqrt(np.mean((self.param - self.start) ** 2)))
        return error if np.isfinite(error) else None


def contender(name: str, known: Kernels, start: np.ndarray, beta2: float, seed: int):
    if name in PEERS:
        return OfPeer(name, start, beta2)
    return Strategy(name, known, start, beta2, seed + 1)


#===------------------------------------------------------------------------===#
# Measuring
#===------------------------------------------------------------------------===#


class Race:
    """Runs contenders and the float64 reference on one stream with one beta2."""

    def __init__(self, names: list[str], known: Kernels, start: np.ndarray, beta2: float,
                 seed: int):
        self.exact = Exact(start, beta2)
        self.contenders = {name: contender(name, known, start, beta2, seed) for name in names}

    def step(self, gradient: Gradient) -> None:
        for one in (self.exact, *self.contenders.values()):
            one.step(gradient)

    def errors(self) -> dict[str, float | None]:
        return {name: self.exact.error(one.weights()) for name, one in self.contenders.items()}


def measure(stream: Stream, seed: int, names: list[str], known: Kernels,
            marks: tuple[int, ...], betas: tuple[float, ...] = BETA2) -> dict:
    """Returns the errors: contender -> beta2 -> step."""
    torch.manual_seed(seed)
    start, gradients = stream.make(seed)
    races = {f"{beta2:g}": Race(names, known, start, beta2, seed) for beta2 in betas}
    errors = {name: {beta2: {} for beta2 in races} for name in names}
    for step in range(1, marks[-1] + 1):
        gradient = Gradient(next(gradients))
        for beta2, race in races.items():
            race.step(gradient)
            if step in marks:
                for name, error in race.errors().items():
                    errors[name][beta2][str(step)] = error
    return errors


class Results:
    """The result file, whose cells are stream -> seed -> contender -> beta2 -> step."""

    def __init__(self, folder: pathlib.Path, quick: bool):
        self.folder, self.name = folder, "accuracy_quick" if quick else "accuracy"
        setting = {"size": SIZE, "lr": LR, "beta1": BETA1, "eps": EPS}
        found = load(self.name, folder) or {}
        if found and found["setting"] != setting:
            raise SystemExit(f"error: {self.name}.json is of another setting; remove it, or name "
                             "another folder with --results")
        self.content = {"setting": setting, "versions": found.get("versions", {}),
                        "bytes": found.get("bytes", {}), "cells": found.get("cells", {})}

    def missing(self, stream: str, seed: int, names: list[str]) -> list[str]:
        return [n for n in names if n not in self.content["cells"].get(stream, {}).get(
            str(seed), {})]

    def add(self, stream: str, seed: int, errors: dict) -> None:
        by_seed = self.content["cells"].setdefault(stream, {})
        by_seed.setdefault(str(seed), {}).update(errors)
        packages = {"torch", *(peer.package for peer in PEERS.values() if peer.package)}
        self.content["versions"] |= {p: version(p) for p in sorted(packages) if version(p)}
        save(self.name, self.content, self.folder)

    def note_bytes(self, names: list[str], known: Kernels) -> None:
        for name in names:
            self.content["bytes"][name] = (
                PEERS[name].bytes if name in PEERS else known.of(name).bytes_per_parameter)


def run(names: list[str], options: argparse.Namespace, known: Kernels) -> None:
    """Measures the missing cells and saves the file after each."""
    results = Results(options.results, options.quick)
    results.note_bytes(names, known)
    cells = [(stream, seed) for seed in options.seeds[:1 if options.quick else None]
             for stream in options.streams]
    start = time.monotonic()
    for done, (title, seed) in enumerate(cells):
        missing = results.missing(title, seed, names)
        if missing:
            stream = STREAMS[title]
            marks = (QUICK,) if options.quick else stream.marks
            results.add(title, seed, measure(stream, seed, missing, known, marks))
        print(f"[{done + 1}/{len(cells)}] {title}, seed {seed}: {len(missing)} measured, "
              f"{(time.monotonic() - start) / 60:.1f} min", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contenders", nargs="*", help="strategies and peers, all by default")
    parser.add_argument("--path", action="append", metavar="FOLDER",
                        help="with strategies beside the library's")
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(SEEDS)))
    parser.add_argument("--quick", action="store_true",
                        help=f"{QUICK} steps of one seed, to see that everything runs")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of accuracy.json (default: %(default)s)")
    return parser.parse_args()


def chosen(options: argparse.Namespace, everyone: list[str]) -> list[str]:
    """Returns the requested contenders that can be measured."""
    for name in options.contenders:
        if name not in everyone:
            raise SystemExit(f"error: there is no '{name}'; choose from {', '.join(everyone)}")
    if without := absent():
        print(f"without {', '.join(without)}: not installed")
    return [name for name in options.contenders or everyone if name not in without]


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    with kernels(options.path) as known:
        run(chosen(options, [*known.names(), *PEERS]), options, known)


if __name__ == "__main__":
    main()
