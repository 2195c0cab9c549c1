//===- Codes.cpp - Numbers of a few bits ----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the codes of scaled values from the specification.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Codes.h"

#include <algorithm>

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;
using namespace tandem::scaled;

SoftFloat reference::toReal(double value) {
  return SoftFloat::fromDouble(Format::F32, value);
}

SoftFloat reference::toQuotient(double numerator, double denominator) {
  return SoftFloat::fromDouble(Format::F64, numerator)
      .div(SoftFloat::fromDouble(Format::F64, denominator))
      .convert(Format::F32);
}

SoftFloat reference::powerOfTwo(int exponent) {
  return toReal(1).scaleByPowerOfTwo(exponent);
}

int reference::floorLog2(const SoftFloat &x) {
  return llvm::ilogb(x.getAPFloat());
}

bool reference::isLess(const SoftFloat &a, const SoftFloat &b) {
  return a.compare(b) == Ordering::Less;
}

SoftFloat reference::clamp(const SoftFloat &x, const SoftFloat &low,
                           const SoftFloat &high) {
  return isLess(x, low) ? low : isLess(high, x) ? high : x;
}

//===----------------------------------------------------------------------===//
// Logarithm and power of two
//===----------------------------------------------------------------------===//

/// The coefficients in docs/Numerics.md, beginning with that of f^0.
static constexpr uint32_t log2Coefficients[] = {
    0x3FB8AA3B, 0xBF38AA38, 0x3EF639EB, 0xBEB8AE27, 0x3E9369C1,
    0xBE74AE05, 0x3E5CE4B1, 0xBE543E17, 0x3E00DA81};
static constexpr uint32_t exp2Coefficients[] = {
    0x3F800000, 0x3F317218, 0x3E75FDEC, 0x3D6357BB,
    0x3C1D9850, 0x3AAF85C1, 0x391FD104};

/// Evaluates c0 + f * (c1 + f * (...)) with an fma in each step.
static SoftFloat evaluatePolynomial(ArrayRef<uint32_t> coefficients,
                                    const SoftFloat &f) {
  auto sum = SoftFloat::fromBits(Format::F32, coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;)
    sum = sum.fma(f, SoftFloat::fromBits(Format::F32, coefficients[i]));
  return sum;
}

SoftFloat reference::log2(const SoftFloat &x) {
  int64_t bits = x.toBits();
  // Right shifts round negative numbers down.
  int64_t exponent = (bits - 0x3F3504F3) >> 23;
  auto m = SoftFloat::fromBits(Format::F32, bits - exponent * (1 << 23));
  SoftFloat f = m.sub(toReal(1));
  return toReal(exponent).add(f.mul(evaluatePolynomial(log2Coefficients, f)));
}

SoftFloat reference::exp2(const SoftFloat &number) {
  SoftFloat x = number.maxNum(toReal(-100));
  SoftFloat n = x.roundToIntegral(SoftFloat::kNearest);
  SoftFloat mantissa = evaluatePolynomial(exp2Coefficients, x.sub(n));
  return mantissa.scaleByPowerOfTwo(int(n.toDouble()));
}

//===----------------------------------------------------------------------===//
// Codes of scaled values
//===----------------------------------------------------------------------===//

llvm::Error reference::checkKnown(CodeAttrInterface code) {
  if (auto expanded = dyn_cast<ExpandedCodeAttr>(code))
    return checkKnown(expanded.getCode());
  if (isa<FloatCodeAttr, PairCodeAttr, MinifloatCodeAttr, DynamicCodeAttr,
          SoftsignCodeAttr, LinearCodeAttr, RootCodeAttr, MuLawCodeAttr>(code))
    return llvm::Error::success();
  return makeError("the interpreter does not know the code " + describe(code));
}

static bool isSigned(DynamicCodeAttr code) {
  return code.getSignedness() == Signedness::Signed;
}
static bool isSigned(MuLawCodeAttr code) {
  return code.getSignedness() == Signedness::Signed;
}

