#!/usr/bin/env python3
"""Sums the reports of a test run.

Usage: summarize_tests.py DIRECTORY, which holds for each suite NAME.status, its
exit status, and NAME.xml, its JUnit report. Prints each suite's counts, the
tests that failed, and as the last line `N passed, N failed`.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def is_skipped(case):
    """GoogleTest also marks in attributes what it left out."""
    return (case.find("skipped") is not None
            or case.get("result") in ("skipped", "suppressed")
            or case.get("status") == "notrun")


def read_report(path):
    """The numbers of passed and skipped tests, and the failures' names."""
    passed, skipped, failures = 0, 0, []
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failures.append(f"{case.get('classname', '')} {case.get('name')}")
        elif is_skipped(case):
            skipped += 1
        else:
            passed += 1
    return passed, skipped, failures


def read_suite(status):
    """A suite that failed without a failed test, crashed or did not start, is
    itself a failure; so is one in which nothing ran."""
    name = status.stem
    try:
        passed, skipped, failures = read_report(status.with_suffix(".xml"))
    except (OSError, ElementTree.ParseError):
        return 0, 0, [f"{name}: ended without a report"]
    code = int(status.read_text())
    if code and not failures:
        failures = [f"{name}: ended with status {code}"]
    elif not passed and not failures:
        failures = [f"{name}: no test ran"]
    return passed, skipped, failures


def main(directory):
    total, failed = 0, []
    for status in sorted(Path(directory).glob("*.status")):
        passed, skipped, failures = read_suite(status)
        note = f", {skipped} skipped" if skipped else ""
        print(f"{status.stem}: {passed} of {passed + len(failures)}{note}")
        total += passed
        failed += failures
    for name in failed:
        print(f"FAILED {name}")
    print(f"{total} passed, {len(failed)} failed")
    return 0 if total and not failed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
