#===- ptx_tests.py - The PTX evaluator against ptx_tests ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file compares the PTX evaluator with third-party tests, https://github.com/vosen/ptx_tests:
# it runs their PTX, inputs and host references in Rust, in a scratch copy with
# verification/ptx_tests/main.rs.
#
#===----------------------------------------------------------------------===#
"""Runs the tests of a checkout of vosen/ptx_tests in the PTX evaluator.

Requires a nightly Rust, cargo and the target tandem-ptx-driver. Nothing of the checkout is kept;
the findings are written to verification/results/ptx_tests.json.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "verification"),
                str(ROOT / "build/python")]

from common import save  # noqa: E402
from ptx_instructions import emitted, instructions  # noqa: E402

RESULTS = ROOT / "verification/results"
DRIVER = ROOT / "build/lib/libtandem-ptx-driver.so"
HARNESS = ROOT / "verification/ptx_tests"
REPOSITORY = "https://github.com/vosen/ptx_tests"

#: The number of inputs for a test of an emitted instruction, and for any other test.
COUNT, OTHERS = 1 << 22, 1 << 20
SAMPLING = (
    "Tests of all values of 8, 16 or 32 bits, or all pairs of 16 bits, get all of them where "
    "these are at most `cases`. Of more they get 729,088 edges (pairs of 16-bit values with "
    "every sign and exponent of f16, and every sign and exponent of f32 with every four "
    "leading bits, one more bit, and the two neighbours), then i * 0x9e3779b1 mod 2^32. "
    "Tests with random inputs get the first of their own sequence.")

#: Tests that fail although the evaluator follows PTX's documentation.
_WHOLE_AMOUNTS = (
    "PTX's documentation restricts position and length to 0..255 and reads their low eight "
    "bits, as the evaluator does; the test reads all 32 for 64-bit fields, since GPUs do, "
    "and calls it an erratum. All failures have a position or a length above 255. Tandem "
    "emits neither.")
DISPUTED = {name: _WHOLE_AMOUNTS
            for name in ("bfe_rng_s64", "bfe_rng_u64", "bfi_rng_b64")}

#: The instructions with which every test computes addresses.
_FRAME = Counter({"mov.u32": 3, "cvt.u64.u32": 1, "mad.wide.u32": 1})
_ACCESSES = re.compile(r"(ld|st)\.|mad\.lo\.u64$|ret$")
#: Instructions that tests need besides those under test.
_HELPERS = {"setp.ne.b16", "add.cc.u32", "addc.u32", "mov.b64", "selp.u32"}

#===------------------------------------------------------------------------===#
# The scratch copy
#===------------------------------------------------------------------------===#


def substitute(pattern: str, replacement: str, text: str, count: int) -> str:
    """Replaces matches of a pattern; exits unless there are `count` of them."""
    text, found = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    if found != count:
        raise SystemExit(f"src/test.rs is not what it was: {found} of {pattern!r}")
    return text


def prepare(checkout: pathlib.Path, scratch: pathlib.Path) -> None:
    """Copies the sources together with our main.rs, which their tests then call."""
    shutil.copytree(checkout / "src", scratch / "src")
    shutil.copy(checkout / "rust-toolchain.toml", scratch)
    shutil.copy(HARNESS / "Cargo.toml", scratch)
    theirs = (checkout / "src/main.rs").read_text()
    macro = re.search(r"^#\[macro_export\]\s*macro_rules! impl_library .*?^}\n", theirs,
                      re.DOTALL | re.MULTILINE)
    main = (HARNESS / "main.rs").read_text() + macro[0]
    (scratch / "src/main.rs").write_text(main)
    test = scratch / "src/test.rs"
    text = substitute(r"\b(run_range|run_random)::<T>\(ctx, t, fail_fast\)",
                      r"crate::\1::<T>(ctx, t)", test.read_text(), 2)
    test.write_text(substitute("^const SEED", "pub const SEED", text, 1))


def build(scratch: pathlib.Path, configuration: str) -> pathlib.Path:
    """Builds the harness and returns its path; `configuration` may say where crates are."""
    options = ["--offline", "--config", configuration] if configuration else []
    subprocess.run(["cargo", "build", "--quiet", "--release", *options], cwd=scratch, check=True,
                   env=os.environ | {"RUSTFLAGS": "-Awarnings -Ctarget-cpu=native"})
    return scratch / "target/release/tandem_ptx_tests"


def call(harness: list, *arguments) -> Iterator[dict]:
    """Runs the harness and yields the JSON values that it prints."""
    command = [*harness, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{harness[0]} failed")

#===------------------------------------------------------------------------===#
# Tests and instructions
#===------------------------------------------------------------------------===#


def tested(row: dict) -> list[str]:
    """Returns the instructions that a test covers; none if its texts must not compile."""
    if len(row["sources"]) != 1:
        return []
    found = Counter(instructions(row["sources"][0]))
    found.subtract(_FRAME)
    return sorted(name for name, count in found.items() if count > 0
                  and not _ACCESSES.match(name) and name not in _HELPERS)


def report(row: dict, names: list[str], is_emitted: bool) -> dict:
    """Makes a test's entry in the results."""
    used = {name for text in row["sources"][:1] for name in instructions(text)}
    entry = {"instructions": names, "used": sorted(used), "emitted": is_emitted,
             "outcome": "failed" if row["failures"] else row["outcome"],
             "inputs": row["total"], "cases": row["cases"], "failures": row["failures"],
             "seconds": row["seconds"]}
    if len(row["sources"]) > 1:
        entry |= {"inputs": 0, "texts": len(row["sources"])}
    if row["failures"]:
        entry |= {"examples": row["examples"], "disputed": DISPUTED.get(row["name"], "")}
    return entry


