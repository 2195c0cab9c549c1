//===- Codes.cpp - What each code answers ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the code interface for each code: planes, encoding and
// decoding.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Scaled/IR/Powers.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Support/FloatFormat.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::scaled;
using mlir::tandem::FloatFormat;
using mlir::tandem::SequenceBuilder;

#include "tandem/Dialect/Scaled/IR/CodeInterface.cpp.inc"
#include "tandem/Dialect/Scaled/IR/ScaledEnums.cpp.inc"

// How the range of an expanded code is written: without f64's suffix.
static ParseResult parseRange(AsmParser &parser, FloatAttr &range) {
  double value = 0.0;
  if (parser.parseFloat(value))
    return failure();
  range = FloatAttr::get(Float64Type::get(parser.getContext()), value);
  return success();
}
static void printRange(AsmPrinter &printer, FloatAttr range) {
  printer.printFloat(range.getValue());
}

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Scaled/IR/ScaledAttrs.cpp.inc"

void ScaledDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/Scaled/IR/ScaledAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Sequences that codes share
//===----------------------------------------------------------------------===//

static constexpr uint64_t f32Magnitude = 0x7FFFFFFF;

static double getLargestOf(Type format) {
  return llvm::APFloat::getLargest(cast<FloatType>(format).getFloatSemantics())
      .convertToDouble();
}

static constexpr uint64_t f32Exponent = 0x7F800000;

/// The bits of |y|, at most those of `largest`.
static Value clampMagnitude(SequenceBuilder &b, Value y, double largest) {
  Value bits = b.bits(y);
  Value limit =
      b.like(bits, llvm::bit_cast<uint32_t>(static_cast<float>(largest)));
  return arith::MinUIOp::create(
      b.builder, b.loc, b.andi(bits, b.like(bits, f32Magnitude)), limit);
}

/// The type of a float format's codes, in the shape of a value.
static Type getCodeType(Value shape, Type format) {
  Type code =
      IntegerType::get(format.getContext(), format.getIntOrFloatBitWidth());
  auto vector = dyn_cast<VectorType>(shape.getType());
  return vector ? vector.clone(code) : code;
}

/// The code of y, whose numbers saturate where `isFinite` holds.
static Value encodeFloat(SequenceBuilder &b, Value y, Value isFinite,
                         Type format) {
  return EncodeFloatOp::create(b.builder, b.loc, getCodeType(y, format), y,
                               isFinite, format, /*exact=*/false);
}

/// The f32 of a float's bits.
static Value decodeFloat(SequenceBuilder &b, Value code, Type format) {
  Type f32 = b.builder.getF32Type();
  auto vector = dyn_cast<VectorType>(code.getType());
  return DecodeFloatOp::create(b.builder, b.loc,
                               vector ? vector.clone(f32) : f32, code, format);
}

/// The nearest integer of a value in [0, 255], ties to even, as i32 bits; what
/// becomes of others is of no interest.
static Value roundToInteger(SequenceBuilder &b, Value value) {
  // From 2^23 on f32 holds integers alone.
  Value anchor = b.real(value.getType(), 0x1p23);
  Value bits = b.bits(b.add(value, anchor));
  return b.andi(bits, b.like(bits, 0xFF));
}

static Value toByte(SequenceBuilder &b, Value word) {
  return b.resize(word, b.builder.getIntegerType(8));
}

/// An integer in [0, 255] as f32, exactly.
static Value fromByte(SequenceBuilder &b, Value word) {
  Value anchor = b.like(word, llvm::bit_cast<uint32_t>(0x1p23f));
  Value biased = b.bitcast(b.ori(word, anchor), b.builder.getF32Type());
  return b.sub(biased, b.real(biased.getType(), 0x1p23));
}

//===----------------------------------------------------------------------===//
// FloatCodeAttr
//===----------------------------------------------------------------------===//

LogicalResult
FloatCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      Type format) {
  // (C1)
  if (isa<Float8E4M3FNType, Float8E5M2Type, Float16Type>(format))
    return success();
  return emitError() << "a float code is f8E4M3FN, f8E5M2 or f16, got "
                     << format;
}

SmallVector<CodePlane> FloatCodeAttr::getPlanes() const {
  return {CodePlane{"", getFormat()}};
}
double FloatCodeAttr::getLargest() const { return getLargestOf(getFormat()); }
Value FloatCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value FloatCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

