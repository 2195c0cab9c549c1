#===- cpu_step.py - Optimizer steps on the CPU -----------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures optimizer steps on the CPU, each case in a separate process.
#
#===----------------------------------------------------------------------===#
"""Times AdamW steps under every strategy, together with rooflines and torch."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import tandem
from common import HERE, SHAPES, graph_of, load, machine, save

#: Packages with an 8-bit AdamW for CPUs; they need not be installed.
PEERS = ("bitsandbytes", "torchao")
#: The instruction sets that 16M parameters are also measured with.
ISAS = ("x86-64-v3",)


def cases(size: str, isas) -> list[dict]:
    """Returns all contenders at one size; slow references and other instruction sets run only at
    the smallest."""
    if size == "huge":
        return [dict(kind="tandem", name="bf16 sgd", graph="sgd", strategy="bf16")]
    ours = dict(kind="tandem", graph="adamw", isas=isas if size == "16M" else ())
    result = [dict(ours, name=s, strategy=s, graph=graph_of(s)) for s in sorted(tandem.strategies())]
    result.append(dict(ours, name="unrounded", strategy="unrounded"))
    for form in ("fp32", "bf16"):
        for way in ("fused", "foreach"):
            result.append(dict(kind="torch", name=f"torch {way} {form}", torch=way,
                               graph="adamw", strategy=form))
    if size == "16M":
        plus = dict(kind="eager", graph="adamw", strategy="collage-plus")
        result += [dict(plus, name="eager collage-plus"),
                   dict(plus, name="torch.compile collage-plus"),
                   dict(plus, name="torch.compile collage-plus, casts kept",
                        casts=True)]
        result += [dict(kind="peer", name=f"{package} AdamW8bit", package=package,
                        graph="adamw", strategy="adam8bit") for package in PEERS]
    return result


def build_stream(folder: str) -> str:
    """Compiles the roofline and returns the library's path."""
    library = os.path.join(folder, "stream.so")
    subprocess.run(["g++", "-O3", "-march=native", "-std=c++17", "-shared",
                    "-fPIC", "-pthread", str(HERE / "stream.cpp"), "-o", library],
                   check=True)
    return library


def run_case(case: dict, limit: float) -> dict:
    """Runs a case's process; returns its result, or the reason why there is none."""
    try:
        done = subprocess.run([sys.executable, str(HERE / "case.py"),
                               json.dumps(case)], capture_output=True, text=True,
                              timeout=limit)
    except subprocess.TimeoutExpired:
        return {"skipped": f"it took more than {limit:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"skipped": f"it failed: {last}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def merge(rounds: list[dict]) -> dict:
    """Returns medians over the samples of all rounds."""
    good = [r for r in rounds if "samples" in r]
    if not good:
        return rounds[0]
    result = {k: v for k, v in good[0].items() if k != "samples"}
    result["load"] = max(r["load"] for r in good)
    result["peak_gb"] = max(r["peak_gb"] for r in good)
    for count in good[0]["samples"]["step"]:
        one = {}
        for name in good[0]["samples"]:
            values = [v for r in good for v in r["samples"][name][count]]
            one[name] = statistics.median(values)
            one[f"{name}_min"] = min(values)
        one["repetitions"] = len(values)
        one["ns_per_parameter"] = 1e9 * one["step"] / result["parameters"]
        moved = result["parameters"] * result["bytes_moved"]
        one["gb_per_s"] = moved / one["step"] / 1e9
        one["roofline_gb_per_s"] = moved / one["roofline"] / 1e9
        result[f"threads_{count}"] = one
    return result


def show(size: str, name: str, result: dict) -> None:
    if why := result.get("skipped") or result.get("absent"):
        print(f"{size:9} {name:28} skipped: {why}", flush=True)
        return
    parts = []
    for key in sorted(k for k in result if k.startswith("threads_")):
        one = result[key]
        parts.append(f"{key[-1]} thr {one['ns_per_parameter']:7.3f} ns "
                     f"{one['gb_per_s']:6.1f} of {one['roofline_gb_per_s']:6.1f} GB/s")
    extra = ("" if "differing" not in result
             else f"  differs: {100 * result['differing']:.2f} %")
    print(f"{size:9} {name:28} " + "   ".join(parts) + extra, flush=True)


def run_size(size: str, options, library: str) -> dict:
    """Runs all cases of a size; odd rounds run in reverse order so that drift cancels."""
    rounds = options.rounds if size == "16M" else 1
    listed = [case for case in cases(size, options.isas)
              if not options.cases or case["name"] in options.cases]
    found = {case["name"]: [] for case in listed}
    for turn in range(rounds):
        for case in listed[::-1] if turn % 2 else listed:
            case = dict(case, size=size, library=library, threads=options.threads,
                        budget=options.budget)
            found[case["name"]].append(run_case(case, options.limit))
            print(f"  round {turn + 1} of {rounds}: {size} {case['name']}",
                  file=sys.stderr, flush=True)
    merged = {name: merge(results) for name, results in found.items()}
    for name, result in merged.items():
        show(size, name, result)
    return merged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="16M parameters only")
    parser.add_argument("--huge", action="store_true",
                        help="also SGD on more than 2^31 elements")
    parser.add_argument("--sizes", nargs="+", choices=list(SHAPES),
                        help="16M, 100M/400, 256M, huge")
    parser.add_argument("--cases", nargs="+", metavar="NAME",
                        help="measure only these, and keep what "
                        "benchmarks/results has of the others")
    parser.add_argument("--name", default="cpu_step",
                        help="the name of the results (%(default)s); others, with --cases, have only "
                        "what one run has measured")
    parser.add_argument("--isas", nargs="*", default=ISAS, metavar="ISA",
                        help="instruction sets to measure beside the machine's own, with 16M "
                        "parameters: %(default)s")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2, help="processes per case")
    parser.add_argument("--budget", type=float, default=3.0,
                        help="seconds of repetitions in a process")
    parser.add_argument("--limit", type=float, default=240.0,
                        help="seconds that a process may take")
    options = parser.parse_args()
    sizes = options.sizes or (["16M"] if options.quick
                              else ["16M", "100M/400", "256M"])
    if options.huge and "huge" not in sizes:
        sizes.append("huge")
    results, measured_by = {}, {}
    if options.cases and options.name == "cpu_step":
        known = load("cpu_step") or {"sizes": {}}
        results = known["sizes"]
        measured_by = {"machine": known["machine"]} if results else {}
    with tempfile.TemporaryDirectory() as folder:
        library = build_stream(folder)
        for size in sizes:
            found = run_size(size, options, library)
            if options.cases and options.name == "cpu_step":
                now = machine()
                for case in found.values():
                    case["measured"] = f"{now['date']}, commit {now['commit'][:12]}"
                found = results.get(size, {}) | found
            results[size] = found
            save(options.name, {"sizes": results} | measured_by)


if __name__ == "__main__":
    main()
