#===- test_package.py - Packages of kernels --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests packages: a saved and loaded kernel equals the compiled one, and kernels that
# cannot be saved or loaded are refused.
#
#===----------------------------------------------------------------------===#

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tandem
from model import OUTSIDE_STRATEGIES
from support.build_example import build_example
from support.kernels import (
    BASELINE,
    IMAGES,
    assert_same,
    compiled,
    cpu_flags,
    require_isa,
    run,
    seed_of,
)

ROOT = Path(__file__).resolve().parents[3]
#: The folder in which the runtime was built, next to the package under test.
RUNTIME = Path(tandem.__file__).parents[2] / "runtime"
#: An instruction set that this machine supports.
ISA = "x86-64-v3" if "avx2" in cpu_flags() else BASELINE
SHAPE = (37, 130)
STORAGE = {8: np.uint8, 16: np.uint16, 32: np.uint32}


def planes_of(kernel, seed):
    """Returns planes of a matrix or a vector: numbers of ordinary size, and any codes."""
    rng = np.random.default_rng(seed)
    rows, columns = SHAPE if kernel.is_matrix else (1, SHAPE[0] * SHAPE[1])
    result = {}
    for plane in kernel.planes:
        count = plane.entries(columns, rows)
        bits = rng.standard_normal(count).astype(np.float32).view(np.uint32)
        if plane.type == "f16":
            bits = bits.view(np.float32).astype(np.float16).view(np.uint16)
        elif plane.type != "f32":
            bits = (bits >> (32 - plane.bits)).astype(STORAGE[plane.bits])
        result[plane.name] = (
            bits.reshape(SHAPE) if kernel.is_matrix and plane.sets_size else bits)
    return result


def hypers_of(kernel):
    """Returns the defaults, except for an epsilon that is not zero in f16."""
    return {n: 0.9 if default is None else max(default, 1e-6) if n == "eps" else default
            for n, default in kernel.hypers.items()}


def step(kernel, seed=0):
    return run(kernel, planes_of(kernel, seed), hypers_of(kernel), threads=2)


def assert_equal_kernels(loaded, kernel):
    for fact in ("name", "strategy", "target", "planes", "hypers", "integers", "compute",
                 "bytes_per_parameter", "phases", "launches", "is_matrix", "reductions",
                 "signature", "ir", "storages"):
        assert getattr(loaded, fact) == getattr(kernel, fact), fact


@pytest.mark.parametrize("strategy", [*tandem.strategies(), *OUTSIDE_STRATEGIES])
def test_a_loaded_kernel_is_the_one_that_was_compiled(strategy, tmp_path):
    """Kernels with one phase, a matrix's five, and two share a package with all of a strategy."""
    kernels = [compiled(graph, strategy) for graph in ("adamw", "adafactor", "lamb")]
    path = tmp_path / "kernels.tdm"
    tandem.save(path, kernels, [ISA])
    for kernel in kernels:
        loaded = tandem.load(path, kernel.name)
        assert_equal_kernels(loaded, kernel)
        seed = seed_of(strategy, kernel.name)
        assert_same(step(loaded, seed), step(kernel, seed), kernel.signature)


def test_planes_say_what_they_hold(tmp_path):
    kernel = compiled("adamw", "coat")
    kernel.save(tmp_path / "coat.tdm", [BASELINE])
    docs = {plane.role: plane.doc for plane in tandem.load(tmp_path / "coat.tdm").planes}
    assert docs == {plane.role: plane.doc for plane in kernel.planes} == {
        role: f"{what}, stored as {kernel.storages[role]}" for role, what in (
            ("param", "param"), ("grad", "grad"),
            ("exp_avg", "first moment of the gradients"),
            ("exp_avg_sq", "second moment of the gradients"))}


@pytest.mark.parametrize("graph, strategy", [
    ("adamw", "collage-plus"), ("adamw", "coat"), ("adafactor", "f16-collage-light"),
    ("lamb", "fp8-lm-delayed"), ("adamw", "bf16-stochastic")])
def test_every_instruction_set_gives_the_same_bits(graph, strategy, tmp_path):
    kernel = compiled(graph, strategy)
    kernel.save(tmp_path / "kernel.tdm", IMAGES)
    want = step(kernel)
    for isa in IMAGES:
        require_isa("x86-64" if isa == "x86-64-v2" else isa)
        loaded = tandem.load(tmp_path / "kernel.tdm", isa=isa)
        assert loaded.isa == isa
        assert_same(step(loaded), want, isa)


