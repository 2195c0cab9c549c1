//===- Codes.h - Numbers of a few bits --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the codes of scaled values, as docs/Numerics.md specifies
// them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_CODES_H
#define TANDEM_REFERENCE_INTERPRETER_CODES_H

#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Reference/Interpreter/Storage.h"
#include "tandem/Support/FloatFormat.h"
#include "tandem/Support/LLVM.h"

namespace tandem::reference {

//===----------------------------------------------------------------------===//
// Numbers in f32
//===----------------------------------------------------------------------===//

/// Returns a double, rounded once.
SoftFloat toReal(double value);
SoftFloat powerOfTwo(int exponent);
/// Returns numerator / denominator, rounded once. Both are below 2^53, the
/// latter below 2^28 in lowest terms, so that no quotient rounded to f64 on the
/// way becomes a tie.
SoftFloat toQuotient(double numerator, double denominator);

/// Returns floor(log2(x)) of a positive number.
int floorLog2(const SoftFloat &x);
bool isLess(const SoftFloat &a, const SoftFloat &b);
/// Clamps x. A NaN stays a NaN.
SoftFloat clamp(const SoftFloat &x, const SoftFloat &low,
                const SoftFloat &high);

/// Computes the project's logarithm of a number without a negative sign.
SoftFloat log2(const SoftFloat &x);
/// Computes the project's power of two of a number of at most 0. A NaN counts
/// as a number below -100.
SoftFloat exp2(const SoftFloat &number);

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

/// Returns an error if the interpreter does not know a code.
llvm::Error checkKnown(scaled::CodeAttrInterface code);

/// Returns the magnitude that becomes the largest code.
SoftFloat getLargest(scaled::CodeAttrInterface code);

/// Return the number that is scaled instead of a value, and the inverse.
SoftFloat prepare(scaled::CodeAttrInterface code, const SoftFloat &value);
SoftFloat finish(scaled::CodeAttrInterface code, const SoftFloat &value);

/// The inputs of an encoding besides the value.
struct CodeContext {
  /// The group's exponent in eighths, for a code with a range.
  unsigned exponent = 0;
  /// The element's random bits, for a code that rounds by bits.
  uint16_t random = 0;
  /// Whether the value is positive and must not become zero.
  bool isFloored = false;
};

/// Returns the codes, one per plane, of a scaled value. `isFinite` says whether
/// the value was finite before it was scaled.
Codes encode(scaled::CodeAttrInterface code, const SoftFloat &y, bool isFinite,
             CodeContext context);
SoftFloat decode(scaled::CodeAttrInterface code, llvm::ArrayRef<uint64_t> codes,
                 CodeContext context);

/// Returns the number that `encode` takes for a prepared value: its product
/// with the inverse of the scale. The mu-law code takes the sum of 2 and the
/// product's magnitude, with the value's sign.
SoftFloat scaleValue(scaled::CodeAttrInterface code, const SoftFloat &value,
                     const SoftFloat &inverse);
/// Returns the value of a decoded number under a scale.
SoftFloat unscale(scaled::CodeAttrInterface code, const SoftFloat &number,
                  const SoftFloat &scale);

/// Returns the magnitude of a value from which the scale of its group is made.
SoftFloat measure(scaled::CodeAttrInterface code, const SoftFloat &value);

/// Rounds a level of at least 0 to one of the two integers around it.
uint64_t roundLevel(const SoftFloat &level, uint16_t random);

/// Return the dynamic code of `y`, a byte: that of the nearest number, or, by
/// random bits, that of one of its two neighbours.
uint64_t encodeDynamic(bool isSigned, const SoftFloat &y, bool isFinite);
uint64_t encodeDynamicByBits(bool isSigned, const SoftFloat &y, bool isFinite,
                             uint16_t random);
SoftFloat measureDynamic(bool isSigned, const SoftFloat &value);
/// Returns the magnitude of the signed code's largest negative number.
SoftFloat getLargestNegative();
SoftFloat decodeDynamic(bool isSigned, uint64_t code);

/// A small float as data; see docs/Numerics.md.
struct Minifloat {
  unsigned exponent, mantissa;
  int bias;
  Specials specials;
  RoundingMode rounding;
  /// The exponents of the smallest and the largest magnitude that is written.
  std::optional<int> least, most;

  uint64_t getSign() const { return uint64_t(1) << (exponent + mantissa); }
  /// Returns the code with ones in the exponent field and zeros elsewhere.
  uint64_t getInfinity() const { return getSign() - (1 << mantissa); }
};

SoftFloat getLargest(const Minifloat &format);
uint64_t encodeMinifloat(const Minifloat &format, const SoftFloat &y,
                         bool isFinite, uint16_t random);
/// Decodes a number. Bits beyond the format's are ignored.
SoftFloat decodeMinifloat(const Minifloat &format, uint64_t bits);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_CODES_H
