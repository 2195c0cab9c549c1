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

Value scaled::orientBits(SequenceBuilder &b, Value y, Value random,
                         RoundingMode rounding) {
  if (rounding != RoundingMode::dither)
    return random;
  Value bits = b.bits(y);
  Value sign = arith::ShRSIOp::create(b.builder, b.loc, bits, b.like(bits, 31));
  return b.xori(random, b.shr(sign, 16));
}

/// The half turns a level that lies a rounding error below an integer into that
/// integer, so that numbers which are read and stored again stay unchanged.
Value scaled::roundLevel(SequenceBuilder &b, Value level, Value random) {
  Value units = b.fma(level, b.real(level.getType(), 0x1p16),
                      b.real(level.getType(), 0.5));
  Type type = b.bits(level).getType();
  Value whole = arith::FPToSIOp::create(b.builder, b.loc, type, units);
  return b.shr(b.addi(whole, random), 16);
}

/// The inverse has two parts. The products with the upper one are exact, so
/// that the addition rounds the result, and the other products' errors are too
/// small to matter, since no such quotient is as close to halfway between two
/// numbers.
Value scaled::divideInteger(SequenceBuilder &b, Value number, double divisor) {
  int bits = std::numeric_limits<float>::digits - (std::ilogb(divisor) + 1);
  double unit = std::ldexp(1.0, std::ilogb(1.0 / divisor) + 1 - bits);
  double upper = std::round(1.0 / divisor / unit) * unit;
  auto lower = static_cast<float>(1.0 / divisor - upper);
  return b.add(b.mul(number, b.real(number.getType(), upper)),
               b.mul(number, b.real(number.getType(), lower)));
}

Value scaled::encodeFloat(SequenceBuilder &b, Value y, Value isFinite,
                          Value code, FloatFormat format) {
  Value magnitudes = b.like(code, format.magnitudeMask());
  Value nan = b.like(code, format.canonicalNaN());
  // The sign stays in its place, with the code below it: a single operation on
  // targets with three-operand bitwise operations.
  Value top = b.shr(b.bits(y), 32 - format.width());
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
  Value isNaN = b.compare(arith::CmpFPredicate::UNO, y, y);
  // Without special codes, every value that is not finite has become the
  // largest number.
  if (format.specials == Specials::none)
    return b.select(isNaN, b.andi(code, magnitudes), number);
  Value sign = b.andi(top, b.like(top, format.signMask()));
  Value infinity = b.ori(sign, b.like(sign, format.infinity()));
  return b.select(isFinite, number, b.select(isNaN, nan, infinity));
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
    number = b.select(
        b.compare(arith::CmpIPredicate::eq, number, b.like(number, 0x80000000)),
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
