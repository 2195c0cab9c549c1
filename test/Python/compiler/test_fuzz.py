#===- test_fuzz.py - Random graphs in random ways --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file runs `scripts/fuzz.sh graphs` and `ptx` briefly, and tests that differences are found,
# saved and reduced, that refusals are saved, and that texts which would crash MLIR's parser are
# refused.
#
#===----------------------------------------------------------------------===#

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tandem

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "test/Fuzz"))
import graphs  # noqa: E402
import refusals  # noqa: E402

REDUCE = graphs.TANDEM_OPT.with_name("tandem-reduce")


# The last one has f32 expansions, which the interpreter once took for f32.
@pytest.mark.parametrize("seed", (*range(200, 230), 1000224))
def test_random_ways(seed):
    made = graphs.make_case(seed)
    if made is None:
        pytest.skip("the strategy does not take the graph, and says so")
    case, text = made
    assert graphs.difference(case, text) == "", f"{case['way']}\n{text}"


def test_ways_are_many():
    ways = [graphs.random_way(seed) for seed in range(200)]
    assert {way["kind"] for way in ways} == set(graphs.RUN)
    stages = {way["passes"][-1].split("=")[0] for way in ways if way["kind"] == "stage"}
    assert stages >= set(graphs.STAGES)


def seeded():
    """Returns a graph of nine operations, and a way to run it in which the PTX adds in place of
    its one subtraction."""
    text = """
#id = affine_map<(i) -> (i)>
func.func @seeded(
    %w: tensor<?xf32> {tandem.role = #tandem.role<param "w">},
    %g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">})
    -> tensor<?xf32> {
  %new = linalg.generic {
      indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%g : tensor<?xf32>) outs(%w : tensor<?xf32>) {
  ^bb0(%x: f32, %old: f32):
    %a = arith.mulf %x, %x : f32
    %b = math.absf %a : f32
    %c = arith.addf %old, %b : f32
    %d = arith.subf %c, %x : f32
    %e = arith.mulf %d, %old : f32
    %f = arith.divf %e, %c : f32
    %h = arith.negf %f : f32
    %i = arith.addf %h, %d : f32
    %j = arith.maximumf %i, %b : f32
    linalg.yield %j : f32
  } -> tensor<?xf32>
  return %new : tensor<?xf32>
}
"""
    values = np.linspace(0.5, 4.0, 40, dtype=np.float32).view(np.uint32)
    case = {"seed": "seeded", "strategy": "fp32", "hypers": {}, "first": 0, "chunk": 64,
            "strategy_text": (ROOT / "lib/Strategies/fp32.mlir").read_text(),
            "planes": {name: ["<u4", plane.tolist()]
                       for name, plane in (("w", values), ("g", values[::-1]))},
            "way": {"kind": "ptx", "chip": "sm_90", "blocks": 1, "threads": 32,
                    "chunk": 1, "flags": False, "fault": ["sub.rn.f32", "add.rn.f32"]}}
    return case, text


def test_a_failure_is_made_small(tmp_path):
    """A fault is found, saved, and reduced by the printed command."""
    case, text = seeded()
    assert graphs.difference(case, text) == "w differ"
    graphs.keep(case, text, "w differ", tmp_path)
    kept, file = tmp_path / "graph-seeded.json", tmp_path / "graph-seeded.mlir"
    assert json.loads(kept.read_text()) == case
    small = tmp_path / "small.mlir"
    subprocess.run(
        [REDUCE, file, "-o", small,
         f"-take-operands=test={ROOT / 'test/Fuzz/differs.sh'} test-arg={kept}"],
        check=True, capture_output=True,
        env={"TANDEM_PYTHON": sys.executable, "PATH": "/usr/bin:/bin",
             "PYTHONPATH": str(Path(graphs.tandem.__file__).parents[1])})
    reduced = small.read_text()
    assert "arith.subf" in reduced
    assert sum(reduced.count(f"{op} ") for op in (
        "arith.mulf", "arith.divf", "math.absf", "arith.negf", "arith.maximumf",
        "arith.addf")) == 0, reduced
    assert graphs.difference(case, reduced) == "w differ"
    del case["way"]["fault"]
    assert graphs.difference(case, text) == graphs.difference(case, reduced) == ""


def refuse(seeds, directory):
    """Returns the exit status of a run over some seeds."""
    return refusals.fuzz(argparse.Namespace(
        seconds=600, count=len(seeds), first=seeds[0], findings=directory, record=None))


def test_nothing_sound_is_refused(tmp_path, capsys):
    assert refuse(range(6), tmp_path) == 0
    printed = capsys.readouterr().out
    # Changed kernels contain operations that LLVM can simplify.
    assert int(re.search(r"(\d+) compiled twice", printed)[1]) > 3, printed
    assert list(tmp_path.iterdir()) == []


def test_refusals_are_kept(tmp_path, capsys, monkeypatch):
    """The compiler is replaced by one that refuses kernels with a division for one chip."""
    compile_any = tandem.compile

    def refusing(text, strategy=None, target="cpu", **options):
        if target == "sm_90" and "divf" in text:
            raise ValueError("the PTX of 'f' is not the kernel's arithmetic:\n  div f32")
        return compile_any(text, strategy, target, **options)
    monkeypatch.setattr(tandem, "compile", refusing)
    assert refuse(range(3), tmp_path) == 1
    printed, kept = capsys.readouterr().out, list(tmp_path.glob("ptx-*.mlir"))
    assert kept and f"{len(kept)} refused" in printed
    for file in kept:
        assert "divf" in file.read_text() and f"{file}: sm_90: the PTX of 'f'" in printed


@pytest.mark.parametrize(("text", "message"), (
    ("module attributes {a =\n" + "[" * 5000 + "]" * 5000 + "} {}",
     "no more than 256 brackets within each other"),
    ('module attributes {s = "\\\\", a = ' + "[" * 300000 + "\n", "no more than 256 brackets"),
    ("#m = affine_map<(i) -> (" + "-" * 100000 + "i)>\n", "no more than 1024 additions and signs")),
    ids=("brackets", "after a backslash", "affine"))
def test_text_that_is_nested_too_deeply(text, message):
    """Without the check, MLIR's parser would overflow the stack and end the process."""
    with pytest.raises(ValueError, match=f"expected {message}"):
        tandem.compile(text, "fp32")
