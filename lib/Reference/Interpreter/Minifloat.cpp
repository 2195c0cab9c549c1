//===- Minifloat.cpp - Small floats of any widths -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the small floats of docs/Numerics.md: a magnitude is
// rounded to one of the two codes around it.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Codes.h"

#include <algorithm>

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

/// Returns x * 2^exponent. All uses are exact.
static SoftFloat shift(const SoftFloat &x, int exponent) {
  return x.convert(Format::F64).scaleByPowerOfTwo(exponent);
}

static SoftFloat getMagnitude(const Minifloat &format, uint64_t code) {
  uint64_t field = code >> format.mantissa;
  uint64_t digits = code & ((uint64_t(1) << format.mantissa) - 1);
  if (field != 0)
    digits |= uint64_t(1) << format.mantissa;
  int exponent = std::max<int>(field, 1) - format.bias - int(format.mantissa);
  return shift(SoftFloat::fromUnsigned(Format::F64, digits), exponent);
}

/// Returns the code of the largest number.
static uint64_t getLargestCode(const Minifloat &format) {
  switch (format.specials) {
  case Specials::ieee:
    return format.getInfinity() - 1;
  case Specials::nan:
    return format.getSign() - 2;
  case Specials::negative_zero:
  case Specials::none:
    return format.getSign() - 1;
  }
  llvm_unreachable("every kind of special codes is handled above");
}

SoftFloat reference::getLargest(const Minifloat &format) {
  SoftFloat largest = getMagnitude(format, getLargestCode(format));
  if (format.most) {
    SoftFloat ones = toReal(2).sub(powerOfTwo(-int(format.mantissa)));
    largest = largest.minimum(shift(ones, *format.most));
  }
  return largest.convert(Format::F32);
}

/// Returns the largest code whose number does not exceed a positive magnitude.
static uint64_t truncate(const Minifloat &format, const SoftFloat &magnitude) {
  int lowest = 1 - format.bias;
  int exponent = std::max(floorLog2(magnitude), lowest);
  SoftFloat digits = shift(magnitude, int(format.mantissa) - exponent);
  uint64_t whole = *digits.toInteger(64, /*isSigned=*/false,
                                     SoftFloat::Rounding::TowardZero);
  // The leading digit of a normal number adds one to the exponent field.
  return (uint64_t(exponent - lowest) << format.mantissa) + whole;
}

/// Returns whether a magnitude is rounded to the next larger code.
static bool isUp(const Minifloat &format, const SoftFloat &magnitude,
                 uint64_t code, uint16_t random) {
  SoftFloat low = getMagnitude(format, code);
  SoftFloat left = magnitude.convert(Format::F64).sub(low);
  SoftFloat ulp = getMagnitude(format, code + 1).sub(low);
  SoftFloat fraction = left.div(ulp);
  if (drawsBits(format.rounding))
    return roundsUp(fraction, format.rounding, random);
  if (format.rounding == RoundingMode::toward_zero)
    return false;
  Ordering order = fraction.compare(SoftFloat::fromDouble(Format::F64, 0.5));
  return order == Ordering::Greater ||
         (order == Ordering::Equal && code % 2 == 1);
}

static uint64_t encodeMagnitude(const Minifloat &format, const SoftFloat &y,
                                uint16_t random) {
  if (y.isZero())
    return 0;
  SoftFloat magnitude = y.abs().minimum(getLargest(format));
  if (format.least)
    magnitude = magnitude.maximum(powerOfTwo(*format.least));
  uint64_t code = truncate(format, magnitude);
  // There is no code above the largest, and numbers with a code have no
  // fraction.
  SoftFloat low = getMagnitude(format, code);
  if (low.compare(magnitude.convert(Format::F64)) == Ordering::Equal)
    return code;
  return code + isUp(format, magnitude, code, random);
}

static uint64_t getNaN(const Minifloat &format) {
  switch (format.specials) {
  case Specials::ieee:
  case Specials::nan:
    return format.getSign() - 1;
  case Specials::negative_zero:
    return format.getSign();
  case Specials::none:
    return encodeMagnitude(format, getLargest(format), 0);
  }
  llvm_unreachable("every kind of special codes is handled above");
}

uint64_t reference::encodeMinifloat(const Minifloat &format, const SoftFloat &y,
                                    bool isFinite, uint16_t random) {
  bool hasInfinity = format.specials == Specials::ieee;
  bool isNumber = isFinite || format.specials == Specials::none;
  if (y.isNaN() || (!isNumber && !hasInfinity))
    return getNaN(format);
  uint64_t code =
      isNumber ? encodeMagnitude(format, y, random) : format.getInfinity();
  if (code == 0 && format.specials == Specials::negative_zero)
    return code;
  return y.isNegative() ? code | format.getSign() : code;
}

SoftFloat reference::decodeMinifloat(const Minifloat &format, uint64_t bits) {
  uint64_t sign = bits & format.getSign();
  uint64_t code = bits & (format.getSign() - 1);
  bool isInfinity =
      format.specials == Specials::ieee && code == format.getInfinity();
  if (isInfinity)
    return SoftFloat::getInf(Format::F32, sign != 0);
  bool isMinusZero = sign != 0 && code == 0;
  if (code > getLargestCode(format) ||
      (isMinusZero && format.specials == Specials::negative_zero))
    return SoftFloat::getNaN(Format::F32);
  SoftFloat value = getMagnitude(format, code).convert(Format::F32);
  return sign != 0 ? value.neg() : value;
}
