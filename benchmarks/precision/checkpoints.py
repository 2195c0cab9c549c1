#===- checkpoints.py - States of runs that others go on from ---*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file saves runs at checkpoints, so that an interrupted run, a longer one or one with another
# precision goes on from there.
#
#===----------------------------------------------------------------------===#
"""Saves and restores training runs, with the sharpness measured so far."""

import dataclasses
import hashlib
import pathlib

import torch
from training import Run, Setting


def key_of(setting: Setting, options: dict) -> str:
    """Returns a name for the runs that take the same steps. At a constant rate runs of different
    lengths do."""
    fields = dataclasses.asdict(setting)
    if setting.is_constant:
        fields["steps"] = 0
    text = repr((sorted(fields.items()), sorted(options.items()), torch.__version__))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """A folder with checkpoints, named by the run's key and its step."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def save(self, key: str, run: Run, found: list[dict]) -> None:
        """Saves a run and the figures of its checkpoints, atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{key}-{len(run.losses)}.pt"
        unfinished = path.with_suffix(".new")
        torch.save(run.state() | {"found": found}, unfinished)
        unfinished.replace(path)

    def restore(self, key: str, run: Run, at_most: int) -> list[dict]:
        """Makes a run go on from its last checkpoint of at most a number of steps, if there is
        one. Returns the figures of the checkpoints up to it."""
        steps = [int(path.stem.split("-")[1]) for path in self.folder.glob(f"{key}-*.pt")]
        if not (known := [step for step in steps if step <= at_most]):
            return []
        state = torch.load(self.folder / f"{key}-{max(known)}.pt", weights_only=True)
        run.load_state(state)
        return state["found"]
