#===- test_sass.py - Machine code against PTX ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that ptxas compiles PTX faithfully, for a sample of the library
# (scripts/compare-sass.sh covers all of it), and that deviations are detected.
#
#===----------------------------------------------------------------------===#

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

import tandem

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "verification"), str(ROOT / "benchmarks")]

import sass_compare  # noqa: E402
import sass_counts  # noqa: E402
import sass_run  # noqa: E402

TOOLS = sass_run.find_tools()
needs_tools = pytest.mark.skipif(isinstance(TOOLS, str), reason=str(TOOLS))

#===------------------------------------------------------------------------===#
# The library
#===------------------------------------------------------------------------===#

#: f32 additions, products and quotients, bf16 expansions, conversions to 8 bits, and f32 functions,
#: each for a different chip.
SAMPLE = [(("adamw", "fp32", ""), "sm_100"), (("sgd", "collage-plus", ""), "sm_80"),
          (("sgd_momentum", "coat", ""), "sm_100"), (("gelu", "bf16", "gelu"), "sm_90"),
          (("rms_norm", "coat", "rms_norm"), "sm_90")]


@needs_tools
@pytest.mark.parametrize("case, chip", SAMPLE, ids=lambda value: str(value))
def test_library(case, chip):
    row = sass_run.check(TOOLS, case, chip)
    assert row["entries"] >= 4
    assert row["differences"] == []


def test_no_packed_floats(tmp_path):
    """LLVM's option for them survives the linker's changes to options."""
    tandem.compile("sgd", "fp32").save(tmp_path / "sgd.tdm", ["x86-64"])
    for chip in ("sm_100", "sm_120"):
        assert "f32x2" not in tandem.compile("adamw", "fp32", target=chip).ptx


def test_result():
    """The committed run over the whole library has no difference."""
    result = json.loads((sass_run.RESULTS / "sass.json").read_text())
    assert set(result["chips"]) == set(sass_run.CHIPS)
    assert result["differences"] == []
    assert all(numbers["entries"] > 500 and numbers["differences"] == 0
               for numbers in result["chips"].values())

#===------------------------------------------------------------------------===#
# Faults
#===------------------------------------------------------------------------===#


def kernel(body, chip="sm_90", bits=32):
    return sass_compare._KERNEL.format(version=sass_compare._VERSIONS[chip], chip=chip,
                                       bits=bits, body=body)


def problems(body, chip="sm_90", level=3, bits=32, tools=TOOLS):
    entry = sass_compare.compare(tools, kernel(body, chip, bits), chip, level)["k"]
    return entry.problems


PRODUCT_AND_SUM = "mul{0} %v4, %v0, %v1;\nadd{0} %v3, %v4, %v2;"


@needs_tools
@pytest.mark.parametrize("chip", sass_run.CHIPS)
def test_contraction_is_found(chip):
    """Without .rn, ptxas may contract two instructions into one."""
    assert problems(PRODUCT_AND_SUM.format(".rn.f32"), chip) == []
    assert problems(PRODUCT_AND_SUM.format(".f32"), chip, level=0) == []
    assert problems(PRODUCT_AND_SUM.format(".f32"), chip) == [
        "add f32: the PTX has 1, the SASS 0", "fma f32: the PTX has 0, the SASS 1",
        "mul f32: the PTX has 1, the SASS 0"]


@needs_tools
def test_contraction_of_packed_floats():
    """ptxas 12.9 and 13.0 contract packed floats even with .rn, so Tandem's PTX has none
    (lib/Target/PTX/ForbiddenIdioms.cpp); 13.2 does not."""
    found = problems(PRODUCT_AND_SUM.format(".rn.f32x2"), "sm_100", bits=64)
    if TOOLS.version("ptxas").startswith(("12.9.", "13.0.")):
        assert "fma f32: the PTX has 0, the SASS 2" in found
    else:
        assert found == []


@needs_tools
@pytest.mark.parametrize("text, problem", [
    ("add.rn.ftz.f32 %v3, %v0, %v1;", "FADD.FTZ: 1, but divisions and roots have 0"),
    ("add.rz.f32 %v3, %v0, %v1;", "FADD.RZ: 1, but divisions and roots have 0"),
    ("fma.rp.f32 %v3, %v0, %v1, %v2;", "FFMA.RP: 1, but divisions and roots have 0"),
    ("mul.rn.sat.f32 %v3, %v0, %v1;", "FMUL.SAT: 1, but divisions and roots have 0"),
    ("rcp.approx.ftz.f32 %v3, %v0;", "MUFU.RCP: 1, but divisions and roots have 0"),
])
def test_modifiers_are_found(text, problem):
    for level in sass_compare.LEVELS:
        assert problem in problems(text, level=level)


