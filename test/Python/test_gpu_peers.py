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

import common
import gpu_page
import layer_peers
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


def measured(tmp_path, monkeypatch, *arguments):
    """What peers.py makes of a report of gpu_check's."""
    report, prepared = tmp_path / "report.json", tmp_path / "prepared.json"
    time = {"of": "one tensor", "tensors": 1, "elements": 10**6, "ms": 2.0, "gb_per_s": 7.0}
    kernel = {"kernel": "adamw under bf16", "verdict": "equal", "bytes_per_element": 14,
              "start_ms": {"compiled": 30.0, "cached": 3.0}, "times": [time]}
    passes = [kernel | {"kernel": f"{name} under coat", "times": [
        time | {"of": "8192 rows of 4096", "ms": ms}]}
        for name, ms in (("rms_norm", 1.0), ("rms_norm_backward", 2.5))]
    report.write_text(json.dumps({
        "device": "a GPU", "target": "sm_90", "driver": 13000, "copy_gb_per_s": 10.0,
        "multiprocessors": 100, "products": [{
            "product": "E4M3 by E4M3", "verdict": "right", "rows": 8192, "columns": 4096,
            "depth": 4096, "ms": 0.25, "tflop_per_s": 1099.5}], "kernels": [kernel, kernel | {"verdict": "late", "times": []}, *passes],
        "host_us": {"400": {"launch": 3.0, "same_list": 4.0, "changed_per_tensor": 0.2}}}))
    prepared.write_text(json.dumps({"instructions": {"adamw under bf16": 25600},
                                    "made": {"commit": "f00d" * 10}}))
    monkeypatch.setattr(peers, "clock_hz", lambda: 1e9)
    monkeypatch.setattr(sys, "argv", ["peers", str(report), "--prepared", str(prepared),
                                      *arguments])
    assert peers.main() == 0
    return json.loads(report.read_text())


def test_peers_without_a_gpu(tmp_path, monkeypatch, capsys):
    """Rows for all, times for those that there are, reasons for the others."""
    monkeypatch.setattr(peers, "CONTENDERS", [
        c for c in peers.CONTENDERS if "compile" not in c.name and "Triton" not in c.name])
    monkeypatch.setattr(layer_peers, "LAYERS", [
        layer for layer in layer_peers.LAYERS if layer.whose != "torch.compile"])
    found = measured(tmp_path, monkeypatch, "--device", "cpu", "--elements", "4000",
                     "--tensors", "3", "--steps", "1", "--compared", "1280", "--rows", "2")
    rows = {row["name"]: row["times"] for row in found["peers"]}
    assert rows["torch fused AdamW, f32"][0]["ms"] > 0
    assert [t["elements"] for t in rows["eager collage-plus"]] == [3968, 448 + 2 * 448]
    assert all("absent" in t or t["ms"] > 0 for times in rows.values() for t in times)
    layers = {(row["whose"], row["layer"]): row for row in found["layer_peers"]}
    assert all(layers["torch", name]["ms"] > 0 for name in (
        "rms_norm", "layer_norm", "gelu", "swiglu", "cross_entropy"))
    assert all("ms" in row or "absent" in row for row in layers.values())
    assert set(found["peers_host_us"]) == {"400", "4000"}
    time = found["kernels"][0]["times"][0]
    assert time["predicted_ms"] == {"bytes": 1.4, "instructions": 2.0}
    assert time["achieved_of_predicted"] == 1.0 and found["machine"]["commit"] == "f00d" * 10
    text = capsys.readouterr().out
    assert "100% achieved" in text and "torch fused AdamW, host" in text
    page = gpu_page.render(found)
    assert "| Tandem, coat | rms_norm | 3.500 |" in page and "| torch | swiglu |" in page
    assert "| E4M3 by E4M3 | right | 0.250 | 1100 |" in page
    assert "3 of 4 kernels leave the CPU's bits" in page
    assert "| adamw under bf16 | equal | 14 | 2.000 | 7 | 70% | 100% |" in page
    assert "| torch fused AdamW, f32 | GPT-2 |" in page and "30.0 ms where the driver" in page


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(tmp_path, monkeypatch, capsys):
    """What is measured already is kept and completed."""
    found = measured(tmp_path, monkeypatch)
    assert "peers" not in found and "predicted_ms" in found["kernels"][0]["times"][0]
    assert "left out: this PyTorch finds no GPU" in capsys.readouterr().out
    assert "### Others" not in gpu_page.render(found)


def test_page_is_up_to_date():
    want = gpu_page.render(common.load("gpu-check"))
    assert gpu_page.PAGE.read_text() == want, "run benchmarks/gpu/gpu_page.py"
    assert "Not yet measured" in gpu_page.render(None)
