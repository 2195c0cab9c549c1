//===- ScaledOps.td - Operations of the scaled dialect -----*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCALED_IR_SCALEDOPS_TD
#define TANDEM_DIALECT_SCALED_IR_SCALEDOPS_TD

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/Scaled/IR/ScaledAttrs.td"

class Scaled_Op<string mnemonic, list<Trait> traits = []>
    : Op<Scaled_Dialect, mnemonic, traits # [Pure]>;

def Scaled_Like32 : AnyTypeOf<[F32, VectorOfAnyRankOf<[F32]>], "f32 or vector of f32">;
def Scaled_Bits32 : AnyTypeOf<[I32, VectorOfAnyRankOf<[I32]>], "i32 or vector of i32">;
def Scaled_FloatCodes : AnyTypeOf<[I8, I16, VectorOfAnyRankOf<[I8, I16]>],
    "i8, i16 or vector of them">;
def Scaled_Like1 : AnyTypeOf<[I1, VectorOfAnyRankOf<[I1]>], "i1 or vector of i1">;
def Scaled_ScaleType : AnyTypeOf<[F32, BF16, F16, F8E8M0FNU], "f32, bf16, f16 or f8E8M0FNU">;

def Scaled_MagnitudeOp : Scaled_Op<"magnitude", [SameOperandsAndResultShape]> {
  let summary = "compute an element's contribution to its group's largest magnitude";
  let description = [{
    Returns the f32 bits of measure(x), where `measure` is the code's, or 0 if that is
    not finite. For most codes it is |x|, for `#scaled.root` the square root; under
    `#scaled.dynamic<signed>` a negative value counts as its magnitude divided by
    0.99296875. As i32 the bits order like the magnitudes, so that a maximum over them
    does not depend on the order and meets no NaN.

    Example:

    ```mlir
    %m = scaled.magnitude #scaled.float<f8E4M3FN>, %x : f32 -> i32
    ```
  }];
  let arguments = (ins Scaled_Like32:$x, Scaled_CodeInterface:$code);
  let results = (outs Scaled_Bits32:$result);
  let assemblyFormat = "$code `,` $x attr-dict `:` type($x) `->` type($result)";
}

