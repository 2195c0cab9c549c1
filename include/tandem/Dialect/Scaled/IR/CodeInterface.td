//===- CodeInterface.td - Interface of codes ---------------*- tablegen -*-===//
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
    A code maps numbers of at most a largest magnitude to a few bits and back. With a
    scale s per group, x is stored as quantize(prepare(x), RN32(1/s)), which is
    encode(RN32(prepare(x) * RN32(1/s))) unless a code overrides it, and read as
    finish(RN32(decode(code) * s)). A new code is one attribute that implements this
    interface.
  }];
  let methods = [
    InterfaceMethod<"Returns the arrays that hold the codes of a group, in order.",
      "::llvm::SmallVector<::tandem::scaled::CodePlane>", "getPlanes">,
    InterfaceMethod<"Returns the largest magnitude that encode distinguishes from others.",
      "double", "getLargest">,
    InterfaceMethod<[{Returns the factor that turns a group's largest magnitude into its scale: an
      f32 that is 1 / getLargest and a margin that a code leaves for rounding. Returns none if
      the magnitude is divided by getLargest.}],
      "std::optional<float>", "getScaleFactor", (ins), [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<"Returns the magnitude of the largest negative number.",
      "double", "getLargestNegative", (ins), [{}], [{ return $_attr.getLargest(); }]>,
    InterfaceMethod<[{Returns whether codes can say that a value is not finite. With a code that
      cannot, a group's scale is NaN if a value of the group is not finite, and so are all values
      read from the group.}],
      "bool", "hasNaN", (ins), [{}], [{ return true; }]>,
    InterfaceMethod<[{Returns whether a code stands for zero. If not, a group of zeros has the
      smallest scale, and zero is read as the smallest number under it.}],
      "bool", "hasZero", (ins), [{}], [{ return true; }]>,
    InterfaceMethod<"Returns the value that is scaled in place of x (f32): x itself, or its root.",
      "::mlir::Value", "prepare", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::Value":$x)>,
    InterfaceMethod<"Returns the inverse of prepare.",
      "::mlir::Value", "finish", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::Value":$x)>,
    InterfaceMethod<[{Returns the magnitude of x (f32) from which a group's scale is made, as
      f32 bits: the largest one becomes the code's largest number.}],
      "::mlir::Value", "measure", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::Value":$x), [{}], [{
        return ::tandem::scaled::takeMagnitude(b, $_attr.prepare(b, x));
      }]>,
    InterfaceMethod<[{Returns the bits of the codes of a scaled value y (f32), one integer per
      plane. `inputs` describes its element and its group.}],
      "::llvm::SmallVector<::mlir::Value>", "encode",
      (ins "::tandem::SequenceBuilder &":$b, "::mlir::Value":$y,
        "const ::tandem::scaled::CodeInputs &":$inputs)>,
    InterfaceMethod<"Returns the f32 that the bits of codes (one integer per plane) stand for.",
      "::mlir::Value", "decode", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::ValueRange":$codes, "::mlir::Value":$exponent)>,
    InterfaceMethod<"Returns the bits of the codes of x (f32). `inverse` is the scale's inverse, an f32.",
      "::llvm::SmallVector<::mlir::Value>", "quantize",
      (ins "::tandem::SequenceBuilder &":$b, "::mlir::Value":$x, "::mlir::Value":$inverse,
        "const ::tandem::scaled::CodeInputs &":$inputs), [{}], [{
        return $_attr.encode(b, b.mul(x, b.spread(inverse, x)), inputs);
      }]>,
    InterfaceMethod<[{Returns the value of codes under a scale, an f32: RN32(decode(code) * s),
      which a code may compute in fewer operations.}],
      "::mlir::Value", "dequantize", (ins "::tandem::SequenceBuilder &":$b,
        "::mlir::ValueRange":$codes, "::mlir::Value":$exponent, "::mlir::Value":$scale), [{}], [{
        ::mlir::Value value = $_attr.decode(b, codes, exponent);
        return b.mul(value, b.spread(scale, value));
      }]>,
    InterfaceMethod<[{Returns the range of magnitudes, largest divided by smallest, that a group's
      exponent stretches to the code's, or none for codes without an exponent. The
      `exponent` of encode and decode is an i32 in eighths, or null if there is no range.}],
      "std::optional<double>", "getRange", (ins), [{}], [{ return std::nullopt; }]>,
    InterfaceMethod<"Returns how a number between two codes becomes one of them.",
      "::tandem::RoundingMode", "getRounding", (ins), [{}], [{
        return ::tandem::RoundingMode::nearest;
      }]>,
    InterfaceMethod<[{Returns the same code, but rounded to nearest if this one rounds by random
      bits.}],
      "::tandem::scaled::CodeAttrInterface", "getNearest", (ins), [{}], [{
        return $_attr;
      }]>,
  ];
}

#endif // TANDEM_DIALECT_SCALED_IR_CODEINTERFACE_TD
