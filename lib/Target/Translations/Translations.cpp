//===- Translations.cpp - Translations to target code ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the translations of graphs and kernels to PTX, LLVM IR
// and assembly, and the check of PTX against its kernel.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Translations.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Support/Library.h"
#include "tandem/Target/CPU.h"
#include "tandem/Target/PTX/PTX.h"
#include "tandem/Target/Package.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace tandem;
namespace cl = llvm::cl;

namespace {
/// The options that all translations share.
struct TranslationOptions {
  cl::opt<std::string> strategy{
      "strategy", cl::desc("The strategy, where the input is a graph")};
  cl::list<std::string> path{
      "strategy-path", cl::CommaSeparated,
      cl::desc("Directories searched for strategies before the built-in ones")};
  cl::opt<std::string> function{
      "function",
      cl::desc("The graph, of several such as a layer's two passes")};
  cl::opt<std::string> chip{"chip", cl::init("sm_90"),
                            cl::desc("The NVIDIA chip that PTX is for")};
  cl::opt<std::string> isa{
      "isa", cl::init("native"),
      cl::desc("The instruction set that CPU code is for")};
  cl::opt<int64_t> width{
      "width", cl::init(0),
      cl::desc("Elements per step, a power of two; 0 chooses")};
  cl::list<std::string> targets{
      "targets", cl::CommaSeparated,
      cl::desc("What a package has code for: x86-64, x86-64-v2, x86-64-v3, "
               "x86-64-v4, an NVIDIA chip (PTX), cubin:<chip>, "
               "cubin-O0:<chip>; by default "
               "x86-64, x86-64-v3 and x86-64-v4")};
  cl::opt<std::string> ptx{"ptx", cl::desc("The PTX file that is checked")};

  int64_t getCPUWidth() { return width ? width : getDefaultWidth(isa); }
  int64_t getGPUWidth() {
    NVVMPipelineOptions defaults;
    return width ? width : defaults.width;
  }
};
} // namespace

static TranslationOptions &getOptions() {
  static TranslationOptions options;
  return options;
}

std::string tandem::getStrategyOption() { return getOptions().strategy; }

std::string tandem::getFunctionOption() { return getOptions().function; }

