//===- ExpandOperations.cpp - Apply patterns in one walk ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the driver of conversions that need no type conversion.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/ExpandOperations.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

using namespace mlir;

namespace {
struct ErasureCounter : public RewriterBase::Listener {
  void notifyOperationErased(Operation *) override { ++count; }

  unsigned count = 0;
};
} // namespace

unsigned tandem::expandOperations(Operation *top,
                                  const FrozenRewritePatternSet &patterns) {
  ErasureCounter counter;
  walkAndApplyPatterns(top, patterns, &counter);
  return counter.count;
}
