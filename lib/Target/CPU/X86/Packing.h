//===- Packing.h - Truncations in x86 instructions --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the selection of x86 instructions for truncations.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_CPU_X86_PACKING_H
#define TANDEM_LIB_TARGET_CPU_X86_PACKING_H

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace tandem {

/// Narrows vectors of i32 by packing two registers into one, which needs
/// AVX-512. LLVM narrows each register by itself and joins the parts, which is
/// more than twice the work for the one port that moves lanes.
void selectPacks(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_CPU_X86_PACKING_H
