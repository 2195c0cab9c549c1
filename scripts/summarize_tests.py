#!/usr/bin/env python3
"""Summarizes the reports of a test run.

Usage: summarize_tests.py DIRECTORY, which has ctest.xml, CTest's report on the suites, and for each
suite its own NAME.xml. Prints each suite's counts and seconds, the tests that failed, and as the
last line `N passed, N failed`.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def is_skipped(case):
    """Returns whether a test was skipped; GoogleTest marks it in attributes, too."""
    return (case.find("skipped") is not None
            or case.get("result") in ("skipped", "suppressed")
            or case.get("status") == "notrun")


def read_report(path):
    """Returns the numbers of passed and skipped tests, and the names of failures."""
    passed, skipped, failures = 0, 0, []
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failures.append(f"{case.get('classname', '')} {case.get('name')}")
        elif is_skipped(case):
            skipped += 1
        else:
            passed += 1
    return passed, skipped, failures


def read_suite(name, has_failed, path):
    """Reads a suite's report. A suite that failed without a failed test, crashed or did not
    start is itself a failure, and so is one in which no test ran."""
    try:
        passed, skipped, failures = read_report(path)
    except (OSError, ElementTree.ParseError):
        return 0, 0, [f"{name}: ended without a report"]
    if has_failed and not failures:
        failures = [f"{name}: failed, though none of its tests did"]
    elif not passed and not failures:
        failures = [f"{name}: no test ran"]
    return passed, skipped, failures


def main(directory):
    total, failed = 0, []
    for suite in ElementTree.parse(Path(directory, "ctest.xml")).iter("testcase"):
        name = suite.get("name")
        passed, skipped, failures = read_suite(name, suite.get("status") != "run",
                                               Path(directory, f"{name}.xml"))
        note = f", {skipped} skipped" if skipped else ""
        print(f"{name}: {passed} of {passed + len(failures)}{note}, "
              f"{float(suite.get('time')):.0f} s")
        total += passed
        failed += failures
    for name in failed:
        print(f"FAILED {name}")
    print(f"{total} passed, {len(failed)} failed")
    return 0 if total and not failed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
