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
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Support/Library.h"
#include "tandem/Support/ParseModule.h"
#include "tandem/Target/PTX.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include <mutex>

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// The process's MLIR context, kept warm between compilations.
class Session {
public:
  static Session &get() {
    // Never destroyed: code may be compiled while the process shuts down.
    static Session *session = new Session();
    return *session;
  }

  std::mutex mutex;
  MLIRContext context{MLIRContext::Threading::DISABLED};

private:
  Session() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
};

/// Gathers the errors that are emitted while it lives.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            add(diagnostic);
          return success();
        }) {}

  llvm::Error takeError() {
    return llvm::createStringError(text.empty() ? "compilation failed" : text);
  }

private:
  void add(Diagnostic &diagnostic) {
    llvm::raw_string_ostream stream(text);
    if (!text.empty())
      stream << "\n";
    // Line 0 stands for all of the text.
    if (auto location = dyn_cast<FileLineColLoc>(diagnostic.getLocation());
        location && location.getLine())
      stream << location.getFilename().getValue() << ":" << location.getLine()
             << ":" << location.getColumn() << ": ";
    stream << diagnostic;
  }

  std::string text;
  ScopedDiagnosticHandler handler;
};

/// A module of the session's context, which nobody else uses meanwhile.
struct Parsed {
  Parsed(StringRef text, StringRef name)
      : lock(Session::get().mutex), diagnostics(&Session::get().context),
        module(parseModule(text, &Session::get().context, name)) {}

  std::lock_guard<std::mutex> lock;
  DiagnosticCollector diagnostics;
  OwningOpRef<ModuleOp> module;
};
} // namespace

llvm::Expected<std::string> mlir::tandem::loadGraph(StringRef graph) {
  if (graph.contains('\n') || graph.contains("func.func"))
    return graph.str();
  if (graph.ends_with(".mlir")) {
    auto buffer = llvm::MemoryBuffer::getFile(graph);
    if (!buffer)
      return llvm::createStringError("cannot read graph '" + graph +
                                     "': " + buffer.getError().message());
    return (*buffer)->getBuffer().str();
  }
  for (ArrayRef<LibraryFile> files : {getBuiltinGraphs(), getBuiltinLayers()})
    if (auto text = findInLibrary(graph, {}, files))
      return text->text;
  return llvm::createStringError(
      "unknown graph '" + graph + "'; built-in ones are " +
      listNames(getBuiltinGraphs()) + " and, of layers, " +
      listNames(getBuiltinLayers()) +
      "; or give the path of an .mlir file, or MLIR text");
}

/// Brings the module's program to one kernel on planes.
static llvm::Error lowerToKernel(ModuleOp module, const CompileOptions &options,
                                 DiagnosticCollector &diagnostics) {
  auto program = findProgram(module, options.strategy, options.function);
  if (!program)
    return program.takeError();
  std::string name = program->graph ? program->graph.getSymName().str() : "";
  PassManager manager(module.getContext());
  KernelPipelineOptions pipeline;
  pipeline.metrics = options.metrics;
  pipeline.flags = options.flags;
  if (KernelOp kernel = program->kernel) {
    if (kernel.getWidth() != 1)
      return llvm::createStringError(
          "kernel '" + kernel.getSymName() +
          "' is widened already; compile it as it was before -tandem-widen");
    if (kernel.getReductions() ||
        !llvm::hasSingleElement(module.getOps<KernelOp>()))
      return llvm::createStringError(
          "the phases of kernel '" + kernel.getSymName() +
          "' are separated already; compile it as it was before "
          "-tandem-split-phases");
    buildLoweringPipeline(manager, pipeline);
  } else {
    auto strategy = findStrategy(module, options.strategy, options.path);
    if (failed(strategy))
      return diagnostics.takeError();
    pipeline.strategy = strategy->getSymName().str();
    buildKernelPipeline(manager, pipeline);
  }
  if (failed(manager.run(module)))
    return diagnostics.takeError();
  keepKernel(module, name);
  return llvm::Error::success();
}

/// Finds the code of each part.
static llvm::Error lookupCode(CompiledKernel &result) {
  const KernelSignature &signature = result.signature;
  auto find = [&](std::string symbol, void *&place) -> llvm::Error {
    auto address = result.code->lookup(symbol);
    if (!address)
      return address.takeError();
    place = *address;
    return llvm::Error::success();
  };
  result.earlyEntries.resize(signature.phases.size() - 1);
  for (auto [phase, place] : llvm::enumerate(result.earlyEntries))
    if (auto error = find(getEntryName(getPhaseName(signature, phase)), place))
      return error;
  result.commits.resize(signature.commits.size());
  for (auto [per, place] : llvm::zip(signature.commits, result.commits))
    if (auto error = find(getEntryName(getCommitName(signature, per)), place))
      return error;
  if (auto error = find(getEntryName(signature.name), result.entry))
    return error;
  return find(getPrologueName(signature.name), result.prologue);
}

static llvm::Error splitPhases(ModuleOp module,
                               DiagnosticCollector &diagnostics) {
  PassManager manager(module.getContext());
  manager.addPass(createSplitPhases());
  if (failed(manager.run(module)))
    return diagnostics.takeError();
  return llvm::Error::success();
}

/// Brings kernels to functions for a CPU.
static llvm::Error lowerToCPU(ModuleOp module, StringRef isa, int64_t width,
                              DiagnosticCollector &diagnostics) {
  PassManager manager(module.getContext());
  CPUPipelineOptions pipeline;
  pipeline.width = width ? width : getDefaultWidth(isa);
  pipeline.halfConversions = hasHalfConversions(isa);
  buildCPUPipeline(manager, pipeline);
  if (failed(manager.run(module)))
    return diagnostics.takeError();
  return llvm::Error::success();
}

