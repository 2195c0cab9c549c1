#===- test_gpu_instructions.py - Counts of machine code --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the counts of GPU machine code: which pipe executes an instruction, what a loop
# consists of, and that the committed counts and their page match the code that is currently
# generated.
#
#===----------------------------------------------------------------------===#

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tandem

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verification"), str(ROOT / "benchmarks"),
                str(ROOT / "benchmarks/gpu")]

import common
import packages
import sass
import sass_figures
import sass_limits
import sass_page
import sass_pipes
from sass_compare import read_resources
from sass_counts import sass_entries
from sass_loop import Instruction, access_bits, vector_loops
from sass_run import find_tools

TOOLS = find_tools()
needs_tools = pytest.mark.skipif(isinstance(TOOLS, str), reason=str(TOOLS))
RENEW = "run scripts/count-sass.sh"

#===------------------------------------------------------------------------===#
# Pipes
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("text, chip, expected", [
    ("FFMA R4, R4, R6, R7", "sm_90", {"fma": 1}),
    ("IMAD.MOV.U32 R7, RZ, RZ, R101", "sm_90", {"fma": 1, "imad": 1}),
    ("IMAD.WIDE.U32 R2, R50, 0x20, R2", "sm_80", {"fma": 2, "imad": 2}),
    ("LOP3.LUT R3, R11, 0x7fffffff, RZ, 0xc0, !PT", "sm_90", {"alu": 1}),
    ("F2FP.BF16.F32.PACK_AB R0, RZ, R2", "sm_90", {"alu": 1}),
    ("F2F.BF16.F32 R0, R2", "sm_90", {"xu": 1}),
    ("MUFU.RSQ R7, R104", "sm_100", {"xu": 1}),
    ("FCHK P0, R18, R101", "sm_90", {"xu": 1}),
    ("HFMA2.MMA.BF16_V2 R6, R6, R6, -RZ", "sm_80", {"fp16": 2}),
    ("HADD2.F32 R7, -RZ, R2.H0_H0", "sm_80", {"fp16": 1}),
    ("HFMA2.MMA.BF16_V2 R6, R6, R6, -RZ", "sm_90", {"fma": 1, "imad": 0.5}),
    ("DMUL R2, R2, R4", "sm_90", {"fp64": 1}),
    ("UIADD3 UR5, UR5, 0x8, URZ", "sm_90", {}),
    ("BSYNC B0", "sm_90", {}),
    ("SHFL.BFLY PT, R4, R5, 0x1, 0x1f", "sm_90", {"lsu": 1}),
    ("LDG.E.128 R8, desc[UR4][R42.64]", "sm_90", {"lsu": 4}),
    ("STG.E.U8 [R2.64+0x7], R51", "sm_80", {"lsu": 1}),
    ("LDS.64 R4, [R14]", "sm_90", {"lsu": 2}),
])
def test_pipes(text, chip, expected):
    assert sass_pipes.slots(Instruction(text), sass_pipes.MULTIPROCESSORS[chip]) == expected


def test_an_unknown_instruction():
    with pytest.raises(sass_pipes.UnknownInstruction, match="no pipe is known for 'QFOO R1, R2'"):
        sass_pipes.slots(Instruction("QFOO R1, R2"), sass_pipes.MULTIPROCESSORS["sm_90"])


@pytest.mark.parametrize("text, bits", [
    ("LDG.E.128.CONSTANT R8, desc[UR4][R42.64]", 128), ("LDG.E R8, [R42.64]", 32),
    ("STG.E.U16 [R2.64], R5", 16), ("LD.E.U8 R5, [R2]", 8), ("LDS.128 R4, [R14]", 0),
    ("LDC.64 R2, c[0x0][0x230]", 0)])
def test_access_bits(text, bits):
    assert access_bits(text) == bits


def test_lookups_take_bank_conflicts():
    """Addresses computed in a loop are those of table lookups; addresses from before it are not."""
    made = [Instruction("LOP3.LUT R6, R5, 0x3fc, RZ, 0xc0, !PT")]
    table, fixed = Instruction("LDS R4, [R6]"), Instruction("LDS R4, [R7]")
    plain, looked_up = (sass_pipes.count([*made, each], "sm_90", 1024)["lsu"]
                        for each in (fixed, table))
    assert plain == 1 and looked_up == sass_pipes.bank_conflicts(256)
    constant = sass_pipes.count([*made, Instruction("LDC R4, c[0x3][R6]")], "sm_90", 1024)["lsu"]
    assert constant == pytest.approx(256 * (1 - (255 / 256) ** 32))


