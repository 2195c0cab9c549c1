#===- verification_run.py - The long verification -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file drives tandem-verify: it runs all parts in shards and writes the results after each.
#
#===----------------------------------------------------------------------===#
"""Runs the parts of tandem-verify and continues interrupted runs."""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "verification")]

from common import machine  # noqa: E402
from verification_plan import ISAS, PROMISES  # noqa: E402

RESULTS = ROOT / "verification/results"
TOOL = ROOT / "build/bin/tandem-verify"
#: The approximate duration of a shard, and the number of units in the first one.
SHARD_SECONDS, FIRST_UNITS = 60, 16
#: The approximate number of units of each part in a quick run.
QUICK_UNITS = 32

#===------------------------------------------------------------------------===#
# The tool
#===------------------------------------------------------------------------===#


def call(tool, *arguments) -> list[dict]:
    """Runs the tool and returns the JSON objects that it prints. Failed cases are among them."""
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(map(str, done.args))}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def hash_codes(tool, parts) -> dict[str, str]:
    """Returns a hash of the code that the compiler currently generates for each part; empty for
    parts without code."""
    return {row["part"]: row["code"]
            for row in call(tool, "--codes", "--part", ",".join(parts))}


def list_jobs(tool, pattern: str, isas) -> list[dict]:
    """Returns a job for each part and instruction set, grouped by promise."""
    parts = [p for p in call(tool, "--list") if re.fullmatch(pattern, p["part"])]
    if not parts:
        return []
    known = [[p for p in parts if promise.has(p["part"])] for promise in PROMISES]
    codes = hash_codes(tool, [p["part"] for p in parts])
    return [{"part": part["part"], "isa": isa, "units": part["units"],
             "description": part["description"], "code": codes[part["part"]]}
            for group in known for part in group
            for isa in (isas if part["compiled"] else ("",))]


def key_of(job: dict) -> str:
    """Returns the key of an entry: its part and instruction set."""
    return f"{job['part']} {job['isa']}".strip()

#===------------------------------------------------------------------------===#
# Results
#===------------------------------------------------------------------------===#


def merge(entry: dict, shard: dict) -> None:
    """Adds the results of a shard to a part's entry."""
    for key in ("cases", "failures", "seconds", "wall"):
        entry[key] = entry.get(key, 0) + shard[key]
    entry["hash"] = f"{(int(entry.get('hash', '0'), 16) + int(shard['hash'], 16)) % 2**64:016x}"
    if "first" in shard:
        entry.setdefault("first", shard["first"])
    counts = entry.setdefault("counts", {})
    for name, count in shard["counts"].items():
        counts[name] = counts.get(name, 0) + count
    worst = entry.setdefault("worst", {})
    for name, found in shard["worst"].items():
        if name not in worst or found["value"] > worst[name]["value"]:
            worst[name] = found
    entry["done"] = shard["end"]


def is_of(entry: dict, job: dict) -> bool:
    """Returns whether an entry has the cases and the code of a job."""
    return all(entry.get(field) == job[field] for field in ("units", "code"))


class Results:
    """The file of all entries, by part and instruction set, which several runs may write."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "exhaustive.json"

    def read(self) -> dict:
        if self.path.exists():
            return json.loads(self.path.read_text())
        return {"machine": machine(), "jobs": [], "parts": {}}

    def entry(self, job: dict, stride: int) -> dict:
        """Returns the entry of a job. A complete entry is kept. An entry starts anew if it has
        failed, has different code or a different share of the cases, or was begun at a different
        commit or on a different processor."""
        now, old = machine(), self.read()["parts"].get(key_of(job))
        if old and is_of(old, job) and old["stride"] == stride and not old.get("failures"):
            same = (old["commit"], old.get("cpu")) == (now["commit"], now["cpu"])
            if old["done"] >= old["units"] or same:
                return old
        return {**job, "stride": stride, "done": 0, "commit": now["commit"],
                "changed_files": now["changed_files"], "date": now["date"],
                "cpu": now["cpu"]}

    @contextlib.contextmanager
    def changed(self):
        """Yields the content under a lock and writes it at the end."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            content = self.read()
            yield content
            unfinished = self.path.with_suffix(".new")
            unfinished.write_text(json.dumps(content, indent=1) + "\n")
            unfinished.replace(self.path)
        finally:
            os.close(folder)

    def save(self, entry: dict) -> None:
        with self.changed() as content:
            content["parts"][key_of(entry)] = entry
            content["machine"] = machine()

    def expect(self, jobs: list[dict]) -> None:
        """Records the list of all jobs, and drops other entries."""
        with self.changed() as content:
            content["jobs"] = [key_of(job) for job in jobs]
            content["parts"] = {key: content["parts"][key] for key in content["jobs"]
                                if key in content["parts"]}

    def stale(self, jobs: list[dict]) -> list[str]:
        """Returns the jobs whose entries have different cases, or code that the compiler no
        longer generates."""
        parts = self.read()["parts"]
        return [key for job in jobs
                if (key := key_of(job)) in parts and not is_of(parts[key], job)]

