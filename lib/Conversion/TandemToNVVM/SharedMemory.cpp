//===- SharedMemory.cpp - The shared memory of a block --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the check that the reductions of a block of threads fit
// into its shared memory.
//
//===----------------------------------------------------------------------===//

#include "SharedMemory.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "tandem/Conversion/MemoryLimits.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace tandem;

LogicalResult tandem::verifySharedMemory(ModuleOp module) {
  DataLayout layout(module);
  SymbolTable symbols(module);
  auto shared = unsigned(NVVM::NVVMMemorySpace::Shared);
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    llvm::SmallPtrSet<Operation *, 4> used;
    uint64_t bytes = 0;
    function.walk([&](LLVM::AddressOfOp op) {
      auto global = symbols.lookup<LLVM::GlobalOp>(op.getGlobalName());
      if (global && global.getAddrSpace() == shared &&
          used.insert(global).second)
        bytes += layout.getTypeSize(global.getType()).getFixedValue();
    });
    if (failed(verifyBytes(function, bytes, maxSharedBytes,
                           "a block's shared memory")))
      return failure();
  }
  return success();
}
