//===- CPUTarget.cpp - Instruction sets of CPUs ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the CPU targets: code for this process, and shared
// libraries.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Target/CPU.h"
#include "tandem/Target/Target.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace tandem;

/// The cost of a lookup by byte permutations: some 24 instructions for 64
/// elements.
static constexpr unsigned permutedLookupCost = 6;

static bool hostHas(llvm::StringRef feature) {
  return llvm::sys::getHostCPUFeatures().lookup(feature);
}

/// Returns the lanes of a loop iteration, which fill four f32 registers. Fewer
/// leave the processor waiting, since a body is one long dependence chain; more
/// do not fit.
static int64_t getWidth(llvm::StringRef isa) {
  bool isNative = isa == "native";
  if (isa == "x86-64-v4" || (isNative && hostHas("avx512bw")))
    return 64;
  return isa == "x86-64-v3" || (isNative && hostHas("avx2")) ? 32 : 16;
}

/// Returns whether an operation rounds the result of arithmetic to a narrow
/// type.
static bool isNarrowArithmetic(Operation *op) {
  if (!isa<arith::ArithFastMathInterface>(op) || op->getNumResults() != 1)
    return false;
  // The operand of a conversion has another type.
  auto type = dyn_cast<FloatType>(op->getResult(0).getType());
  return type && type.getWidth() < 32 && op->getOperand(0).getType() == type;
}

/// Returns the number of lanes that suits the kernels. Rounding makes the
/// dependence chain several times as long, so that twice the lanes are faster
/// in spite of more spills.
static int64_t chooseWidth(ModuleOp kernels, llvm::StringRef isa) {
  WalkResult found = kernels.walk([](Operation *op) {
    return isNarrowArithmetic(op) ? WalkResult::interrupt()
                                  : WalkResult::advance();
  });
  return found.wasInterrupted() ? 2 * getWidth(isa) : getWidth(isa);
}

static bool hasHalfConversions(llvm::StringRef isa) {
  return isa == "native" ? hostHas("f16c")
                         : isa == "x86-64-v3" || isa == "x86-64-v4";
}

void tandem::buildCPUPipeline(OpPassManager &manager, ModuleOp kernels,
                              llvm::StringRef isa, int64_t width) {
  CPUPipelineOptions options;
  options.width = width ? width : chooseWidth(kernels, isa);
  options.halfConversions = hasHalfConversions(isa);
  if (isa == "native" && hostHas("avx512vbmi"))
    options.lookupCost = permutedLookupCost;
  buildCPUPipeline(manager, options);
}

LogicalResult tandem::lowerForCPU(ModuleOp kernels, llvm::StringRef isa,
                                  int64_t width) {
  PassManager manager(kernels.getContext());
  buildCPUPipeline(manager, kernels, isa, width);
  return manager.run(kernels);
}

namespace {
/// Compiles code for this process.
class JITTarget : public Target {
public:
  bool hasImages() const override { return false; }

  bool hasName(llvm::StringRef name) const override { return name == "cpu"; }

  std::string listNames() const override { return "cpu"; }

  llvm::Expected<TargetCode>
  compile(ModuleOp kernels, const TargetOptions &options) const override {
    if (failed(lowerForCPU(kernels, options.isa, options.width)))
      return llvm::createStringError("cannot lower the kernels for the CPU");
    auto code = compileForCPU(kernels, options.isa);
    if (!code)
      return code.takeError();
    return TargetCode{Image(), std::move(*code)};
  }
};

/// Compiles shared libraries for instruction sets.
class LibraryTarget : public Target {
public:
  bool hasName(llvm::StringRef name) const override {
    return isPortableISA(name);
  }

  std::string listNames() const override { return listPortableISAs(); }

  llvm::Expected<TargetCode>
  compile(ModuleOp kernels, const TargetOptions &options) const override {
    if (failed(lowerForCPU(kernels, options.name, options.width)))
      return llvm::createStringError("cannot lower the kernels for " +
                                     options.name);
    auto library = emitSharedLibrary(kernels, options.name);
    if (!library)
      return library.takeError();
    TargetCode code;
    code.image.kind = TDM_IMAGE_LIBRARY;
    code.image.target = options.name;
    code.image.data = std::move(*library);
    return code;
  }
};
} // namespace

void tandem::registerCPUTargets() {
  registerTarget(std::make_unique<JITTarget>());
  registerTarget(std::make_unique<LibraryTarget>());
}
