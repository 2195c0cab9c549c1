//===- LLVMLowering.h - LLVM IR shared by targets ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the steps from the LLVM dialect to optimized LLVM IR that
// all targets share.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_LLVMLOWERING_H
#define TANDEM_TARGET_LLVMLOWERING_H

#include "mlir/IR/BuiltinOps.h"
#include "tandem/Support/LLVM.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace tandem {

/// Returns options under which no floating-point operation is fused.
llvm::TargetOptions getStrictTargetOptions();

/// Translates to LLVM IR for a target machine and cleans it up. The passes that
/// run remove redundancy and move code; InstCombine, which may rewrite
/// floating-point sequences, is not among them. `prepare`, if given, changes
/// the module before they run.
llvm::Expected<std::unique_ptr<llvm::Module>>
lowerToLLVMIR(ModuleOp module, llvm::LLVMContext &context,
              llvm::TargetMachine &machine,
              llvm::function_ref<void(llvm::Module &)> prepare = nullptr);

/// Emits assembly.
llvm::Expected<std::string> emitAssembly(llvm::Module &module,
                                         llvm::TargetMachine &machine);

/// Emits an object file.
llvm::Expected<std::string> emitObject(llvm::Module &module,
                                       llvm::TargetMachine &machine);

} // namespace tandem

#endif // TANDEM_TARGET_LLVMLOWERING_H
