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
// Codes are ranked by their distance from zero's. In n, the rank (unsigned: and
// one), decade i begins at 2^i (unsigned: 2^(i + 1)), so that the fields of an
// f32 tell the decade and the place in it, 1 + (k + 1/2) / 2^i.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include <cmath>

using namespace mlir;
using namespace mlir::scaled;
using mlir::tandem::SequenceBuilder;

static constexpr unsigned numDecades = 7;
static constexpr uint64_t mantissaMask = 0x007FFFFF;

// f32 has every power up to 10^10.
static constexpr double powersOfTen[numDecades] = {1e0, 1e1, 1e2, 1e3,
                                                   1e4, 1e5, 1e6};

namespace {
/// What sets the two maps apart.
struct Layout {
  /// The code of zero, one's rank, the code of NaN.
  uint64_t zero, one, nan;
  /// log2 of the parts of the first decade.
  unsigned shift;

  /// The parts of a decade.
  double getParts(unsigned decade) const {
    return std::ldexp(1.0, decade + shift);
  }
  /// Halfway between a decade's last number and what comes next: the first of
  /// the next decade, or 1.
  double getEnd(unsigned decade) const {
    double parts = getParts(decade);
    if (decade + 1 == numDecades)
      return 1.0 - 0.225 / parts;
    return (1.0 + 0.9 / parts) / powersOfTen[numDecades - 1 - decade];
  }
  /// The centre of the first decade's first part or, that one being NaN's, of
  /// the next part, by two.
  double getLeast(bool isFirst) const {
    double next = shift ? 0.775e-6 : 3.25e-6;
    return (isFirst ? 0.55e-6 : next) / 2.0;
  }
};
} // namespace

static Layout getLayout(Signedness signedness) {
  return signedness == Signedness::Signed ? Layout{127, 128, 126, 0}
                                          : Layout{0, 255, 1, 1};
}

SmallVector<CodePlane> DynamicCodeAttr::getPlanes() const {
  return {CodePlane{"", IntegerType::get(getContext(), 8)}};
}
double DynamicCodeAttr::getLargest() const { return 1.0; }
Value DynamicCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value DynamicCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

/// The constant of the decade that x is in, whose beginnings are given.
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

/// The largest n whose part begins at or below a magnitude. What is no number
/// has some n.
static Value findPart(SequenceBuilder &b, Value magnitude, Value bits,
                      const Layout &layout) {
  // 10^(6 - decade), with the decade in low bits that the power leaves free.
  Value chosen = selectDecade(
      b, magnitude, [&](unsigned decade) { return layout.getEnd(decade - 1); },
      [&](unsigned decade) {
        float power = powersOfTen[numDecades - 1 - decade];
        return b.like(bits, llvm::bit_cast<uint32_t>(power) | decade);
      });
  Value power = b.andi(chosen, b.like(chosen, ~uint64_t(7)));
  Value place = b.mul(magnitude, b.bitcast(power, b.builder.getF32Type()));
  // From [0.1, 1] to [1, 2]; under `unsigned`, where n is twice as large, to
  // [2, 4].
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

SmallVector<Value> DynamicCodeAttr::encode(SequenceBuilder &b, Value y,
                                           Value isFinite, Value, Value) const {
  Layout layout = getLayout(getSignedness());
  bool isSigned = getSignedness() == Signedness::Signed;
  Value bits = b.bits(y), magnitude = b.abs(y);
  auto constant = [&](uint64_t value) { return b.like(bits, value); };
  auto real = [&](double value) {
    return b.real(y.getType(), static_cast<float>(value));
  };
  Value rank = findPart(b, magnitude, bits, layout);
  Value isNegative, first = constant(2), least = real(layout.getLeast(false));
  if (isSigned) {
    isNegative = b.compare(arith::CmpIPredicate::slt, bits, constant(0));
    first = b.select(isNegative, first, constant(1));
    least = b.select(isNegative, least, real(layout.getLeast(true)));
  } else {
    isNegative = b.compare(arith::CmpFPredicate::OLT, y, real(0.0));
    rank = b.subi(rank, constant(1));
  }
  rank = arith::MaxSIOp::create(b.builder, b.loc, rank, first);
  Value isOne = b.compare(arith::CmpFPredicate::OGE, y,
                          real(layout.getEnd(numDecades - 1)));
  rank = b.select(isOne, constant(layout.one), rank);
  Value isZero = b.compare(arith::CmpFPredicate::OLT, magnitude, least);
  rank = b.select(isZero, constant(0), rank);
  Value nan = constant(layout.nan), code = rank;
  if (isSigned) {
    Value zero = constant(layout.zero);
    code = b.select(isNegative, b.subi(zero, rank), b.addi(zero, rank));
  } else {
    code = b.select(isNegative, nan, code);
  }
  return {b.resize(b.select(isFinite, code, nan), b.builder.getIntegerType(8))};
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// The number of a rank that is neither zero's nor one's.
static Value buildCentre(SequenceBuilder &b, Value rank, const Layout &layout) {
  Type f32 = b.builder.getF32Type();
  // 2n + 1: the fraction of an f32 is (k + 1/2) / 2^i.
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
    number = b.ori(number, b.andi(offset, constant(0x80000000)));
  number =
      b.select(is(word, layout.nan), constant(tandem::f32QuietNaN), number);
  return b.bitcast(number, b.builder.getF32Type());
}
