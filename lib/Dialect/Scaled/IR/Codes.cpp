//===- Codes.cpp - Codes of the scaled dialect ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the code interface for floats and companded integers:
// planes, encoding and decoding.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace tandem::scaled;
using tandem::FloatFormat;
using tandem::RoundingMode;
using tandem::SequenceBuilder;

#include "tandem/Dialect/Scaled/IR/CodeInterface.cpp.inc"
#include "tandem/Dialect/Scaled/IR/ScaledEnums.cpp.inc"

ParseResult tandem::scaled::parseCode(AsmParser &parser,
                                      CodeAttrInterface &code) {
  SMLoc location = parser.getCurrentLocation();
  Attribute attr;
  OptionalParseResult result = parser.parseOptionalAttribute(attr);
  if (result.has_value() && failed(*result))
    return failure();
  code = dyn_cast_if_present<CodeAttrInterface>(attr);
  if (code)
    return success();
  InFlightDiagnostic error = parser.emitError(location) << "expected a code";
  if (attr)
    error << ", got " << attr;
  return error
         << "; codes are #scaled.float, #scaled.pair, #scaled.minifloat, "
            "#scaled.softsign, #scaled.linear, #scaled.root, #scaled.mulaw, "
            "#scaled.dynamic and #scaled.expanded, as in "
            "#scaled.float<f8E4M3FN>";
}
void tandem::scaled::printCode(AsmPrinter &printer, CodeAttrInterface code) {
  printer << code;
}

// Parses the code that is stretched. A float is written only as its format.
static ParseResult parseStretched(AsmParser &parser, CodeAttrInterface &code) {
  SMLoc location = parser.getCurrentLocation();
  Type format;
  OptionalParseResult result = parser.parseOptionalType(format);
  if (!result.has_value())
    return parseCode(parser, code);
  if (failed(*result))
    return failure();
  auto attr = FloatCodeAttr::getChecked(
      [&] { return parser.emitError(location); }, parser.getContext(), format,
      RoundingMode::nearest);
  code = attr;
  return success(bool(attr));
}
static void printStretched(AsmPrinter &printer, CodeAttrInterface code) {
  auto plain = dyn_cast<FloatCodeAttr>(code);
  if (plain && plain.getRounding() == RoundingMode::nearest)
    printer << plain.getFormat();
  else
    printer << code;
}

// Parses the range of a stretched code, which has no suffix for f64.
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

/// Parses `, dither`, `, bits = 4`, both in this order, or nothing.
static ParseResult parseRoundingAndBits(AsmParser &parser,
                                        RoundingMode &rounding,
                                        unsigned &bits) {
  rounding = RoundingMode::nearest;
  bits = 8;
  if (failed(parser.parseOptionalComma()))
    return success();
  if (failed(parser.parseOptionalKeyword("bits"))) {
    FailureOr<RoundingMode> parsed = FieldParser<RoundingMode>::parse(parser);
    if (failed(parsed))
      return failure();
    rounding = *parsed;
    if (failed(parser.parseOptionalComma()))
      return success();
    if (parser.parseKeyword("bits"))
      return failure();
  }
  return failure(parser.parseEqual() || parser.parseInteger(bits));
}
static void printRoundingAndBits(AsmPrinter &printer, RoundingMode rounding,
                                 unsigned bits) {
  if (rounding != RoundingMode::nearest)
    printer << ", " << tandem::stringifyRoundingMode(rounding);
  if (bits != 8)
    printer << ", bits = " << bits;
}

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Scaled/IR/ScaledAttrs.cpp.inc"

void ScaledDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/Scaled/IR/ScaledAttrs.cpp.inc"
      >();
}

static double getLargestOf(Type format) {
  FloatFormat fields = FloatFormat::get(format);
  return fields.decode(fields.maxFinite());
}

/// Returns the smallest positive number of a format.
static float getSmallestOf(Type format) {
  return static_cast<float>(FloatFormat::get(format).decode(1));
}

/// Returns `value`'s type with another element type.
static Type withElement(Value value, Type element) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.clone(element) : element;
}

