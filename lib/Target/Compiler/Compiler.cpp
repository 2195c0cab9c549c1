//===- Compiler.cpp - From graph text to code -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the compiler as a library.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Compiler.h"
#include "KernelCache.h"
#include "Rules.h"
#include "Session.h"
#include "StorageText.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "tandem/InitAllTargets.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Support/Library.h"
#include "tandem/Target/CPU.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace tandem;

llvm::Expected<std::string> tandem::loadGraph(StringRef graph) {
  if (graph.contains('\n') || graph.contains("func.func"))
    return graph.str();
  if (graph.ends_with(".mlir")) {
    auto buffer = llvm::MemoryBuffer::getFile(graph);
    if (!buffer)
      return ErrorBuilder(TandemErrorIO)
             << "cannot read graph '" << Named{TDM_MESSAGE_FILE, graph}
             << "': " + buffer.getError().message();
    return (*buffer)->getBuffer().str();
  }
  for (ArrayRef<LibraryFile> files : {getBuiltinGraphs(), getBuiltinLayers()})
    if (auto text = findInLibrary(graph, {}, files))
      return text->text;
  std::string suggestion = suggestName(graph, getBuiltinGraphs());
  if (suggestion.empty())
    suggestion = suggestName(graph, getBuiltinLayers());
  return ErrorBuilder(TandemErrorGraph)
         << "unknown graph '" << Named{TDM_MESSAGE_GRAPH, graph}
         << "'" + suggestion + "; built-in ones are " +
                listNames(getBuiltinGraphs()) + " and, of layers, " +
                listNames(getBuiltinLayers()) +
                "; or give the path of an .mlir file, or MLIR text";
}

/// Lowers the module's program to one kernel on planes.
static llvm::Error lowerToKernel(ModuleOp module, const CompileOptions &options,
                                 DiagnosticCollector &diagnostics) {
  auto program = findProgram(module, options.strategy, options.function);
  if (!program)
    return program.takeError();
  std::string name = program->graph ? program->graph.getSymName().str() : "";
  PassManager manager(module.getContext());
  KernelPipelineOptions pipeline;
  pipeline.weightAverage = options.weightAverage;
  pipeline.weightOperand = options.weightOperand;
  pipeline.metrics = options.metrics;
  pipeline.flags = options.flags;
  if (program->step)
    return ErrorBuilder(TandemErrorGraph)
           << "'" << Named{TDM_MESSAGE_GRAPH, program->step.getSymName()}
           << "' is a step, whose launches are separated already; compile the "
              "kernel as it was before -tandem-split-phases";
  if (program->kernel && (options.weightAverage || options.weightOperand))
    return ErrorBuilder(TandemErrorArgument)
           << "kernel '"
           << Named{TDM_MESSAGE_GRAPH, program->kernel.getSymName()}
           << "' has its tensors already; give the weight "
           << (options.weightAverage ? "average" : "operand")
           << " to the compilation of the graph";
  if (program->kernel) {
    buildLoweringPipeline(manager, pipeline);
  } else {
    auto strategy = findStrategy(module, options.strategy, options.path);
    if (failed(strategy))
      return diagnostics.takeError(TandemErrorStrategy);
    pipeline.strategy = strategy->getSymName().str();
    buildKernelPipeline(manager, pipeline);
  }
  if (failed(manager.run(module)))
    return diagnostics.takeError();
  keepKernel(module, name);
  return llvm::Error::success();
}

llvm::Error tandem::findCode(CompiledKernel &result) {
  auto find = [&](StringRef symbol, void *&place) -> llvm::Error {
    auto address = result.code->lookup(symbol);
    if (!address)
      return address.takeError();
    place = *address;
    return llvm::Error::success();
  };
  auto phases = getPhases(*result.info), epilogues = getEpilogues(*result.info);
  result.reductionEntries.resize(phases.size() - 1);
  for (auto [phase, place] : llvm::zip(phases, result.reductionEntries))
    if (auto error = find(phase.entry, place))
      return error;
  result.epilogues.resize(epilogues.size());
  for (auto [epilogue, place] : llvm::zip(epilogues, result.epilogues))
    if (auto error = find(epilogue.entry, place))
      return error;
  if (auto error = find(phases.back().entry, result.entry))
    return error;
  return find(result.info->prologue, result.prologue);
}

