#===- candidates.py - The codes that are compared --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the codes, roundings and scales of the search, and the published ones.
#
#===----------------------------------------------------------------------===#
"""Lists of contenders by name.

In names of second moments, K57 is a mu-law code of b bits without zero in which two codes are
floor(2^(32 - b) / K) units of the last place of 2 + y apart: 512 / K octaves in all for each b.
With K = 2^(9 - b), the code is the exponent of 2 + y, and its mantissa is the fraction.
"""

import numpy as np
from coded import (DYNAMIC, Code, Curve, RankOne, Scale, Stored, float_numbers,
                   mulaw_numbers, mulaw_sums, smooth_numbers)
from race import Contender

#: The units in the last place of an octave of f32 numbers.
OCTAVE = 1 << 23
#: A curve that is linear in the fourth root, the best one for second moments.
FOURTH_ROOT = Curve(power=0.25)
F32 = Scale(32)


def bf16(group: int, rounding: str = "up") -> Scale:
    return Scale(group, mantissa=7, rounding=rounding)


def e4m3(group: int, rounding: str = "up") -> Scale:
    """Returns scales in E4M3, with an f32 for each 256 elements."""
    return Scale(group, mantissa=3, exponent=4, span=256, rounding=rounding)


def e8m0(group: int) -> Scale:
    return Scale(group, mantissa=0)


#===------------------------------------------------------------------------===#
# Codes
#===------------------------------------------------------------------------===#


def largest(units: int, codes: int) -> float:
    return float(mulaw_sums(units, codes)[-1] - 2)


def signed(shape: str, codes: int = 7, curve: Curve | None = Curve()) -> Code:
    return Code(smooth_numbers(shape, codes), curve, is_signed=True)


def signed_mulaw(octaves: float, curve: Curve | None = None) -> Code:
    """Returns a signed mu-law code of 4 bits, by default linear in the bits of 2 + y."""
    units = round(octaves * OCTAVE / 7)
    return Code(mulaw_numbers(units, 7), curve or Curve(largest=largest(units, 7)),
                is_signed=True)


def unsigned(shape: str, codes: int = 15, curve: Curve | None = FOURTH_ROOT) -> Code:
    return Code(smooth_numbers(shape, codes), curve, floor=True)


def without_zero(shape: str, codes: int = 16, curve: Curve | None = FOURTH_ROOT) -> Code:
    return Code(smooth_numbers(shape, codes)[1:], curve)


def unsigned_mulaw(octaves: float, curve: Curve | None = None) -> Code:
    """Returns a mu-law code of 4 bits with zero, by default linear in the bits of 2 + y."""
    units = round(octaves * OCTAVE / 15)
    return Code(mulaw_numbers(units, 15), curve or Curve(largest=largest(units, 15)), floor=True)


def by_factor(factor: int, bits: int = 4, curve: Curve | None = None) -> Code:
    """Returns the mu-law code without zero of a factor K, by default linear in bits."""
    units, codes = (1 << (32 - bits)) // factor, 1 << bits
    return Code(mulaw_numbers(units, codes)[1:],
                curve or Curve(largest=largest(units, codes)))


def powers(offset: float, power: int, codes: int = 16, curve: Curve | None = None) -> Code:
    """Returns the numbers ((c + offset) / (codes - 1 + offset))^power of codes c, by default linear
    in c."""
    rank = np.arange(codes) + offset
    return Code((rank / rank[-1])**power, curve or Curve(power=1 / power))


#: The tilt that repairs a fraction linear in the value, where two numbers are an octave apart.
TILT = 0.25
#: Integers of m / sqrt(v).
LINEAR = signed("linear")
SOFTSIGN, ROOT = signed("softsign", 127, Curve()), unsigned("root", 255, Curve(power=0.5))


#===------------------------------------------------------------------------===#
# One moment at a time
#===------------------------------------------------------------------------===#


