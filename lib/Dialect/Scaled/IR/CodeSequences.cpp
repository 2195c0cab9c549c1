//===- CodeSequences.cpp - Sequences that codes share ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements sequences that the codes of the scaled dialect share.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include <cmath>

using namespace mlir;
using namespace tandem;

Value scaled::clampMagnitude(SequenceBuilder &b, Value y, double largest) {
  Value bits = b.bits(y);
  Value limit =
      b.like(bits, llvm::bit_cast<uint32_t>(static_cast<float>(largest)));
  return arith::MinUIOp::create(
      b.builder, b.loc, b.andi(bits, b.like(bits, f32Magnitude)), limit);
}

Value scaled::takeMagnitude(SequenceBuilder &b, Value x) {
  Value bits = b.bits(x);
  return b.andi(bits, b.like(bits, f32Magnitude));
}

LogicalResult
scaled::verifyRounding(function_ref<InFlightDiagnostic()> emitError,
                       StringRef what, RoundingMode rounding) {
  if (rounding != RoundingMode::toward_zero)
    return success();
  return emitError() << what
                     << " rounds to nearest, stochastically or by dither; "
                        "toward_zero is for #scaled.minifloat";
}

/// The bits of floats are compared as integers: those of positive numbers have
/// the numbers' order, and those of negative ones lie above.
Value scaled::raiseToSmallest(SequenceBuilder &b, Value y, Value isPositive,
                              float smallest) {
  if (!isPositive)
    return y;
  Value bits = b.bits(y);
  Value least =
      b.select(isPositive, b.like(bits, llvm::bit_cast<uint32_t>(smallest)),
               b.like(bits, 0));
  return b.bitcast(arith::MaxUIOp::create(b.builder, b.loc, bits, least),
                   b.builder.getF32Type());
}

Value scaled::raiseToSmallest(SequenceBuilder &b, Value x, Type format) {
  if (format.isF32())
    return x;
  Value isPositive =
      b.compare(arith::CmpFPredicate::OGT, x, b.zero(x.getType()));
  double smallest = FloatFormat::get(format).decode(1);
  return raiseToSmallest(b, x, isPositive, static_cast<float>(smallest));
}

/// Returns a number that is not negative with the sign of y.
static Value copySign(SequenceBuilder &b, Value magnitude, Value y) {
  Value bits = b.bits(y);
  Value sign = b.andi(bits, b.like(bits, f32SignMask));
  return b.bitcast(b.ori(b.bits(magnitude), sign), b.builder.getF32Type());
}

/// All ones as an i32 where the sign bit of y is set, else zero.
static Value getSign(SequenceBuilder &b, Value y) {
  return b.shrs(b.bits(y), 31);
}

/// Returns the complement of 16 random bits if the sign bit of y is set.
static Value flipIfNegative(SequenceBuilder &b, Value y, Value random) {
  return b.xori(random, b.shr(getSign(b, y), 16));
}

Value scaled::orientBits(SequenceBuilder &b, Value y, Value random,
                         RoundingMode rounding) {
  return rounding == RoundingMode::dither ? flipIfNegative(b, y, random)
                                          : random;
}

/// Returns 2^16 times a level of less than 2^15, as i32. The half turns a level
/// that lies a rounding error below an integer into that integer, so that
/// numbers which are read and stored again stay unchanged.
static Value countFractions(SequenceBuilder &b, Value level) {
  Value units = b.fma(level, b.real(level.getType(), 0x1p16),
                      b.real(level.getType(), 0.5));
  Type type = b.bits(level).getType();
  return arith::FPToSIOp::create(b.builder, b.loc, type, units);
}

Value scaled::roundLevel(SequenceBuilder &b, Value level, Value random) {
  return b.shr(b.addi(countFractions(b, level), random), 16);
}

Value scaled::orientSignedBits(SequenceBuilder &b, Value y, Value random,
                               RoundingMode rounding) {
  return rounding == RoundingMode::dither ? random
                                          : flipIfNegative(b, y, random);
}

Value scaled::roundSigned(SequenceBuilder &b, Value level) {
  Value anchor = b.real(level.getType(), 0x1.8p23);
  Value zero = b.bits(anchor);
  return b.subi(b.bits(b.add(level, anchor)), zero);
}

