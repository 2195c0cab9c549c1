//===- MuLawCode.cpp - Bytes spaced by the mu-law -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the code interface for the mu-law code, which reads and
// writes the logarithm of 1 + |y| as the bits of an f32.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"

using namespace mlir;
using namespace tandem::scaled;
using tandem::RoundingMode;
using tandem::SequenceBuilder;

/// The bits of 1 and of -0.
static constexpr uint32_t one = 0x3F800000, signMask = 0x80000000;
/// A code's number has its byte at the top of a word; a fraction fills the rest.
static constexpr unsigned fractionBits = 24;
/// This makes up for 2^24 - 1 in the place of 2^24, up to 255 times: it is less
/// than the unit of random bits, so that nothing is carried.
static constexpr uint32_t makeUp = 0xFF;

namespace {
/// How the bits of 1 + |y| are counted.
struct Spacing {
  /// Codes in two octaves, a factor of 2^24 - 1, and the other factor: the
  /// units in the last place from a code to the next one.
  uint32_t codes, units;
  /// The largest code without its sign.
  uint32_t largest;

  float getNumber(uint32_t code) const {
    return llvm::bit_cast<float>(one + code * units) - 1.0f;
  }
};
} // namespace

static bool isSigned(MuLawCodeAttr code) {
  return code.getSignedness() == Signedness::Signed;
}

static Spacing getSpacing(MuLawCodeAttr code) {
  Spacing spacing = isSigned(code) ? Spacing{85, 197379, 127}
                                   : Spacing{45, 372827, 255};
  assert(spacing.codes * spacing.units == (1u << fractionBits) - 1);
  return spacing;
}

LogicalResult MuLawCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                    Signedness, RoundingMode rounding) {
  // (C1)
  return verifyRounding(emitError, "a mu-law code", rounding);
}

CodeAttrInterface MuLawCodeAttr::getNearest() const {
  return get(getContext(), getSignedness(), RoundingMode::nearest);
}

SmallVector<CodePlane> MuLawCodeAttr::getPlanes() const {
  return {CodePlane{"", IntegerType::get(getContext(), 8)}};
}
double MuLawCodeAttr::getLargest() const {
  Spacing spacing = getSpacing(*this);
  return spacing.getNumber(spacing.largest);
}
bool MuLawCodeAttr::hasNaN() const { return false; }
Value MuLawCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value MuLawCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

/// Negative numbers of an unsigned code count as NaN, whose bits lie above
/// those of every number; adding +0 makes -0 positive.
Value MuLawCodeAttr::measure(SequenceBuilder &b, Value x) const {
  return isSigned(*this) ? takeMagnitude(b, x)
                         : b.bits(b.add(x, b.zero(x.getType())));
}

/// `value` where the group is finite, else `other`, for all elements of y.
static Value chooseForGroup(SequenceBuilder &b, Value isFinite, uint32_t value,
                            uint32_t other, Value y) {
  Type i32 = b.builder.getI32Type();
  Value chosen =
      b.select(isFinite, b.integer(i32, value), b.integer(i32, other));
  return b.spread(chosen, y);
}

SmallVector<Value> MuLawCodeAttr::encode(SequenceBuilder &b, Value y,
                                         const CodeInputs &inputs) const {
  Spacing spacing = getSpacing(*this);
  y = raiseToSmallest(b, y, inputs.isPositive, spacing.getNumber(1));
  Value magnitude = isSigned(*this) ? b.abs(y) : y;
  Value bits = b.bits(b.add(magnitude, b.real(y.getType(), 1.0)));
  uint32_t top = one + spacing.largest * spacing.units;
  bits = arith::MinUIOp::create(
      b.builder, b.loc, bits,
      chooseForGroup(b, inputs.isFinite, top, one, bits));
  uint32_t addend = makeUp - one * spacing.codes;
  Value word = b.addi(b.muli(bits, b.like(bits, spacing.codes)),
                      b.like(bits, addend));
  Value random = getRounding() == RoundingMode::nearest ? b.like(bits, 0x8000)
                                                        : inputs.random;
  word = b.addi(word, b.shl(random, 8));
  if (isSigned(*this))
    word = b.ori(word, b.andi(b.bits(y), chooseForGroup(b, inputs.isFinite,
                                                        signMask, 0, bits)));
  return {b.resize(b.shr(word, fractionBits), b.builder.getIntegerType(8))};
}

Value MuLawCodeAttr::decode(SequenceBuilder &b, ValueRange codes, Value) const {
  Spacing spacing = getSpacing(*this);
  Value word = b.resize(codes[0], b.builder.getI32Type());
  Value code = isSigned(*this) ? b.andi(word, b.like(word, 0x7F)) : word;
  Value bits = b.addi(b.muli(code, b.like(word, spacing.units)),
                      b.like(word, one));
  Type f32 = b.builder.getF32Type();
  Value sum = b.bitcast(bits, f32);
  Value number = b.sub(sum, b.real(sum.getType(), 1.0));
  if (!isSigned(*this))
    return number;
  Value sign = b.andi(b.shl(word, fractionBits), b.like(word, signMask));
  return b.bitcast(b.ori(b.bits(number), sign), f32);
}