def test_bank_conflicts():
    """One word or 32 never conflict; the mean maximum of 32 balls in 32 bins is 3.5."""
    assert sass_pipes.bank_conflicts(1) == sass_pipes.bank_conflicts(32) == 1
    assert 1 < sass_pipes.bank_conflicts(64) < 2
    assert sass_pipes.bank_conflicts(1 << 20) == pytest.approx(3.53, abs=0.05)


def test_half_sectors():
    beside = [Instruction(f"LDG.E.128 R8, desc[UR4][R42.64{at}]") for at in ("", "+-0x10")]
    assert sass_pipes.count(beside, "sm_90", 0)["lsu"] == 16
    assert sass_pipes.count(beside[:1], "sm_90", 0)["lsu"] == 4


@pytest.mark.parametrize("registers, shared, blocks", [
    (128, 0, 2), (80, 0, 3), (64, 0, 4), (32, 0, 8), (129, 0, 1), (32, 100 << 10, 2)])
def test_resident_blocks(registers, shared, blocks):
    assert sass_pipes.MULTIPROCESSORS["sm_90"].resident(256, registers, shared) == blocks


def test_resources():
    text = """ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    16 bytes stack frame, 20 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 16 bytes cumulative stack size, 576 bytes smem
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Used 34 registers, used 0 barriers
"""
    found = read_resources(text)
    assert (found["one"].registers, found["one"].spill_bytes, found["one"].shared_bytes) == (
        128, 32, 576)
    assert (found["two"].registers, found["two"].spill_bytes) == (34, 0)

#===------------------------------------------------------------------------===#
# Loops
#===------------------------------------------------------------------------===#

#: An outer loop (.L_o) over chunks. Its vector loop (.L_v) contains a path for single elements, a
#: call for a quotient, a store of one lane, and an inner loop.
LOOP = """
	.section	.text.k,"ax",@progbits
        .type           k,@function
k:
.text.k:
        /*0000*/                   S2R R0, SR_TID.X ;
.L_o:
        /*0010*/                   LDG.E.64 R2, desc[UR4][R0.64] ;
.L_v:
        /*0020*/              @!P0 BRA `(.L_tail) ;
        /*0030*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0040*/                   BRA `(.L_loaded) ;
.L_tail:
{tail}
.L_loaded:
        /*0100*/                   MUFU.RCP R8, R4 ;
        /*0110*/              @!P1 BRA `(.L_fast) ;
        /*0120*/                   MOV R9, R4 ;
        /*0130*/                   CALL.REL.NOINC `($__internal_0_$slow) ;
        /*0140*/                   BRA `(.L_divided) ;
.L_fast:
        /*0150*/                   FFMA R8, R8, R4, R4 ;
.L_divided:
        /*0160*/               @P2 BRA `(.L_stored) ;
        /*0170*/                   STG.E desc[UR4][R10.64], R8 ;
.L_inner:
        /*0180*/                   FADD R8, R8, R8 ;
        /*0190*/               @P3 BRA `(.L_inner) ;
.L_stored:
        /*01a0*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*01b0*/                   BRA.DIV UR4, `(.L_o) ;
{back}
.L_left:
        /*01e0*/              @!P5 BRA `(.L_o) ;
        /*01f0*/                   EXIT ;
	.type		$__internal_0_$slow,@function
$__internal_0_$slow:
        /*0200*/                   FMUL R8, R8, R8 ;
        /*0210*/                   RET.REL.NODEC R2 `(k) ;
"""
TAIL = "\n".join(f"        /*{0x50 + 16 * i:04x}*/              @!P4 LDG.E.U16 R{i}, [R2.64] ;"
                 for i in range(8))
BACK = """        /*01c0*/               @P4 BRA `(.L_v) ;"""
#: The same end, where a call of a label leaves the loop.
CALLED_BACK = """        /*01c0*/              @!P4 CALL.REL.NOINC `(.L_left) ;
        /*01d0*/                   BRA `(.L_v) ;"""
