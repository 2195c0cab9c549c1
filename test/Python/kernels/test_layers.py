#===- test_layers.py - Layers and their saved tensors ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests forward and backward passes of layers under recipes: CPU code and PTX against the
# reference interpreter, and gradients against PyTorch.
#
#===----------------------------------------------------------------------===#

import functools
import pathlib

import numpy as np
import pytest
import torch

import tandem
from support.kernels import assert_same, integers_of
from support.launch import Tensor, aligned_copy, launch
from tandem._plane import RoleKind

LAYERS = {"rms_norm": {"eps": 1e-6}, "add_rms_norm": {"eps": 1e-6}, "layer_norm": {"eps": 1e-5}, "silu": {},
          "gelu": {}, "gelu_tanh": {}, "swiglu": {}, "geglu": {}, "geglu_tanh": {}, "cross_entropy": {}, "rope": {}, "keep": {}}
SHAPES = ((1, 1), (3, 15), (2, 17), (5, 64), (2, 1000), (70, 33))
KINDS = ("ordinary", "zeros", "huge", "subnormal", "special")
#: The interpreter's names of inputs that the compiler does not save separately.
SHARED = {"keep": {"x": "kept"}}

DTYPES = {"f32": np.uint32, "bf16": np.uint16, "f16": np.uint16, "i16": np.uint16}
#: The folder of recipes that are not in the library, and one with codes of four bits.
RECIPES = pathlib.Path(__file__).resolve().parents[1] / "Inputs/recipes"
FOUR_BITS = "four-bits"
STEP, SEED = 3, 5


def test_the_library_is_tested():
    assert set(tandem.layers()) == set(LAYERS)


@functools.cache
def compiled(function, recipe, target="cpu", **options):
    layer = function.removesuffix("_backward").removesuffix("_again")
    return tandem.compile(layer, recipe, target=target, function=function, path=[RECIPES],
                          **options)


def values(kind, shape, rng):
    """Returns f32 numbers of a kind."""
    x = rng.standard_normal(shape).astype(np.float32)
    if kind == "zeros":
        x[::2] = 0
    elif kind == "huge":
        x.flat[::37] *= np.float32(1e30)
    elif kind == "subnormal":
        x *= np.float32(1e-40)
    elif kind == "special":
        x.flat[::11], x.flat[5::23], x.flat[7::29] = np.nan, np.inf, -0.0
    return x


def encode(x, kind):
    """Returns the bits of f32 numbers in a plane of plain floats."""
    if kind == "f32":
        return x.view(np.uint32)
    assert kind == "bf16"
    return torch.from_numpy(x).to(torch.bfloat16).view(torch.uint16).numpy()


def classes(name, count, columns, rng):
    """Returns column numbers or targets (a column or -1 per row) if the plane has these."""
    if name == "column":
        return np.arange(count, dtype=np.float32)
    if name == "target":
        return rng.integers(-1, columns, count).astype(np.float32)
    return None


def planes_for(kernel, shape, kind, rng):
    """Returns inputs of a kind, and zeros for planes that the kernel writes."""
    rows, columns = shape
    planes = {}
    for plane in kernel.planes:
        count = plane.entries(columns, rows)
        dtype = DTYPES.get(plane.type, np.uint8)
        if plane.kind == RoleKind.INPUT:
            x = classes(plane.name, count, columns, rng)
            x = values(kind, count, rng) if x is None else x
            planes[plane.name] = encode(x, plane.type)
        else:
            planes[plane.name] = np.zeros(count, dtype)
        if plane.sets_size:
            planes[plane.name] = planes[plane.name].reshape(
                shape[::-1] if plane.transposed else shape)
    return planes


def by_interpreter(function, recipe, planes, shared=()):
    """Returns the planes after the pass, as the interpreter computes them from the source graph."""
    layer = function.removesuffix("_backward").removesuffix("_again")
    names = {name: SHARED.get(layer, {}).get(name, f"{name}.saved") for name in shared}
    given = {names.get(name, name): plane.copy() for name, plane in planes.items()}
    tandem.interpret(layer, recipe, given, hypers_of(function), function=function,
                     path=[RECIPES], step=STEP, seed=SEED)
    return {name: given[names.get(name, name)] for name in planes}


def hypers_of(function):
    return LAYERS.get(function, {})


def scalars_of(kernel):
    """Returns all scalars, among them what a recipe that dithers draws bits from."""
    return hypers_of(kernel.name) | integers_of(kernel, STEP, SEED)


def by_cpu(kernel, planes, threads=0):
    copy = {name: plane.copy() for name, plane in planes.items()}
    kernel(copy, threads=threads, **scalars_of(kernel))
    return copy


