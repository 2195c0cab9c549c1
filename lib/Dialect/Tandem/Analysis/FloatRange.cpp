//===- FloatRange.cpp - Ranges of float values ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the arithmetic of ranges. Rounding is monotonic, so that
// the rounded ends of an exact range are the ends of the rounded one; and a
// multiple of 2^q, rounded, is a multiple of 2^q or of the format's smallest
// positive number.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Analysis/FloatRange.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace mlir;
using namespace tandem;
using llvm::APFloat;

/// The quantum of zero, which is a multiple of everything.
static constexpr int quantumOfZero = 4096;

static APFloat largestOf(FloatType type) {
  return APFloat::getLargest(type.getFloatSemantics());
}

unsigned tandem::getPrecision(FloatType type) {
  return APFloat::semanticsPrecision(type.getFloatSemantics());
}
int tandem::getMinExponent(FloatType type) {
  return APFloat::semanticsMinExponent(type.getFloatSemantics());
}
int tandem::getMinQuantum(FloatType type) {
  return getMinExponent(type) - int(getPrecision(type)) + 1;
}

static bool hasInfinity(FloatType type) {
  return APFloat::semanticsHasInf(type.getFloatSemantics());
}

/// Returns a bound as a number of the type.
static APFloat toType(FloatType type, double value) {
  APFloat result(value);
  bool losesInfo = false;
  result.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return result;
}

