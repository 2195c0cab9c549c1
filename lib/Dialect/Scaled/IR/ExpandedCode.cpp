//===- ExpandedCode.cpp - Codes that groups stretch by a power ------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the code interface for dynamic range expansion.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Powers.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"

using namespace mlir;
using namespace tandem::scaled;
using tandem::FloatFormat;
using tandem::RoundingMode;
using tandem::SequenceBuilder;

LogicalResult
ExpandedCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         CodeAttrInterface code, FloatAttr range) {
  // (C1)
  auto plain = dyn_cast<FloatCodeAttr>(code);
  if (plain ? plain.getFormat().isF16() : !isa<DynamicCodeAttr>(code))
    return emitError() << "an expanded code is f8E4M3FN, f8E5M2 or "
                          "#scaled.dynamic, got "
                       << code;
  // (C2)
  if (!(range.getValueAsDouble() >= 2.0 && range.getValueAsDouble() <= 0x1p64))
    return emitError() << "a range is at least 2 and at most 2^64, got "
                       << range.getValueAsDouble();
  return success();
}

SmallVector<CodePlane> ExpandedCodeAttr::getPlanes() const {
  return getCode().getPlanes();
}
/// Scaled values are fractions of the largest one.
double ExpandedCodeAttr::getLargest() const { return 1.0; }
std::optional<double> ExpandedCodeAttr::getRange() const {
  return getRatio().getValueAsDouble();
}
Value ExpandedCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value ExpandedCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

RoundingMode ExpandedCodeAttr::getRounding() const {
  return getCode().getRounding();
}

CodeAttrInterface ExpandedCodeAttr::getNearest() const {
  return get(getContext(), getCode().getNearest(), getRatio());
}

/// Converts an exponent in eighths to f32.
static Value widenExponent(SequenceBuilder &b, Value exponent) {
  return arith::UIToFPOp::create(b.builder, b.loc, b.builder.getF32Type(),
                                 exponent);
}

/// Returns whether a value has a power. Zero and values that are not finite
/// stand for themselves. (Zero's bits minus 1 wrap around.)
static Value hasPower(SequenceBuilder &b, Value value) {
  Value bits = b.bits(b.abs(value));
  return b.compare(arith::CmpIPredicate::ult, b.subi(bits, b.like(bits, 1)),
                   b.like(bits, tandem::f32Infinity - 1));
}

/// Returns whether a code handles values without a power by itself: zero's
/// power, 2^-100, rounds to zero, and there is only one code for values that
/// are not finite.
static bool isAbsorbing(CodeAttrInterface code) {
  auto plain = dyn_cast<FloatCodeAttr>(code);
  return plain && !FloatFormat::get(plain.getFormat()).hasInfinity();
}

/// Returns power * L, where L is the largest magnitude of y's sign.
static Value multiplyByLargest(SequenceBuilder &b, Value power, Value y,
                               CodeAttrInterface code) {
  double largest = code.getLargest(), least = code.getLargestNegative();
  // Multiplying by 1 is left out, so that the emitted code has no such product.
  Value positive = power;
  if (largest != 1.0)
    positive = b.mul(power, b.real(y.getType(), largest));
  if (largest == least)
    return positive;
  Value bits = b.bits(y);
  Value isNegative =
      b.compare(arith::CmpIPredicate::slt, bits, b.like(bits, 0));
  Value factor = b.real(y.getType(), static_cast<float>(least));
  return b.select(isNegative, b.mul(power, factor), positive);
}

/// Returns log2(|value|) - log2(L), which is at most 0.
static Value divideByLargest(SequenceBuilder &b, Value log, Value value,
                             CodeAttrInterface code) {
  double largest = code.getLargest(), least = code.getLargestNegative();
  Value positive = log;
  if (largest != 1.0)
    positive = b.sub(log, b.real(log.getType(), foldLog2(largest)));
  if (largest == least)
    return positive;
  Value bits = b.bits(value);
  Value isNegative =
      b.compare(arith::CmpIPredicate::slt, bits, b.like(bits, 0));
  Value offset = b.real(log.getType(), foldLog2(static_cast<float>(least)));
  return b.select(isNegative, b.sub(log, offset), positive);
}

SmallVector<Value> ExpandedCodeAttr::encode(SequenceBuilder &b, Value y,
                                            const CodeInputs &inputs) const {
  Value eighths = widenExponent(b, inputs.exponent);
  Value k = b.mul(eighths, b.real(eighths.getType(), 0.125));
  Value fraction = b.bitcast(clampMagnitude(b, y, 1.0), b.builder.getF32Type());
  Value exponent = buildLog2(b, fraction);
  Value power = buildExp2(b, b.mul(b.spread(k, y), exponent));
  power = multiplyByLargest(b, power, y, getCode());
  Value stretched = math::CopySignOp::create(b.builder, b.loc, power, y);
  if (!isAbsorbing(getCode()))
    stretched = b.select(hasPower(b, y), stretched, y);
  CodeInputs ofCode = inputs;
  ofCode.exponent = Value();
  return getCode().encode(b, stretched, ofCode);
}

Value ExpandedCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                               Value exponent) const {
  Value value = getCode().decode(b, codes, Value());
  Value eighths = widenExponent(b, exponent);
  Value inverse = b.div(b.real(eighths.getType(), 8.0), eighths);
  Value fraction =
      divideByLargest(b, buildLog2(b, b.abs(value)), value, getCode());
  Value power = buildExp2(b, b.mul(fraction, b.spread(inverse, fraction)));
  power = math::CopySignOp::create(b.builder, b.loc, power, value);
  return b.select(hasPower(b, value), power, value);
}
