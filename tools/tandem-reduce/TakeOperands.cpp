//===- TakeOperands.cpp - Smaller computations ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a pass of tandem-reduce that replaces values by operands
// of their operations. MLIR's -reduction-tree removes ranges of operations, and
// cannot remove one in the middle of a computation.
//
//===----------------------------------------------------------------------===//

#include "TakeOperands.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Reducer/Tester.h"

using namespace mlir;

namespace {
class TakeOperandsPass
    : public PassWrapper<TakeOperandsPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TakeOperandsPass)

  TakeOperandsPass() = default;
  TakeOperandsPass(const TakeOperandsPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "take-operands"; }
  StringRef getDescription() const override {
    return "Replace values by operands while the test finds it interesting";
  }

  void runOnOperation() override {
    Tester tester(test, ArrayRef<std::string>(testArgs));
    if (!isInteresting(tester)) {
      getOperation().emitError("the test does not find this interesting; it "
                               "ends with status 1 where it does");
      return signalPassFailure();
    }
    while (reduce(tester))
      ;
  }

private:
  bool isInteresting(const Tester &tester) {
    return tester.isInteresting(getOperation()).first ==
           Tester::Interestingness::True;
  }

  /// Tries to remove each operation once, from the last to the first. Returns
  /// whether any was removed.
  bool reduce(const Tester &tester) {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (op->getNumRegions() == 0 && op->getNumResults() && isPure(op))
        ops.push_back(op);
    });
    return llvm::count_if(llvm::reverse(ops), [&](Operation *op) {
             return remove(op, tester);
           }) != 0;
  }

  /// Removes an operation if its result is unused or can be replaced by one of
  /// its operands. Returns whether it was removed.
  bool remove(Operation *op, const Tester &tester) {
    if (op->use_empty())
      return remove(op, Value(), tester);
    return op->getNumResults() == 1 &&
           llvm::any_of(op->getOperands(), [&](Value operand) {
             return operand.getType() == op->getResult(0).getType() &&
                    remove(op, operand, tester);
           });
  }

  /// Replaces the result of an operation by a value and removes the operation.
  /// If the module is no longer interesting, restores it and returns false.
  bool remove(Operation *op, Value instead, const Tester &tester) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getUses())
      uses.push_back(&use);
    for (OpOperand *use : uses)
      use->set(instead);
    Block *block = op->getBlock();
    Block::iterator next = std::next(op->getIterator());
    op->remove();
    if (isInteresting(tester)) {
      op->destroy();
      return true;
    }
    block->getOperations().insert(next, op);
    for (OpOperand *use : uses)
      use->set(op->getResult(0));
    return false;
  }

  Option<std::string> test{*this, "test",
                           llvm::cl::desc("Ends with 1 for what to keep")};
  ListOption<std::string> testArgs{*this, "test-arg",
                                   llvm::cl::desc("Arguments of the test")};
};
} // namespace

void tandem::registerTakeOperands() { PassRegistration<TakeOperandsPass>(); }
