//===- Reductions.cpp - The steps of reductions ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the steps from which every target builds its reductions.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Reductions.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tandem;

Reduction tandem::getReduction(Operation *op) {
  auto partial = dyn_cast<PartialOp>(op);
  return {partial ? partial.getKind() : ReduceKind::sum,
          getElementTypeOrSelf(op->getOperand(0).getType())};
}

Value tandem::buildIdentity(SequenceBuilder &b, ReduceKind kind, Type type) {
  if (kind == ReduceKind::sum)
    return b.real(type, -0.0);
  return b.integer(type, kind == ReduceKind::max ? 0 : ~uint64_t(0));
}

Value tandem::buildJoin(SequenceBuilder &b, ReduceKind kind, Value x, Value y) {
  if (kind == ReduceKind::sum)
    return b.add(x, y);
  if (kind == ReduceKind::max)
    return arith::MaxUIOp::create(b.builder, b.loc, x, y);
  return arith::MinUIOp::create(b.builder, b.loc, x, y);
}

Value tandem::buildExtreme(SequenceBuilder &b, ReduceKind kind, Value vector) {
  return vector::ReductionOp::create(b.builder, b.loc,
                                     kind == ReduceKind::max
                                         ? vector::CombiningKind::MAXUI
                                         : vector::CombiningKind::MINUI,
                                     vector);
}

Value tandem::buildLaneNumbers(SequenceBuilder &b, VectorType type) {
  SmallVector<llvm::APInt> lanes;
  for (int64_t lane = 0; lane < type.getNumElements(); ++lane)
    lanes.emplace_back(type.getElementTypeBitWidth(), lane);
  return arith::ConstantOp::create(b.builder, b.loc,
                                   DenseElementsAttr::get(type, lanes));
}

Value tandem::buildLaneMask(SequenceBuilder &b, Value numbers, Value count) {
  Value limit =
      vector::BroadcastOp::create(b.builder, b.loc, numbers.getType(), count);
  return b.compare(arith::CmpIPredicate::slt, numbers, limit);
}
