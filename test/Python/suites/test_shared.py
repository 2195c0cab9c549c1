#===- test_shared.py - Folders that workers share -------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the folders that workers share.
#
#===----------------------------------------------------------------------===#

import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.shared import make_once

ROOT = Path(__file__).parents[3]

MAKE = """
import sys, time
from pathlib import Path
from support.shared import make_once

def make(folder):
    with open(folder.parent / "makers", "a") as makers:
        makers.write("x")
    time.sleep(0.2)
    (folder / "made").write_text("whole")

print((make_once(Path(sys.argv[1]), "it", make) / "made").read_text())
"""


def test_one_of_several_processes_makes_it(tmp_path):
    workers = [subprocess.Popen([sys.executable, "-c", MAKE, tmp_path], text=True,
                                stdout=subprocess.PIPE, cwd=ROOT / "test/Python")
               for _ in range(3)]
    assert [worker.communicate()[0] for worker in workers] == ["whole\n"] * 3
    assert (tmp_path / "makers").read_text() == "x"


def test_what_failed_is_made_anew(tmp_path):
    def fail(folder):
        (folder / "part").touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        make_once(tmp_path, "it", fail)
    folder = make_once(tmp_path, "it", lambda folder: (folder / "made").touch())
    assert (folder / "made").exists() and not (folder / "part").exists()


def test_what_is_complete_stays(made_once):
    folder = made_once("stays", lambda folder: (folder / "time").write_text(str(time.time())))
    written = (folder / "time").read_text()
    again = made_once("stays", lambda folder: pytest.fail("made twice"))
    assert again == folder and (folder / "time").read_text() == written