/// Builds the code of the number nearest to y, which saturates if `isFinite`,
/// with the target's own conversion.
static Value convertToCode(SequenceBuilder &b, Value y, Value isFinite,
                           Type format) {
  Type type = withElement(y, tandem::getBitsType(format));
  return EncodeFloatOp::create(b.builder, b.loc, type, y, isFinite, format,
                               /*exact=*/false);
}

/// Builds the code of one of the numbers around y.
static Value roundToCode(SequenceBuilder &b, Value y, Value isFinite,
                         Type format, RoundingMode rounding, Value random) {
  if (rounding == RoundingMode::nearest)
    return convertToCode(b, y, isFinite, format);
  FloatFormat fields = FloatFormat::get(format);
  Value oriented = orientBits(b, y, random, rounding);
  Value code =
      tandem::roundMagnitude(b, clampMagnitude(b, y, getLargestOf(format)),
                             fields, rounding, oriented);
  return b.resize(encodeFloat(b, y, isFinite, code, fields),
                  tandem::getBitsType(format));
}

Value tandem::scaled::convertFromCode(SequenceBuilder &b, Value code,
                                      Type format) {
  Type type = withElement(code, b.builder.getF32Type());
  return DecodeFloatOp::create(b.builder, b.loc, type, code, format);
}

//===----------------------------------------------------------------------===//
// FloatCodeAttr
//===----------------------------------------------------------------------===//

LogicalResult
FloatCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError, Type format,
                      RoundingMode rounding) {
  // (C1)
  if (!isa<Float8E4M3FNType, Float8E5M2Type, Float16Type>(format))
    return emitError() << "a float code is f8E4M3FN, f8E5M2 or f16, got "
                       << format << "; #scaled.minifloat writes other formats";
  // (C2)
  return verifyRounding(emitError, "a float code", rounding);
}

CodeAttrInterface FloatCodeAttr::getNearest() const {
  return get(getContext(), getFormat(), RoundingMode::nearest);
}

SmallVector<CodePlane> FloatCodeAttr::getPlanes() const {
  return {CodePlane{"", getFormat()}};
}
double FloatCodeAttr::getLargest() const { return getLargestOf(getFormat()); }
Value FloatCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value FloatCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

SmallVector<Value> FloatCodeAttr::encode(SequenceBuilder &b, Value y,
                                         const CodeInputs &inputs) const {
  y = raiseToSmallest(b, y, inputs.isPositive, getSmallestOf(getFormat()));
  return {roundToCode(b, y, inputs.isFinite, getFormat(), getRounding(),
                      inputs.random)};
}

Value FloatCodeAttr::decode(SequenceBuilder &b, ValueRange codes, Value) const {
  return convertFromCode(b, codes[0], getFormat());
}

//===----------------------------------------------------------------------===//
// PairCodeAttr
//===----------------------------------------------------------------------===//

LogicalResult PairCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   Type format, RoundingMode rounding) {
  // (C1)
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(format))
    return emitError() << "a pair's codes are f8E4M3FN or f8E5M2, got "
                       << format;
  // (C2)
  return verifyRounding(emitError, "a pair", rounding);
}

CodeAttrInterface PairCodeAttr::getNearest() const {
  return get(getContext(), getFormat(), RoundingMode::nearest);
}

SmallVector<CodePlane> PairCodeAttr::getPlanes() const {
  return {CodePlane{"", getFormat()}, CodePlane{".lo", getFormat()}};
}
double PairCodeAttr::getLargest() const { return getLargestOf(getFormat()); }
Value PairCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value PairCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

SmallVector<Value> PairCodeAttr::encode(SequenceBuilder &b, Value y,
                                        const CodeInputs &inputs) const {
  y = raiseToSmallest(b, y, inputs.isPositive, getSmallestOf(getFormat()));
  Value isFinite = inputs.isFinite;
  Value high = convertToCode(b, y, isFinite, getFormat());
  Value rest = b.sub(y, convertFromCode(b, high, getFormat()));
  rest = b.select(isFinite, rest, b.zero(rest.getType()));
  Value always = b.like(isFinite, true);
  return {high, roundToCode(b, rest, always, getFormat(), getRounding(),
                            inputs.random)};
}

