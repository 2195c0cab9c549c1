#===- proof_steps.py - Steps that keep every bit ---------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the steps of the compiler that replace one sequence of float operations with
# another, each as a small kernel, and the claim about each: for all inputs, the transformed kernel
# stores the same numbers.
#
#===----------------------------------------------------------------------===#
"""`steps()` returns the steps. `oblige(step)` runs the passes and asserts, for a solver, that a
number has changed; `prove(step)` asks the solver for such a case."""

import hashlib
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Callable, Optional

from bitwuzla import Kind

from proof_formulas import Context, Kernel, mantissa_bits
from proof_lemmas import (FORMATS, ROOT, bias, claim_exact_sum, claim_negated, claim_side,
                          claim_undone, is_finite, is_multiple, lemmas, unit_field)

TANDEM_OPT = ROOT / "build/bin/tandem-opt"

EMULATE = ["-tandem-split-phases",
           "-tandem-emulate-floats=formats=bf16,f16,f8E4M3FN,f8E5M2",
           "-convert-float-codes-to-arith", "-tandem-simplify", "-cse"]
HALF_CONVERSIONS = [
    "-tandem-split-phases",
    '-tandem-emulate-floats=formats=bf16,f16,f8E4M3FN,f8E5M2 half-conversions',
    "-convert-float-codes-to-arith=half-conversions", "-tandem-simplify", "-cse"]

#===----------------------------------------------------------------------===#
# Programs
#===----------------------------------------------------------------------===#


class Programs:
    """Runs tandem-opt on kernels and returns the programs in the generic form. One process
    handles all kernels that are known to need the same passes."""

    def __init__(self):
        self.wanted, self.made = defaultdict(dict), {}

    def want(self, source, passes):
        self.wanted[tuple(passes)][source] = None

    def get(self, source, passes):
        key = tuple(passes)
        if (source, key) not in self.made:
            self.want(source, passes)
            sources = [s for s in self.wanted[key] if (s, key) not in self.made]
            self.made.update(((s, key), made) for s, made in
                             zip(sources, self.run(sources, passes), strict=True))
        return self.made[source, key]

    @staticmethod
    def run(sources, passes):
        separator = "// -----\n"
        result = subprocess.run(
            [TANDEM_OPT, *passes, "--mlir-print-op-generic", "-split-input-file"],
            input=separator.join(sources), capture_output=True, text=True)
        if result.returncode:
            raise ValueError(result.stderr)
        return result.stdout.split(separator)


PROGRAMS = Programs()


def kernel_text(inputs, body, outputs):
    """Returns a kernel that loads `%a`, `%b`, ... in the formats named in `inputs` and stores
    the values that `outputs` maps to formats."""
    formats = [*inputs.values(), *outputs.values()]
    stored = [f"!tandem.stored<tensor<?xf32>, #tandem.float<{name}>>"
              for name in formats]
    tensors = [f"%t{i}" for i in range(len(formats))]
    lines = [f"  %{name} = tandem.load_plane {tensor}[0] : {type_name} -> {form}"
             for (name, form), tensor, type_name in
             zip(inputs.items(), tensors, stored)]
    lines += ["  " + line.strip() for line in body.strip().split("\n")]
    first = len(inputs)
    lines += [f"  tandem.store_plane %{name}, {tensor}[0] : {form}, {type_name}"
              for (name, form), tensor, type_name in
              zip(outputs.items(), tensors[first:], stored[first:])]
    roles = ", ".join(f'#tandem.role<param "p{i}">' for i in range(len(formats)))
    arguments = ", ".join(f"{t}: {s}" for t, s in zip(tensors, stored))
    return (f"tandem.kernel @step compute(<f32, f32>) tensors [{roles}] scalars []"
            " prologue {\n  tandem.yield\n} body {\n"
            f"^bb0({arguments}):\n" + "\n".join(lines) + "\n  tandem.yield\n}\n")


#===----------------------------------------------------------------------===#
# Steps
#===----------------------------------------------------------------------===#


