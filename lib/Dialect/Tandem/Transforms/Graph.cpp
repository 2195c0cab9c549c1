//===- Graph.cpp - Queries about a graph ----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the analysis of source graphs.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "tandem/Support/CompilerError.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tandem;

bool tandem::isGraph(func::FuncOp function) {
  return !function.isExternal() &&
         llvm::any_of(function.getArguments(),
                      [](BlockArgument arg) { return bool(getRole(arg)); });
}

void tandem::keepKernel(ModuleOp module, StringRef name) {
  for (auto kernel : llvm::make_early_inc_range(module.getOps<KernelOp>()))
    if (!name.empty() && kernel.getSymName() != name)
      kernel.erase();
}

/// Finds the graph of a name, or returns an error.
static llvm::Expected<Program> findGraph(ArrayRef<func::FuncOp> graphs,
                                         StringRef name) {
  std::string known;
  for (func::FuncOp graph : graphs) {
    if (graph.getSymName() == name)
      return Program{graph, {}, {}};
    known += (known.empty() ? "'" : ", '") + graph.getSymName().str() + "'";
  }
  return ErrorBuilder(TandemErrorGraph)
         << "there is no graph '" << Named{TDM_MESSAGE_GRAPH, name}
         << "' (a function with tandem.role arguments); there are "
         << (known.empty() ? "none" : known);
}

llvm::Expected<Program> tandem::findProgram(ModuleOp module, StringRef strategy,
                                            StringRef function) {
  auto graphs = llvm::filter_to_vector(module.getOps<func::FuncOp>(), isGraph);
  auto kernels = llvm::to_vector(module.getOps<KernelOp>());
  auto steps = llvm::to_vector(module.getOps<StepOp>());
  if (!function.empty()) {
    auto found = findGraph(graphs, function);
    if (!found)
      return found.takeError();
    graphs = {found->graph};
    kernels.clear();
    steps.clear();
  }
  if (graphs.size() + kernels.size() + steps.size() != 1)
    return ErrorBuilder(TandemErrorGraph)
           << "expected one graph (a function with tandem.role arguments), one "
              "tandem.kernel or one tandem.step, found " +
                  Twine(graphs.size()) + " graphs, " + Twine(kernels.size()) +
                  " kernels and " + Twine(steps.size()) +
                  " steps; of several graphs give the name of one";
  if (!graphs.empty()) {
    if (strategy.empty())
      return ErrorBuilder(TandemErrorStrategy)
             << "graph '" << Named{TDM_MESSAGE_GRAPH, graphs[0].getSymName()}
             << "' needs a strategy: one of " +
                    listNames(getStrategiesFor(module)) +
                    ", or a file on the path";
    return Program{graphs[0], {}, {}};
  }
  Program program{{},
                  kernels.empty() ? KernelOp() : kernels[0],
                  steps.empty() ? StepOp() : steps[0]};
  if (!strategy.empty())
    return ErrorBuilder(TandemErrorStrategy)
           << (program.kernel ? "kernel '" : "step '")
           << Named{TDM_MESSAGE_GRAPH, program.kernel
                                           ? program.kernel.getSymName()
                                           : program.step.getSymName()}
           << "' has its storages; leave out the strategy '"
           << Named{TDM_MESSAGE_STRATEGY, strategy} << "'";
  return program;
}

SmallVector<BlockArgument> tandem::getUpdatedArguments(func::FuncOp function) {
  return llvm::to_vector(
      llvm::make_filter_range(function.getArguments(), [](BlockArgument arg) {
        RoleAttr role = getRole(arg);
        return role && role.isUpdated();
      }));
}

/// Returns the rank of a tensor, stored or not, or -1 for a scalar.
static int64_t getRank(BlockArgument argument) {
  Type type = argument.getType();
  if (auto stored = dyn_cast<StoredType>(type))
    type = stored.getLogical();
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getRank() : -1;
}