Value PairCodeAttr::decode(SequenceBuilder &b, ValueRange codes, Value) const {
  Value low = convertFromCode(b, codes[1], getFormat());
  return b.add(convertFromCode(b, codes[0], getFormat()), low);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

/// Rounds a value in [0, 255] to the nearest integer, ties to even, as i32
/// bits. The result for any other value is unspecified.
static Value roundToInteger(SequenceBuilder &b, Value value) {
  // From 2^23 on, f32 holds only integers.
  Value anchor = b.real(value.getType(), 0x1p23);
  Value bits = b.bits(b.add(value, anchor));
  return b.andi(bits, b.like(bits, 0xFF));
}

/// Rounds a level to one of the integers around it, as i32 bits.
static Value roundByte(SequenceBuilder &b, Value level, RoundingMode rounding,
                       Value random) {
  return rounding == RoundingMode::nearest ? roundToInteger(b, level)
                                           : roundLevel(b, level, random);
}

/// Returns the smallest f32 whose level reaches 1. `guess` is near it.
static float findSmallest(float guess,
                          llvm::function_ref<float(float)> getLevel) {
  while (getLevel(guess) >= 1.0f)
    guess = std::nextafter(guess, 0.0f);
  while (getLevel(guess) < 1.0f)
    guess = std::nextafter(guess, 1.0f);
  return guess;
}

/// Returns the byte of a code, or the byte that stands for NaN in a group that
/// is not finite.
static Value chooseFinite(SequenceBuilder &b, Value isFinite, Value code,
                          uint64_t nan) {
  return b.resize(b.select(isFinite, code, b.like(code, nan)),
                  b.builder.getIntegerType(8));
}

/// Converts an integer in [0, 255] to f32 and subtracts `offset`, exactly.
static Value fromByte(SequenceBuilder &b, Value word, double offset = 0.0) {
  Value anchor = b.like(word, llvm::bit_cast<uint32_t>(0x1p23f));
  Value biased = b.bitcast(b.ori(word, anchor), b.builder.getF32Type());
  return b.sub(biased, b.real(biased.getType(), 0x1p23 + offset));
}

/// Converts a byte in two's complement to f32, exactly.
static Value fromSignedByte(SequenceBuilder &b, Value word) {
  return fromByte(b, b.xori(word, b.like(word, 0x80)), 128.0);
}

//===----------------------------------------------------------------------===//
// SoftsignCodeAttr
//===----------------------------------------------------------------------===//

static constexpr double softsignLevels = 127.0;
static constexpr uint64_t softsignNaN = 0x80;

CodeAttrInterface SoftsignCodeAttr::getNearest() const {
  return get(getContext(), RoundingMode::nearest);
}

SmallVector<CodePlane> SoftsignCodeAttr::getPlanes() const {
  return {CodePlane{"", IntegerType::get(getContext(), 8)}};
}
double SoftsignCodeAttr::getLargest() const { return 1.0; }
Value SoftsignCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value SoftsignCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

LogicalResult
SoftsignCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         RoundingMode rounding) {
  // (C1)
  return verifyRounding(emitError, "a softsign code", rounding);
}

/// Returns the smallest number that is stored as 1, as `encode` computes it.
static float getSmallestSoftsign() {
  return findSmallest(1.0f / 253.0f, [](float y) {
    float curve = (y + y) / (1.0f + y);
    return curve * static_cast<float>(softsignLevels);
  });
}

SmallVector<Value> SoftsignCodeAttr::encode(SequenceBuilder &b, Value y,
                                            const CodeInputs &inputs) const {
  y = raiseToSmallest(b, y, inputs.isPositive, getSmallestSoftsign());
  Value magnitude =
      b.bitcast(clampMagnitude(b, y, 1.0), b.builder.getF32Type());
  Value one = b.real(y.getType(), 1.0);
  Value divisor = b.add(one, magnitude);
  Value curve = b.div(b.add(magnitude, magnitude), divisor);
  Value levels = b.mul(curve, b.real(y.getType(), softsignLevels));
  Value code = roundSignedLevel(b, y, levels, inputs.random, getRounding());
  return {chooseFinite(b, inputs.isFinite, code, softsignNaN)};
}

