#===- run_cells.py - Runs of training cells --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements a process that calls benchmarks/quality/runs.py. It is separate since both
# the demo and the tests have a module `model`.
#
#===----------------------------------------------------------------------===#
"""Takes a JSON list of calls, each {"arguments": [...], "dies_in": strategy}, and prints a JSON
list of their exit statuses and output, with the file that they left."""

import contextlib
import io
import json
import pathlib
import sys

import runs

TRAIN = runs.train


class Died(Exception):
    """Raised to simulate the termination of a cell from outside."""


def call(arguments: list[str], folder: pathlib.Path, dies_in: str = "") -> dict:
    """Calls runs.py once."""
    def train(strategy, *rest):
        if strategy == dies_in:
            raise Died
        return TRAIN(strategy, *rest)

    runs.train, status, out = train, 0, io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            runs.run(runs.parse([*arguments, "--results", str(folder)]))
        except Died:
            status = "died"
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
            print(error.code)
    file = folder / f"{runs.result_name('64k', '--quick' in arguments)}.json"
    left = json.loads(file.read_text()) if file.exists() else None
    return {"status": status, "out": out.getvalue(), "left": left}


if __name__ == "__main__":
    calls, place = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2])
    print(json.dumps([call(folder=place, **one) for one in calls]))
