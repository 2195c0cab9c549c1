#===- peers.py - Other optimizers on a GPU ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the measurement of what users of PyTorch would take instead,
# beside what examples/gpu_check has measured, for scripts/gpu-check.sh.
#
#===----------------------------------------------------------------------===#
"""Times of AdamW steps of torch, Triton, apex, Transformer Engine, torchao and
bitsandbytes on this GPU, as far as they can be imported; added to a JSON file."""

import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

#: float32 operations that a multiprocessor begins in a cycle.
LANES = 128


@dataclass(frozen=True)
class Contender:
    """An optimizer, the bytes that a step moves for each element, and what makes a step
    over some tensors, which raises ImportError where it is not installed."""

    name: str
    bytes: float
    make: Callable[[list, str], Callable[[], None]]


#===------------------------------------------------------------------------===#
# Contenders
#===------------------------------------------------------------------------===#


def _params(sizes, device, dtype):
    import torch

    params = [torch.nn.Parameter(torch.randn(n, device=device).to(dtype)) for n in sizes]
    for param in params:
        param.grad = torch.randn_like(param) * 1e-3
    return params


def _optimizer(load: Callable, type: str = "float32"):
    """An optimizer with torch.optim's interface, which `load` returns the class of."""
    def make(sizes, device):
        import torch

        cls, options = load()
        params = _params(sizes, device, getattr(torch, type))
        return cls(params, lr=1e-5, weight_decay=0.01, **options).step

    return make


def _torch_adamw(**options):
    def load():
        import torch

        return torch.optim.AdamW, options

    return load


def _apex():
    from apex.optimizers import FusedAdam

    return FusedAdam, {"adam_w_mode": True}


def _transformer_engine():
    from transformer_engine.pytorch.optimizers import FusedAdam

    return FusedAdam, {"adam_w_mode": True}


def _torchao():
    from torchao.optim import AdamW8bit

    return AdamW8bit, {}


def _bitsandbytes():
    from bitsandbytes.optim import AdamW8bit

    return AdamW8bit, {}


def _planes(strategy, sizes, device):
    import references

    return [references.planes_of(strategy, n, device) for n in sizes]


def _eager(compiles: bool):
    """Collage-plus as tensor operations."""
    def make(sizes, device):
        import eager_collage
        import torch

        update = torch.compile(eager_collage.update) if compiles else eager_collage.update
        tensors, hypers = _planes("collage-plus", sizes, device), eager_collage.Hypers()

        def step():
            for planes in tensors:
                eager_collage.step(planes, hypers, update)

        return step

    return make


def _triton(strategy):
    def make(sizes, device):
        import triton_kernels

        tensors = _planes(strategy, sizes, device)

        def step():
            for planes in tensors:
                triton_kernels.step(strategy, planes)

        return step

    return make


CONTENDERS = [
    Contender("torch fused AdamW, f32", 28, _optimizer(_torch_adamw(fused=True))),
    Contender("torch fused AdamW, bf16", 14, _optimizer(_torch_adamw(fused=True), "bfloat16")),
    Contender("torch foreach AdamW, f32", 28, _optimizer(_torch_adamw(foreach=True))),
    Contender("Triton, f32", 28, _triton("fp32")),
    Contender("Triton, collage-plus", 22, _triton("collage-plus")),
    Contender("Triton, e4m3-groups", 10.125, _triton("e4m3-groups")),
    Contender("eager collage-plus", 22, _eager(False)),
    Contender("torch.compile collage-plus", 22, _eager(True)),
    Contender("apex FusedAdam, f32", 28, _optimizer(_apex)),
    Contender("Transformer Engine FusedAdam, f32", 28, _optimizer(_transformer_engine)),
    Contender("torchao AdamW8bit, bf16", 10, _optimizer(_torchao, "bfloat16")),
    Contender("bitsandbytes AdamW8bit, bf16", 10, _optimizer(_bitsandbytes, "bfloat16")),
]


#===------------------------------------------------------------------------===#
# Measurements
#===------------------------------------------------------------------------===#


def why_not(device: str) -> str | None:
    """Why nothing runs there, if that is so."""
    try:
        import torch
    except ImportError as error:
        return str(error)
    if device == "cuda" and not torch.cuda.is_available():
        return "this PyTorch finds no GPU"
    return None


