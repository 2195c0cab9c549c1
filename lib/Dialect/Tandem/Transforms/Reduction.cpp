//===- Reduction.cpp - Smaller graphs for tandem-reduce -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the patterns by which tandem-reduce makes graphs and
// kernels smaller: a value is replaced by one of what it is made of.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Transforms/Reduction.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Reducer/ReductionPatternInterface.h"
#include "mlir/Reducer/Tester.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// Replaces an operation by an operand of its type, if what is left is still
/// interesting.
class TakeOperand : public RewritePattern {
public:
  TakeOperand(MLIRContext *context, Tester &tester)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context),
        tester(tester) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumResults() != 1 || op->getNumRegions() || op->use_empty() ||
        !isPure(op))
      return failure();
    for (Value operand : op->getOperands())
      if (operand.getType() == op->getResult(0).getType() &&
          isInteresting(op, operand)) {
        rewriter.replaceOp(op, operand);
        return success();
      }
    return failure();
  }

private:
  bool isInteresting(Operation *op, Value operand) const {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getResult(0).getUses())
      uses.push_back(&use);
    for (OpOperand *use : uses)
      use->set(operand);
    auto result = tester.isInteresting(op->getParentOfType<ModuleOp>());
    for (OpOperand *use : uses)
      use->set(op->getResult(0));
    return result.first == Tester::Interestingness::True;
  }

  Tester &tester;
};

struct ReductionPatterns : public DialectReductionPatternInterface {
  ReductionPatterns(Dialect *dialect)
      : DialectReductionPatternInterface(dialect) {}

  void populateReductionPatterns(RewritePatternSet &) const override {}
  void populateReductionPatternsWithTester(RewritePatternSet &patterns,
                                           Tester &tester) const override {
    patterns.add<TakeOperand>(patterns.getContext(), tester);
  }
};
} // namespace

void mlir::tandem::registerReductionPatterns(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *, TandemDialect *dialect) {
    dialect->addInterfaces<ReductionPatterns>();
  });
}
