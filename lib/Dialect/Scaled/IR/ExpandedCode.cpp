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
using namespace mlir::scaled;
using mlir::tandem::FloatFormat;
using mlir::tandem::SequenceBuilder;

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

/// An exponent in eighths as f32.
static Value widenExponent(SequenceBuilder &b, Value exponent) {
  return arith::UIToFPOp::create(b.builder, b.loc, b.builder.getF32Type(),
                                 exponent);
}

/// Whether a value has a power: zero and what is not finite stand for
/// themselves. (Zero's bits less 1 wrap around.)
static Value hasPower(SequenceBuilder &b, Value value) {
  Value bits = b.bits(b.abs(value));
  return b.compare(arith::CmpIPredicate::ult, b.subi(bits, b.like(bits, 1)),
                   b.like(bits, tandem::f32Infinity - 1));
}

/// Whether a code tells values without a power from others by itself: zero's
/// power, 2^-100, rounds to zero, and the one code for what is not finite needs
/// no value.
static bool isAbsorbing(CodeAttrInterface code) {
  auto plain = dyn_cast<FloatCodeAttr>(code);
  return plain && !FloatFormat::get(plain.getFormat()).hasInfinity();
}

SmallVector<Value> ExpandedCodeAttr::encode(SequenceBuilder &b, Value y,
                                            Value isFinite, Value exponent,
                                            Value random) const {
  Value eighths = widenExponent(b, exponent);
  Value k = b.mul(eighths, b.real(eighths.getType(), 0.125));
  Value fraction = b.bitcast(clampMagnitude(b, y, 1.0), b.builder.getF32Type());
  Value power = buildExp2(b, b.mul(b.spread(k, y), buildLog2(b, fraction)));
  // A product by 1 would be none in the code that is emitted.
  double largest = getCode().getLargest();
  if (largest != 1.0)
    power = b.mul(power, b.real(y.getType(), largest));
  Value stretched = math::CopySignOp::create(b.builder, b.loc, power, y);
  if (!isAbsorbing(getCode()))
    stretched = b.select(hasPower(b, y), stretched, y);
  return getCode().encode(b, stretched, isFinite, Value(), random);
}

Value ExpandedCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                               Value exponent) const {
  Value value = getCode().decode(b, codes, Value());
  Value eighths = widenExponent(b, exponent);
  Value inverse = b.div(b.real(eighths.getType(), 8.0), eighths);
  Value fraction = buildLog2(b, b.abs(value));
  double largest = foldLog2(getCode().getLargest());
  if (largest != 0.0)
    fraction = b.sub(fraction, b.real(fraction.getType(), largest));
  Value power = buildExp2(b, b.mul(fraction, b.spread(inverse, fraction)));
  power = math::CopySignOp::create(b.builder, b.loc, power, value);
  return b.select(hasPower(b, value), power, value);
}
