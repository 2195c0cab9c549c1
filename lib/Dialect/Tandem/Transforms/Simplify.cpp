//===- Simplify.cpp - Fold and remove dead code ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that folds constants and removes dead
// operations.
//
//===----------------------------------------------------------------------===//

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_SIMPLIFY
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

namespace {
struct SimplifyPass : public tandem::impl::SimplifyBase<SimplifyPass> {
  void runOnOperation() override {
    // Not converging is no failure: what is left is correct as it is.
    (void)applyPatternsGreedily(getOperation(), FrozenRewritePatternSet());
  }
};
} // namespace
