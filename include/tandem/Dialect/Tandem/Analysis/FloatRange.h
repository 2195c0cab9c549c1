//===- FloatRange.h - What is known of a float ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the facts that range analysis keeps of a float value, and
// their arithmetic.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_ANALYSIS_FLOATRANGE_H
#define TANDEM_DIALECT_TANDEM_ANALYSIS_FLOATRANGE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A value that is small compared with another: both finite, `lead` is a
/// multiple of some power of two g with |value| <= 2^exponent * g. With
/// `isUlp`, g is lead's unit in the last place (of the smallest normal number,
/// if lead is below that).
struct Trail {
  Value lead;
  int exponent;
  bool isUlp;

  bool operator==(const Trail &other) const {
    return lead == other.lead && exponent == other.exponent &&
           isUlp == other.isUlp;
  }
};

/// The interval of a float that is a number, and whether it may be NaN. Bounds
/// are numbers of its format or infinities; the signs of zeros are not told
/// apart.
class FloatRange {
public:
  /// Nothing known yet: the lattice's bottom.
  FloatRange() = default;

  /// Any float of the type; any value where it is not a float type.
  static FloatRange all(Type type);
  static FloatRange constant(const llvm::APFloat &value);
  /// The multiples of 2^quantum between two numbers of the type.
  static FloatRange between(FloatType type, double low, double high,
                            int quantum);

  // One operation, its result rounded to the type.
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
  /// Another format, by rounding or exactly.
  static FloatRange convert(FloatType type, const FloatRange &a);

  // Exact operations.
  static FloatRange negate(const FloatRange &a);
  static FloatRange magnitude(const FloatRange &a);
  /// Larger of two. `isNaNKept`: NaN if either is; else the other one.
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
  /// Whether all sums of finite numbers of the ranges are finite in the type.
  static bool isSumFinite(FloatType type, const FloatRange &a,
                          const FloatRange &b);

  double low = 1, high = -1;
  /// Finite values are multiples of 2^quantum.
  int quantum = 0;
  bool mayBeNaN = false;
  llvm::SmallVector<Trail, 2> trails;

  /// Numbers of at least some size are multiples of its unit in the last place.
  void tighten(FloatType type);
  /// Adds a trail, keeping only the closer of two trails of the same lead.
  void addTrail(const Trail &trail);
};

/// Bits of a format's significand; the exponents of its smallest normal and of
/// its smallest positive number.
unsigned getPrecision(FloatType type);
int getMinExponent(FloatType type);
int getMinQuantum(FloatType type);

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_ANALYSIS_FLOATRANGE_H