def run(harness: list, names: dict, known: dict, count: int, others: int) -> dict:
    """Runs every test; those of emitted instructions get `count` inputs."""
    found = {}
    for is_emitted, cases in ((True, count), (False, others)):
        chosen = [test for test, of in names.items()
                  if any(name in known for name in of) == is_emitted]
        for row in call(harness, cases, *chosen):
            found[row["name"]] = report(row, names[row["name"]], is_emitted)
            if row["outcome"] != "refused":
                print(f"{row['name']}: {row['outcome']}, {row['cases']} cases, "
                      f"{row['failures']} failures, {row['seconds']} s", flush=True)
    return found


def operation(name: str) -> str:
    return name.split(".")[0]


def coverage(known: dict, tests: dict) -> dict:
    """Returns the tests for each emitted instruction. Instructions without one have the status
    "NOT COVERED BY IT", the number of tests that use them, and the tested instructions of the
    same operation."""
    rows, run = {}, {test: row for test, row in tests.items() if row["cases"]}
    for name, entry in known.items():
        found = [test for test, row in run.items() if name in row["instructions"]]
        rows[name] = entry | {"tests": found}
        if not found:
            rows[name] |= {
                "status": "NOT COVERED BY IT",
                "used by": sum(name in row["used"] for row in run.values()),
                "same operation": sorted({
                    other for row in run.values() for other in row["instructions"]
                    if operation(other) == operation(name) != "cvt"})}
    return rows


def kept(test: dict) -> dict:
    """Returns the fields to record, without one that is nearly the same in all tests."""
    return {key: value for key, value in test.items() if key != "used"}


def refusals(tests: dict) -> dict:
    """Counts the tests that the evaluator rejected as unknown, by operation."""
    return dict(sorted(Counter(
        test.split("_")[0] for test, row in tests.items()
        if row["outcome"] == "refused").items()))


def is_failure(row: dict) -> bool:
    return (row["outcome"] not in ("passed", "refused") or row["failures"] > 0
            ) and not row.get("disputed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=pathlib.Path, help="a clone of " + REPOSITORY)
    parser.add_argument("--count", type=int, default=COUNT, help="inputs of each test of "
                        "an instruction that is emitted (default %(default)s)")
    parser.add_argument("--others", type=int, default=OTHERS,
                        help="of each other test (default %(default)s)")
    parser.add_argument("--cargo-config", default="", metavar="FILE",
                        help="says where crates lie, without crates.io")
    parser.add_argument("--driver", type=pathlib.Path, default=DRIVER,
                        help="what is tested; a GPU's libcuda.so.1, perhaps")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args()
    commit = subprocess.check_output(["git", "-C", options.checkout, "rev-parse", "HEAD"],
                                     text=True).strip()
    known = emitted()
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        prepare(options.checkout, scratch)
        harness = [build(scratch, options.cargo_config), options.driver]
        names = {row["name"]: tested(row) for row in call(harness)}
        found = run(harness, names, known, options.count, options.others)
    save("ptx_tests", {
        "repository": REPOSITORY, "commit": commit, "sampling": SAMPLING,
        "instructions": coverage(known, found),
        "tests": {test: kept(row) for test, row in sorted(found.items())
                  if row["outcome"] != "refused"},
        "refused": refusals(found)}, options.results)
    return int(any(map(is_failure, found.values())))


if __name__ == "__main__":
    sys.exit(main())
