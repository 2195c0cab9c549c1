#===- mutate.py - Show that tests find known faults ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file inserts the faults of mutations.py into a copy of the sources, with one build for all of
# them, and runs the tests that should find each.
#
#===----------------------------------------------------------------------===#
"""Shows that the tests find the known faults listed in mutations.py.

The faults are inserted into a separate working tree, which is built once: the environment variable
TANDEM_MUTANT selects the fault of a process. Results are written after each fault. A fault with a
result is skipped when the command runs again, unless the fault or its tests have changed.
"""

import argparse
import datetime
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))
from common import machine  # noqa: E402

RESULTS = ROOT / "verification/results/mutations.json"
TARGETS = ["_tandem", "tandem-opt", "tandem-run", "tandem-translate",
           "tandem-verify", "tandem_runtime_cts"]
SECONDS = 1800

SWITCH = """#ifndef TANDEM_MUTANT
#define TANDEM_MUTANT
#include <cstdlib>
#include <cstring>
[[maybe_unused]] static inline bool isMutant(const char *name) {
  const char *chosen = std::getenv("TANDEM_MUTANT");
  return chosen && std::strcmp(chosen, name) == 0;
}
#endif
"""


def stale(root=ROOT):
    """Returns the faults whose original text does not occur exactly once in the sources."""
    return [m.name for m in MUTATIONS
            if (root / m.file).read_text().count(m.find) != 1]


def digest(mutation):
    return hashlib.sha256(repr(mutation).encode()).hexdigest()[:16]


#===----------------------------------------------------------------------===#
# The tree
#===----------------------------------------------------------------------===#


def git(*arguments, at=ROOT):
    return subprocess.run(["git", *map(str, arguments)], cwd=at, check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def commit_of(tree):
    return git("rev-parse", "HEAD", at=tree).strip()


def make_tree(tree):
    """Makes a working tree of the last commit, with everything that a build needs."""
    if not tree.exists():
        git("worktree", "prune")
        git("worktree", "add", "--detach", tree, "HEAD")
    elif commit_of(tree) != commit_of(ROOT):
        git("checkout", "-q", "-f", "--detach", commit_of(ROOT), at=tree)
    if not (tree / ".venv").exists():
        (tree / ".venv").symlink_to(ROOT / ".venv")


def put_in(tree):
    """Inserts all C++ faults into the tree's sources."""
    texts = {}
    for mutation in MUTATIONS:
        if mutation.needs_build:
            path = tree / mutation.file
            text = texts.get(path) or SWITCH + git("show", f"HEAD:{mutation.file}",
                                                   at=tree)
            assert text.count(mutation.find) == 1, f"{mutation.name} does not apply"
            texts[path] = text.replace(mutation.find, mutation.switched)
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def build(tree):
    subprocess.run(["scripts/build.sh", *TARGETS], cwd=tree, check=True,
                   stdout=subprocess.DEVNULL)


#===----------------------------------------------------------------------===#
# Tests
#===----------------------------------------------------------------------===#


def command_of(test, tree):
    """Returns the command for a test in the notation of the list."""
    kind, rest = test.split(":", 1)
    if kind == "cts":
        return [tree / "build/runtime/cts/tandem_runtime_cts", f"--gtest_filter={rest}",
                "--gtest_brief=1"]
    if kind == "lit":
        tools = subprocess.run(["llvm-config-22", "--bindir"], capture_output=True,
                               text=True, check=True).stdout.strip()
        return [sys.executable, f"{tools}/lit", "-q", tree / "build/test" / rest]
    assert kind == "pytest", test
    file, *arguments = shlex.split(rest)
    return [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "--whole",
            "-p", "no:cacheprovider", tree / "test/Python" / file, *arguments]


def passes(test, tree, mutant=""):
    environment = os.environ | {"PYTHONPATH": str(tree / "build/python"),
                                "TANDEM_MUTANT": mutant}
    try:
        done = subprocess.run(list(map(str, command_of(test, tree))), env=environment,
                              cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return False
    if test.startswith("pytest") and done.returncode not in (0, 1):
        # A crash of the interpreter finds the fault, but a misspelled test does not.
        assert done.returncode < 0 or done.returncode > 5, done.stdout
    return done.returncode == 0


def find(mutation, tree, sound):
    """Returns the test that finds the fault, if there is one, and the seconds that it took."""
    path, original = tree / mutation.file, None
    if not mutation.needs_build:
        original = path.read_text()
        path.write_text(original.replace(mutation.find, mutation.replace))
    begin = time.monotonic()
    try:
        killer = next((test for test in mutation.tests
                       if not passes(test, tree, mutation.name)), None)
    finally:
        if original is not None:
            path.write_text(original)
    seconds = time.monotonic() - begin
    if killer and killer not in sound:
        assert passes(killer, tree), f"{killer} fails without any fault"
        sound.add(killer)
    return killer, seconds


#===----------------------------------------------------------------------===#
# Results
#===----------------------------------------------------------------------===#


def row(mutation, killer, seconds, tree):
    return {"name": mutation.name, "fault": mutation.fault, "file": mutation.file,
            "test": killer, "seconds": round(seconds, 1), "commit": commit_of(tree),
            "date": datetime.date.today().isoformat(), "digest": digest(mutation)}


def load(path):
    """Returns the rows of earlier runs that still apply to the list, by name."""
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())["rows"]
    return {r["name"]: r for r in rows
            if any(m.name == r["name"] and digest(m) == r["digest"] for m in MUTATIONS)}


def save(path, rows):
    ordered = [rows[m.name] for m in MUTATIONS if m.name in rows]
    here = {key: value for key, value in machine().items()
            if key in ("cpu", "cpuid", "cores", "memory_gib")}
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps({"machine": here, "rows": ordered}, indent=1) + "\n")
    unfinished.replace(path)


def run(chosen, tree, path, again):
    rows, sound = load(path), set()
    for number, mutation in enumerate(chosen, 1):
        if mutation.name in rows and not again:
            continue
        killer, seconds = find(mutation, tree, sound)
        rows[mutation.name] = row(mutation, killer, seconds, tree)
        result = f"found by {killer}" if killer else "NOT FOUND"
        print(f"{number}/{len(chosen)} {mutation.name}: {result} ({seconds:.0f} s)",
              flush=True)
        save(path, rows)
    return [m.name for m in chosen if not rows[m.name]["test"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="the faults; all by default")
    parser.add_argument("--tree", type=Path, default=ROOT / "build/mutants",
                        help="the working tree for the faults")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true",
                        help="also run what has a result")
    parser.add_argument("--check", action="store_true",
                        help="only say whether all faults apply")
    parser.add_argument("--built", action="store_true",
                        help="take the tree as it is: it has been built with the faults")
    parser.add_argument("--sources", action="store_true",
                        help="only write the faults into the tree")
    options = parser.parse_args()
    tree = options.tree.resolve()
    if tree != ROOT and (names := stale()):
        sys.exit(f"mutate: the sources have changed under {', '.join(names)}; bring "
                 "test/Mutations/mutations.py up to date")
    if unknown := set(options.names) - {m.name for m in MUTATIONS}:
        sys.exit(f"mutate: there is no fault {', '.join(sorted(unknown))}")
    if options.check:
        return
    if not options.built:
        if not options.sources:
            make_tree(tree)
        put_in(tree)
        if options.sources:
            return
        build(tree)
    chosen = [m for m in MUTATIONS if not options.names or m.name in options.names]
    if missed := run(chosen, tree, options.results, options.again):
        sys.exit(f"mutate: no test finds {', '.join(missed)}")


if __name__ == "__main__":
    main()
