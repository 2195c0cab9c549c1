//===- Rounding.h - Roundings in x86 instructions ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the selection of x86 instructions that LLVM's own
// selection does not find.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_CPU_X86_ROUNDING_H
#define TANDEM_LIB_TARGET_CPU_X86_ROUNDING_H

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace tandem {

/// Computes the addend of roundings to bf16, 0x7FFF plus bit 16, as the dot
/// product of an element's two masked halves with (1, 1), if the machine has
/// AVX-512. Then x + 0x7FFF + ((x >> 16) & 1) takes one ternary logic operation
/// and one (AVX-512 VNNI) or two more instructions instead of four.
void selectRoundings(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_CPU_X86_ROUNDING_H