def test_kernels_name_their_instruction_sets(tmp_path):
    """For this machine this is the best one in a package or, without one, the best with a name,
    and the processor."""
    kernel = compiled("adamw", "fp32")
    kernel.save(tmp_path / "kernel.tdm", IMAGES)
    chosen = tandem.load(tmp_path / "kernel.tdm").isa
    assert chosen in IMAGES and chosen >= ISA
    named = re.fullmatch(r"(\S+) \(([\w-]+)(?:: ([\w.-]+(?:, [\w.-]+)*))?\)", kernel.isa)
    assert named[1] == chosen
    if cpu_flags():
        vbmi = "avx512vbmi" in cpu_flags() and chosen == "x86-64-v4"
        assert ("avx512vbmi" in (named[3] or "").split(", ")) is vbmi
    assert tandem.compile("adamw", "fp32", isa=BASELINE).isa == BASELINE
    assert [compiled("adamw", "fp32", target=target).isa for target in (ISA, "sm_90")] == [
        ISA, "sm_90"]


def test_flags_and_metrics_are_those_of_the_kernel(tmp_path):
    kernel = compiled("adamw", "collage-plus", metrics=True, flags=True)
    kernel.save(tmp_path / "kernel.tdm", [ISA])
    loaded = tandem.load(tmp_path / "kernel.tdm")
    results = []
    for k in (kernel, loaded):
        arrays = planes_of(kernel, 3)
        for name in ("exp_avg_sq", "exp_avg_sq.lo"):
            arrays[name] &= 0x7FFF
        plan = tandem.Plan(k)
        plan.update([len(arrays["param"])],
                    [[arrays[p.name].ctypes.data for p in k.planes]])
        hypers, integers = k.scalars(hypers_of(k) | {"step": 1})
        assert plan.launch([hypers], [integers]) == 0
        results.append(np.array(plan.metrics()).tobytes())
        arrays["grad"][5] = 0x7F80
        assert plan.launch([hypers], [integers]) == tandem.NON_FINITE
    assert results[0] == results[1] and any(results[0])


def test_ptx_is_what_the_compiler_gives(tmp_path):
    kernel = compiled("lamb", "coat", "sm_90")
    kernel.save(tmp_path / "kernel.tdm")
    loaded = tandem.load(tmp_path / "kernel.tdm", target="sm_90")
    assert_equal_kernels(loaded, kernel)
    assert loaded.ptx == kernel.ptx
    with pytest.raises(ValueError, match="has no code for sm_80; it has that for .*, sm_90; "
                                         "write it again with target sm_80"):
        tandem.load(tmp_path / "kernel.tdm", target="sm_80")
    with pytest.raises(ValueError, match="has no code for gpu; it has that for .*, sm_90; "):
        tandem.load(tmp_path / "kernel.tdm", target="gpu")
    assert_same(step(tandem.load(tmp_path / "kernel.tdm")), step(compiled("lamb", "coat")))


def test_an_image_for_this_processor_runs_here(tmp_path):
    kernel = tandem.compile("adamw", "coat", target=ISA)
    assert kernel.target == ISA and kernel.image.startswith(b"\x7fELF")
    assert_same(step(kernel), step(compiled("adamw", "coat")))
    kernel.save(tmp_path / "kernel.tdm", [ISA])
    loaded = tandem.load(tmp_path / "kernel.tdm", target=ISA)
    assert loaded.image == kernel.image
    assert_same(step(loaded), step(kernel))
    with pytest.raises(AttributeError, match="for 'cpu' stays in this process; compile it for "
                                             "another target, such as 'x86-64-v3'"):
        compiled("adamw", "coat").image


def test_a_loaded_kernel_can_be_saved_for_other_targets(tmp_path):
    compiled("adamw", "coat").save(tmp_path / "first.tdm", [ISA])
    tandem.load(tmp_path / "first.tdm").save(tmp_path / "second.tdm", ["sm_90"])
    loaded = tandem.load(tmp_path / "second.tdm", target="sm_90")
    assert loaded.ptx == compiled("adamw", "coat", "sm_90").ptx
    compiled("adamw", "coat").save(tmp_path / "third.tdm", ["sm_90"])
    assert (tmp_path / "second.tdm").read_bytes() == (tmp_path / "third.tdm").read_bytes()


