#===- test_cuda.py - Plans on a GPU ----------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that plans on a GPU have the bits of plans on the CPU. The runtime is the same,
# but a library replaces the driver and the PTX evaluator the GPU, unless TANDEM_TEST_GPU=real
# selects a real one.
#
#===----------------------------------------------------------------------===#

import numpy as np
import pytest

import tandem
from model import SCALED_LIBRARY, STRATEGIES, TENSOR_LIBRARY, cases
from support.fake_gpu import IS_REAL, DLPackArray, open_gpu
from support.kernels import (assert_same, compiled, integers_of, run, run_plan,
                             seed_of)

LIBRARY = STRATEGIES | SCALED_LIBRARY | TENSOR_LIBRARY
SIZES = (300, 0, 1, 131)
# The cases have one phase; groups; reductions over tensors and the model; a per-tensor scale, which
# is committed; and a given scale.
CASES = [("adamw", "fp32"), ("adamw", "collage-plus"), ("lion", "bf16-stochastic"),
         ("adamw", "coat"), ("adamw", "flash"), ("lamb", "collage-light"),
         ("adamw_clip", "bf16"), ("adamw", "fp8-lm"), ("sgd", "fp8-lm-delayed")]

each = pytest.mark.parametrize("graph, strategy", CASES)


@pytest.fixture(scope="module")
def gpu():
    return open_gpu()


@pytest.fixture(autouse=True)
def no_violations(gpu):
    yield
    gpu.check()


def examples(graph, strategy, kind="mixed"):
    return [cases.state(graph, LIBRARY[strategy], kind, size,
                        seed_of(graph, strategy, size)) for size in SIZES]


def rows_of(graph, strategy):
    typical = cases.hypers(graph, LIBRARY[strategy])
    return [typical, typical | {"lr": 0.25}]


class OnGPU:
    """A kernel over tensors in device memory."""

    def __init__(self, gpu, kernel, tensors, sizes=None):
        self.gpu, self.kernel = gpu, kernel
        self.plan = tandem.Plan(kernel, gpu.device)
        self.tensors = [gpu.arrays(planes) for planes in tensors]
        measure = next(p.name for p in kernel.planes if p.sets_size)
        sizes = sizes or [len(planes[measure]) for planes in tensors]
        self.plan.update(sizes, [[planes[p.name].address for p in kernel.planes]
                                 for planes in self.tensors],
                         rows=[i % 2 for i in range(len(tensors))])

    def scalars(self, rows):
        scalars = [self.kernel.scalars(row | integers_of(self.kernel)) for row in rows]
        return [h for h, _ in scalars], [i for _, i in scalars]

    def read(self):
        self.gpu.device.synchronize()
        self.gpu.check()
        return [{name: array.read() for name, array in planes.items()}
                for planes in self.tensors]


def of_cpu(graph, strategy, tensors, rows, **options):
    kernel = compiled(graph, strategy, **options)
    return run_plan(kernel, tensors, rows, [i % 2 for i in range(len(tensors))])


def check_all(got, want, context):
    for i, (planes, expected) in enumerate(zip(got, want)):
        assert_same(planes, expected, f"{context}, tensor {i}")


@each
def test_a_plan_leaves_the_bits_of_the_cpu(gpu, graph, strategy):
    tensors, rows = examples(graph, strategy), rows_of(graph, strategy)
    on_gpu = OnGPU(gpu, compiled(graph, strategy, "sm_90"), tensors)
    gpu.launched.clear()
    on_gpu.plan.launch_async(*on_gpu.scalars(rows))
    check_all(on_gpu.read(), of_cpu(graph, strategy, tensors, rows), strategy)
    name = f"tandem_{on_gpu.kernel.name}"
    assert gpu.is_real or gpu.launched[0] == f"{name}_prologue" and name in gpu.launched


@each
def test_a_skipped_step_leaves_every_byte(gpu, graph, strategy):
    tensors, rows = examples(graph, strategy), rows_of(graph, strategy)
    on_gpu = OnGPU(gpu, compiled(graph, strategy, "sm_90"), tensors)
    found_inf = gpu.arrays({"": np.ones(1, np.float32)})[""]
    on_gpu.plan.launch_async(*on_gpu.scalars(rows), skip=found_inf.address)
    check_all(on_gpu.read(), tensors, "skipped")
    found_inf.write(np.zeros(1, np.float32))
    on_gpu.plan.launch_async(*on_gpu.scalars(rows), skip=found_inf.address)
    check_all(on_gpu.read(), of_cpu(graph, strategy, tensors, rows), "not skipped")


