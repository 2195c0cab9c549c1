//===- SoftFloat.cpp - Floating point in integer arithmetic ---------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements correctly rounded arithmetic over llvm::APFloat.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/SoftFloat/SoftFloat.h"

#include "llvm/ADT/APSInt.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ErrorHandling.h"

#include <atomic>
#include <cassert>
#include <memory>

using namespace tandem::reference;
using llvm::APFloat;
using llvm::APInt;
using llvm::APSInt;

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

const llvm::fltSemantics &tandem::reference::getSemantics(Format format) {
  switch (format) {
  case Format::BF16:
    return APFloat::BFloat();
  case Format::F16:
    return APFloat::IEEEhalf();
  case Format::F32:
    return APFloat::IEEEsingle();
  case Format::F64:
    return APFloat::IEEEdouble();
  case Format::F8E4M3FN:
    return APFloat::Float8E4M3FN();
  case Format::F8E5M2:
    return APFloat::Float8E5M2();
  }
  llvm_unreachable("every format is listed");
}

unsigned tandem::reference::getBitWidth(Format format) {
  return APFloat::semanticsSizeInBits(getSemantics(format));
}

unsigned tandem::reference::getPrecision(Format format) {
  return APFloat::semanticsPrecision(getSemantics(format));
}

llvm::StringRef tandem::reference::getName(Format format) {
  switch (format) {
  case Format::BF16:
    return "bf16";
  case Format::F16:
    return "f16";
  case Format::F32:
    return "f32";
  case Format::F64:
    return "f64";
  case Format::F8E4M3FN:
    return "f8E4M3FN";
  case Format::F8E5M2:
    return "f8E5M2";
  }
  llvm_unreachable("every format is listed");
}

std::optional<Format> tandem::reference::getFormatByName(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Format>>(name)
      .Case("bf16", Format::BF16)
      .Case("f16", Format::F16)
      .Case("f32", Format::F32)
      .Case("f64", Format::F64)
      .Case("f8E4M3FN", Format::F8E4M3FN)
      .Case("f8E5M2", Format::F8E5M2)
      .Default(std::nullopt);
}

uint64_t tandem::reference::getCanonicalNaNBits(Format format) {
  switch (format) {
  case Format::BF16:
  case Format::F16:
    return 0x7FFF;
  case Format::F32:
    return 0x7FFFFFFF;
  case Format::F64:
    return 0x7FF8000000000000;
  case Format::F8E4M3FN:
  case Format::F8E5M2:
    return 0x7F;
  }
  llvm_unreachable("every format is listed");
}

/// Returns the bits of the largest finite number. Infinity follows, if the
/// format has one.
static uint64_t getLargestBits(Format format) {
  switch (format) {
  case Format::BF16:
    return 0x7F7F;
  case Format::F16:
    return 0x7BFF;
  case Format::F32:
    return 0x7F7FFFFF;
  case Format::F64:
    return 0x7FEFFFFFFFFFFFFF;
  case Format::F8E4M3FN:
    return 0x7E;
  case Format::F8E5M2:
    return 0x7B;
  }
  llvm_unreachable("every format is listed");
}

/// Returns the index of the sign bit. It is a constant here, since every
/// operation needs it.
static unsigned getSignBit(Format format) {
  switch (format) {
  case Format::BF16:
  case Format::F16:
    return 15;
  case Format::F32:
    return 31;
  case Format::F64:
    return 63;
  case Format::F8E4M3FN:
  case Format::F8E5M2:
    return 7;
  }
  llvm_unreachable("every format is listed");
}

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

SoftFloat::SoftFloat(Format format, const APFloat &value)
    : SoftFloat(format, value.bitcastToAPInt().getZExtValue()) {
  assert(&value.getSemantics() == &getSemantics(format) &&
         "the value is of another format");
}

SoftFloat SoftFloat::fromBits(Format format, uint64_t bits) {
  uint64_t sign = uint64_t(1) << getSignBit(format);
  return SoftFloat(format, bits & (sign | (sign - 1)));
}

