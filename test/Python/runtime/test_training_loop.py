#===- test_training_loop.py - Training without PyTorch ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests examples/training_loop: a network trained with the runtime in C++ and in NumPy,
# with the same bits.
#
#===----------------------------------------------------------------------===#

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tandem
from support.build_example import build_example
from support.kernels import BASELINE, IMAGES, compiled

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/training_loop"
RUNTIME = Path(tandem.__file__).parents[2] / "runtime"
STRATEGY, STEPS = "flash-f16", 500


@pytest.fixture(scope="module")
def program(made_once):
    """Builds the C++ program against only the runtime."""
    return made_once("training_loop", lambda folder: build_example(
        EXAMPLE, folder, [ROOT / "runtime/include"], [RUNTIME])) / "train"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "adamw.tdm"
    compiled("adamw", STRATEGY).save(path, IMAGES[:2])
    return path


def example_in_numpy():
    """Imports the program in NumPy."""
    spec = importlib.util.spec_from_file_location("training_loop_in_numpy", EXAMPLE / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def test_needs_only_the_runtime(program):
    linked = run("ldd", program).stdout
    assert "libtandem_runtime" in linked
    assert "LLVM" not in linked and "MLIR" not in linked and "python" not in linked


def test_learns_with_the_same_bits_in_numpy(program, package, tmp_path):
    """NumPy's program also runs if torch cannot be imported."""
    cpp = run(program, package, 1, STEPS, tmp_path / "cpp.bin")
    start = ("import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; "
             "runpy.run_path(sys.argv[0], run_name='__main__')")
    numpy = run(sys.executable, "-c", start, EXAMPLE / "train.py", package, STEPS,
                tmp_path / "numpy.bin")
    assert cpp.returncode == numpy.returncode == 0, cpp.stderr + numpy.stderr
    assert cpp.stdout == numpy.stdout
    assert cpp.stdout in (EXAMPLE / "README.md").read_text()
    losses = [float(line.split()[-1]) for line in cpp.stdout.splitlines()[1:]]
    assert losses[0] > 100 * losses[-1]
    assert (tmp_path / "cpp.bin").read_bytes() == (tmp_path / "numpy.bin").read_bytes()


def test_goes_on_after_a_pause(program, package, tmp_path):
    """A resumed run has the same bits, with code for older processors as well."""
    whole, parts = tmp_path / "whole.bin", tmp_path / "parts.bin"
    run(program, package, 1, 60, whole)
    run(program, package, 1, 30, parts, BASELINE)
    assert whole.read_bytes() != parts.read_bytes()
    run(program, package, 31, 60, parts)
    assert whole.read_bytes() == parts.read_bytes()


def test_gradients_are_those_of_autograd():
    torch = pytest.importorskip("torch")
    example = example_in_numpy()
    weights = {name: 0.5 * example.random(seed, size)
               for seed, (name, size) in enumerate(example.SIZES.items())}
    loss, gradients = example.learn(weights, 7)
    x = torch.from_numpy(example.random(7, example.BATCH * example.INPUTS)).view(example.BATCH, -1)
    w1, b1, w2, b2 = (torch.from_numpy(weights[name]).double().requires_grad_()
                      for name in example.SIZES)
    h = (x.double() @ w1.view(example.HIDDEN, -1).T + b1).relu()
    wanted = ((h @ w2 + b2 - (x[:, 0] * x[:, 1]).double())**2).mean()
    # The loss is a square, whose gradient the example halves.
    (wanted / 2).backward()
    assert loss == pytest.approx(wanted.item(), rel=1e-5)
    for name, tensor in zip(example.SIZES, (w1, b1, w2, b2)):
        np.testing.assert_allclose(gradients[name], tensor.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("arguments", "status", "message"), (
    ((), 2, "usage: train PACKAGE FIRST LAST STATE [TARGET]"),
    ((__file__, 1, 2, "state.bin"), 1, "is not a package of Tandem"),
    (("PACKAGE", 2, 3, "none.bin"), 1, "cannot read the state in 'none.bin'"),
    (("PACKAGE", 1, 1, "no-folder/state.bin"), 1, "cannot write 'no-folder/state.bin'"),
    (("PACKAGE", 1, 1, "state.bin", "sm_90"), 1, "sm_90")))
def test_refuses_what_it_cannot_use(program, package, tmp_path, arguments, status, message):
    given = [str(package) if argument == "PACKAGE" else str(argument) for argument in arguments]
    result = subprocess.run([program, *given], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == status and message in result.stderr


def test_refuses_weights_of_another_type(program, tmp_path):
    compiled("adamw", "fp32").save(tmp_path / "adamw.tdm", [BASELINE])
    result = run(program, tmp_path / "adamw.tdm", 1, 1, tmp_path / "state.bin")
    assert result.returncode == 1
    assert "has no weights or gradients in bf16; write the package for another" in result.stderr