/// Verifies that every argument has a role, and that names do not repeat.
static LogicalResult verifyRoles(func::FuncOp function) {
  llvm::StringSet<> names;
  unsigned counts[getMaxEnumValForRoleKind() + 1] = {};
  for (BlockArgument argument : function.getArguments()) {
    RoleAttr role = getRole(argument);
    if (!role)
      return function.emitError("argument #")
             << argument.getArgNumber() << " has no "
             << TandemDialect::getRoleAttrName()
             << "; every argument of a graph needs one";
    if (!names.insert(role.getName().getValue()).second)
      return function.emitError("two arguments are named ")
             << role.getName() << "; role names must be unique";
    if (role.getPer() != Granularity::element &&
        (!role.isTensor() || getRank(argument) != 1))
      return function.emitError("argument ")
             << role.getName() << " has an entry per "
             << stringifyGranularity(role.getPer())
             << "; that is a tensor with one dimension, got "
             << argument.getType();
    ++counts[unsigned(role.getKind())];
  }
  for (RoleKind kind : {RoleKind::step, RoleKind::seed})
    if (counts[unsigned(kind)] > 1)
      return function.emitError("a graph has at most one ")
             << stringifyRoleKind(kind) << " argument, got "
             << counts[unsigned(kind)];
  // Under a strategy, an input may hold all that a pass saves.
  if (getUpdatedArguments(function).empty() &&
      !function->hasAttr(TandemDialect::getComputeAttrName()))
    return function.emitError("a graph needs a param or state to update, or an "
                              "output to write");
  return success();
}

/// Returns whether a tensor has an entry for each row or column, or is a
/// layer's matrix, in each of whose rows groups begin anew.
static bool hasRows(BlockArgument argument) {
  RoleAttr role = getRole(argument);
  if (!role)
    return false;
  return role.getPer() != Granularity::element ||
         (role.isOfLayer() && getRank(argument) == 2);
}

bool tandem::isMatrixGraph(func::FuncOp function) {
  // A reduction of some dimensions leaves an entry for each row or column.
  return llvm::any_of(function.getArguments(), hasRows) ||
         function
             .walk([](linalg::ReduceOp op) {
               auto type =
                   dyn_cast<RankedTensorType>(op->getResult(0).getType());
               return type && type.getRank() != 0 ? WalkResult::interrupt()
                                                  : WalkResult::advance();
             })
             .wasInterrupted();
}

/// Verifies that nothing reads the old value of a destination.
static LogicalResult verifyDestination(func::FuncOp function,
                                       BlockArgument argument, Value value) {
  for (OpOperand &use : value.getUses()) {
    if (auto decode = dyn_cast<DecodeOp>(use.getOwner())) {
      if (failed(verifyDestination(function, argument, decode.getResult())))
        return failure();
      continue;
    }
    auto loop = dyn_cast<linalg::LinalgOp>(use.getOwner());
    bool isInit = loop && loop.isDpsInit(&use) &&
                  loop.getMatchingBlockArgument(&use).use_empty();
    if (!isInit && !isa<tensor::DimOp>(use.getOwner()))
      return function.emitError("reads ")
             << stringifyRoleKind(getRole(argument).getKind()) << " "
             << getRole(argument).getName()
             << ", which is there to be written; what is read is an input, a "
                "param or a state";
  }
  return success();
}

static LogicalResult verifyDestinations(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (getRole(argument).isDestination() &&
        failed(verifyDestination(function, argument, argument)))
      return failure();
  return success();
}

/// Verifies that each tensor in a graph of matrices has two dimensions, or one
/// per row or column.
static LogicalResult verifyMatrices(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    RoleAttr role = getRole(argument);
    if (role.isTensor() && role.getPer() == Granularity::element &&
        getRank(argument) != 2)
      return function.emitError("the graph has rows and columns, but ")
             << role.getName() << " is " << argument.getType()
             << "; give it two dimensions, or say per = row or per = column";
  }
  return success();
}

/// Verifies a graph's name, which its kernel has in the code of every target.
static LogicalResult verifyName(func::FuncOp function) {
  auto isPlain = [](char c) {
    return llvm::isAlnum(c) || c == '_' || c == '$';
  };
  if (llvm::all_of(function.getSymName(), isPlain))
    return success();
  return function.emitError("graph '")
         << function.getSymName()
         << "' needs a name of letters, digits, _ and $, as symbols of every "
            "target have them";
}

/// Verifies that what a graph says to be visible is a new value that it
/// returns.
static LogicalResult verifyVisible(func::FuncOp function,
                                   ArrayRef<BlockArgument> updated) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto visible : function.getOps<VisibleOp>()) {
    auto place = llvm::find(updated, visible.getTensor());
    Value returned = terminator->getOperand(place - updated.begin());
    if (resolve(returned) != resolve(visible.getValue()))
      return visible.emitOpError("is of a value that the graph does not return "
                                 "as the new one of ")
             << getRole(*place).getName();
  }
  return success();
}