SoftFloat SoftFloat::fromDouble(Format format, double value) {
  return SoftFloat(Format::F64, APFloat(value)).convert(format);
}

SoftFloat SoftFloat::fromInteger(Format format, int64_t value, Rounding mode) {
  APFloat result(getSemantics(format));
  result.convertFromAPInt(APInt(64, value, /*isSigned=*/true),
                          /*IsSigned=*/true, mode);
  return SoftFloat(format, result).canonical();
}

SoftFloat SoftFloat::fromUnsigned(Format format, uint64_t value,
                                  Rounding mode) {
  APFloat result(getSemantics(format));
  result.convertFromAPInt(APInt(64, value), /*IsSigned=*/false, mode);
  return SoftFloat(format, result).canonical();
}

SoftFloat SoftFloat::getNaN(Format format) {
  return fromBits(format, getCanonicalNaNBits(format));
}

SoftFloat SoftFloat::getInf(Format format, bool negative) {
  if (!APFloat::semanticsHasInf(getSemantics(format)))
    return getNaN(format);
  return SoftFloat(format, APFloat::getInf(getSemantics(format), negative));
}

SoftFloat SoftFloat::getLargest(Format format, bool negative) {
  return SoftFloat(format, APFloat::getLargest(getSemantics(format), negative));
}

SoftFloat SoftFloat::getSmallest(Format format, bool negative) {
  return SoftFloat(format,
                   APFloat::getSmallest(getSemantics(format), negative));
}

SoftFloat SoftFloat::getZero(Format format, bool negative) {
  return SoftFloat(format, APFloat::getZero(getSemantics(format), negative));
}

//===----------------------------------------------------------------------===//
// Reading and converting
//===----------------------------------------------------------------------===//

APFloat SoftFloat::getAPFloat() const {
  return APFloat(getSemantics(format), APInt(getSignBit(format) + 1, bits));
}

uint64_t SoftFloat::getMagnitude() const {
  return bits & ((uint64_t(1) << getSignBit(format)) - 1);
}

bool SoftFloat::isFinite() const {
  return getMagnitude() <= getLargestBits(format);
}

bool SoftFloat::isInf() const {
  return getMagnitude() == getLargestBits(format) + 1 &&
         format != Format::F8E4M3FN;
}

bool SoftFloat::isDenormal() const {
  unsigned mantissaBits = getPrecision(format) - 1;
  return !isZero() && getMagnitude() >> mantissaBits == 0;
}

uint64_t SoftFloat::toCanonicalBits() const {
  return isNaN() ? getCanonicalNaNBits(format) : toBits();
}

double SoftFloat::toDouble() const {
  if (isNaN())
    return APFloat::getNaN(APFloat::IEEEdouble()).convertToDouble();
  return convert(Format::F64).getAPFloat().convertToDouble();
}

SoftFloat SoftFloat::convert(Format to, Rounding mode,
                             Overflow overflow) const {
  if (isNaN())
    return getNaN(to);
  if (isInf())
    return overflow == Overflow::SaturateAll ? getLargest(to, isNegative())
                                             : getInf(to, isNegative());
  APFloat result = getAPFloat();
  bool losesInfo;
  result.convert(getSemantics(to), mode, &losesInfo);
  SoftFloat converted = SoftFloat(to, result).canonical();
  if (overflow != Overflow::Infinity && !converted.isFinite())
    return getLargest(to, isNegative());
  return converted;
}

