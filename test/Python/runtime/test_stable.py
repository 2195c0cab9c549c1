#===- test_stable.py - Stable names ---------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests what docs/Embedding.md and docs/Packages.md call stable: no function, no name of
# the library and no state array is removed.
#
#===----------------------------------------------------------------------===#

import copy
import json
import re

import pytest

from support import stable


@pytest.fixture(scope="module")
def now():
    return stable.found()


@pytest.fixture(scope="module")
def recorded():
    return json.loads(stable.FILE.read_text())


def test_nothing_is_gone(now, recorded):
    assert not stable.lost(recorded, now)


def test_what_is_new_is_recorded(now, recorded):
    """test/Python/support/stable.py, run as a program, adds new names."""
    assert not stable.lost(now, recorded)


def test_there_is_something_on_record(recorded):
    assert "tdm_package_load" in recorded["functions"]["tandem-runtime"]
    assert "tandemCompile" in recorded["functions"]["tandem-c"]
    assert recorded["arrays"]["remainder"]["param.remainder"] == "i16"


@pytest.mark.parametrize("change", ("function", "type", "status"))
def test_changes_are_found(change, recorded):
    changed = copy.deepcopy(recorded)
    if change == "function":
        changed["functions"]["tandem-c"].remove("tandemCompile")
    elif change == "type":
        changed["arrays"]["remainder"]["exp_avg"] = "bf16"
    else:
        del changed["statuses"]["3"]
    (fault,) = stable.lost(recorded, changed)
    assert re.search({"function": "tandem-c tandemCompile", "type": "exp_avg: f32, now bf16",
                      "status": "statuses 3: .*, now None"}[change], fault)
