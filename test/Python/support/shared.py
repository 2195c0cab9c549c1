#===- shared.py - Folders that workers share ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the pytest plugin with which processes share results that take long to make:
# compiled kernels, and folders such as built programs.
#
#===----------------------------------------------------------------------===#
"""Implements a cache of compiled code for a session, and the fixture `made_once`: folders that all
workers share."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

#: The file that marks a folder as complete.
COMPLETE = ".complete"


def pytest_configure(config):
    """Gives the session a cache of compiled code, which begins empty: a kernel is compiled once for all
    workers and the processes that they start."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = os.environ["TANDEM_CACHE_DIR"] = tempfile.mkdtemp(prefix="tandem-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def make_once(root: Path, name: str, make: Callable[[Path], object]) -> Path:
    """Returns the folder of this name in ``root``. One process fills it with ``make``, and
    others wait; if ``make`` fails, the next process starts again."""
    folder = root / name
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / COMPLETE).touch()
    return folder


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Returns made_once(name, make): :func:`make_once` in the session's temporary folder."""
    root = tmp_path_factory.getbasetemp()
    # Each worker has a separate folder within that of the session.
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    return lambda name, make: make_once(root, name, make)
