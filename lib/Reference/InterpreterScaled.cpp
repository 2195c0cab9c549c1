//===- InterpreterScaled.cpp - Codes, scales and residuals ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the numbers of 8-bit strategies by the specification,
// and the operations of the scaled dialect on them.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/InterpreterScaled.h"

#include "tandem/Reference/InterpreterOperations.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::reference;
using namespace mlir::scaled;

static SoftFloat toReal(double value) {
  return SoftFloat::fromDouble(Format::F32, value);
}

static SoftFloat powerOfTwo(int exponent) {
  return toReal(1).scaleByPowerOfTwo(exponent);
}

/// floor(log2(x)) of a positive number.
static int floorLog2(const SoftFloat &x) { return llvm::ilogb(x.getAPFloat()); }

static bool isLess(const SoftFloat &a, const SoftFloat &b) {
  return a.compare(b) == Ordering::Less;
}

/// A NaN stays one.
static SoftFloat clamp(const SoftFloat &x, const SoftFloat &low,
                       const SoftFloat &high) {
  return isLess(x, low) ? low : isLess(high, x) ? high : x;
}

//===----------------------------------------------------------------------===//
// Logarithm and power of two
//===----------------------------------------------------------------------===//

/// The coefficients of docs/Numerics.md, that of f^0 first.
static constexpr uint32_t log2Coefficients[] = {
    0x3FB8AA3B, 0xBF38AA38, 0x3EF639EB, 0xBEB8AE27, 0x3E9369C1,
    0xBE74AE05, 0x3E5CE4B1, 0xBE543E17, 0x3E00DA81};
static constexpr uint32_t exp2Coefficients[] = {
    0x3F800000, 0x3F317218, 0x3E75FDEC, 0x3D6357BB,
    0x3C1D9850, 0x3AAF85C1, 0x391FD104};

/// c0 + f * (c1 + f * (...)), each step an fma.
static SoftFloat evaluatePolynomial(ArrayRef<uint32_t> coefficients,
                                    const SoftFloat &f) {
  auto sum = SoftFloat::fromBits(Format::F32, coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;)
    sum = sum.fma(f, SoftFloat::fromBits(Format::F32, coefficients[i]));
  return sum;
}

/// Of a number of no negative sign.
static SoftFloat log2(const SoftFloat &x) {
  int64_t bits = x.toBits();
  // Right shifts of negative numbers round down.
  int64_t exponent = (bits - 0x3F3504F3) >> 23;
  auto m = SoftFloat::fromBits(Format::F32, bits - exponent * (1 << 23));
  SoftFloat f = m.sub(toReal(1));
  return toReal(exponent).add(f.mul(evaluatePolynomial(log2Coefficients, f)));
}

/// Of a number of at most 0. A NaN counts as what lies below -100 does.
static SoftFloat exp2(const SoftFloat &number) {
  SoftFloat x = number.maxNum(toReal(-100));
  SoftFloat n = x.roundToIntegral(SoftFloat::kNearest);
  SoftFloat mantissa = evaluatePolynomial(exp2Coefficients, x.sub(n));
  return mantissa.scaleByPowerOfTwo(int(n.toDouble()));
}

//===----------------------------------------------------------------------===//
// Codes of scaled values
//===----------------------------------------------------------------------===//

llvm::Error reference::checkKnown(CodeAttrInterface code) {
  if (isa<FloatCodeAttr, PairCodeAttr, ExpandedCodeAttr, SoftsignCodeAttr,
          RootCodeAttr>(code))
    return llvm::Error::success();
  return makeError("the interpreter does not know the code " + describe(code));
}

/// The format of a code of floats.
static std::optional<Format> getCodeFormat(CodeAttrInterface code) {
  if (auto plain = dyn_cast<FloatCodeAttr>(code))
    return getFormat(plain.getFormat());
  if (auto pair = dyn_cast<PairCodeAttr>(code))
    return getFormat(pair.getFormat());
  if (auto expanded = dyn_cast<ExpandedCodeAttr>(code))
    return getFormat(expanded.getFormat());
  return std::nullopt;
}

static SoftFloat getLargestOf(Format format) {
  return SoftFloat::getLargest(format).convert(Format::F32);
}