SmallVector<Value> FloatCodeAttr::encode(SequenceBuilder &b, Value y,
                                         Value isFinite, Value) const {
  return {encodeFloat(b, y, isFinite, getFormat())};
}

Value FloatCodeAttr::decode(SequenceBuilder &b, ValueRange codes, Value) const {
  return decodeFloat(b, codes[0], getFormat());
}

//===----------------------------------------------------------------------===//
// PairCodeAttr
//===----------------------------------------------------------------------===//

LogicalResult PairCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   Type format) {
  // (C1)
  if (isa<Float8E4M3FNType, Float8E5M2Type>(format))
    return success();
  return emitError() << "a pair's codes are f8E4M3FN or f8E5M2, got " << format;
}

SmallVector<CodePlane> PairCodeAttr::getPlanes() const {
  return {CodePlane{"", getFormat()}, CodePlane{".lo", getFormat()}};
}
double PairCodeAttr::getLargest() const { return getLargestOf(getFormat()); }
Value PairCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value PairCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

SmallVector<Value> PairCodeAttr::encode(SequenceBuilder &b, Value y,
                                        Value isFinite, Value) const {
  Value high = encodeFloat(b, y, isFinite, getFormat());
  Value rest = b.sub(y, decodeFloat(b, high, getFormat()));
  rest = b.select(isFinite, rest, b.zero(rest.getType()));
  Value always = b.like(isFinite, true);
  return {high, encodeFloat(b, rest, always, getFormat())};
}

Value PairCodeAttr::decode(SequenceBuilder &b, ValueRange codes, Value) const {
  return b.add(decodeFloat(b, codes[0], getFormat()),
               decodeFloat(b, codes[1], getFormat()));
}

//===----------------------------------------------------------------------===//
// ExpandedCodeAttr
//===----------------------------------------------------------------------===//

LogicalResult
ExpandedCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         Type format, FloatAttr range) {
  // (C1)
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(format))
    return emitError() << "an expanded code is f8E4M3FN or f8E5M2, got "
                       << format;
  // (C2)
  if (!(range.getValueAsDouble() >= 2.0 && range.getValueAsDouble() <= 0x1p64))
    return emitError() << "a range is at least 2 and at most 2^64, got "
                       << range.getValueAsDouble();
  return success();
}

SmallVector<CodePlane> ExpandedCodeAttr::getPlanes() const {
  return {CodePlane{"", getFormat()}};
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

/// A scalar in the shape of another value.
static Value matchShape(SequenceBuilder &b, Value scalar, Value shape) {
  auto type = dyn_cast<VectorType>(shape.getType());
  if (!type)
    return scalar;
  return vector::BroadcastOp::create(b.builder, b.loc,
                                     type.clone(scalar.getType()), scalar);
}

SmallVector<Value> ExpandedCodeAttr::encode(SequenceBuilder &b, Value y,
                                            Value isFinite,
                                            Value exponent) const {
  Value eighths = widenExponent(b, exponent);
  Value k = b.mul(eighths, b.real(eighths.getType(), 0.125));
  Value fraction = b.bitcast(clampMagnitude(b, y, 1.0), b.builder.getF32Type());
  Value power =
      buildExp2(b, b.mul(matchShape(b, k, y), buildLog2(b, fraction)));
  Value stretched =
      b.mul(power, b.real(y.getType(), getLargestOf(getFormat())));
  Value value = math::CopySignOp::create(b.builder, b.loc, stretched, y);
  // Infinity and NaN have codes of their own.
  if (FloatFormat::get(getFormat()).hasInfinity)
    value = b.select(isFinite, value, y);
  return {encodeFloat(b, value, isFinite, getFormat())};
}

Value ExpandedCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                               Value exponent) const {
  Value value = decodeFloat(b, codes[0], getFormat());
  Value eighths = widenExponent(b, exponent);
  Value inverse = b.div(b.real(eighths.getType(), 8.0), eighths);
  Value magnitude = b.abs(value);
  Value whole = buildLog2(b, magnitude);
  Value fraction = b.sub(
      whole, b.real(whole.getType(), foldLog2(getLargestOf(getFormat()))));
  Value power = buildExp2(b, b.mul(fraction, matchShape(b, inverse, fraction)));
  power = math::CopySignOp::create(b.builder, b.loc, power, value);
  Value bits = b.bits(magnitude);
  // Zero and what is not finite stand for themselves: bits - 1 wraps around.
  Value isOrdinary =
      b.compare(arith::CmpIPredicate::ult, b.subi(bits, b.like(bits, 1)),
                b.like(bits, f32Exponent - 1));
  return b.select(isOrdinary, power, value);
}

