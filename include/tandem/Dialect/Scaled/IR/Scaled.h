//===- Scaled.h - The scaled dialect ----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the dialect of scaled low-precision numbers.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCALED_IR_SCALED_H
#define TANDEM_DIALECT_SCALED_IR_SCALED_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Support/LLVM.h"
#include "tandem/Support/RoundingModeSyntax.h"

namespace tandem::scaled {
/// One array of codes.
struct CodePlane {
  /// Appended to the name of the tensor: "" or ".lo".
  std::string suffix;
  /// A float format, or i8 for codes that are not floats.
  Type elementType;
};

/// The range of the exponents of stored magnitudes other than zero.
struct ExponentRange {
  int64_t least, most;

  bool operator==(const ExponentRange &other) const {
    return least == other.least && most == other.most;
  }
};
inline llvm::hash_code hash_value(const ExponentRange &range) {
  return llvm::hash_combine(range.least, range.most);
}

/// The inputs of an encoding besides the scaled value.
struct CodeInputs {
  /// An i1: whether what was scaled is finite. Then the value saturates; else
  /// the code says NaN, or infinity where it has one. For a code without NaN,
  /// whether its group is finite, of whose elements the codes are 0 otherwise.
  Value isFinite;
  /// The group's exponent in eighths, an i32, for a code with a range.
  Value exponent;
  /// An i32 in [0, 2^16) for a code that rounds by bits.
  Value random;
  /// An i1: whether what was scaled is positive, so that it must not become
  /// zero. Null where it may.
  Value isPositive;
};

/// Emits an error if `rounding` is toward_zero, which `what` does not support.
LogicalResult verifyRounding(function_ref<InFlightDiagnostic()> emitError,
                             StringRef what, tandem::RoundingMode rounding);

/// The bits of |x|, an f32.
Value takeMagnitude(tandem::SequenceBuilder &b, Value x);

/// Whether a scale can have this type.
bool isScaleType(Type type);

/// The largest margin, in powers of two, of a scale.
inline constexpr int64_t maxMargin = 16;

/// An f32 above or below which a scale of this type for this code is clamped.
struct ScaleRange {
  double smallest, largest;
};
} // namespace tandem::scaled

#include "tandem/Dialect/Scaled/IR/CodeInterface.h.inc"
#include "tandem/Dialect/Scaled/IR/ScaledDialect.h.inc"
#include "tandem/Dialect/Scaled/IR/ScaledEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Scaled/IR/ScaledAttrs.h.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/Scaled/IR/ScaledOps.h.inc"

namespace tandem::scaled {
/// The range of scales of type `type` for `code`: the positive range of the
/// type, and [2^-126, 2^(127 - floor(log2 L))], L the code's largest magnitude.
ScaleRange getScaleRange(Type type, CodeAttrInterface code);

/// Parses and prints a code nested in another attribute. The parser's error
/// message lists the codes.
ParseResult parseCode(AsmParser &parser, CodeAttrInterface &code);
void printCode(AsmPrinter &printer, CodeAttrInterface code);
} // namespace tandem::scaled

#endif // TANDEM_DIALECT_SCALED_IR_SCALED_H
