//===- ScaledAttrs.td - Codes and recipes ------------------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCALED_IR_SCALEDATTRS_TD
#define TANDEM_DIALECT_SCALED_IR_SCALEDATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "tandem/Dialect/Scaled/IR/CodeInterface.td"
include "tandem/Dialect/Scaled/IR/ScaledDialect.td"
include "tandem/Support/RoundingMode.td"

/// The rule that computes a scale, `recipe = ...` in a storage. It is not a layer's
/// recipe, which is a strategy. The spelling must not change: state dicts contain
/// storages as text and are rejected under a storage with a different text.
def Scaled_Recipe : I32EnumAttr<"Recipe", "how a scale follows from the largest magnitude, or that it is given", [
  I32EnumAttrCase<"current", 0>, I32EnumAttrCase<"pow2", 1>,
  I32EnumAttrCase<"mx_floor", 2>, I32EnumAttrCase<"given", 3>]> {
  let cppNamespace = "::tandem::scaled";
}

def Scaled_Signedness : I32EnumAttr<"Signedness", "whether a code has negative numbers", [
  I32EnumAttrCase<"Signed", 0, "signed">, I32EnumAttrCase<"Unsigned", 1, "unsigned">]> {
  let cppNamespace = "::tandem::scaled";
}

/// A code; `own` lists the interface methods with a default that it overrides.
class Scaled_Code<string name, string codeMnemonic, list<string> own = []>
    : AttrDef<Scaled_Dialect, name, [DeclareAttrInterfaceMethods<Scaled_CodeInterface, own>]> {
  let mnemonic = codeMnemonic;
}

def Scaled_FloatCodeAttr : Scaled_Code<"FloatCode", "float", ["getRounding", "getNearest"]> {
  let summary = "a small float";
  let description = [{
    Rounds to nearest, ties to even, with gradual underflow; finite values saturate.
    Zero keeps its sign. NaN is canonical; infinity stays infinity in a format that has
    it and is NaN in one that does not. (A hardware conversion with `.satfinite` would
    hide infinities.) With `stochastic` or `dither`, 16 bits for each element decide
    which of the two numbers around a value is taken, as under `#tandem.float`.

    ```mlir
    #scaled.float<f8E4M3FN>
    #scaled.float<f8E4M3FN, dither>
    ```

    Constraints: (C1) f8E4M3FN, f8E5M2 or f16; (C2) the rounding is not toward_zero.
  }];
  let parameters = (ins "Type":$format, Tandem_RoundingMode:$rounding);
  let assemblyFormat = "`<` $format (`,` $rounding^)? `>`";
  let genVerifyDecl = 1;
}

def Scaled_PairCodeAttr : Scaled_Code<"PairCode", "pair", ["getRounding", "getNearest"]> {
  let summary = "two small floats, the second for what the first leaves";
  let description = [{
    hi = fl(y), lo = fl(y - hi), or +0 if hi is not finite; the pair is read as
    RN32(hi + lo). One scale serves both (Yu et al., *Collage*, appendix D, with the scale
    of a group). With `stochastic` or `dither`, bits decide how the second is rounded.

    ```mlir
    #scaled.pair<f8E4M3FN>
    #scaled.pair<f8E4M3FN, dither>
    ```

    Constraints: (C1) f8E4M3FN or f8E5M2; (C2) the rounding is not toward_zero.
  }];
  let parameters = (ins "Type":$format, Tandem_RoundingMode:$rounding);
  let assemblyFormat = "`<` $format (`,` $rounding^)? `>`";
  let genVerifyDecl = 1;
}

def Scaled_MinifloatCodeAttr : Scaled_Code<"MinifloatCode", "minifloat", ["getRounding", "getNearest"]> {
  let summary = "a float of any few bits";
  let description = [{
    A sign, `exponent` and `mantissa` bits in the low bits of the smallest of i8, i16
    and i32 that holds them; the bits above are 0, and ignored when read. If a code has at
    most 4 bits, two neighbours in a row share a byte, and the first has its low half.
    With E and M the fields, a number is M * 2^(1 - bias - mantissa) where E = 0,
    else (2^mantissa + M) * 2^(E - bias - mantissa). `bias` is
    2^(exponent - 1) - 1 unless given. `specials` are the codes that are not
    numbers:

    - `ieee`: E all ones: infinity where M = 0, else NaN;
    - `nan` (default): codes that are all ones except for the sign are NaN, there is no
      infinity;
    - `negative_zero`: the code of -0 is NaN, there is no infinity;
    - `none`: NaN becomes the largest number, infinity the largest number of its sign.

    `rounding` is `nearest` (default; ties go to the even code), `stochastic` or `dither` (which
    draw bits as `#tandem.float<bf16, stochastic>` and `#tandem.float<bf16, dither>` do) or
    `toward_zero`; finite values saturate. With `exponents = [least, most]`, nonzero magnitudes are
    clamped when they are stored, to at least 2^least and at most the number before 2^(most + 1). If
    `least` is the format's own smallest exponent, 1 - bias, subnormal numbers stay.

    ```mlir
    #scaled.minifloat<exponent = 4, mantissa = 2>
    #scaled.minifloat<exponent = 2, mantissa = 1, specials = none>
    #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero, exponents = [-62, 63]>
    ```

    Constraints: (C1) 1 to 8 exponent bits, 0 to 10 mantissa bits, 2 to 15 of
    both, or 8 exponent bits and up to 23 mantissa bits; (C2) `ieee` has 2 exponent bits and 1 mantissa bit at least, and 8
    exponent bits take `ieee`, or `nan` without mantissa bits; (C3) every number is an f32; (C4) 1 - bias <= least <=
    most <= the exponent of the largest number.
  }];
  let parameters = (ins "unsigned":$exponent, "unsigned":$mantissa, "int64_t":$bias,
                        "::tandem::Specials":$specials,
                        "::tandem::RoundingMode":$rounding,
                        "std::optional<::tandem::scaled::ExponentRange>":$exponents);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = "::tandem::FloatFormat getFormat() const;";
}

