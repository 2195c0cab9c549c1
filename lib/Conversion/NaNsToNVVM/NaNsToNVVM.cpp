//===- NaNsToNVVM.cpp - NaNs of NVIDIA chips ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of tests for NaN to what an NVIDIA chip
// needs: nothing after its own arithmetic, which gives only canonical NaNs, and
// elsewhere one comparison.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/NaNsToNVVM.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Conversion/ExpandOperations.h"
#include "tandem/Conversion/TandemToNVVM/Passes.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTNANSTONVVM
#include "tandem/Conversion/TandemToNVVM/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

static bool isConstant(Value value, uint64_t constant) {
  llvm::APInt found;
  return matchPattern(value, m_ConstantInt(&found)) &&
         found.getZExtValue() == constant;
}

/// Returns whether LLVM might drop an operation on a value or move its sign to
/// the result: the value is 0, 1 or -1, or a negation.
static bool mightVanish(Value operand) {
  while (auto broadcast = operand.getDefiningOp<vector::BroadcastOp>())
    operand = broadcast.getSource();
  llvm::APFloat constant(0.0f);
  if (matchPattern(operand, m_ConstantFloat(&constant)))
    return constant.isZero() || abs(constant).isExactlyValue(1.0);
  return operand.getDefiningOp<arith::NegFOp>() != nullptr;
}

/// Returns whether an operation is one of the arithmetic instructions whose
/// result, where it is not a number, is the canonical NaN: an operand's NaN
/// never shows.
static bool isArithmetic(Operation *op) {
  return isa_and_present<arith::AddFOp, arith::SubFOp, arith::MulFOp,
                         math::FmaOp>(op) &&
         llvm::none_of(op->getOperands(), mightVanish);
}

/// Returns whether a float, where it is not a number, is the canonical NaN. A
/// conversion may vanish together with that of its operand, but not with
/// arithmetic.
static bool hasCanonicalNaN(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto narrow = dyn_cast_or_null<arith::TruncFOp>(op))
    op = narrow.getIn().getDefiningOp();
  return isArithmetic(op);
}

static Value stripBitcasts(Value value) {
  while (auto bitcast = value.getDefiningOp<arith::BitcastOp>())
    value = bitcast.getIn();
  return value;
}

/// Returns whether a value has a type whose arithmetic NVIDIA chips have.
static bool isChipFloat(Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  return type.isF32() || type.isBF16() || type.isF16();
}

/// Returns the float whose magnitude is compared with infinity's, or null.
static Value matchComparedBits(arith::CmpIOp compare) {
  auto magnitude = compare.getLhs().getDefiningOp<arith::AndIOp>();
  if (!magnitude || compare.getPredicate() != arith::CmpIPredicate::ugt)
    return {};
  Value number = stripBitcasts(magnitude.getLhs());
  if (!isChipFloat(number))
    return {};
  FloatFormat format = FloatFormat::get(getElementTypeOrSelf(number.getType()));
  bool isTest = isConstant(magnitude.getRhs(), format.magnitudeMask()) &&
                isConstant(compare.getRhs(), format.infinity());
  return isTest ? number : Value();
}

/// Returns the float for which a condition tests whether it is a NaN, or null.
static Value matchNaNTest(Value condition) {
  if (auto compare = condition.getDefiningOp<arith::CmpIOp>())
    return matchComparedBits(compare);
  auto compare = condition.getDefiningOp<arith::CmpFOp>();
  if (!compare || compare.getPredicate() != arith::CmpFPredicate::UNO ||
      compare.getLhs() != compare.getRhs())
    return {};
  Value number = stripBitcasts(compare.getLhs());
  return isChipFloat(number) ? number : Value();
}

