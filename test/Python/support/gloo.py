#===- gloo.py - Several gloo ranks in a test -------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs functions of a module on several gloo ranks. Run as a program, it is one of the
# ranks. Ranks are forks of a process that has imported PyTorch, which takes longer than most of what
# they do.
#
#===----------------------------------------------------------------------===#
"""`run_ranks` returns what functions of a module return on each rank; `start_ranks` runs
programs."""

import datetime
import importlib
import json
import multiprocessing
import os
import runpy
import sys
import tempfile
import time
import traceback
from pathlib import Path


#: The folder of the support modules; examples have modules with the same names as the tests.
TESTS = str(Path(__file__).resolve().parents[1])


#: The modules that the process imports whose forks are ranks.
PRELOADED = ["numpy", "torch", "torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict",
             "torch.distributed.fsdp", "torch.distributed.optim", "torch.distributed.tensor",
             "torch.distributed.tensor.parallel", "torch.nn.parallel", "tandem.torch.distributed"]


def _run(script, arguments, path, environment, folder, problems):
    """Runs a program in a fork with the path, environment and folder of the test."""
    os.dup2(os.open(problems, os.O_WRONLY), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:], sys.argv = path, [str(script), *arguments]
    code = 1
    try:
        runpy.run_path(str(script), run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    # PyTorch's threads that still hold Python objects may crash a process during interpreter
    # shutdown; the results of ranks are written by then.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def start_ranks(script, ranks, *arguments, timeout=240):
    """Runs a program on a number of ranks with its rank and the arguments, and waits for it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"{rank}.log") for rank in range(ranks)]
        for log in logs:
            log.touch()
        workers = [context.Process(target=_run, args=(
            script, [str(rank), *map(str, arguments)], [TESTS, *sys.path], dict(os.environ), os.getcwd(),
            str(log))) for rank, log in enumerate(logs)]
        _wait(workers, logs, timeout)


def _wait(workers, logs, timeout):
    """Starts the ranks, and waits until all of them have ended."""
    end = time.monotonic() + timeout
    try:
        for worker in workers:
            worker.start()
        for worker, log in zip(workers, logs):
            worker.join(max(0.0, end - time.monotonic()))
            assert worker.exitcode == 0, (
                f"a rank has {'not ended' if worker.exitcode is None else f'exited with {worker.exitcode}'}:\n"
                + log.read_text())
    finally:
        for worker in workers:
            if worker.pid is not None:
                worker.kill()
                worker.join()


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