def Scaled_DynamicCodeAttr : Scaled_Code<"DynamicCode", "dynamic", ["getRounding", "getNearest", "getLargestNegative", "measure"]> {
  let summary = "a byte whose numbers are spaced evenly within each decade";
  let description = [{
    The dynamic map of Dettmers et al., *8-bit Optimizers via Block-wise
    Quantization*, as bitsandbytes lays it out: 0, 1, and in each decade
    [10^(i-7), 10^(i-6)], i = 0 to 6, the centres of 2^i (`signed`) or 2^(i+1)
    (`unsigned`) equal parts; `signed` also has the negative of each except 1. The byte
    is the number's index in ascending order, so that zero is 127 (`signed`) or 0. A
    value is stored as the nearest number, or with `stochastic` or `dither` as one of
    the two around it, in f32 arithmetic (see docs/Numerics.md). One number shares its
    code with NaN, and under `unsigned` with every negative value: 1 (`signed`, -0.979)
    or 254 (`unsigned`, 0.996), where the numbers are closest together for their size.

    Since `signed` has no -1, a negative value counts as its magnitude divided by
    0.99296875 when the scale of its group is made, so that the group's largest negative
    value has a code, too.

    ```mlir
    #scaled.dynamic<signed>
    #scaled.dynamic<unsigned, dither>
    ```

    Constraint: (C1) the rounding is not toward_zero.
  }];
  let parameters = (ins EnumParameter<Scaled_Signedness>:$signedness, Tandem_RoundingMode:$rounding);
  let assemblyFormat = "`<` $signedness (`,` $rounding^)? `>`";
  let genVerifyDecl = 1;
}

def Scaled_ExpandedCodeAttr : Scaled_Code<"ExpandedCode", "expanded", ["getRange", "getRounding", "getNearest"]> {
  let summary = "a code, whose range each group stretches by a power";
  let description = [{
    Dynamic range expansion (Xi et al., *COAT*, section 4): with M the group's scale, at or above
    its largest magnitude, x is stored as fl(L * (|x| / M)^k) with x's sign, L the code's largest
    number of that sign, and read as M * (|number| / L)^(1/k). The group's exponent k = j / 8, 8 <=
    j <= 128, is the largest with (M / smallest)^k <= `range`, and 1 if there is none, so that the
    values of a group with a small range fill the format.

    The powers are f32 sequences of log2 and exp2 that are the same on every target (see
    docs/Numerics.md). Zero and values that are not finite are stored as the code stores
    them; the code's rounding applies to the stretched number. The code is
    `#scaled.dynamic` or `#scaled.float`, which is written as its format if it rounds to
    nearest. For a float, a range of up to the largest number divided by the smallest
    normal one keeps all codes normal; a larger range also uses subnormal numbers.

    ```mlir
    #scaled.expanded<f8E4M3FN, range = 229376.0>
    #scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 229376.0>
    #scaled.expanded<#scaled.dynamic<signed>, range = 1.0e+07>
    ```

    Constraints: (C1) f8E4M3FN, f8E5M2 or `#scaled.dynamic`; (C2) the range is at
    least 2 and at most 2^64.
  }];
  let parameters = (ins "::tandem::scaled::CodeAttrInterface":$code, "FloatAttr":$ratio);
  let assemblyFormat = "`<` custom<Stretched>($code) `,` `range` `=` custom<Range>($ratio) `>`";
  let genVerifyDecl = 1;
}