Value SoftsignCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                               Value) const {
  Value word = b.resize(codes[0], b.builder.getI32Type());
  Value w = divideInteger(b, fromSignedByte(b, word), softsignLevels);
  Value z = b.div(w, b.sub(b.real(w.getType(), 2.0), b.abs(w)));
  Value isNaN =
      b.compare(arith::CmpIPredicate::eq, word, b.like(word, softsignNaN));
  return b.select(isNaN, b.fromBits(z.getType(), tandem::f32QuietNaN), z);
}

//===----------------------------------------------------------------------===//
// LinearCodeAttr
//===----------------------------------------------------------------------===//

LogicalResult
LinearCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       unsigned bits, RoundingMode rounding) {
  // (C2)
  if (bits != 4 && bits != 8)
    return emitError() << "a linear code has 4 or 8 bits, got " << bits;
  // (C1)
  return verifyRounding(emitError, "a linear code", rounding);
}

CodeAttrInterface LinearCodeAttr::getNearest() const {
  return get(getContext(), getBits(), RoundingMode::nearest);
}

SmallVector<CodePlane> LinearCodeAttr::getPlanes() const {
  return {CodePlane{"", IntegerType::get(getContext(), 8),
                    codesPerByte(getBits())}};
}
double LinearCodeAttr::getLargest() const {
  return double((1 << (getBits() - 1)) - 1);
}
Value LinearCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value LinearCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

/// The code of NaN is only the sign bit.
SmallVector<Value> LinearCodeAttr::encode(SequenceBuilder &b, Value y,
                                          const CodeInputs &inputs) const {
  y = raiseToSmallest(b, y, inputs.isPositive, 1.0f);
  Value level =
      b.bitcast(clampMagnitude(b, y, getLargest()), b.builder.getF32Type());
  Value code = roundSignedLevel(b, y, level, inputs.random, getRounding());
  uint64_t nan = 1 << (getBits() - 1);
  Value byte = chooseFinite(b, inputs.isFinite, code, nan);
  // GPUs clear the upper halves of several bytes at once.
  return {b.andi(byte, b.like(byte, 2 * nan - 1))};
}

Value LinearCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                             Value) const {
  Value word = b.resize(codes[0], b.builder.getI32Type());
  uint64_t sign = 1 << (getBits() - 1);
  Value moved = b.xori(word, b.like(word, sign));
  Value number = fromByte(b, moved, double(sign));
  Value isNaN = b.compare(arith::CmpIPredicate::eq, word, b.like(word, sign));
  return b.select(isNaN, b.fromBits(number.getType(), tandem::f32QuietNaN),
                  number);
}

//===----------------------------------------------------------------------===//
// RootCodeAttr
//===----------------------------------------------------------------------===//

static constexpr double rootLevels = 254.0;
static constexpr uint64_t rootNaN = 0xFF;

CodeAttrInterface RootCodeAttr::getNearest() const {
  return get(getContext(), RoundingMode::nearest);
}

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

LogicalResult RootCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   RoundingMode rounding) {
  // (C1)
  return verifyRounding(emitError, "a root code", rounding);
}

/// Returns the smallest number that is stored as 1, as `encode` computes it.
static float getSmallestRoot() {
  return findSmallest(1.0f / 254.0f, [](float y) {
    return y * static_cast<float>(rootLevels);
  });
}

/// No number is negative, so that dithered bits need no orientation.
SmallVector<Value> RootCodeAttr::encode(SequenceBuilder &b, Value y,
                                        const CodeInputs &inputs) const {
  y = raiseToSmallest(b, y, inputs.isPositive, getSmallestRoot());
  Value z = b.bitcast(clampMagnitude(b, y, 1.0), b.builder.getF32Type());
  Value level = b.mul(z, b.real(z.getType(), rootLevels));
  Value code = roundByte(b, level, getRounding(), inputs.random);
  return {chooseFinite(b, inputs.isFinite, code, rootNaN)};
}

Value RootCodeAttr::decode(SequenceBuilder &b, ValueRange codes, Value) const {
  Value word = b.resize(codes[0], b.builder.getI32Type());
  Value level = fromByte(b, word);
  Value z = divideInteger(b, level, rootLevels);
  Value isNaN =
      b.compare(arith::CmpIPredicate::eq, word, b.like(word, rootNaN));
  return b.select(isNaN, b.fromBits(z.getType(), tandem::f32QuietNaN), z);
}