def test_scalars_in_the_memory_of_the_device(gpu):
    graph, strategy = "adamw", "collage-plus"
    tensors, rows = examples(graph, strategy), rows_of(graph, strategy)
    on_gpu = OnGPU(gpu, compiled(graph, strategy, "sm_90"), tensors)
    hypers, integers = on_gpu.scalars(rows)
    arrays = gpu.arrays({"hypers": np.array(hypers, np.float64),
                         "integers": np.array(integers, np.int64)})
    on_gpu.plan.launch_on_device(arrays["hypers"].address, arrays["integers"].address, 2)
    check_all(on_gpu.read(), of_cpu(graph, strategy, tensors, rows), "on the device")


def test_matrices(gpu):
    shapes = [(5, 7), (1, 1), (3, 300)]
    kernels = {target: compiled("adafactor", "bf16", target)
               for target in ("cpu", "sm_90")}
    rng = np.random.default_rng(5)
    tensors = [{p.name: rng.integers(0x3c00, 0x3f00, p.entries(columns, rows)).astype(
        {16: np.uint16, 32: np.uint32}[p.bits]) << (p.bits - 16)
        for p in kernels["cpu"].planes} for rows, columns in shapes]
    hypers = [{} for _ in range(2)]
    on_gpu = OnGPU(gpu, kernels["sm_90"], tensors, shapes)
    scalars = on_gpu.scalars(hypers)
    want = [{n: p.copy() for n, p in planes.items()} for planes in tensors]
    plan = tandem.Plan(kernels["cpu"])
    plan.update(shapes, [[planes[p.name].ctypes.data for p in kernels["cpu"].planes]
                         for planes in want], rows=[i % 2 for i in range(len(shapes))])
    plan.launch(*scalars)
    on_gpu.plan.launch_async(*scalars)
    check_all(on_gpu.read(), want, "adafactor")


def test_metrics_and_flags(gpu):
    graph, strategy = "adamw", "bf16"
    tensors, rows = examples(graph, strategy, "ordinary"), rows_of(graph, strategy)
    sums = []
    for target in ("cpu", "sm_90"):
        kernel = compiled(graph, strategy, target, metrics=True, flags=True)
        if target == "cpu":
            arrays = [{n: p.copy() for n, p in planes.items()} for planes in tensors]
            plan = tandem.Plan(kernel)
            plan.update(SIZES, [[planes[p.name].ctypes.data for p in kernel.planes]
                                for planes in arrays],
                        rows=[i % 2 for i in range(len(SIZES))])
            on_gpu = None
        else:
            on_gpu = OnGPU(gpu, kernel, tensors)
            plan = on_gpu.plan
        scalars = [kernel.scalars(row | integers_of(kernel)) for row in rows]
        flags = plan.launch([h for h, _ in scalars], [i for _, i in scalars])
        sums.append([plan.metrics(i) for i in (-1, 0, 1, 2, 3)])
        assert flags == plan.flags() == 0
    np.testing.assert_array_equal(np.array(sums[0]).view(np.uint64),
                                  np.array(sums[1]).view(np.uint64))
    gradient = on_gpu.tensors[0]["grad"]
    bad = tensors[0]["grad"].copy()
    bad[17] = 0x7F80
    gradient.write(bad)
    plan.launch_async(*on_gpu.scalars(rows))
    assert plan.flags() == tandem.NON_FINITE


def test_a_call_takes_arrays_on_the_device(gpu):
    graph, strategy = "adamw", "coat"
    planes = examples(graph, strategy)[0]
    hypers = cases.hypers(graph, LIBRARY[strategy])
    want = run(compiled(graph, strategy), planes, hypers)
    kernel, arrays = compiled(graph, strategy, "sm_90"), gpu.arrays(planes)
    assert kernel(arrays, **hypers, **integers_of(kernel)) == 0
    gpu.check()
    assert_same({name: array.read() for name, array in arrays.items()}, want, "called")
    with pytest.raises(ValueError, match="the arrays of adamw under coat are on several"):
        kernel(arrays | {"grad": planes["grad"]}, **hypers, **integers_of(kernel))


