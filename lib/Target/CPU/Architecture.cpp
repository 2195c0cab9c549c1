//===- Architecture.cpp - What depends on a CPU's architecture ------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the list of CPU architectures.
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace tandem;

llvm::ArrayRef<const Architecture *> tandem::getArchitectures() {
  static const Architecture *const all[] = {&getX86(), &getAArch64()};
  return all;
}

const Architecture *tandem::findArchitecture(llvm::Triple::ArchType type) {
  for (const Architecture *architecture : getArchitectures())
    if (architecture->getType() == type)
      return architecture;
  return nullptr;
}

const Architecture *tandem::getHostArchitecture() {
  return findArchitecture(
      llvm::Triple(llvm::sys::getProcessTriple()).getArch());
}

/// Returns whether an operation rounds the result of arithmetic to a narrow
/// type.
static bool isNarrowArithmetic(Operation *op) {
  if (!isa<arith::ArithFastMathInterface>(op) || op->getNumResults() != 1)
    return false;
  // The operand of a conversion has another type.
  auto type = dyn_cast<FloatType>(op->getResult(0).getType());
  return type && type.getWidth() < 32 && op->getOperand(0).getType() == type;
}

bool tandem::hasNarrowArithmetic(ModuleOp kernels) {
  return kernels
      .walk([](Operation *op) {
        return isNarrowArithmetic(op) ? WalkResult::interrupt()
                                      : WalkResult::advance();
      })
      .wasInterrupted();
}