@dataclass
class Step:
    """A promise, the kernel that it is about, and the passes that must keep it."""

    name: str
    promise: str
    source: str
    passes: list
    #: The passes that produce the program before the step.
    prepare: list = field(default_factory=list)
    part: str = "body"
    #: Operations whose results are arbitrary.
    free: tuple = ()
    #: Returns a formula about these results, if there is one.
    assume: Optional[Callable] = None
    #: Lemmas for the same format that the proof assumes.
    relies: tuple = ()
    #: The context's factors.
    factors: Optional[str] = None
    #: Whether it is proved with each commit.
    is_quick: bool = False
    #: The substitute if the solver finds no proof: a part of tandem-verify, or a test, that covers
    #: all operands.
    certificate: str = ""

    def __post_init__(self):
        PROGRAMS.want(self.source, self.prepare)
        PROGRAMS.want(self.source, [*self.prepare, *self.passes])

    @property
    def before(self):
        return PROGRAMS.get(self.source, self.prepare)

    @property
    def after(self):
        return PROGRAMS.get(self.source, [*self.prepare, *self.passes])

    def run(self, context):
        """Translates both programs and returns the values that they store."""
        before, after = [context.run(Kernel(text, self.part), self.free)
                         for text in (self.before, self.after)]
        if self.assume:
            context.solver.assert_formula(self.assume(context))
        return before, after

    def state(self, context):
        """Asserts that the programs differ."""
        context.claim_difference(*self.run(context))


def context_for(step, time_limit=None):
    # Only CPUs compute bf16 in lanes; they round NaNs like numbers.
    is_bf16 = "bf16" in (step.source if isinstance(step, Step) else step.format)
    return Context(time_limit, is_bf16, step.factors)


def oblige(step, time_limit=None):
    """Returns a context that is contradictory if and only if the step is correct."""
    context = context_for(step, time_limit)
    step.state(context)
    return context


def prove(step, time_limit):
    """Returns None or inputs that refute the promise, and the number of input bits."""
    context = oblige(step, time_limit)
    return context.check(), context.num_bits


def hash_of(step):
    """Hashes all assertions, and the code that relies on a lemma."""
    text = oblige(step).text + getattr(step, "code_text", "")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


#===----------------------------------------------------------------------===#
# Small formats in lanes
#===----------------------------------------------------------------------===#

_QUICK = {("mul", "bf16"), ("mul", "f8E5M2"), ("mul", "f8E4M3FN")}


def _emulated_operations():
    operations = {"add": "arith.addf %a, %b", "sub": "arith.subf %a, %b",
                  "mul": "arith.mulf %a, %b", "div": "arith.divf %a, %b",
                  "sqrt": "math.sqrt %a"}
    for name, text in operations.items():
        for form in FORMATS:
            inputs = {"a": form} if name == "sqrt" else {"a": form, "b": form}
            source = kernel_text(inputs, f"%r = {text} : {form}", {"r": form})
            yield Step(f"emulate-{name}-{form}",
                       f"{name} of {form} is one f32 operation and one rounding",
                       source, EMULATE, is_quick=(name, form) in _QUICK,
                       certificate="" if name == "sqrt" else f"{form}-{name}")


def _emulated_fmas():
    for form in FORMATS:
        inputs = {"a": form, "b": form, "c": form}
        yield Step(f"emulate-fma-{form}",
                   f"fma of {form} through f64 with rounding to odd rounds once",
                   kernel_text(inputs, f"%r = math.fma %a, %b, %c : {form}",
                               {"r": form}), EMULATE, factors=form, assume=_has_side,
                   relies=("product", "side", "side-small"),
                   certificate=f"{form}-fma" if form.startswith("f8") else "")
        residual = (f"%x = arith.mulf %a, %b : {form}\n%n = arith.negf %x : {form}\n"
                    f"%r = math.fma %a, %b, %n : {form}")
        yield Step(f"emulate-residual-{form}",
                   f"the error of a product of {form} is an f32 fma and a rounding",
                   kernel_text({"a": form, "b": form}, residual, {"r": form}),
                   EMULATE, certificate=f"{form}-two_prod")


def _has_side(context):
    """Returns the conclusion of the lemmas for product and addend, or a failed premise."""
    _, product = context.only_product
    addend = context.convert(context.input("plane (2, 0)", context.factors), "f64")
    premises, conclusion = claim_side(context, product.term, addend.term)
    return context.any(conclusion, *(context.make(Kind.NOT, p) for p in premises))