static llvm::Error splitPhases(ModuleOp module,
                               DiagnosticCollector &diagnostics) {
  PassManager manager(module.getContext());
  manager.addPass(createSplitPhases());
  if (failed(manager.run(module)))
    return diagnostics.takeError();
  return llvm::Error::success();
}

static std::atomic<uint64_t> numCompilations;

uint64_t tandem::getNumCompilations() { return numCompilations; }

/// Compiles the module's kernels for a registered target.
static llvm::Expected<TargetCode> compileFor(SessionModule &session,
                                             const TargetOptions &options) {
  ++numCompilations;
  const Target *target = findTarget(options.name);
  session.prepareFor(*target);
  auto code = target->compile(*session.module, options);
  if (code || session.diagnostics.isEmpty())
    return code;
  llvm::consumeError(code.takeError());
  return session.diagnostics.takeError(TandemErrorTarget);
}

/// Adds the code for the target of `options` and keeps the kernel in `entry`.
static llvm::Error addCode(SessionModule &session,
                           const CompileOptions &options,
                           const KernelEntry &entry,
                           KernelDescription &description,
                           CompiledKernel &result) {
  auto code = compileFor(session, {options.target, options.isa, options.width,
                                   /*wantsImage=*/bool(entry)});
  if (!code)
    return code.takeError();
  entry.write(result, code->image);
  result.code = std::move(code->host);
  if (result.code)
    return findCode(result);
  description.addImage(std::move(code->image));
  result.image = description.getInfo().images;
  return llvm::Error::success();
}

/// Refuses two arguments of the same name, which could not be told apart.
static llvm::Error checkNames(const tdm_kernel_info &info) {
  llvm::StringSet<> names;
  std::string repeated;
  auto add = [&](const auto &argument) {
    if (!names.insert(argument.name).second)
      repeated = argument.name;
  };
  llvm::for_each(getPlanes(info), add);
  llvm::for_each(getHypers(info), add);
  llvm::for_each(getIntegers(info), add);
  if (repeated.empty())
    return llvm::Error::success();
  return ErrorBuilder(TandemErrorGraph)
         << "kernel '" << Named{TDM_MESSAGE_GRAPH, info.graph}
         << "' takes two arguments named '" << Named{TDM_MESSAGE_ROLE, repeated}
         << "'; give each role a name of its own";
}

llvm::Error tandem::checkTarget(StringRef target) {
  registerAllTargets();
  if (findTarget(target))
    return llvm::Error::success();
  return ErrorBuilder(TandemErrorTarget)
         << "unknown target '" << Named{TDM_MESSAGE_TARGET, target}
         << "'; expected " + listTargets();
}

/// Compiles the program of a module and keeps the kernel in `entry`.
static llvm::Expected<std::unique_ptr<CompiledKernel>>
compileAndKeep(SessionModule &session, const CompileOptions &options,
               const KernelEntry &entry) {
  ModuleOp module = *session.module;
  if (llvm::Error error = lowerToKernel(module, options, session.diagnostics))
    return error;
  auto result = std::make_unique<CompiledKernel>();
  KernelOp kernel = *module.getOps<KernelOp>().begin();
  auto description = std::make_shared<KernelDescription>(
      kernel,
      options.strategyTitle.empty() ? options.strategy : options.strategyTitle);
  const tdm_kernel_info &info = description->getInfo();
  result->info = {description, &info};
  if (llvm::Error error = checkNames(info))
    return error;
  if (options.metrics && info.desc->workspace_doubles_per_chunk == 0)
    return ErrorBuilder(TandemErrorArgument)
           << "kernel '" << Named{TDM_MESSAGE_GRAPH, kernel.getSymName()}
           << "' stores no param by named updates, so that there is nothing to "
              "measure; compile it without metrics";
  std::string text;
  llvm::raw_string_ostream(text) << module;
  description->setIR(text);
  result->width = options.width;
  result->target = options.target;
  if (llvm::Error error = splitPhases(module, session.diagnostics))
    return error;
  description->addLaunches(*module.getOps<StepOp>().begin());
  if (llvm::Error error =
          addCode(session, options, entry, *description, *result))
    return error;
  return result;
}

