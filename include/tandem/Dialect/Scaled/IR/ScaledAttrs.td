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

def Scaled_Recipe : I32EnumAttr<"Recipe", "how a scale follows from the largest magnitude", [
  I32EnumAttrCase<"current", 0>, I32EnumAttrCase<"pow2", 1>,
  I32EnumAttrCase<"mx_floor", 2>]> {
  let cppNamespace = "::mlir::scaled";
}

class Scaled_Code<string name, string codeMnemonic>
    : AttrDef<Scaled_Dialect, name, [DeclareAttrInterfaceMethods<Scaled_CodeInterface>]> {
  let mnemonic = codeMnemonic;
}

def Scaled_FloatCodeAttr : Scaled_Code<"FloatCode", "float"> {
  let summary = "a small float";
  let description = [{
    Rounded to nearest, ties to even, with gradual underflow; finite values
    saturate. Zero keeps its sign. NaN is canonical; infinity stays infinity in
    a format that has it and is NaN in one that does not. (A hardware conversion
    with `.satfinite` would hide infinities.)

    ```mlir
    #scaled.float<f8E4M3FN>
    ```

    Constraint: (C1) f8E4M3FN, f8E5M2 or f16.
  }];
  let parameters = (ins "Type":$format);
  let assemblyFormat = "`<` $format `>`";
  let genVerifyDecl = 1;
}

def Scaled_PairCodeAttr : Scaled_Code<"PairCode", "pair"> {
  let summary = "two small floats, the second for what the first leaves";
  let description = [{
    hi = fl(y), lo = fl(y - hi), +0 behind a hi that is not finite; read as
    RN32(hi + lo). One scale serves both (Yu et al., *Collage*, appendix D, with
    the scale of a group).

    ```mlir
    #scaled.pair<f8E4M3FN>
    ```

    Constraint: (C1) f8E4M3FN or f8E5M2.
  }];
  let parameters = (ins "Type":$format);
  let assemblyFormat = "`<` $format `>`";
  let genVerifyDecl = 1;
}

def Scaled_ExpandedCodeAttr : Scaled_Code<"ExpandedCode", "expanded"> {
  let summary = "a small float, whose range each group stretches by a power";
  let description = [{
    Dynamic range expansion (Xi et al., *COAT*, section 4): with M the group's
    scale, at or above its largest magnitude, x is stored as
    fl(L * (|x| / M)^k) with x's sign, L the format's largest number, and read
    as M * (|code| / L)^(1/k). The group's exponent k = j / 8, 8 <= j <= 128, is
    the largest with (M / smallest)^k <= `range`, and 1 if there is none: the
    values of a group that spans little fill the format.

    The powers are f32 sequences, the same on every target, of log2 and exp2
    (see docs/Numerics.md). Zero keeps its sign, values that are not finite are
    stored as `#scaled.float` stores them. A range of up to the largest by the
    smallest normal number keeps all codes normal; one beyond it, down to the
    subnormal numbers.

    ```mlir
    #scaled.expanded<f8E4M3FN, range = 229376.0>
    ```

    Constraints: (C1) f8E4M3FN or f8E5M2; (C2) the range is at least 2.
  }];
  let parameters = (ins "Type":$format, "FloatAttr":$ratio);
  let assemblyFormat = "`<` $format `,` `range` `=` custom<Range>($ratio) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = "std::optional<double> getRange() const;";
}

def Scaled_SoftsignCodeAttr : Scaled_Code<"SoftsignCode", "softsign"> {
  let summary = "an 8-bit integer, companded by the softsign function";
  let description = [{
    127 * (2 z / (1 + |z|)) to the nearest integer, ties to even, for z in
    [-1, 1]; -128 stands for NaN. Read as w / (2 - |w|) with w = code / 127.
    Every operation is rounded to f32 (FlashOptim's first moment).

    ```mlir
    #scaled.softsign
    ```
  }];
}

def Scaled_RootCodeAttr : Scaled_Code<"RootCode", "root"> {
  let summary = "an unsigned 8-bit integer for the root of a value";
  let description = [{
    254 * z to the nearest integer, ties to even, where z in [0, 1] is the
    scaled square root of the value; 255 stands for NaN, also of a negative
    value. Read as the square of (code / 254) * scale (FlashOptim's second
    moment, with a code set apart for NaN).

    ```mlir
    #scaled.root
    ```
  }];
}

#endif // TANDEM_DIALECT_SCALED_IR_SCALEDATTRS_TD
