#===- test_gpu_peers.py - Other optimizers beside ours ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the tests of benchmarks/gpu without a GPU: the updates that
# other kernels' bits are compared with are Tandem's, Triton's kernels run in its
# interpreter, and what is absent is left out.
#
#===----------------------------------------------------------------------===#

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem
from support.torch_bits import bits

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import peers
import references


@pytest.mark.parametrize("strategy", references.REFERENCES)
def test_references_have_tandems_bits(strategy):
    planes = references.planes_of(strategy, 128 * 20, "cpu")
    want = references.REFERENCES[strategy](planes)
    kernel = tandem.compile("adamw", strategy, path=[FOLDER])
    hypers = references.H
    kernel(planes, lr=hypers.lr, beta1=hypers.beta1, beta2=hypers.beta2, eps=hypers.eps,
           weight_decay=hypers.weight_decay, step=hypers.step)
    moved = sum((plane.read + plane.written) * plane.bits / 8 / plane.group
                for plane in kernel.planes)
    assert moved == references.BYTES[strategy]
    for name, plane in want.items():
        assert np.array_equal(bits(planes[name]), bits(plane)), name


_TRITON = """
import sys
sys.path[:0] = {path!r}
import references, torch, triton_kernels
for strategy, reference in references.REFERENCES.items():
    planes = references.planes_of(strategy, 128 * 11, "cpu")
    want = reference(planes)
    triton_kernels.step(strategy, planes)
    for name in want:
        if name.endswith(".lo"):
            continue
        # The interpreter cuts bf16 off instead of rounding it, so that a code may be
        # the next one.
        got, value = planes[name].float(), want[name].float()
        error = float((got - value).abs().max() / value.abs().max())
        codes = planes[name].element_size() == 1
        assert error <= (0.15 if codes else 2**-6), (strategy, name, error)
"""


def test_kernels_in_tritons_interpreter():
    pytest.importorskip("triton")
    text = _TRITON.format(path=[str(FOLDER), str(FOLDER.parent)])
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True,
                          text=True, env=os.environ | {"TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr


def test_peers_without_a_gpu(tmp_path, monkeypatch, capsys):
    """Rows for all, times for those that there are, reasons for the others."""
    report = tmp_path / "report.json"
    kernel = {"kernel": "adamw under bf16", "verdict": "equal", "elements": 10**6,
              "ms": 2.0, "bytes_per_element": 14}
    report.write_text(json.dumps({"copy_gb_per_s": 10.0, "multiprocessors": 100,
                                  "kernels": [kernel, kernel | {"ms": 0}]}))
    counts = tmp_path / "instructions.json"
    counts.write_text('{"adamw under bf16": 25600}')
    monkeypatch.setattr(peers, "CONTENDERS", [
        c for c in peers.CONTENDERS if "compile" not in c.name and "Triton" not in c.name])
    monkeypatch.setattr(peers, "clock_hz", lambda: 1e9)
    monkeypatch.setattr(sys, "argv", [
        "peers", str(report), "--instructions", str(counts), "--device", "cpu",
        "--gigabytes", "0.0001", "--steps", "1", "--compared", "1280"])
    assert peers.main() == 0
    found = json.loads(report.read_text())
    rows = {row["name"]: row for row in found["peers"]}
    assert rows["torch fused AdamW, f32"]["ms"] > 0
    assert rows["eager collage-plus"]["gb_per_s"] > 0
    assert all("absent" in row or row["ms"] > 0 for row in found["peers"])
    assert set(found["peers_host_us"]) == {"400", "4000"}
    first, second = found["kernels"]
    assert first["predicted_ms"] == {"bytes": 1.4, "instructions": 2.0}
    assert first["achieved_of_predicted"] == 1.0 and "predicted_ms" not in second
    text = capsys.readouterr().out
    assert "100% achieved" in text and "torch fused AdamW, host" in text
