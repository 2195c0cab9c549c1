//===- PTX.h - PTX emission -------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the translation of LLVM dialect modules to PTX and the
// check of the PTX that results.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_PTX_H
#define TANDEM_TARGET_PTX_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <string>

namespace mlir::tandem {

/// Whether kernels can be compiled for an NVIDIA chip: sm_80 and later.
bool isSupportedChip(llvm::StringRef chip);

/// The chips of `isSupportedChip`, for diagnostics.
std::string listChips();

/// Emits PTX for a module in the LLVM dialect. Floating-point operations are
/// neither contracted nor reassociated, subnormals are kept.
llvm::Expected<std::string> translateToPTX(ModuleOp module,
                                           llvm::StringRef chip);

} // namespace mlir::tandem

#endif // TANDEM_TARGET_PTX_H
