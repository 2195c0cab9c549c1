//===- Scaled.cpp - Codes, scales and residuals ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements scales and scaled values from the specification, and the
// operations of the scaled dialect.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Scaled.h"

#include "tandem/Reference/Interpreter/Operations.h"

#include <algorithm>

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;
using namespace tandem::scaled;

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

SoftFloat reference::decodeScale(Type type, uint64_t bits) {
  if (std::optional<Format> format = getFormat(type))
    return SoftFloat::fromBits(*format, bits).convert(Format::F32);
  return bits == 0xFF ? SoftFloat::getNaN(Format::F32)
                      : powerOfTwo(int(bits) - 127);
}

/// Returns the bits of a scale, which must be a number of the type or NaN.
static uint64_t encodeScale(Type type, const SoftFloat &scale) {
  if (std::optional<Format> format = getFormat(type))
    return scale.convert(*format).toCanonicalBits();
  return scale.isNaN() ? 0xFF : floorLog2(scale) + 127;
}

namespace {
/// The smallest and the largest scale.
struct Range {
  SoftFloat low, high;
};
} // namespace

static Range getRange(CodeAttrInterface code, Type type) {
  SoftFloat low = powerOfTwo(-126);
  SoftFloat high = powerOfTwo(127 - floorLog2(getLargest(code)));
  if (type.isFloat(8))
    high = high.minimum(powerOfTwo(127));
  if (std::optional<Format> format = getFormat(type)) {
    SoftFloat least = SoftFloat::getSmallest(*format).convert(Format::F32);
    SoftFloat most = SoftFloat::getLargest(*format).convert(Format::F32);
    low = isLess(low, least) ? least : low;
    high = isLess(most, high) ? most : high;
  }
  return {low, high};
}

/// Rounds up to a scale. The argument does not exceed the largest scale.
static SoftFloat roundUp(const SoftFloat &q, Type type) {
  return q.convert(*getFormat(type), SoftFloat::Rounding::TowardPositive)
      .convert(Format::F32);
}

static SoftFloat toPowerInRange(int exponent, const Range &range) {
  // Both bounds are positive, so that truncation makes them powers of two.
  int lowest = floorLog2(range.low), highest = floorLog2(range.high);
  return powerOfTwo(std::clamp(exponent, lowest, highest));
}

uint64_t reference::checkScale(uint64_t bits, CodeAttrInterface code,
                               Type type) {
  SoftFloat scale = decodeScale(type, bits);
  Range range = getRange(code, type);
  bool isOne =
      !scale.isNaN() && !isLess(scale, range.low) && !isLess(range.high, scale);
  return isOne ? bits : encodeScale(type, toReal(1));
}

uint64_t reference::chooseScale(const SoftFloat &amax, CodeAttrInterface code,
                                Type type, Recipe recipe, unsigned margin) {
  if (amax.isZero() && code.hasZero())
    return encodeScale(type, toReal(1));
  Range range = getRange(code, type);
  SoftFloat largest = getLargest(code);
  if (recipe == Recipe::mx_floor) {
    int exponent = floorLog2(amax) - floorLog2(largest) + int(margin);
    return encodeScale(type, toPowerInRange(exponent, range));
  }
  SoftFloat quotient =
      isa<MuLawCodeAttr>(code)
          ? amax.mul(toReal((1 + 0x1p-22) / largest.toDouble()))
          : amax.div(largest);
  if (!code.hasNaN()) {
    int highest = floorLog2(range.high);
    SoftFloat high = recipe == Recipe::pow2 ? powerOfTwo(highest) : range.high;
    if (isLess(high, quotient))
      return encodeScale(type, SoftFloat::getNaN(Format::F32));
  }
  SoftFloat wanted = quotient.mul(powerOfTwo(margin));
  SoftFloat q = clamp(wanted, range.low, range.high);
  bool isRoundedUp = drawsBits(code.getRounding()) || !code.hasNaN();
  if (recipe == Recipe::current && isRoundedUp)
    return encodeScale(type, roundUp(q, type));
  if (recipe == Recipe::current)
    return encodeScale(type, q);
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
  // Numbers up to 1 are in the range, whatever the power.
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
  SoftFloat magnitude = measure(code, value);
  return magnitude.isFinite() || !code.hasNaN() ? magnitude
                                                : SoftFloat(Format::F32);
}

Codes reference::quantize(CodeAttrInterface code, const SoftFloat &value,
                          const SoftFloat &scale, CodeContext context) {
  SoftFloat prepared = prepare(code, value);
  SoftFloat inverse = toReal(1).div(scale);
  bool isFinite = code.hasNaN() ? prepared.isFinite() : scale.isFinite();
  return encode(code, scaleValue(code, prepared, inverse), isFinite, context);
}

SoftFloat reference::dequantize(CodeAttrInterface code,
                                ArrayRef<uint64_t> codes,
                                const SoftFloat &scale, CodeContext context) {
  return finish(code, unscale(code, decode(code, codes, context), scale));
}

//===----------------------------------------------------------------------===//
// Residuals
//===----------------------------------------------------------------------===//

