//===- PTXTarget.cpp - NVIDIA GPUs ----------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the target for NVIDIA GPUs: PTX, or the machine code
// that ptxas makes of it.
//
//===----------------------------------------------------------------------===//

#include "Assembler.h"
#include "PTXTranslations.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "tandem/Target/PTX/NVVMPipeline.h"
#include "tandem/Target/PTX/PTX.h"
#include "tandem/Target/Target.h"

using namespace mlir;
using namespace tandem;

namespace {
/// The parts of a target's name such as "sm_90" or "cubin-O0:sm_90".
struct Name {
  static Name parse(llvm::StringRef text);

  llvm::StringRef chip;
  /// The optimization level of machine code; none for PTX.
  std::optional<unsigned> level;
};

class PTXTarget : public Target {
public:
  bool hasName(llvm::StringRef name) const override {
    return isSupportedChip(Name::parse(name).chip);
  }

  std::string listNames() const override {
    return listChips() + " for PTX; or one of those after 'cubin:', or "
                         "'cubin-O0:' without optimization";
  }

  bool isImage(llvm::StringRef text, const tdm_image &image) const override {
    Name name = Name::parse(text);
    bool isKind = name.level ? llvm::StringRef(image.kind) == "cubin" &&
                                   *name.level == image.level
                             : llvm::StringRef(image.kind) == "PTX";
    return isKind && name.chip == image.target;
  }

  /// Machine code also depends on the assembler, a program of its own.
  bool isCacheable(llvm::StringRef name) const override {
    return !Name::parse(name).level;
  }

  void registerDialects(DialectRegistry &registry) const override {
    registry.insert<NVVM::NVVMDialect>();
    registerNVVMDialectTranslation(registry);
  }

  void registerPasses() const override { registerNVVMPipeline(); }

  void registerTranslations() const override { registerPTXTranslations(); }

  llvm::Expected<TargetCode>
  compile(ModuleOp kernels, const TargetOptions &options) const override;
};
} // namespace

Name Name::parse(llvm::StringRef text) {
  llvm::StringRef chip = text;
  if (chip.consume_front("cubin:"))
    return {chip, 3};
  for (unsigned level : {0, 1, 2, 3})
    if (chip.consume_front("cubin-O" + std::to_string(level) + ":"))
      return {chip, level};
  return {text, std::nullopt};
}

static llvm::Expected<std::string>
emitPTX(ModuleOp kernels, llvm::StringRef chip, int64_t width) {
  auto parts = countRequired(kernels, chip);
  if (!parts)
    return parts.takeError();
  PassManager manager(kernels.getContext());
  NVVMPipelineOptions pipeline;
  if (width)
    pipeline.width = width;
  pipeline.chip = chip.str();
  buildNVVMPipeline(manager, pipeline);
  if (failed(manager.run(kernels)))
    return llvm::createStringError("cannot lower the kernels for " + chip);
  return translateToPTX(kernels, *parts, chip, pipeline.width);
}

/// Replaces an image's PTX with machine code.
static llvm::Error assemble(Image &image, unsigned level) {
  std::string prefix =
      level == 3 ? "cubin:" : "cubin-O" + std::to_string(level) + ":";
  auto assembler = Assembler::find(prefix + image.target, image.target);
  if (!assembler)
    return assembler.takeError();
  auto version = assembler->getVersion();
  if (!version)
    return version.takeError();
  auto machineCode = assembler->assemble(image.data, image.target, level);
  if (!machineCode)
    return machineCode.takeError();
  image.kind = "cubin";
  image.data = std::move(*machineCode);
  image.assembler = std::move(*version);
  image.level = level;
  return llvm::Error::success();
}

llvm::Expected<TargetCode>
PTXTarget::compile(ModuleOp kernels, const TargetOptions &options) const {
  Name name = Name::parse(options.name);
  auto ptx = emitPTX(kernels, name.chip, options.width);
  if (!ptx)
    return ptx.takeError();
  TargetCode code;
  Image &image = code.image;
  image.kind = "PTX";
  image.target = name.chip.str();
  image.data = std::move(*ptx);
  if (name.level)
    if (llvm::Error error = assemble(image, *name.level))
      return error;
  return code;
}

void tandem::registerPTXTarget() {
  registerTarget(std::make_unique<PTXTarget>());
}
