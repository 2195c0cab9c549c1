#===- verification_plan.py - Promises and their checks --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the promises that tandem-verify's parts check, the checks of each commit, and
# known gaps.
#
#===----------------------------------------------------------------------===#
"""Promises, the parts that check them, checks of each commit, known gaps."""

import re
from dataclasses import dataclass

#: The instruction sets that compiled parts run on.
ISAS = ("native", "x86-64")


@dataclass(frozen=True)
class Promise:
    """A promise, and a pattern of the names of the parts that check it."""

    title: str
    text: str
    pattern: str

    def has(self, part: str) -> bool:
        return re.fullmatch(self.pattern, part) is not None


_SMALL = "(bf16|f16|f8E4M3FN|f8E5M2)"
_RESIDUALS = "residual(-f16-i8|-bf16-i16)?"
_CODES = (f"(dynamic-signed|dynamic-unsigned|softsign|root|linear[48]|remainder|{_RESIDUALS}|"
          "e[0-9]m[0-9]+(fnuz)?)")
_MULAW = "mulaw4?-(signed|unsigned)"
_BY_BITS = "(stochastic|dither)"

PROMISES = (
    Promise("The oracle's arithmetic",
            "Compiled code is compared with an oracle that computes in f64 and rounds once more, "
            "which is fast. The oracle agrees with `lib/Reference`'s SoftFloat, which computes "
            "with integers, on all pairs and 500,000 triples of bytes, and on 1200 numbers of "
            "16 bits by 1200, each with 8 addends, half of them close to a tie.",
            "oracle-.*"),
    Promise("Sums, differences, products and quotients are correctly rounded",
            "The runs cover all 2^32 pairs of bf16 and of f16, and all 2^16 of the 8-bit formats.",
            f"{_SMALL}-(add|sub|mul|div)"),
    Promise("Error-free transforms have the bits of their listings",
            "The runs cover all pairs. Each transform is exact whenever [MCF.md](MCF.md) says so; "
            "elsewhere `two_prod` loses at most half of the smallest number. "
            "[Range analysis](MCF.md#where-the-conditions-are-proved) replaces some `two_sum` by "
            "`ordered_two_sum`, which has the same bits under its condition.",
            f"{_SMALL}-(fast_two_sum|two_sum|ordered_two_sum|two_prod|two_prod_dekker)"),
    Promise("Code may be shortened where range analysis says so",
            "The runs cover all pairs for the facts that the solver cannot prove, and for sums and "
            "products of bf16 by an fma, as on sm_80. `grown` is `grow` after another "
            "Fast2Sum, for which several facts make one proof; it covers all 2^24 triples of bytes.",
            f"{_SMALL}-(trail-(error|order|two-sum)|unrounded)|bf16-fma-sums|{_SMALL}-grown"),
    Promise("An fma is rounded once",
            "The runs cover all 2^24 triples of the 8-bit formats. For bf16 they cover all significands "
            "of both factors (for f16 all of one, and one in 64 of the other), with 40 places of "
            "the product, and all 2^16 addends.",
            f"{_SMALL}-fma"),
    Promise("f32 is rounded once to smaller formats, which are read exactly",
            "All 2^32 numbers are converted to 8-bit formats and f16, without saturation, saturating "
            "finite numbers, and saturating all numbers; and every code is read.",
            f"{_SMALL}-(convert|read)"),
    Promise("log2 and exp2 are their sequences",
            "For every f32 of their domains, the runs compare the bits, and measure the distance from "
            "the true value in units of the result's last place.",
            "f32-(log2|exp2)"),
    Promise("exp, log, tanh and erf are their sequences",
            "For every f32, the runs compare the bits, and measure the distance from the value in f64 "
            "in units of the result's last place; "
            "[Numerics.md](Numerics.md#transcendental-functions) has the largest.",
            "f32-(exp|log|tanh|erf)"),
    Promise("Codes are written and read by their rules",
            "Every f32 is written as each kind of code, and every code is read. The results are "
            "compared with the rules of [Numerics.md](Numerics.md#codes), in plain C++.",
            f"{_CODES}-(write|read)"),
    Promise("Mu-law codes and their scales are written and read by their rules",
            "Every f32 is written, in groups of 16 with scales in f32 (to nearest), bf16 (`stochastic`) "
            "and f8E8M0FNU (`dither`). Each group also has a number up to 12 (signed) or 19 binades above "
            "the others, 7 or 23 with four bits, which determines the scale, and a zero. They replace two f32, and two others in "
            "the second half of a run, so that every f32 is written at least once. Every code is read "
            "under NaN and all non-negative scales of bf16 and f8E8M0FNU up to the largest that a store "
            "makes, and under 2^22 of f32; of codes of four bits, every byte, which holds two. The results are compared with the rule of "
            "[Numerics.md](Numerics.md#the-mu-law-code), in plain C++.",
            f"{_MULAW}(-{_BY_BITS})?-write|{_MULAW}(-bf16|-f8E8M0FNU)?-read"),
    Promise("Residuals and codes of integers are rounded by bits by their rules",
            "Every f32 is written with `stochastic` and with `dither`. Each range of 65536 numbers has "
            "its own seed, step, key and first element. So each f32 is rounded by one word of bits, and "
            "each of the 65536 words rounds some 65536 f32. The bits and the results are compared with "
            "the rules of [Numerics.md](Numerics.md#6-rounding-by-bits), in plain C++.",
            f"({_RESIDUALS}|softsign|root|linear[48])-{_BY_BITS}-write"),
    Promise("Operations of double words have the bits of their listings",
            "The runs cover all normalized operands of the 8-bit formats with hi >= +0, and 2^30 samples "
            "each of bf16 and f16. Three in four samples are normalized and biased to hard cases "
            "(ends of binades, ties, cancellation), and measure the relative error; the fourth "
            "has any bits. The samples of unit u are those of seed u.",
            f"{_SMALL}-x2-.*"),
    Promise("Bounds of double words hold for few bits",
            "The listings run in formats of 3 to 6 bits of precision and a wide range, on all "
            "significands of x and y, with trailing components down to 2^-6 of half an ulp. "
            "No code is compiled here. A bound is printed if MCF.md documents it for "
            "that precision.",
            "p[3-6]-x2-.*"),
)


