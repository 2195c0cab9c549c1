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

bool tandem::mayHoldInPadding(SetFlagOp setFlag) {
  SetVector<Operation *> slice;
  if (failed(getBackwardSlice(setFlag.getOperation(), &slice)))
    return true;
  Constants known;
  for (Operation *op : slice)
    if (op->getBlock() == setFlag->getBlock() && op->getNumResults() == 1)
      if (Attribute value = evaluate(op, known))
        known[op->getResult(0)] = value;
  Attribute condition = known.lookup(setFlag.getCondition());
  return !condition || !matchPattern(condition, m_Zero());
}
