#===- test_gpu_check.py - The check of real GPUs ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests examples/gpu_check without a GPU. In its place are the CPU with code for another
# instruction set, or a library that replaces the driver, with or without the PTX evaluator for
# kernels.
#
#===----------------------------------------------------------------------===#

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tandem
from support.kernels import compiled
from tandem import _tandem

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = Path(_tandem.__file__).resolve().parents[2] / "runtime"


FAKE_CUDA = str(RUNTIME / "cts" / "libtandem_fake_cuda.so")


def build(folder):
    """Builds the program, and also as a library whose main Python can call."""
    library = folder / "libgpu_check.so"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-Wall", "-Werror", "-fPIC", "-shared",
         f"-I{ROOT}/runtime/include",
         *map(str, (ROOT / "examples" / "gpu_check").glob("*.cpp")), "-o", str(library),
         f"-L{RUNTIME}", "-ltandem_runtime", f"-Wl,-rpath,{RUNTIME}"], check=True)
    subprocess.run(["g++", "-x", "c++", "/dev/null", "-x", "none", str(library), "-o",
                    str(folder / "gpu_check"), f"-Wl,-rpath,{folder}"], check=True)


@pytest.fixture(scope="module")
def library(made_once):
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    return made_once("gpu_check", build) / "libgpu_check.so"


@pytest.fixture(scope="module")
def program(library):
    return library.with_name("gpu_check")


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
        TANDEM_CUDA_DRIVER=FAKE_CUDA, TANDEM_CACHE_DIR=str(tmp_path))
    rows = json.loads(report.read_text())["kernels"]
    assert [(t["of"], t["elements"]) for row in rows for t in row["times"]] == 2 * [
        ("rows of 4096", 4 * 4096), ("8192 rows of 4096", 4 * 4096)]
    # bf16 x and y, plus a code and a 2-byte scale per 16 elements; then dy, x and dx.
    assert [row["bytes_per_element"] for row in rows] == [4 + 1.125, 4 + 1.125]