@dataclass(frozen=True)
class Check:
    """A check that runs for every commit."""

    promise: str
    how: str
    cases: str
    test: str


_SELECTED = "test/Python/verification/test_verification.py"

CHECKS = (
    Check("The oracle agrees with SoftFloat",
          "8-bit formats: all pairs; 16-bit ones: one unit in 12", "3e6",
          _SELECTED),
    Check("SoftFloat is right", "8-bit formats against rationals, all pairs and "
          "triples; 16-bit roots against f64; f32 and f64 against the processor",
          "1.7e7", "test/Unit/Reference/SoftFloatTest.cpp"),
    Check("8-bit arithmetic, transforms and fma",
          "compiled for this CPU and for plain x86-64: all pairs, all triples", "6.9e7",
          _SELECTED),
    Check("bf16 and f16 arithmetic and transforms",
          "compiled, one first operand in 509 with all second ones", "2.7e8", _SELECTED),
    Check("Every f32 to bf16", "compiled, all of them", "4.3e9", _SELECTED),
    Check("f32 to f16 and 8 bits, log2, exp2, exp, log, tanh, erf, codes",
          "compiled, one range of 65536 numbers in 509 or more", "3e8", _SELECTED),
    Check("Double words of 3 to 5 bits",
          "the listings, all significands (of 5 bits one x in 3), against the bounds",
          "1.6e8", _SELECTED),
    Check("Double words of the 8-bit formats",
          "compiled against the interpreter: [the table in MCF.md]"
          "(MCF.md#how-the-operations-are-verified)", "1.1e7",
          "test/Python/numerics/test_operations.py"),
    Check("The error of a Fast2Sum needs no rounding",
          "all pairs of bf16, f16, E4M3 and E5M2", "4.3e9",
          "test/Unit/Support/SumErrorTest.cpp"),
    Check("Claims of range analysis about values and transforms are true",
          "2000 random programs in five formats, interpreted with random operands", "1.2e5",
          "test/Unit/Analysis/RangeAnalysisTest.cpp"),
    Check("Steps that replace a sequence of float operations by another",
          "quick ones are proved; for the others, the recorded proof has the same formulas",
          "", "[Proofs](#proofs)"),
    Check("A wrong operation, or one flipped bit, is found",
          "parts that expect another operation, and a flipped result", "",
          _SELECTED),
    Check("Random input is refused with a message, or does what it says",
          "3000 texts read and printed, 2000 through random passes, 800 compiled, 31 graphs "
          "run in random ways and interpreted, 40,000 array files, 20,000 packages", "6.6e4",
          "test/Fuzz"),
    Check("The runtime has no race, overflow or undefined behaviour in its tests",
          "under the address, undefined-behaviour and thread sanitizers", "388",
          "runtime/cts"),
    Check("Known faults are found", "three in Python, seven in PTX; the others below", "10",
          "test/Python/verification/test_mutations.py"),
    Check("Of two zeros -0 is less, and a NaN has no sign",
          "six operations on pairs of special values, in CPU code of three kinds and PTX of "
          "three, against NumPy and the interpreter", "1.2e4", "test/Python/numerics/test_signs.py"),
    Check("The PTX evaluator agrees with tests of others",
          "[on record](#the-ptx-evaluator-against-tests-of-others); what is emitted now is "
          "looked up there", "", "test/Python/compiler/test_ptx_oracle.py"),
    Check("Every bit and all code are as recorded",
          "a sample that has every graph, strategy, layer, recipe and option; [the rest]"
          "(#recorded-bits) by `scripts/bits.sh`", "", "test/Python/verification/test_bits.py"),
    Check("Code for AArch64 has the recorded bits", "such a sample under qemu-user, if it is "
          "installed; all graphs and layers by `scripts/bits.sh --emulate`", "",
          "test/Python/verification/test_bits.py"),
    Check("Packages of earlier versions give the bits that they gave, or are refused by version",
          "three packages with six kernels", "", "test/Python/runtime/test_frozen_packages.py"),
    Check("Every graph under every strategy",
          "CPU code, PTX and the interpreter against a model in NumPy", "",
          "[Numerics.md](Numerics.md#9-how-it-is-checked)"),
)