def _conversions():
    for form in FORMATS:
        source = kernel_text({"a": "f32"}, f"%r = arith.truncf %a : f32 to {form}",
                             {"r": form})
        yield Step(f"round-f32-{form}",
                   f"f32 is rounded to {form} by integers, once", source, EMULATE,
                   is_quick=form != "f16", certificate=f"{form}-convert")
        source = kernel_text({"a": form}, f"%r = arith.extf %a : {form} to f32",
                             {"r": "f32"})
        yield Step(f"decode-{form}", f"{form} is read exactly", source, EMULATE,
                   is_quick=True)
        yield Step(f"decode-half-{form}", f"{form} is read exactly through f16",
                   source, HALF_CONVERSIONS, is_quick=True)
        for wide in FORMATS[:2] if form.startswith("f8") else []:
            source = kernel_text({"a": wide}, f"%r = arith.truncf %a : {wide} to {form}",
                                 {"r": form})
            yield Step(f"round-{wide}-{form}", f"{wide} is rounded to {form} in its lane",
                       source, EMULATE, is_quick=True)
        yield Step(f"round-f64-{form}",
                   f"f64 is rounded to {form} through f32, to odd, once",
                   _prologue_text(form), EMULATE, part="prologue")


def _prologue_text(form):
    return (
        'tandem.kernel @step compute(<f32, f32>) tensors [#tandem.role<param "p">] '
        'scalars [#tandem.role<hyper "x">] prologue {\n^bb0(%x: f64):\n'
        f"  %r = arith.truncf %x : f64 to {form}\n  tandem.yield %r : {form}\n"
        "} body {\n^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, "
        f"%r: {form}):\n  tandem.yield\n}}\n")


#===----------------------------------------------------------------------===#
# Error-free transforms
#===----------------------------------------------------------------------===#


def _sum_errors():
    for form in FORMATS:
        body = (f"%x = arith.addf %a, %b : {form}\n%z = arith.subf %x, %a : {form}\n"
                f"%r = arith.subf %b, %z : {form}")
        yield Step(f"sum-error-{form}",
                   f"the error that a Fast2Sum of {form} gives needs no rounding, "
                   "whatever the operands' order",
                   kernel_text({"a": form, "b": form}, body, {"r": form}), EMULATE,
                   certificate="test/Unit/Support/SumErrorTest.cpp")


#: Constants that bound the operands, so that the range analysis finds their order. The proof covers
#: arbitrary operands.
_CONSTANTS = ("%one = arith.constant 1.0 : {0}\n%two = arith.constant 2.0 : {0}\n"
              "%minus_one = arith.constant -1.0 : {0}\n"
              "%big = arith.constant 128.0 : {0}\n")

#: The lemmas that steps about ordered sums assume.
_RELIES = "order", "undo", "negate"


def _operands(context):
    return [context.from_bits(*context.inputs[key]) for key in ("free 0", "free 1")]


def _is_ordered(context):
    """Returns the analysis's condition on the free operands (a is a multiple of b's ulp, unless
    one is not finite), and the lemmas about them."""
    a, b = _operands(context)
    total = context.arithmetic(Kind.FP_ADD, [a, b])
    claims = (claim_exact_sum(context, a, b), claim_undone(context, total, a),
              claim_negated(context, total, a))
    facts = [context.any(conclusion, *(context.make(Kind.NOT, p) for p in premises))
             for premises, conclusion in claims]
    return context.make(
        Kind.AND, *facts, _unless_infinite(
            context, is_multiple(context, a, unit_field(context, b))))


def _unless_infinite(context, formula):
    infinite = [context.make(Kind.NOT, is_finite(context, x))
                for x in _operands(context)]
    return context.any(*infinite, formula)


def _has_finite_sum(context):
    """Returns the same, and that finite operands have a finite sum."""
    total = context.arithmetic(Kind.FP_ADD, _operands(context))
    return context.make(Kind.AND, _is_ordered(context), _unless_infinite(
        context, is_finite(context, total)))