EXECUTED = ["BRA", "LDG.E.128", "BRA", "MUFU.RCP", "BRA", "FFMA", "BRA", "STG.E", "FADD", "BRA",
            "STG.E.128", "BRA.DIV"]


def loops_of(text):
    return vector_loops(sass_entries(text)["k"].main)


@pytest.mark.parametrize("back, ends", [(BACK, ["BRA"]), (CALLED_BACK, ["CALL.REL.NOINC", "BRA"])])
def test_vector_loop(back, ends):
    (loop,) = loops_of(LOOP.format(tail=TAIL, back=back))
    assert [each.text.split()[0] for each in loop.instructions] == EXECUTED + ends
    assert loop.instructions[0].guard == "!P0" and len(loop.inner) == 1


def test_few_elements_are_no_tail():
    """A load of a group's scale by one lane is executed by the whole warp."""
    (loop,) = loops_of(LOOP.format(tail=TAIL.rpartition("\n")[0], back=BACK))
    assert len(loop.instructions) == len(EXECUTED) + 1 + 7


def test_no_vector_loop():
    text = LOOP.format(tail=TAIL, back=BACK)
    assert loops_of(text.replace("LDG.E.128", "LDG.E").replace("LDG.E.64", "LDG.E")) == []

#===------------------------------------------------------------------------===#
# Figures
#===------------------------------------------------------------------------===#


def launch(**slots):
    return {"entry": "k", "registers": 64, "blocks": 4, "spills": 0, "read": 6, "written": 4,
            "slots": slots}


def test_bound():
    """54 instructions and 28 bytes, as for f32 AdamW, take a fifth of the memory's time."""
    rows = [launch(issue=54.0, alu=17.0) | {"read": 16, "written": 12}]
    pipe, ratio = sass_figures.bound("H100 SXM", rows)
    assert pipe == "issue" and ratio == pytest.approx(
        54 / (128 * 132 * 1.755e9) / (28 / 3.015e12))
    both = rows + [launch(issue=1.0, xu=40.0)]
    assert sass_figures.bound("H100 SXM", both)[0] == "xu"
    assert sass_figures.cycles("sm_90", both) == pytest.approx(54 / 128 + 40 / 16)


def test_missed_goals_are_bold():
    assert sass_page.ratio_text("H200", [launch(issue=1000.0)]).startswith("**")
    assert not sass_page.ratio_text("B200", [launch(issue=1000.0)]).startswith("**")
    assert sass_page.ratio_text("H200", [launch(issue=1.0)]).endswith(" issue")

#===------------------------------------------------------------------------===#
# The command
#===------------------------------------------------------------------------===#


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["sass.py", *arguments])
    return sass.main()


@needs_tools
def test_command(tmp_path, monkeypatch, capsys):
    """An interrupted run can be resumed; with names, the command prints and records nothing."""
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(sass, "library", lambda: [sass.Case("sgd", "fp32")])
    monkeypatch.setattr(sass, "CHIPS", ("sm_90",))
    assert run(monkeypatch, "sgd", "--chips", "sm_90", "--jobs", "1") == 0
    assert "sgd/fp32" in capsys.readouterr().out and not list(tmp_path.iterdir())
    for kept in (0, 1):
        assert run(monkeypatch, "--jobs", "1") == 0
        assert "1 of 1 kernels in" in (error := capsys.readouterr().err)
        assert f", {kept} of them as before" in error
    (row,) = common.load("instructions", tmp_path)["kernels"]["sgd/fp32"]["sm_90"]["launches"]
    assert row["read"] == 8 and row["written"] == 4 and row["blocks"] >= 4


def test_wrong_names(monkeypatch, capsys):
    monkeypatch.setattr(sass, "find_tools", lambda: "no nvdisasm")
    assert run(monkeypatch, "coat") == 2
    assert capsys.readouterr().err == "sass.py: no nvdisasm\n"
    monkeypatch.setattr(sass, "find_tools", lambda: None)
    with pytest.raises(SystemExit, match="there is no 'goat'; name a graph"):
        run(monkeypatch, "goat")

#===------------------------------------------------------------------------===#
# The results
#===------------------------------------------------------------------------===#


@pytest.fixture(scope="module")
def kernels():
    return common.load("instructions")["kernels"]


