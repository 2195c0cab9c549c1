//===- CEmitter.h - C source of kernels -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the translation of kernels to C. MLIR's own translation
// requires the emitc dialect, to which the LLVM dialect cannot be converted.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_CTARGET_CEMITTER_H
#define TANDEM_TEST_UNIT_CTARGET_CEMITTER_H

#include "mlir/IR/BuiltinOps.h"

namespace ctarget {

/// Prints a module of the LLVM dialect without vectors as C11. Operations that
/// do not occur in the tests' kernels are errors.
llvm::LogicalResult emitC(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace ctarget

#endif // TANDEM_TEST_UNIT_CTARGET_CEMITTER_H
