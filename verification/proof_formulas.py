#===- proof_formulas.py - Kernels as formulas ------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file translates a kernel's body into formulas over floats and bit vectors, according to the
# semantics of MLIR's operations.
#
#===----------------------------------------------------------------------===#
"""`Kernel(text)` parses a body in MLIR's generic form. `Context.run(kernel)` returns the terms
that it stores, `Context.claim_difference` asserts that those of two bodies differ, and
`Context.check` finds inputs for which they do, or shows that there are none."""

import math
import re
import time
from dataclasses import dataclass

import bitwuzla
from bitwuzla import Kind, Option, Result

#: Exponent and significand bits of the formats in formulas. The solver calls formats of other sizes
#: experimental, so they are not used.
SORTS = {"f16": (5, 11), "f32": (8, 24), "f64": (11, 53)}
E4M3 = "f8E4M3FN"
WIDTHS = {"f8E5M2": 8, E4M3: 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}


@dataclass
class SmallFormat:
    """A small format, all of whose numbers and midpoints are f32 numbers, so that its terms are
    terms of f32."""

    exponent: int
    mantissa: int
    #: The code of the largest number, and the code for values that overflow.
    largest: int
    beyond: int
    #: The number that the code after `largest` would have.
    bound: int
    #: The smallest positive number.
    least: float


SMALL = {"bf16": SmallFormat(8, 7, 0x7F7F, 0x7F80, 2 ** 128, 2.0 ** -133),
         "f16": SmallFormat(5, 10, 0x7BFF, 0x7C00, 2 ** 16, 2.0 ** -24),
         "f8E5M2": SmallFormat(5, 2, 0x7B, 0x7C, 2 ** 16, 2.0 ** -16),
         E4M3: SmallFormat(4, 3, 0x7E, 0x7F, 480, 2.0 ** -9)}


def is_float(type_name):
    return type_name in WIDTHS


def product_width(form):
    """Returns the number of upper f64 bits that a product of the format's numbers may need."""
    return 12 + 2 * mantissa_bits(form) + 1


def mantissa_bits(type_name):
    return (SMALL[type_name].mantissa if type_name in SMALL
            else SORTS[type_name][1] - 1)


#===----------------------------------------------------------------------===#
# Text
#===----------------------------------------------------------------------===#


@dataclass
class Operation:
    results: list
    name: str
    operands: list
    attributes: str
    operand_types: list
    result_types: list


_OPERATION = re.compile(
    r'^\s*(?:(?P<results>%[\w#:, %]+?) = )?"(?P<name>[\w.]+)"\((?P<operands>[^)]*)\)'
    r'(?: <\{(?P<attributes>.*?)\}>)? : \((?P<in>.*?)\) -> (?P<out>.*)$')


def _split(text):
    """Splits at commas outside of brackets."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += (character in "<([") - (character in ">)]")
        if character == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    return [p for p in parts + [part.strip()] if p]


class Kernel:
    """The body or prologue of the only kernel of a module or the only launch of a step."""

    def __init__(self, text, part="body"):
        prologue, body = text.split("\n  }, {\n", 1)
        lines = (body if part == "body" else prologue).split("\n")
        if part == "prologue":
            lines = lines[2:]
        self.arguments, self.operations = [], []
        for line in lines:
            if line.strip().startswith("})"):
                break
            if line.strip().startswith('"tandem.launch"'):
                continue
            if line.strip().startswith("^bb0("):
                self.arguments = [
                    tuple(argument.split(": ", 1)) for argument in
                    _split(line.strip()[len("^bb0("):-len("):")])]
                continue
            match = _OPERATION.match(line)
            if not match:
                raise ValueError(f"not an operation: {line}")
            out = match["out"].strip()
            self.operations.append(Operation(
                _split(match["results"] or ""), match["name"],
                _split(match["operands"]), match["attributes"] or "",
                _split(match["in"]),
                _split(out[1:-1] if out.startswith("(") else out)))

    def find_used(self, free):
        """Returns the values that the results depend on, except those used only by operations
        named in `free`."""
        used = set()
        for op in reversed(self.operations):
            if not op.results or op.results[0] in used and op.name not in free:
                used.update(op.operands)
        return used

    def storage_format(self, argument):
        """Returns the float format of a tensor argument's planes."""
        stored = dict(self.arguments)[argument]
        return re.search(r"#tandem\.(?:float|expansion)<(\w+)", stored)[1]


