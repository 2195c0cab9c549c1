//===- PaddingLanes.cpp - Lanes beyond a tensor's end ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the analysis of the values in lanes without an element.
// It folds what is computed from zeros.
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

/// Evaluates an operation with one result whose plane loads return zero.
/// Returns null if the result is not known.
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
  // Folding may modify the operation.
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

/// Evaluates the operations on which `end` depends and that precede it in its
/// block. Returns the results that `evaluate` knows.
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

/// Returns whether an operation propagates non-finite values, or drops them as
/// magnitudes that do not count.
static bool keepsNonFinite(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp,
             math::AbsFOp, math::SqrtOp, math::FmaOp, arith::BitcastOp,
             arith::AndIOp, arith::OrIOp, arith::CmpIOp, arith::SelectOp>(op);
}

static bool isZero(Attribute value) {
  return value && (matchPattern(value, m_Zero()) ||
                   matchPattern(value, m_AnyZeroFloat()));
}

/// Returns the scalar that is broadcast to all lanes of a vector, or the value
/// itself.
static Value getScalar(Value value) {
  auto broadcast = value.getDefiningOp<vector::BroadcastOp>();
  return broadcast ? broadcast.getSource() : value;
}

/// Returns whether an fma adds to the product of a constant with a scale the
/// negative of that product, as the decoding of a code for 0 does.
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
  // The products of zeros with scalars that may be infinite or NaN, and values
  // computed from these products.
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
