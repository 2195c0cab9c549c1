#===- peers.py - Other optimizers on a GPU ---------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures what PyTorch users would otherwise use in place of the kernels that
# examples/gpu_check measures, for scripts/gpu-check.sh.
#
#===----------------------------------------------------------------------===#
"""Times AdamW steps or layers of torch, Triton, apex, Transformer Engine, torchao or
bitsandbytes on this GPU, one contender per process."""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402
import step_runner  # noqa: E402


#: The numbers of tensors for which host time is measured.
HOST_TENSORS = (400, 4000)


@dataclass(frozen=True)
class Contender:
    """An optimizer, the bytes that a step moves per element, and the factory of a step over some
    tensors, which raises ImportError if the optimizer is not installed."""

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
    """Returns a factory for an optimizer with torch.optim's interface; `load` returns its class."""
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
    """Returns a factory for collage-plus as tensor operations."""
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
    """Returns the reason why nothing can run on the device, or None."""
    try:
        import torch
    except ImportError as error:
        return str(error)
    if device == "cuda" and not torch.cuda.is_available():
        return "this PyTorch finds no GPU"
    return None


def _wait(device):
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _seconds(step, device, steps: int, repeats: int) -> float:
    """Returns the seconds of one step, as the median over some runs."""
    def run():
        start = time.perf_counter()
        for _ in range(steps):
            step()
        _wait(device)
        return (time.perf_counter() - start) / steps

    run()
    return statistics.median(run() for _ in range(repeats))


def models(options) -> dict[str, list[int]]:
    """Returns the models that examples/gpu_check measures, by name: one tensor that consists of
    whole blocks of 128, and the tensors of a GPT-2."""
    return {"one tensor": [max(128, options.elements // 128 * 128)],
            "GPT-2": [rows * columns
                      for rows, columns in common.model_shapes()[-options.tensors:]]}


def measure(contender: Contender, sizes: list[int], options) -> dict:
    """Times a contender over some tensors; if it is absent, the result says why."""
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
    except Exception as error:  # a failing peer must not stop the others
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    finally:
        step = None
        if options.device == "cuda":
            torch.cuda.empty_cache()
    return {"tensors": len(sizes), "elements": sum(sizes), "ms": seconds * 1e3,
            "first_step_s": first, "gb_per_s": contender.bytes * sum(sizes) / seconds * 1e-9}


def measure_peer(contender: Contender, options) -> Iterator[dict]:
    """Yields the results for a contender as they become available."""
    row: dict = {"name": contender.name, "bytes_per_element": contender.bytes, "times": []}
    for name, sizes in models(options).items():
        row["times"].append({"of": name} | measure(contender, sizes, options))
        yield {"peers": [row]}


def measure_layers(whose: str, options) -> Iterator[dict]:
    """Times both passes of one library's layers over rows of 4096."""
    import layer_peers

    rows = []
    for layer in (each for each in layer_peers.LAYERS if each.whose == whose):
        row = {"whose": layer.whose, "layer": layer.name}
        try:
            step = layer_peers.passes(layer, options.rows, 4096, options.device)
            row["ms"] = _seconds(step, options.device, options.steps, 5) * 1e3
        except ImportError as error:
            row["absent"] = str(error)
        except Exception as error:  # a failing peer must not stop the others
            row["failed"] = f"{type(error).__name__}: {error}".splitlines()[0]
        rows.append(row)
        yield {"layer_peers": rows}


def host_times(options) -> dict[str, float]:
    """Returns the microseconds of host time for torch's fused step over small tensors."""
    times = {}
    for count in HOST_TENSORS:
        step = _optimizer(_torch_adamw(fused=True))([2048] * count, options.device)
        step()
        found = []
        for _ in range(2 * options.steps):
            _wait(options.device)
            start = time.perf_counter()
            step()
            found.append(time.perf_counter() - start)
        times[str(count)] = statistics.median(found) * 1e6
    return times


def compare_bits(options) -> list[dict]:
    """Counts the elements for which a step of Triton's kernels differs in bits from separate
    operations."""
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
        except Exception as error:  # Triton fails, for example, without a GPU
            rows.append({"strategy": strategy, "absent": str(error)})
            continue
        rows.append({"strategy": strategy, "elements": options.compared, "differing": {
            name: int((plane.view(integers[plane.element_size()])
                       != planes[name].view(integers[plane.element_size()])).sum())
            for name, plane in want.items()}})
    return rows


#===------------------------------------------------------------------------===#
# The command
#===------------------------------------------------------------------------===#


def names() -> list[str]:
    """Returns the names of the measurements, each of which runs in a separate process."""
    import layer_peers

    layers = dict.fromkeys(f"layers of {layer.whose}" for layer in layer_peers.LAYERS)
    return [c.name for c in CONTENDERS] + [*layers, "host", "bits"]


#: The package that a measurement needs, by the beginning of its name.
_PACKAGES = {"Triton": "triton", "bits": "triton", "apex": "apex", "torchao": "torchao",
             "bitsandbytes": "bitsandbytes", "layers of Liger": "liger_kernel",
             "Transformer Engine": "transformer_engine",
             "layers of Transformer Engine": "transformer_engine"}


def missing(name: str) -> str:
    """Returns the package that a measurement requires if it is not installed."""
    needed = ["torch", *(package for start, package in _PACKAGES.items()
                         if name.startswith(start))]
    return next((package for package in needed if not importlib.util.find_spec(package)), "")


def results(name: str, options) -> Iterator[dict]:
    """Yields the results for a peer as they become available."""
    if name == "host":
        yield {"peers_host_us": host_times(options)}
    elif name == "bits":
        yield {"triton_bits": compare_bits(options)}
    elif name.startswith("layers of "):
        yield from measure_layers(name.removeprefix("layers of "), options)
    else:
        yield from measure_peer(next(c for c in CONTENDERS if c.name == name), options)


def _found(result: dict) -> list[dict]:
    """Returns the rows that have times or reasons why there are none."""
    return [row for peer in result.get("peers", ()) for row in peer["times"]] + [
        *result.get("layer_peers", ()), *result.get("triton_bits", ())]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=names(), metavar="NAME",
                        help=f"one of: {'; '.join(names())}")
    parser.add_argument("--json", type=pathlib.Path, help="where to write what is found")
    parser.add_argument("--elements", type=int, default=10**9, help="of the large tensor")
    parser.add_argument("--tensors", type=int, default=400, help="the last of GPT-2's")
    parser.add_argument("--rows", type=int, default=8192, help="of layers' tensors")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compared", type=int, default=1 << 20)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status for steps.py: 77 if there is nothing to measure."""
    options = parse(arguments)
    os.environ.setdefault("TORCH_LOGS", "-all")
    if reason := why_not(options.device):
        print(reason)
        return step_runner.SKIPPED
    found: list[dict] = []
    for result in results(options.name, options):
        found = _found(result)
        print(json.dumps(found[-1:] or result), flush=True)
        if options.json:
            step_runner.write_json(options.json, result)
    if found and all("absent" in row for row in found):
        print(found[0]["absent"])
        return step_runner.SKIPPED
    return int(any("failed" in row for row in found))


if __name__ == "__main__":
    sys.exit(main())