def first_moments() -> dict[str, Contender]:
    """Returns codes of m, with an exact v."""
    codes = {"8-bit softsign": SOFTSIGN}
    codes |= {f"{shape}": signed(shape) for shape in
              ("linear", "softsign", "mu3", "mu7", "mu11", "mu15", "mu31")}
    codes |= {f"mulaw {octaves:.3g} octaves, by value": signed_mulaw(octaves, Curve())
              for octaves in (1.75, 7 / 3, 3, 3.5, 4, 5, 7)}
    codes |= {f"mulaw {octaves:.3g} octaves, by bits": signed_mulaw(octaves)
              for octaves in (3, 4)}
    codes |= {f"mu11, tilt {tilt}": signed("mu11", 7, Curve(tilt=tilt)) for tilt in (-0.2, 0.2)}
    codes |= {f"mu11, sharp {sharp}": signed("mu11", 7, Curve(sharp=sharp))
              for sharp in (-0.3, 0.3, 1)}
    codes |= {name: Code(float_numbers(*sizes), is_signed=True) for name, sizes in
              (("E2M1", (2, 1)), ("E3M0", (3, 0)))}
    codes |= {f"{bits} bits, {shape}": signed(shape, (1 << (bits - 1)) - 1)
              for bits in (2, 3, 5) for shape in ("mu7", "mu15")}
    found = {name: Contender(first=Stored(code, F32)) for name, code in codes.items()}
    grid = signed_mulaw(3.5, Curve())
    scales = {f"groups of {group}": Scale(group) for group in (16, 64, 128)}
    scales |= {"bf16 scales": bf16(32), "bf16 scales, dithered": bf16(32, "dither"),
               "E4M3 scales": e4m3(32), "E4M3 scales, dithered": e4m3(32, "dither"),
               "E8M0 scales": e8m0(32)}
    return found | {f"mulaw 3.5 octaves, {name}": Contender(first=Stored(grid, scale))
                    for name, scale in scales.items()}


def second_moments() -> dict[str, Contender]:
    """Returns codes of v, with an exact m."""
    by_value, logarithm = Curve(), Curve(power=0)
    codes = {"8-bit root": ROOT}
    for shape in ("mu63", "mu255", "mu1023", "mu4095", "root3", "root4"):
        codes[f"{shape}, by value"] = unsigned(shape, curve=by_value)
        codes[shape] = unsigned(shape)
    codes |= {f"mu255, power {power}": unsigned("mu255", curve=Curve(power=power))
              for power in (-0.5, 0, 0.5, 0.75)}
    codes |= {f"mulaw {octaves} octaves, by bits": unsigned_mulaw(octaves)
              for octaves in (6, 7.5, 8.5, 9, 10, 12.5, 15)}
    codes |= {f"mulaw 7.5 octaves, tilt {tilt}": unsigned_mulaw(7.5, Curve(tilt=tilt))
              for tilt in (0.1, 0.2, 0.3)}
    codes |= {name: Code(float_numbers(*sizes), FOURTH_ROOT, floor=True) for name, sizes in
              (("E3M1", (3, 1)), ("E4M0", (4, 0)), ("E2M2", (2, 2)))}
    codes |= {f"{shape} without zero": without_zero(shape) for shape in
              ("mu127", "mu255", "mu511", "root3")}
    codes |= {f"K{factor}": by_factor(factor) for factor in
              (73, 65, 64, 61, 60, 57, 54, 51, 48, 45, 41, 38, 35, 33)}
    codes |= {f"K{factor}, tilt {tilt}": by_factor(factor, curve=Curve(tilt=tilt))
              for factor in (32, 64) for tilt in (0.1, 0.2, 0.25, 0.3)}
    codes |= {f"K35, {name}": by_factor(35, curve=curve) for name, curve in
              (("fourth root", FOURTH_ROOT), ("logarithm", logarithm))}
    codes |= {f"3 bits, K64, tilt {tilt}": by_factor(64, 3, Curve(tilt=tilt))
              for tilt in (0.2, 0.25, 0.3)}
    codes |= {f"powers of {power} from {offset}": powers(offset, power) for offset, power in
              ((1, 3), (0.5, 3), (1, 4), (1.5, 4), (2, 4), (1.5, 5), (2, 5), (2.5, 6), (3, 7))}
    codes |= {f"powers of 6 from 2.5, {name}": powers(2.5, 6, curve=curve) for name, curve in
              (("fourth root", FOURTH_ROOT), ("tilt 0.25", Curve(tilt=TILT)))}
    codes |= {f"K57, {name}": by_factor(57, curve=curve) for name, curve in
              (("by value", by_value), ("fourth root", FOURTH_ROOT), ("logarithm", logarithm))}
    codes |= {f"{bits} bits, K{factor}": by_factor(factor, bits) for bits, factors in
              ((2, (73, 65, 57, 49, 31)), (3, (65, 57, 51, 45, 31)), (5, (57, 51, 45, 35)))
              for factor in factors}
    found = {name: Contender(second=Stored(code, F32)) for name, code in codes.items()}
    scales = {f"groups of {group}": Scale(group) for group in (16, 64, 128)}
    scales |= {"bf16 scales": bf16(32), "bf16 scales, dithered": bf16(32, "dither"),
               "E4M3 scales": e4m3(32), "E4M3 scales, dithered": e4m3(32, "dither"),
               "E8M0 scales": e8m0(32)}
    return found | {f"K57, {name}": Contender(second=Stored(by_factor(57), scale))
                    for name, scale in scales.items()}


