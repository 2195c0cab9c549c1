//===- FloatRange.h - Ranges of float values --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the facts that range analysis keeps about a float value,
// and their arithmetic.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_ANALYSIS_FLOATRANGE_H
#define TANDEM_DIALECT_TANDEM_ANALYSIS_FLOATRANGE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// The fact that a value is small compared with another, `lead`. Both are
/// finite, and lead is a multiple of some power of two g with |value| <=
/// 2^exponent * g. With `isUlp`, g is lead's unit in the last place (that of
/// the smallest normal number if lead is below it).
struct Trail {
  Value lead;
  int exponent;
  bool isUlp;

  bool operator==(const Trail &other) const {
    return lead == other.lead && exponent == other.exponent &&
           isUlp == other.isUlp;
  }
};

/// The interval of a float if it is a number, and whether it may be NaN. Bounds
/// are numbers of its format or infinities; the signs of zeros are not
/// distinguished.
class FloatRange {
public:
  /// Creates the lattice's bottom: nothing is known yet.
  FloatRange() = default;

  /// Returns the range of any float of the type, or of any value if it is not a
  /// float type.
  static FloatRange all(Type type);
  static FloatRange constant(const llvm::APFloat &value);
  /// Returns the range of the multiples of 2^quantum between two numbers of the
  /// type.
  static FloatRange between(FloatType type, double low, double high,
                            int quantum);

  // These apply one operation and round its result to the type.
  static FloatRange add(FloatType type, const FloatRange &a,
                        const FloatRange &b);
  static FloatRange multiply(FloatType type, const FloatRange &a,
                             const FloatRange &b);
  static FloatRange square(FloatType type, const FloatRange &a);
  static FloatRange divide(FloatType type, const FloatRange &a,
                           const FloatRange &b);
  static FloatRange fma(FloatType type, const FloatRange &a,
                        const FloatRange &b, const FloatRange &c);
  static FloatRange sqrt(FloatType type, const FloatRange &a);
  /// Converts to another format, by rounding or exactly.
  static FloatRange convert(FloatType type, const FloatRange &a);

  // These operations are exact.
  static FloatRange negate(const FloatRange &a);
  static FloatRange magnitude(const FloatRange &a);
  /// Returns the range of the larger value. With `isNaNKept` it is NaN if
  /// either one is; otherwise the other value counts.
  static FloatRange maximum(const FloatRange &a, const FloatRange &b,
                            bool isNaNKept);
  static FloatRange minimum(const FloatRange &a, const FloatRange &b,
                            bool isNaNKept);

  static FloatRange join(const FloatRange &a, const FloatRange &b);
  bool operator==(const FloatRange &other) const;
  void print(llvm::raw_ostream &os) const;

  bool isBottom() const { return low > high; }
  bool mayBeZero() const { return low <= 0 && high >= 0; }
  bool mayBeInfinite() const;
  double minMagnitude() const;
  double maxMagnitude() const;
  /// Returns whether all sums of finite numbers of the ranges are finite in the
  /// type.
  static bool isSumFinite(FloatType type, const FloatRange &a,
                          const FloatRange &b);

  double low = 1, high = -1;
  /// Finite values are multiples of 2^quantum.
  int quantum = 0;
  bool mayBeNaN = false;
  llvm::SmallVector<Trail, 2> trails;

  /// Raises the quantum to the unit in the last place of the smallest
  /// magnitude.
  void tighten(FloatType type);
  /// Adds a trail, keeping only the closer of two trails of the same lead.
  void addTrail(const Trail &trail);
};

/// Return the number of bits of a format's significand, and the exponents of
/// its smallest normal and of its smallest positive number.
unsigned getPrecision(FloatType type);
int getMinExponent(FloatType type);
int getMinQuantum(FloatType type);

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_ANALYSIS_FLOATRANGE_H