def test_times(program, tmp_path):
    """A driver that computes nothing gives different bits, but times for all measurements."""
    package, report = tmp_path / "adamw.tdm", tmp_path / "report.json"
    compiled("adamw", "bf16", flags=True).save(package, ["x86-64", "sm_90"])
    done = run(program, "--elements=10000", "--tensors=3", f"--json={report}", package,
               TANDEM_CUDA_DRIVER=FAKE_CUDA, TANDEM_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1 and "0 of 1 kernels leave the CPU's bits" in done.stdout
    content = json.loads(report.read_text())
    kernel, = content["kernels"]
    assert [(t["of"], t["tensors"], t["elements"]) for t in kernel["times"]] == [
        ("one tensor", 1, 8000), ("GPT-2", 3, 3 * 448)]
    assert all(t["ms"] > 0 and t["gb_per_s"] > 0 for t in kernel["times"])
    assert kernel["bytes_per_element"] == 14 and kernel["start_ms"]["cached"] > 0
    assert set(content["host_us"]) == {"400", "4000"}


def test_products(program, tmp_path):
    """Stand-in libraries for CUDA's compute products; without cuBLASLt, the check continues."""
    package, report = tmp_path / "adamw.tdm", tmp_path / "report.json"
    compiled("adamw", "bf16").save(package, ["x86-64", "sm_90"])

    def products(library):
        run(program, "--elements=1000", "--tensors=1", "--width=32", f"--json={report}", package,
            TANDEM_CUDA_DRIVER=FAKE_CUDA, TANDEM_CACHE_DIR=str(tmp_path), TANDEM_CUBLASLT=str(library))
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
    assert done.returncode == 1 and "no image for x86-64 runs" in done.stdout
    done = run(program, "--cpu", "--seconds=-1", late)
    assert done.returncode == 1 and "not run, the time is up" in done.stdout


def test_arguments(program, tmp_path):
    assert "usage: gpu_check" in run(program).stderr
    assert run(program, "--unknown", tmp_path / "x").returncode == 2
    for wrong in ("--elements=0", "--image=library", "--seconds", "--width=40", "--start=1"):
        assert run(program, wrong, tmp_path / "x").returncode == 2
    unwritable = run(program, "--cpu", "--json=/nowhere/x", "--products")
    assert unwritable.returncode == 2 and "cannot write '/nowhere/x'" in unwritable.stderr


def test_what_cannot_be_read_costs_only_itself(program, tmp_path):
    package, report = tmp_path / "sgd.tdm", tmp_path / "report.json"
    compiled("sgd", "bf16").save(package, ["x86-64", "x86-64-v3"])
    done = run(program, "--cpu", f"--json={report}", tmp_path / "missing.tdm", package)
    assert done.returncode == 1 and "1 of 2 kernels leave the CPU's bits" in done.stdout
    missing, there = json.loads(report.read_text())["kernels"]
    assert "missing.tdm" in missing["error"] and missing["verdict"] == ""
    assert there["verdict"] == "equal" and there["error"] == ""


def test_no_driver_is_a_part_of_the_json(program, tmp_path):
    report = tmp_path / "report.json"
    done = run(program, "--compare", f"--json={report}", tmp_path / "x.tdm",
               TANDEM_CUDA_DRIVER=str(tmp_path / "nowhere.so"))
    assert done.returncode == 2 and "gpu_check: " in done.stderr
    assert "nowhere.so" in json.loads(report.read_text())["error"]


#===----------------------------------------------------------------------===#
# Modes
#===----------------------------------------------------------------------===#


def test_a_mode_does_only_its_own(program, tmp_path):
    package, report = tmp_path / "adamw.tdm", tmp_path / "report.json"
    compiled("adamw", "bf16").save(package, ["x86-64", "sm_90"])

    def found(mode):
        done = run(program, mode, "--elements=10000", "--tensors=3", f"--json={report}", package,
                   TANDEM_CUDA_DRIVER=FAKE_CUDA, TANDEM_CACHE_DIR=str(tmp_path))
        assert done.returncode == (mode in ("--compare", "--large", "--products")), done.stderr
        content = json.loads(report.read_text())
        (kernel,) = content["kernels"]
        return {name for name, value in [
            ("verdict", kernel["verdict"]), ("times", kernel["times"]),
            ("start", kernel.get("start_ms")), ("large", kernel.get("large")),
            ("host", content["host_us"]), ("products", content["products"])] if value}

    assert found("--compare") == {"verdict"} and found("--measure") == {"times"}
    assert found("--start") == {"start"} and found("--host") == {"host"}
    assert found("--large") == {"verdict", "large"} and found("--products") == {"products"}


@pytest.mark.parametrize("graph, strategy", [("adamw", "adam8bit"), ("adafactor", "fp32")])
def test_a_large_tensor(program, tmp_path, graph, strategy):
    package, report = tmp_path / "large.tdm", tmp_path / "report.json"
    compiled(graph, strategy).save(package, ["x86-64", "x86-64-v3"])
    done = run(program, "--cpu", "--large", "--elements=20000001", f"--json={report}", package)
    assert done.returncode == 0, done.stdout + done.stderr
    (kernel,) = json.loads(report.read_text())["kernels"]
    large = {"elements": 20000001, "compared": 1.0, "note": ""}
    assert kernel["verdict"] == "equal" and kernel["large"] == large


_EVALUATED = """
import ctypes, sys
sys.path.insert(0, {support!r})
from support.fake_gpu import FakeGPU
gpu = FakeGPU({cache!r})
arguments = [argument.encode() for argument in sys.argv[1:]]
status = ctypes.CDLL(sys.argv[1]).main(len(arguments), (ctypes.c_char_p * len(arguments))(
    *arguments))
gpu.check()
sys.exit(status)
"""

#: A program that imitates ptxas; the driver without a GPU accepts its output.
_PTXAS = """#!/bin/sh
for a; do case $a in *.ptx) ptx=$a;; *.cubin) cubin=$a;; esac; done
{ printf 'machine code of\\n'; cat "$ptx"; printf '\\0'; } >"$cubin"
"""


@pytest.fixture
def ptxas(tmp_path):
    path = tmp_path / "ptxas"
    path.write_text(_PTXAS)
    path.chmod(0o755)
    return path


def evaluate(library, tmp_path, *arguments):
    """Runs the program with the PTX evaluator as the GPU."""
    text = _EVALUATED.format(support=str(ROOT / "test/Python"), cache=str(tmp_path / "cache"))
    return subprocess.run([sys.executable, "-c", text, str(library), *map(str, arguments)],
                          capture_output=True, text=True)


@pytest.mark.parametrize("graph, strategy", [("adamw", "coat"), ("lamb", "bf16"),
                                             ("adafactor", "fp32")])
def test_ptx_leaves_the_bits_of_the_cpu(library, ptxas, tmp_path, graph, strategy):
    package = tmp_path / "kernel.tdm"
    compiled(graph, strategy, flags=True).save(package, ["x86-64", "x86-64-v3", "sm_90"])
    for option in ("--image=ptx", f"--ptxas={ptxas} -O0"):
        done = evaluate(library, tmp_path, "--compare", "--largest=300", option, package)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 of 1 kernels leave the CPU's bits" in done.stdout


def test_a_large_tensor_on_a_gpu(library, tmp_path):
    package = tmp_path / "kernel.tdm"
    compiled("adamw", "adam8bit").save(package, ["x86-64", "x86-64-v3", "sm_90"])
    done = evaluate(library, tmp_path, "--large", "--elements=1001", package)
    assert done.returncode == 0 and "100% of the bytes" in done.stdout, done.stdout + done.stderr


def test_images(program, tmp_path):
    package = tmp_path / "kernel.tdm"
    compiled("sgd", "bf16").save(package, ["x86-64", "sm_90"])

    def done(option):
        return run(program, "--compare", "--largest=10", option, package,
                   TANDEM_CUDA_DRIVER=FAKE_CUDA, TANDEM_CACHE_DIR="")

    absent = done("--image=cubin")
    assert absent.returncode == 77 and "the package has no cubin" in absent.stdout
    failed = done("--ptxas=sh -c 'echo no such thing; false'")
    assert failed.returncode == 1 and "does not assemble it: no such thing" in failed.stdout


def test_what_is_known_survives_a_crash(program, ptxas, tmp_path):
    """If ptxas kills the program at the second kernel, the results so far are kept."""
    packages, report, flag = [], tmp_path / "report.json", tmp_path / "flag"
    for strategy in ("bf16", "fp32"):
        packages.append(tmp_path / f"{strategy}.tdm")
        compiled("sgd", strategy).save(packages[-1], ["x86-64", "sm_90"])
    done = run(program, "--measure", "--elements=1000", "--tensors=1", f"--json={report}",
               f"--ptxas=test -e {flag} && kill -SEGV $PPID; touch {flag}; {ptxas}", *packages,
               TANDEM_CUDA_DRIVER=FAKE_CUDA)
    assert done.returncode == -signal.SIGSEGV
    (kernel,) = json.loads(report.read_text())["kernels"]
    assert kernel["kernel"] == "sgd under bf16" and len(kernel["times"]) == 2
