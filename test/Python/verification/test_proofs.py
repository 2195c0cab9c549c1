#===- test_proofs.py - Proofs of steps that keep every bit -----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that each step which replaces a sequence of float operations has a proof. Quick
# proofs are made here; slow ones are recorded for exactly the formulas that follow from the current
# passes. No proof may be vacuous, and the translation into formulas is compared with the
# interpreter.
#
#===----------------------------------------------------------------------===#

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tandem

sys.path.append(str(Path(__file__).resolve().parents[3] / "verification"))

from proof_formulas import WIDTHS, Context, Kernel  # noqa: E402
from proof_lemmas import FORMATS, ROOT  # noqa: E402
from proof_run import RESULTS, needs, read_record  # noqa: E402
from proof_steps import (PROGRAMS, Step, context_for, hash_of, kernel_text,  # noqa: E402
                         prove, steps)
from verification_page import certified, read_parts  # noqa: E402

STEPS = steps()
RECORD = read_record()
PROGRAM_STEPS = [name for name, step in STEPS.items() if isinstance(step, Step)]
LEMMAS = [name for name in STEPS if name not in PROGRAM_STEPS]

#: The lemmas that justify the range analysis's proofs, and their uses in the transforms: a shorter
#: TwoSum, and roundings omitted in lanes.
SUMS = ["order", "undo", "negate", "shorten", "elide-difference", "elide-rest"]
LEMMAS_OF = {"order": ["larger", *SUMS], "multiple": SUMS,
             "trail": ["trail", "trail-error", "trail-order", "trail-two-sum",
                       "trail-residual", "trail-sum", "trail-product", "trail-split",
                       *SUMS],
             "exponents": ["residual", "elide-residual"]}

#===----------------------------------------------------------------------===#
# Proofs
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("name", [n for n, step in STEPS.items() if step.is_quick])
def test_quick_proof(name):
    difference, _ = prove(STEPS[name], time_limit=300)
    assert difference is None


@pytest.mark.parametrize("name", STEPS)
def test_record_is_of_this_compiler(name):
    assert name in RECORD, f"there is no record; run scripts/prove.sh {name}"
    assert RECORD[name]["hash"] == hash_of(STEPS[name]), (
        "what is to be proved has changed since then; run scripts/prove.sh")
    result = RECORD[name]["result"]
    assert result == "proved" or result.startswith("gap: no answer in ")
    assert result == "proved" or not STEPS[name].is_quick


def test_record_has_no_other_steps():
    assert RECORD.keys() == STEPS.keys()


class Changed(Step):
    """A step whose passes produce a different program."""

    after = property(lambda self: self.text)


def changed(name, old, new):
    step = STEPS[name]
    wrong = Changed(**vars(step))
    wrong.text = step.after.replace(old, new)
    assert wrong.text != step.after
    return wrong


#: Ties away from zero, a different operation, and rounding at a different place.
WRONG = [("value = 32767", "value = 32768"), ("arith.addf", "arith.subf"),
         ("value = 16 :", "value = 15 :")]


@pytest.mark.parametrize("old, new", WRONG)
def test_wrong_sequence_is_refuted(old, new):
    """A proof that cannot fail proves nothing."""
    difference, _ = prove(changed("emulate-add-bf16", old, new), time_limit=300)
    assert difference is not None


def test_wrong_factor_is_refuted():
    """The over-approximated product must have the same factors on both sides."""
    name = "emulate-fma-f8E5M2"
    product = re.search(r'"arith.mulf"\((%\w+), (%\w+)\)', STEPS[name].after)
    wrong = changed(name, product[0], f'"arith.mulf"({product[1]}, {product[1]})')
    difference, _ = prove(wrong, time_limit=300)
    assert difference is not None


@pytest.mark.parametrize("old, new", WRONG)
def test_changed_sequence_needs_another_proof(old, new):
    row = {**RECORD["emulate-add-bf16"], "result": "proved"}
    assert not needs(STEPS["emulate-add-bf16"], row, 1)
    assert needs(changed("emulate-add-bf16", old, new), row, 1)


def test_changed_function_needs_another_proof():
    lemma = STEPS["dot-product"]
    assert "0x7FFF" in lemma.code_text and "pmaddw" in lemma.code_text
    other = replace(lemma, code=(lemma.code[0], "void tandem::selectRoundings("))
    assert hash_of(other) != hash_of(lemma)