Value scaled::roundSignedLevel(SequenceBuilder &b, Value y, Value level,
                               Value random, RoundingMode rounding) {
  if (rounding == RoundingMode::nearest)
    return roundSigned(b, copySign(b, level, y));
  Value sign = getSign(b, y);
  Value whole = b.subi(b.xori(countFractions(b, level), sign), sign);
  Value sum = b.addi(whole, orientSignedBits(b, y, random, rounding));
  return b.shrs(sum, 16);
}

/// The inverse has two parts. The products with the upper one are exact, so
/// that the fma rounds the result, and the other products' errors are too small
/// to matter, since no such quotient is as close to halfway between two
/// numbers.
Value scaled::divideInteger(SequenceBuilder &b, Value number, double divisor,
                            double unit) {
  int bits = std::numeric_limits<float>::digits - (std::ilogb(divisor) + 1);
  double place = std::ldexp(1.0, std::ilogb(1.0 / divisor) + 1 - bits);
  double upper = std::round(1.0 / divisor / place) * place;
  auto lower = static_cast<float>(1.0 / divisor - upper);
  Value rest = b.mul(number, b.real(number.getType(), lower * unit));
  return b.fma(number, b.real(number.getType(), upper * unit), rest);
}

Value scaled::encodeFloat(SequenceBuilder &b, Value y, Value isFinite,
                          Value code, FloatFormat format) {
  Value magnitudes = b.like(code, format.magnitudeMask());
  Value nan = b.like(code, format.canonicalNaN());
  // The sign stays in its place, with the code below it: a single operation on
  // targets with three-operand bitwise operations.
  Value top = b.shr(b.bits(y), 32 - format.width());
  // Without special codes, every value that is not finite has become the
  // largest number. NaN loses its sign.
  auto isNaN = [&] { return b.compare(arith::CmpFPredicate::UNO, y, y); };
  if (format.specials == Specials::none)
    top = b.select(isNaN(), b.like(top, 0), top);
  Value number = b.xori(top, b.andi(b.xori(top, code), magnitudes));
  if (format.specials == Specials::negative_zero) {
    Value magnitude = b.andi(code, magnitudes);
    Value isZero =
        b.compare(arith::CmpIPredicate::eq, magnitude, b.like(code, 0));
    number = b.select(isZero, magnitude, number);
  }
  if (format.specials == Specials::nan ||
      format.specials == Specials::negative_zero)
    return b.select(isFinite, number, nan);
  if (format.specials == Specials::none)
    return number;
  Value unordered = isNaN();
  Value sign = b.andi(top, b.like(top, format.signMask()));
  Value infinity = b.ori(sign, b.like(sign, format.infinity()));
  return b.select(isFinite, number, b.select(unordered, nan, infinity));
}

Value scaled::decodeFloat(SequenceBuilder &b, Value code, FloatFormat format) {
  Type f32 = b.builder.getF32Type();
  Value word = b.resize(code, b.builder.getI32Type());
  Value magnitude = b.andi(word, b.like(word, format.magnitudeMask()));
  // Bits beyond the format's are shifted out.
  Value sign = b.shl(b.xori(word, magnitude), 32 - format.width());
  Value finite = b.bits(unpackMagnitude(b, magnitude, format));
  Value number = b.ori(finite, sign), nan = b.like(finite, f32QuietNaN);
  switch (format.specials) {
  case Specials::none:
    break;
  case Specials::negative_zero:
    number = b.select(b.compare(arith::CmpIPredicate::eq, number,
                                b.like(number, f32SignMask)),
                      nan, number);
    break;
  case Specials::ieee:
    // All ones in the exponent: infinity, or NaN if the mantissa is not 0.
    nan = b.ori(b.ori(b.shl(magnitude, 23 - format.mantissaBits),
                      b.like(magnitude, f32Infinity)),
                sign);
    [[fallthrough]];
  case Specials::nan:
    number = b.select(b.compare(arith::CmpIPredicate::ugt, magnitude,
                                b.like(word, format.maxFinite())),
                      nan, number);
  }
  return b.bitcast(number, f32);
}