#===------------------------------------------------------------------------===#
# Runs
#===------------------------------------------------------------------------===#


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def shard_size(entry: dict) -> int:
    """Returns the units for about one minute, estimated from those done."""
    if not entry["done"]:
        return FIRST_UNITS * entry["stride"]
    per_unit = entry["wall"] / entry["done"]
    return max(entry["stride"], int(SHARD_SECONDS / per_unit)
               // entry["stride"] * entry["stride"])


def run_shard(tool, entry: dict, threads: int) -> dict:
    end = min(entry["done"] + shard_size(entry), entry["units"])
    arguments = ["--part", entry["part"], "--begin", entry["done"], "--end", end,
                 "--stride", entry["stride"], "--threads", threads]
    if entry["isa"]:
        arguments += ["--isa", entry["isa"]]
    start = time.monotonic()
    (shard,) = call(tool, *arguments)
    return shard | {"wall": time.monotonic() - start}


def progress(number: int, total: int, entry: dict) -> str:
    share = entry["done"] / entry["units"]
    left = entry["wall"] * (1 / share - 1) if share else 0
    state = (f"{100 * share:.0f} %, {duration(left)} left" if share < 1 else
             f"{entry['cases']:.3g} cases in {duration(entry['wall'])}")
    failed = f", {entry['failures']} FAILED: {entry['first']}" if entry["failures"] else ""
    return f"[{number}/{total}] {entry['part']} {entry['isa']}: {state}{failed}"


def run(jobs: list[dict], results: Results, options) -> bool:
    """Runs jobs until the budget is spent; returns whether nothing failed."""
    stop = time.monotonic() + 60 * options.budget
    good = True
    for number, job in enumerate(jobs, 1):
        stride = max(1, job["units"] // QUICK_UNITS) if options.quick else 1
        entry = results.entry(job, stride)
        while entry["done"] < entry["units"]:
            if time.monotonic() >= stop:
                print("the time is up; the same command continues", flush=True)
                return good
            merge(entry, run_shard(options.tool, entry, options.threads))
            results.save(entry)
            print(progress(number, len(jobs), entry), flush=True)
        good &= entry["failures"] == 0
    print("everything that was asked for is done", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=".*", help="a pattern of names")
    parser.add_argument("--isas", default=",".join(ISAS), help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1e9, metavar="MINUTES",
                        help="stop before the first shard after this time")
    parser.add_argument("--quick", action="store_true",
                        help="a small share of each part, to build/verification")
    parser.add_argument("--results", type=pathlib.Path, metavar="FOLDER",
                        help="instead of verification/results")
    parser.add_argument("--tool", type=pathlib.Path, default=TOOL)
    parser.add_argument("--stale", action="store_true",
                        help="only list what has run with code that the compiler no "
                        "longer makes; the next run begins it anew")
    options = parser.parse_args()
    folder = options.results or (ROOT / "build/verification" if options.quick else RESULTS)
    jobs = list_jobs(options.tool, options.parts, options.isas.split(","))
    if not jobs:
        parser.error(f"no part is called {options.parts}; {options.tool} --list has all")
    results = Results(folder)
    if options.stale:
        print("\n".join(stale := results.stale(jobs)) or "everything is of today's code")
        return int(bool(stale))
    if (options.parts, options.isas) == (".*", ",".join(ISAS)):
        results.expect(jobs)
    return 0 if run(jobs, results, options) else 1


if __name__ == "__main__":
    sys.exit(main())