static Minifloat getMinifloat(MinifloatCodeAttr code) {
  Minifloat format{unsigned(code.getExponent()),
                   unsigned(code.getMantissa()),
                   int(code.getBias()),
                   code.getSpecials(),
                   code.getRounding(),
                   std::nullopt,
                   std::nullopt};
  if (auto exponents = code.getExponents()) {
    // Subnormal numbers remain below the format's own smallest exponent.
    if (exponents->least != 1 - format.bias)
      format.least = exponents->least;
    format.most = exponents->most;
  }
  return format;
}

static SoftFloat getLargestOf(Type format) {
  return SoftFloat::getLargest(*getFormat(format)).convert(Format::F32);
}

/// The bits of 2, and the distance between two codes in ulps of 2 + |y|.
static constexpr int64_t bitsOfTwo = 0x40000000;
static int64_t getStepMuLaw(MuLawCodeAttr code) {
  if (code.getBits() == 4)
    return isSigned(code) ? 1 << 22 : 1 << 23;
  return isSigned(code) ? 197379 : 372827;
}
/// Returns how many steps of distance code 0 stands for.
static int64_t getFirstMuLaw(MuLawCodeAttr code) {
  return code.getBits() == 4 && !isSigned(code);
}
static uint64_t getLargestMuLaw(MuLawCodeAttr code) {
  return llvm::maskTrailingOnes<uint64_t>(code.getBits() - isSigned(code));
}

static SoftFloat decodeMuLaw(MuLawCodeAttr code, uint64_t bits) {
  int64_t q = (bits & getLargestMuLaw(code)) + getFirstMuLaw(code);
  auto sum =
      SoftFloat::fromBits(Format::F32, bitsOfTwo + q * getStepMuLaw(code));
  SoftFloat number = sum.sub(toReal(2));
  return bits > getLargestMuLaw(code) ? number.neg() : number;
}

static int64_t getLargestLinear(LinearCodeAttr code) {
  return (1 << (code.getBits() - 1)) - 1;
}

SoftFloat reference::getLargest(CodeAttrInterface code) {
  if (auto plain = dyn_cast<FloatCodeAttr>(code))
    return getLargestOf(plain.getFormat());
  if (auto pair = dyn_cast<PairCodeAttr>(code))
    return getLargestOf(pair.getFormat());
  if (auto minifloat = dyn_cast<MinifloatCodeAttr>(code))
    return getLargest(getMinifloat(minifloat));
  if (auto mulaw = dyn_cast<MuLawCodeAttr>(code))
    return decodeMuLaw(mulaw, getLargestMuLaw(mulaw));
  if (auto linear = dyn_cast<LinearCodeAttr>(code))
    return toReal(getLargestLinear(linear));
  return toReal(1);
}

SoftFloat reference::prepare(CodeAttrInterface code, const SoftFloat &value) {
  return isa<RootCodeAttr>(code) ? value.sqrt() : value;
}

SoftFloat reference::measure(CodeAttrInterface code, const SoftFloat &value) {
  if (auto dynamic = dyn_cast<DynamicCodeAttr>(code))
    return measureDynamic(isSigned(dynamic), value);
  // A value without a code has a greater magnitude than every number.
  auto mulaw = dyn_cast<MuLawCodeAttr>(code);
  if (mulaw &&
      (!value.isFinite() || (!isSigned(mulaw) && isLess(value, toReal(0)))))
    return SoftFloat::getInf(Format::F32);
  return prepare(code, value).abs();
}

SoftFloat reference::finish(CodeAttrInterface code, const SoftFloat &value) {
  return isa<RootCodeAttr>(code) ? value.mul(value) : value;
}

/// Rounds to a format. A finite value saturates at the largest number.
static SoftFloat roundTo(Format format, const SoftFloat &y, bool isFinite) {
  if (isFinite && y.isInf())
    return SoftFloat::getLargest(format, y.isNegative());
  return y.convertSaturating(format);
}

/// Returns the bits of one of the two numbers around y.
static uint64_t encodeFloat(Format format, RoundingMode rounding,
                            const SoftFloat &y, bool isFinite,
                            uint16_t random) {
  if (rounding == RoundingMode::nearest || !isFinite)
    return roundTo(format, y, isFinite).toCanonicalBits();
  SoftFloat largest = SoftFloat::getLargest(format).convert(Format::F32);
  SoftFloat clamped = y.abs().minNum(largest).copySign(y);
  uint16_t bits = orientBits(rounding, y, random);
  return roundByBits(clamped, format, rounding, bits).toCanonicalBits();
}