#===----------------------------------------------------------------------===#
# Terms
#===----------------------------------------------------------------------===#


class Float:
    """A float as a term. Its bits, which a NaN's term does not determine, are created on demand:
    by `derive`, or as any bits with the value of the term. The payload of a NaN may come from
    its `sources`."""

    def __init__(self, type_name, term, bits=None, sources=(), derive=None):
        self.type, self.term, self.known = type_name, term, bits
        self.sources, self.derive = sources, derive


class Context:
    """A solver and its assertions. With `keeps_payloads`, an operation that produces a NaN
    returns the quieted NaN of an operand or the processor's default NaN, as on x86; otherwise a
    NaN may have any bits. With `factors`, a small format, products in f64 have two factors of
    that format, and are over-approximated by any value that such products may have."""

    def __init__(self, time_limit=None, keeps_payloads=False, factors=None):
        self.keeps_payloads, self.factors = keeps_payloads, factors
        self.tm = bitwuzla.TermManager()
        options = bitwuzla.Options()
        options.set(Option.PRODUCE_MODELS, True)
        self.solver = bitwuzla.Bitwuzla(self.tm, options)
        if time_limit:
            # The limit is processor time, since other processes may use the machine.
            end = time.process_time() + time_limit
            self.solver.configure_terminator(lambda: time.process_time() > end)
        self.rne = self.tm.mk_rm_value(bitwuzla.RoundingMode.RNE)
        self.inputs, self.fresh = {}, 0
        #: Results in small formats; each is defined only once.
        self.rounded = {}
        #: The over-approximated product by its factors, and the terms that must not differ.
        self.only_product, self.mismatches = None, []

    # Construction.

    def make(self, kind, *terms, indices=()):
        return self.tm.mk_term(kind, list(terms), list(indices))

    def bits_sort(self, width):
        return self.tm.mk_bv_sort(width)

    def constant(self, width, value):
        return self.tm.mk_bv_value(self.bits_sort(width), value % (1 << width))

    def variable(self, width, name=None):
        self.fresh += 1
        return self.tm.mk_const(self.bits_sort(width), name or f"v{self.fresh}")

    def sort_of(self, type_name):
        return SORTS["f32" if type_name in SMALL else type_name]

    def number(self, type_name, value):
        """Returns a literal of a format that SMT-LIB has."""
        return self.tm.mk_fp_value(self.tm.mk_fp_sort(*self.sort_of(type_name)),
                                   self.rne, value)

    def ite(self, condition, a, b):
        return self.make(Kind.ITE, condition, a, b)

    def any(self, *terms):
        return terms[0] if len(terms) == 1 else self.make(Kind.OR, *terms)

    def convert_term(self, term, type_name):
        return self.make(Kind.FP_TO_FP_FROM_FP, self.rne, term,
                         indices=self.sort_of(type_name))

    # Bits.

    def from_bits(self, type_name, bits):
        if type_name in SMALL:
            return Float(type_name, self.decode(type_name, bits), bits)
        term = self.make(Kind.FP_TO_FP_FROM_BV, bits, indices=SORTS[type_name])
        return Float(type_name, term, bits)

    def bits_of(self, value):
        """Returns the float's bits, as a variable if necessary."""
        if value.known is not None:
            return value.known
        if value.derive:
            value.known = value.derive()
            return value.known
        if value.type in SMALL:
            # Any code of this number; sign, magnitude and selection operations keep theirs.
            bits = value.known = self.variable(WIDTHS[value.type])
            self.solver.assert_formula(self.make(
                Kind.EQUAL, self.decode(value.type, bits), value.term))
            return bits
        bits = value.known = self.variable(WIDTHS[value.type])
        back = self.make(Kind.FP_TO_FP_FROM_BV, bits, indices=SORTS[value.type])
        self.solver.assert_formula(self.make(Kind.EQUAL, back, value.term))
        if self.keeps_payloads:
            self.restrict_nan(value, bits)
        return bits

    def restrict_nan(self, value, bits):
        """Asserts that a NaN is the default NaN or has an operand's payload."""
        width, precision = WIDTHS[value.type], mantissa_bits(value.type) + 1
        is_nan = self.make(Kind.FP_IS_NAN, value.term)
        quiet = ((1 << (width - precision + 1)) - 1) << (precision - 2)
        positive = quiet & ~(1 << (width - 1))
        possible = [self.equals(bits, quiet), self.equals(bits, positive)]
        for source in value.sources:
            payload = self.payload(source, value.type)
            possible.append(self.make(
                Kind.AND, self.make(Kind.FP_IS_NAN, source.term),
                self.make(Kind.EQUAL, bits, payload)))
        self.solver.assert_formula(
            self.make(Kind.IMPLIES, is_nan, self.any(*possible)))

    def payload(self, source, type_name):
        """Returns the bits of a NaN in another format: its sign and upper bits."""
        bits, width = self.bits_of(source), WIDTHS[source.type]
        if source.type == E4M3:
            # Any NaN will do: processors have none of this format.
            return self.constant(WIDTHS[type_name], 0)
        have, want = mantissa_bits(source.type), mantissa_bits(type_name)
        sign = self.make(Kind.BV_EXTRACT, bits, indices=(width - 1, width - 1))
        if want > have:
            payload = self.make(Kind.BV_CONCAT, self.extract(bits, have - 1, 0),
                                self.constant(want - have, 0))
        else:
            payload = self.extract(bits, have - 1, have - want)
        payload = self.make(Kind.BV_OR, payload,
                            self.constant(want, 1 << (want - 1)))
        ones = self.constant(WIDTHS[type_name] - 1 - want, -1)
        return self.make(Kind.BV_CONCAT, sign, ones, payload)

    def extract(self, bits, high, low):
        return self.make(Kind.BV_EXTRACT, bits, indices=(high, low))

    def equals(self, bits, value):
        return self.make(Kind.EQUAL, bits,
                         self.constant(bits.sort().bv_size(), value))

    # Small formats.

    def decode(self, type_name, code):
        """Returns the f32 value of a code."""
        width = WIDTHS[type_name]
        if type_name == E4M3:
            return self.decode_e4m3(code)
        # The code is the upper part of an f32 or an f16.
        wide = "f32" if type_name == "bf16" else "f16"
        if WIDTHS[wide] > width:
            code = self.make(Kind.BV_CONCAT, code,
                             self.constant(WIDTHS[wide] - width, 0))
        term = self.make(Kind.FP_TO_FP_FROM_BV, code, indices=SORTS[wide])
        return self.convert_term(term, "f32") if wide == "f16" else term

    def decode_e4m3(self, code):
        sign = self.extract(code, 7, 7)
        exponent, mantissa = self.extract(code, 6, 3), self.extract(code, 2, 0)
        wide = self.make(Kind.BV_ADD, self.make(
            Kind.BV_ZERO_EXTEND, exponent, indices=(4,)), self.constant(8, 120))
        normal = self.make(
            Kind.FP_TO_FP_FROM_BV,
            self.make(Kind.BV_CONCAT, sign, wide, mantissa, self.constant(20, 0)),
            indices=SORTS["f32"])
        units = self.make(Kind.FP_TO_FP_FROM_UBV, self.rne, mantissa,
                          indices=SORTS["f32"])
        small = self.make(Kind.FP_MUL, self.rne, units,
                          self.number("f32", "0.001953125"))
        small = self.ite(self.equals(sign, 1), self.make(Kind.FP_NEG, small), small)
        term = self.ite(self.equals(exponent, 0), small, normal)
        return self.ite(self.equals(self.extract(code, 6, 0), 127), self.nan(), term)

    def nan(self):
        return self.tm.mk_fp_nan(self.tm.mk_fp_sort(*SORTS["f32"]))

    def round(self, type_name, exact, is_negative, is_nan):
        """Rounds an f64 to the nearest number, ties to the even code. Codes are ordered as their
        numbers: `low` is the last one that does not exceed the f64."""
        form, width = SMALL[type_name], WIDTHS[type_name]
        magnitude = self.make(Kind.FP_ABS, exact)
        low = self.variable(width)
        one = self.constant(width, 1)
        high = self.make(Kind.BV_ADD, low, one)
        is_last = self.equals(low, form.largest)
        number = self.convert_term(self.decode(type_name, low), "f64")
        following = self.ite(
            is_last, self.number("f64", str(form.bound)),
            self.convert_term(self.decode(type_name, high), "f64"))
        # A magnitude of at least the bound overflows.
        overflows = self.make(Kind.FP_GEQ, magnitude,
                              self.number("f64", str(form.bound)))
        between = self.make(
            Kind.AND, self.make(Kind.BV_ULE, low,
                                self.constant(width, form.largest)),
            self.make(Kind.FP_LEQ, number, magnitude),
            self.make(Kind.FP_LT, magnitude, following))
        self.solver.assert_formula(self.any(is_nan, overflows, between))
        half = self.make(
            Kind.FP_MUL, self.rne, self.number("f64", "0.5"),
            self.make(Kind.FP_ADD, self.rne, number, following))
        is_even = self.equals(self.extract(low, 0, 0), 0)
        is_low = self.any(
            self.make(Kind.FP_LT, magnitude, half),
            self.make(Kind.AND, is_even, self.make(Kind.FP_EQUAL, magnitude, half)))
        nearest = self.ite(is_low, low, self.ite(
            is_last, self.constant(width, form.beyond), high))
        code = self.ite(overflows, self.constant(width, form.beyond), nearest)
        sign = self.ite(is_negative, self.constant(width, 1 << (width - 1)),
                        self.constant(width, 0))
        code = self.ite(is_nan, self.any_nan(type_name),
                        self.make(Kind.BV_OR, code, sign))
        return Float(type_name, self.decode(type_name, code), code)

    def any_nan(self, type_name):
        form, width = SMALL[type_name], WIDTHS[type_name]
        code = self.variable(width)
        magnitude = self.make(Kind.BV_AND, code,
                              self.constant(width, (1 << (width - 1)) - 1))
        last = form.largest if type_name == E4M3 else form.beyond
        self.solver.assert_formula(
            self.make(Kind.BV_UGT, magnitude, self.constant(width, last)))
        return code

    def small_arithmetic(self, type_name, kind, terms):
        """Computes an operation with one rounding. Its two directed roundings to f32 equal or
        enclose the exact result, and no number or midpoint of the small format lies between
        them."""
        nearest = self.make(kind, self.rne, *terms)
        down, up = [self.convert_term(term, "f64")
                    for term in self.enclose(kind, terms)]
        return self.round_between(type_name, down, up, nearest)

    def enclose(self, kind, terms):
        """Returns an operation rounded down and up."""
        return [self.make(kind, self.tm.mk_rm_value(mode), *terms)
                for mode in (bitwuzla.RoundingMode.RTN, bitwuzla.RoundingMode.RTP)]

    def round_between(self, type_name, down, up, nearest):
        """Rounds a value enclosed by two f32 numbers; `nearest` has its sign."""
        middle = self.make(
            Kind.FP_MUL, self.rne, self.number("f64", "0.5"),
            self.make(Kind.FP_ADD, self.rne, down, up))
        infinite = self.any(self.make(Kind.FP_IS_INF, down),
                            self.make(Kind.FP_IS_INF, up))
        exact = self.ite(
            infinite, self.ite(self.make(Kind.FP_IS_INF, up), up, down), middle)
        return self.round(type_name, exact, self.make(Kind.FP_IS_NEG, nearest),
                          self.make(Kind.FP_IS_NAN, nearest))

    def product(self, a, b):
        """Returns the exact product of two numbers of the format `factors`. There is only one
        product: its factors may be different terms, but must have equal values."""
        terms = [self.convert(x, "f64").term for x in (a, b)]
        if self.only_product is None:
            term = self.any_product(self.variable(product_width(self.factors)))
            self.only_product = terms, Float("f64", term, sources=(a, b))
        known, product = self.only_product
        self.mismatches += [self.make(Kind.DISTINCT, x, y)
                            for x, y in zip(known, terms) if x != y]
        return product

    def any_product(self, bits):
        """Returns the f64 with these upper bits, and asserts that it has the size of a product."""
        zeros = self.constant(64 - bits.sort().bv_size(), 0)
        term = self.from_bits("f64", self.make(Kind.BV_CONCAT, bits, zeros)).term
        self.solver.assert_formula(self.is_product_size(self.factors, term))
        return term

    def is_product_size(self, form, term):
        """Returns whether an f64 has the size of a product of the format's numbers."""
        magnitude = self.make(Kind.FP_ABS, term)
        least, above = [self.power_of_two(math.frexp(value ** 2)[1] + shift) for
                        value, shift in ((SMALL[form].least, -1), (SMALL[form].bound, 0))]
        return self.any(
            *(self.make(kind, term) for kind in
              (Kind.FP_IS_NAN, Kind.FP_IS_INF, Kind.FP_IS_ZERO)),
            self.make(Kind.AND, self.make(Kind.FP_GEQ, magnitude, least),
                      self.make(Kind.FP_LT, magnitude, above)))

    def power_of_two(self, exponent):
        return self.from_bits("f64", self.constant(64, (exponent + 1023) << 52)).term

    def small_fma(self, type_name, operands):
        """Computes an fma from the exact product. The directed f64 roundings of the sum, rounded
        to f32 in the same directions, enclose the result as f32 roundings of the exact sum do."""
        terms = [self.product(*operands[:2]).term,
                 self.convert(operands[2], "f64").term]
        modes = bitwuzla.RoundingMode.RTN, bitwuzla.RoundingMode.RTP
        down, up = [
            self.convert_term(self.make(
                Kind.FP_TO_FP_FROM_FP, self.tm.mk_rm_value(mode), term,
                indices=SORTS["f32"]), "f64")
            for mode, term in zip(modes, self.enclose(Kind.FP_ADD, terms))]
        return self.round_between(type_name, down, up,
                                  self.make(Kind.FP_ADD, self.rne, *terms))

    # Operations.

    def run(self, kernel, free=()):
        """Returns the values that a body stores, by tensor and plane. The result of an operation
        named in `free` is an input that depends only on its position."""
        values, stored, position = {}, {}, 0
        used = kernel.find_used(free)
        for index, (name, type_name) in enumerate(kernel.arguments):
            if not type_name.startswith("!") and name in used:
                values[name] = self.input(f"argument {index}", type_name)
        names = [name for name, _ in kernel.arguments]
        for op in kernel.operations:
            if op.name == "tandem.store_plane":
                tensor = op.operands[1]
                key = names.index(tensor), _plane(op)
                stored[key] = self.as_float(values[op.operands[0]],
                                            kernel.storage_format(tensor))
            elif op.results and op.results[0] not in used:
                continue
            elif op.name == "tandem.load_plane":
                key = names.index(op.operands[0]), _plane(op)
                values[op.results[0]] = self.input(
                    f"plane {key}", op.result_types[0])
            elif op.name in free:
                values[op.results[0]] = self.input(
                    f"free {position}", op.result_types[0])
                position += 1
            elif op.name == "tandem.yield":
                for index, name in enumerate(op.operands):
                    stored[index] = values[name]
            else:
                operands = [values[name] for name in op.operands]
                values[op.results[0]] = self.evaluate(op, operands)
        return stored

    def input(self, key, type_name):
        """Returns an input variable; the first request sets its width. A lane holds a number of
        a small format."""
        width = WIDTHS.get(type_name) or int(type_name[1:])
        if key not in self.inputs:
            self.inputs[key] = type_name, self.variable(width, key)
        known_type, bits = self.inputs[key]
        if not is_float(type_name):
            return bits
        if width == bits.sort().bv_size():
            return self.from_bits(type_name, bits)
        return self.convert(self.from_bits(known_type, bits), type_name)

    def unnamed(self, width, key):
        """Returns an input that is not a value in a program."""
        if key not in self.inputs:
            self.inputs[key] = f"i{width}", self.variable(width, key)
        return self.inputs[key][1]

    def as_float(self, value, type_name):
        return value if isinstance(value, Float) else self.from_bits(type_name,
                                                                    value)

    def convert(self, value, type_name):
        if value.type == type_name:
            return value
        if type_name in SMALL:
            wide = self.convert(value, "f64").term
            return self.round(type_name, wide, self.make(Kind.FP_IS_NEG, wide),
                              self.make(Kind.FP_IS_NAN, wide))
        term = value.term
        if value.type not in SMALL or type_name != "f32":
            term = self.convert_term(term, type_name)
        return Float(type_name, term, sources=(value,))

    def evaluate(self, op, operands):
        handler = getattr(self, "op_" + op.name.replace(".", "_"), None)
        if handler:
            return handler(op, *operands)
        if op.name in _FLOAT_OPERATIONS:
            return self.arithmetic(_FLOAT_OPERATIONS[op.name], operands)
        if op.name in _INTEGER_OPERATIONS:
            return self.make(_INTEGER_OPERATIONS[op.name], *operands)
        raise NotImplementedError(f"no formula for '{op.name}'")

    def arithmetic(self, kind, operands):
        type_name = operands[0].type
        terms = [operand.term for operand in operands]
        if type_name in SMALL:
            key = (type_name, kind, *terms)
            if key not in self.rounded:
                self.rounded[key] = (
                    self.small_fma(type_name, operands)
                    if self.factors and kind == Kind.FP_FMA else
                    self.small_arithmetic(type_name, kind, terms))
            return self.rounded[key]
        if self.factors and kind == Kind.FP_MUL and type_name == "f64":
            return self.product(*operands)
        return Float(type_name, self.make(kind, self.rne, *terms),
                     sources=tuple(operands))

    def op_arith_constant(self, op):
        match = re.match(r"value = (.*?)(?: : (\w+))?$", op.attributes)
        text, type_name = match[1], match[2]
        if text in ("true", "false"):
            return self.constant(1, text == "true")
        if type_name[0] == "i":
            return self.constant(int(type_name[1:]), int(text))
        if text.startswith("0x"):
            return self.from_bits(type_name,
                                  self.constant(WIDTHS[type_name], int(text, 16)))
        return Float(type_name, self.number(type_name, _decimal(text)))

    def op_arith_negf(self, op, x):
        width = WIDTHS[x.type]
        sign = self.constant(width, 1 << (width - 1))
        return Float(x.type, self.make(Kind.FP_NEG, x.term), derive=lambda: self.make(
            Kind.BV_XOR, self.bits_of(x), sign))

    def op_math_absf(self, op, x):
        width = WIDTHS[x.type]
        mask = self.constant(width, (1 << (width - 1)) - 1)
        return Float(x.type, self.make(Kind.FP_ABS, x.term), derive=lambda: self.make(
            Kind.BV_AND, self.bits_of(x), mask))

    def op_arith_extf(self, op, x):
        return self.convert(x, op.result_types[0])

    op_arith_truncf = op_arith_extf

    def op_arith_bitcast(self, op, x):
        if isinstance(x, Float):
            return self.bits_of(x)
        return self.from_bits(op.result_types[0], x)

    def op_arith_select(self, op, condition, a, b):
        condition = self.equals(condition, 1)
        if not isinstance(a, Float):
            return self.ite(condition, a, b)
        return Float(a.type, self.ite(condition, a.term, b.term),
                     derive=lambda: self.ite(condition, self.bits_of(a),
                                             self.bits_of(b)))

    def op_arith_cmpi(self, op, a, b):
        predicate = int(re.search(r"predicate = (\d+)", op.attributes)[1])
        return self.truth(self.make(_CMPI[predicate], a, b))

    def op_arith_cmpf(self, op, a, b):
        predicate = int(re.search(r"predicate = (\d+)", op.attributes)[1])
        unordered = self.any(self.make(Kind.FP_IS_NAN, a.term),
                             self.make(Kind.FP_IS_NAN, b.term))
        if predicate in (0, 15):
            return self.constant(1, predicate == 15)
        if predicate in (7, 14):
            return self.truth(unordered if predicate == 14 else
                              self.make(Kind.NOT, unordered))
        is_unordered = predicate > 7
        kind = _CMPF[(predicate - 1) % 7]
        if kind is None:  # one and une
            holds = self.make(Kind.NOT, self.make(Kind.FP_EQUAL, a.term, b.term))
        else:
            holds = self.make(kind, a.term, b.term)
        if is_unordered:
            return self.truth(self.any(holds, unordered))
        return self.truth(self.make(Kind.AND, holds,
                                    self.make(Kind.NOT, unordered)))

    def truth(self, formula):
        return self.ite(formula, self.constant(1, 1), self.constant(1, 0))

    def op_arith_extui(self, op, x):
        width = int(op.result_types[0][1:])
        return self.make(Kind.BV_ZERO_EXTEND, x,
                         indices=(width - x.sort().bv_size(),))

    def op_arith_extsi(self, op, x):
        width = int(op.result_types[0][1:])
        return self.make(Kind.BV_SIGN_EXTEND, x,
                         indices=(width - x.sort().bv_size(),))

    def op_arith_trunci(self, op, x):
        return self.extract(x, int(op.result_types[0][1:]) - 1, 0)

    def op_scaled_decode_float(self, op, code):
        format_name = re.search(r"format = (\w+)", op.attributes)[1]
        return self.convert(self.from_bits(format_name, code), "f32")

    def op_scaled_encode_float(self, op, x):
        format_name = re.search(r"format = (\w+)", op.attributes)[1]
        return self.bits_of(self.convert(x, format_name))

    def op_math_copysign(self, op, x, y):
        """Takes the sign bit of y, also if y is NaN."""
        width = WIDTHS[y.type]
        sign = self.extract(self.bits_of(y), width - 1, width - 1)
        magnitude = self.make(Kind.FP_ABS, x.term)
        term = self.ite(self.equals(sign, 1), self.make(Kind.FP_NEG, magnitude),
                        magnitude)
        return Float(x.type, term, derive=lambda: self.make(
            Kind.BV_CONCAT, sign, self.extract(self.bits_of(x), width - 2, 0)))

    def op_arith_minui(self, op, a, b):
        return self.ite(self.make(Kind.BV_ULT, a, b), a, b)

    def op_arith_maxui(self, op, a, b):
        return self.ite(self.make(Kind.BV_ULT, a, b), b, a)

    # Proofs.

    def differ(self, a, b):
        """Returns whether two floats are different numbers; all NaNs are equal."""
        if a.type != b.type:
            wide = max(a.type, b.type, key=WIDTHS.get)
            a, b = self.convert(a, wide), self.convert(b, wide)
        return self.make(Kind.DISTINCT, a.term, b.term)

    def claim_difference(self, before, after):
        """Asserts that some result differs."""
        assert before and before.keys() == after.keys(), "other planes are stored"
        self.solver.assert_formula(self.any(
            *(self.differ(before[key], after[key]) for key in before),
            *self.mismatches))

    @property
    def num_bits(self):
        """Returns the total number of bits of all inputs."""
        return sum(bits.sort().bv_size() for _, bits in self.inputs.values())

    @property
    def text(self):
        """Returns all assertions as SMT-LIB."""
        return self.solver.print_formula("smt2")

    def check(self):
        """Returns inputs that satisfy the assertions, or None if there are none. Raises
        TimeoutError if the solver gives up."""
        result = self.solver.check_sat()
        if result == Result.UNSAT:
            return None
        if result == Result.UNKNOWN:
            raise TimeoutError("the solver gave up")
        return {key: int(self.solver.get_value(bits).value(16), 16)
                for key, (_, bits) in self.inputs.items()}