/// Returns whether only the lower 16 of the 32 bits of an integer can be set.
static bool isHalf(Value value) {
  llvm::APInt constant;
  if (auto shift = value.getDefiningOp<arith::ShRUIOp>())
    return matchPattern(shift.getRhs(), m_ConstantInt(&constant)) &&
           constant.uge(16);
  if (auto either = value.getDefiningOp<arith::XOrIOp>())
    return isHalf(either.getLhs()) && isHalf(either.getRhs());
  return false;
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Drops the selection of the canonical NaN for a float that has no other NaN.
static LogicalResult dropChoice(arith::SelectOp op, PatternRewriter &rewriter) {
  Value number = matchNaNTest(op.getCondition());
  if (!number || stripBitcasts(op.getFalseValue()) != number)
    return rewriter.notifyMatchFailure(op, "this is no choice of a NaN");
  FloatFormat format = FloatFormat::get(getElementTypeOrSelf(number.getType()));
  if (!isConstant(op.getTrueValue(), format.canonicalNaN()) ||
      !hasCanonicalNaN(number))
    return rewriter.notifyMatchFailure(op, "another NaN may be there");
  rewriter.replaceOp(op, op.getFalseValue());
  return success();
}

/// Limits the bits of an f32 to those of bf16's NaN before 16 random bits are
/// added, instead of selecting that NaN after the sum. As signed integers, all
/// numbers and infinities are less than the limit, and the canonical NaN of an
/// f32 is greater.
static LogicalResult limitBits(arith::SelectOp op, PatternRewriter &rewriter) {
  constexpr uint32_t nan = 0x7FFF;
  Value number = matchNaNTest(op.getCondition());
  auto shift = op.getFalseValue().getDefiningOp<arith::ShRUIOp>();
  auto sum =
      shift ? shift.getLhs().getDefiningOp<arith::AddIOp>() : arith::AddIOp();
  if (!number || !sum || stripBitcasts(sum.getLhs()) != number ||
      !isConstant(shift.getRhs(), 16) || !isHalf(sum.getRhs()))
    return rewriter.notifyMatchFailure(op, "no random bits are added");
  if (!isConstant(op.getTrueValue(), nan) || !hasCanonicalNaN(number))
    return rewriter.notifyMatchFailure(op, "another NaN may be there");
  SequenceBuilder b(rewriter, op.getLoc());
  Value limited = arith::MinSIOp::create(rewriter, op.getLoc(), sum.getLhs(),
                                         b.like(sum, nan << 16));
  rewriter.replaceOp(op, b.shr(b.addi(limited, sum.getRhs()), 16));
  return success();
}

/// Replaces the comparison of a magnitude with infinity by a test for NaN.
static LogicalResult compareFloats(arith::CmpIOp op,
                                   PatternRewriter &rewriter) {
  auto magnitude = op.getLhs().getDefiningOp<arith::AndIOp>();
  bool isAboveInfinity = op.getPredicate() == arith::CmpIPredicate::ugt &&
                         isConstant(op.getRhs(), f32Infinity);
  if (!magnitude || !isAboveInfinity ||
      !isConstant(magnitude.getRhs(), f32Magnitude))
    return rewriter.notifyMatchFailure(op, "this is not a search for a NaN");
  SequenceBuilder b(rewriter, op.getLoc());
  Value number = b.bitcast(magnitude.getLhs(), rewriter.getF32Type());
  rewriter.replaceOp(op, b.compare(arith::CmpFPredicate::UNO, number, number));
  return success();
}

void tandem::populateNaNsToNVVMPatterns(RewritePatternSet &patterns) {
  patterns.add(dropChoice);
  patterns.add(limitBits);
  patterns.add(compareFloats);
}

namespace {
struct ConvertNaNsToNVVMPass
    : public tandem::ExpandOperationsPass<
          tandem::impl::ConvertNaNsToNVVMBase<ConvertNaNsToNVVMPass>> {
  LogicalResult populate(RewritePatternSet &set) override {
    tandem::populateNaNsToNVVMPatterns(set);
    return success();
  }
};
} // namespace
