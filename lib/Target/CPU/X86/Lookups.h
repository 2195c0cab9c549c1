//===- Lookups.h - Tables that registers hold -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the selection of x86 instructions for lookups in tables.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_CPU_X86_LOOKUPS_H
#define TANDEM_LIB_TARGET_CPU_X86_LOOKUPS_H

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace tandem {

/// Replaces gathers of the f32 entries that bytes select by permutations of the
/// entries' bytes, which need AVX-512 VBMI. A gather would load one entry at a
/// time.
void selectLookups(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_CPU_X86_LOOKUPS_H
