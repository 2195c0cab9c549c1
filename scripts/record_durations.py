#!/usr/bin/env python3
"""Records the durations of slow Python tests, which decide the content of a quick run.

Usage: record_durations.py REPORT..., JUnit reports of pytest, such as
build/test-reports/pytest-whole.xml. A test's longest time counts; a failed test has none. Writes
test/Python/Inputs/durations.json, where tests that are in no report keep their times as long as
their functions exist.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DURATIONS = ROOT / "test/Python/Inputs/durations.json"
#: The minimum duration in seconds that is recorded.
LEAST = 0.5


def read_report(path):
    """Yields test names as pytest gives them, and seconds."""
    for case in ElementTree.parse(path).iter("testcase"):
        if any(child.tag in ("error", "failure", "skipped") for child in case):
            continue
        parts = case.get("classname").split(".")
        ends = next(i for i, part in enumerate(parts, 1) if part.startswith("test_"))
        name = "::".join(["/".join(parts[:ends]) + ".py", *parts[ends:], case.get("name")])
        yield name, round(float(case.get("time")), 1)


def exists(name, root):
    """Returns whether the function of a test is in its file."""
    file, *_, function = name.split("[")[0].split("::")
    path = root / file
    return path.exists() and f"def {function}(" in path.read_text()


def slow_tests(reports, known, root=ROOT):
    """Returns the seconds of slow tests by name: from the reports, or else from the known ones."""
    seconds = {}
    for report in reports:
        for name, taken in read_report(report):
            seconds[name] = max(taken, seconds.get(name, 0.0))
    kept = {name: taken for name, taken in known.items()
            if name not in seconds and exists(name, root)}
    return {name: taken for name, taken in sorted((kept | seconds).items()) if taken >= LEAST}


def main(*reports):
    if not reports:
        print(__doc__)
        return 2
    known = json.loads(DURATIONS.read_text())
    DURATIONS.write_text(json.dumps(slow_tests(reports, known), indent=0) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
