#===- test_embed.py - Tandem in a C program --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests examples/embed, a C host program: its results are correct and have the same bits
# as in Python.
#
#===----------------------------------------------------------------------===#

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tandem
from support.build_example import build_example

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/embed"
BUILD = Path(tandem.__file__).parents[2]
STORAGE = {8: np.uint8, 16: np.uint16, 32: np.float32}
ROWS, COLUMNS = 48, 200


@pytest.fixture(scope="module")
def embed(made_once):
    """Builds the program against the libraries' C headers and nothing else."""
    return made_once("embed", lambda folder: build_example(
        EXAMPLE, folder, [ROOT / "include", ROOT / "runtime/include"],
        [BUILD / "lib", BUILD / "runtime"])) / "embed"


@pytest.fixture(scope="module")
def arrays(embed, tmp_path_factory):
    """Returns the program's output, and by prefix functions that read its arrays."""
    folder = tmp_path_factory.mktemp("arrays")
    run = subprocess.run([embed, folder], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr

    def read(prefix, kernel):
        return {p.name: np.fromfile(folder / f"{prefix}.{p.name}.bin", STORAGE[p.bits])
                for p in kernel.planes}
    return run.stdout, read


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name, plane in got.items():
        assert plane.tobytes() == want[name].tobytes(), name
        assert np.unique(plane).size > 1, name


def test_the_table_is_that_of_the_page(arrays):
    table, _ = arrays
    assert f"```\n{table}```" in (ROOT / "docs/Embedding.md").read_text()
    assert "exceeded" not in table and len(table.splitlines()) == 13


def test_the_page_shows_the_program():
    blocks = re.findall(r"^```c\n(.*?)^```$", (ROOT / "docs/Embedding.md").read_text(),
                        re.MULTILINE | re.DOTALL)
    sources = [path.read_text() for path in EXAMPLE.glob("*.c")]
    assert len(blocks) == 6
    for block in blocks:
        assert any(block in source for source in sources), block


def test_an_error_has_parts(embed, tmp_path):
    """The program prints the names in a message in brackets."""
    run = subprocess.run([embed, tmp_path, "coat-none"], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.startswith("embed: unknown strategy '[coat-none]'; built-in ones are ")


def test_it_is_a_program_in_c(embed):
    """The program links only Tandem's two libraries and C's."""
    run = subprocess.run(["readelf", "-d", embed], check=True, capture_output=True, text=True)
    needed = {name.partition(".so")[0]
              for name in re.findall(r"\(NEEDED\).*\[(.*)\]", run.stdout)}
    assert {"libTandem", "libtandem_runtime"} <= needed
    assert needed <= {"libTandem", "libtandem_runtime", "libm", "libc"}
    assert {path.suffix for path in EXAMPLE.iterdir()} == {".c", ".h", ".txt"}


def test_a_state_is_converted_as_by_python(arrays):
    _, read = arrays
    state = read("fp32", tandem.compile("adamw", "fp32"))
    want = tandem.convert_state("adamw", state, "fp32", "coat")
    assert_same(read("converted", tandem.compile("adamw", "coat")), want)


def test_a_step_is_that_of_python(arrays):
    _, read = arrays
    kernel = tandem.compile("adamw", "coat")
    want = read("converted", kernel)
    kernel(want, lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, step=10, seed=7)
    got = read("stepped", kernel)
    assert_same(got, want)
    assert (got["param.master"] != read("converted", kernel)["param.master"]).mean() > 0.99


def shaped(kernel, planes):
    return {p.name: planes[p.name].reshape(ROWS, COLUMNS) if p.sets_size else planes[p.name]
            for p in kernel.planes}


def test_a_layer_is_that_of_python(arrays):
    """Its kernels are those of the two functions under the recipe's own types."""
    _, read = arrays
    for prefix, function, hypers in (("forward", "rms_norm", {"eps": 1e-6}),
                                     ("backward", "rms_norm_backward", {})):
        kernel = tandem.compile("rms_norm", "coat", function=function)
        got = read(prefix, kernel)
        want = {p.name: np.zeros_like(got[p.name]) if p.written else got[p.name]
                for p in kernel.planes}
        kernel(shaped(kernel, want), **hypers)
        assert_same(got, want)


def test_a_layer_is_that_of_pytorch(arrays):
    torch = pytest.importorskip("torch")
    import tandem.torch
    _, read = arrays
    forward, backward = (read(p, tandem.compile("rms_norm", "coat", function=f)) for p, f in
                         (("forward", "rms_norm"), ("backward", "rms_norm_backward")))

    def matrix(plane):
        return torch.from_numpy(plane.view(np.int16)).view(torch.bfloat16).view(ROWS, COLUMNS)

    x = matrix(forward["x"]).requires_grad_()
    weight = torch.from_numpy(forward["weight"]).requires_grad_()
    y = tandem.torch.nn.rms_norm(x, weight.shape, weight, 1e-6, recipe="coat")
    y.backward(matrix(backward["dy"]))
    assert torch.equal(y, matrix(forward["y"]))
    assert torch.equal(x.grad, matrix(backward["dx"]))
    assert torch.equal(weight.grad, torch.from_numpy(backward["dweight"]))


def test_it_says_what_it_cannot_do(embed, tmp_path):
    run = subprocess.run([embed, tmp_path / "nowhere"], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == "embed: an array cannot be written to the directory\n"
    run = subprocess.run([embed, "a", "coat", "c"], capture_output=True, text=True)
    assert run.returncode == 2 and "usage: embed" in run.stderr
