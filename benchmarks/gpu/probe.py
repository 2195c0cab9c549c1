#===- probe.py - Describe a GPU machine -----------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the first step of scripts/gpu-check.sh: it lists the GPU, driver and
# programs, and runs a kernel of one element. It changes no setting.
#
#===----------------------------------------------------------------------===#
"""probe.py --json FILE [--gpu-check COMMAND...]: facts about this machine."""

import argparse
import importlib.metadata
import importlib.util
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402
import step_runner  # noqa: E402

#: The fields that nvidia-smi is asked for. A field that it does not know does not hide others.
QUERIES = ("name", "driver_version", "memory.total", "clocks.max.sm", "clocks.max.mem",
           "clocks.sm", "clocks.mem", "ecc.mode.current", "mig.mode.current",
           "persistence_mode", "compute_mode", "power.limit", "temperature.gpu",
           "clocks_event_reasons.active")
PACKAGES = ("torch", "triton", "jax", "numpy", "pytest", "apex", "transformer_engine",
            "torchao", "bitsandbytes", "liger_kernel")
_SM = "clocks.max.sm"


def ask(*command: str, seconds: float = 15) -> str:
    """Returns a program's output, or the reason why it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not known: {error}"
    return (done.stdout.strip() if done.returncode == 0
            else f"not known: {(done.stderr or done.stdout).strip()}")


def _query(*names: str) -> list[str]:
    answer = ask("nvidia-smi", "--id=0", f"--query-gpu={','.join(names)}",
                 "--format=csv,noheader,nounits")
    return [answer] if len(names) == 1 else answer.split(", ")


def nvidia() -> dict:
    """Returns nvidia-smi's fields for the first GPU, in one call if it knows all of them."""
    found: dict = dict(zip(QUERIES, answers)) if len(answers := _query(*QUERIES)) == len(
        QUERIES) else {name: _query(name)[0] for name in QUERIES}
    try:
        found["clock_hz"] = float(found[_SM].split()[0]) * 1e6
    except (ValueError, IndexError):
        pass
    return found


def find_ptxas() -> str:
    """Returns the path of ptxas: on PATH, in a CUDA toolkit or in Triton's package."""
    triton = pathlib.Path(getattr(importlib.util.find_spec("triton"), "origin", None) or "/")
    for path in (shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas",
                 triton.parent / "backends/nvidia/bin/ptxas"):
        if path and pathlib.Path(path).exists():
            return str(path)
    return ""


def software() -> dict[str, str]:
    """Returns the versions of installed software."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    ptxas = find_ptxas()
    lines = ask(ptxas, "--version").splitlines() if ptxas else []
    release = next((line for line in lines if "release" in line), "")
    return found | {"python": sys.version.split()[0], "ptxas": release or "none",
                    "gcc": (ask("g++", "--version").splitlines() or ["none"])[0]}


def torch_cuda() -> str:
    """Asks PyTorch for the GPU in a separate process, which may crash."""
    return ask(sys.executable, "-c", "import torch; print(torch.version.cuda, "
               "torch.cuda.is_available() and torch.cuda.get_device_name(0))", seconds=40)


def main() -> int:
    """Returns 1 if the kernel of one element fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--gpu-check", nargs=argparse.REMAINDER, default=[])
    options = parser.parse_args()
    result: dict = {"machine": common.machine() | software()}
    for name, find in (("nvidia", nvidia), ("torch_cuda", torch_cuda)):
        step_runner.write_json(options.json, result)
        result[name] = find()
    for name, value in [*result["machine"].items(), *result["nvidia"].items(),
                        ("torch", result["torch_cuda"])]:
        print(f"{name}: {value}")
    inner = options.json.with_name("probe.kernel.json")
    code = subprocess.call([*options.gpu_check, f"--json={inner}"]) if options.gpu_check else 0
    step_runner.write_json(options.json, step_runner.read_json(inner) | result)
    return code


if __name__ == "__main__":
    sys.exit(main())
