#===- step_runner.py - Parts of a check, one process each ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs the parts of benchmarks/gpu/steps.py within a budget of time, each in its own
# process group with a time limit and a file of results.
#
#===----------------------------------------------------------------------===#
"""`Runner(folder, ...).run(parts)` writes a record for each part that has run.

A record is a JSON file: the status (passed, failed, timeout, crashed, skipped or unfinished), the
reason, and the results that the process has written so far. A process that exits with status 77 is
skipped; its last line gives the reason.
"""

import json
import os
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SKIPPED = 77
#: A part with one of these statuses is not run again.
COMPLETE = ("passed", "failed", "timeout", "crashed")
#: A process is not started with less time than this.
LEAST_SECONDS = 3.0
#: The time limit for a killed process to end, in seconds.
DEATH_SECONDS = 10.0
#: Set when the run should stop immediately.
STOP = threading.Event()


def stop_on_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())


def _right(result: dict) -> str:
    return ""


@dataclass(frozen=True)
class Part:
    """A process of a step: `step/name`, or a step that is one process."""

    name: str
    command: Sequence[str]  #: where "{json}" stands for the file of results
    limit: float = 60
    environment: Mapping[str, str] = field(default_factory=dict)
    together: bool = False  #: whether others may run beside it
    absent: str = ""  #: why it cannot run
    judge: Callable[[dict], str] = _right  #: what is wrong though the process ended well

    @property
    def step(self) -> str:
        return self.name.partition("/")[0]


def write_json(path: pathlib.Path, content: object) -> None:
    """Writes a JSON file atomically."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    unfinished.replace(path)


def read_json(path: pathlib.Path) -> dict:
    """Returns the file's contents, or an empty dict if there is none."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _tail(path: pathlib.Path, most: int = 3000) -> str:
    try:
        return path.read_bytes()[-most:].decode(errors="replace")
    except OSError:
        return ""


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _rows(result: dict) -> list[dict]:
    """Returns the rows of a result of any kind."""
    lists = [rows for rows in result.values() if isinstance(rows, list)]
    return [row for rows in lists for row in rows if isinstance(row, dict)]


def reason_of(result: dict, output: str) -> str:
    """Returns why a process has failed: the error in its results, or else its last line."""
    found = [result.get("error", "")]
    for row in _rows(result):
        name = row.get("kernel") or row.get("product") or row.get("case") or ""
        verdict = row.get("verdict", "")
        wrong = [verdict] if verdict not in ("", "equal", "right", "close") else []
        found += [f"{name}: {text}" for text in [*wrong, row.get("error", "")] if text]
    return "; ".join(filter(None, found)) or _last_line(output)


class Process:
    """A part that is running."""

    def __init__(self, part: Part, folder: pathlib.Path, seconds: float):
        stem = folder / part.name.replace("/", ".")
        self.part, self.json = part, stem.with_name(stem.name + ".partial.json")
        self.log = stem.with_name(stem.name + ".log")
        self.json.unlink(missing_ok=True)
        #: Whether the part's own limit is reached before the end of the budget.
        self.is_whole = part.limit <= seconds
        self.begun = time.monotonic()
        self.end = self.begun + min(part.limit, seconds)
        with self.log.open("wb") as log:
            # A separate process group can be killed with everything that it has started.
            self.process = subprocess.Popen(
                [argument.replace("{json}", str(self.json)) for argument in part.command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=os.environ | dict(part.environment), process_group=0)

    def is_over(self) -> bool:
        return self.process.poll() is not None or time.monotonic() > self.end

    def finish(self, interrupted: bool = False) -> dict:
        """Ends the process if it is still running, and returns its record."""
        is_late = self.process.poll() is None
        reason = self._kill()
        result, output = read_json(self.json), _tail(self.log)
        status, why = (self._late(interrupted) if is_late
                       else self._ended(self.process.returncode, result, output))
        record = {"name": self.part.name, "status": status,
                  "reason": "; ".join(filter(None, (why, reason))),
                  "seconds": round(time.monotonic() - self.begun, 2),
                  "last_line": _last_line(output), "result": result}
        return record if status == "passed" else record | {"output": output}

    def _kill(self) -> str:
        """Kills the process group, and returns the reason."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(DEATH_SECONDS)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:  # blocked in the kernel on a device
            return "it could not be killed"
        return ""

    def _late(self, interrupted: bool) -> tuple[str, str]:
        if interrupted:
            return "unfinished", "interrupted"
        if not self.is_whole:
            return "unfinished", "the time for all steps was up"
        return "timeout", f"killed after {self.part.limit:g} s"

    def _ended(self, code: int, result: dict, output: str) -> tuple[str, str]:
        if code < 0:
            return "crashed", f"{signal.Signals(-code).name}; {reason_of(result, output)}"
        if code == SKIPPED:
            return "skipped", reason_of(result, output)
        if code:
            return "failed", reason_of(result, output) or f"exit status {code}"
        wrong = self.part.judge(result)
        return ("failed", wrong) if wrong else ("passed", "")


class Runner:
    """Runs parts and saves their records in a folder."""

    def __init__(self, folder: pathlib.Path, seconds: float, jobs: int = 1,
                 finished: Callable[[], None] = lambda: None):
        self.folder, self.jobs, self.finished = folder, jobs, finished
        self.begun = time.monotonic()
        self.end = self.begun + seconds
        self.running: list[Process] = []
        folder.mkdir(parents=True, exist_ok=True)

    def path_of(self, name: str) -> pathlib.Path:
        return self.folder / (name.replace("/", ".") + ".json")

    def record_of(self, part: Part) -> dict:
        return read_json(self.path_of(part.name))

    def is_complete(self, part: Part) -> bool:
        return self.record_of(part).get("status") in COMPLETE

    def left(self) -> float:
        return self.end - time.monotonic()

    def run(self, parts: Sequence[Part]) -> None:
        """Runs the parts in order, as many as the budget allows."""
        waiting = list(parts)
        while (waiting or self.running) and not STOP.is_set():
            while waiting and self._has_room(waiting[0]):
                self._begin(waiting.pop(0))
            self._collect()
        self._collect(interrupted=True)

    def _has_room(self, part: Part) -> bool:
        if not self.running:
            return True
        together = part.together and all(each.part.together for each in self.running)
        return together and len(self.running) < self.jobs

    def _begin(self, part: Part) -> None:
        if part.absent:
            self._keep(part, {"name": part.name, "status": "skipped", "reason": part.absent,
                              "seconds": 0.0, "result": {}})
        elif self.left() > min(part.limit, LEAST_SECONDS):
            if not part.together:
                self._say(f"{part.name} ...")
            try:
                self.running.append(Process(part, self.folder, self.left()))
            except OSError as error:
                self._keep(part, {"name": part.name, "status": "failed", "seconds": 0.0,
                                  "reason": str(error), "result": {}})

    def _collect(self, interrupted: bool = False) -> None:
        """Saves the records of processes that have ended."""
        over = [each for each in self.running if interrupted or each.is_over()]
        for process in over:
            self.running.remove(process)
            self._keep(process.part, process.finish(interrupted))
        if not over:
            time.sleep(0.02)

    def _keep(self, part: Part, record: dict) -> None:
        write_json(self.path_of(part.name), record)
        reason = record["reason"][:300]
        self._say(f"{part.name}: {record['status']} in {record['seconds']:.1f} s"
                  + (f": {reason}" if reason else ""))
        self.finished()

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.begun:5.0f} s] {text}", flush=True)