def Scaled_SoftsignCodeAttr : Scaled_Code<"SoftsignCode", "softsign", ["getRounding", "getNearest"]> {
  let summary = "an 8-bit integer, companded by the softsign function";
  let description = [{
    A value z in [-1, 1] is stored as 127 * (2 z / (1 + |z|)), rounded to the nearest
    integer, ties to even; -128 stands for NaN. It is read as w / (2 - |w|) with w =
    code / 127. Every operation is rounded to f32 (FlashOptim's first moment). With
    `stochastic` or `dither`, bits decide which of the two integers around it the number
    becomes.

    ```mlir
    #scaled.softsign
    #scaled.softsign<dither>
    ```

    Constraint: (C1) the rounding is not toward_zero.
  }];
  let parameters = (ins Tandem_RoundingMode:$rounding);
  let assemblyFormat = "(`<` $rounding^ `>`)?";
  let genVerifyDecl = 1;
}

def Scaled_LinearCodeAttr : Scaled_Code<"LinearCode", "linear", ["getRounding", "getNearest"]> {
  let summary = "a signed integer of a few bits";
  let description = [{
    A value is stored as the nearest integer, ties to even, from -L to L, where L = 2^(bits - 1) -
    1 is the largest number; -L - 1 stands for NaN. With `stochastic` or `dither`, bits decide
    which of the two integers around it the value becomes. A byte of the plane holds two integers
    of four bits, that of the first of two neighbours in a row in its low half.

    ```mlir
    #scaled.linear<bits = 4>
    #scaled.linear<bits = 4, dither>
    #scaled.linear<bits = 8>
    ```

    Constraints: (C1) the rounding is not toward_zero; (C2) there are 4 or 8 bits.
  }];
  let parameters = (ins "unsigned":$bits, Tandem_RoundingMode:$rounding);
  let assemblyFormat = "`<` `bits` `=` $bits (`,` $rounding^)? `>`";
  let genVerifyDecl = 1;
}

def Scaled_RootCodeAttr : Scaled_Code<"RootCode", "root", ["getRounding", "getNearest"]> {
  let summary = "an unsigned 8-bit integer for the root of a value";
  let description = [{
    A value is stored as 254 * z, rounded to the nearest integer, ties to even, where z
    in [0, 1] is its scaled square root; 255 stands for NaN and for negative values. It
    is read as the square of (code / 254) * scale (FlashOptim's second moment, with a
    code set apart for NaN). With `stochastic` or `dither`, bits decide which of the two
    integers around it the number becomes.

    ```mlir
    #scaled.root
    #scaled.root<dither>
    ```

    Constraint: (C1) the rounding is not toward_zero.
  }];
  let parameters = (ins Tandem_RoundingMode:$rounding);
  let assemblyFormat = "(`<` $rounding^ `>`)?";
  let genVerifyDecl = 1;
}

def Scaled_MuLawCodeAttr : Scaled_Code<"MuLawCode", "mulaw", ["getRounding", "getNearest", "measure", "hasNaN", "hasZero",
                   "getScaleFactor", "quantize", "dequantize"]> {
  let summary = "a byte, or half of one, for the logarithm of 2 + |y|";
  let description = [{
    The mu-law of telephony (ITU-T G.711), with the bits of a float as its piecewise
    linear logarithm: code q stands for f32(0x40000000 + q * D) - 2, where D = 197379
    under `signed`, which has a sign bit and q up to 127, and D = 372827 under
    `unsigned`, with q up to 255. So 2 + |y| has 42.5 codes per octave in 3 octaves
    under `signed` and 22.5 in 11 under `unsigned`; the largest number is 13.9 or 5459.

    With `bits = 4`, a byte of the plane holds the codes of two neighbours in a row, the first in
    its low half. Under `signed`, D is 2^22 and q is at most 7: 2 + |y| has two codes per octave,
    2, 3, 4, 6, 8, 12, 16 and 24. Between two of them the float's bits are linear, so that rounding
    by bits keeps the mean of a value. Under `unsigned`, code q from 0 to 15 stands for
    2^(q + 2) - 2. There is no zero, since a second moment of zero would make an update infinite,
    and the largest number, 131070, is 65535 times the smallest.

    A value x under a scale s is stored as (d * K + 255 + 256 * r) / 2^24, rounded down, where d is
    the difference between the bits of RN32(2 + |x| * RN32(1/s)) and those of 2, K is (2^24 - 1) / D
    and r is the 16 bits of `stochastic` or `dither`, the same for both signs, or 2^15 for
    `nearest`. With four bits it is (d + 2^6 * r) / 2^22 under `signed`. Under `unsigned`, with d at
    least 2^23 and f the mantissa of 2 + |x| * RN32(1/s), from 0 to 1, it is
    (d + 2^7 * (r + t)) / 2^23 - 1, rounded down, where t is the integer nearest to 2^14 f (1 - f),
    ties to even. This term makes rounding by bits keep the mean of the inverse root, by which a second moment is
    used, rather than that of the value (docs/Codes.md).

    No code stands for NaN. A group with a value that is not finite, with a negative one
    under `unsigned`, or with a magnitude that needs more than the largest scale has NaN as its
    scale and is read as NaN; its codes are 0.

    ```mlir
    #scaled.mulaw<signed, dither>
    #scaled.mulaw<unsigned>
    #scaled.mulaw<signed, dither, bits = 4>
    ```

    Constraints: (C1) the rounding is not toward_zero; (C2) there are 4 or 8 bits.
  }];
  let parameters = (ins EnumParameter<Scaled_Signedness>:$signedness, Tandem_RoundingMode:$rounding,
                        DefaultValuedParameter<"unsigned", "8">:$bits);
  let assemblyFormat = "`<` $signedness `` custom<RoundingAndBits>($rounding, $bits) `>`";
  let genVerifyDecl = 1;
}

#endif // TANDEM_DIALECT_SCALED_IR_SCALEDATTRS_TD
