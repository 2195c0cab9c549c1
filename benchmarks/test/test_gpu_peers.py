#===- test_gpu_peers.py - Other optimizers --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/gpu without a GPU: the reference updates for other kernels' bits are
# Tandem's, Triton's kernels run in its interpreter, and missing packages are skipped.
#
#===----------------------------------------------------------------------===#

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
import peers
import references
import step_report
import step_runner


@pytest.mark.parametrize("strategy", references.REFERENCES)
def test_references_have_tandems_bits(strategy):
    planes = references.planes_of(strategy, 128 * 20, "cpu")
    want = references.REFERENCES[strategy](planes)
    kernel = tandem.compile("adamw", strategy, path=[FOLDER])
    hypers = references.H
    kernel(planes, lr=hypers.lr, beta1=hypers.beta1, beta2=hypers.beta2, eps=hypers.eps,
           weight_decay=hypers.weight_decay, step=hypers.step)
    moved = sum((plane.read + plane.written) * plane.bytes_per_element
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


def results(name, tmp_path, *arguments):
    """Returns the status and the JSON of a peer's process on the CPU."""
    path = tmp_path / "peer.json"
    status = peers.main([name, "--json", str(path), "--device", "cpu", "--elements", "4000",
                         "--tensors", "3", "--steps", "1", "--compared", "1280", "--rows", "2",
                         *arguments])
    return status, step_runner.read_json(path)


def record(name, **result):
    return {"name": name, "status": "passed", "reason": "", "seconds": 1.0, "result": result}


def report_of(*more):
    """Returns the report merged from the records of gpu_check's parts and other records."""
    time = {"of": "one tensor", "tensors": 1, "elements": 10**6, "ms": 2.0, "gb_per_s": 7.0}
    kernel = {"kernel": "adamw under bf16", "verdict": "equal", "error": "", "times": [],
              "bytes_per_element": 14}
    passes = [kernel | {"kernel": f"{name} under coat", "times": [
        time | {"of": "8192 rows of 4096", "ms": ms}]}
        for name, ms in (("rms_norm", 1.0), ("rms_norm_backward", 2.5))]
    device = {"device": "a GPU", "target": "sm_90", "driver": 13000, "multiprocessors": 100}
    late = kernel | {"kernel": "sgd under bf16", "verdict": "", "error": "late"}
    records = [
        record("probe", nvidia={"clock_hz": 1e9}, machine=common.machine(), **device),
        *(record(f"kernels/all.{image}", kernels=[kernel, late, *passes])
          for image in ("ptx", "O0")),
        record("large/adamw", kernels=[kernel | {"large": {"elements": 2**31}}]),
        record("speed/adamw", kernels=[kernel | {"times": [time]}], copy_gb_per_s=10.0),
        record("start/adamw", kernels=[
            kernel | {"start_ms": {"compiled": 30.0, "cached": 3.0}}]),
        record("host", host_us={"400": {"launch": 3.0, "same_list": 4.0,
                                        "changed_per_tensor": 0.2}}),
        record("products", products=[{
            "product": "E4M3 by E4M3", "verdict": "right", "rows": 8192, "columns": 4096,
            "depth": 4096, "ms": 0.25, "tflop_per_s": 1099.5}]),
        *more, {"name": "speed-rest/lion"},
        record("torch/steps") | {"status": "crashed", "reason": "SIGSEGV"}]
    prepared = {"cycles": {"adamw under bf16": 200}, "made": {"commit": "f00d" * 10}}
    return step_report.merge(records, prepared)


def test_peers_without_a_gpu(tmp_path):
    """The page has times of the peers that are installed."""
    status, fused = results("torch fused AdamW, f32", tmp_path)
    (peer,) = fused["peers"]
    assert status == 0 and [t["of"] for t in peer["times"]] == ["one tensor", "GPT-2"]
    assert all(t["ms"] > 0 for t in peer["times"])
    status, eager = results("eager collage-plus", tmp_path)
    assert [t["elements"] for t in eager["peers"][0]["times"]] == [3968, 448 + 2 * 448]
    status, layers = results("layers of torch", tmp_path)
    assert status == 0 and {row["layer"] for row in layers["layer_peers"] if row["ms"] > 0} == {
        "rms_norm", "layer_norm", "gelu", "swiglu", "cross_entropy"}
    report = report_of(*(record(f"peers/{i}", **each)
                         for i, each in enumerate((fused, eager, layers))))
    time = report["kernels"][0]["times"][0]
    assert time["predicted_ms"] == {"bytes": 1.4, "instructions": 2.0}
    assert time["achieved_of_predicted"] == 1.0 and report["machine"]["commit"] == "f00d" * 10
    assert "100% of predicted" in step_report.table(report)
    page = gpu_page.render(report)
    assert "| Tandem, coat | rms_norm | 3.500 |" in page and "| torch | swiglu |" in page
    assert "| E4M3 by E4M3 | right | 0.250 | 1100 |" in page
    assert "3 of 4 kernels leave the CPU's bits: 3 of 4 as the driver compiles them, " in page
    assert "Large tensors: adamw under bf16 over 2147483648 elements (equal)." in page
    assert "| adamw under bf16 | equal | 14 | 2.000 | 7 | 70% | 100% |" in page
    assert "| torch fused AdamW, f32 | GPT-2 |" in page and "30.0 ms where the driver" in page
    assert "| speed-rest | 1 not run |" in page and "- `torch/steps` crashed: SIGSEGV" in page


def test_host_times(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "HOST_TENSORS", (4, 400))
    status, found = results("host", tmp_path)
    assert status == 0 and set(found["peers_host_us"]) == {"4", "400"}
    assert gpu_page.render(report_of(record("peers/host", **found))).count("| 400 |") == 1


def test_what_is_not_there(tmp_path, monkeypatch, capsys):
    """Missing packages give a reason and the status for skipping; errors of a peer are failures."""
    def absent():
        raise ImportError("no such package")

    def broken():
        raise RuntimeError("no kernel image")

    for name, load, status in (("absent", absent, step_runner.SKIPPED), ("broken", broken, 1)):
        monkeypatch.setattr(peers, "CONTENDERS", [
            peers.Contender(name, 10, peers._optimizer(load))])
        assert results(name, tmp_path)[0] == status
    assert "no such package" in capsys.readouterr().out
    if not torch.cuda.is_available():
        assert results("broken", tmp_path, "--device", "cuda")[0] == step_runner.SKIPPED
        assert "this PyTorch finds no GPU" in capsys.readouterr().out
    monkeypatch.setitem(peers._PACKAGES, "broken", "no_such_package")
    assert peers.missing("broken") == "no_such_package" and peers.missing("host") == ""


def test_a_report_without_peers():
    report = report_of()
    assert report["peers"] == [] and "### Others" not in gpu_page.render(report)


def test_page_is_up_to_date():
    want = gpu_page.render(common.load("gpu-check"))
    assert gpu_page.PAGE.read_text() == want, "run benchmarks/gpu/gpu_page.py"
    assert "Not yet measured" in gpu_page.render(None)