def test_a_strategy_that_changed_since_changes_nothing(tmp_path):
    text = (ROOT / "lib/Strategies/bf16.mlir").read_text()
    (tmp_path / "own.mlir").write_text(text.replace('@"bf16"', '@"own"'))
    kernel = tandem.compile("sgd", "own", path=[tmp_path])
    (tmp_path / "own.mlir").unlink()
    kernel.save(tmp_path / "kernel.tdm", [ISA])
    assert_equal_kernels(tandem.load(tmp_path / "kernel.tdm"), kernel)


def test_names_of_a_mapping_find_kernels(tmp_path):
    kernels = {"wide": compiled("adamw", "fp32"), "narrow": compiled("adamw", "bf16")}
    tandem.save(tmp_path / "kernels.tdm", kernels, [ISA])
    for name, kernel in kernels.items():
        assert_equal_kernels(tandem.load(tmp_path / "kernels.tdm", name), kernel)
    with pytest.raises(ValueError, match="has several kernels; name one of wide, narrow"):
        tandem.load(tmp_path / "kernels.tdm")


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")
def test_machine_code_of_a_chip(tmp_path):
    compiled("adamw", "fp32").save(tmp_path / "kernel.tdm", ["cubin:sm_90", "sm_90"])
    # A cubin is an ELF file for machine 190.
    data = (tmp_path / "kernel.tdm").read_bytes()
    at = data.index(b"\x7fELF")
    assert int.from_bytes(data[at + 18:at + 20], "little") == 190


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")
def test_machine_code_says_what_made_it(tmp_path):
    compiled("adamw", "fp32").save(tmp_path / "kernel.tdm", ["cubin:sm_90", "cubin-O0:sm_90"])
    told = subprocess.check_output(["ptxas", "--version"], text=True)
    version = re.search(r", V([\d.]+)", told)[1].encode()
    data = (tmp_path / "kernel.tdm").read_bytes()
    assert data.count(version + b"\0") >= 2
    # Without optimization, there are different and more instructions.
    plain, other = (tmp_path / name for name in ("plain.tdm", "other.tdm"))
    compiled("adamw", "fp32").save(plain, ["cubin:sm_90"])
    compiled("adamw", "fp32").save(other, ["cubin-O0:sm_90"])
    assert other.stat().st_size > plain.stat().st_size


#===----------------------------------------------------------------------===#
# Errors
#===----------------------------------------------------------------------===#


def test_what_cannot_be_saved_is_refused(tmp_path, monkeypatch):
    kernel = compiled("adamw", "fp32")
    path = tmp_path / "kernel.tdm"
    path.write_text("what was there")
    with pytest.raises(ValueError, match="a package has no target 'avx2'; expected x86-64"):
        kernel.save(path, ["avx2"])
    with pytest.raises(ValueError, match="two kernels of a package are called 'adamw'"):
        tandem.save(path, [kernel, kernel], [ISA])
    with pytest.raises(ValueError, match="a package needs a kernel"):
        tandem.save(path, [])
    with pytest.raises(TypeError, match="targets is a list"):
        kernel.save(path, "x86-64")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="'cubin:sm_90' needs ptxas, which is not on PATH"):
        kernel.save(path, ["cubin:sm_90"])
    assert path.read_text() == "what was there"
    with pytest.raises(ValueError, match="cannot write package '.*/none/kernel.tdm'"):
        kernel.save(tmp_path / "none/kernel.tdm", [ISA])


def test_files_that_are_no_packages_are_refused(tmp_path):
    path = tmp_path / "kernel.tdm"
    compiled("adamw", "fp32").save(path, [ISA])
    whole = path.read_bytes()
    rng = np.random.default_rng(4)
    for size in [*range(70), *rng.integers(70, len(whole), 200).tolist()]:
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=f"package '{path}': is (not a package|cut short)"):
            tandem.load(path)
    for place in rng.integers(0, len(whole), 500).tolist():
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=f"package '{path}': .*; .*(again|give|use)"):
            tandem.load(path)
    path.unlink()
    with pytest.raises(ValueError, match="cannot be opened: No such file"):
        tandem.load(path)


