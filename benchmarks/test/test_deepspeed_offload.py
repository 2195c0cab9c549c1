#===- test_deepspeed_offload.py - Optimizers of DeepSpeed ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/distributed/deepspeed_offload.py: its committed results, and steps of flat
# partitions. What needs DeepSpeed runs where that is installed.
#
#===----------------------------------------------------------------------===#

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks/distributed/deepspeed_offload.py"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(SCRIPT.parent))
    import deepspeed_offload
    sys.path.remove(str(SCRIPT.parent))
    return deepspeed_offload


def test_page_is_up_to_date(script):
    found = script.load("deepspeed_offload")
    assert script.render(found) == script.PAGE.read_text(), f"run {SCRIPT} --page"


def test_committed_training(script):
    """At every stage f32 states train as PyTorch's do, except for the last bits of weights, others
    nearly so, and all of them go on from a checkpoint bit for bit."""
    training = script.load("deepspeed_offload")["training"]
    for stage in map(str, script.STAGES):
        exact = training["torch.optim.AdamW, fused"][stage]["losses"]
        for name in script.STRATEGIES:
            losses = training[name][stage]["losses"]
            assert losses[1] == losses[2]
            assert losses == pytest.approx(exact, rel=1e-4 if name == "fp32" else 1e-3)
    assert training["dither-mulaw"]["2"]["state_bytes"] == 2.25


@pytest.mark.parametrize("name", ("fp32", "flash-f16", "dither-mulaw"))
def test_flat_partitions(script, name):
    """Kernels for other machines take the steps of the optimizer, on its own memory."""
    for isa in script.ISAS:
        step = script.step_of(name, isa, 8192)
        step()
        step()


def test_without_deepspeed(tmp_path):
    (tmp_path / "deepspeed.py").write_text("raise ImportError('none here')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, SCRIPT, "--results", tmp_path], capture_output=True,
                          text=True, env=environment)
    assert done.returncode == 1 and "pip install deepspeed" in done.stderr


def test_training(script):
    pytest.importorskip("deepspeed")
    ours, theirs = (script.in_process(name, 2)["losses"]
                    for name in ("fp32", "torch.optim.AdamW, fused"))
    assert ours == pytest.approx(theirs, rel=1e-4)
