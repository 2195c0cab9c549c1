//===- MinifloatCode.cpp - Floats of any small width ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the code interface for floats of any exponent and
// mantissa width, and how they are written.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

using namespace mlir;
using namespace tandem::scaled;
using tandem::FloatFormat;
using tandem::RoundingMode;
using tandem::SequenceBuilder;
using tandem::Specials;

//===----------------------------------------------------------------------===//
// Parsing and printing
//===----------------------------------------------------------------------===//

static constexpr StringLiteral specialsNames[] = {"ieee", "nan",
                                                  "negative_zero", "none"};

/// Parses one of an enumeration's names, which are in the order of its values.
template <typename EnumT>
static ParseResult parseName(AsmParser &parser, ArrayRef<StringLiteral> names,
                             EnumT &value) {
  SMLoc location = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseKeyword(&name))
    return failure();
  const auto *found = llvm::find(names, name);
  if (found == names.end())
    return parser.emitError(location)
           << "expected one of " << llvm::join(names, ", ") << ", got '" << name
           << "'";
  value = static_cast<EnumT>(found - names.begin());
  return success();
}

static ParseResult parseRounding(AsmParser &parser, RoundingMode &rounding) {
  FailureOr<RoundingMode> parsed = FieldParser<RoundingMode>::parse(parser);
  if (failed(parsed))
    return failure();
  rounding = *parsed;
  return success();
}

static ParseResult parseExponents(AsmParser &parser,
                                  std::optional<ExponentRange> &exponents) {
  exponents.emplace();
  return failure(parser.parseLSquare() ||
                 parser.parseInteger(exponents->least) || parser.parseComma() ||
                 parser.parseInteger(exponents->most) || parser.parseRSquare());
}

namespace {
/// The parameters of a minifloat that are written in its text.
struct Parameters {
  std::optional<unsigned> exponent, mantissa;
  std::optional<int64_t> bias;
  Specials specials = Specials::nan;
  RoundingMode rounding = RoundingMode::nearest;
  std::optional<ExponentRange> exponents;
  llvm::StringSet<> seen;

  ParseResult parse(AsmParser &parser);
};
} // namespace

/// Parses one parameter with its name. Parameters may come in any order.
ParseResult Parameters::parse(AsmParser &parser) {
  StringRef name;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&name) || parser.parseEqual())
    return failure();
  if (!seen.insert(name).second)
    return parser.emitError(location) << "'" << name << "' stands twice";
  if (name == "exponent")
    return parser.parseInteger(exponent.emplace());
  if (name == "mantissa")
    return parser.parseInteger(mantissa.emplace());
  if (name == "bias")
    return parser.parseInteger(bias.emplace());
  if (name == "specials")
    return parseName(parser, specialsNames, specials);
  if (name == "rounding")
    return parseRounding(parser, rounding);
  if (name == "exponents")
    return parseExponents(parser, exponents);
  return parser.emitError(location)
         << "a minifloat has no parameter '" << name
         << "'; expected exponent, mantissa, bias, specials, rounding or "
            "exponents";
}

static int64_t getDefaultBias(unsigned exponent) {
  return (int64_t(1) << (std::clamp(exponent, 1u, 8u) - 1)) - 1;
}

Attribute MinifloatCodeAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  Parameters p;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     [&] { return p.parse(parser); }))
    return {};
  if (!p.exponent || !p.mantissa) {
    parser.emitError(location) << "a minifloat needs exponent and mantissa";
    return {};
  }
  return MinifloatCodeAttr::getChecked(
      [&] { return parser.emitError(location); }, parser.getContext(),
      *p.exponent, *p.mantissa, p.bias.value_or(getDefaultBias(*p.exponent)),
      p.specials, p.rounding, p.exponents);
}