std::optional<uint64_t> SoftFloat::toInteger(unsigned width, bool isSigned,
                                             Rounding mode) const {
  if (isNaN())
    return std::nullopt;
  // APFloat clamps numbers that do not fit to the nearest bound of the range.
  APSInt result(width, /*isUnsigned=*/!isSigned);
  bool isExact;
  getAPFloat().convertToInteger(result, mode, &isExact);
  return result.getZExtValue();
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static bool isByte(Format format) {
  return format == Format::F8E4M3FN || format == Format::F8E5M2;
}

/// Returns the index in the tables of an 8-bit format.
static unsigned getByteIndex(Format format) { return format == Format::F8E5M2; }

SoftFloat SoftFloat::compute(Arithmetic operation, const SoftFloat &other,
                             Rounding mode) const {
  APFloat result = getAPFloat(), operand = other.getAPFloat();
  switch (operation) {
  case Arithmetic::Add:
    result.add(operand, mode);
    break;
  case Arithmetic::Sub:
    result.subtract(operand, mode);
    break;
  case Arithmetic::Mul:
    result.multiply(operand, mode);
    break;
  case Arithmetic::Div:
    result.divide(operand, mode);
    break;
  }
  return SoftFloat(format, result).canonical();
}

/// The codes of 8-bit results for each pair of operands' codes.
struct SoftFloat::Tables {
  Tables() {
    for (Format format : {Format::F8E4M3FN, Format::F8E5M2})
      for (Arithmetic operation :
           {Arithmetic::Add, Arithmetic::Sub, Arithmetic::Mul, Arithmetic::Div})
        for (unsigned pair = 0; pair < 0x10000; ++pair)
          codes[getByteIndex(format)][unsigned(operation)][pair] =
              fromBits(format, pair >> 8)
                  .compute(operation, fromBits(format, pair), kNearest)
                  .toBits();
  }

  uint8_t codes[2][4][0x10000];
};

SoftFloat SoftFloat::apply(Arithmetic operation, const SoftFloat &other,
                           Rounding mode) const {
  if (!isByte(format) || mode != kNearest)
    return compute(operation, other, mode);
  static const Tables tables;
  const uint8_t *codes =
      tables.codes[getByteIndex(format)][unsigned(operation)];
  return SoftFloat(format, uint64_t(codes[bits << 8 | other.bits]));
}

SoftFloat SoftFloat::add(const SoftFloat &other, Rounding mode) const {
  return apply(Arithmetic::Add, other, mode);
}

SoftFloat SoftFloat::sub(const SoftFloat &other, Rounding mode) const {
  return apply(Arithmetic::Sub, other, mode);
}

SoftFloat SoftFloat::mul(const SoftFloat &other, Rounding mode) const {
  return apply(Arithmetic::Mul, other, mode);
}

SoftFloat SoftFloat::div(const SoftFloat &other, Rounding mode) const {
  return apply(Arithmetic::Div, other, mode);
}

SoftFloat SoftFloat::computeFma(const SoftFloat &factor,
                                const SoftFloat &addend, Rounding mode) const {
  APFloat result = getAPFloat();
  result.fusedMultiplyAdd(factor.getAPFloat(), addend.getAPFloat(), mode);
  return SoftFloat(format, result).canonical();
}

/// Returns the 8-bit results of 2^24 triples of operands, which are computed
/// when they are first needed. They are complemented, so that 0 is a missing
/// result: no arithmetic returns the NaN 0xFF.
static std::atomic<uint8_t> *getFmaTable(Format format) {
  using Table = std::unique_ptr<std::atomic<uint8_t>[]>;
  constexpr size_t kTriples = size_t(1) << 24;
  static const Table tables[2] = {Table(new std::atomic<uint8_t>[kTriples]()),
                                  Table(new std::atomic<uint8_t>[kTriples]())};
  return tables[getByteIndex(format)].get();
}

SoftFloat SoftFloat::fma(const SoftFloat &factor, const SoftFloat &addend,
                         Rounding mode) const {
  if (!isByte(format) || mode != kNearest)
    return computeFma(factor, addend, mode);
  std::atomic<uint8_t> &known =
      getFmaTable(format)[bits << 16 | factor.bits << 8 | addend.bits];
  uint8_t code = ~known.load(std::memory_order_relaxed);
  if (code == 0xFF) {
    code = computeFma(factor, addend, mode).toBits();
    known.store(~code, std::memory_order_relaxed);
  }
  return SoftFloat(format, uint64_t(code));
}

SoftFloat SoftFloat::neg() const {
  return SoftFloat(format, bits ^ (uint64_t(1) << getSignBit(format)));
}

SoftFloat SoftFloat::abs() const { return isNegative() ? neg() : *this; }

SoftFloat SoftFloat::copySign(const SoftFloat &sign) const {
  return isNegative() == sign.isNegative() ? *this : neg();
}

SoftFloat SoftFloat::roundToIntegral(Rounding mode) const {
  APFloat result = getAPFloat();
  result.roundToIntegral(mode);
  return SoftFloat(format, result).canonical();
}

SoftFloat SoftFloat::scaleByPowerOfTwo(int exponent) const {
  if (!isFinite())
    return canonical();
  return SoftFloat(format, llvm::scalbn(getAPFloat(), exponent, kNearest))
      .canonical();
}

/// Returns the largest integer whose square is at most `radicand`, computed bit
/// by bit.
static uint64_t integerSquareRoot(unsigned __int128 radicand) {
  uint64_t root = 0;
  for (int bit = 62; bit >= 0; --bit) {
    uint64_t trial = root | (uint64_t(1) << bit);
    if (static_cast<unsigned __int128>(trial) * trial <= radicand)
      root = trial;
  }
  return root;
}

SoftFloat SoftFloat::sqrt(Rounding mode) const {
  if (isNaN() || (isNegative() && !isZero()))
    return getNaN(format);
  if (isZero() || isInf())
    return *this;

  // |value| = significand * 2^exponent with an even exponent and a significand
  // of 119 or 120 bits, so that its root has 60 bits, more than any
  // precision + 2.
  constexpr int kRadicandBits = 118;
  APFloat value = getAPFloat();
  int exponent = llvm::ilogb(value) - kRadicandBits;
  exponent -= exponent & 1;
  bool isExact;
  APSInt significand(128, /*isUnsigned=*/true);
  APFloat wide = value;
  bool losesInfo;
  wide.convert(APFloat::IEEEquad(), kNearest, &losesInfo);
  llvm::scalbn(wide, -exponent, kNearest)
      .convertToInteger(significand, Rounding::TowardZero, &isExact);
  unsigned __int128 radicand = significand.getRawData()[1];
  radicand = (radicand << 64) | significand.getRawData()[0];

  // An inexact root has a sticky bit, so that it is rounded only once.
  uint64_t root = integerSquareRoot(radicand);
  bool sticky = static_cast<unsigned __int128>(root) * root != radicand;
  APFloat result(APFloat::IEEEquad());
  result.convertFromAPInt(APInt(64, (root << 1) | uint64_t(sticky)),
                          /*IsSigned=*/false, kNearest);
  result = llvm::scalbn(result, exponent / 2 - 1, kNearest);
  result.convert(getSemantics(format), mode, &losesInfo);
  return SoftFloat(format, result);
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

Ordering SoftFloat::compare(const SoftFloat &other) const {
  if (isNaN() || other.isNaN())
    return Ordering::Unordered;
  int64_t left = getMagnitude(), right = other.getMagnitude();
  left = isNegative() ? -left : left;
  right = other.isNegative() ? -right : right;
  return left < right    ? Ordering::Less
         : left == right ? Ordering::Equal
                         : Ordering::Greater;
}

bool SoftFloat::totallyLess(const SoftFloat &other) const {
  if (isZero() && other.isZero())
    return isNegative() && !other.isNegative();
  return compare(other) == Ordering::Less;
}

SoftFloat SoftFloat::minimum(const SoftFloat &other) const {
  if (isNaN() || other.isNaN())
    return getNaN(format);
  return other.totallyLess(*this) ? other : *this;
}

SoftFloat SoftFloat::maximum(const SoftFloat &other) const {
  if (isNaN() || other.isNaN())
    return getNaN(format);
  return totallyLess(other) ? other : *this;
}

SoftFloat SoftFloat::minNum(const SoftFloat &other) const {
  if (isNaN())
    return other.canonical();
  return other.isNaN() ? *this : minimum(other);
}

SoftFloat SoftFloat::maxNum(const SoftFloat &other) const {
  if (isNaN())
    return other.canonical();
  return other.isNaN() ? *this : maximum(other);
}
