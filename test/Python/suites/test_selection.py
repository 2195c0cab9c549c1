#===- test_selection.py - Selection of tests ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that quick and ordinary runs omit no test function and no parameter value, and
# that the selection is deterministic.
#
#===----------------------------------------------------------------------===#

import importlib.util
import os
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import pytest

from support.covering import (CHOICES, SLOW, TOO_SLOW, Item, affordable_of_all, by_file,
                              by_function, choose_ordinary, choose_quick, cover, too_slow,
                              values_of_slow)

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "scripts"))
import record_durations  # noqa: E402


def cube(function, *sizes, seconds=lambda *place: 0.0, **thinning):
    """Returns items for all combinations of parameters a, b, c... with the given numbers of
    values."""
    return [Item(f"{function}{list(place)}", function, dict(zip("abcdef", place)),
                 seconds(*place), **thinning)
            for place in product(*map(range, sizes))]


def values(items):
    return {value for item in items for value in item.values.items()}


def pairs(items):
    return {pair for item in items for pair in combinations(sorted(item.values.items()), 2)}


@pytest.fixture(scope="session")
def collected(request):
    """Returns all tests that this run has found."""
    return request.config.tests_collected


#===----------------------------------------------------------------------===#
# Choices
#===----------------------------------------------------------------------===#


def test_every_value_takes_as_many_items_as_the_longest_parameter():
    items = cube("file.py::f", 4, 7, 3)
    chosen = choose_quick(items)
    assert len(chosen) == 7 and values(chosen) == values(items)


def test_functions_of_a_file_share_values_and_keep_an_item():
    items = [*cube("file.py::f", 4, 7), *cube("file.py::g", 4), *cube("file.py::h"),
             *cube("other.py::f", 5)]
    chosen = by_function(choose_quick(items))
    assert {name: len(own) for name, own in chosen.items()} == {
        "file.py::f": 7, "file.py::g": 1, "file.py::h": 1, "other.py::f": 5}


def test_cheap_items_are_preferred():
    items = cube("file.py::f", 3, 3, seconds=lambda a, b: 0.0 if a == b else 0.5)
    assert [item.values for item in choose_quick(items)] == [
        {"a": i, "b": i} for i in range(3)]


def test_slow_items_run_only_where_there_are_no_others():
    slow = cube("file.py::f", 3, seconds=lambda a: SLOW + 1 if a == 1 else 0.0)
    assert [item.values["a"] for item in choose_quick(slow)] == [0, 2]
    assert values_of_slow(slow) == 1
    alone = cube("file.py::f", 3, seconds=lambda a: TOO_SLOW - a / 4)
    assert [item.values["a"] for item in choose_quick(alone)] == [2]
    assert too_slow(alone) == [] and values_of_slow(alone) == 2


def test_functions_that_are_too_slow_are_named():
    items = [*cube("file.py::f", 3, seconds=lambda a: TOO_SLOW + 1), *cube("file.py::g")]
    assert [item.function for item in choose_quick(items)] == ["file.py::g"]
    assert too_slow(items) == ["file.py::f"]


def test_ordinary_runs_have_all_pairs():
    items = cube("file.py::f", 5, 4, 3, strength=2)
    chosen = choose_ordinary(items)
    assert pairs(chosen) == pairs(items) and 20 <= len(chosen) < 30


def test_ordinary_runs_have_each_value_several_times():
    items = cube("file.py::f", 6, 4, strength=1, times=3)
    chosen = choose_ordinary(items)
    assert len(chosen) == 18
    for value in values(items):
        assert sum(value in item.values.items() for item in chosen) >= 3


def test_what_is_not_marked_is_not_thinned():
    items = [*cube("file.py::f", 5, 4, 3), *cube("file.py::g", 5, 4)]
    assert choose_ordinary(items) == CHOICES["whole"](items) == items
    assert cover([], lambda item: ()) == choose_quick([]) == []


#===----------------------------------------------------------------------===#
# The existing tests
#===----------------------------------------------------------------------===#


def test_a_quick_run_has_nearly_every_function(collected):
    """The functions that are left out are listed, and are fewer than one in 15."""
    left, functions = set(too_slow(collected)), set(by_function(collected))
    chosen = by_function(choose_quick(collected))
    assert set(chosen) == functions - left
    if len(functions) < 1000:
        pytest.skip("this run has collected only a part of the tests")
    assert 15 * len(left) < len(functions)


def test_a_quick_run_has_every_value(collected):
    chosen = by_file(choose_quick(collected))
    for file, own in by_file(affordable_of_all(collected)).items():
        assert values(chosen[file]) == values(own), file


