//===- ExpandOperations.h - Apply patterns in one walk ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the driver of conversions that convert no types.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_EXPANDOPERATIONS_H
#define TANDEM_CONVERSION_EXPANDOPERATIONS_H

#include "mlir/IR/PatternMatch.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Applies patterns to the operations in `top`, each once and in order, without
/// folding, so that only patterns create operations. Returns the number of
/// operations that the patterns have erased.
unsigned expandOperations(Operation *top,
                          const FrozenRewritePatternSet &patterns);

/// A pass that applies its patterns with `expandOperations` and counts in the
/// statistic `numConverted`. `BaseT` is the class that is generated for it.
template <typename BaseT>
class ExpandOperationsPass : public BaseT {
public:
  using BaseT::BaseT;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    if (failed(populate(set)))
      return failure();
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    this->numConverted += expandOperations(this->getOperation(), patterns);
  }

private:
  /// Adds the patterns; fails with an error if an option is invalid.
  virtual LogicalResult populate(RewritePatternSet &set) = 0;

  FrozenRewritePatternSet patterns;
};

} // namespace tandem

#endif // TANDEM_CONVERSION_EXPANDOPERATIONS_H
