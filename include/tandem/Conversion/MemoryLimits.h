//===- MemoryLimits.h - The memory that code may use ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the checks of the memory that generated code needs for
// reductions.
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

/// Checks that a function needs at most `most` bytes for its reductions.
/// `memory` names the kind of memory in the error.
LogicalResult verifyBytes(LLVM::LLVMFuncOp function, uint64_t bytes,
                          uint64_t most, StringRef memory);

/// Checks that each function of a module stays within maxStackBytes.
LogicalResult verifyStack(ModuleOp module);

} // namespace tandem

#endif // TANDEM_CONVERSION_MEMORYLIMITS_H
