#===- graphs.py - Random optimizers under random options -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs random optimizer graphs in random ways (instruction sets, widths,
# chips, grids, or the passes up to any stage with clean-ups in between) and compares
# every bit with the reference interpreter of the source graph.
#
# A difference is saved as a case: its graph, and a file with everything else. `graphs.py --case
# CASE GRAPH` then serves as the test of tandem-reduce.
#
#===----------------------------------------------------------------------===#
"""Compares random graphs, run in random ways, with the reference interpreter."""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/Python"))

import campaign  # noqa: E402
import tandem  # noqa: E402
from support import kernels  # noqa: E402
from support.evaluate import NotCompensated  # noqa: E402
from support.graph_text import write_strategy  # noqa: E402
from support.launch import Tensor, WithPTX, aligned_copy, launch  # noqa: E402
from support.random_examples import KEY, SEED, STEP, Example  # noqa: E402

TANDEM_OPT = Path(tandem._tandem.__file__).parents[2] / "bin/tandem-opt"
CLEANUPS = ["-cse", "-tandem-simplify"]
#: The passes that follow the strategy. The program after any of them can be interpreted.
STAGES = ["-tandem-form-kernel", "-tandem-apply-policy", "-tandem-lower-storage",
          "-convert-mcf-to-arith", "-convert-scaled-to-arith", "-tandem-analyze-ranges",
          "-tandem-split-phases", "-tandem-emulate-floats", "-tandem-widen"]
#: Parts of the messages of cases that only one of the two refuses.
REFUSED = ("there is no intended update to measure", "run -tandem-apply-policy first")


#===----------------------------------------------------------------------===#
# Ways to run a graph
#===----------------------------------------------------------------------===#


def random_passes(rng):
    """Returns the passes up to some stage, with clean-up passes wherever they are allowed."""
    passes = []
    for name in STAGES[:rng.randint(1, len(STAGES))]:
        option = {"-tandem-widen": "=width=%d" % rng.choice([1, 2, 4, 8, 16, 32, 64]),
                  "-tandem-emulate-floats": rng.choice(
                      ["", "=formats=bf16,f16,f8E4M3FN,f8E5M2", "=formats=bf16"])}
        passes.append(name + option.get(name, ""))
        passes += [p for p in CLEANUPS if rng.random() < 0.3]
    return passes


def isas():
    flags = kernels.cpu_flags()
    return ["native", *(isa for isa in kernels._NEEDS
                        if all(kernels._NEEDS[i] <= flags for i in kernels._NEEDS
                               if i <= isa))]


def random_way(seed):
    rng = random.Random(seed)
    kind = rng.choice(["cpu", "ptx", "stage"])
    if kind == "cpu":
        isa = rng.choice(isas())
        # With 128-bit registers, wide blocks take LLVM half a minute.
        widths = [0, 1, 2, 4, 8, 16] + ([32, 64] if isa != "x86-64" else [])
        return {"kind": kind, "isa": isa, "width": rng.choice(widths),
                "flags": rng.random() < 0.5, "metrics": rng.random() < 0.3,
                "threads": rng.randint(1, 3)}
    if kind == "ptx":
        return {"kind": kind, "chip": rng.choice(["sm_80", "sm_89", "sm_90", "sm_100"]),
                "blocks": rng.randint(1, 3), "threads": rng.choice([32, 64, 128]),
                "chunk": rng.choice([1, 2, 4]), "flags": rng.random() < 0.5}
    return {"kind": kind, "passes": random_passes(rng)}


def integers_of(kernel):
    return kernels.integers_of(kernel, STEP, SEED)


def run_on_cpu(case, text, planes, path):
    way = case["way"]
    kernel = tandem.compile(text, case["strategy"], path=path, isa=way["isa"],
                            width=way["width"], flags=way["flags"],
                            metrics=way["metrics"])
    hypers = {name: case["hypers"][name] for name in kernel.hypers}
    kernel(planes, key=KEY, first=case["first"], threads=way["threads"], **hypers,
           **integers_of(kernel))


