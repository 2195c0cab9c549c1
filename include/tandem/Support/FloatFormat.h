//===- FloatFormat.h - Parameters of float formats --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the parameters of the binary floating-point formats that
// Tandem stores and computes in.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_FLOATFORMAT_H
#define TANDEM_SUPPORT_FLOATFORMAT_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::tandem {

/// A binary floating-point format as data: sign, exponent and mantissa fields,
/// bias, and which special values exist. Subnormals always exist.
struct FloatFormat {
  unsigned exponentBits;
  unsigned mantissaBits;
  int bias;
  /// False for E4M3FN, whose all-ones exponent holds numbers and one NaN.
  bool hasInfinity;

  /// The format of a float type.
  static FloatFormat get(Type type);

  unsigned width() const { return 1 + exponentBits + mantissaBits; }
  /// Significand bits, the implicit one included.
  unsigned precision() const { return mantissaBits + 1; }
  /// Smallest exponent of a normal number.
  int minExponent() const { return 1 - bias; }
  uint64_t signMask() const { return uint64_t(1) << (width() - 1); }
  uint64_t magnitudeMask() const { return signMask() - 1; }
  /// Bits of +infinity (formats that have it).
  uint64_t infinity() const {
    return ((uint64_t(1) << exponentBits) - 1) << mantissaBits;
  }
  /// Bits of the largest finite number.
  uint64_t maxFinite() const {
    return hasInfinity ? infinity() - 1 : magnitudeMask() - 1;
  }
  /// The one NaN that stores write: all ones but the sign.
  uint64_t canonicalNaN() const { return magnitudeMask(); }
};

/// The integer type as wide as a float type, in the shape of `type`.
Type getBitsType(Type type);

} // namespace mlir::tandem

#endif // TANDEM_SUPPORT_FLOATFORMAT_H