llvm::Expected<std::unique_ptr<CompiledKernel>>
tandem::compileModule(SessionModule &session, const CompileOptions &options) {
  std::string text;
  llvm::raw_string_ostream(text) << *session.module;
  KernelEntry entry(std::move(text), options);
  if (auto kernel = entry.read())
    return kernel;
  return compileAndKeep(session, options, entry);
}

llvm::Expected<std::unique_ptr<CompiledKernel>>
tandem::compile(const CompileOptions &options) {
  if (llvm::Error error = checkTarget(options.target))
    return error;
  KernelEntry entry(options.graph, options);
  if (auto kernel = entry.read())
    return kernel;
  SessionModule session(options.graph, "graph");
  if (!session.module)
    return session.diagnostics.takeError();
  if (llvm::Error error = addStrategy(session, options))
    return error;
  return compileAndKeep(session, options, entry);
}

/// Returns an error if the kernel's text could not be parsed: packages keep the
/// text in the syntax of the compiler that wrote them.
static llvm::Error checkKernel(SessionModule &session) {
  if (session.module)
    return llvm::Error::success();
  auto error = std::make_unique<CompilerError>(
      CompilerError::from(session.diagnostics.takeError()));
  error->addText("; a package of an earlier version spells its kernel "
                 "otherwise: its code runs, but code for other targets takes "
                 "the graph, compiled again");
  return llvm::Error(std::move(error));
}

static std::vector<KernelTensor> copyTensors(const tdm_kernel_info &info) {
  std::vector<KernelTensor> tensors;
  for (const tdm_tensor_info &tensor : getTensors(info))
    tensors.push_back({tensor.role, tensor.storage, tensor.second_moment != 0});
  return tensors;
}

llvm::Expected<std::vector<KernelTensor>>
tandem::getTensors(const CompiledKernel &kernel) {
  if (kernel.info->num_tensors)
    return copyTensors(*kernel.info);
  // A package of an earlier compiler has only the kernel's text.
  SessionModule session(kernel.info->ir, "kernel");
  if (llvm::Error error = checkKernel(session))
    return error;
  KernelOp op = *session.module->getOps<KernelOp>().begin();
  return copyTensors(KernelDescription(op, /*strategy=*/"").getInfo());
}

llvm::Expected<Image> tandem::compileImage(const CompiledKernel &kernel,
                                           StringRef name) {
  if (llvm::Error error = checkTarget(name))
    return error;
  if (!findTarget(name)->hasImages())
    return ErrorBuilder(TandemErrorTarget)
           << "code for '" << Named{TDM_MESSAGE_TARGET, name}
           << "' stays in this process; an image is for " + listImageTargets();
  SessionModule session(kernel.info->ir, "kernel");
  if (llvm::Error error = checkKernel(session))
    return error;
  if (llvm::Error error = splitPhases(*session.module, session.diagnostics))
    return error;
  auto code = compileFor(session, {name.str(), "native", kernel.width});
  if (!code)
    return code.takeError();
  return std::move(code->image);
}

llvm::Expected<std::string> tandem::emitLLVMIR(const CompiledKernel &kernel,
                                               StringRef isa) {
  SessionModule session(kernel.info->ir, "kernel");
  if (llvm::Error error = checkKernel(session))
    return error;
  if (llvm::Error error = splitPhases(*session.module, session.diagnostics))
    return error;
  if (failed(lowerForCPU(*session.module, isa, kernel.width)))
    return session.diagnostics.takeError(TandemErrorTarget);
  return emitLLVMIR(*session.module, isa);
}
