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

namespace {
/// The spacing of codes in the bits of 2 + |y|. A code is at the top of a word,
/// and a fraction fills the rest.
struct Spacing {
  /// The factor of a distance in bits, and the number of units in the last
  /// place between two codes. Their product is a code's unit in the word, or
  /// somewhat less.
  uint32_t factor, units;
  /// The largest code without its sign.
  uint32_t largest;
  /// Compensates for what the product lacks, up to `largest` times. It is less
  /// than the unit of random bits, so that nothing is carried.
  uint32_t makeUp;
  /// The distance of code 0 from zero, in codes: 1 if no code stands for zero.
  uint32_t first = 0;

  /// Returns the bits of 2 and a code's number.
  uint32_t getBits(uint32_t code) const { return two + (first + code) * units; }
  float getNumber(uint32_t code) const {
    return llvm::bit_cast<float>(getBits(code)) - 2.0f;
  }
};
} // namespace

static bool isSigned(MuLawCodeAttr code) {
  return code.getSignedness() == Signedness::Signed;
}

static Spacing getSpacing(MuLawCodeAttr code) {
  if (code.getBits() == 4)
    return isSigned(code) ? Spacing{64, 1 << 22, 7, 0}
                          : Spacing{32, 1 << 23, 15, 0, 1};
  return isSigned(code) ? Spacing{85, 197379, 127, 0xFF}
                        : Spacing{45, 372827, 255, 0xFF};
}

/// Returns the number of fraction bits below a code in a word.
static unsigned getFractionBits(MuLawCodeAttr code) {
  return 32 - code.getBits();
}

LogicalResult
MuLawCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError, Signedness,
                      RoundingMode rounding, unsigned bits) {
  // (C2)
  if (bits != 4 && bits != 8)
    return emitError() << "a mu-law code has 4 or 8 bits, got " << bits;
  // (C1)
  return verifyRounding(emitError, "a mu-law code", rounding);
}

CodeAttrInterface MuLawCodeAttr::getNearest() const {
  return get(getContext(), getSignedness(), RoundingMode::nearest, getBits());
}

SmallVector<CodePlane> MuLawCodeAttr::getPlanes() const {
  return {CodePlane{"", IntegerType::get(getContext(), 8),
                    codesPerByte(getBits())}};
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
bool MuLawCodeAttr::hasZero() const { return !getSpacing(*this).first; }
Value MuLawCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value MuLawCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

/// Negative numbers of an unsigned code count as NaN, whose bits lie above
/// those of every number; adding +0 makes -0 positive.
Value MuLawCodeAttr::measure(SequenceBuilder &b, Value x) const {
  return isSigned(*this) ? takeMagnitude(b, x)
                         : b.bits(b.add(x, b.zero(x.getType())));
}

/// Raises 2 + |y| to that of the first code if a positive value must not become
/// zero, or if there is no zero.
static Value raise(SequenceBuilder &b, Value sum, Value isPositive,
                   const Spacing &spacing) {
  if (spacing.first) {
    Value bits = b.bits(sum);
    Value raised = arith::MaxUIOp::create(b.builder, b.loc, bits,
                                          b.like(bits, spacing.getBits(0)));
    return b.bitcast(raised, b.builder.getF32Type());
  }
  return raiseToSmallest(b, sum, isPositive, 2.0f + spacing.getNumber(1));
}

/// Returns the bits of 2 and the compensation for the factors' product as one
/// addend. The codes of a group that is not finite do not matter; a value
/// selected per group is a register on a GPU, while a constant would be copied
/// to one for each element.
static Value getAddend(SequenceBuilder &b, MuLawCodeAttr code, Value bits,
                       Value isFinite) {
  Spacing spacing = getSpacing(code);
  uint32_t unit = 1u << getFractionBits(code);
  uint32_t addend =
      spacing.makeUp - two * spacing.factor - spacing.first * unit;
  if (!spacing.makeUp)
    return b.like(bits, addend);
  Type i32 = b.builder.getI32Type();
  Value other = b.integer(i32, addend - spacing.makeUp);
  Value finite = b.integer(i32, addend);
  return b.spread(b.select(isFinite, finite, other), bits);
}

/// Returns 2^14 f (1 - f), rounded to an integer, of a number's mantissa f,
/// moved to the random bits of a word: a quarter of f (1 - f) in units of
/// 2^-16. Added to f, it makes rounding by bits keep about the mean of the
/// inverse root.
static Value getTilt(SequenceBuilder &b, Value bits, unsigned fractionBits) {
  Value mantissa = b.andi(bits, b.like(bits, 0x007FFFFF));
  Value word = b.ori(mantissa, b.like(bits, 0x3F800000));
  Value number = b.bitcast(word, b.builder.getF32Type());
  Value factor = b.real(number.getType(), 0x1p14);
  Value scaled = b.fma(number, factor, b.real(number.getType(), -0x1p14));
  Value rest = b.sub(b.real(number.getType(), 2.0), number);
  // From 2^23 on, f32 holds only integers. The shift drops the exponent.
  Value sum = b.fma(scaled, rest, b.real(number.getType(), 0x1p23));
  return b.shl(b.bits(sum), fractionBits - 16);
}

/// Encodes the sum 2 + |y|. `sign` has the sign bit of y.
static Value encodeSum(SequenceBuilder &b, MuLawCodeAttr code, Value sum,
                       Value sign, const CodeInputs &inputs) {
  Spacing spacing = getSpacing(code);
  Value bits = b.bits(raise(b, sum, inputs.isPositive, spacing));
  Value random = code.getRounding() == RoundingMode::nearest
                     ? b.like(bits, 0x8000)
                     : inputs.random;
  Value addend = getAddend(b, code, bits, inputs.isFinite);
  unsigned fractionBits = getFractionBits(code);
  addend = b.ori(b.shl(random, fractionBits - 16), addend);
  Value word = b.addi(b.muli(bits, b.like(bits, spacing.factor)), addend);
  if (spacing.first)
    word = b.addi(word, getTilt(b, bits, fractionBits));
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
  Value number =
      isSigned(code) ? b.andi(word, b.like(word, spacing.largest)) : word;
  Value offset = b.like(word, spacing.getBits(0));
  Value bits = b.addi(b.muli(number, b.like(word, spacing.units)), offset);
  return b.bitcast(bits, b.builder.getF32Type());
}

/// Gives the number the sign of a code.
static Value takeSign(SequenceBuilder &b, MuLawCodeAttr code, Value number,
                      Value word) {
  if (!isSigned(code))
    return number;
  Value moved = b.shl(word, getFractionBits(code));
  Value sign = b.andi(moved, b.like(word, tandem::f32SignMask));
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
