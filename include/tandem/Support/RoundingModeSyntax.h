//===- RoundingModeSyntax.h - Syntax of rounding modes ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements parsing and printing of rounding modes, for attributes
// that have one as a parameter.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_ROUNDINGMODESYNTAX_H
#define TANDEM_SUPPORT_ROUNDINGMODESYNTAX_H

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Support/FloatFormat.h"
#include "tandem/Support/LLVM.h"

namespace tandem {
inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os,
                                     RoundingMode rounding) {
  return os << stringifyRoundingMode(rounding);
}
} // namespace tandem

template <>
struct mlir::FieldParser<tandem::RoundingMode> {
  static FailureOr<tandem::RoundingMode> parse(AsmParser &parser) {
    SMLoc location = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    if (auto rounding = tandem::symbolizeRoundingMode(name))
      return *rounding;
    return parser.emitError(location)
           << "expected one of nearest, stochastic, toward_zero, dither, got '"
           << name << "'";
  }
};

#endif // TANDEM_SUPPORT_ROUNDINGMODESYNTAX_H