/// The magnitude that becomes the largest code.
static SoftFloat getLargest(CodeAttrInterface code) {
  std::optional<Format> format = getCodeFormat(code);
  bool isFraction = !format || isa<ExpandedCodeAttr>(code);
  return isFraction ? toReal(1) : getLargestOf(*format);
}

/// What is scaled in place of a value.
static SoftFloat prepare(CodeAttrInterface code, const SoftFloat &value) {
  return isa<RootCodeAttr>(code) ? value.sqrt() : value;
}

/// What came from a finite value stops at the largest number.
static SoftFloat roundTo(Format format, const SoftFloat &y, bool isFinite) {
  if (isFinite && y.isInf())
    return SoftFloat::getLargest(format, y.isNegative());
  return y.convertSaturating(format);
}

static Codes encodePair(Format format, const SoftFloat &y, bool isFinite) {
  SoftFloat high = roundTo(format, y, isFinite), low(format);
  if (high.isFinite())
    low = roundTo(format, y.sub(high.convert(Format::F32)), isFinite);
  return {high.toCanonicalBits(), low.toCanonicalBits()};
}

/// L * |y|^(exponent / 8) with y's sign.
static Codes encodeExpanded(Format format, const SoftFloat &y, bool isFinite,
                            unsigned exponent) {
  if (!isFinite)
    return {y.convert(format).toCanonicalBits()};
  SoftFloat fraction = y.abs().minNum(toReal(1));
  SoftFloat power = exp2(toReal(exponent / 8.0).mul(log2(fraction)));
  SoftFloat payload = getLargestOf(format).mul(power).copySign(y);
  return {payload.convertSaturating(format).toCanonicalBits()};
}

/// 127 * (2z / (1 + |z|)).
static Codes encodeSoftsign(const SoftFloat &y) {
  SoftFloat z = clamp(y, toReal(-1), toReal(1));
  SoftFloat companded = toReal(2).mul(z).div(toReal(1).add(z.abs()));
  auto code = toReal(127).mul(companded).toInteger(8, /*isSigned=*/true,
                                                   SoftFloat::kNearest);
  return {code.value_or(0x80)};
}

static Codes encodeRoot(const SoftFloat &y) {
  SoftFloat z = clamp(y, toReal(0), toReal(1));
  auto code =
      toReal(254).mul(z).toInteger(8, /*isSigned=*/false, SoftFloat::kNearest);
  return {code.value_or(0xFF)};
}

/// `isFinite` says whether what was scaled is.
static Codes encode(CodeAttrInterface code, const SoftFloat &y, bool isFinite,
                    unsigned exponent) {
  if (isa<FloatCodeAttr>(code))
    return {roundTo(*getCodeFormat(code), y, isFinite).toCanonicalBits()};
  if (isa<PairCodeAttr>(code))
    return encodePair(*getCodeFormat(code), y, isFinite);
  if (isa<ExpandedCodeAttr>(code))
    return encodeExpanded(*getCodeFormat(code), y, isFinite, exponent);
  if (isa<SoftsignCodeAttr>(code))
    return isFinite ? encodeSoftsign(y) : Codes{0x80};
  return isFinite ? encodeRoot(y) : Codes{0xFF};
}

/// (|code| / L)^(8 / exponent) with the code's sign.
static SoftFloat decodeExpanded(Format format, uint64_t code,
                                unsigned exponent) {
  SoftFloat value = SoftFloat::fromBits(format, code).convert(Format::F32);
  if (value.isZero() || !value.isFinite())
    return value;
  SoftFloat difference = log2(value.abs()).sub(log2(getLargestOf(format)));
  SoftFloat inverse = toReal(8).div(toReal(exponent));
  return exp2(difference.mul(inverse)).copySign(value);
}

/// w / (2 - |w|) with w = code / 127.
static SoftFloat decodeSoftsign(uint64_t code) {
  if (code == 0x80)
    return SoftFloat::getNaN(Format::F32);
  int64_t integer = Integer(8, code).getSigned();
  SoftFloat w = SoftFloat::fromInteger(Format::F32, integer).div(toReal(127));
  return w.div(toReal(2).sub(w.abs()));
}

