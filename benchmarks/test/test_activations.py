#===- test_activations.py - Measurements of activations --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests benchmarks/activations on a small layer.
#
#===----------------------------------------------------------------------===#

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks/activations"


def by_path(name):
    """Imports a module of the folder under a unique name."""
    import importlib.util
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location(f"activations_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


def test_page_is_up_to_date():
    page = by_path("activations_page")
    assert page.PAGE.read_text() == page.render(page.RESULTS), (
        "run benchmarks/activations/activations_page.py")


def test_a_layer():
    """Each recipe keeps the bytes computed by hand for a layer of width 64, with a hidden width
    of 128 in the feed-forward block."""
    run = by_path("run")
    unit = 32 * 64 * 2
    kept = {name: run.kept_bytes(case.layer, case.forward) / unit
            for name in ("bf16", "coat", "coat + recompute")
            for case in [run.Case(name, 64, 32)]}
    # The inputs of norms (2), gate and up (2 * 2), and the inputs of products (1 + 1 + 2;
    # attention's is its output) shrink from 2 bytes to 1, with a 2-byte scale per 16 elements for
    # norms and gates.
    shared = kept["bf16"] - (2 + 4 + 4)
    tensors = 3 * 4 / unit
    scales = (2 + 4) / 16
    assert kept["coat"] == pytest.approx(shared + (2 + 4 + 4) / 2 + 0.5 + scales + tensors, abs=0.1)
    # The product in the feed-forward block has a byte per element, and a scale.
    assert kept["coat"] - kept["coat + recompute"] == pytest.approx(1 + 4 / unit)


def test_few_bits():
    """Dithered codes have the larger error in one pass, and the smaller one in the mean of several."""
    few_bits = by_path("few_bits")
    want = few_bits.Passes(None, 64, 32).gradients()
    found = {name: few_bits.measure(name, want, 64, 32, 24)
             for name in ("bf16", "linear4", "linear4-nearest", "mxfp4", "mxfp4-nearest",
                          "nvfp4", "nvfp4-nearest")}
    for name in ("linear4", "mxfp4", "nvfp4"):
        dithered, nearest = found[name], found[f"{name}-nearest"]
        assert nearest["bias"] == nearest["error"] < dithered["error"]
        assert dithered["bias"] < 0.5 * nearest["bias"]
        assert dithered["kept"] == nearest["kept"] < 0.6 * found["bf16"]["kept"]


def test_hadamard_transforms():
    """Transforms help integers where channels are outliers."""
    few_bits = by_path("few_bits")
    want = few_bits.Passes(None, 64, 32, outliers=True).gradients()
    plain, mixed = (few_bits.measure("linear4-nearest", want, 64, 32, 1, hadamard=hadamard,
                                     outliers=True) for hadamard in (False, True))
    assert mixed["error"] < 0.9 * plain["error"] and mixed["kept"] < plain["kept"] + 0.05
    found = json.loads((ROOT / "benchmarks/results/activations_few_bits.json").read_text())["mixed"]
    gains = {(name, kind): mixed / plain for name, row in found.items()
             for kind, (plain, mixed) in row.items()}
    assert gains["linear4", "as it is"] < 0.95
    assert max(gains["linear4", "outliers"], gains["mxfp4", "outliers"]) < 0.85
    assert min(gains["nvfp4", "as it is"], gains["nvfp4", "outliers"]) > 0.97


def test_groups():
    """Fewer elements per scale give smaller errors, in tensors without a tail."""
    granularity = by_path("granularity")
    rng = np.random.default_rng(2)
    x = rng.standard_normal((64, 256)).astype(np.float32) * np.exp2(
        rng.uniform(-12, 0, (64, 16))).repeat(16, axis=1).astype(np.float32)
    errors = [granularity.error([x], group) for group in ("tensor", "row", "16")]
    assert errors[0] > errors[1] > errors[2] > 0
    assert set(granularity.times(8, 256, 1)) == set(granularity.SCALINGS)


def test_command(tmp_path):
    environment = dict(os.environ, PYTHON=sys.executable)
    done = subprocess.run(
        [ROOT / "scripts/activations.sh", "--hidden", "64", "--tokens", "16", "--rounds", "1", "--steps", "2",
         "--passes", "2",
         "--results", tmp_path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "round 1 of 1" in done.stdout
    page = (tmp_path / "Activations.md").read_text()
    assert "Hidden size 64" in page and "| `coat` + recompute |" in page
    assert "| linear layers |" in page and "| groups of 16 |" in page


def test_blocks_and_groups():
    """A channel that is large for all tokens disturbs whole groups, and few columns of a block."""
    scales = by_path("scales")
    x = np.random.default_rng(3).standard_normal((64, 1024)).astype(np.float32)
    for side in scales.SIDES:
        back = scales.from_blocks(scales.in_blocks(x, side), side, x.shape)
        assert np.array_equal(back, x)
    assert np.array_equal(scales.in_blocks(x, 4)[1].reshape(4, 4), x[:4, 4:8])
    factors = scales.outliers(x.shape, 0)
    channels, tokens = (scales.errors(x, factors[f"outlier {kind}"])
                        for kind in ("channels", "tokens"))
    assert channels["1x16"] > channels["4x4"] and tokens["4x4"] > tokens["1x16"]


def test_maxima_of_rows():
    """The first stage of Group Scaling finds the largest magnitudes of what the layer writes."""
    scales = by_path("scales")
    for layer in scales.PRODUCERS:
        kernel = scales.Kernel(scales.with_maxima(scales.forward(layer)), layer, "native",
                               scales.BF16, (8, 256))
        kernel()
        y, largest = kernel.planes["y"].float(), kernel.planes["largest"]
        torch.testing.assert_close(y.abs().amax(1), largest, rtol=2.0**-8, atol=0)
        assert y.any()
        found = scales.times(layer, "native", (8, 256), 2)
        assert set(found) == {"just in time", "Group Scaling", "one kernel", "delayed"}
        assert all(len(each) == 2 for each in found.values())


def test_command_of_scales(tmp_path):
    done = subprocess.run(
        [sys.executable, FOLDER / "scales.py", "--quick", "--steps", "2", "--seeds", "1",
         "--rounds", "1", "--results", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "seed 0, step 2 of 2" in done.stdout and "swiglu, x86-64-v3: just in time" in done.stdout
    found = json.loads((tmp_path / "activations_scales.json").read_text())
    assert list(found["errors"]["0"]) == ["as trained", "outlier channels", "outlier tokens"]
    assert set(found["errors"]["0"]["as trained"]) == {
        "4x4", "1x16", "8x8", "1x64", "32x32", "1x1024"}
    assert found["shape"] == [64, 1024]