def software() -> dict[str, str]:
    """Versions of what is measured, where it is installed."""
    found = {}
    for name in ("torch", "triton", "apex", "transformer_engine", "torchao", "bitsandbytes",
                 "liger_kernel"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _wait(device):
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _seconds(step, device, steps: int, repeats: int) -> float:
    """Of one step, the median over some runs."""
    def run():
        start = time.perf_counter()
        for _ in range(steps):
            step()
        _wait(device)
        return (time.perf_counter() - start) / steps

    run()
    return statistics.median(run() for _ in range(repeats))


def models(options) -> dict[str, list[int]]:
    """What examples/gpu_check measures, by name: one tensor, whose blocks of 128 are
    whole, and the tensors of a GPT-2."""
    return {"one tensor": [max(128, options.elements // 128 * 128)],
            "GPT-2": common.model_sizes()[-options.tensors:]}


def measure(contender: Contender, sizes: list[int], options) -> dict:
    """Times of a contender over some tensors; what is absent says why."""
    import torch

    try:
        start = time.perf_counter()
        step = contender.make(sizes, options.device)
        step()
        _wait(options.device)
        first = time.perf_counter() - start
        seconds = _seconds(step, options.device, options.steps, 5)
    except ImportError as error:
        return {"absent": str(error)}
    except Exception as error:  # a peer's, which is not to stop the others
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    finally:
        step = None
        if options.device == "cuda":
            torch.cuda.empty_cache()
    return {"tensors": len(sizes), "elements": sum(sizes), "ms": seconds * 1e3,
            "first_step_s": first, "gb_per_s": contender.bytes * sum(sizes) / seconds * 1e-9}


def measure_all(options) -> list[dict]:
    """A row of each contender, printed as soon as it is known."""
    start, rows = time.monotonic(), []
    for contender in CONTENDERS:
        row = {"name": contender.name, "bytes_per_element": contender.bytes, "times": []}
        for name, sizes in models(options).items():
            late = time.monotonic() - start > options.seconds
            row["times"].append({"of": name} | (
                {"absent": "the time is up"} if late
                else measure(contender, sizes, options)))
        rows.append(row)
        print("\n".join(_lines(row)), flush=True)
    return rows


def measure_layers(options, seconds: float) -> list[dict]:
    """Times of both passes of others' layers over rows of 4096."""
    import layer_peers

    start, rows = time.monotonic(), []
    for layer in layer_peers.LAYERS:
        row = {"whose": layer.whose, "layer": layer.name}
        try:
            if time.monotonic() - start > seconds:
                raise ImportError("the time is up")
            step = layer_peers.passes(layer, options.rows, 4096, options.device)
            row["ms"] = _seconds(step, options.device, options.steps, 5) * 1e3
        except ImportError as error:
            row["absent"] = str(error)
        except Exception as error:  # a peer's, which is not to stop the others
            row["failed"] = f"{type(error).__name__}: {error}".splitlines()[0]
        rows.append(row)
        print(f"{layer.whose} {layer.name}: " + (
            f"{row['ms']:.3f} ms for both passes" if "ms" in row
            else row.get("absent") or row["failed"]), flush=True)
    return rows


def host_times(options) -> dict[str, float]:
    """Microseconds that the host takes for a fused step of torch's over small tensors."""
    times = {}
    for count in (400, 4000):
        step = _optimizer(_torch_adamw(fused=True))([2048] * count, options.device)
        step()
        found = []
        for _ in range(20):
            _wait(options.device)
            start = time.perf_counter()
            step()
            found.append(time.perf_counter() - start)
        times[str(count)] = statistics.median(found) * 1e6
    return times


def compare_bits(options) -> list[dict]:
    """How many elements of a step of Triton's kernels have other bits than single
    operations have."""
    try:
        import references
        import torch
        import triton_kernels
    except ImportError as error:
        return [{"absent": str(error)}]
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32}
    rows = []
    for strategy, reference in references.REFERENCES.items():
        planes = references.planes_of(strategy, options.compared, options.device)
        want = reference(planes)
        try:
            triton_kernels.step(strategy, planes)
        except Exception as error:  # Triton's, such as that there is no GPU
            rows.append({"strategy": strategy, "absent": str(error)})
            continue
        rows.append({"strategy": strategy, "elements": options.compared, "differing": {
            name: int((plane.view(integers[plane.element_size()])
                       != planes[name].view(integers[plane.element_size()])).sum())
            for name, plane in want.items()}})
    return rows


#===------------------------------------------------------------------------===#
# Predictions
#===------------------------------------------------------------------------===#


def clock_hz() -> float | None:
    """The highest clock of the multiprocessors, if nvidia-smi says so."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, check=True)
        return float(done.stdout.split()[0]) * 1e6
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return None


def predict(report: dict, instructions: dict[str, float], clock: float | None) -> None:
    """Adds to each time the least that its bytes, and its instructions, take.

    Bytes move as fast as in a copy; a multiprocessor begins 128 operations a cycle.
    """
    bandwidth = report["copy_gb_per_s"] * 1e9
    for kernel in report["kernels"] if bandwidth else ():
        count = instructions.get(kernel["kernel"])
        for found in kernel["times"]:
            moved = found["elements"] * kernel["bytes_per_element"] / bandwidth
            begun = (found["elements"] * count / (report["multiprocessors"] * LANES * clock)
                     if count and clock else 0.0)
            found["predicted_ms"] = {"bytes": moved * 1e3, "instructions": begun * 1e3}
            found["achieved_of_predicted"] = max(moved, begun) * 1e3 / found["ms"]


#===------------------------------------------------------------------------===#
# Output
#===------------------------------------------------------------------------===#


def _lines(row: dict) -> list[str]:
    lines = [row["name"]]
    for found in row["times"]:
        reason = next((f"{key}: {found[key]}" for key in ("absent", "failed") if key in found),
                      None)
        lines.append(f"  {found['of']:34} " + (reason or (
            f"{found['ms']:9.3f} ms {found['gb_per_s']:8.0f} GB/s  first step "
            f"{found['first_step_s']:.2f} s")))
    return lines


def table(report: dict) -> str:
    """What the JSON says beyond the rows of peers, as text."""
    lines = []
    if host := report.get("peers_host_us"):
        lines.append("torch fused AdamW, host: " + ", ".join(
            f"{us:.1f} us for {count} tensors" for count, us in host.items()))
    for row in report.get("triton_bits", ()):
        lines.append("Triton's bits: " + (
            f"absent: {row['absent']}" if "absent" in row else
            f"{row['strategy']}, of {row['elements']} elements differ "
            + ", ".join(f"{n} of {name}" for name, n in row["differing"].items())))
    for kernel in report["kernels"]:
        for found in (f for f in kernel["times"] if "predicted_ms" in f):
            at_least = found["predicted_ms"]
            lines.append(f"{kernel['kernel']:36} {found['of']:10} at least "
                         f"{at_least['bytes']:.3f} ms for bytes, "
                         f"{at_least['instructions']:.3f} ms for instructions; "
                         f"{found['achieved_of_predicted']:.0%} achieved")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=pathlib.Path, help="what gpu_check has written")
    parser.add_argument("--prepared", type=pathlib.Path,
                        help="JSON: where the packages were made, and instructions of an "
                             "element, by kernel")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--elements", type=int, default=10**9, help="of the large tensor")
    parser.add_argument("--tensors", type=int, default=400, help="the last of GPT-2's")
    parser.add_argument("--rows", type=int, default=8192, help="of layers' tensors")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compared", type=int, default=1 << 20)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    os.environ.setdefault("TORCH_LOGS", "-all")
    report = json.loads(options.json.read_text())
    prepared = json.loads(options.prepared.read_text()) if options.prepared else {}
    report["machine"] = common.machine() | software() | prepared.get("made", {})
    predict(report, prepared.get("instructions", {}), clock_hz())
    if reason := why_not(options.device):
        print(f"other optimizers are left out: {reason}")
    else:
        report["layer_peers"] = measure_layers(options, options.seconds / 3)
        report["peers"] = measure_all(options)
        report["peers_host_us"] = host_times(options)
        report["triton_bits"] = compare_bits(options)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
