#===- sanitized_run.py - The compiler under sanitizers ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file builds the compiler with the address and undefined-behaviour sanitizers, and runs its
# tests and long fuzzing.
#
#===----------------------------------------------------------------------===#
"""Builds the compiler with sanitizers in build/sanitized, runs its tests, fuzzes it."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))

from common import save  # noqa: E402

BUILD, RESULTS = ROOT / "build/sanitized", ROOT / "verification/results"
UNIT_TESTS = ("TandemAnalysisTests", "TandemConversionTests", "TandemReferenceTests",
              "TandemSupportTests", "TandemTargetTests")
TOOLS = ("tandem-opt", "tandem-translate", "tandem-run", "tandem-reduce", "tandem-package",
         "tandem-fuzz", "tandem-lsp-server")
FUZZED = ("parse", "pipeline", "compile")

#: LLVM's own CMake options for this; its packages lack the second one.
OPTIONS = ("-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -g1",
           "-DLLVM_USE_SANITIZER=Address;Undefined",
           "-DLLVM_UBSAN_FLAGS=-fsanitize=undefined -fno-sanitize=vptr "
           "-fno-sanitize-recover=all -Wno-maybe-uninitialized")

#: The libraries of LLVM and MLIR are built without sanitizers: their arenas are not poisoned
#: correctly, and memory that they keep until exit is not a leak.
ENVIRONMENT = {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=0:allow_user_poisoning=0",
               "UBSAN_OPTIONS": "abort_on_error=1:print_stacktrace=1"}

#===------------------------------------------------------------------------===#
# Commands
#===------------------------------------------------------------------------===#


def build(jobs: int) -> None:
    if not (BUILD / "build.ninja").exists():
        prefix = subprocess.check_output(["llvm-config-22", "--prefix"], text=True).strip()
        subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD, *OPTIONS,
                        f"-DPython3_EXECUTABLE={sys.executable}",
                        f"-DMLIR_DIR={prefix}/lib/cmake/mlir"], check=True)
    subprocess.run(["ninja", "-C", BUILD, f"-j{jobs}", *TOOLS, *UNIT_TESTS], check=True)


def run(name: str, pattern: str, *command) -> dict:
    """Runs a command and returns its row; the pattern finds the number of cases in its output."""
    print(f"{name}: {' '.join(map(str, command))}", flush=True)
    begin = time.monotonic()
    done = subprocess.run([*map(str, command)], text=True, cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=os.environ | ENVIRONMENT)
    seconds = time.monotonic() - begin
    counts = [int(n) for n in re.findall(pattern, done.stdout)]
    good = done.returncode == 0 and sum(counts) > 0
    print("\n".join(done.stdout.splitlines()[-3 if good else -200:]), flush=True)
    return {"promise": name, "how": "address, undefined behaviour", "cases": sum(counts),
            "seconds": seconds, "result": "no failure" if good else "**failed**",
            "command": "scripts/verify.sh sanitized"}

#===------------------------------------------------------------------------===#
# Parts
#===------------------------------------------------------------------------===#


def unit_tests():
    for name in UNIT_TESTS:
        yield run(f"`{name}`", r"(\d+) tests? from \d+ test suites? ran",
                  BUILD / "test/unit" / name, "--gtest_brief=1")


def lit_tests():
    """Runs this build's lit tests, most of which run `tandem-opt`."""
    lit = shutil.which("lit", path="/usr/lib/llvm-22/bin") or shutil.which("lit")
    yield run("lit tests", r"Passed\s*: (\d+)", sys.executable, lit, "-sv",
              "--filter-out=Fuzz/(arrays|package)", BUILD / "test")


def fuzzing(minutes: float, first: int):
    findings = BUILD / "fuzz"
    findings.mkdir(exist_ok=True)
    for target in FUZZED:
        yield run(f"random input: `{target}`", r"(\d+) cases", BUILD / "bin/tandem-fuzz",
                  target, "--texts=lib,test", f"--seconds={60 * minutes:.0f}",
                  f"--first={first}", f"--findings={findings}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/verify.sh sanitized", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10,
                        help="of each kind of random input")
    parser.add_argument("--first", type=int, default=10**9, help="the first case's number")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at work")
    options = parser.parse_args()
    build(options.jobs)
    # Only a whole run is recorded.
    rows = [*unit_tests(), *lit_tests(), *fuzzing(options.minutes, options.first)]
    save("sanitized", {"rows": rows}, RESULTS)
    return int(any(row["result"] != "no failure" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
