//===- MemoryLimits.h - The memory that code may use ------------*- C++ -*-===//
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

/// The part of a CPU thread's stack that generated code may use, in bytes.
/// Linux gives a thread 8 MiB, which callers share.
constexpr uint64_t maxStackBytes = 2 << 20;

/// Checks that the `bytes` that a function needs of some memory for its
/// reductions are no more than `most`.
LogicalResult verifyBytes(LLVM::LLVMFuncOp function, uint64_t bytes,
                          uint64_t most, StringRef memory);

/// Checks that each function of a module keeps within a thread's stack.
LogicalResult verifyStack(ModuleOp module);

} // namespace tandem

#endif // TANDEM_CONVERSION_MEMORYLIMITS_H