static SoftFloat decodeRoot(uint64_t code) {
  if (code == 0xFF)
    return SoftFloat::getNaN(Format::F32);
  return SoftFloat::fromUnsigned(Format::F32, code).div(toReal(254));
}

static SoftFloat decode(CodeAttrInterface code, ArrayRef<uint64_t> codes,
                        unsigned exponent) {
  if (isa<ExpandedCodeAttr>(code))
    return decodeExpanded(*getCodeFormat(code), codes[0], exponent);
  if (isa<SoftsignCodeAttr>(code))
    return decodeSoftsign(codes[0]);
  if (isa<RootCodeAttr>(code))
    return decodeRoot(codes[0]);
  Components parts;
  for (uint64_t bits : codes)
    parts.push_back(SoftFloat::fromBits(*getCodeFormat(code), bits));
  return sumComponents(parts, Format::F32);
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

SoftFloat reference::decodeScale(Type type, uint64_t bits) {
  if (std::optional<Format> format = getFormat(type))
    return SoftFloat::fromBits(*format, bits).convert(Format::F32);
  return bits == 0xFF ? SoftFloat::getNaN(Format::F32)
                      : powerOfTwo(int(bits) - 127);
}

/// The bits of a scale that the type has.
static uint64_t encodeScale(Type type, const SoftFloat &scale) {
  if (std::optional<Format> format = getFormat(type))
    return scale.convert(*format).toBits();
  return floorLog2(scale) + 127;
}

namespace {
/// The least and the largest scale.
struct Range {
  SoftFloat low, high;
};
} // namespace

static Range getRange(CodeAttrInterface code, Type type) {
  SoftFloat low = powerOfTwo(-126);
  SoftFloat high = powerOfTwo(127 - floorLog2(getLargest(code)));
  if (std::optional<Format> format = getFormat(type)) {
    SoftFloat least = SoftFloat::getSmallest(*format).convert(Format::F32);
    SoftFloat most = SoftFloat::getLargest(*format).convert(Format::F32);
    low = isLess(low, least) ? least : low;
    high = isLess(most, high) ? most : high;
  }
  return {low, high};
}

/// Rounded up; beyond the largest scale lies none.
static SoftFloat roundUp(const SoftFloat &q, const Range &range, Type type) {
  SoftFloat scale = clamp(q, range.low, range.high);
  return scale.convert(*getFormat(type), SoftFloat::Rounding::TowardPositive)
      .convert(Format::F32);
}

static SoftFloat toPowerInRange(int exponent, const Range &range) {
  // Both ends are positive, so that truncation drops what is not a power.
  int lowest = floorLog2(range.low), highest = floorLog2(range.high);
  return powerOfTwo(std::clamp(exponent, lowest, highest));
}

uint64_t reference::chooseScale(const SoftFloat &amax, CodeAttrInterface code,
                                Type type, Recipe recipe) {
  if (amax.isZero())
    return encodeScale(type, toReal(1));
  Range range = getRange(code, type);
  SoftFloat largest = getLargest(code);
  if (recipe == Recipe::mx_floor) {
    int exponent = floorLog2(amax) - floorLog2(largest);
    return encodeScale(type, toPowerInRange(exponent, range));
  }
  SoftFloat q = clamp(amax.div(largest), range.low, range.high);
  if (recipe == Recipe::current)
    return encodeScale(type, roundUp(q, range, type));
  int exponent = floorLog2(q);
  bool isPower = powerOfTwo(exponent).compare(q) == Ordering::Equal;
  return encodeScale(type, toPowerInRange(exponent + !isPower, range));
}

//===----------------------------------------------------------------------===//
// Exponents
//===----------------------------------------------------------------------===//

uint32_t reference::getLeast(const SoftFloat &value) {
  bool counts = value.isFinite() && !value.isZero();
  return counts ? value.abs().toBits() : ~uint32_t(0);
}

unsigned reference::chooseExponent(CodeAttrInterface code,
                                   const SoftFloat &scale, uint32_t least) {
  constexpr unsigned lowest = 8, highest = 128;
  if (least == ~uint32_t(0))
    return lowest;
  SoftFloat ratio = scale.div(SoftFloat::fromBits(Format::F32, least));
  // Any power of what does not exceed 1 is in the range.
  if (!isLess(toReal(1), ratio))
    return highest;
  SoftFloat range = log2(toReal(*code.getRange()));
  double eighths = toReal(8).mul(range).div(log2(ratio)).toDouble();
  return std::clamp<double>(eighths, lowest, highest);
}

//===----------------------------------------------------------------------===//
// Values under a scale
//===----------------------------------------------------------------------===//

SoftFloat reference::getMagnitude(CodeAttrInterface code,
                                  const SoftFloat &value) {
  SoftFloat prepared = prepare(code, value);
  return prepared.isFinite() ? prepared.abs() : SoftFloat(Format::F32);
}

Codes reference::quantize(CodeAttrInterface code, const SoftFloat &value,
                          const SoftFloat &scale, unsigned exponent) {
  SoftFloat prepared = prepare(code, value);
  SoftFloat inverse = toReal(1).div(scale);
  return encode(code, prepared.mul(inverse), prepared.isFinite(), exponent);
}

SoftFloat reference::dequantize(CodeAttrInterface code,
                                ArrayRef<uint64_t> codes,
                                const SoftFloat &scale, unsigned exponent) {
  SoftFloat product = decode(code, codes, exponent).mul(scale);
  return isa<RootCodeAttr>(code) ? product.mul(product) : product;
}

//===----------------------------------------------------------------------===//
// Residuals
//===----------------------------------------------------------------------===//

/// The largest residual.
static SoftFloat getLevels(ResidualStorageAttr storage) {
  return toReal(storage.getResidual().isInteger(8) ? 127 : 32767);
}

/// Half a unit in the last place of a finite number, in f32.
static SoftFloat getHalfUlp(const SoftFloat &high) {
  int lowest =
      llvm::APFloat::semanticsMinExponent(getSemantics(high.getFormat()));
  int exponent = high.isZero() ? lowest : std::max(floorLog2(high), lowest);
  return powerOfTwo(exponent - int(getPrecision(high.getFormat())));
}

SoftFloat reference::decodeResidual(ResidualStorageAttr storage,
                                    ArrayRef<uint64_t> planes) {
  auto high = SoftFloat::fromBits(*getFormat(storage.getFormat()), planes[0]);
  SoftFloat wide = high.convert(Format::F32);
  if (!high.isFinite())
    return wide;
  Integer residual(storage.getResidual().getIntOrFloatBitWidth(), planes[1]);
  SoftFloat fraction = SoftFloat::fromInteger(Format::F32, residual.getSigned())
                           .div(getLevels(storage));
  return wide.add(fraction.mul(getHalfUlp(high)));
}

Codes reference::encodeResidual(ResidualStorageAttr storage,
                                const SoftFloat &value) {
  SoftFloat high = value.convert(*getFormat(storage.getFormat()));
  if (!high.isFinite())
    return {high.toCanonicalBits(), 0};
  SoftFloat fraction =
      value.sub(high.convert(Format::F32)).div(getHalfUlp(high));
  unsigned width = storage.getResidual().getIntOrFloatBitWidth();
  auto residual = fraction.mul(getLevels(storage))
                      .toInteger(width, /*isSigned=*/true, SoftFloat::kNearest);
  return {high.toCanonicalBits(), *residual};
}

//===----------------------------------------------------------------------===//
// The scaled dialect
//===----------------------------------------------------------------------===//

static uint64_t getBitsKept(const Number &number) {
  auto *real = std::get_if<SoftFloat>(&number);
  return real ? real->toBits() : std::get<Integer>(number).bits;
}

static Number makeNumber(Type type, uint64_t bits) {
  if (std::optional<Format> format = getFormat(type))
    return SoftFloat::fromBits(*format, bits);
  return Integer(type.getIntOrFloatBitWidth(), bits);
}

static SoftFloat getScale(Evaluation &e, unsigned operand, Type type) {
  return decodeScale(type, getBitsKept(e.getLane(operand).front()));
}

static llvm::Error evaluateMagnitude(Evaluation &e) {
  auto op = e.as<MagnitudeOp>();
  if (llvm::Error error = checkKnown(op.getCode()))
    return error;
  return e.give(Integer(32, getMagnitude(op.getCode(), e.getReal(0)).toBits()));
}

static llvm::Error evaluateScale(Evaluation &e) {
  auto op = e.as<ScaleOp>();
  if (llvm::Error error = checkKnown(op.getCode()))
    return error;
  auto amax = SoftFloat::fromBits(Format::F32, e.getInteger(0).bits);
  uint64_t scale =
      chooseScale(amax, op.getCode(), op.getType(), op.getRecipe());
  return e.giveUnchanged(makeNumber(op.getType(), scale));
}

static llvm::Error evaluateLeast(Evaluation &e) {
  return e.give(Integer(32, getLeast(e.getReal(0))));
}

static llvm::Error evaluateExponent(Evaluation &e) {
  auto op = e.as<ExponentOp>();
  if (llvm::Error error = checkKnown(op.getCode()))
    return error;
  SoftFloat scale = getScale(e, 0, op.getScale().getType());
  uint32_t least = e.getInteger(1).bits;
  return e.give(Integer(8, chooseExponent(op.getCode(), scale, least)));
}

/// The exponent of a group, an optional operand; codes without one ignore it.
static unsigned getExponent(Evaluation &e, unsigned operand, Value exponent) {
  return exponent ? getBitsKept(e.getLane(operand).front()) : 0;
}

static llvm::Error evaluateQuantize(Evaluation &e) {
  auto op = e.as<QuantizeOp>();
  if (llvm::Error error = checkKnown(op.getCode()))
    return error;
  SoftFloat scale = getScale(e, 1, op.getScale().getType());
  unsigned exponent = getExponent(e, 2, op.getExponent());
  Codes codes = quantize(op.getCode(), e.getReal(0), scale, exponent);
  for (auto [i, code] : llvm::enumerate(codes))
    if (llvm::Error error =
            e.giveUnchanged(makeNumber(e.getResultElement(i), code)))
      return error;
  return llvm::Error::success();
}

static llvm::Error evaluateDequantize(Evaluation &e) {
  auto op = e.as<DequantizeOp>();
  if (llvm::Error error = checkKnown(op.getCode()))
    return error;
  Codes codes;
  for (unsigned i = 0, count = op.getCodes().size(); i < count; ++i)
    codes.push_back(getBitsKept(e.getLane(i).front()));
  SoftFloat scale = getScale(e, codes.size(), op.getScale().getType());
  unsigned exponent = getExponent(e, codes.size() + 1, op.getExponent());
  return e.give(dequantize(op.getCode(), codes, scale, exponent));
}

/// The nearest number's code. `finite`, if given, tells numbers, which
/// saturate, from what is written as infinity or NaN.
static llvm::Error evaluateEncodeFloat(Evaluation &e) {
  auto op = e.as<EncodeFloatOp>();
  Format format = *getFormat(op.getFormat());
  SoftFloat x = e.getReal(0);
  SoftFloat result = x.convert(format);
  if (op.getFinite() && e.getInteger(1).bits)
    result = roundTo(format, x, /*isFinite=*/true);
  else if (op.getFinite() && !x.isNaN())
    result = SoftFloat::getInf(Format::F32, x.isNegative()).convert(format);
  return e.give(Integer(e.getResultElement().getIntOrFloatBitWidth(),
                        result.toCanonicalBits()));
}

static llvm::Error evaluateDecodeFloat(Evaluation &e) {
  auto op = e.as<DecodeFloatOp>();
  auto number =
      SoftFloat::fromBits(*getFormat(op.getFormat()), e.getInteger(0).bits);
  return e.give(number.convert(Format::F32));
}

void reference::addScaledOperations(OperationTable &table) {
  table["scaled.magnitude"] = evaluateMagnitude;
  table["scaled.least"] = evaluateLeast;
  table["scaled.scale"] = evaluateScale;
  table["scaled.exponent"] = evaluateExponent;
  table["scaled.quantize"] = evaluateQuantize;
  table["scaled.dequantize"] = evaluateDequantize;
  table["scaled.encode_float"] = evaluateEncodeFloat;
  table["scaled.decode_float"] = evaluateDecodeFloat;
}
