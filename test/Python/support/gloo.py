#===- gloo.py - Several gloo ranks in a test -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs functions of a module on several gloo ranks. Run as a program, it is one of the
# ranks.
#
#===----------------------------------------------------------------------===#
"""`run_ranks` returns what functions of a module return on each rank; `start_ranks` runs
programs."""

import datetime
import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path


#: The folder of the support modules; examples have modules with the same names as the tests.
TESTS = str(Path(__file__).resolve().parents[1])


def start_ranks(script, ranks, *arguments, timeout=240):
    """Runs a program on a number of ranks with its rank and the arguments, and waits for it."""
    # PyTorch's threads that still hold Python objects may crash a process during interpreter
    # shutdown; the results of ranks are written by then.
    start = (f"import os, runpy, sys; sys.path[:0] = {[TESTS, *sys.path]!r}; "
             "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__'); "
             "sys.stdout.flush(); sys.stderr.flush(); os._exit(0)")
    workers = [subprocess.Popen([sys.executable, "-c", start, script, str(rank),
                                 *map(str, arguments)], stderr=subprocess.PIPE, text=True)
               for rank in range(ranks)]
    try:
        for worker in workers:
            _, problems = worker.communicate(timeout=timeout)
            assert worker.returncode == 0, problems
    finally:
        for worker in workers:
            worker.kill()


def run_ranks(module, names, ranks, folder, timeout=240):
    """Calls functions of a module in this folder, without arguments, in sequence on the ranks.
    For each name, returns a list of the ranks' results, which must be valid JSON."""
    start_ranks(__file__, ranks, ranks, module, ",".join(names), folder, timeout=timeout)
    results = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]
    return {name: [result[name] for result in results] for name in names}


def error_text(work):
    """Returns the error of a call as text."""
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def _outcome(function):
    """Returns the result of a function. If it fails, the rank exits, so that others do not wait."""
    try:
        return function()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _main(rank, ranks, module, names, folder):
    import torch
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(f"{folder}/store", int(ranks)), rank=int(rank),
        world_size=int(ranks), timeout=datetime.timedelta(seconds=60))
    functions = importlib.import_module(module)
    results = {name: _outcome(getattr(functions, name)) for name in names.split(",")}
    Path(folder, f"{rank}.json").write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    _main(*sys.argv[1:])