def test_everything_is_counted(kernels):
    names = {case.name for case in sass.library()}
    assert set(kernels) <= names, RENEW
    assert {f"{common.graph_of(strategy)}/{strategy}"
            for strategy in tandem.strategies()} <= set(kernels), RENEW
    for name in sorted(names - set(kernels)):  # without loops over elements, or absent
        graph, strategy = name.split("/")
        assert graph.removesuffix("_backward") in tandem.layers(), f"{name} is missing; {RENEW}"
    for name, chips in kernels.items():
        assert sass_page.CHIP in chips, f"{name}: {RENEW}"


@pytest.mark.parametrize("name, chip", [
    ("adamw/fp32", "sm_80"), ("adamw/coat", "sm_90"), ("lamb/bf16", "sm_100"),
    ("rms_norm_backward/coat", "sm_90"), ("swiglu/bf16", "sm_80")])
def test_code_is_what_was_counted(name, chip, kernels):
    (case,) = sass.chosen([name])
    if chip not in kernels[name]:
        pytest.skip(f"{name} has not been counted for {chip} yet")
    made = sass.digest(sass.compile_case(case, chip).ptx)
    assert made == kernels[name][chip]["ptx"], f"{name}'s code for {chip} has changed; {RENEW}"


@needs_tools
@pytest.mark.parametrize("name, chip", [
    ("sgd/fp32", "sm_80"), ("gelu/bf16", "sm_90"), ("rms_norm/bf16", "sm_100")])
def test_counts_are_those_of_the_code(name, chip, kernels):
    """For a sample, counts match if ptxas has the same version."""
    counted = common.load("instructions")["ptxas"]
    if TOOLS.version("ptxas") != counted:
        pytest.skip(f"the counts are of ptxas {counted}, not of {TOOLS.version('ptxas')}")
    if chip not in kernels[name]:
        pytest.skip(f"{name} has not been counted for {chip} yet")
    (case,) = sass.chosen([name])
    found = sass.measure(TOOLS, sass.compile_case(case, chip))
    assert json.loads(json.dumps(found)) == kernels[name][chip]["launches"], RENEW


def test_prediction(kernels):
    """The GPU check gets the cycles of the kernels that are counted."""
    cycles = packages.describe("sm_90")["cycles"]
    assert cycles["adamw under fp32"] == sass_figures.cycles(
        "sm_90", kernels["adamw/fp32"]["sm_90"]["launches"]) > 0.4
    assert "rms_norm_backward under coat" in cycles


def test_missing_chips_are_named():
    assert sass_page.missing_text({"a": {"sm_90": 0}, "b": {"sm_90": 0, "sm_80": 0}}) == (
        " Not counted yet: 1 of 2 kernels for sm_80, 2 of 2 kernels for sm_100.")


def test_page_is_up_to_date():
    page = (ROOT / "docs/Instructions.md").read_text()
    content = sass_page.page(common.load("instructions"), common.load("accuracy"))
    assert page == content, "run benchmarks/gpu/sass_page.py"


def test_limits_have_alternatives():
    """A strategy of one launch has used its budget as often as its ratio says, and what is named
    instead meets the goal and stores hardly more."""
    adamw, _, _ = sass_page.split(common.load("instructions")["kernels"])
    errors = sass_limits.Results(common.load("accuracy"))
    gpu, goal = sass_page.GOAL_GPUS[0], sass_page.GOAL
    ratios = sass_page.ratios(adamw, gpu)
    found = sass_limits.limits(adamw, gpu, goal, errors)
    assert {each.name for each in found} == {
        name for name, ratio in ratios.items() if round(ratio, 2) > goal}
    assert any(each.instead for each in found)
    for each in found:
        if len(adamw[each.name][sass_page.CHIP]["launches"]) == 1:
            assert each.slots / each.budget * goal == pytest.approx(each.ratio)
        if each.instead:
            assert round(ratios[each.instead], 2) <= goal
            assert errors.bytes[each.instead] <= sass_limits.NEAR * errors.bytes[each.name]


def test_no_alternative_stores_as_little():
    launches = {"a": [{"slots": {"issue": 1.0}, "read": 8.0, "written": 8.0}]}
    errors = SimpleNamespace(strategies=["a"], bytes={"a": 8.0, "b": 4.0}, mean=lambda name: 0.1)
    assert sass_limits.choose(launches, "H100 SXM", "a", 0.85, errors) == "a"
    assert sass_limits.choose(launches, "H100 SXM", "b", 0.85, errors) is None
