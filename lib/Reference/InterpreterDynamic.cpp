//===- InterpreterDynamic.cpp - The dynamic 8-bit code --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the dynamic code by docs/Numerics.md: decades of evenly
// spaced values, counted by their rank from zero's code on.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/InterpreterCodes.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::reference;

namespace {
/// Decade i has n values 10^(i-6) * (0.1 + 0.9 * (k + 1/2) / n). The numbers
/// below are quotients of integers: `unit` is 10^(7-i), so that the values are
/// (2n + 18k + 9) / (2n * unit).
struct Decade {
  Decade(bool isSigned, int index) : count(1 << (index + !isSigned)), unit(1) {
    for (int i = index; i < 7; ++i)
      unit *= 10;
  }

  SoftFloat getPeak() const { return toQuotient(10, unit); }
  /// What brings the decade to 1.
  SoftFloat getInverse() const { return toReal(unit / 10); }
  /// From here on, the next decade is nearer.
  SoftFloat getEnd() const { return toQuotient(10 * count + 9, unit * count); }
  /// From here on, 1 is nearer than the largest value of the last decade.
  SoftFloat getTop() const { return toQuotient(200 * count - 45, 200 * count); }
  SoftFloat getHalf(int k) const {
    return toQuotient(2 * count + 18 * k + 9, 4 * count * unit);
  }

  int64_t count, unit;
};
} // namespace

/// The values lie in seven decades.
static constexpr int numDecades = 7;

/// The value of a rank that counts from `decade.count`.
static SoftFloat getValue(const Decade &decade, uint64_t rank) {
  double place = (rank - decade.count + 0.5) / decade.count;
  SoftFloat inDecade = toReal(place).fma(toQuotient(9, 10), toQuotient(1, 10));
  return inDecade.mul(decade.getPeak());
}

/// The nearest rank to a magnitude, as though all ranks below 1's were there.
static int64_t chooseRank(bool isSigned, const SoftFloat &magnitude) {
  int index = 0;
  while (index + 1 < numDecades &&
         !isLess(magnitude, Decade(isSigned, index).getEnd()))
    ++index;
  Decade decade(isSigned, index);
  SoftFloat place = magnitude.mul(decade.getInverse())
                        .fma(toQuotient(10, 9), toQuotient(8, 9));
  SoftFloat belowTwo = SoftFloat::fromBits(Format::F32, 0x3FFFFFFF);
  place = clamp(place, toReal(1), belowTwo);
  return int64_t(place.toDouble() * decade.count) - !isSigned;
}

/// Zero's byte, and the one next to it, which stands for NaN.
static int64_t getZero(bool isSigned) { return isSigned ? 127 : 0; }
static uint64_t getNaN(bool isSigned) { return isSigned ? 126 : 1; }

/// Half of the smallest value but zero.
static SoftFloat getLeast(bool isSigned, bool isNegative) {
  if (!isSigned)
    return Decade(isSigned, 0).getHalf(1);
  return Decade(isSigned, isNegative).getHalf(0);
}

uint64_t reference::encodeDynamic(bool isSigned, const SoftFloat &y,
                                  bool isFinite) {
  bool isNegative = isLess(y, toReal(0));
  if (!isFinite || (isNegative && !isSigned))
    return getNaN(isSigned);
  SoftFloat magnitude = y.abs();
  if (isLess(magnitude, getLeast(isSigned, isNegative)))
    return getZero(isSigned);
  Decade last(isSigned, numDecades - 1);
  if (!isLess(y, last.getTop()))
    return 255;
  int64_t rank = chooseRank(isSigned, magnitude);
  // Rank 1 is the NaN's where there is one.
  if (!isSigned || isNegative)
    rank = std::max<int64_t>(rank, 2);
  return getZero(isSigned) + (isNegative ? -rank : rank);
}

SoftFloat reference::decodeDynamic(bool isSigned, uint64_t code) {
  if (code == getNaN(isSigned))
    return SoftFloat::getNaN(Format::F32);
  int64_t offset = int64_t(code) - getZero(isSigned);
  if (offset == 0)
    return toReal(0);
  // Ranks of a decade count from the number of its values.
  uint64_t rank = std::abs(offset) + !isSigned;
  int index = int(llvm::Log2_64(rank)) - !isSigned;
  SoftFloat value =
      index < numDecades ? getValue(Decade(isSigned, index), rank) : toReal(1);
  return offset < 0 ? value.neg() : value;
}
