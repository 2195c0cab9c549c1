//===- InstructionSets.h - Instruction sets of this machine -----*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the instruction sets that packages have code for.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_INSTRUCTIONSETS_H
#define TANDEM_RUNTIME_LIB_CPU_INSTRUCTIONSETS_H

namespace tandem::runtime {

/// Returns the rank of an instruction set among those of this processor; 0 if
/// the processor does not have it or its name is unknown.
int rankInstructionSet(const char *target);

/// Returns which instruction set to compile for, and who runs its code.
const char *adviseInstructionSet();

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_INSTRUCTIONSETS_H
