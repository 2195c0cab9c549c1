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
  /// The suffix to the tensor's name: "" or ".lo".
  std::string suffix;
  /// A float format, or i8 for codes that are not floats.
  Type elementType;
  /// The number of consecutive elements whose codes share an i8, the first in
  /// its lowest bits.
  unsigned packed = 1;
};

/// Returns how many codes of some bits each fit into a byte.
constexpr unsigned codesPerByte(unsigned bits) { return bits <= 4 ? 2 : 1; }

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
  /// An i1: whether the value is finite before it is scaled. If so, the code
  /// saturates; otherwise it is NaN, or infinity if the format has one. For a
  /// code without NaN it is whether the group is finite; otherwise the group's
  /// codes are 0.
  Value isFinite;
  /// The group's exponent in eighths, an i32, for a code with a range.
  Value exponent;
  /// An i32 in [0, 2^16) for a code that rounds by bits.
  Value random;
  /// An i1: whether the value is positive before it is scaled, so that it must
  /// not become zero. Null if it may.
  Value isPositive;
};

/// Emits an error if `rounding` is toward_zero, which `what` does not support.
LogicalResult verifyRounding(function_ref<InFlightDiagnostic()> emitError,
                             StringRef what, tandem::RoundingMode rounding);

/// Returns the bits of |x|, an f32.
Value takeMagnitude(tandem::SequenceBuilder &b, Value x);

/// Returns whether a scale can have this type.
bool isScaleType(Type type);

/// The largest margin, in powers of two, of a scale.
inline constexpr int64_t maxMargin = 16;

/// The smallest and largest f32 that a scale of a type for a code is clamped
/// to.
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
/// Returns the range of scales of type `type` for `code`: the positive range of
/// the type, and [2^-126, 2^(127 - floor(log2 L))], where L is the code's
/// largest magnitude.
ScaleRange getScaleRange(Type type, CodeAttrInterface code);

/// Parse and print a code nested in another attribute. The parser's error
/// message lists the codes.
ParseResult parseCode(AsmParser &parser, CodeAttrInterface &code);
void printCode(AsmPrinter &printer, CodeAttrInterface code);
} // namespace tandem::scaled

#endif // TANDEM_DIALECT_SCALED_IR_SCALED_H
