"""Checks of the source tree.

Usage: lint.py CHECK ROOT, where CHECK is one of

  tests    a lit test has RUN lines; its CHECK lines reach a FileCheck, its
           expected diagnostics a -verify-diagnostics
  sizes    no source file is longer than 800 lines (docs/generated excepted)
  format   C++ is as clang-format makes it

Prints a line for each fault; fails if there is any.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOMS = ("benchmarks", "cmake", "docs", "examples", "include", "lib", "python",
         "runtime", "scripts", "test", "tools", "verification")
CODE = (".c", ".cpp", ".h")
TEXT = CODE + (".cmake", ".md", ".mlir", ".py", ".sh", ".td", ".test", ".txt")
LONGEST = 800

RUN = re.compile(r"^.*?\bRUN:(.*)$", re.MULTILINE)
DEFINE = re.compile(r"^.*?\b(?:RE)?DEFINE:(.*)$", re.MULTILINE)
CHECK = re.compile(r"\bCHECK(?:-[A-Z]+)*(?:-\d+)?:")
EXPECTED = re.compile(r"\bexpected-(?:error|warning|note|remark)(?:-re)?\b")


def find_files(root, suffixes):
    """Source files, but for those by which the lint itself is tested."""
    for room in ROOMS:
        for folder, folders, names in os.walk(root / room):
            folders[:] = sorted(name for name in folders
                                if not name.startswith((".", "__"))
                                and Path(folder, name) != root / "test/lint/Inputs")
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield Path(folder, name)


def check_test(text):
    """What would let a test pass without testing."""
    commands = " ".join(RUN.findall(text) + DEFINE.findall(text))
    if not RUN.search(text):
        yield "has no RUN line"
    elif CHECK.search(text) and "FileCheck" not in commands:
        yield "has CHECK lines, but no RUN line calls FileCheck"
    elif EXPECTED.search(text) and "-verify-diagnostics" not in commands:
        yield "expects diagnostics, but no RUN line has -verify-diagnostics"


def check_tests(root):
    for path in find_files(root, (".mlir", ".test")):
        if root / "test" in path.parents and "Inputs" not in path.relative_to(root).parts:
            for fault in check_test(path.read_text()):
                yield path, fault


def check_sizes(root):
    for path in find_files(root, TEXT):
        lines = len(path.read_text().splitlines())
        generated = root / "docs/generated" in path.parents
        if lines > LONGEST and not generated:
            yield path, f"has {lines} lines; {LONGEST} are allowed"


def check_format(root):
    for path in find_files(root, CODE):
        formatted = subprocess.run(["clang-format", path], capture_output=True,
                                   text=True, check=True)
        if formatted.stdout != path.read_text():
            yield path, "is not as clang-format makes it"


CHECKS = {"tests": check_tests, "sizes": check_sizes, "format": check_format}


def main(check, root):
    root = Path(root)
    faults = list(CHECKS[check](root))
    for path, fault in faults:
        print(f"{path.relative_to(root)}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