def ratios() -> dict[str, Contender]:
    """Returns codes of m / sqrt(v), with an exact v."""
    codes = {shape: signed(shape) for shape in ("linear", "mu1", "softsign", "mu3", "mu7")}
    codes |= {f"linear, sharp {sharp}": signed("linear", 7, Curve(sharp=sharp))
              for sharp in (-0.3, 0.3)}
    codes |= {f"{bits} bits, linear": signed("linear", (1 << (bits - 1)) - 1)
              for bits in (2, 3, 5, 8)}
    codes["linear, to nearest"] = signed("linear", 7, None)
    found = {name: Contender(first=Stored(code, F32), form="ratio")
             for name, code in codes.items()}
    scales = {f"groups of {group}": Scale(group) for group in (16, 64, 128)}
    scales |= {"bf16 scales": bf16(32), "E4M3 scales": e4m3(32),
               "E4M3 scales, groups of 16": e4m3(16), "E8M0 scales": e8m0(32)}
    return found | {f"linear, {name}": Contender(Stored(LINEAR, scale), form="ratio")
                    for name, scale in scales.items()}


#===------------------------------------------------------------------------===#
# Both moments
#===------------------------------------------------------------------------===#


def ratio_pair(bits: tuple[int, int], groups: tuple[int, int], factor: int = 57,
               tilt: float = 0.0, scales=(bf16, Scale)) -> Contender:
    """Returns m / sqrt(v) in integers and v in a mu-law code, of bits and groups for each."""
    first = signed("linear", (1 << (bits[0] - 1)) - 1)
    second = by_factor(factor, bits[1], Curve(tilt=tilt) if tilt else None)
    return Contender(Stored(first, scales[0](groups[0])), Stored(second, scales[1](groups[1])),
                     "ratio")


def exponents(groups: tuple[int, int], bits: int = 4, **changes) -> Contender:
    """Returns m / sqrt(v) in integers of 4 bits and v in exponents of 2 + y."""
    return ratio_pair((4, bits), groups, 1 << (9 - bits), TILT, **changes)


def of_powers(offset: float, power: int, curve: Curve | None = None) -> Contender:
    """Returns m / sqrt(v) in integers and v in powers, both of 4 bits."""
    return Contender(Stored(LINEAR, bf16(32)), Stored(powers(offset, power, curve=curve), F32),
                     "ratio")


def plain_pair(groups: int, scale=Scale, factor: int = 57) -> Contender:
    return Contender(Stored(signed_mulaw(3.5, Curve()), scale(groups)),
                     Stored(by_factor(factor), scale(groups)))


def pairs() -> dict[str, Contender]:
    """Returns groups, widths and ranges of the form that was chosen."""
    found = {f"4 + 4 bits, groups of {one} and {other}": ratio_pair((4, 4), (one, other))
             for one in (16, 32, 64, 128) for other in (16, 32, 64, 128)}
    found |= {f"4 + 4 bits, exponents, groups of {one} and {other}": exponents((one, other))
              for one, other in ((16, 16), (32, 32), (64, 32), (64, 64), (128, 128))}
    found |= {f"4 + 4 bits, K{factor}": ratio_pair((4, 4), (32, 32), factor)
              for factor in (65, 60, 54, 51, 45, 41, 38, 36, 34)}
    found |= {f"{one} + {other} bits, groups of {group}":
              ratio_pair((one, other), (group, group))
              for one, other in ((3, 3), (3, 4), (4, 3), (4, 2), (2, 3), (2, 4), (3, 5), (4, 5),
                                 (5, 4), (5, 5), (6, 6), (8, 8)) for group in (32, 64)}
    return found | {
        f"4 + 4 bits, exponents, {name}": exponents((32, 32), scales=scales) for name, scales in
        (("bf16 scales", (bf16, bf16)), ("f32 scales", (Scale, Scale)),
         ("E4M3 scales of the ratio", (e4m3, Scale)), ("E4M3 scales of v", (bf16, e4m3)))}


