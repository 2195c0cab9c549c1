//===- LongKernels.h - Compile time of long kernels -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a function that keeps the compile time of long kernels
// nearly linear.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_CPU_LONGKERNELS_H
#define TANDEM_LIB_TARGET_CPU_LONGKERNELS_H

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace tandem {

/// Keeps the compile time of a module nearly linear in its length. LLVM's
/// instruction selection and register coalescing take time quadratic in the
/// length of a basic block, and the body of a kernel is a single block. If a
/// block is too long, splits the module's blocks and makes the machine generate
/// code without optimization, which computes the same bits. Returns whether it
/// did so.
bool boundCompileTime(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_CPU_LONGKERNELS_H
