#===- selection.py - Quick, ordinary and whole runs ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the pytest plugin that selects which of the collected tests run, and reports
# how many are left out.
#
#===----------------------------------------------------------------------===#
"""Implements pytest's options --quick and --whole, and the markers `thinned` and `long_setup`."""

import json
from pathlib import Path

import pytest

from support.covering import CHOICES, Item, too_slow, values_of_slow

#: The file of scripts/record_durations.py: the seconds of slow items.
DURATIONS = Path(__file__).parents[1] / "Inputs/durations.json"
#: The number of a function's seeds in a quick run.
SEEDS = 10
MARKER = ("thinned(strength, times=1): an ordinary run takes items with every combination "
          "of the values of `strength` parameters `times` times; --whole takes all")
LONG_SETUP = ("long_setup(fixture): the fixture, which tests share, takes so long that a quick run "
              "leaves out the tests that use it")


def pytest_addoption(parser):
    group = parser.getgroup("tandem", "how many tests run")
    for mode, text in (("quick", "every function, and in each file every value of each parameter"),
                       ("whole", "also what is thinned in an ordinary run")):
        group.addoption(f"--{mode}", action="store_const", const=mode, default="ordinary",
                        dest="tests_chosen", help=text)


def pytest_configure(config):
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", LONG_SETUP)
    config.tests_collected, config.tests_left_out = [], ""


def value_key(name, value):
    """Returns a key that is the same for equal values of a parameter; objects equal only
    themselves. Seeds are samples, so a few stand for all."""
    if name == "seed" and isinstance(value, int):
        return value % SEEDS
    plain = value is None or isinstance(value, (str, int, float))
    return repr(value) if plain else id(value)


def has_long_setup(item):
    """Returns whether an item uses a fixture that is marked. Any of the items that share the
    fixture can be the first, which takes its time, so that recorded times do not show it."""
    return any(mark.args[0] in item.fixturenames for mark in item.iter_markers("long_setup"))


def describe(item, seconds):
    """Returns the properties of an item on which the selection depends."""
    spec, mark = getattr(item, "callspec", None), item.get_closest_marker("thinned")
    params = spec.params if spec else {}
    values = {name: value_key(name, value) for name, value in params.items()}
    thinning = dict(zip(("strength", "times"), mark.args)) | mark.kwargs if mark else {}
    name = item.nodeid
    taken = float("inf") if has_long_setup(item) else seconds.get(name, 0.0)
    return Item(name, name.split("[")[0], values, taken, **thinning)


def summary(mode, chosen, described):
    """Describes the tests that did not run, or returns nothing."""
    if len(chosen) == len(described):
        return ""
    lines = [f"{mode}: {len(chosen)} of {len(described)} tests"]
    if mode == "quick":
        lines[0] += f"; {values_of_slow(described)} values of parameters only in slow ones"
        lines += [f"quick: without {name}, which takes long" for name in too_slow(described)]
    return "\n".join(lines)


# Run after pytest's own -k and -m, so that tests selected by name are thinned among themselves.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    mode = config.option.tests_chosen
    seconds = json.loads(DURATIONS.read_text())
    described = [describe(item, seconds) for item in items]
    chosen = CHOICES[mode](described)
    config.tests_collected = described
    config.tests_left_out = summary(mode, chosen, described)
    names = {item.name for item in chosen}
    left = [item for item, own in zip(items, described) if own.name not in names]
    items[:] = [item for item, own in zip(items, described) if own.name in names]
    if left:
        config.hook.pytest_deselected(items=left)


def pytest_sessionfinish(session):
    """Reports from a pytest-xdist worker to the main process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["tests_left_out"] = session.config.tests_left_out


# Only pytest-xdist has this hook.
@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    told = getattr(node, "workeroutput", {}).get("tests_left_out")
    node.config.tests_left_out = node.config.tests_left_out or told


def pytest_terminal_summary(terminalreporter, config):
    if config.tests_left_out:
        terminalreporter.write_line(config.tests_left_out)