class Changed:
    """Tools whose machine code contains a fault."""

    def __init__(self, old, new):
        self.change = old, new

    def disassemble(self, ptx, chip, level):
        entries = TOOLS.disassemble(ptx, chip, level)
        function = entries["k"].main
        text = "\n".join(function.instructions)
        assert self.change[0] in text, text
        function.instructions = text.replace(*self.change, 1).split("\n")
        return entries


@needs_tools
@pytest.mark.parametrize("body, change, problem", [
    ("add.rn.f32 %v3, %v0, %v1;", ("FADD ", "FMUL "), "add f32: the PTX has 1, the SASS 0"),
    ("fma.rn.f32 %v3, %v0, %v1, %v2;", ("FFMA ", "FADD "),
     "fma f32: the PTX has 1, the SASS 0"),
    ("cvt.rn.bf16x2.f32 %v3, %v0, %v1;", ("F2FP.BF16.F32.PACK_AB", "F2FP.BF16.F32.RZ.PACK_AB"),
     "F2FP.BF16.F32.RZ.PACK_AB: 1, but divisions and roots have 0"),
    ("div.rn.f32 %v3, %v0, %v1;", ("FFMA ", "FFMA.RZ "),
     "FFMA.RZ: 1, but divisions and roots have 0"),
    ("max.s32 %v3, %v0, %v1;", ("VIMNMX ", "HFOO "),
     "is not an instruction that kernels become"),
])
def test_changed_code_is_found(body, change, problem, monkeypatch):
    sequences = sass_compare.measure(TOOLS, "sm_90", 3)
    monkeypatch.setattr(sass_compare, "measure", lambda *_: sequences)
    assert problem in " ".join(problems(body, tools=Changed(*change)))


def test_maximum_of_a_value_and_itself():
    """The test uses the code that ptxas generated for max(max(x, -x), y) in
    pytorch/pytorch#190973."""
    function = sass_counts.SASSFunction("k", ["VIMNMX3 R167, R8, R8, R167, !PT",
                                              "VIMNMX3 R1, R8, R9, R167, !PT"])
    assert sass_counts.count_sass(function).faults == [
        "'VIMNMX3 R167, R8, R8, R167, !PT' takes the extreme of a value and itself"]

#===------------------------------------------------------------------------===#
# Readers
#===------------------------------------------------------------------------===#


def kinds(*instructions):
    return dict(sass_counts.count_sass(sass_counts.SASSFunction("k", instructions)).kinds)


@pytest.mark.parametrize("text, expected", [
    ("HFMA2.MMA R7, R0, 1, 1, -R7", {("add", "f16"): 2}),
    ("HFMA2.MMA.BF16_V2 R7, R0, R7, -RZ", {("mul", "bf16"): 2}),
    ("HFMA2.BF16_V2 R7, R0, R7, RZ", {("fma", "bf16"): 2}),
    ("HFMA2.BF16_V2 R7, -RZ.H0_H0, RZ.H0_H0, |R2|", {("sign", "bf16"): 2}),
    ("HFMA2.MMA R3, -RZ, RZ, 0, 0", {}),
    ("HADD2.BF16_V2 R0, R0.H0_H0, -R7.H0_H0", {("add", "bf16"): 1}),
    ("HADD2.F32 R7, -RZ, R2.H0_H0", {("widen", "f16"): 1}),
    ("FADD R7, |R2|, -RZ", {("sign", "f32"): 1}),
    ("FADD R7, R2, RZ", {("add", "f32"): 1}),
    ("FADD2 R84, R84.F32x2.HI_LO, R30.F32", {("add", "f32"): 2}),
    ("F2FP.BF16.F32.PACK_AB R0, RZ, R2", {("round", "bf16"): 1}),
    ("F2FP.PACK_AB R7, R0, R7", {("round", "f16"): 2}),
    ("F2FP.F16.E4M3.UNPACK_B R7, R2", {("read", "e4m3"): 2}),
    ("VIMNMX3.U32 R28, R28, R37, R34, !PT", {("extreme", "u32"): 2}),
])
def test_sass_is_understood(text, expected):
    assert kinds(text) == expected


def test_copied_blocks():
    """Beyond the PTX's operations, only whole copied blocks are allowed."""
    block = Counter({("mul", "f64"): 2, ("add", "f64"): 1})
    for n in range(4):
        extra = Counter({key: n * count for key, count in block.items()})
        assert sass_compare._is_sum(extra, extra, [block])
    for extra in (Counter({("mul", "f64"): 2}), Counter({("fma", "f64"): 1}),
                  Counter({("add", "f64"): -1, ("mul", "f64"): -1, ("fma", "f64"): 1})):
        assert not sass_compare._is_sum(extra, extra, [block])


def test_missing_tool(monkeypatch, capsys):
    monkeypatch.setattr(sass_run, "find_tools", lambda: "no nvdisasm")
    monkeypatch.setattr(sys, "argv", ["sass_run.py"])
    assert sass_run.main() == 2
    assert capsys.readouterr().err == "sass_run.py: no nvdisasm\n"