static llvm::Expected<std::string> emitPTX(ModuleOp module, StringRef chip,
                                           int64_t width,
                                           DiagnosticCollector &diagnostics) {
  auto parts = countRequired(module, chip);
  if (!parts)
    return parts.takeError();
  PassManager manager(module.getContext());
  NVVMPipelineOptions pipeline;
  if (width)
    pipeline.width = width;
  pipeline.chip = chip.str();
  buildNVVMPipeline(manager, pipeline);
  if (failed(manager.run(module)))
    return diagnostics.takeError();
  return translateToPTX(module, *parts, chip, pipeline.width);
}

/// Adds the code for the target of `options`.
static llvm::Error addCode(ModuleOp module, const CompileOptions &options,
                           DiagnosticCollector &diagnostics,
                           CompiledKernel &result) {
  if (options.target != "cpu") {
    auto ptx = emitPTX(module, options.target, options.width, diagnostics);
    if (!ptx)
      return ptx.takeError();
    result.ptx = std::move(*ptx);
    return llvm::Error::success();
  }
  if (llvm::Error error =
          lowerToCPU(module, options.isa, options.width, diagnostics))
    return error;
  auto code = compileForCPU(module, options.isa);
  if (!code)
    return code.takeError();
  result.code = std::move(*code);
  return lookupCode(result);
}

/// Refuses two arguments of one name, which could not be told apart.
static llvm::Error checkNames(const KernelSignature &signature) {
  llvm::StringSet<> names;
  std::string repeated;
  auto add = [&](const std::string &name) {
    if (!names.insert(name).second)
      repeated = name;
  };
  for (const auto &plane : signature.planes)
    add(plane.name);
  for (const auto &hyper : signature.hypers)
    add(hyper.name);
  for (const auto &integer : signature.integers)
    add(integer.name);
  if (repeated.empty())
    return llvm::Error::success();
  return llvm::createStringError("kernel '" + signature.name +
                                 "' takes two arguments named '" + repeated +
                                 "'; give each role a name of its own");
}

llvm::Expected<std::unique_ptr<CompiledKernel>>
mlir::tandem::compile(const CompileOptions &options) {
  if (options.target != "cpu" && !isSupportedChip(options.target))
    return llvm::createStringError("unknown target '" + options.target +
                                   "'; expected cpu, " + listChips());
  Parsed parsed(options.graph, "graph");
  if (!parsed.module)
    return parsed.diagnostics.takeError();
  if (llvm::Error error =
          lowerToKernel(*parsed.module, options, parsed.diagnostics))
    return error;
  auto result = std::make_unique<CompiledKernel>();
  KernelOp kernel = *parsed.module->getOps<KernelOp>().begin();
  result->signature = KernelSignature::get(kernel, options.strategy);
  if (llvm::Error error = checkNames(result->signature))
    return error;
  if (options.metrics && result->signature.numMetrics == 0)
    return llvm::createStringError(
        "kernel '" + kernel.getSymName() +
        "' stores no param by named updates, so that there is nothing to "
        "measure; compile it without metrics");
  llvm::raw_string_ostream(result->kernelIR) << *parsed.module;
  result->width = options.width;
  result->target = options.target;
  if (llvm::Error error = splitPhases(*parsed.module, parsed.diagnostics))
    return error;
  result->signature.addParts(*parsed.module);
  if (llvm::Error error =
          addCode(*parsed.module, options, parsed.diagnostics, *result))
    return error;
  return result;
}

llvm::Expected<std::map<std::string, std::string>>
mlir::tandem::getStorages(const CompiledKernel &kernel) {
  Parsed parsed(kernel.kernelIR, "kernel");
  if (!parsed.module)
    return parsed.diagnostics.takeError();
  std::map<std::string, std::string> storages;
  KernelOp op = *parsed.module->getOps<KernelOp>().begin();
  for (unsigned i = 0; i < op.getNumTensors(); ++i)
    llvm::raw_string_ostream(storages[op.getTensorRole(i).getName().str()])
        << op.getTensorType(i).getStorage();
  return storages;
}

/// Brings a kernel to functions for a CPU again, and makes `emit` of them.
static llvm::Expected<std::string>
emitForCPU(const CompiledKernel &kernel, StringRef isa,
           llvm::Expected<std::string> (*emit)(ModuleOp, llvm::StringRef)) {
  Parsed parsed(kernel.kernelIR, "kernel");
  if (!parsed.module)
    return parsed.diagnostics.takeError();
  if (llvm::Error error = splitPhases(*parsed.module, parsed.diagnostics))
    return error;
  if (llvm::Error error =
          lowerToCPU(*parsed.module, isa, kernel.width, parsed.diagnostics))
    return error;
  return emit(*parsed.module, isa);
}

llvm::Expected<std::string>
mlir::tandem::compileImage(const CompiledKernel &kernel, StringRef target) {
  if (!isSupportedChip(target))
    return emitForCPU(kernel, target, emitSharedLibrary);
  Parsed parsed(kernel.kernelIR, "kernel");
  if (!parsed.module)
    return parsed.diagnostics.takeError();
  if (llvm::Error error = splitPhases(*parsed.module, parsed.diagnostics))
    return error;
  return emitPTX(*parsed.module, target, kernel.width, parsed.diagnostics);
}

llvm::Expected<std::string>
mlir::tandem::emitLLVMIR(const CompiledKernel &kernel, StringRef isa) {
  return emitForCPU(kernel, isa, emitLLVMIR);
}