def _plane(op):
    return int(re.search(r"plane = (\d+)", op.attributes)[1])


def _decimal(text):
    """Formats a decimal for SMT-LIB, which has no exponents."""
    from decimal import Decimal
    return format(Decimal(text), "f")


_FLOAT_OPERATIONS = {
    "arith.addf": Kind.FP_ADD, "arith.subf": Kind.FP_SUB,
    "arith.mulf": Kind.FP_MUL, "arith.divf": Kind.FP_DIV,
    "math.fma": Kind.FP_FMA, "math.sqrt": Kind.FP_SQRT}
_INTEGER_OPERATIONS = {
    "arith.addi": Kind.BV_ADD, "arith.subi": Kind.BV_SUB,
    "arith.muli": Kind.BV_MUL, "arith.andi": Kind.BV_AND,
    "arith.ori": Kind.BV_OR, "arith.xori": Kind.BV_XOR,
    "arith.shli": Kind.BV_SHL, "arith.shrui": Kind.BV_SHR,
    "arith.shrsi": Kind.BV_ASHR}
_CMPI = [Kind.EQUAL, Kind.DISTINCT, Kind.BV_SLT, Kind.BV_SLE, Kind.BV_SGT,
         Kind.BV_SGE, Kind.BV_ULT, Kind.BV_ULE, Kind.BV_UGT, Kind.BV_UGE]
_CMPF = [Kind.FP_EQUAL, Kind.FP_GT, Kind.FP_GEQ, Kind.FP_LT, Kind.FP_LEQ, None]