//===----------------------------------------------------------------------===//
// SoftsignCodeAttr
//===----------------------------------------------------------------------===//

static constexpr double softsignLevels = 127.0;
static constexpr uint64_t softsignNaN = 0x80;

SmallVector<CodePlane> SoftsignCodeAttr::getPlanes() const {
  return {CodePlane{"", IntegerType::get(getContext(), 8)}};
}
double SoftsignCodeAttr::getLargest() const { return 1.0; }
Value SoftsignCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value SoftsignCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

SmallVector<Value> SoftsignCodeAttr::encode(SequenceBuilder &b, Value y,
                                            Value isFinite, Value) const {
  Value magnitude =
      b.bitcast(clampMagnitude(b, y, 1.0), b.builder.getF32Type());
  Value one = b.real(y.getType(), 1.0);
  Value curve = b.div(b.add(magnitude, magnitude), b.add(one, magnitude));
  Value levels = b.mul(curve, b.real(y.getType(), softsignLevels));
  Value code = roundToInteger(b, levels);
  Value bits = b.bits(y);
  Value isNegative =
      b.compare(arith::CmpIPredicate::slt, bits, b.like(bits, 0));
  code = b.select(isNegative, b.subi(b.like(code, 0), code), code);
  code = b.select(isFinite, code, b.like(code, softsignNaN));
  return {toByte(b, code)};
}

Value SoftsignCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                               Value) const {
  Value word = b.resize(codes[0], b.builder.getI32Type());
  Value isNegative =
      b.compare(arith::CmpIPredicate::uge, word, b.like(word, softsignNaN));
  Value magnitude = b.select(isNegative, b.subi(b.like(word, 256), word), word);
  Value level = fromByte(b, magnitude);
  Value w = b.div(level, b.real(level.getType(), softsignLevels));
  Value z = b.div(w, b.sub(b.real(w.getType(), 2.0), w));
  Value isNaN =
      b.compare(arith::CmpIPredicate::eq, word, b.like(word, softsignNaN));
  z = b.select(isNegative, b.neg(z), z);
  return b.select(isNaN, b.fromBits(z.getType(), 0x7FC00000), z);
}

//===----------------------------------------------------------------------===//
// RootCodeAttr
//===----------------------------------------------------------------------===//

static constexpr double rootLevels = 254.0;
static constexpr uint64_t rootNaN = 0xFF;

SmallVector<CodePlane> RootCodeAttr::getPlanes() const {
  return {CodePlane{"", IntegerType::get(getContext(), 8)}};
}
double RootCodeAttr::getLargest() const { return 1.0; }
Value RootCodeAttr::prepare(SequenceBuilder &b, Value x) const {
  return b.sqrt(x);
}
Value RootCodeAttr::finish(SequenceBuilder &b, Value x) const {
  return b.mul(x, x);
}

SmallVector<Value> RootCodeAttr::encode(SequenceBuilder &b, Value y,
                                        Value isFinite, Value) const {
  Value z = b.bitcast(clampMagnitude(b, y, 1.0), b.builder.getF32Type());
  Value code = roundToInteger(b, b.mul(z, b.real(z.getType(), rootLevels)));
  return {toByte(b, b.select(isFinite, code, b.like(code, rootNaN)))};
}

Value RootCodeAttr::decode(SequenceBuilder &b, ValueRange codes, Value) const {
  Value word = b.resize(codes[0], b.builder.getI32Type());
  Value level = fromByte(b, word);
  Value z = b.div(level, b.real(level.getType(), rootLevels));
  Value isNaN =
      b.compare(arith::CmpIPredicate::eq, word, b.like(word, rootNaN));
  return b.select(isNaN, b.fromBits(z.getType(), 0x7FC00000), z);
}