void MinifloatCodeAttr::print(AsmPrinter &printer) const {
  printer << "<exponent = " << getExponent()
          << ", mantissa = " << getMantissa();
  if (getBias() != getDefaultBias(getExponent()))
    printer << ", bias = " << getBias();
  if (getSpecials() != Specials::nan)
    printer << ", specials = " << specialsNames[unsigned(getSpecials())];
  if (getRounding() != RoundingMode::nearest)
    printer << ", rounding = " << getRounding();
  if (getExponents())
    printer << ", exponents = [" << getExponents()->least << ", "
            << getExponents()->most << "]";
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Verifies (C1) and (C2).
static LogicalResult verifyFields(function_ref<InFlightDiagnostic()> emitError,
                                  unsigned exponent, unsigned mantissa,
                                  Specials specials) {
  bool isNarrow =
      mantissa <= 10 && exponent + mantissa >= 2 && exponent + mantissa <= 15;
  if (exponent < 1 || exponent > 8 ||
      !(isNarrow || (exponent == 8 && mantissa <= 23)))
    return emitError() << "a minifloat has 1 to 8 exponent bits, 0 to 10 "
                          "mantissa bits and 2 to 15 of both, or 8 exponent "
                          "bits and up to 23 mantissa bits, got "
                       << exponent << " and " << mantissa;
  bool isIEEE = specials == Specials::ieee;
  if (isIEEE && (exponent < 2 || mantissa < 1))
    return emitError()
           << "specials = ieee takes 2 exponent bits and 1 mantissa "
              "bit at least, got "
           << exponent << " and " << mantissa;
  bool isPowers = mantissa == 0 && specials == Specials::nan;
  if (exponent == 8 && !isIEEE && !isPowers)
    return emitError() << "8 exponent bits take specials = ieee, as f32 does; "
                          "without mantissa bits they take specials = nan";
  return success();
}

LogicalResult
MinifloatCodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          unsigned exponent, unsigned mantissa, int64_t bias,
                          Specials specials, RoundingMode,
                          std::optional<ExponentRange> exponents) {
  if (failed(verifyFields(emitError, exponent, mantissa, specials)))
    return failure();
  // (C3)
  FloatFormat format{exponent, mantissa, 0, specials};
  int64_t highest = format.maxFinite() >> mantissa;
  int64_t leastBias = highest - 127, mostBias = 150 - int64_t(mantissa);
  if (bias < leastBias || bias > mostBias)
    return emitError() << "the numbers of a minifloat are numbers of f32, for "
                          "which the bias is "
                       << leastBias << " to " << mostBias << ", got " << bias;
  // (C4)
  int64_t least = 1 - bias, most = highest - bias;
  if (!exponents ||
      (least <= exponents->least && exponents->least <= exponents->most &&
       exponents->most <= most))
    return success();
  return emitError() << "exponents are a range within [" << least << ", "
                     << most << "], got [" << exponents->least << ", "
                     << exponents->most << "]";
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

FloatFormat MinifloatCodeAttr::getFormat() const {
  return {getExponent(), getMantissa(), int(getBias()), getSpecials()};
}
CodeAttrInterface MinifloatCodeAttr::getNearest() const {
  if (!tandem::drawsBits(getRounding()))
    return *this;
  return get(getContext(), getExponent(), getMantissa(), getBias(),
             getSpecials(), RoundingMode::nearest, getExponents());
}

SmallVector<CodePlane> MinifloatCodeAttr::getPlanes() const {
  unsigned bits = getFormat().width();
  unsigned width = bits <= 8 ? 8 : bits <= 16 ? 16 : 32;
  return {
      CodePlane{"", IntegerType::get(getContext(), width), codesPerByte(bits)}};
}
double MinifloatCodeAttr::getLargest() const {
  FloatFormat format = getFormat();
  double largest = format.decode(format.maxFinite());
  if (!getExponents())
    return largest;
  double limit = 2.0 - std::ldexp(1.0, -int(getMantissa()));
  return std::min(largest, std::ldexp(limit, getExponents()->most));
}
Value MinifloatCodeAttr::prepare(SequenceBuilder &, Value x) const { return x; }
Value MinifloatCodeAttr::finish(SequenceBuilder &, Value x) const { return x; }

/// Returns the exponent that smaller magnitudes are raised to, if it is not the
/// format's own, below which there are subnormal numbers.
static std::optional<int64_t> getRaisedExponent(MinifloatCodeAttr code) {
  auto exponents = code.getExponents();
  if (!exponents || exponents->least == code.getFormat().minExponent())
    return std::nullopt;
  return exponents->least;
}

SmallVector<Value> MinifloatCodeAttr::encode(SequenceBuilder &b, Value y,
                                             const CodeInputs &inputs) const {
  FloatFormat format = getFormat();
  std::optional<int64_t> raised = getRaisedExponent(*this);
  double smallest = raised ? std::ldexp(1.0, *raised) : format.decode(1);
  y = raiseToSmallest(b, y, inputs.isPositive, static_cast<float>(smallest));
  Value magnitude = clampMagnitude(b, y, getLargest());
  if (raised) {
    float least = std::ldexp(1.0f, *raised);
    Value atLeast = arith::MaxUIOp::create(
        b.builder, b.loc, magnitude,
        b.like(magnitude, llvm::bit_cast<uint32_t>(least)));
    Value isZero =
        b.compare(arith::CmpIPredicate::eq, magnitude, b.like(magnitude, 0));
    magnitude = b.select(isZero, magnitude, atLeast);
  }
  Value random = orientBits(b, y, inputs.random, getRounding());
  Value code =
      tandem::roundMagnitude(b, magnitude, format, getRounding(), random,
                             /*hasSubnormals=*/!raised);
  Value word = encodeFloat(b, y, inputs.isFinite, code, format);
  return {b.resize(word, getPlanes().front().elementType)};
}

/// Returns whether a format is f16, which targets have conversions from.
static bool isHalf(FloatFormat format) {
  return format.exponentBits == 5 && format.mantissaBits == 10 &&
         format.bias == 15 && format.specials == Specials::ieee;
}

Value MinifloatCodeAttr::decode(SequenceBuilder &b, ValueRange codes,
                                Value) const {
  Type f16 = b.builder.getF16Type();
  if (isHalf(getFormat()))
    return convertFromCode(b, codes[0], f16);
  return decodeFloat(b, codes[0], getFormat());
}
