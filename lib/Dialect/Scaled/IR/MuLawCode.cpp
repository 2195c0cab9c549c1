//===- MuLawCode.cpp - Bytes spaced by the mu-law -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the code interface for the mu-law code, which reads and
// writes the logarithm of 2 + |y| as the bits of an f32.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"

using namespace mlir;
using namespace tandem::scaled;
using tandem::RoundingMode;
using tandem::SequenceBuilder;

/// The bits of 2. Its multiples have no bits in the bytes that receive random
/// bits.
static constexpr uint32_t two = 0x40000000;
/// The number of fraction bits: the byte of a code is at the top of a word, and
/// a fraction fills the rest.
static constexpr unsigned fractionBits = 24;
/// Compensates for a factor of 2^24 - 1 instead of 2^24, up to 255 times. It is
/// less than the unit of random bits, so that nothing is carried.
static constexpr uint32_t makeUp = 0xFF;

namespace {
/// The spacing of codes in the bits of 2 + |y|.
struct Spacing {
  /// The number of codes in two octaves, a factor of 2^24 - 1, and the other
  /// factor, the number of units in the last place between two codes.
  uint32_t codes, units;
  /// The largest code without its sign.
  uint32_t largest;

  float getNumber(uint32_t code) const {
    return llvm::bit_cast<float>(two + code * units) - 2.0f;
  }
};
} // namespace

static bool isSigned(MuLawCodeAttr code) {
  return code.getSignedness() == Signedness::Signed;
}

static Spacing getSpacing(MuLawCodeAttr code) {
  Spacing spacing =
      isSigned(code) ? Spacing{85, 197379, 127} : Spacing{45, 372827, 255};
  assert(spacing.codes * spacing.units == (1u << fractionBits) - 1);
  return spacing;
}

LogicalResult
MuLawCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError, Signedness,
                      RoundingMode rounding) {
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
std::optional<float> MuLawCodeAttr::getScaleFactor() const {
  // Rounding moves 2 + |y| by less than what this leaves below the largest
  // number, so that no value needs to be clamped.
  return static_cast<float>((1.0 + 0x1p-22) / getLargest());
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

/// Raises 2 + |y| to that of the first code if a positive value must not become
/// zero.
static Value raise(SequenceBuilder &b, Value sum, Value isPositive,
                   const Spacing &spacing) {
  return raiseToSmallest(b, sum, isPositive, 2.0f + spacing.getNumber(1));
}

/// Returns the bits of 2 and the compensation for the factors' product as one
/// addend. The codes of a group that is not finite do not matter; a value
/// selected per group is a register on a GPU, while a constant would be copied
/// to one for each element.
static Value getAddend(SequenceBuilder &b, const Spacing &spacing, Value bits,
                       Value isFinite) {
  uint32_t addend = makeUp - two * spacing.codes;
  Type i32 = b.builder.getI32Type();
  return b.spread(b.select(isFinite, b.integer(i32, addend),
                           b.integer(i32, addend - makeUp)),
                  bits);
}

/// Encodes the sum 2 + |y|. `sign` has the sign bit of y.
static Value encodeSum(SequenceBuilder &b, MuLawCodeAttr code, Value sum,
                       Value sign, const CodeInputs &inputs) {
  Spacing spacing = getSpacing(code);
  Value bits = b.bits(raise(b, sum, inputs.isPositive, spacing));
  Value random = code.getRounding() == RoundingMode::nearest
                     ? b.like(bits, 0x8000)
                     : inputs.random;
  Value addend = getAddend(b, spacing, bits, inputs.isFinite);
  addend = b.ori(b.shl(random, 8), addend);
  Value word = b.addi(b.muli(bits, b.like(bits, spacing.codes)), addend);
  if (isSigned(code))
    word = b.ori(word, b.andi(b.bits(sign), b.like(bits, tandem::f32SignMask)));
  Type i8 = b.builder.getIntegerType(8);
  Value byte = b.resize(b.shr(word, fractionBits), i8);
  Value mask = b.select(inputs.isFinite, b.integer(i8, 0xFF), b.integer(i8, 0));
  return b.andi(byte, b.spread(mask, byte));
}

/// A scale of 1 changes no bit.
SmallVector<Value> MuLawCodeAttr::encode(SequenceBuilder &b, Value y,
                                         const CodeInputs &inputs) const {
  return quantize(b, y, b.real(b.builder.getF32Type(), 1.0), inputs);
}

SmallVector<Value> MuLawCodeAttr::quantize(SequenceBuilder &b, Value x,
                                           Value inverse,
                                           const CodeInputs &inputs) const {
  Value magnitude = isSigned(*this) ? b.abs(x) : x;
  Value sum = b.fma(magnitude, b.spread(inverse, x), b.real(x.getType(), 2.0));
  return {encodeSum(b, *this, sum, x, inputs)};
}

/// Returns the sum of 2 and a code's number.
static Value decodeSum(SequenceBuilder &b, MuLawCodeAttr code, Value word) {
  Spacing spacing = getSpacing(code);
  Value number = isSigned(code) ? b.andi(word, b.like(word, 0x7F)) : word;
  Value offset = b.like(word, two);
  Value bits = b.addi(b.muli(number, b.like(word, spacing.units)), offset);
  return b.bitcast(bits, b.builder.getF32Type());
}

/// Gives the number the sign of a code.
static Value takeSign(SequenceBuilder &b, MuLawCodeAttr code, Value number,
                      Value word) {
  if (!isSigned(code))
    return number;
  Value sign =
      b.andi(b.shl(word, fractionBits), b.like(word, tandem::f32SignMask));
  return b.bitcast(b.ori(b.bits(number), sign), b.builder.getF32Type());
}

Value MuLawCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                            Value exponent) const {
  return dequantize(b, codes, exponent, b.real(b.builder.getF32Type(), 1.0));
}

/// The difference, and twice the scale, are exact.
Value MuLawCodeAttr::dequantize(SequenceBuilder &b, ValueRange codes, Value,
                                Value scale) const {
  Value word = b.resize(codes[0], b.builder.getI32Type());
  Value sum = decodeSum(b, *this, word);
  Value twice = b.mul(scale, b.real(scale.getType(), -2.0));
  Value offset = b.spread(twice, sum);
  Value number = b.fma(sum, b.spread(scale, sum), offset);
  return takeSign(b, *this, number, word);
}