def is_settled(name):
    """Returns whether there is a proof or a run over all operands."""
    row = certified(RECORD[name], read_parts(RESULTS))
    return row["result"] in ("proved", "no failure")


@pytest.mark.parametrize("name", PROGRAM_STEPS)
def test_what_a_proof_relies_on_is_settled(name):
    form = name.rsplit("-", 1)[1]
    assert RECORD[name]["result"] != "proved" or all(
        is_settled(f"{lemma}-{form}") for lemma in STEPS[name].relies)


def formats_with_lemmas():
    """Returns the compiler's table of formats for which the analysis may use proofs."""
    source = ROOT / "lib/Dialect/Tandem/Analysis/ErrorFreeTransforms.cpp"
    table = re.search(r"formatsWithLemmas\[\] = \{(.*?)\};", source.read_text(), re.S)
    return {proof: formats.split() for proof, formats in
            re.findall(r'\{Proof::(\w+), "(.*?)"\}', table[1])}


def test_nothing_is_rewritten_without_lemmas():
    table = formats_with_lemmas()
    assert table.keys() == LEMMAS_OF.keys()
    for proof, formats in table.items():
        for form in formats:
            # f32 is never in lanes.
            lemmas = [x for x in LEMMAS_OF[proof]
                      if form in FORMATS or not x.startswith("elide")]
            assert [x for x in lemmas if not is_settled(f"{x}-{form}")] == []


def test_range_analysis_has_lemmas():
    """Each proof that the analysis names has a lemma."""
    header = "include/tandem/Dialect/Tandem/Analysis/ErrorFreeTransforms.h"
    enum = re.search(r"enum class Proof \{(.*?)\n\};", (ROOT / header).read_text(), re.S)
    names = re.findall(r"^  (\w+),?$", enum[1], re.M)
    assert names == ["none", "order", "multiple", "trail", "exponents"]
    assert LEMMAS_OF.keys() == set(names[1:])
    assert all(f"{lemma}-{form}" in STEPS for lemmas in LEMMAS_OF.values()
               for lemma in lemmas if not lemma.startswith(("shorten", "elide"))
               for form in FORMATS)


#: Lemmas that do not hold without one of their premises.
NEEDED = [("order-f8E5M2", 3), ("undo-f8E5M2", 3), ("residual-f8E5M2", 5), ("trail-f8E5M2", 3),
          ("trail-product-f8E5M2", 3), ("larger-f8E5M2", 1)]


@pytest.mark.parametrize("name, premise", NEEDED)
def test_premise_is_needed(name, premise):
    lemma = STEPS[name]

    def claim(context, form):
        premises, conclusion = lemma.claim(context, form)
        return premises[:premise] + premises[premise + 1:], conclusion

    difference, _ = prove(replace(lemma, claim=claim), time_limit=300)
    assert difference is not None

#===----------------------------------------------------------------------===#
# Vacuous proofs
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("name", PROGRAM_STEPS)
def test_passes_change_the_program(name):
    step = STEPS[name]
    before, after = [
        [(op.name, op.attributes) for op in Kernel(text, step.part).operations]
        for text in (step.before, step.after)]
    if name == "simplify-factors":
        assert step.before != step.after
    else:
        assert before != after


@pytest.mark.parametrize("name", LEMMAS)
def test_premises_hold_of_something(name):
    context = context_for(STEPS[name], time_limit=60)
    premises, conclusion = STEPS[name].claim(context, STEPS[name].format)
    for formula in [*premises, conclusion]:
        context.solver.assert_formula(formula)
    assert context.check() is not None