std::vector<std::string> tandem::getStrategyPathOption() {
  return {getOptions().path.begin(), getOptions().path.end()};
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

static LogicalResult report(ModuleOp module, llvm::Error error) {
  if (!error)
    return success();
  // Without the operation that emitError would print below the message.
  return emitError(module.getLoc(), llvm::toString(std::move(error)));
}

/// Brings graphs and kernels to kernels on planes. Other modules stay as they
/// are.
static LogicalResult lowerToKernel(ModuleOp module) {
  TranslationOptions &options = getOptions();
  PassManager manager(module.getContext());
  if (llvm::none_of(module.getOps<func::FuncOp>(), isGraph)) {
    if (module.getOps<KernelOp>().empty())
      return success();
    buildLoweringPipeline(manager, KernelPipelineOptions());
    return manager.run(module);
  }
  if (options.strategy.empty())
    return emitError(module.getLoc(),
                     "a graph needs a strategy; give --strategy=NAME "
                     "with a file on --strategy-path or one of ")
           << listNames(getStrategiesFor(module));
  if (!options.function.empty())
    if (auto program = findProgram(module, options.strategy, options.function);
        !program)
      return report(module, program.takeError());
  KernelPipelineOptions pipeline;
  auto strategy =
      findStrategy(module, options.strategy, getStrategyPathOption());
  if (failed(strategy))
    return failure();
  pipeline.strategy = strategy->getSymName().str();
  buildKernelPipeline(manager, pipeline);
  if (failed(manager.run(module)))
    return failure();
  keepKernel(module, options.function);
  return success();
}

/// Whether a module has kernels, or the steps that they become.
static bool hasKernels(ModuleOp module) {
  return !module.getOps<KernelOp>().empty() || !module.getOps<StepOp>().empty();
}

/// Brings kernels to the LLVM dialect.
static LogicalResult
lowerToTarget(ModuleOp module,
              llvm::function_ref<void(OpPassManager &)> buildPipeline) {
  if (!module.getOps<LLVM::LLVMFuncOp>().empty())
    return success();
  if (!hasKernels(module))
    return emitError(module.getLoc(),
                     "expected a graph (a function with tandem.role "
                     "arguments), a tandem.kernel, a tandem.step, or "
                     "functions in the LLVM dialect");
  PassManager manager(module.getContext());
  buildPipeline(manager);
  return manager.run(module);
}

static void buildPipelineForCPU(OpPassManager &manager) {
  CPUPipelineOptions options;
  options.width = getOptions().getCPUWidth();
  options.halfConversions = hasHalfConversions(getOptions().isa);
  buildCPUPipeline(manager, options);
}

static void buildPipelineForGPU(OpPassManager &manager) {
  NVVMPipelineOptions options;
  options.width = getOptions().getGPUWidth();
  options.chip = getOptions().chip;
  buildNVVMPipeline(manager, options);
}

//===----------------------------------------------------------------------===//
// Translations
//===----------------------------------------------------------------------===//

/// The arithmetic of the kernels' parts, which lowering leaves behind.
static FailureOr<std::vector<PartRequirement>>
getRequirements(ModuleOp module) {
  PassManager manager(module.getContext());
  manager.addPass(createSplitPhases());
  if (failed(manager.run(module)))
    return failure();
  auto parts = countRequired(module, getOptions().chip);
  if (!parts)
    return report(module, parts.takeError());
  return std::move(*parts);
}

static LogicalResult translateModuleToPTX(ModuleOp module, raw_ostream &os) {
  if (failed(lowerToKernel(module)))
    return failure();
  auto requirements = getRequirements(module);
  if (failed(requirements) ||
      failed(lowerToTarget(module, buildPipelineForGPU)))
    return failure();
  TranslationOptions &options = getOptions();
  auto ptx = translateToPTX(module, *requirements, options.chip,
                            options.getGPUWidth());
  if (!ptx)
    return report(module, ptx.takeError());
  os << *ptx;
  return success();
}

/// Emits CPU code with one of the functions of CPU.h.
static LogicalResult translateForCPU(
    ModuleOp module, raw_ostream &os,
    llvm::Expected<std::string> (*emit)(ModuleOp, llvm::StringRef)) {
  if (failed(lowerToKernel(module)) ||
      failed(lowerToTarget(module, buildPipelineForCPU)))
    return failure();
  auto text = emit(module, getOptions().isa);
  if (!text)
    return report(module, text.takeError());
  os << *text;
  return success();
}

/// The compiler takes text; locations go with it, for its diagnostics.
static LogicalResult translateModuleToPackage(ModuleOp module,
                                              raw_ostream &os) {
  TranslationOptions &options = getOptions();
  CompileOptions compileOptions;
  llvm::raw_string_ostream stream(compileOptions.graph);
  module.print(stream, OpPrintingFlags().enableDebugInfo());
  compileOptions.strategy = options.strategy;
  compileOptions.function = options.function;
  compileOptions.path = getStrategyPathOption();
  compileOptions.width = options.width;
  auto kernel = compile(compileOptions);
  if (!kernel)
    return report(module, kernel.takeError());
  std::vector<std::string> targets(options.targets.begin(),
                                   options.targets.end());
  auto bytes = writePackage({{(*kernel)->info->graph, kernel->get()}}, targets);
  if (!bytes)
    return report(module, bytes.takeError());
  os << *bytes;
  return success();
}

static LogicalResult checkPTXFile(ModuleOp module, raw_ostream &os) {
  TranslationOptions &options = getOptions();
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
                                   options.chip, options.getGPUWidth()))
    return report(module, std::move(error));
  for (const PartRequirement &part : *requirements)
    os << part.name << ": the PTX executes the kernel's arithmetic, "
       << options.getGPUWidth() << " elements a step\n";
  return success();
}

void tandem::registerTargetTranslations() {
  getOptions();
  TranslateFromMLIRRegistration("tandem-to-ptx",
                                "PTX for --chip, checked against its kernel",
                                translateModuleToPTX, registerAllDialects);
  TranslateFromMLIRRegistration(
      "tandem-to-llvmir", "LLVM IR of the CPU code for --isa",
      [](ModuleOp module, raw_ostream &os) {
        return translateForCPU(module, os, emitLLVMIR);
      },
      registerAllDialects);
  TranslateFromMLIRRegistration(
      "tandem-to-asm", "Assembly of the CPU code for --isa",
      [](ModuleOp module, raw_ostream &os) {
        return translateForCPU(module, os, emitAssembly);
      },
      registerAllDialects);
  TranslateFromMLIRRegistration("to-package",
                                "A package with code for each of --targets",
                                translateModuleToPackage, registerAllDialects);
  TranslateFromMLIRRegistration(
      "check-ptx", "Check the PTX in --ptx against the input's arithmetic",
      checkPTXFile, registerAllDialects);
}
