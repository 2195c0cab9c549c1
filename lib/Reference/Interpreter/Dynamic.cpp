//===- Dynamic.cpp - The dynamic 8-bit code -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the dynamic code of docs/Numerics.md: decades of evenly
// spaced values. The rank of a value counts from the code of zero.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Codes.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

namespace {
/// Decade i has n values 10^(i-6) * (0.1 + 0.9 * (k + 1/2) / n). The functions
/// return quotients of integers: `unit` is 10^(7-i), so that the values are
/// (2n + 18k + 9) / (2n * unit).
struct Decade {
  Decade(bool isSigned, int index) : count(1 << (index + !isSigned)), unit(1) {
    for (int i = index; i < 7; ++i)
      unit *= 10;
  }

  SoftFloat getPeak() const { return toQuotient(10, unit); }
  /// Returns the factor that scales the decade to 1.
  SoftFloat getInverse() const { return toReal(unit / 10); }
  /// Returns the number from which on the next decade has the nearer value.
  SoftFloat getEnd() const { return toQuotient(10 * count + 9, unit * count); }
  /// Returns the midpoint between value k of the last decade and 1.
  SoftFloat getMiddleToOne(int k) const {
    return toQuotient(22 * count + 18 * k + 9, 40 * count);
  }
  SoftFloat getCentre(int k) const {
    return toQuotient(2 * count + 18 * k + 9, 2 * count * unit);
  }
  SoftFloat getHalf(int k) const {
    return toQuotient(2 * count + 18 * k + 9, 4 * count * unit);
  }

  int64_t count, unit;
};
} // namespace

/// The number of decades.
static constexpr int numDecades = 7;

/// Returns the value of a rank, where ranks in a decade count from
/// `decade.count`.
static SoftFloat getValue(const Decade &decade, uint64_t rank) {
  double place = (rank - decade.count + 0.5) / decade.count;
  SoftFloat inDecade = toReal(place).fma(toQuotient(9, 10), toQuotient(1, 10));
  return inDecade.mul(decade.getPeak());
}

/// Returns the rank nearest to a magnitude, as if all ranks below that of 1 had
/// values.
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

/// Return the codes of zero and of NaN.
static int64_t getZero(bool isSigned) { return isSigned ? 127 : 0; }
static uint64_t getNaN(bool isSigned) { return isSigned ? 1 : 254; }

/// The ranks whose codes are NaN, for the negative numbers of the signed code
/// and for the unsigned code.
static constexpr int64_t lostNegative = 126, lostUnsigned = 254;

SoftFloat reference::getLargestNegative() {
  Decade last(/*isSigned=*/true, numDecades - 1);
  return last.getCentre(last.count - 1);
}

SoftFloat reference::measureDynamic(bool isSigned, const SoftFloat &value) {
  if (!isSigned || !value.isNegative())
    return value.abs();
  SoftFloat raised = value.abs().mul(toReal(1).div(getLargestNegative()));
  return raised.isFinite() ? raised : value.abs();
}

/// Returns the code of a rank.
static uint64_t makeByte(bool isSigned, bool isNegative, int64_t rank) {
  return getZero(isSigned) + (isNegative ? -rank : rank);
}

/// Returns the nearest rank whose code is a number.
static int64_t chooseNumber(bool isSigned, bool isNegative,
                            const SoftFloat &magnitude) {
  Decade last(isSigned, numDecades - 1);
  int64_t rank = std::max<int64_t>(1, chooseRank(isSigned, magnitude));
  if (!isSigned) {
    // The value before 1 in the last decade has no code.
    bool isOne = !isLess(magnitude, last.getMiddleToOne(last.count - 2));
    return isOne ? lostUnsigned + 1 : std::min(rank, lostUnsigned - 1);
  }
  if (!isNegative)
    return isLess(magnitude, last.getMiddleToOne(last.count - 1)) ? rank : 128;
  if (rank != lostNegative)
    return rank;
  return isLess(magnitude, last.getCentre(last.count - 2)) ? rank - 1
                                                           : rank + 1;
}

uint64_t reference::encodeDynamic(bool isSigned, const SoftFloat &y,
                                  bool isFinite) {
  bool isNegative = isLess(y, toReal(0));
  if (!isFinite || (isNegative && !isSigned))
    return getNaN(isSigned);
  SoftFloat magnitude = y.abs();
  if (isLess(magnitude, Decade(isSigned, 0).getHalf(0)))
    return getZero(isSigned);
  return makeByte(isSigned, isNegative,
                  chooseNumber(isSigned, isNegative, magnitude));
}

/// Returns the level, rescaled beyond `last`, where numbers are 1 / slope times
/// as far apart.
static SoftFloat stretch(const SoftFloat &level, int64_t last,
                         const SoftFloat &slope) {
  if (!isLess(toReal(last), level))
    return level;
  return level.sub(toReal(last)).fma(slope, toReal(last));
}

/// Adjusts and limits a level near the last ranks whose codes are numbers.
static SoftFloat limitLevel(bool isSigned, bool isNegative,
                            const SoftFloat &level) {
  int64_t last = !isSigned    ? lostUnsigned - 1
                 : isNegative ? lostNegative - 1
                              : 127;
  SoftFloat slope = !isSigned    ? toQuotient(2, 3)
                    : isNegative ? toQuotient(1, 2)
                                 : toReal(2);
  return stretch(level, last, slope).minNum(toReal(last + 1));
}

/// Returns the rank of a magnitude plus the fraction of the way to the next
/// number.
static SoftFloat findLevel(bool isSigned, bool isNegative,
                           const SoftFloat &magnitude) {
  int index = numDecades - 1;
  while (index >= 0 && isLess(magnitude, Decade(isSigned, index).getCentre(0)))
    --index;
  if (index < 0)
    return magnitude.mul(toReal(1).div(Decade(isSigned, 0).getCentre(0)));
  Decade decade(isSigned, index);
  SoftFloat place = magnitude.mul(decade.getInverse())
                        .fma(toQuotient(10, 9), toQuotient(8, 9));
  SoftFloat level =
      place.fma(toReal(decade.count), toReal(isSigned ? -0.5 : -1.5));
  if (index == numDecades - 1)
    return limitLevel(isSigned, isNegative, level);
  return stretch(level, 2 * decade.count - (isSigned ? 1 : 2),
                 toQuotient(1, 3));
}

uint64_t reference::encodeDynamicByBits(bool isSigned, const SoftFloat &y,
                                        bool isFinite, uint16_t random) {
  bool isNegative = isSigned ? y.isNegative() : isLess(y, toReal(0));
  if (!isFinite || (isNegative && !isSigned))
    return getNaN(isSigned);
  SoftFloat magnitude = y.abs().minNum(toReal(1));
  int64_t rank = roundLevel(findLevel(isSigned, isNegative, magnitude), random);
  bool isLost =
      isSigned ? isNegative && rank == lostNegative : rank == lostUnsigned;
  return makeByte(isSigned, isNegative, rank + isLost);
}

SoftFloat reference::decodeDynamic(bool isSigned, uint64_t code) {
  if (code == getNaN(isSigned))
    return SoftFloat::getNaN(Format::F32);
  int64_t offset = int64_t(code) - getZero(isSigned);
  if (offset == 0)
    return toReal(0);
  // The ranks of a decade count from the number of its values.
  uint64_t rank = std::abs(offset) + !isSigned;
  int index = int(llvm::Log2_64(rank)) - !isSigned;
  SoftFloat value =
      index < numDecades ? getValue(Decade(isSigned, index), rank) : toReal(1);
  return offset < 0 ? value.neg() : value;
}
