//===- PTX.h - PTX emission -------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the translation of LLVM dialect modules to checked PTX.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_PTX_PTX_H
#define TANDEM_TARGET_PTX_PTX_H

#include "tandem/Support/LLVM.h"
#include "tandem/Target/PTX/PTXCheck.h"
#include <string>

namespace tandem {

/// Returns whether kernels can be compiled for an NVIDIA chip: sm_80 and later.
bool isSupportedChip(llvm::StringRef chip);

/// Returns the chips of `isSupportedChip`, for diagnostics.
std::string listChips();

/// Registers the target of these chips.
void registerPTXTarget();

/// Emits PTX for a module in the LLVM dialect that consists of `parts`, for
/// threads that take `width` elements at once. Floating-point operations are
/// neither contracted nor reassociated, and subnormals are kept. PTX that
/// `checkPTX` refuses is never returned: if only counts differ, which LLVM's
/// exact simplifications explain as well as a fault, the module is compiled
/// once more with arithmetic that LLVM cannot simplify, and that PTX is checked
/// and returned.
llvm::Expected<std::string>
translateToPTX(ModuleOp module, llvm::ArrayRef<PartRequirement> parts,
               llvm::StringRef chip, int64_t width);

} // namespace tandem

#endif // TANDEM_TARGET_PTX_PTX_H
