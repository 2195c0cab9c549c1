#===- test_gpu_check.py - The check of real GPUs ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the test of examples/gpu_check without a GPU: the CPU stands
# in for it, with code for another instruction set.
#
#===----------------------------------------------------------------------===#

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import tandem
from support.kernels import compiled
from tandem import _tandem

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = Path(_tandem.__file__).resolve().parents[2] / "runtime"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    path = tmp_path_factory.mktemp("gpu_check") / "gpu_check"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-Wall", "-Werror", f"-I{ROOT}/runtime/include",
         *map(str, (ROOT / "examples" / "gpu_check").glob("*.cpp")), "-o", str(path),
         f"-L{RUNTIME}", "-ltandem_runtime", f"-Wl,-rpath,{RUNTIME}"], check=True)
    return path


def run(program, *arguments, **environment):
    return subprocess.run([str(program), *map(str, arguments)], capture_output=True,
                          text=True, env=os.environ | environment)


def test_kernels_are_compared_bit_for_bit(program, tmp_path):
    packages = []
    for graph, strategy in [("adamw", "coat"), ("lamb", "bf16"), ("adafactor", "fp32")]:
        packages.append(tmp_path / f"{graph}.tdm")
        compiled(graph, strategy, flags=True).save(packages[-1], ["x86-64", "x86-64-v3"])
    report = tmp_path / "report.json"
    done = run(program, "--cpu", f"--json={report}", *packages)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 kernels leave the CPU's bits" in done.stdout
    kernels = json.loads(report.read_text())["kernels"]
    assert [k["kernel"] for k in kernels] == [
        "adamw under coat", "lamb under bf16", "adafactor under fp32"]
    assert {k["verdict"] for k in kernels} == {"equal"}


def test_layers_are_compared(program, tmp_path):
    packages = []
    for layer, recipe in [("rms_norm", "coat"), ("cross_entropy", "coat"), ("keep", "bf16"),
                          ("swiglu", "coat-fp8")]:
        packages.append(tmp_path / f"{layer}.tdm")
        tandem.save(packages[-1], [tandem.compile(layer, recipe, function=function)
                                   for function in (layer, f"{layer}_backward")],
                    ["x86-64", "x86-64-v3"])
    report = tmp_path / "report.json"
    done = run(program, "--cpu", f"--json={report}", *packages)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 of 8 kernels leave the CPU's bits" in done.stdout
    assert [k["kernel"] for k in json.loads(report.read_text())["kernels"]][:2] == [
        "rms_norm under coat", "rms_norm_backward under coat"]


def test_times_of_layers(program, tmp_path):
    package, report = tmp_path / "rms_norm.tdm", tmp_path / "report.json"
    kernels = [tandem.compile("rms_norm", "coat", function=function)
               for function in ("rms_norm", "rms_norm_backward")]
    tandem.save(package, kernels, ["x86-64", "sm_90"])
    run(program, "--elements=20000", f"--json={report}", package,
        TANDEM_CUDA_DRIVER=str(RUNTIME / "cts" / "libtandem_fake_cuda.so"),
        TANDEM_CACHE_DIR=str(tmp_path))
    rows = json.loads(report.read_text())["kernels"]
    assert [(t["of"], t["elements"]) for row in rows for t in row["times"]] == 2 * [
        ("rows of 4096", 4 * 4096), ("8192 rows of 4096", 4 * 4096)]
    # x and y in bf16, and a code and a scale of 2 bytes for 16; dy, x and dx.
    assert [row["bytes_per_element"] for row in rows] == [4 + 1.125, 4 + 1.125]


def test_times(program, tmp_path):
    """A driver that computes nothing: other bits, but times of all that is measured."""
    package, report = tmp_path / "adamw.tdm", tmp_path / "report.json"
    compiled("adamw", "bf16", flags=True).save(package, ["x86-64", "sm_90"])
    done = run(program, "--elements=10000", "--tensors=3", f"--json={report}", package,
               TANDEM_CUDA_DRIVER=str(RUNTIME / "cts" / "libtandem_fake_cuda.so"),
               TANDEM_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1 and "0 of 1 kernels leave the CPU's bits" in done.stdout
    content = json.loads(report.read_text())
    kernel, = content["kernels"]
    assert [(t["of"], t["tensors"], t["elements"]) for t in kernel["times"]] == [
        ("one tensor", 1, 8000), ("GPT-2", 3, 3 * 448)]
    assert all(t["ms"] > 0 and t["gb_per_s"] > 0 for t in kernel["times"])
    assert kernel["bytes_per_element"] == 14 and kernel["start_ms"]["cached"] > 0
    assert set(content["host_us"]) == {"400", "4000"}


def test_products(program, tmp_path):
    """By libraries that stand in for CUDA's; without cuBLASLt the check goes on."""
    package, report = tmp_path / "adamw.tdm", tmp_path / "report.json"
    compiled("adamw", "bf16").save(package, ["x86-64", "sm_90"])

    def products(library):
        run(program, "--elements=1000", "--tensors=1", "--width=32", f"--json={report}", package,
            TANDEM_CUDA_DRIVER=str(RUNTIME / "cts" / "libtandem_fake_cuda.so"),
            TANDEM_CACHE_DIR=str(tmp_path), TANDEM_CUBLASLT=str(library))
        return json.loads(report.read_text())["products"]

    rows = products(RUNTIME / "cts" / "libtandem_fake_cublaslt.so")
    assert [row["product"] for row in rows] == [
        "bf16 by bf16", "E4M3 by E4M3", "E4M3 by E4M3, fast sums", "E5M2 by E4M3"]
    assert {row["verdict"] for row in rows} == {"right"}
    assert all(row["ms"] > 0 and row["rows"] == 64 for row in rows)
    rows = products(tmp_path / "nowhere.so")
    assert all("there is no cuBLASLt" in row["verdict"] for row in rows)


def test_what_does_not_run_is_no_success(program, tmp_path):
    kernel = compiled("sgd", "fp32")
    late, lacking = tmp_path / "late.tdm", tmp_path / "lacking.tdm"
    kernel.save(late, ["x86-64"])
    kernel.save(lacking, ["x86-64-v3"])
    done = run(program, "--cpu", lacking)
    assert done.returncode == 1 and "has no code for x86-64" in done.stdout
    done = run(program, "--cpu", "--seconds=-1", late)
    assert done.returncode == 1 and "not run, the time is up" in done.stdout


def test_arguments(program, tmp_path):
    assert "usage: gpu_check" in run(program).stderr
    assert run(program, "--unknown", tmp_path / "x").returncode == 2
    missing = run(program, "--cpu", tmp_path / "missing.tdm")
    assert missing.returncode == 2 and "gpu_check: " in missing.stderr
