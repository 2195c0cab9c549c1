//===- Layers.cpp - The passes of a layer ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file reads layers and compiles their forward and backward passes.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Layers.h"
#include "Rules.h"
#include "StorageText.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Returns the name of the function whose saved tensors this one restores, or
/// null if it restores none.
static StringAttr getForwardName(func::FuncOp function) {
  auto forward = function->getAttrOfType<FlatSymbolRefAttr>(
      TandemDialect::getForwardAttrName());
  return forward ? forward.getAttr() : StringAttr();
}

static LayerFunction describe(func::FuncOp function) {
  LayerFunction result = {function.getSymName().str(), {}};
  for (BlockArgument argument : function.getArguments()) {
    RoleAttr role = getRole(argument);
    if (role && role.getKind() == RoleKind::output)
      result.outputs.push_back({role.getName().str(),
                                role.getConsumer() == Consumer::linear,
                                role.getFlow() == Flow::gradient});
  }
  return result;
}

static Named nameOf(func::FuncOp function) {
  return {TDM_MESSAGE_GRAPH, function.getSymName()};
}

/// Checks that there are one or two functions that restore saved tensors, and
/// that they restore those of the same forward pass.
static llvm::Error checkRestoring(MutableArrayRef<func::FuncOp> restoring) {
  if (restoring.empty())
    return ErrorBuilder(TandemErrorGraph)
           << "a layer has two functions, the backward pass with the "
              "attribute " +
                  TandemDialect::getForwardAttrName() + " = @name of the other";
  if (restoring.size() > 2)
    return ErrorBuilder(TandemErrorGraph)
           << "a layer has a backward pass and, after it, at most one function "
              "that computes its outputs again; '"
           << nameOf(restoring[2]) << "' is one more";
  StringAttr first = getForwardName(restoring.front());
  StringAttr last = getForwardName(restoring.back());
  if (first == last)
    return llvm::Error::success();
  return ErrorBuilder(TandemErrorGraph)
         << "'" << nameOf(restoring.front()) << "' restores what '"
         << Named{TDM_MESSAGE_GRAPH, first.getValue()} << "' saves, and '"
         << nameOf(restoring.back()) << "' what '"
         << Named{TDM_MESSAGE_GRAPH, last.getValue()}
         << "' does; a layer has one forward pass";
}

llvm::Error Layer::findFunctions(ModuleOp module) {
  auto graphs = llvm::filter_to_vector(module.getOps<func::FuncOp>(), isGraph);
  auto restoring = llvm::filter_to_vector(graphs, [](func::FuncOp function) {
    return bool(getForwardName(function));
  });
  if (llvm::Error error = checkRestoring(restoring))
    return error;
  StringAttr name = getForwardName(restoring.front());
  auto *forward = llvm::find_if(graphs, [&](func::FuncOp function) {
    return function.getSymNameAttr() == name;
  });
  if (forward == graphs.end())
    return ErrorBuilder(TandemErrorGraph)
           << "'" << nameOf(restoring.front()) << "' restores what '"
           << Named{TDM_MESSAGE_GRAPH, name.getValue()}
           << "' saves, but the module has no graph of this name";
  functions.push_back(describe(*forward));
  for (func::FuncOp function : restoring)
    functions.push_back(describe(function));
  return llvm::Error::success();
}

const LayerFunction *Layer::getFunction(LayerPass pass) const {
  auto index = static_cast<size_t>(pass);
  return index < functions.size() ? &functions[index] : nullptr;
}

/// Returns the names of the inputs of those functions that `counts` accepts,
/// each name once.
static SmallVector<StringRef>
getInputs(ModuleOp module, function_ref<bool(func::FuncOp)> counts) {
  SmallVector<StringRef> names;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isGraph(function) || !counts(function))
      continue;
    for (BlockArgument argument : function.getArguments()) {
      RoleAttr role = getRole(argument);
      if (role && role.getKind() == RoleKind::input &&
          !llvm::is_contained(names, role.getName().getValue()))
        names.push_back(role.getName());
    }
  }
  return names;
}

/// Refuses stored inputs that the layer's functions do not have.
static llvm::Error checkStored(StringRef layer, ArrayRef<StoredInput> stored,
                               ArrayRef<StringRef> inputs) {
  for (const StoredInput &input : stored)
    if (!llvm::is_contained(inputs, input.name))
      return ErrorBuilder(TandemErrorArgument)
             << "'" << Named{TDM_MESSAGE_GRAPH, layer} << "' has no input '"
             << Named{TDM_MESSAGE_ROLE, input.name}
             << "' that could be stored as "
             << Named{TDM_MESSAGE_STORAGE, input.storage} << "; its inputs are "
             << (inputs.empty() ? "none" : llvm::join(inputs, ", "));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

static llvm::Error addStored(SessionModule &session, OpBuilder &builder,
                             ArrayRef<StoredInput> stored) {
  for (const StoredInput &input : stored) {
    auto storage = parseStorage(session, input.storage);
    if (!storage)
      return storage.takeError();
    addRule(builder, RoleKind::input, input.name, *storage);
  }
  return llvm::Error::success();
}

/// Returns whether a rule stores outputs by their consumer or flow.
static bool isFlowRule(Operation &op) {
  auto rule = dyn_cast<AssignOp>(op);
  return rule && rule.getKind() == RoleKind::output &&
         (rule.getConsumer() || rule.getFlow());
}

llvm::Error Layer::makeEdges(SessionModule &session) {
  StringRef columns =
      options.columns.empty() ? options.elements : options.columns;
  const std::pair<Granularity, StringRef> formats[] = {
      {Granularity::element, options.elements},
      {Granularity::column, columns},
      {Granularity::row, "f32"}};
  for (auto [per, format] : formats) {
    auto storage = makeFloats(session, format);
    if (!storage)
      return storage.takeError();
    edges.emplace_back(per, *storage);
  }
  return llvm::Error::success();
}

void Layer::addEdges(OpBuilder &builder, RoleKind kind, StringRef name) const {
  for (auto [per, storage] : edges)
    addRule(builder, kind, name, storage, per);
}

/// Inserts the rules for stored inputs and for the layer's edges before the
/// recipe's own. Those for output edges go after the recipe's leading rules
/// that select outputs by consumer or flow.
llvm::Error Layer::addRecipe(SessionModule &session) {
  auto recipe = findRecipe(*session.module, options.recipe, options.path);
  if (failed(recipe))
    return session.diagnostics.takeError(TandemErrorStrategy);
  symbol = recipe->getSymName().str();
  if (llvm::Error error = makeEdges(session))
    return error;
  Block &rules = recipe->getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&rules);
  if (llvm::Error error = addStored(session, builder, options.stored))
    return error;
  addEdges(builder, RoleKind::input);
  Block::iterator first = builder.getInsertionPoint(), rest = first;
  while (rest != rules.end() && isFlowRule(*rest))
    ++rest;
  byFlow = rest != first;
  builder.setInsertionPoint(&rules, rest);
  addEdges(builder, RoleKind::output);
  return llvm::Error::success();
}