def test_code_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "kernel.tdm"
    compiled("adamw", "fp32").save(path, ["sm_90", ISA])
    with pytest.raises(ValueError, match="has no kernel 'lamb'; it has adamw"):
        tandem.load(path, "lamb")
    with pytest.raises(ValueError, match="no image for x86-64-v2 runs on cpu; there are some "
                                         f"for sm_90, {ISA}; compile it for {BASELINE}"):
        tandem.load(path, isa="x86-64-v2")
    compiled("adamw", "fp32").save(path, ["sm_90"])
    with pytest.raises(ValueError, match="kernel 'adamw': no image runs on cpu; there is one "
                                         f"for sm_90; compile it for {BASELINE}"):
        tandem.load(path)


#===----------------------------------------------------------------------===#
# The program in C
#===----------------------------------------------------------------------===#


@pytest.fixture(scope="module")
def update(made_once):
    """Builds examples/package against only the runtime."""
    return made_once("package", lambda folder: build_example(
        ROOT / "examples/package", folder, [ROOT / "runtime/include"],
        [RUNTIME])) / "update"


def train(kernel, steps):
    """Does the same in Python as examples/package/update.c."""
    sizes = (1000, 4096, 37)
    tensors = [{p.name: np.zeros(p.entries(size), STORAGE[p.bits]) for p in kernel.planes}
               for size in sizes]
    target = np.array([sinf(i) for i in range(max(sizes))], np.float32)
    plan = tandem.Plan(kernel)
    plan.update(sizes,
                [[planes[p.name].ctypes.data for p in kernel.planes] for planes in tensors])
    for step in range(1, steps + 1):
        for planes in tensors:
            weight = (planes["param"].astype(np.uint32) << 16).view(np.float32)
            bits = (weight - target[:len(weight)]).view(np.uint32)
            planes["grad"][:] = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        hypers, integers = kernel.scalars({"lr": 0.01, "step": step})
        plan.launch([hypers], [integers])
    return b"".join(planes["param"].tobytes() for planes in tensors)


#: C's f32 sine, which may differ from NumPy's.
sinf = ctypes.CDLL("libm.so.6").sinf
sinf.restype, sinf.argtypes = ctypes.c_float, [ctypes.c_float]


def test_a_program_in_c_updates_a_model(update, tmp_path):
    linked = subprocess.run(["ldd", update], check=True, capture_output=True, text=True)
    assert "libtandem_runtime" in linked.stdout
    assert "LLVM" not in linked.stdout and "MLIR" not in linked.stdout
    kernel = compiled("adamw", "collage-plus")
    kernel.save(tmp_path / "adamw.tdm", [ISA])
    result = subprocess.run(
        [update, tmp_path / "adamw.tdm", "200", tmp_path / "weights.bin"],
        check=True, capture_output=True, text=True)
    assert result.stdout in (ROOT / "examples/package/README.md").read_text()
    losses = [float(line.split()[-1]) for line in result.stdout.splitlines()[1:]]
    assert losses[0] > 1000 * losses[-1]
    assert (tmp_path / "weights.bin").read_bytes() == train(kernel, 200)


def test_a_program_in_c_reports_what_it_cannot_read(update, tmp_path):
    result = subprocess.run([update, __file__, "1", tmp_path / "weights.bin"],
                            capture_output=True, text=True)
    assert result.returncode == 1
    assert "is not a package of Tandem" in result.stderr


@pytest.mark.parametrize("kernels", ([1], "abc", {"a": None}))
def test_only_kernels_are_saved(tmp_path, kernels):
    with pytest.raises(TypeError, match="kernels are those of tandem.compile or tandem.load"):
        tandem.save(tmp_path / "x.tdm", kernels)
    assert not list(tmp_path.iterdir())


def test_a_symbolic_link_stays_one(tmp_path):
    """Writing to the link's name replaces the file that it points to."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there/real.tdm").write_bytes(b"old")
    link = tmp_path / "link.tdm"
    link.symlink_to("there/real.tdm")
    tandem.compile("sgd", "fp32").save(link)
    assert link.is_symlink() and (tmp_path / "there/real.tdm").stat().st_size > 1000
    assert tandem.load(link).name == "sgd"
