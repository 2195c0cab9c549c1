//===- PaddingLanes.cpp - Lanes beyond a tensor's end ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the analysis of what the lanes of a vector hold that
// have no element, by folding what is computed from zeros.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/PaddingLanes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tandem;

using Constants = llvm::DenseMap<Value, Attribute>;

/// The value of an operation's one result; null where it is not known.
static Attribute evaluate(Operation *op, const Constants &known) {
  if (auto load = dyn_cast<LoadPlaneOp>(op))
    return load.getElementsPerEntry() == 1
               ? Builder(op).getZeroAttr(load.getType())
               : Attribute();
  if (op->getNumResults() != 1 || op->getNumRegions() != 0 ||
      !isMemoryEffectFree(op))
    return {};
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands())
    operands.push_back(known.lookup(operand));
  // Folding may change the operation.
  Operation *copy = op->clone();
  SmallVector<OpFoldResult> results;
  bool isFolded = succeeded(copy->fold(operands, results)) && !results.empty();
  copy->destroy();
  if (!isFolded)
    return {};
  if (auto value = dyn_cast<Value>(results[0]))
    return known.lookup(value);
  return cast<Attribute>(results[0]);
}

/// Returns what the operations before one in its block make of zeros, as far as
/// `evaluate` knows it.
static Constants evaluateSlice(
    Operation *end,
    function_ref<Attribute(Operation *, const Constants &)> evaluate) {
  SetVector<Operation *> slice;
  Constants known;
  if (failed(getBackwardSlice(end, &slice)))
    return known;
  for (Operation *op : slice)
    if (op->getBlock() == end->getBlock() && op->getNumResults() == 1)
      if (Attribute value = evaluate(op, known))
        known[op->getResult(0)] = value;
  return known;
}

bool tandem::mayHoldInPadding(SetFlagOp setFlag) {
  Attribute condition =
      evaluateSlice(setFlag, evaluate).lookup(setFlag.getCondition());
  return !condition || !matchPattern(condition, m_Zero());
}

/// Whether an operation makes of what is not finite something that is not
/// finite, or leaves it out as a magnitude that does not count.
static bool keepsNonFinite(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp,
             math::AbsFOp, math::SqrtOp, math::FmaOp, arith::BitcastOp,
             arith::AndIOp, arith::OrIOp, arith::CmpIOp, arith::SelectOp>(op);
}

static bool isZero(Attribute value) {
  return value && (matchPattern(value, m_Zero()) ||
                   matchPattern(value, m_AnyZeroFloat()));
}

/// A value that a vector has in all lanes, or the value itself.
static Value getScalar(Value value) {
  auto broadcast = value.getDefiningOp<vector::BroadcastOp>();
  return broadcast ? broadcast.getSource() : value;
}

/// Whether an fma adds to a constant's product with a scale the negative of it:
/// a code that stands for 0 is read like that.
static bool isDifferenceOfProducts(Operation *op, const Constants &known) {
  auto fma = dyn_cast<math::FmaOp>(op);
  if (!fma)
    return false;
  auto product = getScalar(fma.getC()).getDefiningOp<arith::MulFOp>();
  llvm::APFloat factor(0.0f), negative(0.0f);
  if (!product || !matchPattern(product.getRhs(), m_ConstantFloat(&negative)))
    return false;
  auto matches = [&](Value scale, Value sum) {
    Attribute constant = known.lookup(sum);
    return product.getLhs() == getScalar(scale) && constant &&
           matchPattern(constant, m_ConstantFloat(&factor)) &&
           factor == neg(negative);
  };
  return matches(fma.getA(), fma.getB()) || matches(fma.getB(), fma.getA());
}

bool tandem::isZeroInPadding(Operation *reduce, Value value) {
  // Products of zeros and scalars that may be infinite or NaN, and what
  // follows.
  DenseSet<Value> products;
  auto evaluateProducts = [&](Operation *op, const Constants &known) {
    Attribute result = evaluate(op, known);
    bool isProduct = llvm::any_of(
        op->getOperands(), [&](Value x) { return products.contains(x); });
    if (isProduct && !keepsNonFinite(op))
      return Attribute();
    bool hasZero = llvm::any_of(
        op->getOperands(), [&](Value x) { return isZero(known.lookup(x)); });
    if (!result && ((isa<arith::MulFOp>(op) && hasZero) ||
                    isDifferenceOfProducts(op, known))) {
      result = Builder(op).getZeroAttr(op->getResult(0).getType());
      isProduct = true;
    }
    if (result && isProduct)
      products.insert(op->getResult(0));
    return result;
  };
  return isZero(evaluateSlice(reduce, evaluateProducts).lookup(value));
}
