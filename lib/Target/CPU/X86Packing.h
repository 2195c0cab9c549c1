//===- X86Packing.h - Truncations in x86 instructions -----------*- C++ -*-===//
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

#ifndef TANDEM_LIB_TARGET_CPU_X86PACKING_H
#define TANDEM_LIB_TARGET_CPU_X86PACKING_H

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace tandem {

/// With AVX-512, narrows vectors of i32 by packing two registers into one: LLVM
/// narrows each by itself and joins the parts, more than twice as much work for
/// the one unit that moves lanes.
void selectPacks(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_CPU_X86PACKING_H
