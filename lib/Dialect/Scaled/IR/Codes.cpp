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
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::scaled;
using mlir::tandem::FloatFormat;
using mlir::tandem::SequenceBuilder;

#include "tandem/Dialect/Scaled/IR/CodeInterface.cpp.inc"
#include "tandem/Dialect/Scaled/IR/ScaledEnums.cpp.inc"

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

/// y, its magnitude at most `largest` where it is to be finite.
static Value saturate(SequenceBuilder &b, Value y, Value isFinite,
                      double largest) {
  Value bits = b.bits(y);
  Value magnitude = b.andi(bits, b.like(bits, f32Magnitude));
  Value limit =
      b.like(bits, llvm::bit_cast<uint32_t>(static_cast<float>(largest)));
  Value clamped = arith::MinUIOp::create(b.builder, b.loc, magnitude, limit);
  Value chosen = b.select(isFinite, clamped, magnitude);
  Value sign = b.xori(bits, magnitude);
  return b.bitcast(b.ori(chosen, sign), b.builder.getF32Type());
}

/// |y|, at most 1 where it is to be finite.
static Value clampToOne(SequenceBuilder &b, Value y, Value isFinite) {
  return b.abs(saturate(b, y, isFinite, 1.0));
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
                                         Value isFinite) const {
  Value value = saturate(b, y, isFinite, getLargest());
  return {b.convert(value, getFormat())};
}

Value FloatCodeAttr::decode(SequenceBuilder &b, ValueRange codes) const {
  return b.convert(codes[0], b.builder.getF32Type());
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
                                        Value isFinite) const {
  Type f32 = b.builder.getF32Type();
  Value high = b.convert(saturate(b, y, isFinite, getLargest()), getFormat());
  Value wide = b.convert(high, f32);
  Value infinity =
      b.real(wide.getType(), std::numeric_limits<double>::infinity());
  Value isKept = b.compare(arith::CmpFPredicate::OLT, b.abs(wide), infinity);
  Value rest = b.select(isKept, b.sub(y, wide), b.real(wide.getType(), 0.0));
  Value low = b.convert(saturate(b, rest, isFinite, getLargest()), getFormat());
  return {high, low};
}

Value PairCodeAttr::decode(SequenceBuilder &b, ValueRange codes) const {
  Type f32 = b.builder.getF32Type();
  return b.add(b.convert(codes[0], f32), b.convert(codes[1], f32));
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
                                            Value isFinite) const {
  Value magnitude = clampToOne(b, y, isFinite);
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

Value SoftsignCodeAttr::decode(SequenceBuilder &b, ValueRange codes) const {
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
                                        Value isFinite) const {
  Value z = clampToOne(b, y, isFinite);
  Value code = roundToInteger(b, b.mul(z, b.real(z.getType(), rootLevels)));
  return {toByte(b, b.select(isFinite, code, b.like(code, rootNaN)))};
}

Value RootCodeAttr::decode(SequenceBuilder &b, ValueRange codes) const {
  Value word = b.resize(codes[0], b.builder.getI32Type());
  Value level = fromByte(b, word);
  Value z = b.div(level, b.real(level.getType(), rootLevels));
  Value isNaN =
      b.compare(arith::CmpIPredicate::eq, word, b.like(word, rootNaN));
  return b.select(isNaN, b.fromBits(z.getType(), 0x7FC00000), z);
}