LogicalResult tandem::verifyGraph(func::FuncOp function) {
  if (failed(verifyName(function)))
    return failure();
  if (failed(verifyRoles(function)))
    return failure();
  if (isMatrixGraph(function) && failed(verifyMatrices(function)))
    return failure();
  if (failed(verifyDestinations(function)))
    return failure();
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError("a graph has one block; express control flow "
                              "with arith.select");
  SmallVector<BlockArgument> updated = getUpdatedArguments(function);
  if (function.getNumResults() != updated.size())
    return function.emitError("a graph returns the new value of each param, "
                              "state and output in argument order: expected ")
           << updated.size() << " results, got " << function.getNumResults();
  for (auto [argument, type] : llvm::zip(updated, function.getResultTypes()))
    if (argument.getType() != type)
      return function.emitError("the new value of ")
             << getRole(argument).getName() << " must be " << argument.getType()
             << " like the argument, got " << type;
  return verifyVisible(function, updated);
}

static BlockArgument addArgument(func::FuncOp function, unsigned place,
                                 Type type, RoleAttr role) {
  Builder builder(function.getContext());
  auto attributes = builder.getDictionaryAttr(
      builder.getNamedAttr(TandemDialect::getRoleAttrName(), role));
  (void)function.insertArgument(place, type, attributes, function.getLoc());
  return function.getArgument(place);
}

BlockArgument tandem::addTensor(func::FuncOp function, Type type,
                                RoleAttr role) {
  unsigned place = 0;
  for (BlockArgument argument : function.getArguments())
    if (getRole(argument).isTensor())
      place = argument.getArgNumber() + 1;
  return addArgument(function, place, type, role);
}

BlockArgument tandem::addScalar(func::FuncOp function, Type type,
                                RoleAttr role) {
  return addArgument(function, function.getNumArguments(), type, role);
}

SmallVector<std::pair<BlockArgument, Value>>
tandem::getNewParams(func::FuncOp function) {
  SmallVector<std::pair<BlockArgument, Value>> params;
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [argument, result] :
       llvm::zip(getUpdatedArguments(function), terminator->getOperands()))
    if (getRole(argument).getKind() == RoleKind::param)
      params.emplace_back(argument, result);
  return params;
}

void tandem::addResults(func::FuncOp function, ValueRange results) {
  Block &body = function.getBody().front();
  Operation *terminator = body.getTerminator();
  terminator->insertOperands(terminator->getNumOperands(), results);
  function.setType(FunctionType::get(function.getContext(),
                                     body.getArgumentTypes(),
                                     terminator->getOperandTypes()));
}

Value tandem::resolve(Value value) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto op = dyn_cast<linalg::LinalgOp>(argument.getOwner()->getParentOp());
      if (!op || isa<linalg::ReduceOp>(op))
        return value;
      value = op->getOperand(argument.getArgNumber());
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (auto decode = dyn_cast<DecodeOp>(op))
      value = decode.getStored();
    else if (auto encode = dyn_cast<EncodeOp>(op))
      value = encode.getValue();
    else if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
             linalgOp && !isa<linalg::ReduceOp>(op))
      value = linalgOp.getBlock()->getTerminator()->getOperand(
          cast<OpResult>(value).getResultNumber());
    else
      return value;
  }
}

/// Returns whether a value is uniform. \p known caches the answers for the
/// values that operands resolve to.
static bool isUniform(Value value, llvm::SmallDenseMap<Value, bool> &known) {
  value = resolve(value);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    RoleAttr role = getRole(argument);
    return role && !role.isTensor();
  }
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  auto isOfUniform = [&](Value operand) { return isUniform(operand, known); };
  bool result;
  if (isa<tensor::EmptyOp, tensor::DimOp, linalg::IndexOp>(op) ||
      op->getNumRegions() != 0)
    result = false;
  // A tensor's extents do not make its elements depend on the tensor.
  else if (auto splat = dyn_cast<tensor::SplatOp>(op))
    result = isOfUniform(splat.getInput());
  else
    result =
        isMemoryEffectFree(op) && llvm::all_of(op->getOperands(), isOfUniform);
  return known[value] = result;
}

bool tandem::isUniform(Value value) {
  llvm::SmallDenseMap<Value, bool> known;
  return ::isUniform(value, known);
}
