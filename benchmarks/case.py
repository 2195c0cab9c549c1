#===- case.py - One case of the CPU benchmark ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the process that measures one contender at one size, alternately with a
# stream over the same planes.
#
#===----------------------------------------------------------------------===#
"""Run by cpu_step.py with a case as JSON; prints the result as JSON."""

import ctypes
import importlib
import importlib.util
import json
import os
import resource
import sys
import time

import numpy as np
from common import LIMIT_BYTES, SHAPES, UNROUNDED, seconds

HYPERS = dict(lr=1e-5, weight_decay=0.01)
#: The eps for component formats in which 1e-8 rounds to zero, which Tandem refuses.
EPS_F16 = 1e-4
BLOCKS = (256, 2048, 16384)


class Plane(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("width", ctypes.c_int32),
                ("read", ctypes.c_int32), ("written", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("planes", ctypes.POINTER(Plane)), ("count", ctypes.c_int64),
                ("size", ctypes.c_int64)]


def typical(name: str, count: int, seed: int) -> np.ndarray:
    """Returns f32 values of a plane in the middle of a training run."""
    normal = np.random.default_rng(seed).standard_normal(count, dtype=np.float32)
    if name.startswith("exp_avg_sq") and not name.endswith("lo"):
        return normal * normal * np.float32(1e-6) + np.float32(1e-8)
    if name in ("param", "param.master"):
        return normal * np.float32(0.02)
    if name in ("grad", "exp_avg", "momentum_buffer"):
        return normal * np.float32(1e-3)
    return np.zeros(count, np.float32)  # low components, compensations


#: The bits of 2^-10 as a scale.
_SCALES = {"bf16": 0x3A80, "f16": 0x1400, "f32": 0x3A800000, "f8E8M0FNU": 117}


def typical_bits(plane, count: int) -> np.ndarray:
    """Returns the bits of such a plane; 8-bit codes have magnitudes in mid-range."""
    dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32}[plane.bits]
    if plane.name.endswith(".scale"):
        return np.full(count, _SCALES[plane.type], dtype)
    if plane.name.endswith(".exponent"):
        return np.full(count, 16, dtype)
    if plane.bits == 8:
        return np.random.default_rng(len(plane.name)).integers(
            0x28, 0x58, count, dtype)
    block = typical(plane.name, count, len(plane.name)).view(np.uint32)
    if plane.bits == 16:
        block = ((block + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)
    return block


def allocate(plane, columns: int, rows: int = 1) -> np.ndarray:
    """Allocates a matrix's plane of bits. NumPy requests huge pages, so every contender has
    them."""
    size = plane.entries(columns, rows)
    block = typical_bits(plane, min(size, 1 << 20))
    array = np.empty(size, block.dtype)
    for first in range(0, size, block.size):
        part = array[first:first + block.size]
        part[:] = block[:part.size]
    return array


def roofline(library: str, planes, tensors):
    """Returns a function (threads) that streams in place over all planes except scales."""
    planes = [p for p in planes if p.group == 1]
    stream = ctypes.CDLL(library).streamPlanes
    stream.restype = ctypes.c_uint64
    rows = []
    for arrays in tensors:
        row = (Plane * len(planes))(*[
            Plane(arrays[p.name].ctypes.data, p.bits // 8, p.read, p.written)
            for p in planes])
        rows.append(Tensor(row, len(planes), arrays[planes[0].name].size))
    table = (Tensor * len(rows))(*rows)

    def run(threads: int, block: int) -> None:
        stream(table, ctypes.c_int64(len(rows)), ctypes.c_int64(block),
               ctypes.c_int64(threads), ctypes.c_uint64(0))

    run(1, BLOCKS[0])
    best = min(BLOCKS, key=lambda b: min(seconds(lambda: run(1, b))
                                         for _ in range(2)))
    return lambda threads: run(threads, best)


def compile_kernel(case: dict, isa: str = "native"):
    import tandem
    if case["name"] == "unrounded":
        return tandem.compile(UNROUNDED / "adamw.mlir", "unrounded",
                              path=[UNROUNDED], isa=isa)
    return tandem.compile(case["graph"], case["strategy"], isa=isa)


def tandem_step(case: dict, kernel, tensors, shapes):
    """Returns a function (threads) that launches one step over all tensors."""
    import tandem
    plan = tandem.Plan(kernel)
    plan.update(shapes, [[arrays[p.name].ctypes.data for p in kernel.planes]
                         for arrays in tensors])
    given = {name: value for name, value in HYPERS.items() if name in kernel.hypers}
    given |= {name: 10 for name in kernel.integers if name == "step"}
    if case["strategy"].startswith("f16"):
        given["eps"] = EPS_F16
    hypers, integers = kernel.scalars(given)
    return lambda threads: plan.launch([hypers], [integers], threads=threads)


def as_torch(array: np.ndarray):
    import torch
    dtype = torch.bfloat16 if array.itemsize == 2 else torch.float32
    signed = np.int16 if array.itemsize == 2 else np.int32
    return torch.from_numpy(array.view(signed)).view(dtype)


def torch_step(case: dict, tensors):
    """Returns a step of torch.optim.AdamW over the same arrays."""
    import torch
    parameters = []
    for arrays in tensors:
        parameter = torch.nn.Parameter(as_torch(arrays["param"]))
        parameter.grad = as_torch(arrays["grad"])
        parameters.append(parameter)
    optimizer = torch.optim.AdamW(parameters, **HYPERS, **{case["torch"]: True})
    for parameter, arrays in zip(parameters, tensors):
        optimizer.state[parameter] = {
            "step": torch.tensor(9.0), "exp_avg": as_torch(arrays["exp_avg"]),
            "exp_avg_sq": as_torch(arrays["exp_avg_sq"])}

    def run(threads: int) -> None:
        torch.set_num_threads(threads)
        optimizer.step()

    return run


def peer_step(case: dict, tensors):
    """Returns a step of another library's 8-bit AdamW over the same parameters and gradients,
    with its own states."""
    import torch
    library = importlib.import_module(f"{case['package']}.optim")
    parameters = []
    for arrays in tensors:
        parameter = torch.nn.Parameter(as_torch(arrays["param"]))
        parameter.grad = as_torch(arrays["grad"])
        parameters.append(parameter)
    optimizer = library.AdamW8bit(parameters, **HYPERS)

    def run(threads: int) -> None:
        torch.set_num_threads(threads)
        optimizer.step()

    return run


def eager_function(case: dict):
    import eager_collage
    import torch
    if case["name"] == "eager collage-plus":
        return eager_collage.update
    torch._inductor.config.emulate_precision_casts = case.get("casts", False)
    return torch.compile(eager_collage.update, dynamic=False)


def eager_step(case: dict, tensors):
    """Returns a step of collage-plus as torch operations, eager or compiled."""
    import eager_collage
    import torch
    function = eager_function(case)
    planes = [{name: as_torch(array) for name, array in arrays.items()}
              for arrays in tensors]

    def run(threads: int) -> None:
        torch.set_num_threads(threads)
        with torch.no_grad():
            for one in planes:
                eager_collage.step(one, eager_collage.Hypers(), function)

    return run


def same_bits(case: dict, kernel, step_of, size: int) -> int:
    """Counts the elements for which some plane differs from Tandem's after two steps."""
    ours = {p.name: allocate(p, size) for p in kernel.planes}
    theirs = {name: array.copy() for name, array in ours.items()}
    tandem_run, their_run = tandem_step(case, kernel, [ours], [size]), step_of([theirs])
    for _ in range(2):
        tandem_run(1)
        their_run(1)
    differ = np.zeros(size, bool)
    for name in ours:
        differ |= ours[name] != theirs[name]
    return int(differ.sum())


def measure(contenders: dict, threads: list[int], budget: float) -> dict:
    """Returns the seconds of each contender for each thread count, measured alternately."""
    samples = {name: {t: [] for t in threads} for name in contenders}
    for run in contenders.values():
        for count in threads:
            run(count)
    start = time.perf_counter()
    while (turns := len(samples["step"][threads[0]])) < 15:
        if turns >= 3 and time.perf_counter() - start > budget:
            break
        for count in threads:
            for name, run in contenders.items():
                samples[name][count].append(seconds(lambda: run(count)))
        if time.perf_counter() - start > 4 * budget:
            break
    return samples


def main() -> None:
    case = json.loads(sys.argv[1])
    package = case.get("package")
    if package and not importlib.util.find_spec(package):
        print(json.dumps({"absent": f"{package} is not installed"}))
        return
    shapes = SHAPES[case["size"]]
    kernel = compile_kernel(case)
    total = sum(rows * columns for rows, columns in shapes)
    footprint = kernel.bytes_per_parameter * total
    if footprint > LIMIT_BYTES:
        print(json.dumps({"skipped": f"its planes take {footprint / 1e9:.1f} GB, "
                          f"more than {LIMIT_BYTES / 1e9:.0f}"}))
        return
    result = {}
    if case["kind"] == "eager":
        step_of = lambda tensors: eager_step(case, tensors)
        result["differing"] = same_bits(case, kernel, step_of, 1 << 16) / (1 << 16)
    tensors = [{p.name: allocate(p, columns, rows) for p in kernel.planes}
               for rows, columns in shapes]
    step = {"tandem": lambda: tandem_step(case, kernel, tensors, shapes),
            "torch": lambda: torch_step(case, tensors),
            "peer": lambda: peer_step(case, tensors),
            "eager": lambda: eager_step(case, tensors)}[case["kind"]]()
    contenders = {"step": step,
                  "roofline": roofline(case["library"], kernel.planes, tensors)}
    for isa in case.get("isas", ()):
        contenders[isa] = tandem_step(case, compile_kernel(case, isa), tensors, shapes)
    moved = sum(p.bytes_per_element * (p.read + p.written) for p in kernel.planes)
    result |= {"parameters": total, "bytes_moved": moved,
               "bytes_per_parameter": kernel.bytes_per_parameter,
               "has_codes": any(p.bits == 8 and p.group == 1 for p in kernel.planes),
               "samples": measure(contenders, case["threads"], case["budget"]),
               "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
               "load": os.getloadavg()[0]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
