//===- PTXTranslations.cpp - Translations to PTX --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the translation of graphs and kernels to PTX, and the
// check of PTX against its kernel.
//
//===----------------------------------------------------------------------===//

#include "PTXTranslations.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Target/PTX/NVVMPipeline.h"
#include "tandem/Target/PTX/PTX.h"
#include "tandem/Target/Translations.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace tandem;
namespace cl = llvm::cl;

namespace {
/// The options of these translations, in addition to those of all.
struct PTXOptions {
  cl::opt<std::string> chip{"chip", cl::init("sm_90"),
                            cl::desc("The NVIDIA chip that PTX is for")};
  cl::opt<std::string> ptx{"ptx", cl::desc("The PTX file that is checked")};
};
} // namespace

static PTXOptions &getOptions() {
  static PTXOptions options;
  return options;
}

static int64_t getWidth() {
  NVVMPipelineOptions defaults;
  return getWidthOption() ? getWidthOption() : int64_t(defaults.width);
}

static void buildPipeline(OpPassManager &manager) {
  NVVMPipelineOptions options;
  options.width = getWidth();
  options.chip = getOptions().chip;
  buildNVVMPipeline(manager, options);
}

/// Returns the arithmetic of the kernels' parts, which must be counted before
/// lowering.
static FailureOr<std::vector<PartRequirement>>
getRequirements(ModuleOp module) {
  PassManager manager(module.getContext());
  manager.addPass(createSplitPhases());
  if (failed(manager.run(module)))
    return failure();
  auto parts = countRequired(module, getOptions().chip);
  if (!parts)
    return reportError(module, parts.takeError());
  return std::move(*parts);
}

static LogicalResult translateModuleToPTX(ModuleOp module, raw_ostream &os) {
  if (failed(lowerToKernel(module)))
    return failure();
  auto requirements = getRequirements(module);
  if (failed(requirements) || failed(lowerToTarget(module, buildPipeline)))
    return failure();
  PTXOptions &options = getOptions();
  auto ptx = translateToPTX(module, *requirements, options.chip, getWidth());
  if (!ptx)
    return reportError(module, ptx.takeError());
  os << *ptx;
  return success();
}

static LogicalResult checkPTXFile(ModuleOp module, raw_ostream &os) {
  PTXOptions &options = getOptions();
  if (options.ptx.empty())
    return emitError(module.getLoc(),
                     "give the PTX file to check with --ptx=FILE");
  if (failed(lowerToKernel(module)))
    return failure();
  if (!hasKernels(module))
    return emitError(module.getLoc(), "PTX is checked against a graph or a "
                                      "tandem.kernel; the input has neither");
  auto requirements = getRequirements(module);
  if (failed(requirements))
    return failure();
  auto file = llvm::MemoryBuffer::getFile(options.ptx);
  if (!file)
    return emitError(module.getLoc(), "cannot read '")
           << options.ptx << "': " << file.getError().message();
  if (llvm::Error error = checkPTX((*file)->getBuffer(), *requirements,
                                   options.chip, getWidth()))
    return reportError(module, std::move(error));
  for (const PartRequirement &part : *requirements)
    os << part.name << ": the PTX executes the kernel's arithmetic, "
       << getWidth() << " elements a step\n";
  return success();
}

void tandem::registerPTXTranslations() {
  getOptions();
  TranslateFromMLIRRegistration("tandem-to-ptx",
                                "PTX for --chip, checked against its kernel",
                                translateModuleToPTX, registerAllDialects);
  TranslateFromMLIRRegistration(
      "check-ptx", "Check the PTX in --ptx against the input's arithmetic",
      checkPTXFile, registerAllDialects);
}
