#===- test_jax_gpu.py - JAX's steps on GPUs --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.jax on CUDA. With a driver without a GPU and the PTX evaluator, the lowered
# code has the CPU's bits, and unsupported uses are refused.
#
#===----------------------------------------------------------------------===#

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

import tandem.jax
from support.jax_bits import arrays, gradients
from support.jax_gpu_cases import CASES
from support.jax_on_gpu import COMPILER, build_stand_in
from tandem.jax import _gpu, _library

ROOT = Path(__file__).parents[1]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

#===----------------------------------------------------------------------===#
# Bits
#===----------------------------------------------------------------------===#


def run(*command):
    """Runs a program that can import the shared test modules, and returns its output."""
    path = os.pathsep.join(map(str, [ROOT, *sys.path]))
    result = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True,
                            timeout=500, env=os.environ | {"PYTHONPATH": path})
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def stand_in(made_once):
    return made_once("jax-stand-in", build_stand_in) / "jax_stand_in.so"


@pytest.fixture(scope="module")
def outcomes(made_once, stand_in):
    """Returns the results of the cases on the GPU and on the CPU."""
    def make(folder):
        for mode in ("cpu", "gpu"):
            run(ROOT / "support/jax_gpu_cases.py", mode, stand_in, folder / mode)
    folder = made_once("jax-gpu", make)
    return [pickle.loads((folder / mode).read_bytes()) for mode in ("gpu", "cpu")]


@needs_compiler
@pytest.mark.long_setup("outcomes")
@pytest.mark.parametrize("name", CASES)
def test_bits_of_the_cpu(name, outcomes):
    got, want = (found[name] for found in outcomes)
    assert want and got.keys() == want.keys()
    for path, leaf in want.items():
        assert got[path] == leaf, path


@pytest.mark.parametrize("value", [
    0.0, -0.0, 1.0, 1e-3, -2.5, 2.0**-126, -(2.0**-149), 2.0**-127 + 2.0**-149, 1e-40,
    3.4028234663852886e38, np.inf, -np.inf])
def test_f32_in_f64(value):
    words = np.asarray(_gpu.words_of_f64(jnp.asarray(np.float32(value))))
    assert words.tobytes() == np.float64(np.float32(value)).tobytes()


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_i32_in_i64(value):
    words = np.asarray(_gpu.words_of_i64(jnp.int32(value)))
    assert words.tobytes() == np.int64(value).tobytes()


def test_wide_words():
    """With jax_enable_x64, 64-bit words have the bits of arrays."""
    with jax.enable_x64(True):
        for words, value in ((_gpu.words_of_f64(jnp.float64(0.1)), np.float64(0.1)),
                             (_gpu.words_of_i64(jnp.int64(-(2**40))), np.int64(-(2**40)))):
            assert np.asarray(words).tobytes() == value.tobytes()

#===----------------------------------------------------------------------===#
# Streams, devices and errors
#===----------------------------------------------------------------------===#

PLACES = """
import sys
import jax, jax.numpy as jnp, numpy as np, tandem.jax
from support.jax_on_gpu import JaxGPU
from tandem.jax import _library

gpu = JaxGPU(sys.argv[1], count=2)
optimizer = tandem.jax.adamw(strategy="fp32")
params = [jnp.ones(300)]
state, step = optimizer.init(params), jax.jit(optimizer.step)


def error_of():
    try:
        jax.block_until_ready(step(params, state, params))
    except Exception as error:
        return str(error)
    return "none"


first, want = gpu.stream, jax.block_until_ready(step(params, state, params))
places = [(first, 0), (gpu.create_stream(), 0), (gpu.create_stream(), 1), (first, 0)]
for place in places:
    gpu.use(*place)
    for ours, theirs in zip(*map(jax.tree.leaves, (step(params, state, params), want))):
        assert np.array_equal(ours, theirs), place
    gpu.check()
for place in ((None, 0), (first, 7)):
    gpu.use(*place)
    print(error_of())
gpu.use(first, 0)
assert error_of() == "none"

# A kernel whose code for GPUs nothing has compiled, and a launch that was lowered for CPUs.
_library.compile_for_gpus = lambda name, what: None
params = [jnp.ones(300, jnp.bfloat16)]
optimizer = tandem.jax.adamw(strategy="bf16")
state, step = optimizer.init(params), jax.jit(optimizer.step)
print(error_of())
"""


@needs_compiler
def test_streams_and_devices(stand_in):
    """Each stream and GPU has its own plans, and their errors are reported."""
    stream, device, code = run("-c", PLACES, stand_in).splitlines()
    assert "XLA does not say where a launch of tandem.jax runs: there is no stream" in stream
    assert "there is no CUDA device 7; the driver has 2 devices" in device
    assert "this process has no code for GPUs of the kernel of a launch" in code

#===----------------------------------------------------------------------===#
# Unsupported uses
#===----------------------------------------------------------------------===#


def lowered(optimizer, params=None, step=None):
    params = params or arrays([(16, 8)], jnp.bfloat16)
    state, grads = optimizer.init(params), gradients(params, 0)
    return jax.jit(step or optimizer.step).trace(grads, state, params).lower(
        lowering_platforms=("cuda",))


@pytest.fixture
def sm_90(monkeypatch):
    monkeypatch.setattr(_library, "gpu_targets", lambda what: ["sm_90"])


def test_lowered_for_cuda(sm_90):
    """XLA passes computed scalars in GPU memory, and all others with the call."""
    text = lowered(tandem.jax.adamw(strategy="bf16", lr=lambda count: 1e-3)).as_text()
    assert text.count("custom_call @tandem_launch") == 1 and "row = 6 : i64" in text
    text = lowered(tandem.jax.sgd(strategy="bf16")).as_text()
    assert "row = -1 : i64" in text


def test_no_gpu():
    if any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("JAX has a GPU")
    with pytest.raises(NotImplementedError, match="a step of adamw is to be compiled for CUDA, but "
                       r"JAX has no CUDA GPU here .*; trace it in a process whose jax.devices\('cu"):
        lowered(tandem.jax.adamw(eps=1e-7))


def test_capabilities_of_gpus(monkeypatch):
    """A process compiles for all GPUs that JAX has."""
    class GPU:
        def __init__(self, capability):
            self.compute_capability = capability

    monkeypatch.setattr(jax, "local_devices", lambda backend: [GPU("9.0"), GPU("8.0"), GPU("9.0")])
    assert _library.gpu_targets("a step") == ["sm_80", "sm_90"]
    monkeypatch.setattr(jax, "local_devices", lambda backend: [GPU("5.0")])
    with pytest.raises(NotImplementedError, match="a step of lion was to run on GPUs of sm_50, for "
                       "which Tandem has no code: .*; keep its arrays on the CPU"):
        lowered(tandem.jax.lion())


def test_refused_on_gpus(sm_90):
    with pytest.raises(NotImplementedError, match="a step of adamw measures, which only CPUs do.*; "
                       "create the optimizer without metrics=True for GPUs"):
        lowered(tandem.jax.adamw(metrics=True))
    optimizer = tandem.jax.adamw(strategy="fp32")
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    params = arrays([(16, 8)], jnp.float32)
    spread = optimizer.state_specs(params, P("data"))
    step = jax.shard_map(
        lambda grads, state, params: optimizer.step(grads, state, params, specs=P("data")),
        mesh=mesh, in_specs=(P("data"), spread, P("data")), out_specs=(P("data"), spread))
    with pytest.raises(NotImplementedError, match="a step of adamw takes shards, which only CPUs do"
                       ".*; leave specs out"):
        lowered(optimizer, params, step)