static double toDouble(APFloat value) {
  bool losesInfo = false;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

FloatRange FloatRange::all(Type type) {
  FloatRange range;
  range.high = HUGE_VAL;
  range.quantum = -quantumOfZero;
  if (auto format = dyn_cast<FloatType>(type)) {
    if (!hasInfinity(format))
      range.high = toDouble(largestOf(format));
    range.quantum = getMinQuantum(format);
  }
  range.low = -range.high;
  range.mayBeNaN = true;
  return range;
}

FloatRange FloatRange::constant(const APFloat &value) {
  FloatRange range;
  range.mayBeNaN = value.isNaN();
  range.low = range.high = value.isNaN() ? 0.0 : toDouble(value);
  range.quantum = quantumOfZero;
  if (!value.isFiniteNonZero())
    return range;
  range.quantum = std::ilogb(range.low);
  while (std::ldexp(range.low, -range.quantum) !=
         std::nearbyint(std::ldexp(range.low, -range.quantum)))
    --range.quantum;
  return range;
}

FloatRange FloatRange::between(FloatType type, double low, double high,
                               int quantum) {
  FloatRange range;
  range.low = low;
  range.high = high;
  range.quantum = quantum;
  range.tighten(type);
  return range;
}

void FloatRange::tighten(FloatType type) {
  quantum = std::max(quantum, getMinQuantum(type));
  double least = minMagnitude();
  if (least > 0 && std::isfinite(least))
    quantum =
        std::max(quantum, std::ilogb(least) - int(getPrecision(type)) + 1);
}

void FloatRange::addTrail(const Trail &trail) {
  for (Trail &known : trails)
    if (known.lead == trail.lead && known.isUlp == trail.isUlp) {
      known.exponent = std::min(known.exponent, trail.exponent);
      return;
    }
  trails.push_back(trail);
}

bool FloatRange::mayBeInfinite() const {
  return std::isinf(low) || std::isinf(high);
}

double FloatRange::minMagnitude() const {
  return mayBeZero() ? 0.0 : std::min(std::abs(low), std::abs(high));
}

double FloatRange::maxMagnitude() const {
  return std::max(std::abs(low), std::abs(high));
}

FloatRange FloatRange::join(const FloatRange &a, const FloatRange &b) {
  if (a.isBottom())
    return b;
  if (b.isBottom())
    return a;
  FloatRange range = a;
  range.low = std::min(a.low, b.low);
  range.high = std::max(a.high, b.high);
  range.quantum = std::min(a.quantum, b.quantum);
  range.mayBeNaN |= b.mayBeNaN;
  range.trails.clear();
  for (const Trail &trail : a.trails)
    for (const Trail &other : b.trails)
      if (trail.lead == other.lead && trail.isUlp == other.isUlp)
        range.addTrail({trail.lead, std::max(trail.exponent, other.exponent),
                        trail.isUlp});
  return range;
}

bool FloatRange::operator==(const FloatRange &other) const {
  if (isBottom() || other.isBottom())
    return isBottom() == other.isBottom();
  return low == other.low && high == other.high && quantum == other.quantum &&
         mayBeNaN == other.mayBeNaN && trails == other.trails;
}

void FloatRange::print(llvm::raw_ostream &os) const {
  if (isBottom()) {
    os << "nothing";
    return;
  }
  os << "[" << low << ", " << high << "], multiple of 2^" << quantum;
  if (mayBeNaN)
    os << ", or NaN";
}

//===----------------------------------------------------------------------===//
// Rounded operations
//===----------------------------------------------------------------------===//

/// Returns the range that spans an operation's results at the corners of its
/// operands, or the full range if one of them is NaN.
static FloatRange fromCorners(FloatType type, ArrayRef<APFloat> corners,
                              int quantum, bool mayBeNaN) {
  FloatRange range;
  range.low = HUGE_VAL;
  range.high = -HUGE_VAL;
  for (const APFloat &corner : corners) {
    if (corner.isNaN())
      return FloatRange::all(type);
    range.low = std::min(range.low, toDouble(corner));
    range.high = std::max(range.high, toDouble(corner));
  }
  range = FloatRange::between(type, range.low, range.high, quantum);
  range.mayBeNaN = mayBeNaN;
  return range;
}

static bool haveOppositeInfinities(const FloatRange &a, const FloatRange &b) {
  return (a.high == HUGE_VAL && b.low == -HUGE_VAL) ||
         (a.low == -HUGE_VAL && b.high == HUGE_VAL);
}

static bool mayMultiplyZeroByInfinity(const FloatRange &a,
                                      const FloatRange &b) {
  return (a.mayBeZero() && b.mayBeInfinite()) ||
         (b.mayBeZero() && a.mayBeInfinite());
}

FloatRange FloatRange::add(FloatType type, const FloatRange &a,
                           const FloatRange &b) {
  return fromCorners(type,
                     {toType(type, a.low) + toType(type, b.low),
                      toType(type, a.high) + toType(type, b.high)},
                     std::min(a.quantum, b.quantum),
                     a.mayBeNaN || b.mayBeNaN || haveOppositeInfinities(a, b));
}

FloatRange FloatRange::multiply(FloatType type, const FloatRange &a,
                                const FloatRange &b) {
  SmallVector<APFloat, 4> corners;
  for (double x : {a.low, a.high})
    for (double y : {b.low, b.high})
      corners.push_back(toType(type, x) * toType(type, y));
  return fromCorners(type, corners, a.quantum + b.quantum,
                     a.mayBeNaN || b.mayBeNaN ||
                         mayMultiplyZeroByInfinity(a, b));
}

FloatRange FloatRange::square(FloatType type, const FloatRange &a) {
  APFloat least = toType(type, a.minMagnitude()),
          largest = toType(type, a.maxMagnitude());
  return fromCorners(type, {least * least, largest * largest}, 2 * a.quantum,
                     a.mayBeNaN);
}

FloatRange FloatRange::divide(FloatType type, const FloatRange &a,
                              const FloatRange &b) {
  // The sign of a zero divisor is not known.
  if (b.mayBeZero())
    return all(type);
  SmallVector<APFloat, 4> corners;
  for (double x : {a.low, a.high})
    for (double y : {b.low, b.high})
      corners.push_back(toType(type, x) / toType(type, y));
  return fromCorners(type, corners, getMinQuantum(type),
                     a.mayBeNaN || b.mayBeNaN ||
                         (a.mayBeInfinite() && b.mayBeInfinite()));
}

FloatRange FloatRange::fma(FloatType type, const FloatRange &a,
                           const FloatRange &b, const FloatRange &c) {
  SmallVector<APFloat, 8> corners;
  for (double x : {a.low, a.high})
    for (double y : {b.low, b.high})
      for (double z : {c.low, c.high}) {
        corners.push_back(toType(type, x));
        corners.back().fusedMultiplyAdd(toType(type, y), toType(type, z),
                                        APFloat::rmNearestTiesToEven);
      }
  // An infinite product may meet an infinite addend; their signs are not
  // distinguished.
  bool mayBeInfinite =
      a.mayBeInfinite() || b.mayBeInfinite() || c.mayBeInfinite();
  return fromCorners(type, corners, std::min(a.quantum + b.quantum, c.quantum),
                     a.mayBeNaN || b.mayBeNaN || c.mayBeNaN || mayBeInfinite);
}

/// The root is rounded to f64 first, which changes no root of a smaller format;
/// for f64 it is the root itself.
FloatRange FloatRange::sqrt(FloatType type, const FloatRange &a) {
  if (a.high < 0)
    return all(type);
  double low = std::max(a.low, 0.0);
  FloatRange range = fromCorners(
      type, {toType(type, std::sqrt(low)), toType(type, std::sqrt(a.high))},
      getMinQuantum(type), a.mayBeNaN || a.low < 0);
  // The root of the smallest positive number, 2^quantum, is the smallest root.
  int least = a.quantum >> 1;
  range.quantum = std::max(range.quantum, least - int(getPrecision(type)) + 1);
  return range;
}

FloatRange FloatRange::convert(FloatType type, const FloatRange &a) {
  return fromCorners(type, {toType(type, a.low), toType(type, a.high)},
                     a.quantum, a.mayBeNaN);
}

//===----------------------------------------------------------------------===//
// Exact operations
//===----------------------------------------------------------------------===//

FloatRange FloatRange::negate(const FloatRange &a) {
  FloatRange range = a;
  range.low = -a.high;
  range.high = -a.low;
  return range;
}

FloatRange FloatRange::magnitude(const FloatRange &a) {
  FloatRange range = a;
  range.low = a.minMagnitude();
  range.high = a.maxMagnitude();
  return range;
}

FloatRange FloatRange::maximum(const FloatRange &a, const FloatRange &b,
                               bool isNaNKept) {
  FloatRange range = join(a, b);
  range.mayBeNaN = isNaNKept ? range.mayBeNaN : a.mayBeNaN && b.mayBeNaN;
  range.low = std::max(a.low, b.low);
  // If one is NaN, the other one is the result.
  if (!isNaNKept && a.mayBeNaN)
    range.low = std::min(range.low, b.low);
  if (!isNaNKept && b.mayBeNaN)
    range.low = std::min(range.low, a.low);
  return range;
}

FloatRange FloatRange::minimum(const FloatRange &a, const FloatRange &b,
                               bool isNaNKept) {
  return negate(maximum(negate(a), negate(b), isNaNKept));
}

bool FloatRange::isSumFinite(FloatType type, const FloatRange &a,
                             const FloatRange &b) {
  double largest = toDouble(largestOf(type));
  APFloat sum = toType(type, std::min(a.maxMagnitude(), largest)) +
                toType(type, std::min(b.maxMagnitude(), largest));
  return sum.isFinite();
}
