//===- TakeOperands.cpp - Smaller computations ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a pass of tandem-reduce that replaces values by what
// they are made of. MLIR's -reduction-tree takes away ranges of operations, and
// cannot take one from the middle of a computation.
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

  /// Tries each operation once, the last one first; whether any is gone.
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

  /// Takes an operation away, with one of its operands instead of its result.
  bool remove(Operation *op, const Tester &tester) {
    if (op->use_empty())
      return remove(op, Value(), tester);
    return op->getNumResults() == 1 &&
           llvm::any_of(op->getOperands(), [&](Value operand) {
             return operand.getType() == op->getResult(0).getType() &&
                    remove(op, operand, tester);
           });
  }

  /// Puts a value in the place of an operation's result; undoes it, and returns
  /// false, if what is left is not interesting.
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
