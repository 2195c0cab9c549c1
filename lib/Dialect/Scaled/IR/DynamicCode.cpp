//===- DynamicCode.cpp - Bytes spaced evenly within decades ---------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the code interface for the dynamic 8-bit map.
//
// Codes are ranked by their distance from the code of zero. If n is the rank
// (plus one if unsigned), decade i begins at n = 2^i (2^(i + 1) if unsigned),
// so that the fields of n as an f32 have the decade and the place in it, 1 + (k
// + 1/2) / 2^i.
//
// NaN takes the code of one number near 1, of rank `getLost`, where neighbours
// are closest together for their size.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include <cmath>

using namespace mlir;
using namespace tandem::scaled;
using tandem::RoundingMode;
using tandem::SequenceBuilder;

static constexpr unsigned numDecades = 7;
static constexpr uint64_t mantissaMask = 0x007FFFFF;

// f32 has every power up to 10^10.
static constexpr double powersOfTen[numDecades] = {1e0, 1e1, 1e2, 1e3,
                                                   1e4, 1e5, 1e6};

namespace {
/// The constants that distinguish the two maps.
struct Layout {
  /// The code of zero, the rank of one, and the code of NaN.
  uint64_t zero, one, nan;
  /// log2 of the number of parts of the first decade.
  unsigned shift;

  bool isSigned() const { return shift == 0; }
  /// Returns the rank of the number whose code is NaN's.
  uint64_t getLost() const { return isSigned() ? zero - nan : nan; }
  /// Returns the number of parts of a decade.
  double getParts(unsigned decade) const {
    return std::ldexp(1.0, decade + shift);
  }
  /// Returns the point halfway between a decade's last number and the next one,
  /// which is the first of the next decade, or 1. The number before 1 is NaN's
  /// under `unsigned`.
  double getEnd(unsigned decade) const {
    double parts = getParts(decade);
    if (decade + 1 == numDecades)
      return 1.0 - (isSigned() ? 0.225 : 0.675) / parts;
    return (1.0 + 0.9 / parts) / powersOfTen[numDecades - 1 - decade];
  }
  /// Returns the centre of a decade's first part.
  double getFirst(unsigned decade) const {
    return (0.1 + 0.45 / getParts(decade)) /
           powersOfTen[numDecades - 1 - decade];
  }
  /// Return the magnitudes of the last negative number and of the one before
  /// it, which is NaN's.
  double getLastNegative() const {
    return 1.0 - 0.45 / getParts(numDecades - 1);
  }
  double getLostNegative() const {
    return 1.0 - 1.35 / getParts(numDecades - 1);
  }
};
} // namespace

static Layout getLayout(Signedness signedness) {
  return signedness == Signedness::Signed ? Layout{127, 128, 1, 0}
                                          : Layout{0, 255, 254, 1};
}

LogicalResult
DynamicCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        Signedness, RoundingMode rounding) {
  // (C1)
  return verifyRounding(emitError, "a dynamic code", rounding);
}

SmallVector<CodePlane> DynamicCodeAttr::getPlanes() const {
  return {CodePlane{"", IntegerType::get(getContext(), 8)}};
}
CodeAttrInterface DynamicCodeAttr::getNearest() const {
  return get(getContext(), getSignedness(), RoundingMode::nearest);
}

double DynamicCodeAttr::getLargest() const { return 1.0; }
double DynamicCodeAttr::getLargestNegative() const {
  Layout layout = getLayout(getSignedness());
  return layout.isSigned() ? layout.getLastNegative() : 1.0;
}
Value DynamicCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value DynamicCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

/// There is no -1, so that the largest negative value must become the last
/// negative number.
Value DynamicCodeAttr::measure(SequenceBuilder &b, Value x) const {
  Layout layout = getLayout(getSignedness());
  Value magnitude = takeMagnitude(b, x);
  if (!layout.isSigned())
    return magnitude;
  float factor = 1.0f / static_cast<float>(layout.getLastNegative());
  Value number = b.bitcast(magnitude, b.builder.getF32Type());
  Value raised = b.bits(b.mul(number, b.real(number.getType(), factor)));
  Value isNegative =
      b.compare(arith::CmpIPredicate::slt, b.bits(x), b.like(magnitude, 0));
  // Beyond the largest f32 the magnitude itself is used.
  Value isFinite = b.compare(arith::CmpIPredicate::ult, raised,
                             b.like(raised, tandem::f32Infinity));
  return b.select(b.andi(isNegative, isFinite), raised, magnitude);
}

