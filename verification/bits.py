#===- bits.py - Record and check the library's bits ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file records what the library computes on fixed inputs and the code that it compiles to, so
# that a rebuild of the compiler shows which bits change.
#
#===----------------------------------------------------------------------===#
"""Compares hashes of the library's results, PTX and CPU code with those on record."""

import argparse
import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "verification")]

import emulated  # noqa: E402
from bits_code import llvm_version, object_cases, ptx_cases  # noqa: E402
from bits_kernels import (Case, Unavailable, compile_with, conversion_cases,  # noqa: E402
                          graph_cases, layer_cases)
from bits_options import emulated_option_cases, option_cases, torch_cases  # noqa: E402
from common import save  # noqa: E402

RESULTS = ROOT / "verification/results"
#: The functions that make the cases of each part of a record, by the record's file.
RECORDS: dict[str, dict[str, Callable[[], list[Case]]]] = {
    "bits": {"graphs": graph_cases, "layers": layer_cases, "options": option_cases,
             "conversions": conversion_cases, "torch": torch_cases},
    "ptx": {"ptx": ptx_cases},
    "objects": {"objects": object_cases},
}
FILES = {"bits": "bits", "ptx": "ptx_hashes", "objects": "object_hashes"}


def cases_of(record: str) -> list[Case]:
    """Returns all cases of a record."""
    return [case for make in RECORDS[record].values() for case in make()]


def emulated_cases() -> list[Case]:
    """Returns the cases of bits that run with kernels for AArch64 under an emulator."""
    return graph_cases() + layer_cases() + emulated_option_cases()


def sample(cases: list[Case]) -> list[Case]:
    """Returns a few cases that cover every feature; the same ones for the same library."""
    missing, chosen = set().union(*(case.features for case in cases)), []
    while missing:
        best = max(cases, key=lambda case: len(case.features & missing))
        missing -= best.features
        chosen.append(best)
    return chosen

#===------------------------------------------------------------------------===#
# Records
#===------------------------------------------------------------------------===#


def read(record: str, folder: Path = RESULTS) -> dict:
    """Reads a record: "hashes" by entry, and "llvm" if they depend on its version."""
    path = folder / f"{FILES[record]}.json"
    return json.loads(path.read_text()) if path.exists() else {"hashes": {}}


def write(record: str, hashes: dict[str, str], folder: Path = RESULTS) -> None:
    """Writes a record with one line per entry, sorted by name."""
    about = {} if record == "bits" else {"llvm": llvm_version()}
    save(FILES[record], {**about, "hashes": dict(sorted(hashes.items()))}, folder)


def refusal(record: str, content: dict) -> str:
    """Returns why a record does not apply to this compiler; empty if it does."""
    made = content.get("llvm")
    if record == "bits" or made is None or made == llvm_version():
        return ""
    return (f"{FILES[record]}.json was made with LLVM {made}, and this is LLVM "
            f"{llvm_version()}: its code is not compared")