static Codes encodePair(PairCodeAttr code, const SoftFloat &number,
                        bool isFinite, CodeContext context) {
  Format format = *getFormat(code.getFormat());
  SoftFloat least = SoftFloat::getSmallest(format).convert(Format::F32);
  SoftFloat y = context.isFloored ? number.maximum(least) : number;
  SoftFloat high = roundTo(format, y, isFinite), rest(Format::F32);
  if (high.isFinite())
    rest = y.sub(high.convert(Format::F32));
  uint64_t low =
      encodeFloat(format, code.getRounding(), rest, true, context.random);
  return {high.toCanonicalBits(), low};
}

/// Returns the largest magnitude of the numbers with a sign.
static SoftFloat getLargestOfSign(CodeAttrInterface code, bool isNegative) {
  auto dynamic = dyn_cast<DynamicCodeAttr>(code);
  return dynamic && isNegative ? getLargestNegative() : getLargest(code);
}

/// Encodes L * |y|^(exponent / 8), with the sign of y, in the base code.
static Codes encodeExpanded(ExpandedCodeAttr code, const SoftFloat &y,
                            bool isFinite, CodeContext context) {
  CodeAttrInterface base = code.getCode();
  if (!isFinite || y.isZero())
    return encode(base, y, isFinite, context);
  SoftFloat fraction = y.abs().minNum(toReal(1));
  SoftFloat power = exp2(toReal(context.exponent / 8.0).mul(log2(fraction)));
  SoftFloat largest = getLargestOfSign(base, y.isNegative());
  return encode(base, largest.mul(power).copySign(y), isFinite, context);
}

/// Encodes 127 * (2z / (1 + |z|)), where z is y clamped to [-1, 1].
static uint64_t encodeSoftsign(RoundingMode rounding, const SoftFloat &y,
                               uint16_t random) {
  SoftFloat z = clamp(y, toReal(-1), toReal(1));
  SoftFloat companded = toReal(2).mul(z).div(toReal(1).add(z.abs()));
  SoftFloat level = toReal(127).mul(companded);
  if (rounding == RoundingMode::nearest)
    return level.toInteger(8, /*isSigned=*/true, SoftFloat::kNearest)
        .value_or(0x80);
  uint64_t magnitude = roundLevel(level.abs(), orientBits(rounding, y, random));
  return Integer(8, y.isNegative() ? -magnitude : magnitude).bits;
}

/// Encodes y, clamped to the largest integers, as an integer.
static uint64_t encodeLinear(LinearCodeAttr code, const SoftFloat &y,
                             bool isFinite, uint16_t random) {
  unsigned bits = code.getBits();
  uint64_t mask = llvm::maskTrailingOnes<uint64_t>(bits);
  if (!isFinite)
    return uint64_t(1) << (bits - 1);
  SoftFloat largest = toReal(getLargestLinear(code));
  SoftFloat level = clamp(y, largest.neg(), largest);
  if (code.getRounding() == RoundingMode::nearest)
    return *level.toInteger(64, /*isSigned=*/true, SoftFloat::kNearest) & mask;
  uint64_t magnitude =
      roundLevel(level.abs(), orientBits(code.getRounding(), y, random));
  return (y.isNegative() ? -magnitude : magnitude) & mask;
}

static uint64_t encodeRoot(RoundingMode rounding, const SoftFloat &y,
                           uint16_t random) {
  SoftFloat level = toReal(254).mul(clamp(y, toReal(0), toReal(1)));
  if (rounding != RoundingMode::nearest)
    return roundLevel(level, random);
  return level.toInteger(8, /*isSigned=*/false, SoftFloat::kNearest)
      .value_or(0xFF);
}

SoftFloat reference::scaleValue(CodeAttrInterface code, const SoftFloat &value,
                                const SoftFloat &inverse) {
  if (!isa<MuLawCodeAttr>(code))
    return value.mul(inverse);
  return value.abs().fma(inverse, toReal(2)).copySign(value);
}

