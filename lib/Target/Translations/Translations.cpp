//===- Translations.cpp - Translations to target code ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the translations of graphs and kernels to packages, LLVM
// IR and assembly, and the options and lowering that all targets share.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Translations.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "tandem/InitAllDialects.h"
#include "tandem/InitAllTargets.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Support/Library.h"
#include "tandem/Target/CPU.h"
#include "tandem/Target/Package.h"
#include "tandem/Target/Target.h"
#include "llvm/Support/CommandLine.h"

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
  cl::opt<std::string> isa{
      "isa", cl::init("native"),
      cl::desc("The instruction set that CPU code is for")};
  cl::opt<int64_t> width{
      "width", cl::init(0),
      cl::desc("Elements per step, a power of two; 0 chooses")};
  std::string targetsHelp =
      "What a package has code for, by default x86-64, x86-64-v3, x86-64-v4 "
      "and aarch64: " +
      listImageTargets();
  cl::list<std::string> targets{"targets", cl::CommaSeparated,
                                cl::desc(targetsHelp)};
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

int64_t tandem::getWidthOption() { return getOptions().width; }

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

LogicalResult tandem::reportError(ModuleOp module, llvm::Error error) {
  if (!error)
    return success();
  // Operation::emitError would also print the operation below the message.
  return emitError(module.getLoc(), llvm::toString(std::move(error)));
}

LogicalResult tandem::lowerToKernel(ModuleOp module) {
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
      return reportError(module, program.takeError());
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

bool tandem::hasKernels(ModuleOp module) {
  return !module.getOps<KernelOp>().empty() || !module.getOps<StepOp>().empty();
}

LogicalResult
tandem::lowerToTarget(ModuleOp module,
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

//===----------------------------------------------------------------------===//
// Translations
//===----------------------------------------------------------------------===//

/// Emits CPU code with `emit`, one of the functions of CPU.h.
static LogicalResult translateForCPU(
    ModuleOp module, raw_ostream &os,
    llvm::Expected<std::string> (*emit)(ModuleOp, llvm::StringRef)) {
  TranslationOptions &options = getOptions();
  auto buildPipeline = [&](OpPassManager &manager) {
    buildCPUPipeline(manager, module, options.isa, options.width);
  };
  if (failed(lowerToKernel(module)) ||
      failed(lowerToTarget(module, buildPipeline)))
    return failure();
  auto text = emit(module, options.isa);
  if (!text)
    return reportError(module, text.takeError());
  os << *text;
  return success();
}

/// Compiles the module's text. The text includes locations for diagnostics.
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
    return reportError(module, kernel.takeError());
  std::vector<std::string> targets(options.targets.begin(),
                                   options.targets.end());
  auto bytes = writePackage({{(*kernel)->info->graph, kernel->get()}}, targets);
  if (!bytes)
    return reportError(module, bytes.takeError());
  os << *bytes;
  return success();
}

void tandem::registerTargetTranslations() {
  // The help texts of the options list the targets.
  registerAllTargets();
  getOptions();
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
  forEachTarget([](const Target &target) { target.registerTranslations(); });
}