def compute(cases: list[Case], show=lambda done, all_cases: None) -> tuple[dict, dict]:
    """Returns hashes by name, and the reasons why other cases are left out."""
    hashes, left_out = {}, {}
    for done, case in enumerate(cases, 1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                hashes[case.name] = case.run()
        except Unavailable as error:
            left_out[case.name] = str(error)
        except Exception as error:
            hashes[case.name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        show(done, len(cases))
    return hashes, left_out


def differences(recorded: dict[str, str], found: dict[str, str]) -> list[str]:
    """Returns a line for each entry that differs from the record."""
    lines = []
    for name, value in found.items():
        if name not in recorded:
            lines.append(f"{name}: not on record; scripts/bits.sh --write adds it")
        elif recorded[name] != value:
            lines.append(f"{name}: was {recorded[name]}, is {value}")
    return lines


def changed_names(recorded: dict[str, str], cases: list[Case]) -> list[str]:
    """Returns a line for each case that only the library or only the record has."""
    names = {case.name for case in cases}
    return ([f"{name}: not on record; scripts/bits.sh --write adds it"
             for name in sorted(names - recorded.keys())]
            + [f"{name}: on record, but not in the library; scripts/bits.sh --write drops it"
               for name in sorted(recorded.keys() - names)])

#===------------------------------------------------------------------------===#
# The program
#===------------------------------------------------------------------------===#


def _progress(record: str):
    def show(done: int, count: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{record}: {done} of {count}", end="" if done < count else "\n",
                  file=sys.stderr, flush=True)
        elif done % 100 == 0 or done == count:
            print(f"{record}: {done} of {count}", file=sys.stderr, flush=True)
    return show


def _select(cases: list[Case], options) -> list[Case]:
    """Returns the cases that the options select, from the sample or from all."""
    chosen = sample(cases) if options.sample else cases
    return [case for case in chosen if re.search(options.only, case.name)]


def _print(lines) -> None:
    for line in lines:
        print(line)


def check_record(record: str, options) -> bool:
    """Returns whether nothing has changed, and prints the differences."""
    content = read(record, options.results)
    if reason := refusal(record, content):
        print(f"SKIPPED: {reason}")
        return True
    cases = cases_of(record)
    known = {name: value for name, value in content["hashes"].items()
             if re.search(options.only, name)}
    faults = changed_names(known, [c for c in cases if re.search(options.only, c.name)])
    found, left_out = compute(_select(cases, options), _progress(record))
    faults += differences(known, {n: v for n, v in found.items() if n in known})
    _print(faults)
    _print(f"LEFT OUT: {name}: {why}" for name, why in left_out.items())
    print(f"{record}: {len(found)} entries, {len(faults)} differences, "
          f"{len(left_out)} left out")
    return not faults


def check_emulated(options) -> bool:
    """Returns whether code for AArch64 computes the recorded bits, and prints the
    differences."""
    if problem := emulated.missing():
        print(f"SKIPPED: {problem}")
        return True
    compile_with(emulated.compile)
    found, _ = compute(_select(emulated_cases(), options), _progress("bits of aarch64"))
    faults = differences(read("bits", options.results)["hashes"], found)
    _print(faults)
    print(f"bits of aarch64: {len(found)} entries, {len(faults)} differences")
    return not faults


def write_record(record: str, options) -> bool:
    """Updates the selected entries; returns false, and writes nothing, if one cannot be made."""
    cases = cases_of(record)
    before, names = read(record, options.results)["hashes"], {case.name for case in cases}
    found, left_out = compute(_select(cases, options), _progress(record))
    _print(f"LEFT OUT: {name}: {why}" for name, why in left_out.items())
    if failed := {n: v for n, v in found.items() if not re.fullmatch("[0-9a-f]{16}", v)}:
        _print(f"{name}: {value}" for name, value in failed.items())
        print(f"{record}: nothing is written")
        return False
    kept = {name: value for name, value in before.items() if name in names}
    changes = differences(before, found)
    write(record, kept | found, options.results)
    print(f"{record}: {len(found)} entries, of which {len(changes)} are new or differ from "
          f"before; {len(before) - len(kept)} dropped")
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bits.sh", description=__doc__)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="the default")
    action.add_argument("--write", action="store_true", help="renews the records")
    parser.add_argument("--files", nargs="+", choices=FILES, default=list(FILES),
                        help="which records; all by default")
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="entries whose names have a match")
    parser.add_argument("--sample", action="store_true",
                        help="only what the tests check: every graph, strategy, layer, "
                        "recipe and option at least once")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--emulate", action="store_true", help="compares the bits of kernels "
                        "for AArch64 under qemu-user, after scripts/build.sh --target aarch64")
    options = parser.parse_args(arguments)
    if options.emulate:
        return int(not check_emulated(options))
    run = write_record if options.write else check_record
    return int(not all([run(record, options) for record in options.files]))


if __name__ == "__main__":
    sys.exit(main())
