//===- LongKernels.cpp - Compile time of kernels with many operations -----===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the bound that keeps the compile time of long kernels
// nearly linear.
//
//===----------------------------------------------------------------------===//

#include "LongKernels.h"

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace tandem;

/// A block with more instructions than this counts as long. The library's
/// longest kernel has a fraction of it.
static constexpr unsigned longest = 6000;
/// The number of instructions of each part of a long block.
static constexpr unsigned partLength = 1500;

static bool hasLongBlock(const llvm::Module &module) {
  for (const llvm::Function &function : module)
    for (const llvm::BasicBlock &block : function)
      if (block.size() > longest)
        return true;
  return false;
}

/// Splits a block into parts, each of which branches to the next.
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