/// Returns the largest residual.
static SoftFloat getLevels(ResidualStorageAttr storage) {
  return toReal(storage.getResidual().isInteger(8) ? 127 : 32767);
}

/// Returns half a unit in the last place of a finite number, in f32.
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

/// Returns one of the two integers around a level, as that many bits.
static uint64_t roundSigned(const SoftFloat &level, RoundingMode rounding,
                            uint16_t random, unsigned width) {
  if (rounding == RoundingMode::nearest)
    return *level.toInteger(width, /*isSigned=*/true, SoftFloat::kNearest);
  uint64_t magnitude =
      roundLevel(level.abs(), orientBits(rounding, level, random));
  return Integer(width, level.isNegative() ? -magnitude : magnitude).bits;
}

Codes reference::encodeResidual(ResidualStorageAttr storage,
                                const SoftFloat &value, uint16_t random) {
  SoftFloat high = value.convert(*getFormat(storage.getFormat()));
  if (!high.isFinite())
    return {high.toCanonicalBits(), 0};
  SoftFloat fraction =
      value.sub(high.convert(Format::F32)).div(getHalfUlp(high));
  uint64_t residual =
      roundSigned(fraction.mul(getLevels(storage)), storage.getRounding(),
                  random, storage.getResidual().getIntOrFloatBitWidth());
  return {high.toCanonicalBits(), residual};
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
  uint64_t scale = chooseScale(amax, op.getCode(), op.getType(), op.getRecipe(),
                               op.getMargin());
  return e.giveUnchanged(makeNumber(op.getType(), scale));
}

static llvm::Error evaluateGivenScale(Evaluation &e) {
  auto op = e.as<GivenScaleOp>();
  if (llvm::Error error = checkKnown(op.getCode()))
    return error;
  uint64_t scale =
      checkScale(getBitsKept(e.getLane(0).front()), op.getCode(), op.getType());
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

/// Reads the optional operands from `operand` on: an exponent and random bits.
static CodeContext getContext(Evaluation &e, unsigned operand, Value exponent,
                              Value random = {}) {
  CodeContext context;
  if (exponent)
    context.exponent = getBitsKept(e.getLane(operand++).front());
  if (random)
    context.random = e.getInteger(operand).bits;
  return context;
}

static llvm::Error evaluateQuantize(Evaluation &e) {
  auto op = e.as<QuantizeOp>();
  if (llvm::Error error = checkKnown(op.getCode()))
    return error;
  SoftFloat scale = getScale(e, 1, op.getScale().getType());
  CodeContext context = getContext(e, 2, op.getExponent(), op.getRandom());
  context.isFloored = op.getFloor() && isLess(toReal(0), e.getReal(0));
  Codes codes = quantize(op.getCode(), e.getReal(0), scale, context);
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
  CodeContext context = getContext(e, codes.size() + 1, op.getExponent());
  return e.give(dequantize(op.getCode(), codes, scale, context));
}

/// Returns the code of the nearest number. If given, `finite` tells numbers,
/// which saturate, from values that are encoded as infinity or NaN.
static llvm::Error evaluateEncodeFloat(Evaluation &e) {
  auto op = e.as<EncodeFloatOp>();
  unsigned width = e.getResultElement().getIntOrFloatBitWidth();
  SoftFloat x = e.getReal(0);
  if (op.getFinite() && e.getInteger(1).bits) {
    auto code = FloatCodeAttr::get(op.getContext(), op.getFormat(),
                                   RoundingMode::nearest);
    Codes bits = encode(code, x, /*isFinite=*/true, {});
    return e.give(Integer(width, bits.front()));
  }
  if (op.getFinite() && !x.isNaN())
    x = SoftFloat::getInf(Format::F32, x.isNegative());
  SoftFloat rounded = x.convert(*getFormat(op.getFormat()));
  return e.give(Integer(width, rounded.toCanonicalBits()));
}

static llvm::Error evaluateDecodeFloat(Evaluation &e) {
  auto op = e.as<DecodeFloatOp>();
  auto number =
      SoftFloat::fromBits(*getFormat(op.getFormat()), e.getInteger(0).bits);
  return e.give(number.convert(Format::F32));
}

static llvm::Error evaluateLookup(Evaluation &e) {
  DenseElementsAttr values = e.as<LookupOp>().getTable();
  uint64_t position = 0;
  for (unsigned i = 0; i < e.getNumOperands(); ++i)
    position = 256 * position + e.getInteger(i).bits;
  auto entry = *(values.value_begin<llvm::APFloat>() + position);
  return e.give(SoftFloat(Format::F32, entry));
}

void reference::addScaledOperations(OperationTable &table) {
  table["scaled.magnitude"] = evaluateMagnitude;
  table["scaled.least"] = evaluateLeast;
  table["scaled.scale"] = evaluateScale;
  table["scaled.given_scale"] = evaluateGivenScale;
  table["scaled.exponent"] = evaluateExponent;
  table["scaled.quantize"] = evaluateQuantize;
  table["scaled.dequantize"] = evaluateDequantize;
  table["scaled.encode_float"] = evaluateEncodeFloat;
  table["scaled.decode_float"] = evaluateDecodeFloat;
  table["tandem.lookup"] = evaluateLookup;
}
