//===- SoftFloat.h - Floating point in integer arithmetic -------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the number type of the reference interpreter and of the
// PTX evaluator: correctly rounded arithmetic on top of llvm::APFloat, which
// computes with integers only and shares no code with the lowerings. The
// results of 8-bit arithmetic are cached.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_SOFTFLOAT_SOFTFLOAT_H
#define TANDEM_REFERENCE_SOFTFLOAT_SOFTFLOAT_H

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace tandem::reference {

/// The formats whose arithmetic the reference knows.
enum class Format : uint8_t { BF16, F16, F32, F64, F8E4M3FN, F8E5M2 };

/// The result of converting a value beyond the largest finite one.
enum class Overflow : uint8_t {
  /// IEEE: infinity, or NaN in a format without infinities.
  Infinity,
  /// Finite values become the largest finite one, infinities are kept (NaN in
  /// a format without them).
  SaturateFinite,
  /// Infinities too become the largest finite value (PTX `.satfinite`).
  SaturateAll
};

/// The outcome of a comparison.
enum class Ordering : uint8_t { Less, Equal, Greater, Unordered };

const llvm::fltSemantics &getSemantics(Format format);
/// Returns the storage width in bits.
unsigned getBitWidth(Format format);
/// Returns the number of significand bits, the implicit one included.
unsigned getPrecision(Format format);
/// Returns the name that MLIR gives the format: "bf16", "f8E4M3FN"...
llvm::StringRef getName(Format format);
std::optional<Format> getFormatByName(llvm::StringRef name);
/// Returns the one NaN that results and stores show: 0x7FFF, 0x7FFFFFFF,
/// 0x7F...
uint64_t getCanonicalNaNBits(Format format);

/// A value of one format. Arithmetic takes operands of the same format, is
/// correctly rounded with gradual underflow, and gives the canonical NaN.
class SoftFloat {
public:
  using Rounding = llvm::RoundingMode;
  static constexpr Rounding kNearest = Rounding::NearestTiesToEven;

  /// Creates positive zero.
  explicit SoftFloat(Format format) : SoftFloat(format, uint64_t(0)) {}
  /// Creates a number from a value whose semantics is that of `format`.
  SoftFloat(Format format, const llvm::APFloat &value);

  /// Keeps every bit, NaN payloads included; higher bits are ignored.
  static SoftFloat fromBits(Format format, uint64_t bits);
  /// Rounds a double once.
  static SoftFloat fromDouble(Format format, double value);
  /// Rounds an integer once.
  static SoftFloat fromInteger(Format format, int64_t value,
                               Rounding mode = kNearest);
  static SoftFloat fromUnsigned(Format format, uint64_t value,
                                Rounding mode = kNearest);
  static SoftFloat getNaN(Format format);
  static SoftFloat getInf(Format format, bool negative = false);
  static SoftFloat getLargest(Format format, bool negative = false);
  /// Returns the smallest subnormal.
  static SoftFloat getSmallest(Format format, bool negative = false);
  static SoftFloat getZero(Format format, bool negative = false);

  Format getFormat() const { return format; }
  llvm::APFloat getAPFloat() const;
  uint64_t toBits() const { return bits; }
  /// Returns the bits with any NaN replaced by the canonical one.
  uint64_t toCanonicalBits() const;
  /// Converts to double, for printing. This is exact, since every format fits
  /// in a double.
  double toDouble() const;

  bool isNaN() const { return !isFinite() && !isInf(); }
  bool isInf() const;
  bool isFinite() const;
  bool isZero() const { return getMagnitude() == 0; }
  bool isNegative() const { return bits != getMagnitude(); }
  bool isDenormal() const;

  /// Rounds once to another format.
  SoftFloat convert(Format to, Rounding mode = kNearest,
                    Overflow overflow = Overflow::Infinity) const;
  /// Rounds to nearest; finite values beyond the range become the largest.
  SoftFloat convertSaturating(Format to) const {
    return convert(to, kNearest, Overflow::SaturateFinite);
  }

  SoftFloat add(const SoftFloat &other, Rounding mode = kNearest) const;
  SoftFloat sub(const SoftFloat &other, Rounding mode = kNearest) const;
  SoftFloat mul(const SoftFloat &other, Rounding mode = kNearest) const;
  SoftFloat div(const SoftFloat &other, Rounding mode = kNearest) const;
  /// Returns this * factor + addend, rounded once.
  SoftFloat fma(const SoftFloat &factor, const SoftFloat &addend,
                Rounding mode = kNearest) const;
  SoftFloat sqrt(Rounding mode = kNearest) const;
  /// Flip, clear and copy the sign. NaN payloads are kept.
  SoftFloat neg() const;
  SoftFloat abs() const;
  SoftFloat copySign(const SoftFloat &sign) const;
  SoftFloat roundToIntegral(Rounding mode) const;
  /// Multiplies by 2^exponent, rounded once.
  SoftFloat scaleByPowerOfTwo(int exponent) const;

  Ordering compare(const SoftFloat &other) const;
  /// Compute arith.minimumf and maximumf, PTX min.NaN: NaN wins, -0 < +0.
  SoftFloat minimum(const SoftFloat &other) const;
  SoftFloat maximum(const SoftFloat &other) const;
  /// Compute arith.minnumf and maxnumf, PTX min: a number wins, -0 < +0.
  SoftFloat minNum(const SoftFloat &other) const;
  SoftFloat maxNum(const SoftFloat &other) const;

  /// Rounds to an integer of `width` bits and clamps to its range. Returns none
  /// for a NaN.
  std::optional<uint64_t> toInteger(unsigned width, bool isSigned,
                                    Rounding mode) const;

private:
  enum class Arithmetic : uint8_t { Add, Sub, Mul, Div };
  struct Tables;

  SoftFloat(Format format, uint64_t bits) : bits(bits), format(format) {}

  /// Returns the bits except the sign, which order as the magnitudes do.
  uint64_t getMagnitude() const;
  SoftFloat canonical() const { return isNaN() ? getNaN(format) : *this; }
  /// Returns whether this orders before `other`, with -0 before +0. Neither is
  /// NaN.
  bool totallyLess(const SoftFloat &other) const;

  SoftFloat apply(Arithmetic operation, const SoftFloat &other,
                  Rounding mode) const;
  SoftFloat compute(Arithmetic operation, const SoftFloat &other,
                    Rounding mode) const;
  SoftFloat computeFma(const SoftFloat &factor, const SoftFloat &addend,
                       Rounding mode) const;

  uint64_t bits;
  Format format;
};

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_SOFTFLOAT_SOFTFLOAT_H
