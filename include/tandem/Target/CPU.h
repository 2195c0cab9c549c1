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

struct CPUPipelineOptions;

/// Machine code in this process.
class CPUCode : public HostCode {
public:
  CPUCode(std::unique_ptr<llvm::orc::LLJIT> jit);
  ~CPUCode() override;

  llvm::Expected<void *> lookup(llvm::StringRef symbol) override;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

/// Returns the instruction sets that `isa` may name besides "native".
std::string listISAs();

/// Returns what "native" is on this machine: the largest instruction set with a
/// name that it has, and in parentheses LLVM's name of its processor and the
/// features beyond that set that code becomes faster with: "x86-64-v4 (znver4:
/// avx512vbmi, gfni)".
std::string describeNativeISA();

/// Sets the options of the CPU pipeline that depend on the processor with an
/// instruction set.
void setProcessorOptions(ModuleOp kernels, llvm::StringRef isa,
                         CPUPipelineOptions &options);

/// Adds the passes that lower kernels to functions in the LLVM dialect for an
/// instruction set, with `width` elements computed at once; 0 lets the target
/// choose.
void buildCPUPipeline(OpPassManager &manager, ModuleOp kernels,
                      llvm::StringRef isa, int64_t width);

/// Registers the target "cpu", whose code stays in this process, and those of
/// the instruction sets of `isPortableISA`.
void registerCPUTargets();

/// Runs the passes of buildCPUPipeline.
LogicalResult lowerForCPU(ModuleOp kernels, llvm::StringRef isa, int64_t width);

/// Compiles a module in the LLVM dialect for this process, for an instruction
/// set: "native", "x86-64" (SSE2), "x86-64-v3" (AVX2), "x86-64-v4" (AVX-512) or
/// "aarch64" (NEON). All of them give the same bits. If `library` is not null,
/// it gets the same code as a shared library, or stays empty if that is
/// impossible.
llvm::Expected<std::unique_ptr<CPUCode>>
compileForCPU(ModuleOp module, llvm::StringRef isa,
              std::string *library = nullptr);

/// Returns the LLVM IR that the same code is selected from.
llvm::Expected<std::string> emitLLVMIR(ModuleOp module, llvm::StringRef isa);

/// Returns the assembly of the same code.
llvm::Expected<std::string> emitAssembly(ModuleOp module, llvm::StringRef isa);

/// Returns whether shared libraries can be made for an instruction set. This
/// excludes one that only this machine may have.
bool isPortableISA(llvm::StringRef isa);

/// Returns the instruction sets of `isPortableISA`, for diagnostics.
std::string listPortableISAs();

/// Returns the same code as an ELF shared library.
llvm::Expected<std::string> emitSharedLibrary(ModuleOp module,
                                              llvm::StringRef isa);

} // namespace tandem

#endif // TANDEM_TARGET_CPU_H
