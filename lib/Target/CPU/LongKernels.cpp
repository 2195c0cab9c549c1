//===- LongKernels.cpp - Compile time of kernels with many operations -----===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what keeps the compile time of long kernels nearly
// linear.
//
//===----------------------------------------------------------------------===//

#include "LongKernels.h"

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace tandem;

/// The instructions of a block above which it counts as long, several times
/// those of the library's longest kernel.
static constexpr unsigned longest = 6000;
/// The instructions of a part.
static constexpr unsigned partLength = 1500;

static bool hasLongBlock(const llvm::Module &module) {
  for (const llvm::Function &function : module)
    for (const llvm::BasicBlock &block : function)
      if (block.size() > longest)
        return true;
  return false;
}

/// Cuts a block into parts of which each branches to the next.
static void cut(llvm::BasicBlock *block) {
  while (block->size() > partLength) {
    auto at = block->getFirstNonPHIIt();
    for (unsigned i = 0; i < partLength && !at->isTerminator(); ++i)
      ++at;
    if (at->isTerminator())
      return;
    block = block->splitBasicBlock(at);
  }
}

bool tandem::boundCompileTime(llvm::Module &module,
                              llvm::TargetMachine &machine) {
  if (!hasLongBlock(module))
    return false;
  for (llvm::Function &function : module) {
    llvm::SmallVector<llvm::BasicBlock *> blocks;
    for (llvm::BasicBlock &block : function)
      blocks.push_back(&block);
    for (llvm::BasicBlock *block : blocks)
      cut(block);
  }
  machine.setOptLevel(llvm::CodeGenOptLevel::None);
  return true;
}