def random_bits(form, count, seed=5):
    """Returns random bits, half of them near one."""
    rng = np.random.default_rng(seed)
    width = WIDTHS[form]
    one = {"bf16": 0x3F80, "f16": 0x3C00, "f8E5M2": 0x3C, "f8E4M3FN": 0x38,
           "f32": 0x3F800000, "f64": 0x3FF << 52}[form]
    near = one + rng.integers(-3 * 2 ** (width // 3), 3 * 2 ** (width // 3), count)
    anywhere = rng.integers(0, 1 << (width - 1), count, dtype=np.uint64) * 2 + 1
    return [int(n if i % 2 else a) for i, (n, a) in enumerate(zip(near, anywhere))]


def fix_inputs(context, position, are_equal):
    for index, (form, bits) in enumerate(context.inputs.values()):
        value = random_bits(form, 10, seed=0 if are_equal else index)[position]
        context.solver.assert_formula(context.equals(bits, value))


@pytest.mark.parametrize("name", PROGRAM_STEPS)
def test_formulas_allow_any_inputs(name):
    """Contradictory definitions would prove anything. The assumptions hold for equal operands."""
    is_limited = STEPS[name].assume is not None
    for position in ((1,) if is_limited else range(4)):
        context = context_for(STEPS[name], time_limit=60)
        STEPS[name].run(context)
        fix_inputs(context, position, are_equal=is_limited)
        assert context.check() is not None

#===----------------------------------------------------------------------===#
# The translation
#===----------------------------------------------------------------------===#

#: Every float operation that formulas support, in one format.
_PROGRAM = """
%sum = arith.addf %a, %b : {0}
%difference = arith.subf %sum, %c : {0}
%product = arith.mulf %difference, %b : {0}
%negative = arith.negf %product : {0}
%fused = math.fma %a, %b, %negative : {0}
%magnitude = math.absf %fused : {0}
%signed = math.copysign %magnitude, %c : {0}
%less = arith.cmpf olt, %signed, %c : {0}
%chosen = arith.select %less, %magnitude, %product : {0}
%quotient = arith.divf %chosen, %c : {0}
%positive = math.absf %quotient : {0}
%r = math.sqrt %positive : {0}
"""


def check_with_interpreter(text, inputs, output, tmp_path, count):
    """Asserts that formulas with fixed inputs are satisfiable, and that in every model the
    result is the interpreter's."""
    path = tmp_path / "program.mlir"
    path.write_text(text)
    kernel = Kernel(text)
    dtypes = {8: np.uint8, 16: np.uint16, 32: np.uint32}
    planes = {f"p{i}": np.array(random_bits(form, count, seed=i), dtypes[WIDTHS[form]])
              for i, form in enumerate([*inputs, output])}
    result = f"p{len(inputs)}"
    operands = {name: plane.copy() for name, plane in planes.items()}
    tandem.interpret(str(path), None, planes, {})
    for column in range(count):
        context = Context(keeps_payloads=True)
        stored = context.run(kernel)
        for key, (_, bits) in context.inputs.items():
            tensor = int(re.search(r"\((\d+)", key)[1])
            value = int(operands[f"p{tensor}"][column])
            context.solver.assert_formula(context.equals(bits, value))
        assert context.check() is not None
        wanted = context.constant(WIDTHS[output], int(planes[result][column]))
        context.solver.assert_formula(context.differ(
            stored[len(inputs), 0], context.from_bits(output, wanted)))
        assert context.check() is None


@pytest.mark.parametrize("form", [*FORMATS, "f32"])
def test_float_formulas_mean_what_the_interpreter_does(form, tmp_path):
    text = kernel_text({name: form for name in "abc"}, _PROGRAM.format(form),
                       {"r": form})
    check_with_interpreter(PROGRAMS.get(text, []), [form] * 3, form, tmp_path, 3)


@pytest.mark.parametrize("name, inputs, output", [
    *((f"emulate-add-{form}", [form] * 2, form) for form in FORMATS),
    *((f"emulate-fma-{form}", [form] * 3, form) for form in FORMATS),
    *((f"round-f32-{form}", ["f32"], form) for form in FORMATS),
    *((f"decode-half-{form}", [form], "f32") for form in FORMATS)])
def test_lane_formulas_mean_what_the_interpreter_does(name, inputs, output, tmp_path):
    check_with_interpreter(STEPS[name].after, inputs, output, tmp_path, 10)


@pytest.mark.parametrize("predicate", range(16))
def test_comparisons_mean_what_the_interpreter_does(predicate, tmp_path):
    names = ("false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true").split()
    body = (f"%c = arith.cmpf {names[predicate]}, %a, %b : f32\n"
            "%r = arith.select %c, %a, %b : f32")
    text = PROGRAMS.get(kernel_text({"a": "f32", "b": "f32"}, body, {"r": "f32"}), [])
    check_with_interpreter(text, ["f32"] * 2, "f32", tmp_path, 6)