/// Returns the constant of the decade that contains x. `getBegin` returns the
/// beginnings of decades.
static Value
selectDecade(SequenceBuilder &b, Value x,
             llvm::function_ref<double(unsigned decade)> getBegin,
             llvm::function_ref<Value(unsigned decade)> getConstant) {
  Value chosen = getConstant(0);
  for (unsigned decade = 1; decade < numDecades; ++decade) {
    Value begin = b.real(x.getType(), static_cast<float>(getBegin(decade)));
    Value isBeyond = b.compare(arith::CmpFPredicate::OGE, x, begin);
    chosen = b.select(isBeyond, getConstant(decade), chosen);
  }
  return chosen;
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

/// Returns the largest n whose part begins at or below a magnitude. For a NaN
/// the result is unspecified.
static Value findPart(SequenceBuilder &b, Value magnitude, Value bits,
                      const Layout &layout) {
  // This is 10^(6 - decade), with the decade in low bits that the power leaves
  // free.
  Value chosen = selectDecade(
      b, magnitude, [&](unsigned decade) { return layout.getEnd(decade - 1); },
      [&](unsigned decade) {
        float power = powersOfTen[numDecades - 1 - decade];
        return b.like(bits, llvm::bit_cast<uint32_t>(power) | decade);
      });
  Value power = b.andi(chosen, b.like(chosen, ~uint64_t(7)));
  Value place = b.mul(magnitude, b.bitcast(power, b.builder.getF32Type()));
  // Map [0.1, 1] to [1, 2], or to [2, 4] under `unsigned`, where n is twice as
  // large.
  float slope = std::ldexp(static_cast<float>(10.0 / 9.0), layout.shift);
  float begin = std::ldexp(static_cast<float>(8.0 / 9.0), layout.shift);
  Value wide = b.bits(b.fma(place, b.real(place.getType(), slope),
                            b.real(place.getType(), begin)));
  uint64_t least = uint64_t(127 + layout.shift) << 23;
  wide = arith::MinUIOp::create(b.builder, b.loc, wide,
                                b.like(wide, least | mantissaMask));
  wide = arith::MaxUIOp::create(b.builder, b.loc, wide, b.like(wide, least));
  // The shift drops the power's bits.
  wide = b.addi(wide, b.shl(chosen, 23));
  return arith::FPToSIOp::create(b.builder, b.loc, bits.getType(),
                                 b.bitcast(wide, b.builder.getF32Type()));
}

/// Returns the rank of the nearest number.
static Value findNearest(SequenceBuilder &b, Value y, Value isNegative,
                         const Layout &layout) {
  Value bits = b.bits(y), magnitude = b.abs(y);
  auto constant = [&](uint64_t value) { return b.like(bits, value); };
  auto isAtLeast = [&](Value x, double value) {
    Value limit = b.real(y.getType(), static_cast<float>(value));
    return b.compare(arith::CmpFPredicate::OGE, x, limit);
  };
  Value rank = findPart(b, magnitude, bits, layout);
  if (!layout.isSigned()) {
    rank = b.subi(rank, constant(1));
    rank = arith::MinSIOp::create(b.builder, b.loc, rank,
                                  constant(layout.getLost() - 1));
  }
  rank = arith::MaxSIOp::create(b.builder, b.loc, rank, constant(1));
  Value isOne = isAtLeast(y, layout.getEnd(numDecades - 1));
  rank = b.select(isOne, constant(layout.one), rank);
  if (layout.isSigned()) {
    // Each half of the part around the lost number is nearer to the number on
    // its side.
    Value isLost =
        b.compare(arith::CmpIPredicate::eq, rank, constant(layout.getLost()));
    Value isBeyond = isAtLeast(magnitude, layout.getLostNegative());
    Value nearer = b.select(isBeyond, constant(layout.getLost() + 1),
                            constant(layout.getLost() - 1));
    rank = b.select(b.andi(isNegative, isLost), nearer, rank);
  }
  Value isZero = b.compare(
      arith::CmpFPredicate::OLT, magnitude,
      b.real(y.getType(), static_cast<float>(layout.getFirst(0) / 2.0)));
  return b.select(isZero, constant(0), rank);
}

namespace {
/// The last number of a decade, before the next one's, and the slope of the
/// level after it.
struct DecadeEnd {
  Value last, slope;
};
} // namespace

static DecadeEnd select(SequenceBuilder &b, Value condition, DecadeEnd yes,
                        DecadeEnd no) {
  return {b.select(condition, yes.last, no.last),
          b.select(condition, yes.slope, no.slope)};
}

/// Returns the end of the last decade. It is followed by 1 or, for negative
/// values, by the number after the lost one.
static DecadeEnd getLastEnd(SequenceBuilder &b, Value level, Value isNegative,
                            const Layout &layout) {
  auto end = [&](double last, double slope) {
    return DecadeEnd{b.real(level.getType(), last),
                     b.real(level.getType(), static_cast<float>(slope))};
  };
  double lost = double(layout.getLost());
  if (!layout.isSigned())
    return end(lost - 1, 2.0 / 3.0);
  return select(b, isNegative, end(lost - 1, 0.5), end(lost + 1, 2.0));
}

/// Adapts the level beyond the decade's numbers, where they are further apart.
/// In the last decade it is at most the level of the next number.
static Value stretchBeyond(SequenceBuilder &b, Value level, DecadeEnd end,
                           Value isLast) {
  Value beyond = b.fma(b.sub(level, end.last), end.slope, end.last);
  Value isBeyond = b.compare(arith::CmpFPredicate::OGT, level, end.last);
  Value stretched = b.select(isBeyond, beyond, level);
  Value next = b.add(end.last, b.real(level.getType(), 1.0));
  Value isMore = b.compare(arith::CmpFPredicate::OGT, stretched, next);
  return b.select(b.andi(isLast, isMore), next, stretched);
}

/// Returns a magnitude's rank with the fraction of the way to the next number,
/// which is linear between neighbours.
static Value buildLevel(SequenceBuilder &b, Value magnitude, Value isNegative,
                        const Layout &layout) {
  auto real = [&](double value) {
    return b.real(magnitude.getType(), static_cast<float>(value));
  };
  Value bits = b.bits(magnitude);
  // This is 10^(6 - decade), with the decade in low bits that the power leaves
  // free.
  Value chosen = selectDecade(
      b, magnitude, [&](unsigned decade) { return layout.getFirst(decade); },
      [&](unsigned decade) {
        float power = powersOfTen[numDecades - 1 - decade];
        return b.like(bits, llvm::bit_cast<uint32_t>(power) | decade);
      });
  Type f32 = b.builder.getF32Type();
  Value power = b.bitcast(b.andi(chosen, b.like(chosen, ~uint64_t(7))), f32);
  // The shift drops the power's bits.
  Value field = b.addi(b.shl(chosen, 23),
                       b.like(chosen, uint64_t(127 + layout.shift) << 23));
  Value parts = b.bitcast(field, f32);
  Value place =
      b.fma(b.mul(magnitude, power), real(10.0 / 9.0), real(8.0 / 9.0));
  Value level = b.fma(place, parts, real(-0.5 - layout.shift));
  Value last = b.sub(b.add(parts, parts), real(1.0 + layout.shift));
  Value isLast = b.compare(arith::CmpFPredicate::OGE, magnitude,
                           real(layout.getFirst(numDecades - 1)));
  DecadeEnd end = select(b, isLast, getLastEnd(b, level, isNegative, layout),
                         {last, real(1.0 / 3.0)});
  level = stretchBeyond(b, level, end, isLast);
  Value below =
      b.mul(magnitude, real(1.0f / static_cast<float>(layout.getFirst(0))));
  Value isBelow =
      b.compare(arith::CmpFPredicate::OLT, magnitude, real(layout.getFirst(0)));
  return b.select(isBelow, below, level);
}

/// Returns the rank of one of the two numbers around y.
static Value roundRank(SequenceBuilder &b, Value y, Value isNegative,
                       const Layout &layout, Value random) {
  Value magnitude =
      b.bitcast(clampMagnitude(b, y, 1.0), b.builder.getF32Type());
  Value level = buildLevel(b, magnitude, isNegative, layout);
  Value rank = roundLevel(b, level, random);
  Value isLost =
      b.compare(arith::CmpIPredicate::eq, rank, b.like(rank, layout.getLost()));
  if (layout.isSigned())
    isLost = b.andi(isLost, isNegative);
  return b.select(isLost, b.like(rank, layout.getLost() + 1), rank);
}

/// Returns the smallest number that is not stored as zero, as `encode` computes
/// it.
static float getSmallest(const Layout &layout) {
  float smallest = static_cast<float>(layout.getFirst(0));
  return std::nextafter(std::nextafter(smallest, 1.0f), 1.0f);
}

SmallVector<Value> DynamicCodeAttr::encode(SequenceBuilder &b, Value y,
                                           const CodeInputs &inputs) const {
  Layout layout = getLayout(getSignedness());
  y = raiseToSmallest(b, y, inputs.isPositive, getSmallest(layout));
  Value bits = b.bits(y);
  auto constant = [&](uint64_t value) { return b.like(bits, value); };
  Value isNegative =
      layout.isSigned()
          ? b.compare(arith::CmpIPredicate::slt, bits, constant(0))
          : b.compare(arith::CmpFPredicate::OLT, y, b.zero(y.getType()));
  Value random = orientBits(b, y, inputs.random, getRounding());
  Value rank = getRounding() == RoundingMode::nearest
                   ? findNearest(b, y, isNegative, layout)
                   : roundRank(b, y, isNegative, layout, random);
  Value nan = constant(layout.nan), code = rank;
  if (layout.isSigned()) {
    Value zero = constant(layout.zero);
    Value above = b.addi(zero, rank), below = b.subi(zero, rank);
    code = b.select(isNegative, below, above);
  } else {
    code = b.select(isNegative, nan, code);
  }
  code = b.select(inputs.isFinite, code, nan);
  return {b.resize(code, b.builder.getIntegerType(8))};
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// Returns the number of a rank other than those of zero and one.
static Value buildCentre(SequenceBuilder &b, Value rank, const Layout &layout) {
  Type f32 = b.builder.getF32Type();
  // The fraction of 2n + 1 as an f32 is (k + 1/2) / 2^i.
  Value odd = b.addi(b.shl(rank, 1), b.like(rank, 2 * layout.shift + 1));
  Value wide = b.toReal(odd);
  Value bits = b.bits(wide);
  Value place = b.bitcast(
      b.ori(b.andi(bits, b.like(bits, mantissaMask)), b.like(bits, 0x3F800000)),
      f32);
  auto real = [&](double value) {
    return b.real(wide.getType(), static_cast<float>(value));
  };
  Value power = selectDecade(
      b, wide, [&](unsigned decade) { return 2.0 * layout.getParts(decade); },
      [&](unsigned decade) {
        return real(1.0 / powersOfTen[numDecades - 1 - decade]);
      });
  Value centre = b.fma(b.sub(place, real(1.0)), real(0.9), real(0.1));
  return b.mul(centre, power);
}

Value DynamicCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                              Value) const {
  Layout layout = getLayout(getSignedness());
  Value word = b.resize(codes[0], b.builder.getI32Type());
  auto constant = [&](uint64_t value) { return b.like(word, value); };
  auto is = [&](Value bits, uint64_t value) {
    return b.compare(arith::CmpIPredicate::eq, bits, constant(value));
  };
  Value offset = word, rank = word;
  if (layout.zero) {
    offset = b.subi(word, constant(layout.zero));
    rank = arith::MaxSIOp::create(b.builder, b.loc, offset,
                                  b.subi(constant(0), offset));
  }
  Value number = b.bits(buildCentre(b, rank, layout));
  number = b.select(is(rank, layout.one), constant(0x3F800000), number);
  number = b.select(is(rank, 0), constant(0), number);
  if (layout.zero)
    number = b.ori(number, b.andi(offset, constant(tandem::f32SignMask)));
  number =
      b.select(is(word, layout.nan), constant(tandem::f32QuietNaN), number);
  return b.bitcast(number, b.builder.getF32Type());
}
