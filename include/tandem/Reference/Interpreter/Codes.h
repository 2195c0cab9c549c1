//===- Codes.h - Numbers of a few bits --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the codes of scaled values, by docs/Numerics.md.
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

/// A double, rounded once.
SoftFloat toReal(double value);
SoftFloat powerOfTwo(int exponent);
/// numerator / denominator, rounded once; both below 2^53, the latter below
/// 2^28 in lowest terms, so that no quotient rounded to f64 on the way becomes
/// a tie.
SoftFloat toQuotient(double numerator, double denominator);

/// floor(log2(x)) of a positive number.
int floorLog2(const SoftFloat &x);
bool isLess(const SoftFloat &a, const SoftFloat &b);
/// A NaN stays one.
SoftFloat clamp(const SoftFloat &x, const SoftFloat &low,
                const SoftFloat &high);

/// The project's logarithm, of a number of no negative sign.
SoftFloat log2(const SoftFloat &x);
/// The project's power of two, of a number of at most 0. A NaN counts as what
/// lies below -100 does.
SoftFloat exp2(const SoftFloat &number);

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

/// Whether the interpreter knows a code.
llvm::Error checkKnown(scaled::CodeAttrInterface code);

/// The magnitude that becomes the largest code.
SoftFloat getLargest(scaled::CodeAttrInterface code);

/// Returns the number that is scaled instead of a value, and the inverse.
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

/// The codes, one per plane, of a scaled value. `isFinite` says whether what
/// was scaled is.
Codes encode(scaled::CodeAttrInterface code, const SoftFloat &y, bool isFinite,
             CodeContext context);
SoftFloat decode(scaled::CodeAttrInterface code, llvm::ArrayRef<uint64_t> codes,
                 CodeContext context);

/// Returns what `encode` takes for a prepared value: its product with the
/// inverse of the scale. The mu-law code takes the sum of 2 and the product's
/// magnitude, with the value's sign.
SoftFloat scaleValue(scaled::CodeAttrInterface code, const SoftFloat &value,
                     const SoftFloat &inverse);
/// Returns what is read under a scale, for a decoded number.
SoftFloat unscale(scaled::CodeAttrInterface code, const SoftFloat &number,
                  const SoftFloat &scale);

/// The magnitude of a value from which the scale of its group is made.
SoftFloat measure(scaled::CodeAttrInterface code, const SoftFloat &value);

/// One of the two integers around a level of at least 0.
uint64_t roundLevel(const SoftFloat &level, uint16_t random);

/// The dynamic code of `y`, a byte: that of the nearest number, or, by random
/// bits, that of one of its two neighbours.
uint64_t encodeDynamic(bool isSigned, const SoftFloat &y, bool isFinite);
uint64_t encodeDynamicByBits(bool isSigned, const SoftFloat &y, bool isFinite,
                             uint16_t random);
SoftFloat measureDynamic(bool isSigned, const SoftFloat &value);
/// The magnitude of the signed code's largest negative number.
SoftFloat getLargestNegative();
SoftFloat decodeDynamic(bool isSigned, uint64_t code);

/// A small float as data; see docs/Numerics.md.
struct Minifloat {
  unsigned exponent, mantissa;
  int bias;
  Specials specials;
  RoundingMode rounding;
  /// Exponents of the least and the largest magnitude that is written.
  std::optional<int> least, most;

  uint64_t getSign() const { return uint64_t(1) << (exponent + mantissa); }
  /// Returns the code with ones in the exponent field and zeros elsewhere.
  uint64_t getInfinity() const { return getSign() - (1 << mantissa); }
};

SoftFloat getLargest(const Minifloat &format);
uint64_t encodeMinifloat(const Minifloat &format, const SoftFloat &y,
                         bool isFinite, uint16_t random);
/// Bits beyond the format's count for nothing.
SoftFloat decodeMinifloat(const Minifloat &format, uint64_t bits);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_CODES_H
