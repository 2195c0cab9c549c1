#===- test_transposed.py - Transposed copies of codes ----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests storages that write codes in rows and transposed: CPU code and PTX against the
# reference interpreter and the NumPy model.
#
#===----------------------------------------------------------------------===#

import functools
import itertools

import numpy as np
import pytest

import tandem
from model.codes import FloatCode
from model.scaled import WHOLE, Scaled
from model.storage import Draw
from support.kernels import ISAS, assert_same
from support.launch import Tensor, Tiles, aligned_copy, launch
from tandem._plane import RoleKind

ROWS, COLUMNS = (1, 7, 8, 9, 65), (1, 15, 17, 1000)
#: An elementwise kernel, and kernels whose rows and whole tensors require earlier phases.
LAYERS = {"silu": {}, "keep": {}, "rms_norm": {"eps": 1e-6}}


def strategy(code="f8E4M3FN", options=""):
    storage = (f"#tandem.scaled<#scaled.float<{code}>, group = tensor, scale = f32{options}, "
               "transposed = true>")
    return ("tandem.strategy @turned compute(<f32, f32>) {\n"
            "  tandem.assign saved per(row) = #tandem.float<f32>\n"
            "  tandem.assign input = #tandem.float<f32>\n"
            "  tandem.assign output per(column) = #tandem.float<f32>\n"
            f"  tandem.assign output = {storage}\n  tandem.assign saved = {storage}\n}}\n")


def text_of(layer):
    return tandem._tandem.layers()[layer]


@functools.cache
def compiled(layer, target="cpu", code="f8E4M3FN", options="", **rest):
    return tandem.compile(text_of(layer) + strategy(code, options), "turned", target,
                          function=layer, **rest)


def planes_for(kernel, shape, seed=0):
    """Returns inputs, and bytes that a kernel must overwrite."""
    rng, planes = np.random.default_rng([seed, *shape]), {}
    for plane in kernel.planes:
        count = plane.entries(shape[1], shape[0])
        if plane.kind == RoleKind.INPUT:
            planes[plane.name] = rng.standard_normal(count).astype(np.float32).view(np.uint32)
        else:
            kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[plane.bits]
            planes[plane.name] = np.full(count, 0x7B, kind)
        if plane.persistent:
            planes[plane.name][:] = 0
        if plane.sets_size:
            planes[plane.name] = planes[plane.name].reshape(
                shape[::-1] if plane.transposed else shape)
    return planes


def copied(planes):
    return {name: plane.copy() for name, plane in planes.items()}


def by_cpu(kernel, planes, **options):
    got = copied(planes)
    kernel(got, **LAYERS[kernel.name], **options)
    return got


def by_ptx(kernel, planes, shape, offset=0, **options):
    """Runs PTX with transposed copies that begin `offset` bytes after an aligned address."""
    copy = {name: aligned_copy(plane.reshape(-1), offset * name.endswith(".transposed"))
            for name, plane in planes.items()}
    launch(kernel, [Tensor(copy, shape=shape)], [LAYERS[kernel.name]], blocks=2, **options)
    return {name: copy[name].reshape(plane.shape) for name, plane in planes.items()}


def by_interpreter(layer, planes, folder):
    (folder / "turned.mlir").write_text(strategy())
    got = copied(planes)
    tandem.interpret(layer, "turned", got, LAYERS[layer], function=layer, path=[folder])
    return got


def assert_turned(planes):
    names = [name for name in planes if name.endswith(".transposed")]
    assert names
    for name in names:
        assert np.array_equal(planes[name], planes[name.removesuffix(".transposed")].T)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("shape", tuple(itertools.product(ROWS, COLUMNS)))
def test_cpu(layer, shape, tmp_path):
    planes = planes_for(compiled(layer), shape)
    got = by_cpu(compiled(layer), planes)
    assert_turned(got)
    if shape[0] * shape[1] < 5000:
        assert_same(got, by_interpreter(layer, planes, tmp_path), str(shape))


@pytest.mark.parametrize("code", ("f8E4M3FN", "f8E5M2"))
@pytest.mark.parametrize("shape", ((1, 1), (9, 17), (65, 1000)))
def test_model(shape, code):
    planes = planes_for(compiled("keep", code=code), shape)
    got = by_cpu(compiled("keep", code=code), planes)
    storage = Scaled(FloatCode(code), WHOLE, "f32", transposed=shape[1])
    want = storage.encode("kept", planes["x"].view(np.float32).reshape(-1), Draw())
    assert_same({name: got[name].reshape(-1) for name in want}, want)


@pytest.mark.parametrize("options", (*({"isa": isa} for isa in ISAS[:2]), {"width": 1},
                                     {"width": 16}, {"width": 64}))
def test_widths(options):
    for shape in ((9, 17), (65, 1000)):
        planes = planes_for(compiled("rms_norm"), shape)
        want = by_cpu(compiled("rms_norm"), planes)
        assert_same(by_cpu(compiled("rms_norm", **options), planes), want, str(options))


