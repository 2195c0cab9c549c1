//===- MemoryLimits.h - The memory of one thread or block -------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the checks that generated code gets the memory it needs
// for reductions.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_MEMORYLIMITS_H
#define TANDEM_CONVERSION_MEMORYLIMITS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Limits in bytes: the part of a CPU thread's stack that generated code may
/// use (Linux gives a thread 8 MiB, which callers share), and the static shared
/// memory that PTX allows a GPU block.
constexpr uint64_t maxStackBytes = 2 << 20;
constexpr uint64_t maxSharedBytes = 48 << 10;

/// Whether each function of a module keeps within a thread's stack.
LogicalResult verifyStack(ModuleOp module);
/// Whether each function of a module keeps within a block's shared memory.
LogicalResult verifySharedMemory(ModuleOp module);

} // namespace tandem

#endif // TANDEM_CONVERSION_MEMORYLIMITS_H
