#===- search.py - Search for moments in a few bits -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the search for codes of AdamW's moments in 2 to 8 bits.
#
#===----------------------------------------------------------------------===#
"""Measures how far AdamW ends from float64 with moments in a few bits.

The search has five stages: codes of m, of v and of m / sqrt(v), each with the other moment exact;
pairs of both; and the finalists. All except the last choose, by one seed of six streams. The
finalists run for longer, over three seeds, also on a stream that was held out. Their moments get
the tests of docs/Following.md, too. Contenders that the result file has are not measured again, so
an interrupted search can be resumed.
"""

import argparse
import pathlib
import sys
import time

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parent)]
import follow  # noqa: E402
from candidates import CHOSEN, PYTORCH_BF16, ROUNDED_SCALES, STAGES  # noqa: E402
from common import RESULTS, load, save  # noqa: E402
from gradients import CHOOSING, EVERY  # noqa: E402
from race import BETA2, Contender, Outcome, Race  # noqa: E402

#: The elements of a stream and the steps at which errors are measured, by kind of run.
CHOOSING_COUNT, CHOOSING_MARKS = 2048, (300, 1000)
FINAL_COUNT, QUICK_COUNT, QUICK_MARKS = 2048, 512, (40,)
SEEDS = 3
#: The values of beta2 for which finalists must follow, and one that takes long, for two of them.
FOLLOWING, SLOWEST = (0.9, 0.95, 0.99, 0.999), 0.9999


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def outcome_json(race: Race, outcome: Outcome) -> dict:
    """Returns stream -> beta2 -> errors by mark, and the largest steps beside the exact ones."""
    found = {}
    for at, stream in enumerate(race.streams):
        found[stream] = {f"{beta2:g}": {
            "errors": {str(mark): _digits(outcome.errors[m, b, at])
                       for m, mark in enumerate(race.marks)},
            "largest": _digits(outcome.largest[b, at]),
            "exact": _digits(race.exact_largest[b, at])} for b, beta2 in enumerate(BETA2)}
    return found


def all_errors(streams: dict) -> list[float]:
    return [error for by_beta in streams.values() for cell in by_beta.values()
            for error in cell["errors"].values()]


def mean(streams: dict) -> float:
    """Returns the geometric mean of all errors of a contender."""
    return float(np.exp(np.mean(np.log(np.maximum(all_errors(streams), 1e-9)))))


class Search:
    """The result file, and the races that are prepared when they are first needed."""

    def __init__(self, options: argparse.Namespace):
        self.folder, self.quick = options.results, options.quick
        self.name = "codes_quick" if options.quick else "codes"
        found = load(self.name, self.folder) or {}
        self.content = {key: found.get(key, {}) for key in ("bits", "choosing", "final",
                                                            "following")}
        self._races: dict[tuple, Race] = {}
        self.start = time.monotonic()

    def keep(self) -> None:
        save(self.name, self.content, self.folder, compact=True)

    def say(self, text: str) -> None:
        print(f"{(time.monotonic() - self.start) / 60:5.1f} min  {text}", flush=True)

    def _race(self, streams: tuple[str, ...], seed: int, marks: tuple[int, ...],
              count: int) -> Race:
        """Returns a race; only those of one kind at a time are kept."""
        marks, count = (QUICK_MARKS, QUICK_COUNT) if self.quick else (marks, count)
        key = streams, seed, marks, count
        if key not in self._races:
            self.say(f"gradients of {', '.join(streams)}, seed {seed}")
            self._races[key] = Race(list(streams), seed, marks, count)
        return self._races[key]

    def choose(self, stage: str, contenders: dict[str, Contender]) -> None:
        cells = self.content["choosing"].setdefault(stage, {})
        for at, (name, contender) in enumerate(contenders.items()):
            if name not in cells:
                race = self._race(CHOOSING, 0, CHOOSING_MARKS, CHOOSING_COUNT)
                cells[name] = outcome_json(race, race.measure(contender))
                self.content["bits"][f"{stage}: {name}"] = contender.bits
                self.keep()
            self.say(f"{stage} {at + 1}/{len(contenders)}: {name}: {mean(cells[name]):.4f}")

    def _final_races(self, seed: int) -> list[Race]:
        """Returns a race for all streams with equal marks."""
        by_marks: dict[tuple[int, ...], list[str]] = {}
        for name, stream in EVERY.items():
            by_marks.setdefault(stream.marks, []).append(name)
        return [self._race(tuple(names), seed, marks, FINAL_COUNT)
                for marks, names in by_marks.items()]

    def _one_final(self, seed: int, name: str, contender: Contender | None) -> dict:
        found = {}
        for race in self._final_races(seed):
            outcome = race.measure(contender) if contender else race.measure_bf16()
            found |= outcome_json(race, outcome)
        return found

    def finish(self, contenders: dict[str, Contender]) -> None:
        """Measures the finalists and PyTorch's AdamW for each seed."""
        everyone = {PYTORCH_BF16: None, **contenders}
        for seed in range(1 if self.quick else SEEDS):
            self._races.clear()
            cells = self.content["final"].setdefault(str(seed), {})
            for name, contender in everyone.items():
                if name not in cells:
                    cells[name] = self._one_final(seed, name, contender)
                    self.content["bits"][name] = contender.bits if contender else 32
                    self.keep()
                self.say(f"seed {seed}: {name}: {mean(cells[name]):.4f}")

    def follow(self, contenders: dict[str, Contender]) -> None:
        """Measures whether the finalists' moments follow."""
        for name, contender in contenders.items():
            cells = self.content["following"].setdefault(name, {})
            betas = FOLLOWING + (SLOWEST,) * (name in (CHOSEN, ROUNDED_SCALES))
            for beta2 in betas[:1 if self.quick else None]:
                if f"{beta2:g}" not in cells:
                    figures = follow.measure(contender, beta2)
                    cells[f"{beta2:g}"] = figures | {"follows": follow.follows(figures)}
                    self.keep()
            verdicts = ", ".join(f"{b}: {'yes' if c['follows'] else 'no'}"
                                 for b, c in cells.items())
            self.say(f"follows: {name}: {verdicts}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", nargs="+", choices=[*STAGES, "following"],
                        default=[*STAGES, "following"])
    parser.add_argument("--quick", action="store_true",
                        help="a few steps of one seed, to see that everything runs")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS,
                        help="the folder of codes.json (default: %(default)s)")
    options = parser.parse_args()
    search = Search(options)
    for stage in options.stages:
        if stage == "final":
            search.finish(STAGES["final"]())
        elif stage == "following":
            search.follow(STAGES["final"]())
        else:
            search.choose(stage, STAGES[stage]())


if __name__ == "__main__":
    main()