BITS = """## Recorded bits

Other checks show that bits are right; this one shows that they have not changed. Use it when you
restructure the compiler, the runtime or the package. `scripts/bits.sh` computes hashes over fixed
inputs, in some minutes of one core, and names each entry that differs from the record in
`verification/results`. `--only REGEX` selects entries, and `--write` renews them; a review then sees
in the files what has changed.

- `bits.json` has hashes of all planes after each of four steps of every graph under every strategy,
  with zeros, infinities and NaN in gradients. It also covers every pass of every layer under every
  recipe; options of the compiler and of launches (instruction sets, widths, threads, metrics, flags, a
  plan of many tensors, packages); conversions between all storages of weights, and of states to f32
  and back; and PyTorch's optimizers with their options. It depends neither on the machine nor on LLVM.
- `ptx_hashes.json` and `object_hashes.json` have hashes of the code of every graph and layer: PTX for
  sm_90, and machine code for x86-64 and x86-64-v4. These depend on the version of LLVM, which is
  recorded; with another version the check says so and compares nothing.

`scripts/bits.sh --emulate` compares code for AArch64 with the same record: all graphs under all
strategies, all passes of layers under all recipes, and widths, threads and keys. It needs
[the runtime for AArch64](Install.md#aarch64). The kernels run under qemu-user, in
[a process](../runtime/cts/Launcher.cpp) that receives and returns their arrays.

`verification/bits_inputs.py` makes the inputs from integers. The record does not cover GPUs;
PyTorch's layers, although it covers their kernels; chips other than sm_90; and states under strategies
in files.
"""