def _ordered_sums():
    for form in ["f32", *FORMATS]:
        body = (_CONSTANTS + "%m = arith.maximumf %a, %two : {0}\n"
                "%x = arith.minimumf %m, %big : {0}\n"
                "%l = arith.maximumf %b, %minus_one : {0}\n"
                "%y = arith.minimumf %l, %one : {0}\n"
                "%s = mcf.two_sum %x, %y : !mcf.expansion<{0} x 2>\n"
                "%r, %e = mcf.components %s : !mcf.expansion<{0} x 2>").format(form)
        source = kernel_text({"a": form, "b": form}, body, {"r": form, "e": form})
        free = "arith.maximumf", "arith.minimumf"
        mcf, ranges = ["-convert-mcf-to-arith"], ["-tandem-analyze-ranges", "-cse"]
        yield Step(f"shorten-{form}",
                   f"TwoSum of {form} has the bits of x = a + b, y = (a - x) + b where "
                   "a is a multiple of b's ulp and x is finite", source,
                   ranges, mcf, free=free, assume=_has_finite_sum, relies=_RELIES,
                   certificate=f"{form}-ordered_two_sum" if form in FORMATS else "")
        if form == "f32":
            continue
        granted = source.replace("mcf.two_sum %x, %y",
                                 "mcf.fast_two_sum %x, %y granted")
        yield Step(f"elide-difference-{form}",
                   f"in a Fast2Sum of {form} whose first operand is a multiple of the "
                   "second one's ulp, x - a needs no rounding", granted, EMULATE, mcf,
                   free=free, assume=_is_ordered, relies=_RELIES,
                   certificate=f"{form}-unrounded")
        yield Step(f"elide-rest-{form}",
                   f"nor do a - x and (a - x) + b in a shortened TwoSum of {form}",
                   source, EMULATE, mcf + ranges, free=free, assume=_is_ordered,
                   relies=_RELIES, certificate=f"{form}-unrounded")


def _elided_products():
    """Yields steps for products in a range where no product is a multiple of less than the
    smallest number."""
    for form in FORMATS:
        body = ("%one = arith.constant 1.0 : {0}\n"
                "%x = arith.maximumf %a, %one : {0}\n"
                "%y = arith.maximumf %b, %one : {0}\n"
                "%s = mcf.two_prod %x, %y : !mcf.expansion<{0} x 2>\n"
                "%p, %e = mcf.components %s : !mcf.expansion<{0} x 2>").format(form)
        yield Step(f"elide-residual-{form}",
                   f"the error of a product of {form} whose exponents suffice needs no "
                   "rounding",
                   kernel_text({"a": form, "b": form}, body, {"p": form, "e": form}),
                   EMULATE, ["-convert-mcf-to-arith"], free=("arith.maximumf",),
                   assume=_has_exponents)


def _has_exponents(context):
    """Returns whether both are finite and the product of their units is representable."""
    a, b = _operands(context)
    least = context.constant(16, 1 + bias(a.type) + mantissa_bits(a.type))
    units = context.make(Kind.BV_ADD, unit_field(context, a), unit_field(context, b))
    return context.make(Kind.AND, is_finite(context, a), is_finite(context, b),
                        context.make(Kind.BV_SGE, units, least))


def _simplifications():
    comparisons = "\n".join(
        f"%c{i} = arith.cmpf {name}, %a, %a : f32\n"
        f"%r{i} = arith.select %c{i}, %a, %one : f32"
        for i, name in enumerate(["ogt", "olt", "one", "ueq", "uge", "ule"]))
    yield Step("simplify-comparisons",
               "a comparison of a float with itself is the constant it is replaced by",
               kernel_text({"a": "f32"}, "%one = arith.constant 1.0 : f32\n"
                           + comparisons, {f"r{i}": "f32" for i in range(6)}),
               ["-tandem-simplify"], is_quick=True)
    yield Step("simplify-factors", "the factors of an fma may be swapped",
               kernel_text({"a": "f32", "b": "f32", "c": "f32"},
                           "%r = math.fma %b, %a, %c : f32", {"r": "f32"}),
               ["-tandem-simplify"], is_quick=True)


def steps():
    """Returns all steps by name."""
    groups = [_emulated_operations(), _emulated_fmas(), _conversions(), _sum_errors(),
              _ordered_sums(), _elided_products(), _simplifications(), lemmas()]
    return {step.name: step for group in groups for step in group}
