#===- proof_run.py - Prove and record --------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs all proofs, which takes hours, and records their results, which a test compares
# with the current compiler.
#
#===----------------------------------------------------------------------===#
"""Proves the steps whose obligations have changed since they were recorded, and retries those
that had less time than --limit, in rounds of increasing time."""

import argparse
import json
import os
import pathlib
import sys
import time

import bitwuzla

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "verification")]

from common import save  # noqa: E402
from proof_steps import hash_of, prove, steps  # noqa: E402

RESULTS = ROOT / "verification/results"
SOLVER = f"Bitwuzla {bitwuzla.version()}"

#: The processor seconds per step in each round.
ROUNDS = (5, 30, 120, 600)


def read_record():
    """Returns the recorded rows by name."""
    path = RESULTS / "proofs.json"
    if not path.exists():
        return {}
    return {row["name"]: row for row in json.loads(path.read_text())["rows"]}


def write_record(rows):
    """Writes rows in the order of the steps; rows of removed steps are dropped."""
    kept = [{**rows[name], "promise": step.promise, "certificate": step.certificate}
            for name, step in steps().items() if name in rows]
    save("proofs", {"rows": kept}, RESULTS)


def try_step(step, limit):
    """Tries to prove a step and returns its row of the record."""
    begin = time.process_time()
    result, cases = f"gap: no answer in {limit} s", None
    try:
        difference, bits = prove(step, limit)
        result = "proved" if difference is None else f"false: {difference}"
        cases = f"2^{bits}"
    except TimeoutError:
        pass
    return {"name": step.name, "promise": step.promise, "how": f"SMT, {SOLVER}",
            "cases": cases, "seconds": round(time.process_time() - begin, 1),
            "limit": limit, "worst": None,
            "command": f"scripts/prove.sh {step.name}", "result": result,
            "hash": hash_of(step)}


def needs(step, row, limit):
    """Returns whether to try a step with this time limit."""
    if not row or row["hash"] != hash_of(step):
        return True
    return row["result"].startswith("gap") and row["limit"] < limit


def run_round(names, limit):
    """Runs one round, beginning with the steps that have no other certificate."""
    known = steps()
    wanted = [n for n in sorted(names, key=lambda n: known[n].certificate != "")
              if needs(known[n], read_record().get(n), limit)]
    for index, name in enumerate(wanted):
        row = try_step(known[name], limit)
        # Read the record again, since another run may have written it.
        write_record({**read_record(), name: row})
        print(f"{limit} s, {index + 1}/{len(wanted)}: {name}: {row['result']} "
              f"({row['seconds']} s)", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/prove.sh", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these, whatever is recorded")
    parser.add_argument("--limit", type=int, default=ROUNDS[-1],
                        help="seconds of the processor for each step")
    options = parser.parse_args()
    known = steps()
    if unknown := set(options.names) - known.keys():
        parser.error(f"no step is named {', '.join(sorted(unknown))}; the steps are "
                     + ", ".join(known))
    if options.names:
        write_record({name: row for name, row in read_record().items()
                      if name not in options.names})
    for limit in sorted({min(r, options.limit) for r in (*ROUNDS, options.limit)}):
        run_round(options.names or known, limit)
    results = [row["result"] for row in read_record().values()]
    print(", ".join(f"{sum(r.startswith(kind) for r in results)} {kind}"
                    for kind in ("proved", "gap", "false")))
    return any(result.startswith("false") for result in results)


if __name__ == "__main__":
    os.nice(5)
    raise SystemExit(main())