def test_an_ordinary_run_has_every_value_of_every_function(collected):
    chosen = by_function(choose_ordinary(collected))
    for function, own in by_function(collected).items():
        if own[0].strength == 0:
            # An ordinary run uses only the first number of ranks.
            assert len(chosen[function]) == own[0].times, function
            continue
        assert values(chosen[function]) == values(own), function
        if own[0].strength == 2:
            assert pairs(chosen[function]) == pairs(own), function
        elif own[0].strength is None:
            assert chosen[function] == own


def test_choices_do_not_change(collected):
    for choose in CHOICES.values():
        names = [item.name for item in choose(collected)]
        assert names == [item.name for item in choose(collected)]
        assert len(names) == len(set(names))


#===----------------------------------------------------------------------===#
# The plugin
#===----------------------------------------------------------------------===#

EXAMPLE = """
import pytest

@pytest.mark.thinned(2)
@pytest.mark.parametrize("z", [object(), object()], ids="pq")
@pytest.mark.parametrize("y", "stuv")
@pytest.mark.parametrize("x", range(5))
def test_many(x, y, z):
    pass

@pytest.mark.parametrize("seed", range(30))
def test_seeds(seed):
    pass

def test_one():
    pass
"""


LONG_SETUP = """
import pytest

pytestmark = pytest.mark.long_setup("processes")

@pytest.fixture(scope="module")
def processes():
    pass

@pytest.fixture
def results(processes):
    pass

def test_results(results):
    pass

def test_others():
    pass
"""


def run_pytest(folder, *arguments, seed="0", text=EXAMPLE):
    """Runs pytest with the plugin on an example, as a contributor would."""
    (folder / "test_example.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "test/Python"),
                                "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "support.selection", "-p",
         "no:cacheprovider", "test_example.py", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("options, chosen", [
    (["--quick"], 5 + 10 + 1), ([], 20 + 30 + 1), (["--whole"], 40 + 30 + 1)])
def test_options(options, chosen, tmp_path):
    output = run_pytest(tmp_path, *options)
    assert f"{chosen} passed" in output
    mode = options[0][2:] if options else "ordinary"
    assert (f"{mode}: {chosen} of 71 tests" in output) == (mode != "whole")


def test_long_setups_are_left_out(tmp_path):
    output = run_pytest(tmp_path, "--quick", text=LONG_SETUP)
    assert "quick: 1 of 2 tests" in output and "1 passed" in output
    assert "quick: without test_example.py::test_results, which takes long" in output
    assert "2 passed" in run_pytest(tmp_path, text=LONG_SETUP)


def test_what_is_named_is_thinned_by_itself(tmp_path):
    assert "1 passed" in run_pytest(tmp_path, "--quick", "-k", "test_many and 4-u-q")


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="no pytest-xdist")
def test_workers_tell_what_is_left_out(tmp_path):
    output = run_pytest(tmp_path, "--quick", "-n", "2")
    assert output.count("quick: 16 of 71 tests") == 1 and "16 passed" in output


def test_hashes_do_not_matter(tmp_path):
    listed = {run_pytest(tmp_path, "--quick", "--collect-only", seed=seed).split("\n\n")[0]
              for seed in "123"}
    assert len(listed) == 1


REPORT = """<testsuites><testsuite>
<testcase classname="test.test_a" name="test_slow[1]" time="2.04"/>
<testcase classname="test.test_a" name="test_fast" time="0.1"/>
<testcase classname="test.test_a" name="test_bad" time="9"><failure/></testcase>
<testcase classname="test.test_a" name="test_left_out" time="9"><skipped/></testcase>
</testsuite></testsuites>"""


def test_durations_are_those_of_tests_that_passed(tmp_path):
    """Tests that are in no report keep their times while their functions exist."""
    (tmp_path / "report.xml").write_text(REPORT)
    (tmp_path / "test").mkdir()
    (tmp_path / "test/test_a.py").write_text("def test_slow(x): ...\ndef test_bad(): ...\n")
    known = {f"test/test_{name}": 3.0 for name in (
        "a.py::test_slow[1]", "a.py::test_slow[2]", "a.py::test_bad", "a.py::test_gone",
        "b.py::test_slow")}
    found = record_durations.slow_tests([tmp_path / "report.xml"], known, tmp_path)
    assert found == {"test/test_a.py::test_bad": 3.0, "test/test_a.py::test_slow[1]": 2.0,
                     "test/test_a.py::test_slow[2]": 3.0}
