//===- LongKernels.h - Compile time of kernels with many operations -*- C++
//-*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what keeps the compile time of long kernels linear.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_CPU_LONGKERNELS_H
#define TANDEM_LIB_TARGET_CPU_LONGKERNELS_H

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir::tandem {

/// Keeps the compile time of a module linear in its length. LLVM's instruction
/// selection and register coalescing take a time that is quadratic in the
/// length of a basic block; a kernel is one. If a block is long, all are cut in
/// parts and the machine generates code without optimization. Its code has the
/// same bits. Returns whether that was so.
bool boundCompileTime(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace mlir::tandem

#endif // TANDEM_LIB_TARGET_CPU_LONGKERNELS_H
