//===- FloatOperations.cpp - Operations on floats -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the interpreter's operations on floats: arith and math.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Reference/Interpreter/Operations.h"

using namespace mlir;
using namespace tandem::reference;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

using RoundedBinary = SoftFloat (SoftFloat::*)(const SoftFloat &,
                                               SoftFloat::Rounding) const;
using ExactBinary = SoftFloat (SoftFloat::*)(const SoftFloat &) const;
using ExactUnary = SoftFloat (SoftFloat::*)() const;

template <RoundedBinary method>
static llvm::Error evaluateRounded(Evaluation &e) {
  return e.give((e.getReal(0).*method)(e.getReal(1), SoftFloat::kNearest));
}

template <ExactBinary method>
static llvm::Error evaluateChoice(Evaluation &e) {
  return e.give((e.getReal(0).*method)(e.getReal(1)));
}

/// Evaluates an operation on the sign, which preserves the payload of a NaN.
template <ExactUnary method>
static llvm::Error evaluateSign(Evaluation &e) {
  return e.giveUnchanged((e.getReal(0).*method)());
}

template <llvm::RoundingMode mode>
static llvm::Error evaluateIntegral(Evaluation &e) {
  return e.give(e.getReal(0).roundToIntegral(mode));
}

static llvm::Error evaluateCopySign(Evaluation &e) {
  return e.giveUnchanged(e.getReal(0).copySign(e.getReal(1)));
}

static llvm::Error evaluateSqrt(Evaluation &e) {
  return e.give(e.getReal(0).sqrt());
}

static llvm::Error evaluateFma(Evaluation &e) {
  return e.give(e.getReal(0).fma(e.getReal(1), e.getReal(2)));
}

static llvm::Error evaluatePower(Evaluation &e) {
  return e.give(power(e.getReal(0), e.getInteger(1).getSigned()));
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// Returns whether a predicate is true for the outcome of a comparison.
static bool holds(arith::CmpFPredicate predicate, Ordering ordering) {
  using P = arith::CmpFPredicate;
  bool less = ordering == Ordering::Less, equal = ordering == Ordering::Equal;
  bool greater = ordering == Ordering::Greater;
  bool unordered = ordering == Ordering::Unordered;
  switch (predicate) {
  case P::AlwaysFalse:
    return false;
  case P::OEQ:
    return equal;
  case P::OGT:
    return greater;
  case P::OGE:
    return greater || equal;
  case P::OLT:
    return less;
  case P::OLE:
    return less || equal;
  case P::ONE:
    return less || greater;
  case P::ORD:
    return !unordered;
  case P::UEQ:
    return unordered || equal;
  case P::UGT:
    return unordered || greater;
  case P::UGE:
    return unordered || greater || equal;
  case P::ULT:
    return unordered || less;
  case P::ULE:
    return unordered || less || equal;
  case P::UNE:
    return !equal;
  case P::UNO:
    return unordered;
  case P::AlwaysTrue:
    return true;
  }
  llvm_unreachable("every predicate is listed");
}

static llvm::Error evaluateCompare(Evaluation &e) {
  Ordering ordering = e.getReal(0).compare(e.getReal(1));
  return e.give(
      Integer(1, holds(e.as<arith::CmpFOp>().getPredicate(), ordering)));
}

template <bool (SoftFloat::*property)() const>
static llvm::Error evaluateProperty(Evaluation &e) {
  return e.give(Integer(1, (e.getReal(0).*property)()));
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

static llvm::Error evaluateExtension(Evaluation &e) {
  return e.give(e.getReal(0).convert(*getFormat(e.getResultElement())));
}

static llvm::Error evaluateTruncation(Evaluation &e) {
  auto mode = e.as<arith::TruncFOp>().getRoundingmode();
  if (mode && *mode != arith::RoundingMode::to_nearest_even)
    return e.fail("rounds to nearest even here; drop its rounding mode");
  return evaluateExtension(e);
}

static llvm::Error evaluateFromSigned(Evaluation &e) {
  return e.give(SoftFloat::fromInteger(*getFormat(e.getResultElement()),
                                       e.getInteger(0).getSigned()));
}

static llvm::Error evaluateFromUnsigned(Evaluation &e) {
  return e.give(SoftFloat::fromUnsigned(*getFormat(e.getResultElement()),
                                        e.getInteger(0).bits));
}

/// Truncates to an integer. A number that does not fit has no result in MLIR.
template <bool isSigned>
static llvm::Error evaluateToInteger(Evaluation &e) {
  unsigned width = e.getResultElement().getIntOrFloatBitWidth();
  SoftFloat whole =
      e.getReal(0).roundToIntegral(llvm::RoundingMode::TowardZero);
  std::optional<uint64_t> bits =
      whole.toInteger(width, isSigned, llvm::RoundingMode::TowardZero);
  if (!bits)
    return e.fail("has no value for a NaN");
  Integer result(width, *bits);
  SoftFloat back = isSigned
                       ? SoftFloat::fromInteger(Format::F64, result.getSigned())
                       : SoftFloat::fromUnsigned(Format::F64, result.bits);
  if (back.compare(whole.convert(Format::F64)) != Ordering::Equal)
    return e.fail("has no value for a number that does not fit in " +
                  llvm::Twine(width) + " bits");
  return e.give(result);
}

void tandem::reference::addFloatOperations(OperationTable &table) {
  table["arith.addf"] = evaluateRounded<&SoftFloat::add>;
  table["arith.subf"] = evaluateRounded<&SoftFloat::sub>;
  table["arith.mulf"] = evaluateRounded<&SoftFloat::mul>;
  table["arith.divf"] = evaluateRounded<&SoftFloat::div>;
  table["arith.maximumf"] = evaluateChoice<&SoftFloat::maximum>;
  table["arith.minimumf"] = evaluateChoice<&SoftFloat::minimum>;
  table["arith.maxnumf"] = evaluateChoice<&SoftFloat::maxNum>;
  table["arith.minnumf"] = evaluateChoice<&SoftFloat::minNum>;
  table["arith.negf"] = evaluateSign<&SoftFloat::neg>;
  table["math.absf"] = evaluateSign<&SoftFloat::abs>;
  table["math.copysign"] = evaluateCopySign;
  table["math.sqrt"] = evaluateSqrt;
  table["math.fma"] = evaluateFma;
  table["math.fpowi"] = evaluatePower;
  table["math.floor"] = evaluateIntegral<llvm::RoundingMode::TowardNegative>;
  table["math.ceil"] = evaluateIntegral<llvm::RoundingMode::TowardPositive>;
  table["math.trunc"] = evaluateIntegral<llvm::RoundingMode::TowardZero>;
  table["math.roundeven"] =
      evaluateIntegral<llvm::RoundingMode::NearestTiesToEven>;
  table["math.isnan"] = evaluateProperty<&SoftFloat::isNaN>;
  table["math.isinf"] = evaluateProperty<&SoftFloat::isInf>;
  table["math.isfinite"] = evaluateProperty<&SoftFloat::isFinite>;
  table["arith.cmpf"] = evaluateCompare;
  table["arith.extf"] = evaluateExtension;
  table["arith.truncf"] = evaluateTruncation;
  table["arith.sitofp"] = evaluateFromSigned;
  table["arith.uitofp"] = evaluateFromUnsigned;
  table["arith.fptosi"] = evaluateToInteger</*isSigned=*/true>;
  table["arith.fptoui"] = evaluateToInteger</*isSigned=*/false>;
}