def run_on_gpu(case, text, planes, path):
    way = case["way"]
    kernel = tandem.compile(text, case["strategy"], way["chip"], path=path,
                            flags=way["flags"])
    if "fault" in way:
        kernel = WithPTX(kernel, kernel.ptx.replace(*way["fault"]))
    tensor = Tensor({n: aligned_copy(p) for n, p in planes.items()}, case["first"], KEY)
    hypers = {name: case["hypers"][name] for name in kernel.hypers}
    launch(kernel, [tensor], [hypers | integers_of(kernel)], blocks=way["blocks"],
           threads=way["threads"], chunk_size=way["chunk"] * case["chunk"])
    planes.update(tensor.planes)


def run_stage(case, text, planes, path):
    strategy = f"strategy={case['strategy']}"
    done = subprocess.run(
        [TANDEM_OPT, "-tandem-recognize-updates", f"-tandem-apply-strategy={strategy}",
         *case["way"]["passes"]], input=case["strategy_text"] + text,
        capture_output=True, text=True)
    if done.returncode < 0 or "error:" not in done.stderr and done.returncode:
        raise AssertionError(f"tandem-opt ends with {done.returncode}: {done.stderr}")
    if done.returncode:
        raise ValueError(done.stderr)
    interpret(case, done.stdout, None, planes, path)


def interpret(case, text, strategy, planes, path):
    tandem.interpret(text, strategy, planes, case["hypers"], path=path, step=STEP,
                     seed=SEED, key=KEY, first=case["first"])


RUN = {"cpu": run_on_cpu, "ptx": run_on_gpu, "stage": run_stage}


#===----------------------------------------------------------------------===#
# Cases
#===----------------------------------------------------------------------===#


def make_case(seed):
    """Returns a case and its graph's text; None if the strategy does not fit the graph."""
    with tempfile.TemporaryDirectory() as directory:
        example = Example(seed, Path(directory))
        try:
            example.evaluate()
        except NotCompensated:
            return None
    planes = {n: [p.dtype.str, p.tolist()] for n, p in example.planes.items()}
    return {"seed": seed, "strategy": example.graph.strategy,
            "strategy_text": write_strategy(example.graph), "hypers": example.hypers,
            "planes": planes, "first": example.first, "chunk": example.chunk_size,
            "way": random_way(seed)}, example.text


def difference(case, text):
    """Returns how the case differs from the interpreter, or "". Both may refuse it."""
    def planes():
        return {n: np.array(p, dtype) for n, (dtype, p) in case["planes"].items()}
    got, want = planes(), planes()
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, f"{case['strategy']}.mlir").write_text(case["strategy_text"])
        try:
            interpret(case, text, case["strategy"], want, [directory])
        except ValueError as error:
            refused = str(error)
        else:
            refused = None
        try:
            RUN[case["way"]["kind"]](case, text, got, [directory])
        except ValueError as error:
            known = refused or any(text in str(error) for text in REFUSED)
            return "" if known else f"only the interpreter takes it: {error}"
    if refused:
        return f"only the interpreter refuses it: {refused}"
    wrong = [n for n in want if not np.array_equal(got[n], want[n])]
    return f"{', '.join(wrong)} differ" if wrong else ""


def keep(case, text, what, directory):
    stem = directory / f"graph-{case['seed']}"
    stem.with_suffix(".json").write_text(json.dumps(case))
    stem.with_suffix(".mlir").write_text(text)
    print(f"{stem}.mlir: {what}; shrink it with\n"
          f"  build/bin/tandem-reduce {stem}.mlir "
          f"-take-operands='test=test/Fuzz/differs.sh test-arg={stem}.json'", flush=True)


def fuzz(options):
    cases = found = 0
    for cases, seed in enumerate(campaign.seeds(options), 1):
        made = make_case(seed)
        if made and (what := difference(*made)):
            keep(*made, what, options.findings)
            found += 1
    print(f"graphs: {cases} cases, {found or 'nothing'} found")
    return 1 if found else 0


def main():
    parser = campaign.parser(__doc__)
    parser.add_argument("--case", type=Path, help="try this case on GRAPH")
    parser.add_argument("graph", nargs="?", type=Path)
    options = parser.parse_args()
    if not options.case:
        return fuzz(options)
    what = difference(json.loads(options.case.read_text()), options.graph.read_text())
    print(what or "no difference")
    # A graph that only one side accepts has a different fault and must not count.
    return 1 if what.endswith("differ") else 0


if __name__ == "__main__":
    sys.exit(main())