SoftFloat reference::unscale(CodeAttrInterface code, const SoftFloat &number,
                             const SoftFloat &scale) {
  if (!isa<MuLawCodeAttr>(code))
    return number.mul(scale);
  SoftFloat sum = number.abs().add(toReal(2));
  SoftFloat read = sum.fma(scale, scale.mul(toReal(-2)));
  return number.isNegative() ? read.abs().neg() : read;
}

/// Encodes a sum of magnitude 2 + d, where d is in units in the last place.
/// Returns the largest q with q * D <= d + r * D for the random fraction r,
/// where D is the distance between two codes. 1 / D is approximated by a
/// multiple of 2^-24. A code without zero adds f(1 - f)/4 to a fraction f.
static uint64_t encodeMuLaw(MuLawCodeAttr code, const SoftFloat &sum,
                            uint16_t random) {
  int64_t step = getStepMuLaw(code), first = getFirstMuLaw(code);
  int64_t largest = getLargestMuLaw(code);
  int64_t distance = sum.abs().toBits() - bitsOfTwo;
  distance = std::clamp(distance, first * step, (largest + first) * step);
  uint16_t bits = code.getRounding() == RoundingMode::nearest ? 0x8000 : random;
  int64_t unit = int64_t(1) << (32 - code.getBits());
  // Where the factor is not exact, all bits below the random ones make up for
  // it.
  int64_t factor = unit / step, draw = unit >> 16;
  int64_t makeUp = factor * step == unit ? 0 : draw - 1;
  double f = double(distance & 0x7FFFFF) / 0x1p23;
  int64_t tilt = first ? int64_t(std::nearbyint(0x1p14 * f * (1 - f))) : 0;
  int64_t q =
      (distance * factor + makeUp + draw * (bits + tilt)) / unit - first;
  return isSigned(code) && sum.isNegative() ? q | (largest + 1) : q;
}

static uint64_t encodeDynamic(DynamicCodeAttr code, const SoftFloat &y,
                              bool isFinite, uint16_t random) {
  if (code.getRounding() == RoundingMode::nearest)
    return encodeDynamic(isSigned(code), y, isFinite);
  return encodeDynamicByBits(isSigned(code), y, isFinite,
                             orientBits(code.getRounding(), y, random));
}

/// Encodes a value in a code with one plane, without a floor.
static uint64_t encodeOne(CodeAttrInterface code, const SoftFloat &y,
                          bool isFinite, CodeContext context) {
  if (auto plain = dyn_cast<FloatCodeAttr>(code))
    return encodeFloat(*getFormat(plain.getFormat()), plain.getRounding(), y,
                       isFinite, context.random);
  if (auto minifloat = dyn_cast<MinifloatCodeAttr>(code))
    return encodeMinifloat(
        getMinifloat(minifloat), y, isFinite,
        orientBits(minifloat.getRounding(), y, context.random));
  if (auto dynamic = dyn_cast<DynamicCodeAttr>(code))
    return encodeDynamic(dynamic, y, isFinite, context.random);
  if (auto mulaw = dyn_cast<MuLawCodeAttr>(code))
    return encodeMuLaw(mulaw, y, context.random);
  if (auto linear = dyn_cast<LinearCodeAttr>(code))
    return encodeLinear(linear, y, isFinite, context.random);
  if (isa<SoftsignCodeAttr>(code))
    return isFinite ? encodeSoftsign(code.getRounding(), y, context.random)
                    : 0x80;
  return isFinite ? encodeRoot(code.getRounding(), y, context.random) : 0xFF;
}