def by_ptx(kernel, planes, shape, by_rows=True):
    copy = {name: aligned_copy(plane.reshape(-1)) for name, plane in planes.items()}
    launch(kernel, [Tensor(copy, shape=shape)],
           [scalars_of(kernel)], blocks=2, by_rows=by_rows)
    return {name: copy[name].reshape(plane.shape) for name, plane in planes.items()}


def backward_planes(layer, recipe, forward, shape, rng):
    """Returns the backward pass's initial planes, and which of them are inputs of the forward
    pass."""
    kernel = compiled(f"{layer}_backward", recipe)
    planes = planes_for(kernel, shape, "ordinary", rng)
    for plane in kernel.planes:
        if plane.kind == RoleKind.RESTORED or plane.name in forward:
            planes[plane.name] = forward[plane.name]
    inputs = {p.name for p in compiled(layer, recipe).planes
              if p.kind in (RoleKind.INPUT, RoleKind.OUTPUT)}
    shared = [p.name for p in kernel.planes
              if p.kind == RoleKind.RESTORED and p.name in inputs]
    return planes, shared


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recipe", tandem.recipes())
@pytest.mark.parametrize("layer", LAYERS)
def test_passes_against_the_interpreter(layer, recipe, kind):
    for seed, shape in enumerate(SHAPES):
        rng = np.random.default_rng(seed)
        planes = planes_for(compiled(layer, recipe), shape, kind, rng)
        forward = by_cpu(compiled(layer, recipe), planes)
        assert_same(forward, by_interpreter(layer, recipe, planes), str(shape))
        planes, shared = backward_planes(layer, recipe, forward, shape, rng)
        function = f"{layer}_backward"
        assert_same(by_cpu(compiled(function, recipe), planes),
                    by_interpreter(function, recipe, planes, shared), str(shape))


@pytest.mark.parametrize("layer", LAYERS)
def test_codes_that_share_bytes(layer):
    """In rows of odd length, the last byte of a row has one code."""
    for seed, shape in enumerate(((1, 1), (3, 17), (5, 301))):
        rng = np.random.default_rng(seed)
        planes = planes_for(compiled(layer, FOUR_BITS), shape, "ordinary", rng)
        forward = by_cpu(compiled(layer, FOUR_BITS), planes)
        assert_same(forward, by_interpreter(layer, FOUR_BITS, planes), str(shape))
        assert_same(by_ptx(compiled(layer, FOUR_BITS, "sm_90"), planes, shape), forward)
        planes, shared = backward_planes(layer, FOUR_BITS, forward, shape, rng)
        function = f"{layer}_backward"
        backward = by_cpu(compiled(function, FOUR_BITS), planes)
        assert_same(backward, by_interpreter(function, FOUR_BITS, planes, shared), str(shape))
        assert_same(by_ptx(compiled(function, FOUR_BITS, "sm_90"), planes, shape), backward)


@pytest.mark.parametrize("recipe", tandem.recipes())
@pytest.mark.parametrize("layer", ("swiglu", "geglu", "geglu_tanh"))
def test_outputs_again(layer, recipe):
    """The function recomputes the same tensors; under fp32, the output itself."""
    function = f"{layer}_again"
    for seed, shape in enumerate(SHAPES):
        rng = np.random.default_rng(seed)
        planes = planes_for(compiled(layer, recipe), shape, "ordinary", rng)
        forward = by_cpu(compiled(layer, recipe), planes)
        given, shared = backward_planes(layer, recipe, forward, shape, rng)
        again = {p.name: given[p.name] if p.name in given else np.zeros_like(forward[p.name])
                 for p in compiled(function, recipe).planes}
        got = by_cpu(compiled(function, recipe), again)
        assert_same(got, by_interpreter(function, recipe, again, shared), str(shape))
        assert_same(by_ptx(compiled(function, recipe, "sm_90"), again, shape), got)
        assert recipe != "fp32" or np.array_equal(got["y"], forward["y"])


@pytest.mark.parametrize("shape", ((2, 5120), (1, 16384)))
@pytest.mark.parametrize("layer", ("rms_norm", "layer_norm", "swiglu", "cross_entropy"))
def test_long_rows(layer, shape):
    rng = np.random.default_rng(9)
    planes = planes_for(compiled(layer, "coat"), shape, "ordinary", rng)
    forward = by_cpu(compiled(layer, "coat"), planes)
    assert_same(forward, by_interpreter(layer, "coat", planes))
    assert_same(by_ptx(compiled(layer, "coat", "sm_90"), planes, shape), forward)
    planes, shared = backward_planes(layer, "coat", forward, shape, rng)
    backward = by_cpu(compiled(f"{layer}_backward", "coat"), planes)
    assert_same(backward, by_interpreter(f"{layer}_backward", "coat", planes, shared))
    assert_same(by_ptx(compiled(f"{layer}_backward", "coat", "sm_90"), planes, shape), backward)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("chip", ("sm_80", "sm_90"))
