#!/usr/bin/env python3
"""Keeps what slow Python tests take, for the choice of a quick run.

Usage: record_durations.py REPORT..., JUnit reports of pytest, such as
build/test-reports/pytest-whole.xml. The longest time counts. Writes
test/Python/Inputs/durations.json anew.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

DURATIONS = Path(__file__).parents[1] / "test/Python/Inputs/durations.json"
#: Seconds; cheaper tests are not worth a line.
LEAST = 0.5


def read_report(path):
    """Names as pytest gives them, and seconds."""
    for case in ElementTree.parse(path).iter("testcase"):
        parts = case.get("classname").split(".")
        ends = next(i for i, part in enumerate(parts, 1) if part.startswith("test_"))
        name = "::".join(["/".join(parts[:ends]) + ".py", *parts[ends:], case.get("name")])
        yield name, round(float(case.get("time")), 1)


def slow_tests(reports):
    seconds = {}
    for report in reports:
        for name, taken in read_report(report):
            seconds[name] = max(taken, seconds.get(name, 0.0))
    return {name: taken for name, taken in sorted(seconds.items()) if taken >= LEAST}


def main(*reports):
    if not reports:
        print(__doc__)
        return 2
    DURATIONS.write_text(json.dumps(slow_tests(reports), indent=0) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
