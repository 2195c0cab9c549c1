//===- X86.cpp - The architecture x86-64 ----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what code for CPUs needs to know of x86-64.
//
//===----------------------------------------------------------------------===//

#include "../Architecture.h"
#include "Lookups.h"
#include "Packing.h"
#include "Rounding.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace tandem;

/// The cost of a lookup by byte permutations: some 24 instructions for 64
/// elements. Loading one entry after another takes 17 for 8 elements.
static constexpr unsigned permutedLookupCost = 6, loadedLookupCost = 17;

/// The cost of a quotient or a root of eight elements. It keeps its unit busy
/// for longer, but the instructions of other operations run meanwhile.
static constexpr unsigned overlappedDivisionCost = 6;

static constexpr llvm::StringLiteral v2[] = {"cx16", "popcnt", "sahf", "sse4.2",
                                             "ssse3"};
static constexpr llvm::StringLiteral v3[] = {"avx2", "bmi",   "bmi2", "f16c",
                                             "fma",  "lzcnt", "movbe"};
static constexpr llvm::StringLiteral v4[] = {"avx512f", "avx512bw", "avx512cd",
                                             "avx512dq", "avx512vl"};
static constexpr InstructionSet sets[] = {{"x86-64", "x86-64", {}},
                                          {"x86-64-v2", "x86-64-v2", v2},
                                          {"x86-64-v3", "x86-64-v3", v3},
                                          {"x86-64-v4", "x86-64-v4", v4}};
static constexpr llvm::StringLiteral others[] = {
    "avx512vbmi", "avx512vbmi2", "avx512bf16", "avx512fp16", "gfni"};

static bool has(const llvm::MCSubtargetInfo &processor,
                llvm::StringRef feature) {
  return processor.checkFeatures(("+" + feature).str());
}

/// Returns the lanes of a loop iteration, which fill four f32 registers. Fewer
/// leave the processor waiting, since a body is one long dependence chain; more
/// do not fit.
static int64_t getWidth(const llvm::MCSubtargetInfo &processor) {
  if (has(processor, "avx512bw"))
    return 64;
  return has(processor, "avx2") ? 32 : 16;
}

namespace {
class X86 : public Architecture {
public:
  llvm::Triple::ArchType getType() const override {
    return llvm::Triple::x86_64;
  }

  llvm::StringRef getTriple() const override {
    return "x86_64-pc-linux-gnu";
  }

  llvm::StringRef getLinkerEmulation() const override { return "elf_x86_64"; }

  llvm::ArrayRef<InstructionSet> getInstructionSets() const override {
    return sets;
  }

  llvm::ArrayRef<llvm::StringLiteral> getOtherFeatures() const override {
    return others;
  }

  void initialize() const override {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  }

  /// Rounding makes the dependence chain several times as long, so that twice
  /// the lanes are faster in spite of more spills.
  void setOptions(const llvm::MCSubtargetInfo &processor, ModuleOp kernels,
                  CPUPipelineOptions &options) const override {
    int64_t width = getWidth(processor);
    options.width = hasNarrowArithmetic(kernels) ? 2 * width : width;
    options.halfConversions = has(processor, "f16c");
    options.lookupCost =
        has(processor, "avx512vbmi") ? permutedLookupCost : loadedLookupCost;
    if (!has(processor, "avx512f")) {
      options.divisionCost = overlappedDivisionCost;
      // Sixteen registers do not hold two blocks.
      options.pairs = false;
    }
  }

  void selectInstructions(llvm::Module &module,
                          llvm::TargetMachine &machine) const override {
    selectRoundings(module, machine);
    selectPacks(module, machine);
    selectLookups(module, machine);
  }
};
} // namespace

const Architecture &tandem::getX86() {
  static const X86 x86;
  return x86;
}
