//===- Simplify.cpp - Fold and remove dead code ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that folds constants, removes dead operations
// and gives the factors of an fma one order.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "tandem/Dialect/Arith/Utils/SelfComparison.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_SIMPLIFY
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Returns whether one value of a block is defined before another.
static bool isBefore(Value a, Value b) {
  if (a.getParentBlock() != b.getParentBlock())
    return false;
  auto argument = dyn_cast<BlockArgument>(a),
       other = dyn_cast<BlockArgument>(b);
  if (argument && other)
    return argument.getArgNumber() < other.getArgNumber();
  if (argument || other)
    return bool(argument);
  return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
}

/// Orders the factors, so that fma(a, b, c) and fma(b, a, c) are one operation
/// to CSE, as they are to LLVM.
static void orderFactors(math::FmaOp op) {
  Value a = op.getA(), b = op.getB();
  if (!isBefore(b, a))
    return;
  op.getAMutable().assign(b);
  op.getBMutable().assign(a);
}

static void foldSelfComparison(arith::CmpFOp op) {
  std::optional<bool> result = compareWithItself(op);
  if (!result)
    return;
  OpBuilder builder(op);
  TypedAttr value = builder.getBoolAttr(*result);
  if (auto shaped = dyn_cast<ShapedType>(op.getType()))
    value = DenseElementsAttr::get(shaped, *result);
  op.replaceAllUsesWith(
      arith::ConstantOp::create(builder, op.getLoc(), value).getResult());
}

namespace {
struct SimplifyPass : public tandem::impl::SimplifyBase<SimplifyPass> {
  void runOnOperation() override {
    getOperation()->walk(foldSelfComparison);
    // Not converging is not a failure, because the remaining code is correct.
    (void)applyPatternsGreedily(getOperation(), FrozenRewritePatternSet());
    getOperation()->walk(orderFactors);
  }
};
} // namespace
