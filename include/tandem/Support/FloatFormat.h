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
#include "tandem/Support/LLVM.h"

namespace tandem {

/// The codes of a float format that are not numbers.
enum class Specials {
  /// All ones in the exponent: infinity, and NaN.
  ieee,
  /// All ones except for the sign: NaN. There is no infinity (f8E4M3FN).
  nan,
  /// The code of -0: NaN. There is no infinity.
  negative_zero,
  none
};

/// The way a real number is rounded to a number of a format.
enum class RoundingMode { nearest, stochastic, toward_zero, dither };

/// Return the name of a rounding mode in the IR, and the mode of a name.
StringRef stringifyRoundingMode(RoundingMode rounding);
std::optional<RoundingMode> symbolizeRoundingMode(StringRef name);

/// Returns whether 16 bits for each element decide which way it is rounded.
inline bool drawsBits(RoundingMode rounding) {
  return rounding == RoundingMode::stochastic ||
         rounding == RoundingMode::dither;
}

/// A binary floating-point format as data: sign, exponent and mantissa fields,
/// bias, and which special values exist. Subnormals always exist.
struct FloatFormat {
  unsigned exponentBits;
  unsigned mantissaBits;
  int bias;
  Specials specials;

  /// Returns the format of a float type.
  static FloatFormat get(Type type);

  unsigned width() const { return 1 + exponentBits + mantissaBits; }
  /// Returns the number of significand bits, the implicit one included.
  unsigned precision() const { return mantissaBits + 1; }
  /// Returns the smallest exponent of a normal number.
  int minExponent() const { return 1 - bias; }
  uint64_t signMask() const { return uint64_t(1) << (width() - 1); }
  uint64_t magnitudeMask() const { return signMask() - 1; }
  bool hasInfinity() const { return specials == Specials::ieee; }
  /// Returns the bits of +infinity (formats that have it).
  uint64_t infinity() const {
    return ((uint64_t(1) << exponentBits) - 1) << mantissaBits;
  }
  /// Returns the bits of the largest finite number.
  uint64_t maxFinite() const {
    return hasInfinity()               ? infinity() - 1
           : specials == Specials::nan ? magnitudeMask() - 1
                                       : magnitudeMask();
  }
  /// Returns the one NaN that stores write (formats that have one).
  uint64_t canonicalNaN() const {
    return specials == Specials::negative_zero ? signMask() : magnitudeMask();
  }
  /// Returns the number of a finite code without sign, exactly.
  double decode(uint64_t magnitude) const;
};

/// Returns the integer type as wide as a float type, in the shape of `type`.
Type getBitsType(Type type);

} // namespace tandem

#endif // TANDEM_SUPPORT_FLOATFORMAT_H