def Scaled_LeastOp : Scaled_Op<"least", [SameOperandsAndResultShape]> {
  let summary = "compute an element's contribution to its group's smallest magnitude";
  let description = [{
    Returns the f32 bits of |x|, or all ones if x is zero or not finite.

    Example:

    ```mlir
    %m = scaled.least %x : f32 -> i32
    ```
  }];
  let arguments = (ins Scaled_Like32:$x);
  let results = (outs Scaled_Bits32:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
}

def Scaled_ExponentOp : Scaled_Op<"exponent"> {
  let summary = "the power by which a group fills its code's range";
  let description = [{
    Returns the integer part of 8 log2(R) / log2(RN32(s / least)), clamped to [8, 128],
    where R is the code's range and `least` has the bits of the group's smallest
    magnitude; 8 if `least` is all ones. The logarithms are the sequence of
    docs/Numerics.md, and every operation is rounded to f32.

    Constraint: (C1) the code has a range.

    Example:

    ```mlir
    %j = scaled.exponent #scaled.expanded<f8E4M3FN, range = 229376.0>, %s, %least : bf16
    ```
  }];
  let arguments = (ins Scaled_ScaleType:$scale, I32:$least, Scaled_CodeInterface:$code);
  let results = (outs I8:$result);
  let assemblyFormat = "$code `,` $scale `,` $least attr-dict `:` type($scale)";
  let hasVerifier = 1;
}

def Scaled_ScaleOp : Scaled_Op<"scale"> {
  let summary = "the scale of a group, from its largest magnitude";
  let description = [{
    `amax` has the bits of the largest finite magnitude. With q = RN32(amax / L), where
    L is the code's largest magnitude, clamped to the positive range of the result type
    T and to [2^-126, 2^(127 - floor(log2 L))], the scale is

    - `current`: q rounded to T, to nearest, ties to even; or upwards for a code that
      rounds by bits, since a largest magnitude that saturates at every store is a bias;
    - `pow2`: the next power of two from q up (to be held by T exactly);
    - `mx_floor`: 2^(floor(log2 amax) - floor(log2 L)), clamped likewise (OCP
      Microscaling Formats, section 6.3), beyond which elements saturate.

    With a margin m everything is 2^m times as large before it is clamped, so that
    values up to 2^m times amax have codes. The scale is 1 if amax is zero. E8M0 is a
    power of two by type.

    Constraints: (C1) f8E8M0FNU takes `pow2` or `mx_floor`; (C2) the recipe is not
    `given`; (C3) the margin is 0 to 16.

    Example:

    ```mlir
    %s = scaled.scale #scaled.float<f8E4M3FN>, %amax by current : bf16
    %t = scaled.scale #scaled.float<f8E4M3FN>, %amax by pow2 margin 1 : f32
    ```
  }];
  let arguments = (ins I32:$amax, Scaled_CodeInterface:$code, Scaled_Recipe:$recipe,
                       DefaultValuedAttr<I64Attr, "0">:$margin);
  let results = (outs Scaled_ScaleType:$result);
  let assemblyFormat = [{
    $code `,` $amax `by` $recipe (`margin` $margin^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Scaled_GivenScaleOp : Scaled_Op<"given_scale", [SameOperandsAndResultType]> {
  let summary = "a scale from memory, or 1 in place of what is none";
  let description = [{
    Returns the operand if it lies in the range of scales, [2^-126, 2^(127 - floor(log2
    L))] and the positive range of its type, where L is the code's largest magnitude.
    Otherwise it returns 1, for example for zeros, which memory contains at first.

    Example:

    ```mlir
    %s = scaled.given_scale #scaled.float<f8E4M3FN>, %given : f32
    ```
  }];
  let arguments = (ins Scaled_ScaleType:$given, Scaled_CodeInterface:$code);
  let results = (outs Scaled_ScaleType:$result);
  let assemblyFormat = "$code `,` $given attr-dict `:` type($result)";
}

def Scaled_QuantizeOp : Scaled_Op<"quantize", [AttrSizedOperandSegments]> {
  let summary = "the codes of a value under a scale";
  let description = [{
    Returns encode(RN32(prepare(x) * RN32(1 / s))), one value per plane of the code.

    The scale is positive and finite, as `scaled.scale` gives it. With `floor` a
    positive x below the code's smallest positive number becomes that number, so that a
    nonzero second moment stays nonzero.

    Constraints: (C1) one result per plane of the code, of its element type and
    the value's shape; (C2) an exponent for a code with a range and for no other;
    (C3) random bits, an i32 below 2^16 in the value's shape, for a code that rounds
    by them and for no other.

    Example:

    ```mlir
    %q = scaled.quantize #scaled.float<f8E4M3FN>, %x by %s : f32, bf16 -> f8E4M3FN
    %r = scaled.quantize #scaled.root, %x by %s floor : f32, f32 -> i8
    %p = scaled.quantize #scaled.minifloat<exponent = 4, mantissa = 3, rounding = stochastic>, %x by %s random %r : f32, bf16, i32 -> i8
    ```
  }];
  let arguments = (ins Scaled_Like32:$x, Scaled_ScaleType:$scale, Optional<I8>:$exponent,
                       Optional<Scaled_Bits32>:$random, Scaled_CodeInterface:$code,
                       UnitAttr:$floor);
  let results = (outs Variadic<AnyType>:$codes);
  let assemblyFormat = [{
    $code `,` $x `by` $scale (`,` $exponent^)? (`random` $random^)? (`floor` $floor^)?
    attr-dict `:`
    type($x) `,` type($scale) (`,` type($random)^)? `->` type($codes)
  }];
  let hasVerifier = 1;
}

def Scaled_DequantizeOp : Scaled_Op<"dequantize", [AttrSizedOperandSegments]> {
  let summary = "the value that codes stand for under a scale";
  let description = [{
    Returns finish(RN32(decode(codes) * s)).

    Constraints: (C1) one operand per plane of the code, of its element type and
    the value's shape; (C2) an exponent for a code with a range and for no other.

    Example:

    ```mlir
    %x = scaled.dequantize #scaled.float<f8E4M3FN>, %q by %s : (f8E4M3FN), bf16 -> f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$codes, Scaled_ScaleType:$scale, Optional<I8>:$exponent,
                       Scaled_CodeInterface:$code);
  let results = (outs Scaled_Like32:$result);
  let assemblyFormat = "$code `,` $codes `by` $scale (`,` $exponent^)? attr-dict `:` `(` type($codes) `)` `,` type($scale) `->` type($result)";
  let hasVerifier = 1;
}

def Scaled_EncodeFloatOp
    : Scaled_Op<"encode_float", !listconcat([SameOperandsAndResultShape], ElementwiseMappable.traits)> {
  let summary = "the code of the nearest number of a small float format";
  let description = [{
    Returns the bits of x (f32) rounded to the format: to nearest, ties to even, with
    gradual underflow. Values beyond the largest number become infinity, or NaN in a
    format without infinity. NaN is canonical.

    With `finite`, numbers saturate: if it is true, the largest number takes the place
    of infinity, and x must not be NaN. If it is false, the code is NaN, or in a format
    with infinities the infinity of x's sign unless x is NaN.

    With `exact`, x is guaranteed to be a result of `scaled.decode_float`.

    Targets differ in this operation: a target whose chips have these conversions has
    its own pass that uses them; `-convert-float-codes-to-arith` spells them out in
    integers. Both give the same bits for every x.

    Constraints: (C1) the format is f8E4M3FN, f8E5M2 or f16; (C2) codes have its
    bits; (C3) `exact` takes no `finite`.

    Example:

    ```mlir
    %q = scaled.encode_float f8E4M3FN, %x where %finite : f32, i1 -> i8
    ```
  }];
  let arguments = (ins Scaled_Like32:$x, Optional<Scaled_Like1>:$finite, TypeAttr:$format,
                       UnitAttr:$exact);
  let results = (outs Scaled_FloatCodes:$code);
  let assemblyFormat = [{
    $format `,` (`exact` $exact^)? $x (`where` $finite^)? attr-dict `:` type($x)
    (`,` type($finite)^)? `->` type($code)
  }];
  let hasVerifier = 1;
}

def Scaled_DecodeFloatOp
    : Scaled_Op<"decode_float", !listconcat([SameOperandsAndResultShape], ElementwiseMappable.traits)> {
  let summary = "the number that a code of a small float format stands for";
  let description = [{
    Returns the exact number. Which NaN stands for a NaN is unspecified. See
    `scaled.encode_float`.

    Constraints: (C1) the format is f8E4M3FN, f8E5M2 or f16; (C2) codes have its
    bits.

    Example:

    ```mlir
    %x = scaled.decode_float f8E4M3FN, %q : i8 -> f32
    ```
  }];
  let arguments = (ins Scaled_FloatCodes:$code, TypeAttr:$format);
  let results = (outs Scaled_Like32:$x);
  let assemblyFormat = "$format `,` $code attr-dict `:` type($code) `->` type($x)";
  let hasVerifier = 1;
}

#endif // TANDEM_DIALECT_SCALED_IR_SCALEDOPS_TD
