//===- CEmitter.h - C source of kernels -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the translation of kernels to C. MLIR's own one starts at
// the emitc dialect, to which nothing brings the LLVM dialect.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_CTARGET_CEMITTER_H
#define TANDEM_TEST_UNIT_CTARGET_CEMITTER_H

#include "mlir/IR/BuiltinOps.h"

namespace ctarget {

/// Prints a module of the LLVM dialect without vectors as C11. An operation
/// that no kernel of the tests has is an error.
llvm::LogicalResult emitC(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace ctarget

#endif // TANDEM_TEST_UNIT_CTARGET_CEMITTER_H
