//===- SharedMemory.h - The shared memory of a block ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the check that the reductions of a block of threads fit
// into its shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_SHAREDMEMORY_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_SHAREDMEMORY_H

#include "mlir/IR/BuiltinOps.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// The static shared memory that PTX allows a block, in bytes.
constexpr uint64_t maxSharedBytes = 48 << 10;

/// Checks that no function of a module exceeds the shared memory of a block.
LogicalResult verifySharedMemory(ModuleOp module);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_SHAREDMEMORY_H