Codes reference::encode(CodeAttrInterface code, const SoftFloat &y,
                        bool isFinite, CodeContext context) {
  if (auto pair = dyn_cast<PairCodeAttr>(code))
    return encodePair(pair, y, isFinite, context);
  if (auto expanded = dyn_cast<ExpandedCodeAttr>(code))
    return encodeExpanded(expanded, y, isFinite, context);
  if (!isFinite && isa<MuLawCodeAttr>(code))
    return {0};
  uint64_t bits = encodeOne(code, y, isFinite, context);
  auto minifloat = dyn_cast<MinifloatCodeAttr>(code);
  if (context.isFloored && bits == 0 && minifloat)
    if (std::optional<int> least = getMinifloat(minifloat).least)
      return {encodeOne(code, powerOfTwo(*least), isFinite, context)};
  auto dynamic = dyn_cast<DynamicCodeAttr>(code);
  uint64_t zero = dynamic && isSigned(dynamic) ? 127 : 0;
  if (!code.hasZero())
    return {bits};
  return {context.isFloored && bits == zero ? zero + 1 : bits};
}

uint64_t reference::roundLevel(const SoftFloat &level, uint16_t random) {
  SoftFloat rounded = level.fma(powerOfTwo(16), toReal(0.5));
  uint64_t units = *rounded.toInteger(64, /*isSigned=*/false,
                                      SoftFloat::Rounding::TowardZero);
  return (units + random) >> 16;
}

/// Decodes (|code| / L)^(8 / exponent) with the sign of the code.
static SoftFloat decodeExpanded(ExpandedCodeAttr code, ArrayRef<uint64_t> codes,
                                unsigned exponent) {
  CodeAttrInterface base = code.getCode();
  SoftFloat value = decode(base, codes, {});
  if (value.isZero() || !value.isFinite())
    return value;
  SoftFloat largest = getLargestOfSign(base, value.isNegative());
  SoftFloat difference = log2(value.abs()).sub(log2(largest));
  SoftFloat inverse = toReal(8).div(toReal(exponent));
  return exp2(difference.mul(inverse)).copySign(value);
}

/// Decodes w / (2 - |w|) with w = code / 127.
static SoftFloat decodeSoftsign(uint64_t code) {
  if (code == 0x80)
    return SoftFloat::getNaN(Format::F32);
  int64_t integer = Integer(8, code).getSigned();
  SoftFloat w = SoftFloat::fromInteger(Format::F32, integer).div(toReal(127));
  return w.div(toReal(2).sub(w.abs()));
}

static SoftFloat decodeLinear(LinearCodeAttr code, uint64_t bits) {
  int64_t number = Integer(code.getBits(), bits).getSigned();
  if (number < -getLargestLinear(code))
    return SoftFloat::getNaN(Format::F32);
  return SoftFloat::fromInteger(Format::F32, number);
}

static SoftFloat decodeRoot(uint64_t code) {
  if (code == 0xFF)
    return SoftFloat::getNaN(Format::F32);
  return SoftFloat::fromUnsigned(Format::F32, code).div(toReal(254));
}

/// Returns the float, or the sum of two floats, with the given bits.
static SoftFloat decodeFloats(Format format, ArrayRef<uint64_t> codes) {
  Components parts;
  for (uint64_t bits : codes)
    parts.push_back(SoftFloat::fromBits(format, bits));
  return sumComponents(parts, Format::F32);
}

SoftFloat reference::decode(CodeAttrInterface code, ArrayRef<uint64_t> codes,
                            CodeContext context) {
  if (auto plain = dyn_cast<FloatCodeAttr>(code))
    return decodeFloats(*getFormat(plain.getFormat()), codes);
  if (auto pair = dyn_cast<PairCodeAttr>(code))
    return decodeFloats(*getFormat(pair.getFormat()), codes);
  if (auto minifloat = dyn_cast<MinifloatCodeAttr>(code))
    return decodeMinifloat(getMinifloat(minifloat), codes[0]);
  if (auto expanded = dyn_cast<ExpandedCodeAttr>(code))
    return decodeExpanded(expanded, codes, context.exponent);
  if (auto dynamic = dyn_cast<DynamicCodeAttr>(code))
    return decodeDynamic(isSigned(dynamic), codes[0]);
  if (auto mulaw = dyn_cast<MuLawCodeAttr>(code))
    return decodeMuLaw(mulaw, codes[0]);
  if (auto linear = dyn_cast<LinearCodeAttr>(code))
    return decodeLinear(linear, codes[0]);
  return isa<SoftsignCodeAttr>(code) ? decodeSoftsign(codes[0])
                                     : decodeRoot(codes[0]);
}
