//===- Interpret.cpp - The interpreter's C API ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the C API of the reference interpreter.
//
//===----------------------------------------------------------------------===//

#include "Failure.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "tandem-c/Reference.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Reference/Interpreter/Interpreter.h"
#include "tandem/Support/CompilerError.h"
#include "tandem/Support/ParseModule.h"
#include "tandem/Target/Compiler.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

namespace {
/// Keeps the first diagnostic that is emitted during its lifetime.
class FirstDiagnostic {
public:
  /// Gives the error this kind unless the diagnostic determines one.
  FirstDiagnostic(MLIRContext *context, TandemErrorKind kind)
      : error(kind), handler(context, [this](Diagnostic &diagnostic) {
          if (error.isEmpty())
            error.add(diagnostic, /*withPlace=*/false);
          return success();
        }) {}

  llvm::Error takeError() {
    return llvm::make_error<CompilerError>(std::move(error));
  }

private:
  CompilerError error;
  ScopedDiagnosticHandler handler;
};
} // namespace

/// Parses MLIR text. Diagnostics become the message of the error.
static llvm::Expected<OwningOpRef<ModuleOp>>
parse(MLIRContext &context, StringRef text, StringRef name) {
  FirstDiagnostic diagnostic(&context, TandemErrorGraph);
  auto module = parseModule(text, &context, name);
  if (!module)
    return diagnostic.takeError();
  return module;
}

static llvm::Error interpret(func::FuncOp graph, StringRef name,
                             const TandemInterpretOptions &options,
                             MachineState &state) {
  std::vector<std::string> directories;
  for (intptr_t i = 0; i < options.pathLength; ++i)
    directories.push_back(options.path[i]);
  FirstDiagnostic diagnostic(graph.getContext(), TandemErrorStrategy);
  auto strategy =
      findStrategy(graph->getParentOfType<ModuleOp>(), name, directories);
  if (failed(strategy))
    return diagnostic.takeError();
  return interpretGraph(graph, *strategy, state);
}

static llvm::Error interpret(Program program, StringRef strategy,
                             const TandemInterpretOptions &options,
                             MachineState &state) {
  if (program.kernel)
    return interpretKernel(program.kernel, state);
  if (program.step)
    return interpretStep(program.step, state);
  return interpret(program.graph, strategy, options, state);
}

static int64_t countElements(const TandemPlaneArray &array) {
  int64_t count = 1;
  for (intptr_t i = 0; i < array.rank; ++i)
    count *= array.shape[i];
  return count;
}

/// Reads a plane. The elements are packed in memory; each becomes one of the
/// interpreter's 64-bit words.
static PlaneData readPlane(const TandemPlaneArray &array) {
  PlaneData plane{unsigned(array.bits), {}, {}};
  plane.shape.assign(array.shape, array.shape + array.rank);
  unsigned bytes = array.bits / 8;
  for (int64_t i = 0, e = countElements(array); i < e; ++i) {
    uint64_t word = 0;
    memcpy(&word, static_cast<const char *>(array.data) + i * bytes, bytes);
    plane.elements.push_back(word);
  }
  return plane;
}

static void writePlane(const TandemPlaneArray &array, const PlaneData &plane) {
  unsigned bytes = array.bits / 8;
  for (int64_t i = 0, e = countElements(array); i < e; ++i)
    memcpy(static_cast<char *>(array.data) + i * bytes, &plane.elements[i],
           bytes);
}

using Planes = std::map<std::string, PlaneData>;

/// Writes only what has changed: planes that are only read may share memory
/// with others.
static void writeChanged(ArrayRef<TandemPlaneArray> arrays,
                         const Planes &before, const Planes &after) {
  for (const TandemPlaneArray &array : arrays)
    if (after.at(array.name).elements != before.at(array.name).elements)
      writePlane(array, after.at(array.name));
}

/// Lets the caller compute external steps on its arrays.
static void setExternal(const TandemInterpretOptions &options,
                        ArrayRef<TandemPlaneArray> arrays,
                        MachineState &state) {
  if (!options.external)
    return;
  state.external = [&options, arrays, before = state.planes](
                       StringRef name, MachineState &now) -> llvm::Error {
    writeChanged(arrays, before, now.planes);
    if (!options.external(options.externalHost, name.str().c_str()))
      return ErrorBuilder(TandemErrorArgument)
             << "the external step '" + name + "' failed; the host knows why";
    for (const TandemPlaneArray &array : arrays)
      now.planes[array.name] = readPlane(array);
    return llvm::Error::success();
  };
}

static llvm::Error interpret(const TandemInterpretOptions &options,
                             ArrayRef<TandemPlaneArray> planes) {
  auto text = loadGraph(options.graph);
  if (!text)
    return text.takeError();
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  auto module = parse(context, *text, "graph");
  if (!module)
    return module.takeError();
  StringRef strategy = options.strategy ? options.strategy : "";
  PassManager manager(&context);
  manager.addPass(createConnectSaves());
  manager.addNestedPass<func::FuncOp>(createConnectExternals());
  if (failed(manager.run(**module)))
    return ErrorBuilder(TandemErrorGraph)
           << "the graph's saves cannot be connected";
  auto program =
      findProgram(**module, strategy, options.function ? options.function : "");
  if (!program)
    return program.takeError();
  MachineState state;
  for (const TandemPlaneArray &plane : planes)
    state.planes[plane.name] = readPlane(plane);
  Planes before = state.planes;
  setExternal(options, planes, state);
  for (intptr_t i = 0; i < options.numHypers; ++i)
    state.hypers[options.hypers[i].name] = options.hypers[i].value;
  state.step = options.step;
  state.seed = options.seed;
  state.key = options.key;
  state.first = options.first;
  if (llvm::Error error = interpret(*program, strategy, options, state))
    return error;
  writeChanged(planes, before, state.planes);
  if (options.flags)
    *options.flags = state.flags;
  return llvm::Error::success();
}

bool tandemInterpret(const TandemInterpretOptions *options,
                     const TandemPlaneArray *planes, intptr_t numPlanes) {
  llvm::Error error = interpret(*options, {planes, size_t(numPlanes)});
  if (!error)
    return true;
  setLastError(std::move(error), TandemErrorArgument);
  return false;
}
