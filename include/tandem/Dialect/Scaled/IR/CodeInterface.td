//===- CodeInterface.td - What every code answers ----------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCALED_IR_CODEINTERFACE_TD
#define TANDEM_DIALECT_SCALED_IR_CODEINTERFACE_TD

include "mlir/IR/OpBase.td"

def Scaled_CodeInterface : AttrInterface<"CodeAttrInterface"> {
  let cppNamespace = "::tandem::scaled";
  let description = [{
    A code maps numbers of at most a largest magnitude to a few bits and back.
    With a scale s per group, x is stored as quantize(prepare(x), RN32(1/s)), which is
    encode(RN32(prepare(x) * RN32(1/s))) unless a code says otherwise,
    and read as finish(RN32(decode(code) * s)). A new code is one attribute that
    implements this.
  }];
  let methods = [
    InterfaceMethod<"The arrays that hold the codes of a group, in order.",
      "::llvm::SmallVector<::tandem::scaled::CodePlane>", "getPlanes">,
    InterfaceMethod<"The largest magnitude that encode keeps apart from others.",
      "double", "getLargest">,
    InterfaceMethod<[{What a group's largest magnitude is multiplied by to become its scale: an
      f32 that is 1 / getLargest and what a code leaves for rounding. None where the magnitude is
      divided by getLargest.}],
      "std::optional<float>", "getScaleFactor", (ins), [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<"The magnitude of the largest negative number.",
      "double", "getLargestNegative", (ins), [{}], [{ return $_attr.getLargest(); }]>,
    InterfaceMethod<[{Whether codes say what is not finite. Of a code that does not, a group's
      scale is NaN where a value of the group is not finite, and with it all that is read.}],
      "bool", "hasNaN", (ins), [{}], [{ return true; }]>,
    InterfaceMethod<"What is scaled in place of x (f32): x itself, or its root.",
      "::mlir::Value", "prepare", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::Value":$x)>,
    InterfaceMethod<"The inverse of prepare.",
      "::mlir::Value", "finish", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::Value":$x)>,
    InterfaceMethod<[{The magnitude of x (f32) from which a group's scale is made, as f32
      bits: the largest one becomes the code's largest number.}],
      "::mlir::Value", "measure", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::Value":$x), [{}], [{
        return ::tandem::scaled::takeMagnitude(b, $_attr.prepare(b, x));
      }]>,
    InterfaceMethod<[{The bits of the codes of a scaled value y (f32), one integer per
      plane, under what `inputs` tells of its element and its group.}],
      "::llvm::SmallVector<::mlir::Value>", "encode",
      (ins "::tandem::SequenceBuilder &":$b, "::mlir::Value":$y,
        "const ::tandem::scaled::CodeInputs &":$inputs)>,
    InterfaceMethod<"The f32 that the bits of codes (one integer per plane) stand for.",
      "::mlir::Value", "decode", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::ValueRange":$codes, "::mlir::Value":$exponent)>,
    InterfaceMethod<"The bits of the codes of x (f32) under a scale of the inverse given, an f32.",
      "::llvm::SmallVector<::mlir::Value>", "quantize",
      (ins "::tandem::SequenceBuilder &":$b, "::mlir::Value":$x, "::mlir::Value":$inverse,
        "const ::tandem::scaled::CodeInputs &":$inputs), [{}], [{
        return $_attr.encode(b, b.mul(x, b.spread(inverse, x)), inputs);
      }]>,
    InterfaceMethod<[{What codes stand for under a scale, an f32: RN32(decode(code) * s), which a
      code may compute in fewer operations.}],
      "::mlir::Value", "dequantize", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::ValueRange":$codes, "::mlir::Value":$exponent, "::mlir::Value":$scale), [{}], [{
        ::mlir::Value value = $_attr.decode(b, codes, exponent);
        return b.mul(value, b.spread(scale, value));
      }]>,
    InterfaceMethod<[{The range of magnitudes, largest by smallest, that a group's
      exponent stretches to the code's; none for codes without an exponent. The
      `exponent` of encode and decode is an i32 then, in eighths, else null.}],
      "std::optional<double>", "getRange", (ins), [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<"How a number between two codes becomes one of them.",
      "::tandem::RoundingMode", "getRounding", (ins), [{}], [{
        return ::tandem::RoundingMode::nearest;
      }]>,
    InterfaceMethod<[{The same code, but rounded to nearest where this one rounds by random
      bits.}],
      "::tandem::scaled::CodeAttrInterface", "getNearest", (ins), [{}], [{
        return $_attr;
      }]>,
  ];
}

#endif // TANDEM_DIALECT_SCALED_IR_CODEINTERFACE_TD
