//===- CPU.h - Code for the CPU ---------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares just-in-time compilation of LLVM dialect modules for CPUs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_CPU_H
#define TANDEM_TARGET_CPU_H

#include "tandem/Support/LLVM.h"
#include "tandem/Target/Target.h"

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace tandem {

/// Machine code in this process.
class CPUCode : public HostCode {
public:
  CPUCode(std::unique_ptr<llvm::orc::LLJIT> jit);
  ~CPUCode() override;

  llvm::Expected<void *> lookup(llvm::StringRef symbol) override;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

/// Instruction sets that `isa` may name besides "native".
std::string listISAs();

/// Adds the passes that bring kernels to functions in the LLVM dialect for an
/// instruction set, of `width` elements a step; 0 chooses.
void buildCPUPipeline(OpPassManager &manager, ModuleOp kernels,
                      llvm::StringRef isa, int64_t width);

/// Registers the target "cpu", whose code stays in this process, and that of
/// the instruction sets of `isPortableISA`.
void registerCPUTargets();

/// Runs these passes.
LogicalResult lowerForCPU(ModuleOp kernels, llvm::StringRef isa, int64_t width);

/// Compiles a module in the LLVM dialect for this process, for an instruction
/// set: "native", "x86-64" (SSE2), "x86-64-v3" (AVX2) or "x86-64-v4"
/// (AVX-512). The same bits result from each.
llvm::Expected<std::unique_ptr<CPUCode>> compileForCPU(ModuleOp module,
                                                       llvm::StringRef isa);

/// The LLVM IR that the same code is selected from.
llvm::Expected<std::string> emitLLVMIR(ModuleOp module, llvm::StringRef isa);

/// The assembly of the same code.
llvm::Expected<std::string> emitAssembly(ModuleOp module, llvm::StringRef isa);

/// Whether shared libraries can be made for an instruction set. One that only
/// this machine may have is not among them.
bool isPortableISA(llvm::StringRef isa);

/// Instruction sets of `isPortableISA`, for diagnostics.
std::string listPortableISAs();

/// The same code as an ELF shared library.
llvm::Expected<std::string> emitSharedLibrary(ModuleOp module,
                                              llvm::StringRef isa);

} // namespace tandem

#endif // TANDEM_TARGET_CPU_H
