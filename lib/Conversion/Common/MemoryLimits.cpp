//===- MemoryLimits.cpp - The memory that code may use --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the checks that generated code does not exceed the
// memory that is available for reductions.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/MemoryLimits.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"

using namespace mlir;
using namespace tandem;

LogicalResult tandem::verifyBytes(LLVM::LLVMFuncOp function, uint64_t bytes,
                                  uint64_t most, StringRef memory) {
  if (bytes <= most)
    return success();
  return function.emitError("needs ")
         << bytes << " bytes of " << memory
         << " for its reductions, which may take " << most
         << "; make fewer of them in one graph";
}

LogicalResult tandem::verifyStack(ModuleOp module) {
  DataLayout layout(module);
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    uint64_t bytes = 0;
    function.walk([&](LLVM::AllocaOp op) {
      llvm::APInt count(64, 1);
      matchPattern(op.getArraySize(), m_ConstantInt(&count));
      bytes += count.getZExtValue() *
               layout.getTypeSize(op.getElemType()).getFixedValue();
    });
    if (failed(verifyBytes(function, bytes, maxStackBytes, "a thread's stack")))
      return failure();
  }
  return success();
}