PROOFS = """When the compiler replaces one sequence of float operations by another, every bit
must stay the same, for all inputs. [`verification/proof_steps.py`](../verification/proof_steps.py) lists these steps: each is a small
kernel and the passes that replace something in it. The kernel before and the one after, as `tandem-opt` prints them, become
formulas over floats and bit vectors, in which Bitwuzla finds inputs for which they store different numbers, or proves that
there are none. All NaNs count as one number; zeros of different sign do not. From a NaN, an operation may make any NaN; in
the lanes of bf16, which only CPUs have, it makes an operand's NaN, quiet, or one without payload. An operation of a small
format is modelled by its definition: of the codes below and above the exact result, which f32's roundings down and up enclose,
it gives the nearer one, or the even one in a tie. [`verification/proof_lemmas.py`](../verification/proof_lemmas.py) has facts about all numbers of
a format that code relies on, such as those of `-tandem-analyze-ranges`. Steps about ordered sums assume
three of these lemmas (`order`, `undo`, `negate`), each of which is proved on its own line. Steps about an fma assume two (`product`,
`side`): its product may be any f64 with that many bits, so that the solver need not reason about a multiplication.

`scripts/prove.sh` records its results and a hash of the formulas. With each commit `test/Python/verification/test_proofs.py` makes
the formulas anew from the present passes, and fails if they differ from those on record. It proves the quick ones, checks
that wrong sequences are refuted, that no premise is void and that no definition contradicts itself, and compares the
translation with the interpreter. If the solver has no answer, a run on all operands takes the proof's place, or there is a **gap**.
The compiler omits no operation whose omission depends on a gap. It does emulate fma of f16, although
[runs](#an-fma-is-rounded-once) cover only a share of its operands.

These are not among the steps, and are not proved: the code that LLVM generates, which the runs on all operands execute
on CPUs; the tables of `-tandem-tabulate`, whose entries are computed by the operations that they replace; codes that saturate
(the parts `.*-write` of `tandem-verify` run them); and NVIDIA's own conversions of 8-bit floats
(`test/Python/numerics/test_float_codes.py` and `scripts/gpu-check.sh` test them)."""

SANITIZED = """The whole compiler is built with the address and the undefined-behaviour sanitizers; LLVM's
libraries are not. Its tests run, and random input goes to the parser (`parse`), through random passes (`pipeline`) and to
the compiler (`compile`) for minutes. With each commit, this random input runs for seconds, without sanitizers.
The runtime and the readers of files run under sanitizers with each commit."""

GAPS = (
    "f32 operations of `mcf` are compared with the interpreter on samples only; their "
    "error bounds are not measured.",
    "Expansions of three components and mixed ones are compared with the interpreter on "
    "samples, and have no measured bound.",
    "The runs of fma of f16 cover one significand in 64 of the second factor, and those of "
    "neither 16-bit format cover all places of the product. Double words of 16 bits are sampled.",
    "Scales of codes other than `mulaw`, dynamic range expansion (`expanded`), the floor of second "
    "moments, and rounding by bits of floats, pairs and `dynamic` codes are tested only on samples, "
    "with each commit.",
    "The oracle's 16-bit arithmetic agrees with SoftFloat on a lattice; that 53 bits are "
    "enough for a second rounding of these formats is a theorem (Figueroa 1995), and for "
    "fma another one (Boldo and Melquiond 2008), not a run.",
    "These runs compile for CPUs. In the tests an evaluator executes PTX, on fewer operands. "
    "A real GPU executes it only in `scripts/gpu-check.sh` ([results](GPU.md#results)).",
)