@pytest.mark.parametrize("recipe", ("bf16", "coat", "coat-flow", "coat-fp8", "mxfp8", "te-delayed",
                                    "mxfp4", "nvfp4", "linear4"))
@pytest.mark.parametrize("layer", LAYERS)
def test_ptx_against_cpu(layer, recipe, chip):
    for seed, shape in enumerate(((1, 1), (3, 17), (5, 300), (6, 512))):
        rng = np.random.default_rng(seed)
        planes = planes_for(compiled(layer, recipe), shape, KINDS[seed], rng)
        forward = by_cpu(compiled(layer, recipe), planes)
        assert_same(by_ptx(compiled(layer, recipe, chip), planes, shape), forward)
        planes, _ = backward_planes(layer, recipe, forward, shape, rng)
        function = f"{layer}_backward"
        assert_same(by_ptx(compiled(function, recipe, chip), planes, shape),
                    by_cpu(compiled(function, recipe), planes))


#===----------------------------------------------------------------------===#
# Launches
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize(("function", "phases"), (
    ("rms_norm", 2), ("rms_norm_backward", 2), ("add_rms_norm", 2),
    ("add_rms_norm_backward", 2), ("layer_norm", 3), ("layer_norm_backward", 2),
    ("cross_entropy", 2), ("swiglu", 1)))
@pytest.mark.parametrize("recipe", ("bf16", "coat", "mxfp8"))
def test_phases_of_rows_are_one_launch(function, phases, recipe):
    kernel = compiled(function, recipe)
    assert (kernel.phases, kernel.launches) == (phases, 1)


def test_a_scale_of_all_rows_ends_a_launch():
    """Encoding with a scale of all rows requires every row first."""
    for recipe in ("te-current", "coat"):
        kernel = compiled("keep", recipe)
        assert (kernel.phases, kernel.launches) == (3, 3)


@pytest.mark.parametrize("recipe", ("bf16", "coat"))
@pytest.mark.parametrize("layer", ("rms_norm", "layer_norm", "cross_entropy"))
def test_phases_one_after_another_in_ptx(layer, recipe):
    """Separate launches of the phases, as for rows that are too long for a block, agree."""
    shape, rng = (6, 600), np.random.default_rng(5)
    planes = planes_for(compiled(layer, recipe), shape, "ordinary", rng)
    kernel = compiled(layer, recipe, "sm_90")
    separate = by_ptx(kernel, planes, shape, by_rows=False)
    assert_same(separate, by_ptx(kernel, planes, shape))
    assert_same(separate, by_cpu(compiled(layer, recipe), planes))


@pytest.mark.parametrize("recipe", ("bf16", "coat"))
@pytest.mark.parametrize("layer", ("rms_norm", "layer_norm", "cross_entropy"))
def test_bands_and_threads(layer, recipe):
    """Rows divided among threads, and column sums over all rows, agree."""
    shape, rng = (150, 130), np.random.default_rng(3)
    planes = planes_for(compiled(layer, recipe), shape, "ordinary", rng)
    forward = by_cpu(compiled(layer, recipe), planes, threads=3)
    assert_same(forward, by_interpreter(layer, recipe, planes))
    planes, shared = backward_planes(layer, recipe, forward, shape, rng)
    function = f"{layer}_backward"
    backward = by_cpu(compiled(function, recipe), planes, threads=3)
    assert_same(backward, by_interpreter(function, recipe, planes, shared))
    assert_same(by_cpu(compiled(function, recipe), planes, threads=1), backward)


#===----------------------------------------------------------------------===#
# Saved tensors
#===----------------------------------------------------------------------===#


def saved_bits(layer, recipe):
    """Returns the saved bits per element, by plane."""
    return {p.name: p.bits / (p.group * p.rows)
            for p in compiled(f"{layer}_backward", recipe).planes
            if p.kind == RoleKind.RESTORED and p.per == 0 and not p.is_whole_tensor}


def test_an_input_is_not_kept_twice():
    """In bf16, the backward pass uses the input itself; nothing is saved."""
    assert saved_bits("swiglu", "bf16") == {"gate": 16, "up": 16}
    written = [p.name for p in compiled("swiglu", "bf16").planes if p.written]
    assert written == ["y"]


def test_groups_of_a_token():
    assert saved_bits("swiglu", "coat") == {
        "gate.saved": 8, "gate.saved.scale": 1, "up.saved": 8, "up.saved.scale": 1}
    # Rows of 17 have two scales each, the second one for a single element.
    plane = next(p for p in compiled("swiglu", "coat").planes
                 if p.name == "gate.saved.scale")
    assert plane.entries(17, rows=3) == 6


def test_linear_layers_have_one_scale():
    plane = next(p for p in compiled("keep", "coat").planes if p.name == "kept.scale")
    assert plane.is_whole_tensor
