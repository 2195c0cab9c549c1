//===- Interpret.cpp - Translation to results -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements --interpret: one step of a graph or kernel in the
// reference interpreter, on arrays from files.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Reference/Interpreter/Interpreter.h"
#include "tandem/Target/ArrayFile.h"
#include "tandem/Target/Translations.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;
namespace cl = llvm::cl;

namespace {
/// The options of --interpret, in addition to those of all translations.
struct InterpretOptions {
  cl::opt<std::string> arrays{
      "arrays", cl::desc("--interpret: planes to start from, .safetensors, "
                         ".npy or a directory of .npy files")};
  cl::opt<std::string> result{
      "result", cl::desc("--interpret: where the new planes are written")};
  cl::list<std::string> set{
      "set", cl::desc("--interpret: a hyperparameter, name=value")};
  cl::opt<int64_t> step{"step", cl::init(1), cl::desc("--interpret: the step")};
  cl::opt<uint64_t> seed{"seed", cl::init(0),
                         cl::desc("--interpret: the random seed")};
  cl::opt<uint32_t> key{"key", cl::init(0),
                        cl::desc("--interpret: the tensor's random key")};
  cl::opt<int64_t> first{
      "first", cl::init(0),
      cl::desc("--interpret: index of element 0 in the unsharded tensor")};
};
} // namespace

static InterpretOptions &getOptions() {
  static InterpretOptions options;
  return options;
}

/// Converts an array to a plane, with one word per element.
static PlaneData toPlane(const Array &array) {
  unsigned bytes = array.getElementSize();
  PlaneData plane{8 * bytes, {}, {array.shape.begin(), array.shape.end()}};
  for (int64_t i = 0, e = array.getNumElements(); i < e; ++i) {
    uint64_t word = 0;
    memcpy(&word, array.bytes.data() + i * bytes, bytes);
    plane.elements.push_back(word);
  }
  return plane;
}

static void fromPlane(const PlaneData &plane, Array &array) {
  unsigned bytes = array.getElementSize();
  for (auto [i, word] : llvm::enumerate(plane.elements))
    memcpy(array.bytes.data() + i * bytes, &word, bytes);
}

/// Sets the defaults of the hyperparameters, then the values given by --set.
static llvm::Error setHypers(ArrayRef<RoleAttr> roles, MachineState &state) {
  for (RoleAttr role : roles)
    if (role.getKind() == RoleKind::hyper && role.getDefaultValue())
      state.hypers[role.getName().str()] =
          role.getDefaultValue().getValueAsDouble();
  for (const std::string &setting : getOptions().set) {
    auto [name, text] = StringRef(setting).split('=');
    double value = 0;
    if (text.getAsDouble(value))
      return llvm::createStringError("--set=" + setting +
                                     ": expected name=number");
    bool isKnown = llvm::any_of(roles, [&, name = name](RoleAttr role) {
      return role.getKind() == RoleKind::hyper &&
             role.getName().getValue() == name;
    });
    if (!isKnown)
      return llvm::createStringError(
          "--set=" + setting + ": there is no hyperparameter '" + name + "'");
    state.hypers[name.str()] = value;
  }
  return llvm::Error::success();
}

static llvm::Error interpret(func::FuncOp graph, MachineState &state) {
  auto strategy = findStrategy(graph->getParentOfType<ModuleOp>(),
                               getStrategyOption(), getStrategyPathOption());
  if (failed(strategy))
    return llvm::createStringError("strategy '" + getStrategyOption() +
                                   "' cannot be interpreted");
  SmallVector<RoleAttr> roles;
  for (BlockArgument argument : graph.getArguments())
    if (RoleAttr role = getRole(argument))
      roles.push_back(role);
  if (llvm::Error error = setHypers(roles, state))
    return error;
  return interpretGraph(graph, *strategy, state);
}

/// Interprets a kernel or a step.
template <typename OpTy>
static llvm::Error interpret(OpTy op, llvm::Error (*run)(OpTy, MachineState &),
                             MachineState &state) {
  auto roles =
      llvm::to_vector(op.getScalarRoles().template getAsRange<RoleAttr>());
  if (llvm::Error error = setHypers(roles, state))
    return error;
  return run(op, state);
}

static llvm::Error interpretModule(ModuleOp module, MachineState &state) {
  PassManager manager(module.getContext());
  manager.addPass(createConnectSaves());
  manager.addNestedPass<func::FuncOp>(createConnectExternals());
  if (failed(manager.run(module)))
    return llvm::createStringError("the module's saves cannot be connected");
  auto program = findProgram(module, getStrategyOption(), getFunctionOption());
  if (!program)
    return program.takeError();
  if (program->graph)
    return interpret(program->graph, state);
  return program->kernel ? interpret(program->kernel, interpretKernel, state)
                         : interpret(program->step, interpretStep, state);
}

/// Prints one line for each plane: the bits of its elements in hexadecimal.
static void print(const MachineState &state, raw_ostream &os) {
  for (const auto &[name, plane] : state.planes) {
    os << name << ":";
    for (uint64_t word : plane.elements)
      os << " " << llvm::format_hex(word, 2 + plane.width / 4);
    os << "\n";
  }
  if (state.flags)
    os << "flags: " << llvm::format_hex(state.flags, 0) << "\n";
}

static llvm::Error run(ModuleOp module, raw_ostream &os) {
  InterpretOptions &options = getOptions();
  if (options.arrays.empty())
    return llvm::createStringError("--interpret needs --arrays, the planes to "
                                   "start from");
  auto arrays = readArrays(options.arrays);
  if (!arrays)
    return arrays.takeError();
  MachineState state;
  for (const auto &[name, array] : *arrays)
    state.planes[name] = toPlane(array);
  state.step = options.step;
  state.seed = options.seed;
  state.key = options.key;
  state.first = options.first;
  if (llvm::Error error = interpretModule(module, state))
    return error;
  print(state, os);
  if (options.result.empty())
    return llvm::Error::success();
  for (auto &[name, array] : *arrays)
    fromPlane(state.planes[name], array);
  return writeArrays(options.result, *arrays);
}

void tandem::registerInterpretTranslation() {
  getOptions();
  TranslateFromMLIRRegistration registration(
      "interpret",
      "run one step of a graph or kernel in the reference interpreter",
      [](ModuleOp module, raw_ostream &os) -> LogicalResult {
        llvm::Error error = run(module, os);
        if (!error)
          return success();
        return emitError(module.getLoc(), llvm::toString(std::move(error)));
      },
      [](DialectRegistry &registry) { registerAllDialects(registry); });
}
