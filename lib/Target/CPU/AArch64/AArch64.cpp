//===- AArch64.cpp - The architecture AArch64 -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what code for CPUs needs to know of AArch64.
//
//===----------------------------------------------------------------------===//

#include "../Architecture.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace tandem;

/// The lanes of a loop iteration, which fill four of the 32 registers. Twice as
/// many spill, and half as many leave a processor waiting.
static constexpr int64_t width = 16;

/// Every processor has NEON, and an emulator does not say so.
static constexpr InstructionSet sets[] = {{"aarch64", "generic", {}}};
static constexpr llvm::StringLiteral others[] = {"fullfp16", "bf16", "sve",
                                                 "sve2"};

namespace {
class AArch64 : public Architecture {
public:
  llvm::Triple::ArchType getType() const override {
    return llvm::Triple::aarch64;
  }

  llvm::StringRef getTriple() const override {
    return "aarch64-unknown-linux-gnu";
  }

  llvm::StringRef getLinkerEmulation() const override { return "aarch64linux"; }

  llvm::ArrayRef<InstructionSet> getInstructionSets() const override {
    return sets;
  }

  llvm::ArrayRef<llvm::StringLiteral> getOtherFeatures() const override {
    return others;
  }

  void initialize() const override {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  }

  void setOptions(const llvm::MCSubtargetInfo &, ModuleOp,
                  CPUPipelineOptions &options) const override {
    options.width = width;
    options.halfConversions = true;
  }

  void selectInstructions(llvm::Module &,
                          llvm::TargetMachine &) const override {}
};
} // namespace

const Architecture &tandem::getAArch64() {
  static const AArch64 aarch64;
  return aarch64;
}