def published() -> dict[str, Contender]:
    """Returns what others store, rounded as they round."""
    dynamic = Stored(Code(DYNAMIC, None, is_signed=True, negative=7), Scale(128))
    linear = without_zero("linear", 16, None)
    e2m1 = Code(float_numbers(2, 1), None, is_signed=True)
    root = Stored(by_factor(57), bf16(32))
    nvfp4 = Scale(16, mantissa=3, exponent=4, rounding="nearest")
    mxfp4 = Scale(32, mantissa=0, rounding="floor")
    nearest = Contender(Stored(signed("softsign", 127, None), bf16(32)),
                        Stored(unsigned("root", 255, None), bf16(32)))
    return {
        "8-bit softsign and root, to nearest": nearest,
        "8-bit softsign and root, dithered": Contender(Stored(SOFTSIGN, F32), Stored(ROOT, F32)),
        "8-bit mu-law, dithered": eight_bit_mulaw(),
        "4-bit dynamic and linear, groups of 128": Contender(dynamic, Stored(linear, Scale(128))),
        "4-bit dynamic and linear, rank-1 scales": Contender(dynamic, RankOne(linear, Scale(1))),
        "4-bit linear and root, to nearest": Contender(
            Stored(signed("linear", 7, None), Scale(64)),
            Stored(unsigned("root", 15, None), Scale(64))),
        "MXFP4 and K57": Contender(Stored(e2m1, mxfp4), root),
        "NVFP4 and K57": Contender(Stored(e2m1, nvfp4), root)}


def eight_bit_mulaw() -> Contender:
    """Returns docs/Numerics.md's mu-law codes, dithered, with f32 scales of groups of 32."""
    first, second = 197379, 372827
    return Contender(
        Stored(Code(mulaw_numbers(first, 127), Curve(largest=largest(first, 127)),
                    is_signed=True), F32),
        Stored(Code(mulaw_numbers(second, 255), Curve(largest=largest(second, 255)),
                    floor=True), F32))


#: The recommended finalist, and the same with rounded scales of v.
CHOSEN = "4 + 4, exponents, groups of 32 and 32"
ROUNDED_SCALES = "4 + 4, exponents, bf16 scales of 32"
#: The contender that is measured by PyTorch.
PYTORCH_BF16 = "PyTorch, bf16 weights and moments"


def finalists() -> dict[str, Contender]:
    """Returns what is compared on all streams."""
    trial = Contender(Stored(signed("mu7"), F32),
                      Stored(unsigned("mu1023", curve=Curve(power=0)), F32))
    ours = {f"4 + 4, exponents, groups of {one} and {other}": exponents((one, other))
            for one, other in ((16, 16), (32, 32), (64, 32), (64, 64))}
    ours |= {f"{one} + {other}, K{factor}, groups of {group}":
             ratio_pair((one, other), (group, group), factor)
             for one, other, factor, group in (
                 (4, 4, 57, 32), (4, 3, 57, 32), (3, 4, 57, 32), (3, 3, 57, 32), (2, 2, 57, 16),
                 (5, 5, 33, 32), (6, 6, 33, 32), (8, 8, 45, 32), (8, 8, 45, 128))}
    ours |= {
        ROUNDED_SCALES: exponents((32, 32), scales=(bf16, bf16)),
        "8 + 8, K45, bf16 scales of 128": ratio_pair((8, 8), (128, 128), 45,
                                                     scales=(bf16, bf16)),
        "4 + 4, fourth powers, groups of 32": of_powers(1, 4),
        "4 + 4, sixth powers, groups of 32": of_powers(2.5, 6, FOURTH_ROOT),
        "4 + 4, sixth powers, tilt, groups of 32": of_powers(2.5, 6, Curve(tilt=TILT)),
        "m itself, 4 + 4, K57, groups of 32": plain_pair(32),
        "m itself, mu7, v mu1023, groups of 32": trial}
    return ours | published()


STAGES = {"m": first_moments, "v": second_moments, "ratio": ratios, "pairs": pairs,
          "final": finalists}
