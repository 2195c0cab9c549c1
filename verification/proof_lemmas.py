#===- proof_lemmas.py - Facts that the compiler relies on ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists facts about all numbers of a format on which the compiler relies and which no
# proof of a single pass shows: those of the range analysis, and those that justify the choice of
# instructions.
#
#===----------------------------------------------------------------------===#
"""`lemmas()` returns the facts, each as premises and a conclusion."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable, Optional

import bitwuzla
from bitwuzla import Kind

from proof_formulas import E4M3, WIDTHS, Float, mantissa_bits, product_width

ROOT = Path(__file__).resolve().parents[1]
FORMATS = ["bf16", "f16", "f8E5M2", E4M3]


@dataclass
class Lemma:
    name: str
    promise: str
    format: str
    #: Maps a context and the format to the premises, as a list, and the conclusion.
    claim: Callable
    is_quick: bool = False
    #: Functions that rely on it, as a file and the beginnings of their texts.
    code: tuple = ()
    certificate: str = ""
    #: The context's factors.
    factors: Optional[str] = None

    def state(self, context):
        """Asserts that the premises hold and the conclusion does not."""
        premises, conclusion = self.claim(context, self.format)
        for formula in (*premises, context.make(Kind.NOT, conclusion)):
            context.solver.assert_formula(formula)

    @property
    def code_text(self):
        if not self.code:
            return ""
        path, *beginnings = self.code
        text = (ROOT / path).read_text()
        begins = [text.index(beginning) for beginning in beginnings]
        return "".join(text[b:text.index("\n}\n", b)] for b in begins)


#===----------------------------------------------------------------------===#
# Units
#===----------------------------------------------------------------------===#

#: The number of bits for signed exponent fields and shifts, wide enough for their sums.
_FIELD = 16


def exponent_bits(form):
    return WIDTHS[form] - 1 - mantissa_bits(form)


def bias(form):
    return 2 ** (exponent_bits(form) - 1) - 1


def is_finite(context, value):
    return context.make(Kind.NOT, context.any(
        context.make(Kind.FP_IS_NAN, value.term),
        context.make(Kind.FP_IS_INF, value.term)))


def unit_field(context, value):
    """Returns the exponent field; 1 is that of the smallest unit in the last place."""
    mantissa, width = mantissa_bits(value.type), WIDTHS[value.type]
    field = context.extract(context.bits_of(value), width - 2, mantissa)
    field = context.make(Kind.BV_ZERO_EXTEND, field,
                         indices=(_FIELD - exponent_bits(value.type),))
    return context.ite(context.equals(field, 0), context.constant(_FIELD, 1), field)


def is_multiple(context, value, field):
    """Returns whether a finite number is a multiple of the unit given by an exponent field, that
    is, whether the bits of its significand below that unit are zero."""
    mantissa, width = mantissa_bits(value.type), WIDTHS[value.type]
    bits = context.bits_of(value)
    is_small = context.equals(context.extract(bits, width - 2, mantissa), 0)
    hidden = context.ite(is_small, context.constant(32, 0),
                         context.constant(32, 1 << mantissa))
    significand = context.make(Kind.BV_OR, hidden, context.make(
        Kind.BV_ZERO_EXTEND, context.extract(bits, mantissa - 1, 0),
        indices=(32 - mantissa,)))
    shift = context.make(Kind.BV_SUB, field, unit_field(context, value))
    wide = context.make(Kind.BV_ZERO_EXTEND, shift, indices=(32 - _FIELD,))
    above = context.make(Kind.BV_SHL, context.constant(32, -1), wide)
    below = context.make(Kind.BV_AND, significand, context.make(Kind.BV_NOT, above))
    return context.any(
        context.make(Kind.BV_SLE, shift, context.constant(_FIELD, 0)),
        context.equals(below, 0))


def power(context, form, field, shift=0):
    """Returns 2^shift times the unit given by an exponent field, in f64."""
    rebias = 1023 - bias(form) - mantissa_bits(form) + shift
    exponent = context.make(Kind.BV_ADD, field, context.constant(_FIELD, rebias))
    bits = context.make(Kind.BV_CONCAT, context.constant(1, 0),
                        context.extract(exponent, 10, 0), context.constant(52, 0))
    return context.from_bits("f64", bits).term


def magnitude(context, value):
    return context.make(Kind.FP_ABS, context.convert(value, "f64").term)


def some_field(context, name):
    """Returns a variable exponent field, which need not be one of the format."""
    field = context.unnamed(_FIELD, name)
    for kind, bound in ((Kind.BV_SGE, -700), (Kind.BV_SLE, 700)):
        context.solver.assert_formula(
            context.make(kind, field, context.constant(_FIELD, bound)))
    return field


def is_exact(context, kind, operands, result):
    """Returns whether a finite result rounded to nearest is exact: both directed f32 roundings
    agree, and with the result in the format."""
    terms = [operand.term for operand in operands]
    down, up = [context.make(kind, context.tm.mk_rm_value(mode), *terms) for mode in
                (bitwuzla.RoundingMode.RTN, bitwuzla.RoundingMode.RTP)]
    return context.make(Kind.AND, context.make(Kind.FP_EQUAL, down, up),
                        context.make(Kind.FP_EQUAL, down, result.term))


def less(context, field, shift):
    return context.make(Kind.BV_SUB, field, context.constant(_FIELD, shift))


#===----------------------------------------------------------------------===#
# Range analysis
#===----------------------------------------------------------------------===#


def _sum(context, form):
    a, b = context.input("a", form), context.input("b", form)
    return a, b, context.arithmetic(Kind.FP_ADD, [a, b])


def _larger_is_multiple(context, form):
    a, b = context.input("a", form), context.input("b", form)
    larger = context.make(Kind.FP_GEQ, context.make(Kind.FP_ABS, a.term),
                          context.make(Kind.FP_ABS, b.term))
    return ([is_finite(context, a), larger],
            is_multiple(context, a, unit_field(context, b)))


def _ordered_sum(context, a, b):
    """Returns the premises (a is a multiple of b's ulp) and the results of a Fast2Sum."""
    total = context.arithmetic(Kind.FP_ADD, [a, b])
    part = context.arithmetic(Kind.FP_SUB, [total, a])
    error = context.arithmetic(Kind.FP_SUB, [b, part])
    return [is_finite(context, a), is_finite(context, b), is_finite(context, total),
            is_multiple(context, a, unit_field(context, b))], (total, part, error)


def claim_exact_sum(context, a, b):
    """Claims that both differences are exact, so that the second one is the sum's error."""
    premises, (total, part, error) = _ordered_sum(context, a, b)
    return premises, context.make(
        Kind.AND, is_exact(context, Kind.FP_SUB, [total, a], part),
        is_exact(context, Kind.FP_SUB, [b, part], error))


def claim_undone(context, x, a):
    part = context.arithmetic(Kind.FP_SUB, [x, a])
    back = context.arithmetic(Kind.FP_SUB, [x, part])
    return ([is_finite(context, x), is_finite(context, a), is_finite(context, part),
             is_exact(context, Kind.FP_SUB, [x, a], part)],
            context.make(Kind.FP_EQUAL, back.term, a.term))


def claim_negated(context, x, a):
    part = context.arithmetic(Kind.FP_SUB, [x, a])
    rest = context.arithmetic(Kind.FP_SUB, [a, x])
    return [is_finite(context, value) for value in (x, a, part)], context.make(
        Kind.FP_EQUAL, rest.term, context.make(Kind.FP_NEG, part.term))


def of_inputs(claim):
    """Turns a claim about two numbers into one about all numbers of a format."""
    return lambda context, form: claim(context, context.input("a", form),
                                       context.input("b", form))


def _ordered_error_is_small(context, form):
    a, b = context.input("a", form), context.input("b", form)
    premises, (total, _, error) = _ordered_sum(context, a, b)
    limit = power(context, form, unit_field(context, total), -1)
    return premises, context.make(Kind.FP_LEQ, magnitude(context, error), limit)


def _two_sum_is_small(context, form):
    a, b, total = _sum(context, form)
    second = context.arithmetic(Kind.FP_SUB, [total, a])
    first = context.arithmetic(Kind.FP_SUB, [total, second])
    error = context.arithmetic(Kind.FP_ADD, [
        context.arithmetic(Kind.FP_SUB, [a, first]),
        context.arithmetic(Kind.FP_SUB, [b, second])])
    limit = power(context, form, unit_field(context, total), -1)
    return ([is_finite(context, total), is_finite(context, error)],
            context.make(Kind.FP_LEQ, magnitude(context, error), limit))


def _small_leaves_multiple(context, form):
    """Claims that a multiple a of g with |b| <= 2^(p-1) g is a multiple of b's ulp."""
    a, b = context.input("a", form), context.input("b", form)
    field = some_field(context, "g")
    limit = power(context, form, field, mantissa_bits(form))
    return [is_finite(context, a), is_finite(context, b),
            is_multiple(context, a, field),
            context.make(Kind.FP_LEQ, magnitude(context, b), limit)], is_multiple(
        context, a, unit_field(context, b))


def _product(context, form):
    """Returns the operands of the fma for a product's error, the product, and the error."""
    a, b = context.input("a", form), context.input("b", form)
    product = context.arithmetic(Kind.FP_MUL, [a, b])
    negative = Float(form, context.make(Kind.FP_NEG, product.term))
    operands = [a, b, negative]
    return operands, product, context.arithmetic(Kind.FP_FMA, operands)


def _residual_is_small(context, form):
    _, product, error = _product(context, form)
    limit = power(context, form, unit_field(context, product), -1)
    return ([is_finite(context, product), is_finite(context, error)],
            context.make(Kind.FP_LEQ, magnitude(context, error), limit))


def _residual_is_exact(context, form):
    """Claims that fma is exact if a and b are multiples of units with a representable product."""
    operands, product, error = _product(context, form)
    a, b, _ = operands
    fields = some_field(context, "g"), some_field(context, "h")
    # field + field - 2 (bias + mantissa) >= 1 - bias - mantissa.
    least = context.constant(_FIELD, 1 + bias(form) + mantissa_bits(form))
    return [is_finite(context, a), is_finite(context, b), is_finite(context, product),
            is_multiple(context, a, fields[0]), is_multiple(context, b, fields[1]),
            context.make(Kind.BV_SGE, context.make(Kind.BV_ADD, *fields), least)
            ], is_exact(context, Kind.FP_FMA, operands, error)


def _error_is_small(context, form):
    a, b, total = _sum(context, form)
    part = context.arithmetic(Kind.FP_SUB, [total, a])
    error = context.arithmetic(Kind.FP_SUB, [b, part])
    limit = power(context, form, unit_field(context, total))
    return ([is_finite(context, total), is_finite(context, error)],
            context.make(Kind.FP_LEQ, magnitude(context, error), limit))


def _sum_is_multiple(context, form):
    a, b, total = _sum(context, form)
    half = less(context, unit_field(context, a), 1)
    return ([is_finite(context, b), is_finite(context, total)],
            is_multiple(context, total, half))


def _product_is_small(context, form):
    """Claims that |small * factor| <= ulp(lead * factor) if |small| <= ulp(lead) / 2."""
    lead, factor = context.input("lead", form), context.input("factor", form)
    small = context.input("small", form)
    product = context.arithmetic(Kind.FP_MUL, [lead, factor])
    part = context.arithmetic(Kind.FP_MUL, [small, factor])
    return [is_finite(context, lead), is_finite(context, product),
            is_finite(context, part),
            context.make(Kind.FP_LEQ, magnitude(context, small),
                         power(context, form, unit_field(context, lead), -1))
            ], context.make(Kind.FP_LEQ, magnitude(context, part),
                            power(context, form, unit_field(context, product)))


def _rest_is_small(context, form):
    """Claims that |low| <= ulp(high) / 2 for high = fl(x) and low = fl(x - high)."""
    wide = "f64" if form == "f32" else "f32"
    x = context.input("x", wide)
    high = context.convert(x, form)
    rest = context.arithmetic(Kind.FP_SUB, [x, context.convert(high, wide)])
    low = context.convert(rest, form)
    limit = power(context, form, unit_field(context, high), -1)
    return [is_finite(context, high)], context.make(
        Kind.FP_LEQ, magnitude(context, low), limit)


#===----------------------------------------------------------------------===#
# Products and addends in f64
#===----------------------------------------------------------------------===#


def _product_is_double(context, form):
    """Claims that a product is exact in f64, has few significand bits, and a bounded size."""
    terms = [context.convert(context.input(name, form), "f64").term for name in "ab"]
    product = Float("f64", context.make(Kind.FP_MUL, context.rne, *terms))
    low = context.extract(context.bits_of(product), 63 - product_width(form), 0)
    down, up = context.enclose(Kind.FP_MUL, terms)
    return [], context.any(
        context.make(Kind.FP_IS_NAN, product.term),
        context.make(Kind.AND, context.make(Kind.FP_EQUAL, down, up),
                     context.equals(low, 0),
                     context.is_product_size(form, product.term)))


def claim_side(context, product, addend):
    """Claims that the error of a TwoSum is positive if the sum is below the exact one, and
    negative if it is above."""
    add, sub = [lambda a, b, kind=kind: context.make(kind, context.rne, a, b)
                for kind in (Kind.FP_ADD, Kind.FP_SUB)]
    total = add(product, addend)
    second = sub(total, product)
    first = sub(total, second)
    error = add(sub(product, first), sub(addend, second))
    down, up = context.enclose(Kind.FP_ADD, [product, addend])
    zero = context.number("f64", "0")
    is_below, is_above = [
        context.make(Kind.EQUAL, context.make(sign, error, zero),
                     context.make(Kind.FP_LT, *ends))
        for sign, ends in ((Kind.FP_GT, (total, up)), (Kind.FP_LT, (down, total)))]
    finite = [is_finite(context, Float("f64", term)) for term in (product, addend)]
    return finite, context.make(Kind.AND, is_below, is_above)


def _side(context, form, is_product_larger):
    product = context.any_product(context.unnamed(product_width(form), "product"))
    addend = context.convert(context.input("c", form), "f64").term
    premises, conclusion = claim_side(context, product, addend)
    is_larger = context.make(Kind.FP_GEQ, *(
        context.make(Kind.FP_ABS, term) for term in (product, addend)))
    if not is_product_larger:
        is_larger = context.make(Kind.NOT, is_larger)
    return [*premises, is_larger], conclusion


#===----------------------------------------------------------------------===#
# Instructions
#===----------------------------------------------------------------------===#


def _dot_product_rounds(context, _):
    """Claims that x + 0x7FFF + ((x >> 16) & 1) equals a dot product of two half-words."""
    x = context.input("x", "i32")
    odd = context.make(Kind.BV_AND, context.make(
        Kind.BV_SHR, x, context.constant(32, 16)), context.constant(32, 1))
    wanted = context.make(Kind.BV_ADD, x, context.constant(32, 0x7FFF), odd)
    halves = context.make(Kind.BV_OR, context.make(
        Kind.BV_AND, x, context.constant(32, 0x10000)),
        context.constant(32, 0x7FFF))
    low, high = [context.make(Kind.BV_SIGN_EXTEND, context.extract(halves, *ends),
                              indices=(16,)) for ends in ((15, 0), (31, 16))]
    return [], context.make(Kind.EQUAL, wanted,
                            context.make(Kind.BV_ADD, x, low, high))


def _fma_serves(context, form):
    """Claims that the fmas used on sm_80 compute a sum, a difference and a product."""
    a, b = context.input("a", form), context.input("b", form)
    one, minus_one, zero = [
        Float(form, context.number(form, text)) for text in ("1", "-1", "0")]
    zero = Float(form, context.make(Kind.FP_NEG, zero.term))
    pairs = [(Kind.FP_ADD, (a, one, b)), (Kind.FP_SUB, (b, minus_one, a)),
             (Kind.FP_MUL, (a, b, zero))]
    return [], context.make(Kind.NOT, context.any(*(
        context.differ(context.arithmetic(kind, [a, b]),
                       context.arithmetic(Kind.FP_FMA, list(operands)))
        for kind, operands in pairs)))


#: Names, promises, claims, and the functions that rely on them.
_ANALYSIS = (
    ("larger", "a number of {} that is no smaller than another is a multiple of its ulp",
     _larger_is_multiple, "proveExact"),
    ("order", "a Fast2Sum of {} gives the exact error where a is a multiple of b's ulp "
     "and the sum is finite", of_inputs(claim_exact_sum), "isMultipleOfUlp"),
    ("undo", "x - (x - a) is a where x - a is exact, in {}", of_inputs(claim_undone),
     "matchOrderedTwoSum"),
    ("negate", "a - x is -(x - a) where that is finite, in {}", of_inputs(claim_negated),
     "matchOrderedTwoSum"),
    ("trail", "if |b| <= 2^(p-1) g, then a multiple of g is one of b's ulp, in {}",
     _small_leaves_multiple, "isTrail"),
    ("residual", "the error of a product of {} is a number where the product of units is "
     "one that the factors are multiples of", _residual_is_exact, "proveExact"),
    ("trail-error", "what a Fast2Sum of {} gives for its error is at most an ulp of the "
     "sum, whatever the order", _error_is_small, "getTrail"),
    ("trail-order", "the error of a Fast2Sum of {} is at most half an ulp of the sum where a "
     "is a multiple of b's ulp", _ordered_error_is_small, "getTrail"),
    ("trail-two-sum", "the error that a TwoSum of {} gives is at most half an ulp of the sum",
     _two_sum_is_small, "getTrail"),
    ("trail-residual", "the error of a product of {}, rounded, is at most half an ulp of "
     "the product", _residual_is_small, "getTrail"),
    ("trail-sum", "a rounded sum of {} is a multiple of half an ulp of each operand",
     _sum_is_multiple, "addTrail"),
    ("trail-product", "half an ulp of a number of {}, multiplied, is at most an ulp of "
     "the number multiplied", _product_is_small, "addProductTrails"),
    ("trail-split", "what is left of a wider number in {} is at most half an ulp",
     _rest_is_small, "addTrails"))

_QUICK = {"larger", "trail"}

#: The lemmas that tandem-verify also checks for all pairs.
_RUN = {"trail-error", "trail-order", "trail-two-sum"}

_FMA = "lib/Dialect/Arith/Utils/FloatEmulation.cpp", "Value tandem::fmaToOddF32("
_TRANSFORMS = "lib/Dialect/Tandem/Analysis/ErrorFreeTransforms.cpp"
_RANGES = "lib/Dialect/Tandem/Analysis/RangeAnalysis.cpp"
_FUNCTIONS = {
    "proveExact": (_TRANSFORMS, "Proof tandem::proveExact("),
    "matchOrderedTwoSum": (
        _TRANSFORMS, "static std::optional<Transform> matchOrderedTwoSum("),
    "isMultipleOfUlp": (_TRANSFORMS, "static bool isMultipleOfUlp("),
    "isTrail": (_TRANSFORMS, "static bool isTrail("),
    "getTrail": (_TRANSFORMS, "Trail tandem::getTrail("),
    "addTrail": (_RANGES, "static std::optional<Trail> addTrail("),
    "addProductTrails": (_RANGES, "static void addProductTrails("),
    "addTrails": (_RANGES, "static Value matchSplit(", "void RangeAnalysis::addTrails(")}


def lemmas():
    yield Lemma("dot-product",
                "with AVX-512 a dot product of half-words rounds to bf16", "i32",
                _dot_product_rounds, True,
                ("lib/Target/CPU/X86/Rounding.cpp", "static Value *matchRounding(",
                 "static Value *buildRounding("))
    yield Lemma("sm80-fma", "on sm_80 an fma is a sum, a difference, a product of bf16",
                "bf16", _fma_serves, certificate="bf16-fma-sums",
                code=("lib/Target/PTX/PTXCheck.cpp",
                      "RoundingOp EntryReader::classifyFMA("))
    for form in FORMATS:
        yield Lemma(f"product-{form}",
                    f"products of {form} are numbers of f64 with {product_width(form)} "
                    "upper bits", form, _product_is_double, code=_FMA)
        for name, size in ("side", "no smaller"), ("side-small", "smaller"):
            yield Lemma(f"{name}-{form}",
                        f"TwoSum in f64 of a product of {form} and an addend gives an error "
                        f"with the right sign, or zero, where the product is {size}", form,
                        partial(_side, is_product_larger=name == "side"),
                        code=_FMA, factors=form)
    for name, promise, claim, function in _ANALYSIS:
        for form in (*FORMATS, "f32"):
            certificate = f"{form}-{name}" if name in _RUN and form in FORMATS else ""
            yield Lemma(f"{name}-{form}", promise.format(form), form, claim,
                        is_quick=name in _QUICK, code=_FUNCTIONS[function],
                        certificate=certificate)
