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

#include "tandem-runtime/tandem_cache.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Target/CPU.h"
#include "tandem/Target/Target.h"

using namespace mlir;
using namespace tandem;

void tandem::buildCPUPipeline(OpPassManager &manager, ModuleOp kernels,
                              llvm::StringRef isa, int64_t width) {
  CPUPipelineOptions options;
  setProcessorOptions(kernels, isa, options);
  if (width)
    options.width = width;
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

  bool isCacheable(llvm::StringRef) const override { return true; }

  llvm::Expected<TargetCode>
  compile(ModuleOp kernels, const TargetOptions &options) const override {
    if (failed(lowerForCPU(kernels, options.isa, options.width)))
      return llvm::createStringError("cannot lower the kernels for the CPU");
    TargetCode result;
    result.image.kind = TDM_IMAGE_LIBRARY;
    result.image.target = TDM_CACHE_TARGET;
    auto code =
        compileForCPU(kernels, options.isa,
                      options.wantsImage ? &result.image.data : nullptr);
    if (!code)
      return code.takeError();
    result.host = std::move(*code);
    return result;
  }
};

/// Compiles shared libraries for instruction sets.
class LibraryTarget : public Target {
public:
  bool hasName(llvm::StringRef name) const override {
    return isPortableISA(name);
  }

  std::string listNames() const override { return listPortableISAs(); }

  bool isCacheable(llvm::StringRef) const override { return true; }

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
