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

using namespace mlir;
using namespace mlir::tandem;

Value scaled::clampMagnitude(SequenceBuilder &b, Value y, double largest) {
  Value bits = b.bits(y);
  Value limit =
      b.like(bits, llvm::bit_cast<uint32_t>(static_cast<float>(largest)));
  return arith::MinUIOp::create(
      b.builder, b.loc, b.andi(bits, b.like(bits, f32Magnitude)), limit);
}

Value scaled::signOf(SequenceBuilder &b, Value y, FloatFormat format) {
  Value bits = b.bits(y);
  return b.andi(b.shr(bits, 32 - format.width()),
                b.like(bits, format.signMask()));
}

Value scaled::encodeFloat(SequenceBuilder &b, Value y, Value isFinite,
                          Value code, FloatFormat format) {
  Value sign = signOf(b, y, format);
  Value zero = b.like(sign, 0), nan = b.like(sign, format.canonicalNaN());
  if (format.specials == Specials::negative_zero)
    sign =
        b.select(b.compare(arith::CmpIPredicate::eq, code, zero), zero, sign);
  Value number = b.ori(code, sign);
  if (format.specials == Specials::nan ||
      format.specials == Specials::negative_zero)
    return b.select(isFinite, number, nan);
  Value isNaN = b.compare(arith::CmpFPredicate::UNO, y, y);
  // Without special codes, what is not finite has become the largest number.
  if (format.specials == Specials::none)
    return b.select(isNaN, code, number);
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
    // All ones in the exponent: infinity, or NaN where the mantissa is not 0.
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
