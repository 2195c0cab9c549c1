//===- Tables.h - Lookups in tables of shared memory ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares lookups in tables that a block of threads keeps in its
// shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_TABLES_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_TABLES_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Replaces the lookups of a kernel's function by loads from shared memory, to
/// which a block's threads copy the tables at the function's start.
void lowerLookups(LLVM::LLVMFuncOp function);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_TABLES_H