llvm::Error Layer::addPassRules(SessionModule &session,
                                const LayerFunction &function,
                                const LayerPassOptions &wanted) const {
  auto isThis = [&](func::FuncOp op) {
    return op.getSymName() == function.name;
  };
  if (llvm::Error error = checkStored(function.name, wanted.stored,
                                      getInputs(*session.module, isThis)))
    return error;
  auto recipe = session.module->lookupSymbol<StrategyOp>(symbol);
  OpBuilder builder = OpBuilder::atBlockBegin(&recipe.getBody().front());
  if (wanted.hasPlainOutputs)
    for (const LayerFunction::Output &output : function.outputs)
      addEdges(builder, RoleKind::output, output.name);
  return addStored(session, builder, wanted.stored);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<Layer>>
Layer::create(const LayerOptions &options) {
  if (llvm::Error error = checkTarget(options.target))
    return error;
  // The layer must not be destroyed before the session's lock is released.
  std::unique_ptr<Layer> layer(new Layer(options));
  SessionModule session(options.layer, "layer");
  if (!session.module)
    return session.diagnostics.takeError();
  ModuleOp module = *session.module;
  if (llvm::Error error = layer->findFunctions(module))
    return error;
  const LayerFunction &forward = layer->functions.front();
  if (llvm::Error error =
          checkStored(forward.name, options.stored,
                      getInputs(module, [](func::FuncOp) { return true; })))
    return error;
  if (llvm::Error error = layer->addRecipe(session))
    return error;
  if (options.keepsOutputs &&
      llvm::any_of(forward.outputs, [](const LayerFunction::Output &output) {
        return output.isForLinear;
      })) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    KeepOutputsOp::create(builder, builder.getUnknownLoc(), forward.name);
  }
  layer->module = std::move(session.module);
  return layer;
}

Layer::~Layer() {
  std::lock_guard<std::mutex> lock(Session::get().mutex);
  module = nullptr;
}

/// Refuses gradients stored with scales from earlier steps.
static llvm::Error checkGradients(const tdm_kernel_info &info) {
  for (const tdm_plane_desc &plane : getPlanes(info))
    if (plane.kind == TDM_ROLE_OUTPUT && plane.persistent)
      return ErrorBuilder(TandemErrorStrategy)
             << "recipe '" << Named{TDM_MESSAGE_STRATEGY, info.strategy}
             << "' keeps scales of the gradient '"
             << Named{TDM_MESSAGE_ROLE, plane.role}
             << "' from step to step, and a backward pass has no place for "
                "them; give tandem.assign output flow(gradient) a storage "
                "without history";
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<CompiledKernel>>
Layer::compile(const LayerPassOptions &wanted) const {
  const LayerFunction *function = getFunction(wanted.pass);
  if (!function)
    return ErrorBuilder(TandemErrorGraph)
           << "layer '" << Named{TDM_MESSAGE_GRAPH, functions.front().name}
           << "' has no function that computes its outputs again; such a "
              "function comes after the backward pass, with the same " +
                  TandemDialect::getForwardAttrName();
  SessionModule session;
  session.module = module.get().clone();
  if (llvm::Error error = addPassRules(session, *function, wanted))
    return error;
  CompileOptions compileOptions;
  compileOptions.function = function->name;
  compileOptions.strategy = symbol;
  compileOptions.strategyTitle = options.recipe;
  compileOptions.target = options.target;
  compileOptions.isa = options.isa;
  auto kernel = compileModule(session, compileOptions);
  if (!kernel)
    return kernel.takeError();
  if (wanted.pass == LayerPass::backward)
    if (llvm::Error error = checkGradients(*(*kernel)->info))
      return error;
  return kernel;
}

llvm::Error tandem::checkRecipe(StringRef recipe, ArrayRef<std::string> path) {
  SessionModule session;
  session.module = ModuleOp::create(UnknownLoc::get(session.getContext()));
  return succeeded(findRecipe(*session.module, recipe, path))
             ? llvm::Error::success()
             : session.diagnostics.takeError(TandemErrorStrategy);
}