def test_threads():
    """Two threads write neighbouring elements of a column."""
    shape = (700, 5000)
    planes = planes_for(compiled("silu"), shape)
    got = by_cpu(compiled("silu"), planes, threads=4)
    assert_turned(got)
    assert_same(got, by_cpu(compiled("silu"), planes, threads=1))


def test_scales_of_earlier_steps():
    """The copy uses the scales and histories of delayed scaling."""
    kernel = compiled("keep", options=", history = 3")
    planes = planes_for(kernel, (9, 17))
    first = by_cpu(kernel, planes)
    second = by_cpu(kernel, first)
    assert_turned(second)
    assert first["kept.scale"] != second["kept.scale"]
    assert second["kept.scale"] == first["kept.next_scale"]


def test_empty_matrices():
    kernel = compiled("keep")
    for shape in ((0, 17), (3, 0)):
        planes = planes_for(kernel, shape)
        kernel(planes)
        assert planes["kept.transposed"].shape == shape[::-1]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("shape", tuple(itertools.product((*ROWS, 16, 24), (1, 15, 17))))
def test_ptx(layer, shape):
    planes = planes_for(compiled(layer), shape)
    want = by_cpu(compiled(layer), planes)
    for tiles in (Tiles(16, 256), Tiles(4, 256), Tiles(1, 8), Tiles(64, 512)):
        assert_same(by_ptx(compiled(layer, "sm_90"), planes, shape, threads=64, tiles=tiles),
                    want, str(tiles))


@pytest.mark.parametrize("chip", ("sm_80", "sm_90"))
def test_wide_ptx(chip):
    for shape in ((9, 1000), (32, 264), (65, 1000)):
        planes = planes_for(compiled("rms_norm"), shape)
        got = by_ptx(compiled("rms_norm", chip), planes, shape, threads=128, tiles=Tiles(32, 1024))
        assert_same(got, by_cpu(compiled("rms_norm"), planes), str(shape))


def test_wider_codes():
    """Four rows of 16-bit codes are gathered."""
    for shape in ((9, 17), (16, 40), (64, 300)):
        planes = planes_for(compiled("silu", code="f16"), shape)
        got = by_cpu(compiled("silu", code="f16"), planes)
        assert_turned(got)
        assert_same(by_ptx(compiled("silu", "sm_90", "f16"), planes, shape, threads=64,
                           tiles=Tiles(16, 512)), got)


@pytest.mark.parametrize("offset", (1, 4, 8))
def test_unaligned_planes(offset):
    for shape in ((16, 64), (24, 40), (9, 17)):
        planes = planes_for(compiled("silu"), shape)
        want = by_cpu(compiled("silu"), planes)
        got = copied(planes)
        memory = np.zeros(got["y.transposed"].size + offset, np.uint8)
        got["y.transposed"] = memory[offset:].reshape(shape[::-1])
        compiled("silu")(got)
        assert_same(got, want)
        assert_same(by_ptx(compiled("silu", "sm_90"), planes, shape, offset, threads=64,
                           tiles=Tiles(16, 256)), want)


def test_descriptions(tmp_path):
    kernel = compiled("keep")
    plane = next(p for p in kernel.planes if p.name == "kept.transposed")
    assert plane.transposed and plane.written and not plane.read and plane.type == "f8E4M3FN"
    assert "-w kept.transposed: f8E4M3FN, transposed" in kernel.signature
    assert kernel.is_matrix and kernel.bytes_per_parameter == 6
    kernel.save(tmp_path / "keep.tandem", [ISAS[0]])
    loaded = tandem.load(tmp_path / "keep.tandem")
    assert loaded.planes == kernel.planes
    planes = planes_for(kernel, (9, 17))
    assert_same(by_cpu(loaded, planes), by_cpu(kernel, planes))


def test_refusals(tmp_path):
    kernel = compiled("keep")
    planes = planes_for(kernel, (9, 17))
    planes["kept.transposed"] = np.zeros((9, 17), np.uint8)
    with pytest.raises(ValueError, match="'kept.transposed' has 153 elements, 'x' has 9 rows of 17"):
        kernel(planes)
    with pytest.raises(ValueError, match="'kept.transposed' is the transpose of a matrix of 17 x 9"):
        by_interpreter("keep", planes, tmp_path)


def test_packages(tmp_path):
    """A package records which planes are transposed, and its kernel writes them."""
    kernel = compiled("keep")
    kernel.save(tmp_path / "keep.tdm")
    loaded = tandem.load(tmp_path / "keep.tdm")
    assert [p.transposed for p in loaded.planes] == [p.transposed for p in kernel.planes]
    planes = planes_for(kernel, (9, 17))
    assert_same(by_cpu(loaded, planes), by_cpu(kernel, planes))