#: DLPack's type codes for plane types.
DLPACK_CODES = {"bf16": 4, "f16": 2, "f32": 2, "f8E4M3FN": 10, "f8E5M2": 12,
                "f8E8M0FNU": 14, "i8": 0, "i16": 0}


@pytest.mark.parametrize("graph, strategy", [("adamw", "coat"), ("adamw", "remainder"),
                                             ("sgd", "fp8-lm"), ("adamw", "f16")])
def test_a_call_takes_dlpack(gpu, graph, strategy):
    """A call accepts arrays of the plane's own type and of integers."""
    planes = examples(graph, strategy)[0]
    hypers = cases.hypers(graph, LIBRARY[strategy])
    want = run(compiled(graph, strategy), planes, hypers)
    kernel = compiled(graph, strategy, "sm_90")
    for codes in (DLPACK_CODES, dict.fromkeys(DLPACK_CODES, 1)):
        arrays = gpu.arrays(planes)
        kernel({p.name: DLPackArray(arrays[p.name], codes[p.type]) for p in kernel.planes},
               **hypers, **integers_of(kernel))
        gpu.check()
        assert_same({name: array.read() for name, array in arrays.items()}, want, "DLPack")
    arrays = gpu.arrays(planes)
    given = {p.name: DLPackArray(arrays[p.name], 2 if p.type == "bf16" else 4)
             for p in kernel.planes}
    with pytest.raises(TypeError, match="must be"):
        kernel(given, **hypers, **integers_of(kernel))


class Interface:
    """The CUDA array interface of an array on the device."""

    def __init__(self, array, **changes):
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | changes


@pytest.mark.parametrize("changes, message", [
    ({"strides": (4,)}, "array 'param': array is not contiguous"),
    ({"data": (64, True)}, "array 'param' is read-only, or does not say"),
    ({"typestr": "<f4"}, "array 'param' must be bf16"),
    ({"shape": (30,)}, "array 'grad' has 300 elements, 'param' has 30")])
def test_interfaces_of_arrays(gpu, changes, message):
    planes = examples("adamw", "bf16")[0]
    kernel, arrays = compiled("adamw", "bf16", "sm_90"), gpu.arrays(planes)
    arrays["param"] = Interface(arrays["param"], **changes)
    with pytest.raises((TypeError, ValueError), match=message):
        kernel(arrays, **cases.hypers("adamw", LIBRARY["bf16"]), **integers_of(kernel))


def test_dlpack_says_what_may_be_written(gpu):
    planes = examples("adamw", "bf16")[0]
    kernel, arrays = compiled("adamw", "bf16", "sm_90"), gpu.arrays(planes)
    arrays |= {"param": DLPackArray(arrays["param"], 4, read_only=True)}
    with pytest.raises(ValueError, match="array 'param' is read-only, or does not say"):
        kernel(arrays, **cases.hypers("adamw", LIBRARY["bf16"]), **integers_of(kernel))


def test_devices(gpu):
    assert tandem.Device.count() >= 1
    device = tandem.Device(0)
    assert device.target == gpu.device.target and device.memory > 0
    if not IS_REAL:
        assert tandem.Device.count() == 1
        assert repr(device) == "<tandem.Device 0: Fake GPU (sm_90)>"


def test_errors(gpu):
    count = tandem.Device.count()
    with pytest.raises(RuntimeError, match=f"there is no CUDA device {count + 2}; the driver "
                                           f"has {count}"):
        tandem.Device(count + 2)
    with pytest.raises(ValueError, match="there is no driver 'none'; there are cpu, cuda; "):
        tandem.Device(0, "none")
    assert tandem.Device.count("cpu") == 1
    with pytest.raises(ValueError, match="compiled for this process; compile it for 'sm_"):
        tandem.Plan(compiled("adamw", "bf16"), gpu.device)
    with pytest.raises(ValueError, match="no image runs on cpu; there is one for sm_90; compile"):
        tandem.Plan(compiled("adamw", "bf16", "sm_90"))
    with pytest.raises(ValueError, match="no image runs on sm_90; there is one for sm_100"):
        tandem.Plan(compiled("adamw", "bf16", "sm_100"), gpu.device)
