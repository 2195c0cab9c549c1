#===- test_choosing.py - Data of recommend() ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the file that tandem.torch.recommend reads and that is derived from results, and
# docs/Choosing.md.
#
#===----------------------------------------------------------------------===#

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/choosing")]
pytest.importorskip("torch")
import choosing_page  # noqa: E402
import measured_file  # noqa: E402
import tandem  # noqa: E402
from common import load  # noqa: E402


def test_the_package_has_what_was_measured():
    assert measured_file.TARGET.read_text() == measured_file.text(), (
        "results have changed; run benchmarks/choosing/measured_file.py")


def test_other_results_make_another_file(tmp_path):
    """The comparison above fails for a stale file."""
    for name in ("following", "accuracy", "live_bytes", "choosing"):
        content = load(name)
        if name == "following":
            content["strategies"]["bf16"][3]["follows"] = True
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert measured_file.text(tmp_path) != measured_file.TARGET.read_text()


def test_the_numbers_are_those_of_the_results():
    """Some numbers are recomputed differently: from the seeds, and from compiled kernels."""
    strategies = json.loads(measured_file.TARGET.read_text())["strategies"]
    assert set(strategies) == set(load("following")["strategies"]) - {
        "f16-fp32-optim", "f16-master-weights"}
    ratio = {name for name, of in strategies.items() if of["stores_ratio"]}
    assert ratio == {"coded-ratio4", "dither-ratio4", "residual-ratio4"}
    sparse = [of["flash-f16"]["0.999"]["3000"] for of in load("accuracy")["cells"]["sparse"].values()]
    assert strategies["flash-f16"]["errors"]["bfloat16"]["rare"]["0.999"] == pytest.approx(
        sum(sparse) / len(sparse), rel=1e-3)
    for name in ("remainder", "flash-f16", "dither-softsign-root"):
        of = strategies[name]
        assert of["weights"] + of["gradients"] + of["states"] == pytest.approx(
            tandem.compile("adamw", name).bytes_per_parameter, abs=3e-4)
    lion = {name for name, of in strategies.items() if not of["others"]["lion"]} - ratio
    assert lion == {"bf16-stochastic", "collage-light-f32", "collage-plus-f32",
                    "fp8-collage-light", "fp8-collage-plus", "fp8-lm"}
    lost = [cell["lost_share"] for cell in load("choosing")["strategies"]["adam8bit"].values()]
    assert strategies["adam8bit"]["lost"] == pytest.approx(sum(lost) / len(lost), rel=1e-3)


def test_page():
    """The page is what its script writes, and its examples print what it shows."""
    assert choosing_page.page(load("choosing")) == (ROOT / "docs/Choosing.md").read_text(), (
        "run benchmarks/choosing/choosing_page.py")


def test_runs(tmp_path):
    """Each kind runs briefly, in a separate process since the demo and the tests have modules
    with the same names."""
    result = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/choosing/recommended_runs.py"), "--seeds", "1",
         "--strategies", "fp32", "--budgets", "9", "--steps", "10", "--results", str(tmp_path)],
        capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    content = load("choosing", tmp_path)
    cell = content["budgets"]["9"]["0"]
    assert cell["bytes_per_parameter"] <= 9 and 0 < cell["lost_share"] < 1
    assert cell["strategies"]["matrices"] == "flash-f16"
    assert content["strategies"]["fp32"]["0"]["lost_share"] < 0.01
